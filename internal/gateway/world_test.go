package gateway

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/plan"
	"weir/internal/state"
	"weir/internal/wan/dhcp6"
)

// twoLines is a house with a static line and one that gets its addresses.
const twoLines = `
wan "fiber" {
  interface = "eth1"
  ipv4 {
    address = "198.51.100.10/24"
    gateway = "198.51.100.1"
  }
  ipv6 {
    address = "2001:db8:1::10/64"
    gateway = "fe80::1"
  }
}
wan "lte" { interface = "eth2" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["172.31.0.23", "fd00::23"]
  }
}
forward "web" {
  port = [80, "8000-8009"]
  to   = host.nas
}
`

func mustParse(t *testing.T, text string) *config.Config {
	t.Helper()
	files := []config.File{{Name: "test.hcl", Src: []byte(text)}}
	c, diags := config.Parse(files...)
	if diags.HasErrors() {
		t.Fatal(diags.Format(files))
	}
	return c
}

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, p := range s {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

var addrs = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}

var lteLease = state.Lease4{
	Addr:   netip.MustParsePrefix("203.0.113.10/24"),
	Routes: []state.Route{{Dst: default4, Gateway: netip.MustParseAddr("203.0.113.1")}},
	DNS:    []netip.Addr{netip.MustParseAddr("203.0.113.53")},
	MTU:    1428,
}

func TestStateOfAHouse(t *testing.T) {
	c := mustParse(t, twoLines)
	w := world{
		house: house{ULA: netip.MustParsePrefix("fd12:3456:789a::/48"), Index: map[string]uint8{"fiber": 1, "lte": 2}},
		wans: map[string]wan{
			"fiber": {present: true, up4: true},
			"lte":   {present: true, lease: &lteLease, slaac: prefixes("2001:db8:2::5/64"), router6: true, up6: true},
		},
		use4: "fiber", use6: "lte",
	}
	want := state.State{
		ULA: w.house.ULA, Index: w.house.Index, Use4: "fiber", Use6: "lte",
		WANs: map[string]state.WAN{
			"fiber": {
				V4: state.Line{Addr: prefixes("198.51.100.10/24"), Routes: []state.Route{{Dst: default4, Gateway: netip.MustParseAddr("198.51.100.1")}}, Up: true},
				V6: state.Line{Addr: prefixes("2001:db8:1::10/64"), Routes: []state.Route{{Dst: default6, Gateway: netip.MustParseAddr("fe80::1")}}},
			},
			"lte": {
				V4:  state.Line{Addr: prefixes("203.0.113.10/24"), Routes: lteLease.Routes, DNS: lteLease.DNS},
				V6:  state.Line{Addr: prefixes("2001:db8:2::5/64"), Up: true},
				MTU: 1428,
			},
		},
	}
	if d := cmp.Diff(want, w.state(c), addrs); d != "" {
		t.Error(d)
	}
}

