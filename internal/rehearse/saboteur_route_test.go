package rehearse_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/rehearse"
)

const routes = "testdata/routes.hcl"

// routeSabotage are the saboteurs of testdata/routes.hcl, a lab each; red are
// all drills that they turn red, without their families, and no other.
var routeSabotage = []struct {
	name, only string
	by         rehearse.Saboteur
	red        []string
}{
	{"nobody goes over", "routes", at(rehearse.Cut, freeze),
		[]string{"tv/without/fiber", "nas/without/fiber", "calls/without/lte", "mail/without/lte"}},
	{"nobody goes back", "routes", at(rehearse.Restored, freeze),
		[]string{"tv/back/fiber", "nas/back/fiber", "calls/without/lte", "mail/without/lte"}},
	{"nobody goes back to lte", "calls", at(rehearse.Restored, freeze), []string{"calls/back/lte"}},
	{"the gateway does not go back", "mail", at(rehearse.Restored, freeze), []string{"mail/back/lte"}},
	{"a kill-switch that leaks", "routes", at(rehearse.Cut, unroute("prerouting", "ether saddr { 02:00:00:00:00:77, 02:00:00:00:00:23 }")),
		[]string{"tv/without/fiber", "tv/back/fiber", "nas/without/fiber", "nas/back/fiber"}},
	{"routes that nobody keeps, and devices shut in", "routes",
		at(rehearse.Up, unroute("prerouting", "udp dport 5060"), unroute("output", "tcp dport 587"), refuse("forward", `ether saddr { 02:00:00:00:00:77, 02:00:00:00:00:23 } drop`)),
		[]string{"calls", "calls/back/lte", "mail", "mail/back/lte",
			"tv", "tv/without/fiber", "tv/back/fiber", "nas", "nas/without/fiber", "nas/back/fiber"}},
}

func routeSaboteurs() rehearse.Saboteurs {
	out := rehearse.Saboteurs{}
	for _, s := range routeSabotage {
		out["route "+s.name] = s.by
	}
	return out
}

// unroute takes the marks off the first packets that match, after weir has set
// them: they leave as if there were no route.
func unroute(hook, match string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		kind := map[string]string{"prerouting": "filter", "output": "route"}[hook]
		text := fmt.Sprintf(`add table inet forgetful
add chain inet forgetful %[1]s { type %[2]s hook %[1]s priority -50; }
add rule inet forgetful %[1]s ct state new %[3]s ct mark set 0 meta mark set 0
`, hook, kind, match)
		if err := os.WriteFile("/run/lab/forgetful.nft", []byte(text), 0o600); err != nil {
			return err
		}
		_, err := b.Lab.Gateway().Run(bg, "nft", "-f", "/run/lab/forgetful.nft")
		return err
	}
}

// TestRouteSaboteurs turns drills of routes red, exactly those that a saboteur
// concerns, in both families; and none is left without one.
func TestRouteSaboteurs(t *testing.T) {
	needLab(t)
	never := map[string]bool{}
	for _, d := range rehearse.Names(t, routes) {
		if strings.HasPrefix(d, "route/") {
			never[d] = true
		}
	}
	if len(never) < 20 {
		t.Fatalf("only %d drills", len(never))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, s := range routeSabotage {
		wg.Go(func() {
			r, err := rehearsed(t.Context(), rehearse.Options{Only: []string{s.only}, Sabotage: []string{"route " + s.name}}, routes)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%s: %v", s.name, err)
				return
			}
			var want []string
			for _, d := range s.red {
				for _, f := range []string{"IPv4", "IPv6"} {
					want = append(want, fmt.Sprintf("route/%s/%s", d, f))
					delete(never, want[len(want)-1])
				}
			}
			slices.Sort(want)
			if got := red(r); !slices.Equal(got, want) {
				t.Errorf("%s: %s", s.name, cmp.Diff(want, got))
				for _, d := range r.Drills {
					if !d.OK && !slices.Contains(want, d.Drill) {
						t.Logf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
					}
				}
			}
		})
	}
	wg.Wait()
	for d := range never {
		t.Errorf("no saboteur turns %s red", d)
	}
}

// TestRoutes: with nobody to spoil it every route is kept.
func TestRoutes(t *testing.T) {
	r := try(t, rehearse.Options{Only: []string{"route"}}, routes)
	for _, d := range r.Drills {
		if !d.OK {
			t.Errorf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
		}
	}
}
