package gateway

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/dhcpd"
	"weir/internal/dhcpd6"
	"weir/internal/dns"
	"weir/internal/failover"
	"weir/internal/probe"
	"weir/internal/ra"
	"weir/internal/state"
	"weir/internal/wan/dhcp4"
)

func addresses(s ...string) []netip.Addr {
	out := make([]netip.Addr, len(s))
	for i, a := range s {
		out[i] = netip.MustParseAddr(a)
	}
	return out
}

func TestDHCP4Config(t *testing.T) {
	c := mustParse(t, `
wan "fiber" {
  interface = "eth1"
  ipv4 {
    client_id               = "hex:0102"
    hostname                = "box"
    ignore_classless_routes = true
  }
}
wan "lte" { interface = "eth2" }
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}`)
	k := wan{port: link{"eth1", 3, "02:00:00:00:00:01"}, confirm: 4, lease: &lteLease}
	want := dhcp4.Config{WAN: "fiber", Port: "eth1", MAC: "02:00:00:00:00:01", ClientID: "hex:0102", Hostname: "box", IgnoreClasslessRoutes: true, Last: &lteLease, Confirm: 4}
	if d := cmp.Diff(want, dhcp4Config(c, c.WANs[0], k), addrs); d != "" {
		t.Error(d)
	}
	// What is over by the clock is asked for again all the same (no clock chip).
	over := wan{port: k.port, last: &lteLease}
	if got := dhcp4Config(c, c.WANs[0], over).Last; got != &lteLease {
		t.Errorf("a stored lease that seems to be over: %+v", got)
	}
	if got := dhcp4Config(c, c.WANs[1], k).Hostname; got != "gw" {
		t.Errorf("unsaid, the host name is %q, want the gateway's", got)
	}
}

func TestProbeLines(t *testing.T) {
	c := mustParse(t, twoLines)
	c.WANs[1].IPv6.Method = "none"
	w, _ := house2()
	ids := map[failover.LineID]uint16{id("fiber", 4): 1, id("fiber", 6): 2, id("lte", 4): 3}
	of := func(l failover.LineID) uint16 { return ids[l] }
	want := []probe.Line{{WAN: "fiber", ID: 1}, {WAN: "fiber", IPv6: true, ID: 2}, {WAN: "lte", ID: 3}}
	if d := cmp.Diff(want, probeLines(c, w, of)); d != "" {
		t.Error(d)
	}
	k := w.wans["fiber"]
	k.cable.index = 0 // not there yet
	w.wans["fiber"] = k
	if d := cmp.Diff(want[2:], probeLines(c, w, of)); d != "" {
		t.Error(d)
	}
}

func TestRALANs(t *testing.T) {
	c := mustParse(t, twoLines+`
lan "guest" {
  interface = "eth3"
  address   = "10.0.9.1/24"
}
lan "quiet" {
  interface = "eth4"
  address   = ["10.0.8.1/24", "fd00:8::1/64"]
  advertise { enabled = false }
}
lan "said" {
  interface = "eth5"
  address   = ["10.0.7.1/24", "fd00:7::1/64"]
  reach     = [wan, lan.home]
  mtu       = 1400
  advertise {
    prefix             = "fd00:77::/64"
    dns                = "fd00:7::53"
    search             = "example.org"
    router_lifetime    = "10m"
    preferred_lifetime = "20m"
    valid_lifetime     = "40m"
    managed            = true
    other              = true
    pref64             = "64:ff9b::/96"
    captive_portal     = "https://portal.example/api"
  }
}
`)
	w, _ := house2()
	for _, l := range []string{"guest", "quiet", "said"} {
		w.lans[l] = link{l, 9, ""}
	}
	w.use6 = "fiber"
	life := ra.Lifetime{Router: 30 * time.Minute, Preferred: 45 * time.Minute, Valid: 90 * time.Minute}
	routes := func(s ...string) (out []ra.Route) {
		for _, p := range prefixes(s...) {
			out = append(out, ra.Route{Prefix: p})
		}
		return out
	}
	want := []ra.LAN{
		{
			Name: "home", Router: true, Prefixes: prefixes("fd00::/64"), DNS: addresses("fd00::1"), Search: []string{"home.arpa"},
			Lifetime: life, Routes: routes("fd12:3456:789a::/48", "fd00:8::/64", "fd00:7::/64"),
		},
		{
			Name: "guest", Router: true, Prefixes: prefixes("fd12:3456:789a:2::/64"), DNS: addresses("fd12:3456:789a:2::1"), Search: []string{"home.arpa"},
			Lifetime: life, Routes: routes("fd00::/64", "fd12:3456:789a::/48", "fd00:8::/64", "fd00:7::/64"),
		},
		{
			Name: "said", Router: true, Prefixes: prefixes("fd00:77::/64"), DNS: addresses("fd00:7::53"), Search: []string{"example.org"},
			Lifetime: ra.Lifetime{Router: 10 * time.Minute, Preferred: 20 * time.Minute, Valid: 40 * time.Minute},
			Managed:  true, Other: true, PREF64: netip.MustParsePrefix("64:ff9b::/96"), Portal: "https://portal.example/api",
			Link: ra.Link{MTU: 1400}, Routes: routes("fd00::/64", "fd12:3456:789a::/48"),
		},
	}
	if d := cmp.Diff(want, raLANs(c, w), addrs); d != "" {
		t.Error(d)
	}
	w.use6 = ""
	for _, l := range raLANs(c, w) {
		if l.Router {
			t.Errorf("lan %s: no line carries IPv6, and the router is advertised", l.Name)
		}
	}
	w.lans["home"] = link{name: "eth0"}
	if got := raLANs(c, w); len(got) != 2 {
		t.Errorf("without its link the LAN is advertised on: %v", got)
	}
}

