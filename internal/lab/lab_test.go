package lab_test

import (
	"context"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
	"weir/internal/lab/labtest"
	"weir/internal/netns/netnstest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

var (
	addr = netip.MustParseAddr
	pfx  = netip.MustParsePrefix
)

// fiber is a line with everything an ISP of the lab can give.
var fiber = lab.Line{
	Name: "fiber", Port: "eth1",
	Customer4: []netip.Prefix{pfx("198.51.100.10/24")}, Router4: addr("198.51.100.1"),
	DHCP: true, Lease: time.Hour,
	Prefix6: pfx("2001:db8:1::/64"), Router6: addr("fe80::1"),
}

// plainGateway makes the gateway a router as a person would by hand: static
// addresses, forwarding, masquerading, one forward with hairpin.
const plainGateway = `
set -e
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad; echo 0 >/proc/sys/net/ipv6/conf/eth1/accept_dad
ip link set lo up; ip link set eth0 up; ip link set eth1 up
ip addr add 172.31.0.1/24 dev eth0; ip addr add 198.51.100.10/24 dev eth1
ip -6 addr add fd00::1/64 dev eth0 nodad; ip -6 addr add 2001:db8:1::10/64 dev eth1 nodad
echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
ip route add default via 198.51.100.1; ip -6 route add default via fe80::1 dev eth1
nft -f - <<N
table inet t {
 chain pre { type nat hook prerouting priority dstnat
  ip daddr 198.51.100.10 tcp dport 80 dnat ip to 172.31.0.23
  ip6 daddr 2001:db8:1::10 tcp dport 80 dnat ip6 to fd00::23
 }
 chain post { type nat hook postrouting priority srcnat
  iifname eth0 oifname eth0 masquerade
  oifname eth1 masquerade
 }
 chain in { type filter hook input priority filter
  iifname eth1 tcp dport 81 reject with tcp reset
  iifname eth1 meta l4proto tcp drop
 }
}
N
`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPlainGateway(t *testing.T) {
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		ctx := t.Context()
		if _, err := exec.LookPath("ip"); err != nil {
			netnstest.Missing(t, "ip", err)
		}
		isp, err := l.Connect(fiber)
		must(t, err)
		sw, err := l.Switch("home")
		must(t, err)
		must(t, sw.Serve("eth0", 0))
		pc, err := l.Join(sw, "pc", "")
		must(t, err)
		must(t, pc.Static(pfx("172.31.0.50/24"), addr("172.31.0.1")))
		must(t, pc.Static(pfx("fd00::50/64"), addr("fd00::1")))
		nas, err := l.Join(sw, "nas", "02:00:00:00:00:23")
		must(t, err)
		must(t, nas.Static(pfx("172.31.0.23/24"), addr("172.31.0.1")))
		must(t, nas.Static(pfx("fd00::23/64"), addr("fd00::1")))
		must(t, nas.ServeEcho([]uint16{80}, nil))
		if out, err := l.Gateway().Run(ctx, "sh", "-c", plainGateway); err != nil {
			t.Fatal(out, err)
		}

		for _, c := range []struct {
			name    string
			from    *lab.Host
			network string
			to      string
			answer  lab.Answer
			host    string
			source  string
		}{
			{"out", pc.Host, "tcp", "192.0.2.80:7", lab.Answered, "inet-fiber", "198.51.100.10"},
			{"out, any address", pc.Host, "tcp", "9.9.9.9:443", lab.Answered, "inet-fiber", "198.51.100.10"},
			{"out, UDP", pc.Host, "udp", "8.8.8.8:7", lab.Answered, "inet-fiber", "198.51.100.10"},
			{"out6", pc.Host, "tcp", "[2001:db8:80::80]:7", lab.Answered, "inet-fiber", "2001:db8:1::10"},
			{"out6, any address, UDP", pc.Host, "udp", "[2606:4700::1111]:7", lab.Answered, "inet-fiber", "2001:db8:1::10"},
			{"forward", isp.Inet, "tcp", "198.51.100.10:80", lab.Answered, "nas", "192.0.2.80"},
			{"forward6", isp.Inet, "tcp", "[2001:db8:1::10]:80", lab.Answered, "nas", "2001:db8:80::80"},
			{"hairpin", pc.Host, "tcp", "198.51.100.10:80", lab.Answered, "nas", "172.31.0.1"},
			{"closed", isp.Inet, "tcp", "198.51.100.10:22", lab.Silence, "", ""},
			{"refused", isp.Inet, "tcp", "198.51.100.10:81", lab.Refused, "", ""},
			{"refused, UDP", isp.Inet, "udp", "198.51.100.10:81", lab.Refused, "", ""},
		} {
			from := netip.Addr{}
			if c.from == isp.Inet {
				from = lab.Web(strings.HasPrefix(c.to, "["))
			}
			g, a, err := c.from.Ask(ctx, c.network, from, netip.MustParseAddrPort(c.to), 600*time.Millisecond)
			if a != c.answer || g.Host != c.host || c.source != "" && g.From.Addr() != addr(c.source) {
				t.Errorf("%s: got %s from %q, source %s (%v); want %s from %q, source %s", c.name, a, g.Host, g.From, err, c.answer, c.host, c.source)
			}
		}

		for _, to := range []string{"198.51.100.10", "2001:db8:1::10"} {
			start := time.Now()
			s, err := isp.ScanTCP(ctx, addr(to), 200*time.Millisecond)
			must(t, err)
			t.Logf("scan of %s: %+v in %s", to, s, time.Since(start))
			if s.Sent != 65535 || s.Lost != 0 || len(s.Ports) != 2 || s.Ports[80] != lab.Answered || s.Ports[81] != lab.Refused {
				t.Errorf("scan of %s: want 80 answered, 81 refused, 65535 sent, none lost", to)
			}
		}
		if n, first := isp.Strays(); n != 0 {
			t.Errorf("%d strays: %q", n, first)
		}
		// What the gateway sends without translating is seen, and goes no farther.
		_, err = l.Gateway().Run(ctx, "nft", "flush chain inet t post")
		must(t, err)
		if _, a, _ := pc.Ask(ctx, "tcp", netip.Addr{}, netip.MustParseAddrPort("192.0.2.80:7"), 300*time.Millisecond); a == lab.Answered {
			t.Error("the ISP let a private source through")
		}
		if n, _ := isp.Strays(); n == 0 {
			t.Error("a private source on the ISP's link was not noticed")
		}
		if n := isp.Wire.Lost(); n != 0 {
			t.Errorf("%d frames on the wire not looked at", n)
		}
	})
}

