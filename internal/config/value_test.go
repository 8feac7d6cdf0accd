package config

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNearest(t *testing.T) {
	for _, c := range []struct{ meant, want string }{
		{"fibre", "fiber"}, {"fbier", "fiber"}, {"fibe", "fiber"}, {"FIBER", "fiber"}, {"fiberr", "fiber"},
		{"lt", "lte"}, {"x", ""}, {"", ""}, {"cable", ""}, {"ntp-server", "ntp-servers"},
	} {
		if got := Nearest(c.meant, []string{"fiber", "lte", "nntp-server", "ntp-servers"}); got != c.want {
			t.Errorf("nearest to %q is %q, want %q", c.meant, got, c.want)
		}
	}
}

func TestDurations(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
	}{
		{"0s", 0}, {"250ms", 250 * time.Millisecond}, {"30s", 30 * time.Second}, {"5m", 5 * time.Minute}, {"12h", 12 * time.Hour},
		{"7d", 7 * 24 * time.Hour}, {"1d12h", 36 * time.Hour}, {"1m500ms", time.Minute + 500*time.Millisecond},
	} {
		if got, ok := parseDuration(c.text); !ok || got != c.want {
			t.Errorf("%s: %v, %v", c.text, got, ok)
		}
	}
	for _, bad := range []string{"", "s", "30", "1.5h", "-1s", "1s1m", "1s1s", "1 s", "1w", "1S", "99999999999d", "2147483647d2147483647h"} {
		if got, ok := parseDuration(bad); ok {
			t.Errorf("%q is taken for %v", bad, got)
		}
	}
}

func TestNoFiles(t *testing.T) {
	if cfg, diags := Parse(); cfg != nil || len(diags) != 1 || diags.Format(nil) == "" {
		t.Errorf("no files are %v, %v", cfg, diags)
	}
}

// TestZonesAreTheOnesGoKnows keeps zones.txt in step with the tz database of
// the Go that builds weir.
func TestZonesAreTheOnesGoKnows(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatalf("Go's tz database: %v", err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	if *update {
		if err := os.WriteFile("zones.txt", []byte(strings.Join(names, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	known := strings.Fields(zones)
	for _, n := range names {
		if !slices.Contains(known, n) {
			t.Errorf("zones.txt lacks %s; run with -update", n)
		}
	}
	if len(names) < 400 {
		t.Errorf("only %d zones found", len(names))
	}
}
