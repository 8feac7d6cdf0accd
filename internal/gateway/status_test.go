package gateway

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/api"
	"weir/internal/dns"
	"weir/internal/failover"
	"weir/internal/named"
	"weir/internal/refused"
	"weir/internal/state"
)

// house2 is a world for twoLines: fiber lost its carrier, lte carries IPv4.
func house2() (world, failover.Status) {
	lease := lteLease
	lease.Server = netip.MustParseAddr("203.0.113.2")
	lease.Obtained = time.Date(2026, 12, 2, 6, 0, 0, 0, time.UTC)
	lease.Duration, lease.T1 = time.Hour, 30*time.Minute
	since := time.Date(2026, 12, 2, 6, 30, 0, 0, time.UTC)
	w := world{
		house: house{ULA: netip.MustParsePrefix("fd12:3456:789a::/48"), Index: map[string]uint8{"fiber": 1, "lte": 2}},
		wans: map[string]wan{
			"fiber": {present: true, port: link{name: "eth1", index: 3}, cable: link{name: "fiber", index: 7}},
			"lte":   {present: true, carrier: true, port: link{"eth2", 4, "02:00:00:00:00:02"}, cable: link{name: "lte", index: 8}, lease: &lease, up4: true},
		},
		lans: map[string]link{"home": {"eth0", 2, "02:00:00:00:00:01"}},
		use4: "lte",
	}
	s := failover.Status{
		Use4: failover.Choice{WAN: "lte", Since: since, Why: "fiber: no carrier"},
		Use6: failover.Choice{Since: since, Why: "no line works"},
		Lines: []failover.Line{
			{LineID: id("fiber", 4), Verdict: failover.Down, Since: since, Why: "no carrier", Loss: 12.5, Probes: 64},
			{LineID: id("fiber", 6), Verdict: failover.Down, Since: since, Why: "no carrier"},
			{LineID: id("lte", 4), Verdict: failover.Up, Since: since, Why: "answers", Probes: 64, RTT: 31250 * time.Microsecond, Up: true},
			{LineID: id("lte", 6), Verdict: failover.Absent, Since: since, Why: "no address or no default route"},
		},
	}
	return w, s
}

func TestStatusTellsWhatIsKnown(t *testing.T) {
	w, v := house2()
	since := v.Use4.Since
	loss, none, rtt := 12.5, 0.0, 31.25
	want := api.Status{
		Gateway: "gw",
		IPv4:    api.Use{WAN: "lte", Why: "fiber: no carrier", Since: since, Address: "203.0.113.10"},
		IPv6:    api.Use{Why: "no line works", Since: since},
		WANs: []api.WAN{
			{
				Name: "fiber", Interface: "eth1", Link: "eth1", Namespace: "wan-fiber", Cable: "fiber", Mark: 1, Present: true,
				IPv4: api.Line{Method: "static", Verdict: "down", Why: "no carrier", Since: since, Addresses: []string{"198.51.100.10/24"}, Gateway: "198.51.100.1", DNS: []string{}, LossPct: &loss},
				IPv6: api.Line{Method: "static", Verdict: "down", Why: "no carrier", Since: since, Addresses: []string{"2001:db8:1::10/64"}, Gateway: "fe80::1", DNS: []string{}},
			},
			{
				Name: "lte", Interface: "eth2", Link: "eth2", Namespace: "wan-lte", Cable: "lte", Mark: 2, Present: true, Carrier: true, MTU: 1428,
				IPv4: api.Line{
					Method: "dhcp", Verdict: "up", Why: "answers", Since: since, Used: true, Addresses: []string{"203.0.113.10/24"}, Gateway: "203.0.113.1", DNS: []string{"203.0.113.53"},
					LossPct: &none, LatencyMS: &rtt,
					Lease: &api.WANLease{Server: "203.0.113.2", Since: since.Add(-30 * time.Minute), Renew: since, Expires: since.Add(30 * time.Minute)},
				},
				IPv6: api.Line{Method: "auto", Verdict: "absent", Why: "no router of the ISP has advertised itself yet", Since: since, Addresses: []string{}, DNS: []string{}},
			},
		},
		LANs: []api.LAN{{Name: "home", Interface: []string{"eth0"}, Link: "eth0", Present: true, Addresses: []string{"172.31.0.1/24", "fd00::1/64"}}},
		Forwards: []api.Forward{{
			Name: "web", Protocol: []string{"tcp"}, Port: []string{"80", "8000-8009"}, To: []string{"172.31.0.23", "fd00::23"},
			Answers: []string{"203.0.113.10 by lte"}, // not fiber's, which has no carrier
		}},
		Services: []api.Service{},
	}
	if d := cmp.Diff(want, status(mustParse(t, twoLines), w, v)); d != "" {
		t.Error(d)
	}
}