func TestDHCPD6LANs(t *testing.T) {
	c := mustParse(t, twoLines+`
lan "guest" {
  interface = "eth3"
  address   = "10.0.9.1/24"
  dhcp6 {}
}
lan "said" {
  interface = "eth5"
  address   = ["10.0.7.1/24", "fd00:7::1/64"]
  dhcp6 { enabled = true }
  advertise {
    dns            = "fd00:7::53"
    search         = "example.org"
    other          = false
    captive_portal = "https://portal.example/api"
  }
}
lan "off" {
  interface = "eth6"
  address   = "10.0.6.1/24"
  dhcp6 { enabled = false }
}
`)
	w, _ := house2()
	for _, l := range []string{"guest", "said", "off"} {
		w.lans[l] = link{l, 9, ""}
	}
	const preferred, valid = 45 * time.Minute, 90 * time.Minute // advertise's defaults; no line has brought its prefix yet
	want := []dhcpd6.LAN{
		{Preferred: preferred, Valid: valid, Awaited: true, Name: "guest", Link: "guest", DNS: addresses("fd12:3456:789a:2::1"), NTP: addresses("fd12:3456:789a:2::1"), Search: []string{"home.arpa"}},
		{Preferred: preferred, Valid: valid, Awaited: true, Name: "said", Link: "said", DNS: addresses("fd00:7::53"), NTP: addresses("fd00:7::1"), Search: []string{"example.org"}, Portal: "https://portal.example/api"},
	}
	if d := cmp.Diff(want, dhcpd6LANs(c, w, true), addrs); d != "" {
		t.Error(d)
	}
	if got := dhcpd6LANs(c, w, false); got[0].NTP != nil || got[1].NTP != nil {
		t.Errorf("the time is not served, and is told of: %v", got)
	}
	for i, other := range []bool{false, true, false, false} {
		if got := c.LANs[i].Advertise.Other; got != other {
			t.Errorf("lan %s: O is %t, want %t", c.LANs[i].Name, got, other)
		}
	}
}

// TestRestore6: a stored lease that the clock says is yet to come is asked for again,
// and neither used nor advertised before its server has said yes.
func TestRestore6(t *testing.T) {
	for what, c := range map[string]struct {
		got  time.Time
		used bool
	}{
		"ten minutes ago":           {time.Now().Add(-10 * time.Minute), true},
		"long ago":                  {time.Now().Add(-10 * time.Hour), false},
		"by a clock that went back": {time.Now().Add(50 * 365 * 24 * time.Hour), false},
	} {
		d := newDaemon(Options{})
		d.world.wans = map[string]wan{}
		l := state.Lease6{Prefix: []state.Leased6{{Prefix: netip.MustParsePrefix("2001:db8:1::/56"), Valid: time.Hour}}, Obtained: c.got, Boot: "before"}
		d.restore6(state.Kept{WANs6: map[string]state.Lease6{"fiber": l}})
		clock, err := state.ReadClock()
		if err != nil {
			t.Fatal(err)
		}
		k := d.world.wans["fiber"]
		if used := k.lease6 != nil; used != c.used || used == (k.last6 != nil) {
			t.Errorf("%s: used %t, want %t; %+v", what, used, c.used, k.last6)
		}
		if k.last6 != nil && what == "by a clock that went back" {
			if _, known := k.last6.Age(clock); known {
				t.Errorf("%s: the client is told an age that nobody knows", what)
			}
		}
	}
}

