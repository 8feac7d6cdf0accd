package rehearse

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
)

// A hold-down that is longer than anybody waits is left out aloud, and waited for in
// what takes minutes.
func TestLongHoldDown(t *testing.T) {
	src, err := os.ReadFile("testdata/routes.hcl")
	if err != nil {
		t.Fatal(err)
	}
	file := config.File{Name: "t.hcl", Src: []byte(strings.Replace(string(src), `hold_down = "2s"`, `hold_down = "1h"`, 1))}
	for _, long := range []*Pace{nil, &Long} {
		cfg, diags := config.Parse(file)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		site, err := NewSite(cfg, Machine{})
		if err != nil {
			t.Fatal(err)
		}
		runs := Runs(site, long)
		drills := drillNames(runs)
		for _, d := range []string{"dark/fiber/back", "dark/fiber/calm", "carrier/fiber/back", "route/tv/back/fiber/IPv4"} {
			if slices.Contains(drills, d) != (long != nil) {
				t.Errorf("long %t: %s is among the drills: %t", long != nil, d, long == nil)
			}
		}
		if said := slices.ContainsFunc(site.Omitted, func(o Omission) bool { return o.What == "a line's return" }); said == (long != nil) {
			t.Errorf("long %t: it is said that no return is waited for: %t", long != nil, said)
		}
		for _, d := range []string{"dark/fiber/gap/IPv4", "route/tv/without/fiber/IPv4"} {
			if !slices.Contains(drills, d) {
				t.Errorf("long %t: no drill %s", long != nil, d)
			}
		}
		for _, r := range runs {
			if r.Name == "dark-fiber" && (r.Takes > time.Hour) != (long != nil) {
				t.Errorf("long %t: dark-fiber takes about %v", long != nil, r.Takes)
			}
		}
	}
}
