package desired_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/desired"
	"weir/internal/state"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func route(dst, via string) state.Route {
	r := state.Route{Dst: prefix(dst)}
	if via != "" {
		r.Gateway = netip.MustParseAddr(via)
	}
	return r
}

// TestLeaseRoutes: what a lease says of routes, and what its line's namespace
// gets; in whatever order the lease says it.
func TestLeaseRoutes(t *testing.T) {
	for _, c := range []struct {
		name  string
		addr  string
		lease []state.Route
		want  []string // dst, gateway, "onlink"
	}{
		{"a gateway on the link", "100.64.1.10/24", []state.Route{route("0.0.0.0/0", "100.64.1.1")},
			[]string{"0.0.0.0/0 100.64.1.1"}},
		{"a gateway off the link", "100.64.1.10/24", []state.Route{route("0.0.0.0/0", "10.1.2.3")},
			[]string{"0.0.0.0/0 10.1.2.3 onlink"}},
		{"an address alone", "100.64.1.10/32", []state.Route{route("0.0.0.0/0", "100.64.1.1")},
			[]string{"0.0.0.0/0 100.64.1.1 onlink"}},
		{"a host route to the gateway, then by it", "100.64.1.10/32", []state.Route{route("10.1.2.3/32", "0.0.0.0"), route("0.0.0.0/0", "10.1.2.3")},
			[]string{"10.1.2.3/32", "0.0.0.0/0 10.1.2.3 onlink"}},
		{"a classless route beside", "100.64.1.10/24", []state.Route{route("0.0.0.0/0", "100.64.1.1"), route("10.7.0.0/16", "100.64.1.7")},
			[]string{"10.7.0.0/16 100.64.1.7", "0.0.0.0/0 100.64.1.1"}},
		{"no default", "100.64.1.10/24", []state.Route{route("10.7.0.0/16", "100.64.1.7")},
			[]string{"10.7.0.0/16 100.64.1.7"}},
		{"what is connected, and a route said twice", "100.64.1.10/24", []state.Route{route("100.64.1.0/24", ""), route("0.0.0.0/0", "100.64.1.1"), route("0.0.0.0/0", "100.64.1.1")},
			[]string{"0.0.0.0/0 100.64.1.1"}},
		{"no address", "", []state.Route{route("0.0.0.0/0", "100.64.1.1")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, turned := range []bool{false, true} {
				cfg, s := house(t, "gateway")
				w := s.WANs["fiber"]
				w.V4.Addr = nil
				if c.addr != "" {
					w.V4.Addr = []netip.Prefix{prefix(c.addr)}
				}
				w.V4.Routes = slices.Clone(c.lease)
				if turned {
					slices.Reverse(w.V4.Routes)
				}
				s.WANs["fiber"] = w
				var got []string
				for _, r := range space(t, desired.Build(cfg, s), "wan-fiber").Routes {
					if r.Table != 0 || !r.Dst.Addr().Is4() {
						continue
					}
					line := []string{r.Dst.String()}
					if r.Gateway.IsValid() {
						line = append(line, r.Gateway.String())
					}
					if r.OnLink {
						line = append(line, "onlink")
					}
					got = append(got, strings.Join(line, " "))
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("turned round %v: - wanted, + built:\n%s", turned, d)
				}
			}
		})
	}
}

func space(tb testing.TB, d desired.Desired, name string) desired.Namespace {
	tb.Helper()
	for _, n := range d.Namespaces {
		if n.Name == name {
			return n
		}
	}
	tb.Fatalf("no namespace %q", name)
	return desired.Namespace{}
}

