package gateway

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "thing.json")
	var h struct{ Index map[string]uint8 }
	if err := kept(path, &h); err != nil || h.Index != nil {
		t.Fatalf("nothing is stored yet: %v, %v", h, err)
	}
	for k := range uint8(3) {
		want := h
		want.Index = map[string]uint8{"fiber": k}
		if err := keep(path, want); err != nil {
			t.Fatal(err)
		}
		got := h
		if err := kept(path, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Index, got.Index); d != "" {
			t.Error(d)
		}
	}
	if e, _ := os.ReadDir(dir); len(e) != 1 {
		t.Errorf("%d files, want the one", len(e))
	}
	write(t, path, `{"index": {"fiber": 1`)
	if err := kept(path, &h); err == nil {
		t.Error("half a file was read without an error")
	}
	if got := read(t, path+".bad"); got != `{"index": {"fiber": 1` {
		t.Errorf("moved aside: %q", got)
	}
	if err := kept(path, &h); err != nil {
		t.Errorf("the start after: %v", err)
	}
	if err := keep(filepath.Join(dir, "no", "such", "dir"), h); err == nil {
		t.Error("kept in a folder that is not there")
	}
}