func TestOutages(t *testing.T) {
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		ctx := t.Context()
		line := fiber
		line.TAP = lab.TAP() == nil
		t.Log("TAP:", lab.TAP())
		isp, err := l.Connect(line)
		must(t, err)
		gw := l.Gateway()
		must(t, gw.Up("eth1"))
		must(t, gw.AddAddr("eth1", pfx("198.51.100.10/24")))
		must(t, gw.Route(pfx("0.0.0.0/0"), addr("198.51.100.1"), "eth1"))
		p, err := gw.Ping(addr("1.1.1.1"), 10*time.Millisecond)
		must(t, err)
		for name, fault := range map[string]func(on bool) error{
			"dark":    isp.Dark,
			"carrier": func(on bool) error { return isp.Carrier(!on) },
		} {
			if _, ok := p.Answered(ctx, time.Now(), 2*time.Second); !ok {
				t.Fatalf("no answer before %s", name)
			}
			must(t, fault(true))
			cut := time.Now()
			time.Sleep(100 * time.Millisecond) // the length of the outage
			must(t, fault(false))
			if _, ok := p.Answered(ctx, time.Now(), 2*time.Second); !ok {
				t.Fatalf("no answer after %s", name)
			}
			var after []lab.Beat
			for _, b := range p.Beats() {
				if b.Sent.After(cut.Add(-20 * time.Millisecond)) {
					after = append(after, b)
				}
			}
			g := lab.Longest(after)
			t.Logf("%s: gap %s, %d lost", name, g.Len(), g.Lost)
			if g.Lost < 5 {
				t.Errorf("%s for 100 ms lost %d pings of 10 ms", name, g.Lost)
			}
		}
		beats := p.Stop()
		if n := len(lab.Gaps(beats)); n < 2 {
			t.Errorf("%d gaps in %d beats, want one for each outage", n, len(beats))
		}
	})
}