// TestAdvise: a prefix that goes is remembered with the time since the boot, so that
// setting the clock neither ends nor prolongs its being taken back.
func TestAdvise(t *testing.T) {
	p := netip.MustParsePrefix("2001:db8:f:1::/64")
	lan := ra.LAN{Name: "home", Prefixes: prefixes(p.String()), Limits: []ra.Limit{{Prefix: p}}, Lifetime: ra.Lifetime{Valid: 3 * time.Hour}}
	advised := map[string][]state.Told{}
	at := func(wall time.Time, up time.Duration) state.Clock { return state.Clock{Wall: wall, Boot: "a", Up: up} }
	y1970, now := time.Unix(60, 0), time.Unix(2e9, 0)
	if n := len(advise([]ra.LAN{lan}, advised, at(y1970, time.Minute))); n != 1 {
		t.Fatalf("%d things are to be stored of a new prefix, want 1", n)
	}
	if n := len(advise([]ra.LAN{lan}, advised, at(y1970, time.Minute))); n != 0 {
		t.Errorf("%d things are to be stored, and nothing has changed", n)
	}
	for i, c := range []struct {
		clock state.Clock
		old   bool
	}{
		{at(y1970, 10*time.Minute), true}, // gone now
		{at(now, 11*time.Minute), true},   // the clock is set
		{at(now, 3*time.Hour), true},
		{at(y1970, 3*time.Hour+11*time.Minute), false},
		{at(y1970, 4*time.Hour), false},
	} {
		gone := []ra.LAN{{Name: "home", Lifetime: lan.Lifetime}}
		advise(gone, advised, c.clock)
		if got := len(gone[0].Old) == 1; got != c.old {
			t.Errorf("%d: taken back %t, want %t", i, got, c.old)
		}
	}
}

func TestDHCPDLANs(t *testing.T) {
	c := mustParse(t, twoLines+`
lan "six" {
  interface = "eth3"
  address   = "fd00:3::1/64"
}
lan "guest" {
  interface = "eth4"
  address   = "10.0.9.1/24"
  dhcp {
    pool   = ["10.0.9.10-10.0.9.20", "10.0.9.30-10.0.9.40"]
    lease  = "30m"
    option = { domain-name = "guest.example", ntp-servers = "198.51.100.7" }
    bootp       = false
    unknown     = "deny"
    next_server = "10.0.9.5"
    boot_file   = "bios"
    class "uefi" {
      vendor      = "PXEClient"
      user        = "x"
      arch        = [7, 9]
      option      = { 224 = "hex:01" }
      next_server = "10.0.9.6"
      boot_file   = "efi"
    }
    subnet "up" {
      prefix = "10.0.50.0/24"
      router = "10.0.50.1"
      option = { 15 = "up.example" }
    }
  }
  host "tv" {
    mac       = ["02:00:00:00:00:aa", "02:00:00:00:00:ab"]
    client_id = "hex:01:AB"
  }
}
`)
	w, _ := house2()
	w.lans["guest"] = link{"eth4", 9, "02:00:00:00:00:04"}
	w.lans["six"] = link{"eth3", 8, ""}
	rng := func(a, b string) dhcpd.Range {
		return dhcpd.Range{From: netip.MustParseAddr(a), To: netip.MustParseAddr(b)}
	}
	want := []dhcpd.LAN{
		{
			Name: "home", Link: "eth0", MAC: "02:00:00:00:00:01", Address: netip.MustParsePrefix("172.31.0.1/24"),
			Pool: []dhcpd.Range{rng("172.31.0.128", "172.31.0.254")}, Lease: 12 * time.Hour, BOOTP: true,
			Router: netip.MustParseAddr("172.31.0.1"), DNS: addresses("172.31.0.1"), Domain: "home.arpa",
			Options: []dhcpd.Option{{Code: 42, Data: []byte{172, 31, 0, 1}}},
			Hosts:   []dhcpd.Host{{Name: "nas", DNSName: "nas", Addr: netip.MustParseAddr("172.31.0.23"), MAC: []string{"02:00:00:00:00:23"}}},
		},
		{
			Name: "guest", Link: "eth4", MAC: "02:00:00:00:00:04", Address: netip.MustParsePrefix("10.0.9.1/24"),
			Pool: []dhcpd.Range{rng("10.0.9.10", "10.0.9.20"), rng("10.0.9.30", "10.0.9.40")}, Lease: 30 * time.Minute, KnownOnly: true,
			Router: netip.MustParseAddr("10.0.9.1"), DNS: addresses("10.0.9.1"), Domain: "home.arpa",
			Options: []dhcpd.Option{{Code: 15, Data: []byte("guest.example")}, {Code: 42, Data: []byte{198, 51, 100, 7}}},
			Boot:    dhcpd.Boot{Server: netip.MustParseAddr("10.0.9.5"), File: "bios"},
			Classes: []dhcpd.Class{{
				Vendor: []string{"PXEClient"}, User: []string{"x"}, Arch: []uint16{7, 9},
				Options: []dhcpd.Option{{Code: 224, Data: []byte{1}}}, Boot: dhcpd.Boot{Server: netip.MustParseAddr("10.0.9.6"), File: "efi"},
			}},
			Subnets: []dhcpd.Subnet{{
				Prefix: netip.MustParsePrefix("10.0.50.0/24"), Pool: []dhcpd.Range{rng("10.0.50.128", "10.0.50.254")}, Router: netip.MustParseAddr("10.0.50.1"),
				Options: []dhcpd.Option{{Code: 15, Data: []byte("up.example")}},
			}},
			Hosts: []dhcpd.Host{{Name: "tv", DNSName: "tv", MAC: []string{"02:00:00:00:00:aa", "02:00:00:00:00:ab"}, ClientID: []string{"01ab"}}},
		},
	}
	c.LANs[2].MTU = 1400 // guest
	want[1].Options = append(want[1].Options, dhcpd.Option{Code: 26, Data: []byte{1400 >> 8, 1400 & 0xff}})
	if d := cmp.Diff(want, dhcpdLANs(c, w, true), addrs); d != "" {
		t.Error(d)
	}
}

