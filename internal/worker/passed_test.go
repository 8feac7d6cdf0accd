package worker

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// socketful is what a test opens on a LAN.
type socketful struct {
	name    string
	stopped *[]string
}

func (s socketful) Stop() { *s.stopped = append(*s.stopped, s.name) }

// TestPorts: LANs come, keep what they have, get it anew and go; no file stays open
// that nobody took.
func TestPorts(t *testing.T) {
	var stopped []string
	p := Ports[socketful]{}
	file := func() *os.File {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	n := 0
	for _, s := range []struct {
		lans    string // each a LAN, "+" where sockets come
		files   int
		wrong   bool // open fails
		err     string
		stopped string
		left    string
	}{
		{lans: "home+ iot+", files: 4, left: "home1 iot2"},
		{lans: "home iot", left: "home1 iot2"},
		{lans: "home+ iot", files: 2, stopped: "home1", left: "home3 iot2"},
		{lans: "home", files: 1, stopped: "iot2", left: "home3"},
		{lans: "guest", err: "no sockets came", left: "home3"},
		{lans: "home guest+", files: 1, err: "of its 2 sockets 1 came", left: "home3"},
		{lans: "home guest+", files: 2, wrong: true, err: "by choice", left: "home3"},
		{lans: "", stopped: "home3"},
	} {
		stopped = nil
		var files []*os.File
		for range s.files {
			files = append(files, file())
		}
		var lans []Passed
		for _, l := range strings.Fields(s.lans) {
			name, comes := strings.CutSuffix(l, "+")
			w := Passed{LAN: name}
			if comes {
				w.Files = 2
			}
			lans = append(lans, w)
		}
		err := p.Take(lans, files, func(i int, mine []*os.File) (socketful, error) {
			for _, f := range mine {
				f.Close()
			}
			if len(mine) != 2 || s.wrong {
				return socketful{}, errors.New("by choice")
			}
			n++
			return socketful{lans[i].LAN + string(rune('0'+n)), &stopped}, nil
		})
		if s.err == "" && err != nil || s.err != "" && (err == nil || !strings.Contains(err.Error(), s.err)) {
			t.Errorf("%q: %v, want %q", s.lans, err, s.err)
		}
		for _, f := range files {
			if err := f.Close(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("%q: a file is still open", s.lans)
			}
		}
		var left []string
		for _, x := range p {
			left = append(left, x.name)
		}
		slices.Sort(left)
		if got := strings.Join(left, " "); got != s.left || strings.Join(stopped, " ") != s.stopped {
			t.Errorf("%q: left are %q, stopped %q; want %q, %q", s.lans, got, stopped, s.left, s.stopped)
		}
	}
}
