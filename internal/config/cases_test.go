package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what Parse says now into the cases; then read the diff")

// TestCases reads testdata/cases: in each the files of a house, and under want
// all that is to be said about them.
func TestCases(t *testing.T) {
	paths, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var files []File
			want := -1
			for i, f := range a.Files {
				if f.Name == "want" {
					want = i
					continue
				}
				files = append(files, File{Name: f.Name, Src: f.Data})
			}
			cfg, diags := Parse(files...)
			got := diags.Format(files)
			if (cfg == nil) != diags.HasErrors() {
				t.Errorf("Config is nil: %v, and there are errors: %v", cfg == nil, diags.HasErrors())
			}
			if *update {
				if want < 0 {
					a.Files = append(a.Files, txtar.File{Name: "want"})
					want = len(a.Files) - 1
				}
				a.Files[want].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want < 0 {
				t.Fatal("the case has no want; run with -update, then read it")
			}
			if d := cmp.Diff(string(bytes.TrimSpace(a.Files[want].Data)), strings.TrimSpace(got)); d != "" {
				t.Errorf("messages (-want +got):\n%s", d)
			}
		})
	}
}