func TestDNSConfig(t *testing.T) {
	c := mustParse(t, twoLines)
	w, _ := house2()
	k := w.wans["fiber"]
	k.up4 = true
	w.wans["fiber"] = k // static: it has no resolver of its own
	far := farEnds(desired.Build(c, w.state(c)))
	leased := []dns.Name{{Name: "tablet", Addrs: addresses("172.31.0.100")}}
	got := dnsConfig(c, w, far, leased, none)
	want := dns.Config{
		Gateway: "gw", Domain: "home.arpa", Via: "IPv4 lte, IPv6 ",
		LANs:      []dns.LAN{{Name: "home", Addrs: prefixes("172.31.0.1/24", "fd00::1/64")}},
		Hosts:     []dns.Name{{Name: "nas", Addrs: addresses("172.31.0.23", "fd00::23")}},
		Leases:    leased,
		Clients:   prefixes("fe80::/10", "172.31.0.0/24", "fd00::/64"),
		Upstreams: []dns.Upstream{{Server: dns.Server{Addr: netip.AddrPortFrom(far["lte"][0], 53)}, WAN: "lte"}},
	}
	if d := cmp.Diff(want, got, addrs, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Error(d)
	}
	if !far["lte"][0].Is4() || len(far["lte"]) != 2 {
		t.Errorf("the far ends of lte's cable are %v", far["lte"])
	}
	k = w.wans["lte"]
	k.up4 = false
	w.wans["lte"] = k
	if got := dnsConfig(c, w, far, nil, none); len(got.Upstreams) != 0 {
		t.Errorf("a dead line's resolver is asked: %v", got.Upstreams)
	}
	c = mustParse(t, twoLines+`dns { upstream = ["9.9.9.9", "tls://9.9.9.9#dns.quad9.net"] }`)
	if got := dnsConfig(c, w, far, nil, none).Upstreams; len(got) != 2 || got[1].String() != "tls://9.9.9.9#dns.quad9.net" {
		t.Errorf("the file's upstreams are %v", got)
	}
	want2 := append(addresses("127.0.0.1", "::1"), addresses("172.31.0.1", "fd00::1")...)
	if d := cmp.Diff(want2, dnsAddrs(c, w.state(c)), addrs); d != "" {
		t.Error("it answers on", d)
	}
}

func TestTokenIn(t *testing.T) {
	got := tokenIn(netip.MustParsePrefix("2001:db8:1:2::1/64"), netip.MustParseAddr("::23"))
	if want := netip.MustParseAddr("2001:db8:1:2::23"); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLinesInOrder(t *testing.T) {
	c := mustParse(t, `
wan "a" { interface = "eth1" }
wan "b" { interface = "eth2" }
wan "c" { interface = "eth3" }
wan "d" { interface = "eth4" }
failover { prefer = [wan.c, wan.a, wan.b] }
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}`)
	if d := cmp.Diff([]string{"b", "a", "c", "d"}, linesInOrder(c, world{use4: "b", use6: "a"})); d != "" {
		t.Error(d)
	}
}

func none(*config.Host) []netip.Addr { return nil }
