package history

import (
	"strings"
	"testing"
	"time"

	"weir/internal/state"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func entry(by, text string) Entry {
	return Entry{From: "/etc/weir.hcl", By: by, Since: noon, Files: []File{{Name: "weir.hcl", Text: text}}}
}

func inForce(t *testing.T, b Book) string {
	t.Helper()
	e, ok := b.InForce()
	if !ok {
		t.Fatal("no file is in force")
	}
	return e.Files[0].Text
}

// TestTheNewestWordCounts follows houses through starts, applies, trials and
// rollbacks; each step says which text is in force after it.
func TestTheNewestWordCounts(t *testing.T) {
	type step struct{ do, text, want string }
	for name, steps := range map[string][]step{
		"a start takes the file":                       {{"run", "A", "A"}},
		"started again":                                {{"run", "A", "A"}, {"run", "A", "A"}},
		"edited, then started":                         {{"run", "A", "A"}, {"run", "B", "B"}},
		"applied from elsewhere survives a restart":    {{"run", "A", "A"}, {"apply", "B", "B"}, {"run", "A", "B"}, {"run", "A", "B"}},
		"edited in place and applied":                  {{"run", "A", "A"}, {"apply", "B", "B"}, {"run", "B", "B"}},
		"applied from elsewhere, then the file edited": {{"run", "A", "A"}, {"apply", "B", "B"}, {"run", "C", "C"}},
		"rolled back survives a restart":               {{"run", "A", "A"}, {"apply", "B", "B"}, {"rollback", "", "A"}, {"run", "A", "A"}},
		"edited, applied, rolled back, started":        {{"run", "A", "A"}, {"apply", "B", "B"}, {"run", "B", "B"}, {"rollback", "", "A"}, {"run", "B", "A"}},
		"a start with another file can be rolled back": {{"run", "A", "A"}, {"run", "B", "B"}, {"rollback", "", "A"}},
		"rolled back twice":                            {{"run", "A", "A"}, {"apply", "B", "B"}, {"rollback", "", "A"}, {"rollback", "", "B"}},
		"applied twice the same":                       {{"run", "A", "A"}, {"apply", "B", "B"}, {"apply", "B", "B"}, {"rollback", "", "A"}},
		"a trial confirmed":                            {{"run", "A", "A"}, {"try", "B", "B"}, {"confirm", "", "B"}, {"late", "A", "B"}},
		"a trial through a kill":                       {{"run", "A", "A"}, {"try", "B", "B"}, {"run", "A", "B"}, {"confirm", "", "B"}, {"boot", "A", "B"}},
		"a trial that ends":                            {{"run", "A", "A"}, {"try", "B", "B"}, {"undo", "", "A"}, {"rollback", "", "B"}},
		"a trial whose end is missed by a kill":        {{"run", "A", "A"}, {"try", "B", "B"}, {"late", "A", "A"}},
		"a trial and a power cut":                      {{"run", "A", "A"}, {"try", "B", "B"}, {"boot", "A", "A"}},
		"a trial of what `weir run` names":             {{"run", "A", "A"}, {"try", "B", "B"}, {"run", "B", "B"}, {"boot", "B", "A"}, {"boot", "B", "A"}},
		"a trial, and the file edited then":            {{"run", "A", "A"}, {"try", "B", "B"}, {"boot", "C", "C"}},
		"a trial undone by hand":                       {{"run", "A", "A"}, {"try", "B", "B"}, {"rollback", "", "A"}, {"late", "A", "A"}},
		"two trials":                                   {{"run", "A", "A"}, {"try", "B", "B"}, {"confirm", "", "B"}, {"try", "C", "C"}, {"boot", "A", "B"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b Book
			clock := state.Clock{Wall: noon, Boot: "one", Up: time.Hour}
			for i, s := range steps {
				switch s.do {
				case "boot":
					clock.Boot, clock.Up, clock.Wall = clock.Boot+"'", time.Second, time.Unix(0, 0)
				case "late":
					clock.Up += time.Hour
				}
				switch s.do {
				case "run", "boot", "late":
					b, _ = b.Start(entry(ByRun, s.text), clock)
				case "apply":
					b = b.Put(entry(ByApply, s.text), nil)
				case "try":
					before, _ := b.Back(0)
					b = b.Put(entry(ByApply, s.text), &state.Trial{Before: before.ID, Boot: clock.Boot, Until: clock.Up + 5*time.Minute})
				case "confirm":
					b = b.Confirmed()
				case "undo":
					b, _ = b.Undone(clock.Wall)
				case "rollback":
					e, _ := b.Back(1)
					e.By = ByRollback
					b = b.Put(e, nil)
				}
				if got := inForce(t, b); got != s.want {
					t.Fatalf("step %d, %s %s: %s is in force, want %s", i+1, s.do, s.text, got, s.want)
				}
			}
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	for name, size := range map[string]int{"many small files": 10, "large files": 300 << 10, "files at the limit": 2 << 20} {
		t.Run(name, func(t *testing.T) {
			var b Book
			for i := range 300 {
				b = b.Put(entry(ByApply, strings.Repeat("#", size)+string(rune('A'+i))), nil)
			}
			var sum int
			for _, e := range b.Entries[:len(b.Entries)-2] {
				sum += e.size()
			}
			if len(b.Entries) > maxEntries+2 || sum > maxSize {
				t.Errorf("%d entries, %d bytes besides the last two", len(b.Entries), sum)
			}
			if len(b.Entries) < 2 {
				t.Error("what was in force before is not kept")
			}
			if last, _ := b.Back(0); last.ID != 300 {
				t.Errorf("number %d is in force, want 300", last.ID)
			}
		})
	}
}

// The clock set by years, either way, leaves a trial as it is; another boot ends it.
func TestTrialAndTheClock(t *testing.T) {
	trial := state.Trial{Before: 1, Boot: "a", Until: time.Hour}
	for _, years := range []int{-56, -10, 0, 10, 100} {
		now := state.Clock{Wall: time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC).AddDate(years, 0, 0), Boot: "a", Up: 59 * time.Minute}
		if got := trial.Left(now); got != time.Minute {
			t.Errorf("%d years away %v are left, want 1m", years, got)
		}
		now.Boot = "b"
		if got := trial.Left(now); got > 0 {
			t.Errorf("after another boot %v are left", got)
		}
	}
}