func TestRefusedOf(t *testing.T) {
	at := time.Date(2026, 12, 2, 6, 0, 0, 0, time.UTC)
	src, dst := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::1")
	names := map[int]string{7: "fiber", 2: "eth0"}
	for _, tt := range []struct {
		name string
		p    refused.Packet
		want api.Refused
	}{
		{"tcp", refused.Packet{Rule: "wan.fiber.closed", InIndex: 7, Src: src, Dst: src, Protocol: 6, HasUpper: true, SrcPort: 40000, DstPort: 22},
			api.Refused{Rule: "wan.fiber.closed", In: "fiber", From: "192.0.2.7:40000", To: "192.0.2.7:22", Protocol: "tcp"}},
		{"udp, IPv6, through", refused.Packet{InIndex: 2, OutIndex: 7, Src: dst, Dst: dst, Protocol: 17, HasUpper: true, SrcPort: 1, DstPort: 53},
			api.Refused{In: "eth0", Out: "fiber", From: "[2001:db8::1]:1", To: "[2001:db8::1]:53", Protocol: "udp"}},
		{"icmp", refused.Packet{Src: src, Dst: src, Protocol: 1, HasUpper: true, Type: 8}, api.Refused{From: "192.0.2.7", To: "192.0.2.7", Protocol: "icmp 8"}},
		{"icmpv6", refused.Packet{Src: dst, Dst: dst, Protocol: 58, HasUpper: true, Type: 128}, api.Refused{From: "2001:db8::1", To: "2001:db8::1", Protocol: "icmpv6 128"}},
		{"a later fragment", refused.Packet{Src: src, Dst: src, Protocol: 6}, api.Refused{From: "192.0.2.7", To: "192.0.2.7", Protocol: "tcp"}},
		{"broken, by a link that is gone", refused.Packet{InIndex: 99, Protocol: 47}, api.Refused{In: "link 99", From: "?", To: "?", Protocol: "47"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.p.At, tt.want.At = at, at
			if d := cmp.Diff(tt.want, refusedOf(tt.p, names)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLeases(t *testing.T) {
	c := mustParse(t, twoLines)
	clock := state.Clock{Wall: time.Date(2026, 12, 2, 7, 0, 0, 0, time.UTC)}
	ago := func(d time.Duration) time.Time { return clock.Wall.Add(-d) }
	lease := func(lan, addr string, since, length time.Duration, host, hostname string) state.Lease {
		return state.Lease{LAN: lan, Addr: netip.MustParseAddr(addr), MAC: "02:00:00:00:00:99", Host: host, Hostname: hostname, Granted: ago(since), Duration: length}
	}
	all := map[leaseKey]state.Lease{}
	for _, l := range []state.Lease{
		lease("home", "172.31.0.100", time.Hour, 2*time.Hour, "", "tablet"),
		lease("home", "172.31.0.23", time.Minute, time.Hour, "nas", "synology"),
		lease("home", "172.31.0.101", 3*time.Hour, 2*time.Hour, "", "gone"),      // ended
		lease("home", "172.31.0.102", time.Minute, 0, "", "released"),            // ended
		lease("old", "10.0.0.5", time.Minute, time.Hour, "", "of-another-house"), // no LAN of the file's
		lease("home", "172.31.0.103", 2*time.Hour, 3*time.Hour, "", ""),
	} {
		all[keyOf(l)] = l
	}
	got, next := held(all, c, clock)
	if next != 59*time.Minute {
		t.Errorf("the next ends in %v, want 59m", next)
	}
	want := []api.Lease{
		{LAN: "home", Address: "172.31.0.23", MAC: "02:00:00:00:00:99", Name: "nas", Static: true, Since: ago(time.Minute), Expires: ago(-59 * time.Minute)},
		{LAN: "home", Address: "172.31.0.100", MAC: "02:00:00:00:00:99", Name: "tablet", Since: ago(time.Hour), Expires: ago(-time.Hour)},
		{LAN: "home", Address: "172.31.0.103", MAC: "02:00:00:00:00:99", Since: ago(2 * time.Hour), Expires: ago(-time.Hour)},
	}
	if d := cmp.Diff(want, apiLeases(got, c, world{}, clock)); d != "" {
		t.Error(d)
	}
	var names []string
	for _, n := range leasedNames(devices(c, world{}, got, nil)) {
		names = append(names, n.Name)
	}
	if d := cmp.Diff([]string{"synology", "tablet"}, names); d != "" {
		t.Error(d)
	}
	if _, next := held(nil, c, clock); next != 0 {
		t.Errorf("without leases the next ends in %v", next)
	}
}

// A line's own resolvers that give no answer are the line's trouble where all of a family
// are silent, and else a note, as the file's are.
func TestStatusTellsWhichResolversAreSilent(t *testing.T) {
	c := mustParse(t, twoLines)
	w, _ := house2()
	k := w.wans["lte"]
	lease := *k.lease
	lease.DNS = addresses("192.0.2.1", "192.0.2.2")
	k.lease, k.lease6 = &lease, &state.Lease6{DNS: addresses("2001:db8::53")}
	w.wans["lte"] = k
	far := map[string][]netip.Addr{"fiber": addresses("172.31.255.1", "fd00::1"), "lte": addresses("172.31.255.3", "fd00::3")}
	for _, tt := range []struct {
		name   string
		silent string // servers, as the forwarder spells them; ZONE= before one is what BIND forwards there
		lines  string // of lte: DNSError by IPv4 and IPv6
		notes  string
	}{
		{"all of a family", "fd00::3", ",why", ""},
		{"one of two", "172.31.255.3:54", ",", "wan lte's own resolver 192.0.2.2 gives no answer: why"},
		{"both", "172.31.255.3 172.31.255.3:54", "why,", ""},
		{"the file's", "9.9.9.9", ",", "resolver 9.9.9.9 gives no answer: why"},
	} {
		for _, bind := range []bool{false, true} {
			d := &daemon{cfg: c, world: w, far: far}
			if bind {
				d.named = &namedServer{}
			} else {
				d.dns = &dnsServer{}
			}
			for _, at := range strings.Fields(tt.silent) {
				a, err := netip.ParseAddrPort(at)
				if err != nil {
					a = netip.AddrPortFrom(netip.MustParseAddr(at), 53)
				}
				if bind {
					d.named.state.Silent = append(d.named.state.Silent, named.Silent{Forwarder: named.Forwarder{Server: a}, Why: "why"})
					continue
				}
				u := dns.UpstreamReport{Server: at, Err: "why"}
				if at != "9.9.9.9" {
					u.WAN = "lte"
				}
				d.dns.state.Upstreams = append(d.dns.state.Upstreams, u)
			}
			s := api.Status{WANs: []api.WAN{{Name: "fiber"}, {Name: "lte"}}}
			d.resolvers(&s)
			if got := s.WANs[1].IPv4.DNSError + "," + s.WANs[1].IPv6.DNSError; got != tt.lines || strings.Join(s.Notes, "; ") != tt.notes {
				t.Errorf("%s, BIND %t: lines %q, notes %q", tt.name, bind, got, s.Notes)
			}
		}
	}
	d := &daemon{cfg: c, world: w, far: far, dns: &dnsServer{state: dns.Report{Upstreams: []dns.UpstreamReport{
		{Server: "172.31.255.3", WAN: "lte", Up: true},
		{Server: "tls://9.9.9.9#dns.quad9.net", Err: "certificate expired"},
	}}}}
	s := api.Status{WANs: []api.WAN{{Name: "lte"}}}
	if d.resolvers(&s); strings.Join(s.Notes, "; ") != "resolver tls://9.9.9.9#dns.quad9.net gives no answer: certificate expired" {
		t.Errorf("notes %q", s.Notes)
	}
	d = &daemon{cfg: c, world: w, far: far, named: &namedServer{state: named.Report{Silent: []named.Silent{
		{Forwarder: named.Forwarder{Zone: "work.example", Server: netip.MustParseAddrPort("10.9.0.1:53")}, Why: "why"},
		{Forwarder: named.Forwarder{Zone: "isp.example", Server: netip.MustParseAddrPort("172.31.255.3:54")}, Why: "why"},
	}}}}
	s = api.Status{WANs: []api.WAN{{Name: "lte"}}}
	d.resolvers(&s)
	if want := "dns: resolver 10.9.0.1, to which zone work.example is forwarded, gives no answer: why; dns: wan lte's own resolver 192.0.2.2, to which zone isp.example is forwarded, gives no answer: why"; strings.Join(s.Notes, "; ") != want {
		t.Errorf("notes %q", s.Notes)
	}
}
