package history

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/durable/durabletest"
	"weir/internal/state"
)

// three is a folder in which A, B and C were put in force, C on trial.
func three(t *testing.T) (Folder, Book, state.Force) {
	t.Helper()
	dir := Folder{Path: filepath.Join(t.TempDir(), "history"), Disk: durabletest.Unsynced()}
	var b Book
	var f state.Force
	for _, text := range []string{"A", "B", "C"} {
		old := b
		var trial *state.Trial
		if e, ok := b.Back(0); ok && text == "C" {
			trial = &state.Trial{Before: e.ID, Boot: "one", Until: time.Hour}
		}
		b = b.Put(entry(ByApply, text), trial)
		if err := dir.Save(old, b, func(force state.Force) error { f = force; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return dir, b, f
}

func TestFolderGivesBackWhatItKept(t *testing.T) {
	dir, want, f := three(t)
	got, damage := dir.Load(f)
	if len(damage) > 0 {
		t.Error(damage)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestPowerCut stops a change at each of its steps: the old file is in force, or
// the new one, and what can be rolled back to is there.
func TestPowerCut(t *testing.T) {
	dir, b, f := three(t)
	cut := errors.New("power cut")
	next := b.Confirmed().Put(entry(ByApply, "D"), nil)
	if err := dir.Save(b, next, func(state.Force) error { return cut }); !errors.Is(err, cut) {
		t.Fatal(err)
	}
	got, damage := dir.Load(f)
	if text := inForce(t, got); text != "C" || got.Trial == nil || len(damage) > 0 {
		t.Errorf("%s is in force, damage %v, trial %v; want C on trial", text, damage, got.Trial)
	}
	if _, err := os.Stat(dir.file(4)); err == nil {
		t.Error("what was written in vain is still there, and its number would be used again")
	}
}

// TestDamage flips each byte of each file, and cuts each at every length: it costs
// that entry alone, is said, and is kept aside.
func TestDamage(t *testing.T) {
	dir, want, f := three(t)
	for i, e := range want.Entries {
		path := dir.file(e.ID)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var broken [][]byte
		for at := range whole {
			flipped := append([]byte(nil), whole...)
			flipped[at] ^= 0x20
			broken = append(broken, flipped, whole[:at])
		}
		for _, bad := range broken {
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			got, damage := dir.Load(f)
			if len(got.Entries) != len(want.Entries)-1 || len(damage) != 1 {
				t.Fatalf("%q: %d entries and damage %v", bad, len(got.Entries), damage)
			}
			if _, ok := got.InForce(); ok != (i < 2) {
				t.Fatalf("%q of entry %d: something is in force: %v", bad, e.ID, ok)
			}
			if kept, err := os.ReadFile(path + ".bad"); err != nil || string(kept) != string(bad) {
				t.Fatalf("kept aside is %q, %v; want %q", kept, err, bad)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLostFile is a start whose file in force can't be read: the file of the start is
// taken if it says the same, or if nothing else is known; else the one before.
func TestLostFile(t *testing.T) {
	for _, c := range []struct {
		run    string
		before bool // the others can be read
		want   string
	}{
		{"C", true, "C"}, {"C", false, "C"}, {"A", true, "B"}, {"X", true, "B"}, {"X", false, "X"},
	} {
		dir, _, f := three(t)
		for id := uint64(1); id <= 3; id++ {
			if id == 3 || !c.before {
				if err := os.WriteFile(dir.file(id), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		b, _ := dir.Load(f)
		b, why := b.Start(entry(ByRun, c.run), state.Clock{Boot: "one"})
		if got := inForce(t, b); got != c.want || why == "" {
			t.Errorf("start with %s, the others there %v: %s is in force (%q), want %s", c.run, c.before, got, why, c.want)
		}
	}
}
