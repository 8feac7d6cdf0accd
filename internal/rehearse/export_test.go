package rehearse

import (
	"os"
	"slices"
	"testing"

	"weir/internal/config"
)

// Names are all drills of a file.
func Names(t *testing.T, path string) []string {
	t.Helper()
	return drillNames(runs(t, path, &Long))
}

// RunNames are the labs in which some drills of a file are made.
func RunNames(t *testing.T, path string, only []string) []string {
	t.Helper()
	var out []string
	for _, r := range runs(t, path, nil) {
		if slices.ContainsFunc(r.Acts, func(a Act) bool { return a.wanted(only) }) {
			out = append(out, r.Name)
		}
	}
	return out
}

func runs(t *testing.T, path string, long *Pace) []Run {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Parse(config.File{Name: path, Src: src})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	site, err := NewSite(cfg, Machine{})
	if err != nil {
		t.Fatal(err)
	}
	return Runs(site, long)
}