func TestWhatALineLacks(t *testing.T) {
	c := mustParse(t, twoLines)
	fiber, lte := *c.WAN("fiber"), *c.WAN("lte")
	noRoute := lteLease
	noRoute.Routes = []state.Route{{Dst: netip.MustParsePrefix("10.0.0.0/8")}}
	v4only := lte
	v4only.IPv6.Method = config.MethodNone
	for _, tt := range []struct {
		name       string
		c          config.WAN
		k          wan
		why4, why6 string
	}{
		{"a static line without its port", fiber, wan{}, "eth1 isn't there yet", "eth1 isn't there yet"},
		{"a static line with it", fiber, wan{present: true}, "", ""},
		{"no lease, no advertisement", lte, wan{present: true}, "no lease yet", "no router of the ISP has advertised itself yet"},
		{"a lease, and a prefix without a router", lte, wan{present: true, lease: &lteLease, slaac: prefixes("2001:db8::1/64")}, "", "no router offers itself as the default"},
		{"a lease without a default route", lte, wan{present: true, lease: &noRoute, slaac: prefixes("2001:db8::1/64"), router6: true}, "the lease has no default route", ""},
		{"a family that the file does not want", v4only, wan{present: true, lease: &lteLease, slaac: prefixes("2001:db8::1/64"), router6: true}, "", "the file wants no IPv6 here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ok4, why4 := complete4(tt.c, tt.k)
			ok6, why6 := complete6(tt.c, tt.k)
			if why4 != tt.why4 || why6 != tt.why6 {
				t.Errorf("lacks %q and %q, want %q and %q", why4, why6, tt.why4, tt.why6)
			}
			if ok4 != (tt.why4 == "") || ok6 != (tt.why6 == "") {
				t.Errorf("complete: %v, %v", ok4, ok6)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	c := mustParse(t, twoLines)
	d := desired.Build(c, state.State{})
	addr := func(link, p string, kernel, tentative bool) plan.Addr {
		return plan.Addr{Addr: desired.Addr{Link: link, Prefix: netip.MustParsePrefix(p)}, Kernel: kernel, Tentative: tentative}
	}
	route := func(link string, proto int) plan.Route {
		return plan.Route{Route: desired.Route{Dst: default6, Link: link}, Proto: proto}
	}
	a := plan.Actual{Namespaces: []plan.Namespace{
		{Name: "", Links: []plan.Link{{Name: "eth0", Index: 2}, {Name: "eth1", Index: 3}, {Name: "lte", Index: 9}}},
		{
			Name:  "wan-lte",
			Links: []plan.Link{{Name: "lan", Index: 1}, {Name: "eth2", Index: 4, MAC: "02:00:00:00:00:02", Up: true, Carrier: true}},
			Addrs: []plan.Addr{
				addr("eth2", "2001:db8:2::9/64", true, false),
				addr("eth2", "2001:db8:2::5/64", true, false),
				addr("eth2", "2001:db8:2::7/64", true, true),   // still being checked
				addr("eth2", "fe80::5/64", true, false),        // no use beyond the link
				addr("eth2", "2001:db8:9::1/64", false, false), // somebody's
				addr("lan", "2001:db8:7::1/64", true, false),
			},
			Routes: []plan.Route{route("lan", protoRA), route("eth2", protoRA)},
		},
	}}
	old := world{wans: map[string]wan{"lte": {lease: &lteLease, up4: true, confirm: 7, slaac: prefixes("2001:db8:77::1/64")}, "gone": {}}}
	got := old.observe(c, d, a)
	want := map[string]wan{
		"fiber": {present: true, carrier: true, dad6: true, port: link{name: "eth1"}, cable: link{name: "fiber"}}, // not moved to its namespace yet
		"lte": {
			present: true, carrier: true, port: link{"eth2", 4, "02:00:00:00:00:02"}, cable: link{name: "lte", index: 9},
			confirm: 7, lease: &lteLease, up4: true, slaac: prefixes("2001:db8:2::5/64", "2001:db8:2::9/64"), router6: true,
		},
	}
	if d := cmp.Diff(want, got.wans, cmp.AllowUnexported(wan{}, link{}), addrs); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]link{"home": {name: "eth0", index: 2}}, got.lans, cmp.AllowUnexported(link{})); d != "" {
		t.Error(d)
	}
	if len(old.wans) != 2 || old.wans["lte"].carrier {
		t.Error("the world before was changed")
	}
	a.Namespaces[1].Links[1].Carrier = false
	if old.observe(c, d, a).wans["lte"].carrier {
		t.Error("a link that is up and has no carrier has one")
	}
	a.Namespaces = a.Namespaces[:1]
	a.Namespaces[0].Links = nil
	if got := old.observe(c, d, a).wans["lte"]; got.present || got.router6 || got.slaac != nil {
		t.Errorf("with its port gone: %+v", got)
	}
}

func TestUsable(t *testing.T) {
	at := func(link, p string, tentative, failed bool) plan.Addr {
		return plan.Addr{Addr: desired.Addr{Link: link, Prefix: netip.MustParsePrefix(p)}, Tentative: tentative, DADFailed: failed}
	}
	for _, tt := range []struct {
		name string
		has  []plan.Addr
		want bool
	}{
		{"checked", []plan.Addr{at("eth1", "2001:db8::1/64", false, false), at("eth1", "2001:db8::2/64", false, false)}, true},
		{"one is being checked", []plan.Addr{at("eth1", "2001:db8::1/64", false, false), at("eth1", "2001:db8::2/64", true, false)}, false},
		{"somebody else has it", []plan.Addr{at("eth1", "2001:db8::1/64", false, true), at("eth1", "2001:db8::2/64", false, false)}, false},
		{"on another link", []plan.Addr{at("eth1", "2001:db8::1/64", false, false), at("eth2", "2001:db8::2/64", false, false)}, false},
		{"not there yet", nil, false},
	} {
		if got := usable(&plan.Namespace{Addrs: tt.has}, "eth1", prefixes("2001:db8::1/64", "2001:db8::2/64")); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestALeaseIsConfirmedAfterTheCarrierWasAway(t *testing.T) {
	k := wan{port: link{index: 4}}
	for i, step := range []struct {
		up      bool
		downs   uint32
		confirm uint64
	}{
		{true, 3, 0},  // the first look says nothing
		{true, 3, 0},  // still there
		{false, 4, 0}, // away: nobody could answer
		{false, 4, 0},
		{true, 4, 1}, // back
		{true, 5, 2}, // a blink between two looks
		{true, 5, 2},
	} {
		k = k.polled(step.up, step.downs)
		if k.confirm != step.confirm || k.carrier != step.up {
			t.Fatalf("look %d: %+v, want %+v", i+1, k, step)
		}
	}
	k.port.index = 9 // another port has the name
	if k = k.polled(true, 0); k.confirm != 2 {
		t.Error("the counter of another port was compared")
	}
}

// TestAdvertised: what the flags of the ISP's routers have the line ask for, and what
// is said where no address comes of it.
func TestAdvertised(t *testing.T) {
	c := mustParse(t, twoLines)
	d := desired.Build(c, state.State{})
	slaac := c.WANs[1]
	slaac.IPv6.Method = config.MethodSLAAC
	for _, s := range []struct {
		flags             plan.Link
		addr, info        bool
		says, saysOfSLAAC string
	}{
		{plan.Link{}, false, false, "no router of the ISP has advertised itself yet", "no router of the ISP has"},
		{plan.Link{Heard: true}, false, false, "no M, no O flag", "no M, no O flag"},
		{plan.Link{Heard: true, OtherRA: true}, false, true, "the O flag", "the O flag"},
		{plan.Link{Heard: true, Managed: true}, true, false, "no lease yet", "by DHCPv6 (the M flag)"},
		{plan.Link{Heard: true, Managed: true, OtherRA: true}, true, false, "no lease yet", "by DHCPv6 (the M flag)"},
	} {
		s.flags.Name, s.flags.Index, s.flags.Up, s.flags.Carrier = "eth2", 4, true, true
		w := world{}.observe(c, d, plan.Actual{Namespaces: []plan.Namespace{{Name: ""}, {Name: "wan-lte", Links: []plan.Link{s.flags}}}})
		k := w.wans["lte"]
		if got := dhcp6Config(c.WANs[1], k, house{}); got.Address != s.addr || got.Info != s.info {
			t.Errorf("%+v: asks for an address: %v, without a lease: %v", s.flags, got.Address, got.Info)
		}
		if _, why := complete6(c.WANs[1], k); !strings.Contains(why, s.says) {
			t.Errorf("%+v: the line lacks: %s", s.flags, why)
		}
		if _, why := complete6(slaac, k); !strings.Contains(why, s.saysOfSLAAC) {
			t.Errorf("%+v: with slaac the line lacks: %s", s.flags, why)
		}
		// A moment without the flags is another router's, as long as the port is the same.
		s.flags.Heard, s.flags.Managed, s.flags.OtherRA = false, false, false
		w = w.observe(c, d, plan.Actual{Namespaces: []plan.Namespace{{Name: ""}, {Name: "wan-lte", Links: []plan.Link{s.flags}}}})
		if now := w.wans["lte"]; now.managed != k.managed || now.other != k.other || now.heard != k.heard {
			t.Errorf("forgotten: %+v of %+v", now, k)
		}
	}
}

// What is told without a lease is the line's resolver, where no lease has one.
func TestResolverWithoutALease(t *testing.T) {
	c := mustParse(t, twoLines)
	told, leased := netip.MustParseAddr("2001:db8::53"), netip.MustParseAddr("2001:db8::54")
	k := wan{info6: &dhcp6.Info{DNS: []netip.Addr{told}}}
	for _, s := range []struct {
		lease *state.Lease6
		want  netip.Addr
	}{{nil, told}, {&state.Lease6{}, told}, {&state.Lease6{DNS: []netip.Addr{leased}}, leased}} {
		k.lease6 = s.lease
		if got := (world{wans: map[string]wan{"lte": k}}).state(c).WANs["lte"].V6.DNS; len(got) != 1 || got[0] != s.want {
			t.Errorf("with the lease %+v: %v, want %s", s.lease, got, s.want)
		}
	}
}

// TestManaged: with auto an address is asked for by DHCPv6 where a router says that
// there is one to be had, until the port is another one; with slaac never.
func TestManaged(t *testing.T) {
	c := mustParse(t, twoLines)
	d := desired.Build(c, state.State{})
	slaac := c.WANs[1]
	slaac.IPv6.Method = config.MethodSLAAC
	slaac.IPv6.Delegate = 0
	var w world
	step := func(index int, flag bool) world {
		return w.observe(c, d, plan.Actual{Namespaces: []plan.Namespace{
			{Name: ""}, {Name: "wan-lte", Links: []plan.Link{{Name: "eth2", Index: index, Up: true, Carrier: true, Managed: flag}}},
		}})
	}
	for i, s := range []struct {
		index      int
		flag, want bool
	}{{4, false, false}, {4, true, true}, {4, false, true}, {5, false, false}} {
		w = step(s.index, s.flag)
		k := w.wans["lte"]
		if got := dhcp6Config(c.WANs[1], k, house{}).Address; got != s.want {
			t.Errorf("step %d: asks for an address: %v", i, got)
		}
		if _, why := complete6(c.WANs[1], k); (why == "no lease yet") != s.want {
			t.Errorf("step %d: the line lacks: %s", i, why)
		}
		if wants6(slaac, k) {
			t.Errorf("step %d: with slaac something is asked for", i)
		}
	}
	// What is leased is the line's, after what the kernel made; alone it waits for
	// duplicate address detection.
	k := wan{slaac: prefixes("2001:db8:2::5/64"), lease6: &state.Lease6{Addr: []state.Leased6{{Prefix: prefixes("2001:db8:2::1000/128")[0]}}}}
	l := line6(c.WANs[1], k)
	if d := cmp.Diff(prefixes("2001:db8:2::5/64", "2001:db8:2::1000/128"), l.Addr, addrs); d != "" || len(l.Leased) != 1 {
		t.Error(d, l.Leased)
	}
	w.wans = map[string]wan{"lte": {lease6: k.lease6}}
	if w = step(4, true); !w.wans["lte"].dad6 {
		t.Error("a leased address is used before it is there")
	}
}

// TestAdvertisedDNS: resolvers of advertisements come and go as those say, and by their time.
func TestAdvertisedDNS(t *testing.T) {
	now := time.Now()
	w := world{wans: map[string]wan{"fiber": {}}}
	step := func(what string, at time.Duration, r kernel.Resolvers, news bool, want string) {
		t.Helper()
		w = w.outlived(now.Add(at))
		k, got := w.wans["fiber"].advertised6(r, now.Add(at))
		w.wans["fiber"] = k
		var has []string
		for _, d := range k.rdnss {
			has = append(has, d.addr.String())
		}
		if d := strings.Join(has, " "); d != want || got != news {
			t.Errorf("%s: %q, news %t; want %q", what, d, got, want)
		}
	}
	one, two := addresses("2001:db8::1"), addresses("2001:db8::2")
	step("one", 0, kernel.Resolvers{DNS: one, Lifetime: time.Minute}, true, "2001:db8::1")
	step("again", 30*time.Second, kernel.Resolvers{DNS: one, Lifetime: time.Minute}, false, "2001:db8::1")
	step("another, for ever", time.Minute, kernel.Resolvers{DNS: two, Lifetime: kernel.Forever}, true, "2001:db8::1 2001:db8::2")
	step("the first is over", 2*time.Minute, kernel.Resolvers{DNS: two, Lifetime: kernel.Forever}, false, "2001:db8::2")
	step("those of nobody", 2*time.Minute, kernel.Resolvers{DNS: addresses("ff02::1", "::1", "::"), Lifetime: time.Hour}, false, "2001:db8::2")
	step("one that can't be asked", 2*time.Minute, kernel.Resolvers{DNS: addresses("fe80::1"), Lifetime: time.Minute}, true, "2001:db8::2 fe80::1")
	step("three besides it", 2*time.Minute, kernel.Resolvers{DNS: addresses("2001:db8::3", "2001:db8::4"), Lifetime: time.Minute}, true, "2001:db8::2 fe80::1 2001:db8::3 2001:db8::4")
	step("no more", time.Hour, kernel.Resolvers{DNS: two}, true, "")
	step("and none again", time.Hour, kernel.Resolvers{DNS: two}, false, "")
	step("too many", time.Hour, kernel.Resolvers{DNS: addresses("2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"), Lifetime: time.Hour}, true, "2001:db8::1 2001:db8::2 2001:db8::3")
}

// TestUnaskedDNS: a resolver that is advertised by a link-local address is told of where it
// is the only one of a line whose own is wanted, and never asked.
func TestUnaskedDNS(t *testing.T) {
	const lines = "wan \"fiber\" { interface = \"eth1\" }\nlan \"home\" {\n  interface = \"eth0\"\n  address = \"172.31.0.1/24\"\n}\n"
	near := []advertisedDNS{{addr: addresses("fe80::53")[0]}}
	both := append(slices.Clone(near), advertisedDNS{addr: addresses("2001:db8::53")[0]})
	for _, tt := range []struct {
		what      string
		text      string
		k         wan
		forwarder bool
		told      bool
		asked     string
	}{
		{"the forwarder's", lines, wan{rdnss: near}, true, true, ""},
		{"from the root on", lines, wan{rdnss: near}, false, false, ""},
		{"upstream", lines + "dns { upstream = wan }\n", wan{rdnss: near}, false, true, ""},
		{"another upstream", lines + "dns { upstream = \"9.9.9.9\" }\n", wan{rdnss: near}, true, false, ""},
		{"a zone's", lines + "dns {\n  zone \"isp.example\" { forward = wan.fiber }\n}\n", wan{rdnss: near}, false, true, ""},
		{"beside another", lines, wan{rdnss: both}, true, false, "2001:db8::53"},
		{"beside one of DHCP", lines, wan{rdnss: near, lease: &state.Lease4{Addr: prefixes("198.51.100.10/24")[0], DNS: addresses("198.51.100.1")}}, true, false, "198.51.100.1"},
		{"none", lines, wan{}, true, false, ""},
	} {
		c := mustParse(t, tt.text)
		w := world{wans: map[string]wan{"fiber": tt.k}}
		notes := unasked(c, w, tt.forwarder)
		if got := len(notes) == 1 && strings.Contains(notes[0], "fe80::53"); got != tt.told || len(notes) > 1 {
			t.Errorf("%s: told %t, want %t: %q", tt.what, got, tt.told, notes)
		}
		known := w.state(c).WANs["fiber"]
		var asked []string
		for _, a := range slices.Concat(known.V4.DNS, known.V6.DNS) {
			asked = append(asked, a.String())
		}
		if got := strings.Join(asked, " "); got != tt.asked {
			t.Errorf("%s: asked %q, want %q", tt.what, got, tt.asked)
		}
	}
}
