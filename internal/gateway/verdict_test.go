package gateway

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/desired"
	"weir/internal/failover"
	"weir/internal/plan"
	"weir/internal/ruleset"
	"weir/internal/state"
)

func id(wan string, f failover.Family) failover.LineID { return failover.LineID{WAN: wan, Family: f} }

func TestFailoverConfigIsTheFiles(t *testing.T) {
	file := strings.Replace(twoLines, `wan "lte" { interface = "eth2" }`, `wan "lte" {
  interface = "eth2"
  probe {
    target = ["tcp://198.51.100.7:443", "dns://192.0.2.53/name.example"]
    every  = "1s"
  }
}`, 1)
	echo := func(addr string) []failover.Target {
		return []failover.Target{{Kind: failover.Echo, Addr: netip.MustParseAddr(addr)}}
	}
	c := mustParse(t, file+`
failover {
  prefer    = [wan.lte, wan.fiber]
  hold_down = "7s"
  probe {
    target = ["192.0.2.1", "2001:db8::1"]
    every  = "300ms"
    timeout = "2s"
  }
  degraded { loss = 35 }
}`)
	want := failover.Config{
		WANs: []failover.WAN{
			{Name: "fiber", Target4: echo("192.0.2.1"), Target6: echo("2001:db8::1"), Every: 300 * time.Millisecond, Timeout: 2 * time.Second},
			{Name: "lte", Target6: echo("2001:db8::1"), Every: time.Second, Timeout: 2 * time.Second, Target4: []failover.Target{
				{Kind: failover.TCP, Addr: netip.MustParseAddr("198.51.100.7"), Port: 443},
				{Kind: failover.DNS, Addr: netip.MustParseAddr("192.0.2.53"), Port: 53, Name: "name.example"},
			}},
		},
		Prefer: []string{"lte", "fiber"}, HoldDown: 7 * time.Second, Every: 300 * time.Millisecond,
		Degraded: failover.Thresholds{Loss: 35, Latency: 400 * time.Millisecond},
	}
	if d := cmp.Diff(want, failoverConfig(c), addrs); d != "" {
		t.Error(d)
	}
}

// actual is a kernel that holds what Build wants for s.
func actual(d desired.Desired) plan.Actual {
	var a plan.Actual
	for _, n := range d.Namespaces {
		m := plan.Namespace{Name: n.Name, Ours: true}
		for _, r := range n.Routes {
			m.Routes = append(m.Routes, plan.Route{Route: r, Proto: desired.RouteProto})
		}
		for _, r := range n.Rules {
			m.Rules = append(m.Rules, plan.Rule{Rule: r, Proto: desired.RouteProto})
		}
		for _, l := range n.Links {
			m.Links = append(m.Links, plan.Link{Name: l.Name, Up: true, Carrier: true})
		}
		a.Namespaces = append(a.Namespaces, m)
	}
	return a
}

// TestWhatIsInForceIsAdopted builds kernels from verdicts and reads these back.
func TestWhatIsInForceIsAdopted(t *testing.T) {
	c := mustParse(t, twoLines)
	index := map[string]uint8{"fiber": 3, "lte": 200}
	for _, tt := range []struct {
		name                       string
		use4, use6                 string
		fiber4, fiber6, lte4, lte6 bool
		want                       failover.Adoption
	}{
		{"all is well", "fiber", "fiber", true, true, true, true, failover.Adoption{Use4: "fiber", Use6: "fiber"}},
		{"failed over in IPv4", "lte", "fiber", false, true, true, true, failover.Adoption{Use4: "lte", Use6: "fiber", Down: []failover.LineID{id("fiber", 4)}}},
		{"no IPv6", "lte", "", true, false, true, false, failover.Adoption{Use4: "lte", Down: []failover.LineID{id("fiber", 6), id("lte", 6)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state.State{Index: index, Use4: tt.use4, Use6: tt.use6, ULA: netip.MustParsePrefix("fd12::/48"), WANs: map[string]state.WAN{
				"fiber": {V4: state.Line{Up: tt.fiber4}, V6: state.Line{Up: tt.fiber6}},
				"lte":   {V4: state.Line{Up: tt.lte4}, V6: state.Line{Up: tt.lte6}},
			}}
			got := adoption(c, index, actual(desired.Build(c, s)))
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if d := cmp.Diff(failover.Adoption{}, adoption(c, index, plan.Actual{Namespaces: []plan.Namespace{{}}})); d != "" {
		t.Error("from an empty kernel:", d)
	}
	foreign := plan.Actual{Namespaces: []plan.Namespace{{
		Routes: []plan.Route{{Route: desired.Route{Dst: default4, Link: "fiber"}, Proto: 3}},
		Rules:  []plan.Rule{{Rule: desired.Rule{Mark: 3, Mask: ruleset.MarkMask}, Proto: 3}},
	}}}
	if d := cmp.Diff(failover.Adoption{}, adoption(c, index, foreign)); d != "" {
		t.Error("from what is somebody else's:", d)
	}
}

func TestForesee(t *testing.T) {
	c := mustParse(t, twoLines)
	ready := wan{present: true, carrier: true, lease: &lteLease, slaac: prefixes("2001:db8:2::5/64"), router6: true}
	down := func(w string) []failover.Line {
		return []failover.Line{{LineID: id(w, 4), Verdict: failover.Down}, {LineID: id(w, 6), Verdict: failover.Down}}
	}
	up := func(w string) []failover.Line {
		return []failover.Line{{LineID: id(w, 4), Verdict: failover.Up, Up: true}, {LineID: id(w, 6), Verdict: failover.Up, Up: true}}
	}
	for _, tt := range []struct {
		name       string
		status     failover.Status
		use4, use6 string
	}{
		{"nothing was judged yet", failover.Status{}, "fiber", "fiber"},
		{"the line in use stays, though another is preferred", failover.Status{Lines: up("lte"), Use4: failover.Choice{WAN: "lte"}, Use6: failover.Choice{WAN: "lte"}}, "lte", "lte"},
		{"a line that is down is not taken", failover.Status{Lines: down("fiber")}, "lte", "lte"},
		{"no line works", failover.Status{Lines: append(down("fiber"), down("lte")...)}, "", ""},
		{"the line in use is no longer in the file", failover.Status{Lines: up("dsl"), Use4: failover.Choice{WAN: "dsl"}}, "fiber", "fiber"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{wans: map[string]wan{"fiber": ready, "lte": ready}}.foresee(c, tt.status)
			if w.use4 != tt.use4 || w.use6 != tt.use6 {
				t.Errorf("uses %q and %q, want %q and %q", w.use4, w.use6, tt.use4, tt.use6)
			}
			for name, k := range map[string]bool{tt.use4: w.wans[tt.use4].up4, tt.use6: w.wans[tt.use6].up6} {
				if name != "" && !k {
					t.Errorf("%s is used and not up", name)
				}
			}
		})
	}
}