// What passes by an ISP that is picky.
func TestPickyISP(t *testing.T) {
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		ctx := t.Context()
		isp, err := l.Connect(fiber)
		must(t, err)
		gw := l.Gateway()
		must(t, gw.Sysctl("net/ipv6/conf/eth1/accept_dad", "0"))
		must(t, gw.Up("eth1"))
		must(t, gw.AddAddr("eth1", pfx("198.51.100.10/24")))
		must(t, gw.AddAddr("eth1", pfx("2001:db8:1::10/64")))
		must(t, gw.Route(pfx("0.0.0.0/0"), addr("198.51.100.1"), "eth1"))
		must(t, gw.Route(pfx("::/0"), addr("fe80::1"), "eth1"))
		// An answer that is to come is waited for, on a busy machine too.
		within := map[bool]time.Duration{true: 10 * time.Second, false: 300 * time.Millisecond}
		pass := func(to string, pings, rest bool) (ping, tcp, udp bool) {
			p, err := gw.Ping(addr(to), 10*time.Millisecond)
			must(t, err)
			_, ping = p.Answered(ctx, time.Now(), within[pings])
			p.Stop()
			ap := netip.AddrPortFrom(addr(to), 7)
			_, a, _ := gw.Ask(ctx, "tcp", netip.Addr{}, ap, within[rest])
			_, b, _ := gw.Ask(ctx, "udp", netip.Addr{}, ap, within[rest])
			return ping, a == lab.Answered, b == lab.Answered
		}
		for _, c := range []struct {
			name       string
			fault      func(bool) error
			ping, rest bool
		}{
			{"all", func(bool) error { return nil }, true, true},
			{"pings only", isp.OnlyPings, true, false},
			{"no pings", isp.NoPings, false, true},
			{"all again", func(bool) error { return nil }, true, true},
		} {
			must(t, c.fault(true))
			for _, to := range []string{"1.1.1.1", "2606:4700:4700::1111"} {
				if ping, tcp, udp := pass(to, c.ping, c.rest); ping != c.ping || tcp != c.rest || udp != c.rest {
					t.Errorf("%s, %s: ping %t, TCP %t, UDP %t", c.name, to, ping, tcp, udp)
				}
			}
			must(t, c.fault(false))
		}
	})
}

func TestISPAddresses(t *testing.T) {
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		ctx := t.Context()
		isp, err := l.Connect(fiber)
		must(t, err)
		gw := l.Gateway()
		c := &lab.Client{Host: gw}
		must(t, gw.Sysctl("net/ipv6/conf/eth1/accept_dad", "0"))
		must(t, gw.Up("eth1"))
		// The lab's client knows its port as e0.
		link, err := gw.Netlink().LinkByName("eth1")
		must(t, err)
		must(t, gw.Netlink().LinkSetDown(link))
		must(t, gw.Netlink().LinkSetName(link, "e0"))
		must(t, gw.Up("e0"))

		ack, err := c.Lease(ctx)
		must(t, err)
		must(t, c.Use(ack))
		if c.Addr4 != addr("198.51.100.10") || len(c.DNS) != 1 {
			t.Errorf("lease: %s, DNS %s", c.Addr4, c.DNS)
		}
		a, router, ok := c.Autoconfigured(ctx, 5*time.Second)
		if !ok || !fiber.Prefix6.Contains(a.Addr()) || router != addr("fe80::1") {
			t.Errorf("autoconfigured: %s by %s, %v", a, router, ok)
		}
		m, err := gw.Resolve(ctx, c.DNS[0], "www.example.com", 1, time.Second)
		must(t, err)
		if len(m.Answer) != 1 {
			t.Errorf("the ISP's resolver: %s", m)
		}

		must(t, isp.Renumber4(pfx("203.0.113.77/24"), addr("203.0.113.1")))
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		ack, err = c.Lease(short)
		must(t, err)
		if got, _ := netip.AddrFromSlice(ack.YourIPAddr.To4()); got != addr("203.0.113.77") {
			t.Errorf("renumbered: leased %s", got)
		}
		isp.Deaf(true)
		short, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if ack, err := c.Lease(short); err == nil {
			t.Errorf("a deaf server leased %s", ack.YourIPAddr)
		}
		must(t, isp.Renumber6(pfx("2001:db8:99::/64")))
		if !lab.Until(ctx, 3*time.Second, func() bool {
			list, err := gw.Addrs("e0", true)
			return err == nil && len(list) == 1 && pfx("2001:db8:99::/64").Contains(list[0].Addr())
		}) {
			list, err := gw.Addrs("e0", true)
			t.Errorf("renumbered: addresses %s %v", list, err)
		}
	})
}