// TestVerdict: what a line's verdict changes, and what it leaves alone.
func TestVerdict(t *testing.T) {
	cfg, s := house(t, "gateway")
	up := desired.Build(cfg, s)
	w := s.WANs["fiber"]
	w.V4.Up = false
	s.WANs["fiber"] = w
	s.Use4 = "lte"
	down := desired.Build(cfg, s)

	if d := cmp.Diff(up.Namespaces[1:], down.Namespaces[1:], cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("a line's own namespace is not the verdict's business: its probes go on by its own routes:\n%s", d)
	}
	if d := cmp.Diff(up.Namespaces[0].Table, down.Namespaces[0].Table); d != "" {
		t.Errorf("nor is the ruleset:\n%s", d)
	}
	var changed []string
	lines := func(d desired.Desired) []string { return strings.Split(render(d), "\n") }
	was, is := lines(up), lines(down)
	for _, l := range was {
		if !slices.Contains(is, l) {
			changed = append(changed, "- "+l)
		}
	}
	for _, l := range is {
		if !slices.Contains(was, l) {
			changed = append(changed, "+ "+l)
		}
	}
	want := []string{
		"- route Dst=0.0.0.0/0 Gateway=172.31.1.1 Link=fiber Src=172.31.0.1",
		"- rule Pref=9213 Mark=257 Mask=1023 Table=87001",
		"- rule Pref=9469 Mark=1 Mask=1023 Table=87001",
		"+ route Dst=0.0.0.0/0 Gateway=172.31.1.3 Link=lte Src=172.31.0.1",
		"+ rule Pref=9213 Mark=257 Mask=1023 Action=1",
	}
	if d := cmp.Diff(want, changed); d != "" {
		t.Errorf("- wanted, + built:\n%s", d)
	}
}

// TestNoLine: with no line in use everybody is told at once.
func TestNoLine(t *testing.T) {
	cfg, s := house(t, "gateway")
	s.Use4, s.Use6 = "", ""
	n := 0
	for _, r := range desired.Build(cfg, s).Namespaces[0].Routes {
		if r.Table == 0 && r.Dst.Bits() == 0 {
			n++
			if r.Type != desired.Unreachable || r.Link != "" {
				t.Errorf("default route %+v", r)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d default routes, want one of each family", n)
	}
}

// TestRenewal: a new address is elements changed and no text.
func TestRenewal(t *testing.T) {
	cfg, s := house(t, "gateway")
	before := desired.Build(cfg, s)
	w := s.WANs["fiber"]
	w.V4.Addr = []netip.Prefix{prefix("100.64.1.77/24")}
	s.WANs["fiber"] = w
	after := desired.Build(cfg, s)
	for i := range before.Namespaces {
		if before.Namespaces[i].Table.Text != after.Namespaces[i].Table.Text {
			t.Errorf("the text of namespace %q changed", before.Namespaces[i].Name)
		}
	}
	var changed []string
	for i, set := range after.Namespaces[0].Table.Sets {
		if !slices.Equal(set.Elements, before.Namespaces[0].Table.Sets[i].Elements) {
			changed = append(changed, set.Name)
		}
	}
	if d := cmp.Diff([]string{"own4", "source4", "spoof4.fiber", "spoof4.lte", "wan4.fiber"}, changed); d != "" {
		t.Errorf("sets changed, - wanted, + did:\n%s", d)
	}
}

// TestMachineWithoutVLANs: what can't be made is left out, and said.
func TestMachineWithoutVLANs(t *testing.T) {
	cfg, s := house(t, "bridge")
	s.Machine = state.Machine{}
	d := desired.Build(cfg, s)
	for _, n := range d.Namespaces {
		for _, l := range n.Links {
			if l.Kind == desired.VLAN || l.Kind == desired.Bridge {
				t.Errorf("namespace %q has %+v", n.Name, l)
			}
		}
		for _, a := range n.Addrs {
			if !slices.ContainsFunc(n.Links, func(l desired.Link) bool { return l.Name == a.Link }) {
				t.Errorf("namespace %q has an address on a link it has not: %+v", n.Name, a)
			}
		}
	}
	for _, what := range []string{`lan "home"`, `lan "guest"`, `wan "fiber"`, `wan "cable"`} {
		if !slices.ContainsFunc(d.Notes, func(n string) bool { return strings.HasPrefix(n, what) }) {
			t.Errorf("no note about %s in %q", what, d.Notes)
		}
	}
}
