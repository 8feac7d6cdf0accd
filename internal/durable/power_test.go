package durable_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"weir/internal/durable"
	"weir/internal/durable/durabletest"
)

// keepThrice keeps a file anew, says each time that it is kept, and removes it.
func keepThrice(t *testing.T, mistakes ...func(durable.Calls) durable.Calls) *durabletest.Recorder {
	t.Helper()
	dir := t.TempDir()
	rec, err := durabletest.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	disk := rec.Disk(mistakes...)
	for n := 1; n <= 3; n++ {
		if err := disk.Keep(filepath.Join(dir, "thing.json"), n); err != nil {
			t.Fatal(err)
		}
		rec.Mark()
	}
	if err := disk.Remove(filepath.Join(dir, "thing.json")); err != nil {
		t.Fatal(err)
	}
	rec.Mark()
	return rec
}

// oldOrNew: the value of the last mark, or of the next; 0 is no file.
func oldOrNew(dir string, c durabletest.Crash) string {
	values := []int{0, 1, 2, 3, 0, 0}
	got := 0
	if err := durabletest.Unsynced().Recover(filepath.Join(dir, "thing.json"), &got); err != nil || got != values[c.Marks] && got != values[c.Marks+1] {
		return fmt.Sprintf("it is %d after %d was kept, %v", got, c.Marks, err)
	}
	return ""
}

func TestPowerCut(t *testing.T) {
	tried, wrong := keepThrice(t).Cut(t, oldOrNew)
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d states after a power cut", tried)
	if tried < 30 {
		t.Error("too few")
	}
}

// TestPowerCutNoticesMistakes: each mistake in replacing a file is found.
func TestPowerCutNoticesMistakes(t *testing.T) {
	for name, m := range durabletest.Mistakes {
		_, wrong := keepThrice(t, m).Cut(t, oldOrNew)
		if found := len(wrong) > 0; found != (name != "forgets to sync what it appended") { // nothing is
			t.Errorf("a layer that %s: %q", name, wrong)
		}
	}
}
