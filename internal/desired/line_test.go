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

// TestGrace: what waits for a line that was lost a moment ago is its TCP, as long
// as the line has an address to go on with.
func TestGrace(t *testing.T) {
	cfg, s := house(t, "gateway")
	pinned := func(s state.State) []desired.Rule {
		var out []desired.Rule
		for _, r := range desired.Build(cfg, s).Namespaces[0].Rules {
			if r.Mark == 1 {
				out = append(out, r)
			}
		}
		return out
	}
	line := func(l state.Line) state.State {
		w := s.WANs["fiber"]
		l.Routes = w.V4.Routes
		w.V4 = l
		s.WANs = map[string]state.WAN{"fiber": w, "lte": s.WANs["lte"]}
		return s
	}
	has := s.WANs["fiber"].V4.Addr
	for _, c := range []struct {
		name  string
		line  state.Line
		rules int
		proto uint8
	}{
		{"up", state.Line{Up: true, Addr: has}, 2, 0},
		{"up, whatever the grace", state.Line{Up: true, Grace: true, Addr: has}, 2, 0},
		{"lost a moment ago", state.Line{Grace: true, Addr: has}, 2, 6},
		{"lost", state.Line{Addr: has}, 1, 0},
		{"lost with its address", state.Line{Grace: true}, 1, 0},
	} {
		rules := pinned(line(c.line))
		if len(rules) != c.rules {
			t.Errorf("%s: %+v", c.name, rules)
		}
		for _, r := range rules {
			if !r.V6 && r.IPProto != c.proto || r.V6 && r.IPProto != 0 {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
	}
}

// TestMoves: which lines' flows follow when failover goes back.
func TestMoves(t *testing.T) {
	cfg, s := house(t, "gateway")
	if len(cfg.WANs) != 2 || cfg.WANs[1].Name != "lte" {
		t.Fatalf("the file has other lines now: %+v", cfg.WANs)
	}
	if m := desired.Build(cfg, s).Moves; m != nil {
		t.Errorf("nobody wants it: %+v", m)
	}
	cfg.WANs[1].Move = true
	if d := cmp.Diff([]desired.Move{{Cable: "lte", Mark: 2}, {Cable: "lte", Mark: 2, V6: true}}, desired.Build(cfg, s).Moves); d != "" {
		t.Error(d)
	}
	w := s.WANs["lte"]
	w.V4.Up = false
	s.WANs["lte"] = w
	if d := cmp.Diff([]desired.Move{{Cable: "lte", Mark: 2, V6: true}}, desired.Build(cfg, s).Moves); d != "" {
		t.Error("a line that is down has lost its flows anyhow:", d)
	}
	s.Use4, s.Use6 = "", "lte"
	if m := desired.Build(cfg, s).Moves; m != nil {
		t.Errorf("nothing preferred to it is used: %+v", m)
	}
	cfg.WANs[0].Move, cfg.WANs[1].Move = true, false
	if m := desired.Build(cfg, s).Moves; m != nil {
		t.Errorf("going over is not going back: %+v", m)
	}
	cfg.WANs[0].Move = false
	w = s.WANs["fiber"]
	w.V6.Hollow = true
	s.WANs["fiber"] = w
	if d := cmp.Diff([]desired.Move{{Cable: "fiber", Mark: 1, V6: true}}, desired.Build(cfg, s).Moves); d != "" {
		t.Error("what is on a hollow line is as good as ended:", d)
	}
	s.Use4, s.Use6 = "fiber", "fiber"
	if m := desired.Build(cfg, s).Moves; m != nil {
		t.Errorf("a hollow line that is used, for want of another, keeps its flows: %+v", m)
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
