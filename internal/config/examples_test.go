package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExamplesPass(t *testing.T) {
	paths, err := filepath.Glob("../../examples/*.hcl")
	if err != nil || len(paths) < 3 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	for _, p := range paths {
		t.Run(filepath.Base(p), func(t *testing.T) {
			f := read(t, p)
			cfg, diags := Parse(f)
			if diags.HasErrors() || cfg == nil {
				t.Fatal(diags.Format([]File{f}))
			}
		})
	}
}

func read(t testing.TB, path string) File {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return File{Name: filepath.Base(path), Src: src}
}
