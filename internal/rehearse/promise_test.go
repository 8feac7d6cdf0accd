package rehearse

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

func TestTimelineString(t *testing.T) {
	line := &Timeline{}
	// From 0.2 s before to 0.6 s after the fault, lost from 0.05 to 0.25 s.
	for i := -20; i < 60; i++ {
		at := float64(i) / 100
		line.Beats = append(line.Beats, Beat{At: at + 0.001, OK: at < 0.05 || at > 0.25})
	}
	if got, want := line.String(), "──╎×××───"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// A minute's gap has a mark for each second.
	long := &Timeline{}
	for i := range 700 {
		at := float64(i)/10 - 1.95
		long.Beats = append(long.Beats, Beat{At: at, OK: at < 0 || at > 59.9})
	}
	if got, want := long.String(), "──╎"+strings.Repeat("×", 60)+" (a mark is 1 s)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for name, l := range map[string]*Timeline{"none": nil, "empty": {}} {
		if got := l.String(); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestBeats: a timeline goes on until the gap that the fault made is over, and has
// no more echoes for that.
func TestBeats(t *testing.T) {
	cut := time.Now()
	for _, c := range []struct{ lost, again, end time.Duration }{
		{0, 900 * time.Millisecond, 5 * time.Second},
		{0, time.Minute, time.Minute + 500*time.Millisecond},
		{10 * time.Second, 20 * time.Second, 5 * time.Second}, // of another fault
	} {
		var all []lab.Beat
		for at := -300 * time.Millisecond; at < 70*time.Second; at += 10 * time.Millisecond {
			b := lab.Beat{Sent: cut.Add(at), RTT: time.Millisecond}
			if at >= c.lost && at < c.again {
				b.RTT = 0
			}
			all = append(all, b)
		}
		got := beats(all, cut)
		last := got[len(got)-1].At
		if d := c.end.Seconds() - last; d < 0 || d > 0.2 || len(got) > shown+50 {
			t.Errorf("lost from %v to %v: %d echoes until %.2f s, want them until %v", c.lost, c.again, len(got), last, c.end)
		}
		tl := Timeline{Beats: got}
		if want := c.again.Seconds(); c.lost == 0 && (tl.lost() > want || tl.lost() < want-0.2) {
			t.Errorf("lost until %v is shown as until %.2f s", c.again, tl.lost())
		}
	}
}

func TestPromises(t *testing.T) {
	notice, gap := 0.85, 0.9
	r := &Report{OK: true, Labs: 1, Drills: []Result{{Drill: "dark/fiber/gap/IPv4", OK: true}}, Promises: []Promise{
		{Fault: "fiber goes dark", Notice: &notice, Gap: &gap, Reset: 3, Flows: 4, Asked: 300},
		{Fault: "fiber loses 30 %", Flows: 4, Unrelated: 2, Asked: 500},
	}}
	var out strings.Builder
	if err := r.Print(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"fiber goes dark       850 ms     900 ms   3 of 4        0 of 300\n",
		"fiber loses 30 %           -          -   0 of 4        2 of 500\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
}

// TestSVG: a picture is well formed, goes on until echoes are answered again, and
// has the promises beside it.
func TestSVG(t *testing.T) {
	line := &Timeline{From: "fiber", To: "lte"}
	for i := -20; i < 400; i++ {
		at := float64(i) / 100
		line.Beats = append(line.Beats, Beat{At: at, OK: at < 0 || at > 3.2})
	}
	notice, gap := 3.2, 3.21
	r := &Report{File: "<a&b>.hcl", Site: Picture{Gateway: "gw", Lines: []Drawn{{Name: "fiber"}}, LANs: []DrawnLAN{{Name: "home"}}},
		Drills:   []Result{{Drill: "uplink/fiber/gap", OK: true, About: "fiber carries nothing up", Timeline: line}},
		Promises: []Promise{{Fault: "fiber carries nothing up", Notice: &notice, Gap: &gap, Reset: 3, Flows: 4, Asked: 500}}}
	var out strings.Builder
	if err := r.SVG(&out); err != nil {
		t.Fatal(err)
	}
	var green, red int
	for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, &out)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "rect" {
			for _, a := range e.Attr {
				switch {
				case a.Name.Local != "class":
				case a.Value == "ok":
					green++
				case a.Value == "lost":
					red++
				}
			}
		}
	}
	if red != 321 || green < 20+40 {
		t.Errorf("%d lost and %d answered echoes, want 321, and some on either side", red, green)
	}
	for _, want := range []string{">3.5 s<", ">3 of 4<", ">0 of 500<", "uplink/fiber/gap"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
