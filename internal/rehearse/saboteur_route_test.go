package rehearse_test

import (
	"fmt"
	"os"
	"testing"

	"weir/internal/rehearse"
)

const routes = "testdata/routes.hcl"

// routed are the saboteurs of routes, a lab each.
var routed = []stage{
	routing("routes", "nobody goes over", at(rehearse.Cut, freeze),
		"tv/without/fiber", "nas/without/fiber", "calls/without/lte", "mail/without/lte"),
	routing("routes", "nobody goes back", at(rehearse.Restored, freeze),
		"tv/back/fiber", "nas/back/fiber", "calls/without/lte", "mail/without/lte"),
	routing("calls", "nobody goes back to lte", at(rehearse.Restored, freeze), "calls/back/lte"),
	routing("mail", "the gateway does not go back", at(rehearse.Restored, freeze), "mail/back/lte"),
	routing("routes", "a kill-switch that leaks", at(rehearse.Cut, unroute("prerouting", "ether saddr { 02:00:00:00:00:77, 02:00:00:00:00:23 }")),
		"tv/without/fiber", "tv/back/fiber", "nas/without/fiber", "nas/back/fiber"),
	routing("routes", "routes that nobody keeps, and devices shut in",
		at(rehearse.Up, unroute("prerouting", "udp dport 5060"), unroute("output", "tcp dport 587"), refuse("forward", `ether saddr { 02:00:00:00:00:77, 02:00:00:00:00:23 } drop`)),
		"calls", "calls/back/lte", "mail", "mail/back/lte",
		"tv", "tv/without/fiber", "tv/back/fiber", "nas", "nas/without/fiber", "nas/back/fiber"),
}

// routing is a stage with one saboteur, which turns drills of routes red in both
// families.
func routing(only, name string, by rehearse.Saboteur, drills ...string) stage {
	var red []string
	for _, d := range drills {
		red = append(red, "route/"+d+"/IPv4", "route/"+d+"/IPv6")
	}
	return stage{routes, only, []saboteur{{name, by, red}}}
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

// TestRoutes: with nobody to spoil it every route is kept.
func TestRoutes(t *testing.T) {
	t.Parallel()
	r := try(t, rehearse.Options{Only: []string{"route"}}, routes)
	for _, d := range r.Drills {
		if !d.OK {
			t.Errorf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
		}
	}
}
