package rehearse

import (
	"os"
	"testing"

	"weir/internal/config"
)

// Names are all drills of a file.
func Names(t *testing.T, path string) []string {
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
	return drillNames(Runs(site, &Long))
}
