package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/durable"
	"weir/internal/durable/durabletest"
	"weir/internal/state"
)

// A day is what became of the file in force: who looks after each mark finds the
// file of one of the two marks around it.
type day struct {
	text  string // in force
	trial bool   // and waits for a confirmation
	boots string // what is in force after a boot
}

// live puts files in force and takes them back on a disk that is recorded, as the
// gateway does: at a start, for good, on trial, confirmed and not.
func live(t *testing.T, mistakes ...func(durable.Calls) durable.Calls) (*durabletest.Recorder, []day) {
	t.Helper()
	around := t.TempDir()
	rec, err := durabletest.Record(around)
	if err != nil {
		t.Fatal(err)
	}
	disk := rec.Disk(mistakes...)
	store, err := state.OpenOn(disk, filepath.Join(around, "state"))
	if err != nil {
		t.Fatal(err)
	}
	dir := Folder{Path: filepath.Join(around, "state", "history"), Disk: disk}
	var b Book
	days := []day{{}}
	save := func(next Book, boots string) {
		t.Helper()
		if err := dir.Save(b, next, func(f state.Force) error { return store.Put(state.KeepForce(f)) }); err != nil {
			t.Fatal(err)
		}
		b = next
		rec.Mark()
		days = append(days, day{inForce(t, b), b.Trial != nil, boots})
	}
	try := func(text string) Book {
		e, _ := b.Back(0)
		return b.Put(entry(ByApply, text), &state.Trial{Before: e.ID, Boot: "one", Until: time.Hour})
	}
	start, _ := b.Start(entry(ByRun, "A"), state.Clock{Boot: "one"})
	save(start, "A")
	save(b.Put(entry(ByApply, "B"), nil), "B")
	save(try("C"), "B")
	save(b.Confirmed(), "C")
	save(try("D"), "C")
	undone, _ := b.Undone(noon)
	save(undone, "C")
	// Too large to be kept together: at the last of them the oldest go.
	large := func(c string) string { return strings.Repeat("#", maxSize*6/10) + c }
	save(b.Put(entry(ByApply, large("E")), nil), large("E"))
	save(b.Put(entry(ByApply, large("F")), nil), large("F"))
	save(b.Put(entry(ByApply, "G"), nil), "G")
	save(b.Put(entry(ByApply, "H"), nil), "H")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return rec, days
}

// left compares what a power cut left with the days around it: as a look finds it,
// and as a boot does.
func left(dir string, days []day, marks int) string {
	around := [2]day{days[marks], days[min(marks+1, len(days)-1)]}
	disk := durabletest.Unsynced()
	k, _, err := state.Read(filepath.Join(dir, "state"))
	if err != nil {
		return err.Error()
	}
	folder := Folder{Path: filepath.Join(dir, "state", "history"), Disk: disk}
	b, damage := folder.Load(k.Force)
	var got day
	if e, ok := b.InForce(); ok {
		got = day{text: e.Files[0].Text, trial: b.Trial != nil}
	}
	if now := (day{got.text, got.trial, ""}); now != (day{around[0].text, around[0].trial, ""}) && now != (day{around[1].text, around[1].trial, ""}) || b.Lost != "" || damage != nil {
		return fmt.Sprintf("%.20q is in force, on trial %v, lost %q, damage %q", got.text, got.trial, b.Lost, damage)
	}
	b, _ = b.Start(entry(ByRun, "A"), state.Clock{Boot: "two"})
	e, _ := b.InForce()
	if text := e.Files[0].Text; text != around[0].boots && text != around[1].boots && !(around[0].boots == "" && text == "A") {
		return fmt.Sprintf("after a boot %.20q is in force", text)
	}
	if marks > 2 {
		if _, ok := b.Back(1); !ok {
			return "there is nothing to roll back to"
		}
	}
	if rest, _ := filepath.Glob(filepath.Join(dir, "state", "history", ".*")); len(rest) > 0 {
		return fmt.Sprintf("half a file stays: %q", rest)
	}
	return ""
}

// TestPowerCutAtEachCall: which file is in force, and whether it is on trial, is what
// it was or what it was to be, and after a boot a trial is over.
func TestPowerCutAtEachCall(t *testing.T) {
	rec, days := live(t)
	tried, wrong := rec.Cut(t, func(dir string, c durabletest.Crash) string { return left(dir, days, c.Marks) })
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d states after a power cut", tried)
	if tried < 200 {
		t.Error("too few")
	}
}

// TestPowerCutNoticesMistakes: each mistake of the layer below is found.
func TestPowerCutNoticesMistakes(t *testing.T) {
	for name, m := range durabletest.Mistakes {
		if name == durabletest.RenamesFirst {
			continue // harmless: nothing leads to an entry before it is whole
		}
		rec, days := live(t, m)
		_, wrong := rec.Cut(t, func(dir string, c durabletest.Crash) string { return left(dir, days, c.Marks) })
		if len(wrong) == 0 {
			t.Errorf("a layer that %s passes", name)
			continue
		}
		t.Logf("a layer that %s: %s", name, wrong[0])
	}
}

// TestDamageIsMetOnce: what was moved aside is not said again at the next start.
func TestDamageIsMetOnce(t *testing.T) {
	dir, _, f := three(t)
	if err := os.WriteFile(dir.file(2), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, damage := dir.Load(f); len(damage) != 1 {
		t.Errorf("damage %q, want that one file", damage)
	}
	if b, damage := dir.Load(f); len(damage) != 0 || len(b.Entries) != 2 {
		t.Errorf("met again: %q, %d entries", damage, len(b.Entries))
	}
}
