package named

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/foreign"
)

// fake is a named that refuses the first reload and takes the second, and notes both.
// A shell has no trap for a signal that it was started without, as by nohup.
const fake = `#!/usr/bin/env -S --default-signal=HUP sh
n=0
trap 'n=$((n+1)); echo $n >> "$(dirname "$0")/reloads"
if [ $n = 1 ]; then echo "general: error: reloading configuration failed: out of memory" >&2
else echo "general: info: reloading configuration succeeded" >&2; echo "general: notice: running" >&2; fi' HUP
trap 'exit 0' TERM
echo "general: notice: running" >&2
while :; do sleep 0.02; done
`

// TestReloadAgain: a reload that named refused is asked for again, though the files
// are the same by then.
func TestReloadAgain(t *testing.T) {
	dir := t.TempDir()
	prog := filepath.Join(dir, "named")
	if err := os.WriteFile(prog, []byte(fake), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	c := Config{Program: Program{Path: prog, Check: "/bin/true"}, Dir: filepath.Join(dir, "state"), Gateway: "gw", Domain: "local"}
	ctx := t.Context()
	s, err := open(ctx, c, silent, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.End()
	s.client.addr = "127.0.0.1:1" // nobody: zones are of no interest here
	c.LANs = []LAN{{Name: "lan"}}
	c.Unchecked = true
	for i, want := range []string{"1\n", "1\n2\n", "1\n2\n"} {
		_, err := s.take(ctx, c)
		if refused := err != nil && strings.Contains(err.Error(), "goes on by the configuration before"); refused != (i == 0) {
			t.Errorf("try %d: %v", i, err)
		}
		if b, _ := os.ReadFile(filepath.Join(dir, "reloads")); string(b) != want {
			t.Errorf("after try %d there were reloads %q, want %q", i, b, want)
		}
	}
}

// TestNoteAgain: what could not be noted on the disk is not taken for noted.
func TestNoteAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := &server{told: told{"local.": {"old"}}}
	put := []string{"new"}
	if err := s.note(Config{Dir: dir}, &zone{name: "local."}, put); err == nil {
		t.Fatal("there is no directory to write to, and no error")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.note(Config{Dir: dir}, &zone{name: "local."}, put); err != nil {
		t.Fatal(err)
	}
	if got, err := readTold(dir); err != nil || !slices.Equal(got["local."], put) {
		t.Errorf("noted is %v, %v", got, err)
	}
}

// TestMuchIsSaid: what is waited for has room, however much is said before it.
func TestMuchIsSaid(t *testing.T) {
	p := &process{Process: &foreign.Process{}, says: make(chan string, 64)}
	p.listen(strings.NewReader(strings.Repeat("general: info: linked to something\n", 1000)+"general: notice: running\n"), slog.New(slog.DiscardHandler))
	if err := p.ready(t.Context()); err != nil {
		t.Error(err)
	}
}
