package gateway

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/api"
	"weir/internal/desired"
	"weir/internal/fastpath"
	"weir/internal/kernel"
	"weir/internal/state"
	"weir/internal/traffic"
)

// Whose an address is: the file's word, the leases', and what devices made themselves.
func TestOwners(t *testing.T) {
	c := mustParse(t, `wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  dhcp6 { pool = "::1000-::1fff" }
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = "172.31.0.23"
  }
  host "box" { address = ["172.31.0.24", "::24"] }
  host "tv" { mac = "02:00:00:00:00:aa" }
}`)
	w := world{lans: map[string]link{"home": {name: "eth0", index: 2}}, house: house{ULA: netip.MustParsePrefix("fd00::/48")}}
	ip := netip.MustParseAddr
	leases := []state.Lease{
		{LAN: "home", Addr: ip("172.31.0.23"), Client: "mac:02:00:00:00:00:23", MAC: "02:00:00:00:00:23", Host: "nas", Hostname: "synology"},
		{LAN: "home", Addr: ip("172.31.0.130"), Client: "ff000000010003000102000000ab", MAC: "02:00:00:00:00:ab", Hostname: "laptop"},
		{LAN: "home", Addr: ip("172.31.0.131"), Client: "mac:02:00:00:00:00:aa", MAC: "02:00:00:00:00:aa", Host: "tv", Hostname: "android-1"},
		{LAN: "home", Addr: ip("::1005"), Client: "0003000102000000ab", MAC: "02:00:00:00:00:ab", IAID: 1},
	}
	near := []kernel.Neighbour{
		{Link: "eth0", Addr: ip("fd00::23:23"), MAC: "02:00:00:00:00:23"},
		{Link: "eth0", Addr: ip("fd00::abcd"), MAC: "02:00:00:00:00:aa"},
		{Link: "eth0", Addr: ip("fd00::24"), MAC: "02:00:00:00:00:bb"}, // called by the file
		{Link: "eth0", Addr: ip("fd00::77"), MAC: "02:00:00:00:00:ab", Ago: 5 * time.Hour},
		{Link: "eth0", Addr: ip("fd00::99"), MAC: "02:00:00:00:00:23"}, // besides what the file says
		{Link: "eth0", Addr: ip("fd00::8"), MAC: "02:00:00:00:00:99"},
		{Link: "eth0", Addr: ip("fd00::9"), MAC: "02:00:00:00:00:99"},
		{Link: "eth9", Addr: ip("fd09::9"), MAC: "02:00:00:00:00:99"}, // the same, elsewhere
		{Link: "eth0", Addr: ip("fd00::dead")},                        // did not answer
	}
	owned := owners(c, w, leases, near)
	got := map[string]string{}
	for a, d := range owned {
		got[a.String()] = d.Name
	}
	want := map[string]string{
		"172.31.0.23": "nas", "fd00::23:23": "nas", "172.31.0.24": "box", "fd00::24": "box",
		"172.31.0.130": "laptop", "fd00::1005": "laptop", "172.31.0.131": "tv", "fd00::abcd": "tv",
		"fd00::77": "laptop", "fd00::99": "nas", "fd00::8": "", "fd00::9": "", "fd09::9": "",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for _, same := range [][2]string{{"172.31.0.23", "fd00::23:23"}, {"172.31.0.24", "fd00::24"}, {"172.31.0.130", "fd00::1005"}, {"172.31.0.131", "fd00::abcd"}, {"fd00::8", "fd00::9"}, {"172.31.0.23", "fd00::99"}} {
		if owned[ip(same[0])] != owned[ip(same[1])] {
			t.Errorf("%s and %s are two devices", same[0], same[1])
		}
	}
}

// Two devices without a name are two.
func TestOwnersWithoutAName(t *testing.T) {
	ip := netip.MustParseAddr
	owned := owners(mustParse(t, twoLines), world{}, nil, []kernel.Neighbour{
		{Link: "eth0", Addr: ip("fd00::9"), MAC: "02:00:00:00:00:09"}, {Link: "eth0", Addr: ip("fd00::8"), MAC: "02:00:00:00:00:08"},
		{Link: "eth1", Addr: ip("fd01::9"), MAC: "02:00:00:00:00:09"},
	})
	if a, b, c := owned[ip("fd00::9")], owned[ip("fd00::8")], owned[ip("fd01::9")]; a == nil || b == nil || c == nil || a == b || a == c {
		t.Errorf("%p, %p and %p", a, b, c)
	}
}

// What is told of two readings: names, rates, and packets fast or slow.
func TestTrafficIsTold(t *testing.T) {
	c := mustParse(t, twoLines)
	w, _ := house2()
	s := sight{
		house:   desired.House(c, w.state(c)),
		places:  map[netip.Addr]traffic.Place{},
		devices: map[netip.Addr]*traffic.Device{netip.MustParseAddr("172.31.0.23"): {Name: "nas"}},
		lines:   []traffic.Line{{Name: "fiber", Mark: 1}, {Name: "lte", Mark: 2}},
		main:    mainPath([]api.LAN{{FastPath: "off", FastPathWhy: "the port is not there"}, {FastPath: "tc"}}),
		paths:   []api.WAN{{FastPath: "off", FastPathWhy: "the port is not there"}, {FastPath: "tc"}},
	}
	count := func(n uint64) traffic.Count { return traffic.Count{Packets: n, Bytes: 1000 * n} }
	at := netip.MustParseAddrPort
	var m traffic.Meter
	take := func(when time.Duration, n uint64) traffic.Reading {
		lines := slices.Clone(s.lines)
		lines[1].In, lines[1].Out = count(10*n), count(20*n)
		lines[1].Fates = lineFates(fastpath.Counts{Short: 90 * n, First: 7 * n, Nowhere: 3 * n, Long: 5})
		carried := []traffic.Carried{{Src: at("192.0.2.80:443"), Dst: at("203.0.113.10:4000"), Protocol: 6, Line: 2, Count: count(3 * n)}}
		k := m.Start(when, lines, carried, mainFates(fastpath.Reasons{Fast: 30 * n, Odd: n, Unknown: 9 * n}), s.view(api.TrafficQuery{Most: 20, Sort: "rate"}))
		for _, f := range []traffic.Flow{
			{Client: at("172.31.0.23:4000"), Dialled: at("192.0.2.80:443"), Server: at("192.0.2.80:443"), Seen: at("203.0.113.10:4000"), Protocol: 6, Mark: 0x1002, Forth: count(n), Back: count(3 * n), Counted: true},
			{Client: at("192.0.2.9:0"), Dialled: at("203.0.113.10:0"), Server: at("172.31.0.50:0"), Seen: at("192.0.2.9:0"), Protocol: 1, Mark: 0x102, Forth: count(n), Counted: true},
		} {
			k.Add(f)
		}
		return k.Done()
	}
	take(10*time.Second, 100)
	now := time.Date(2026, 12, 2, 7, 0, 0, 0, time.UTC)
	got := s.traffic(take(12*time.Second, 200), now)

	volume := func(n uint64, all uint64) api.Volume {
		return api.Volume{Bytes: 1000 * all, Packets: all, BitsPerS: float64(n) * 8000 / 2, PacketsPerS: float64(n) / 2}
	}
	fast, main, share, none := 90.0, 75.0, 42.9, 0.0
	want := api.Traffic{
		At: now, MonotonicS: 12, IntervalS: 2, HostCount: 2, FlowCount: 2,
		WANs: []api.WANTraffic{
			{Name: "fiber", FastPath: "off", FastPathWhy: "the port is not there"},
			{Name: "lte", Down: volume(1000, 2000), Up: volume(2000, 4000), Flows: 2, FastPath: "tc", FastPercent: &fast, Slow: []api.SlowTraffic{
				{Why: api.SlowFirst, Packets: 1400, PacketsPerS: 350}, {Why: api.SlowLong, Packets: 5}, {Why: api.SlowNoHop, Packets: 600, PacketsPerS: 150},
			}},
		},
		Main: api.MainTraffic{FastPath: "tc", FastPercent: &main, Slow: []api.SlowTraffic{{Why: api.SlowKind, Packets: 200, PacketsPerS: 50}, {Why: api.SlowNoFlow, Packets: 1800, PacketsPerS: 450}}},
		Hosts: []api.HostTraffic{
			{Name: "nas", LAN: "home", Addresses: []string{"172.31.0.23"}, Down: volume(600, 1200), Up: volume(100, 200), Flows: 1, FastPercent: &share},
			{LAN: "home", Addresses: []string{"172.31.0.50"}, Down: volume(100, 200), Flows: 1, FastPercent: &none},
		},
		Flows: []api.FlowTraffic{
			{Protocol: "tcp", Host: "172.31.0.23:4000", Name: "nas", LAN: "home", Peer: "192.0.2.80:443", WAN: "lte", Seen: "203.0.113.10:4000", Down: volume(600, 1200), Up: volume(100, 200), FastPercent: &share},
			{Protocol: "icmp", Host: "172.31.0.50", LAN: "home", Peer: "192.0.2.9", WAN: "lte", Inbound: true, Dialled: "203.0.113.10", Down: volume(100, 200), FastPercent: &none},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// Where main's flows have no fast path, it is told why, and hosts and flows have no share.
func TestNoFastPathIsTold(t *testing.T) {
	s := sight{main: mainPath([]api.LAN{{FastPath: "off", FastPathWhy: "the file says so"}, {FastPath: "off", FastPathWhy: "the port is not there"}})}
	got := s.traffic(traffic.Reading{Over: time.Second, Hosts: []traffic.Host{{Down: traffic.Volume{Grew: traffic.Count{Packets: 1}}}}}, time.Time{})
	if d := cmp.Diff(api.MainTraffic{FastPath: "off", FastPathWhy: "the file says so"}, got.Main); d != "" || got.Hosts[0].FastPercent != nil {
		t.Errorf("%+v\n%s", got.Hosts, d)
	}
}

// Whatever may be sorted by has an order.
func TestOrders(t *testing.T) {
	for _, s := range api.TrafficSorts {
		if orders[s] == nil {
			t.Errorf("nothing is ordered by %s", s)
		}
	}
	if len(orders) != len(api.TrafficSorts) {
		t.Errorf("%d orders, and %d are told", len(orders), len(api.TrafficSorts))
	}
}

// Readings keep their interval, unless they are long.
func TestPause(t *testing.T) {
	for _, c := range []struct{ every, took, since, want time.Duration }{
		{2 * time.Second, 10 * time.Millisecond, 15 * time.Millisecond, 1985 * time.Millisecond},
		{500 * time.Millisecond, 200 * time.Millisecond, 210 * time.Millisecond, 800 * time.Millisecond},
		{500 * time.Millisecond, time.Millisecond, time.Second, 4 * time.Millisecond}, // who looks is slow
	} {
		if got := pause(c.every, c.took, c.since); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
