package ra

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/ndp"
)

var start = time.Unix(1e9, 0)

func home() LAN {
	return LAN{
		Name: "home", Link: Link{Name: "eth0", Index: 2, MAC: "02:00:00:00:00:01", MTU: 1500},
		Router: true, Lifetime: Lifetime{30 * time.Minute, 45 * time.Minute, 90 * time.Minute}, Prefixes: []netip.Prefix{netip.MustParsePrefix("fd00::/64")},
		DNS: []netip.Addr{netip.MustParseAddr("fd00::1")}, Search: []string{"local"},
	}
}

func newEngine() *Engine { return NewEngine(rand.New(rand.NewPCG(1, 2))) }

// show writes an advertisement as the tests compare it.
func show(m *ndp.RouterAdvertisement) string {
	w := []string{"router " + m.RouterLifetime.String()}
	for _, o := range m.Options {
		switch o := o.(type) {
		case *ndp.LinkLayerAddress:
			w = append(w, "mac "+o.Addr.String())
		case *ndp.MTU:
			w = append(w, fmt.Sprintf("mtu %d", o.MTU))
		case *ndp.PrefixInformation:
			w = append(w, fmt.Sprintf("%s/%d %v %v", o.Prefix, o.PrefixLength, o.PreferredLifetime, o.ValidLifetime))
			if !o.OnLink || !o.AutonomousAddressConfiguration {
				w = append(w, "(not for SLAAC)")
			}
		case *ndp.RecursiveDNSServer:
			w = append(w, fmt.Sprintf("dns %v %v", o.Servers, o.Lifetime))
		case *ndp.RouteInformation:
			w = append(w, fmt.Sprintf("route %s/%d %v", o.Prefix, o.PrefixLength, o.RouteLifetime))
		case *ndp.PREF64:
			w = append(w, fmt.Sprintf("pref64 %s %v", o.Prefix, o.Lifetime))
		case *ndp.CaptivePortal:
			w = append(w, "portal "+o.URI)
		case *ndp.DNSSearchList:
			w = append(w, fmt.Sprintf("search %v %v", o.DomainNames, o.Lifetime))
		}
	}
	if m.ManagedConfiguration {
		w = append(w, "M")
	}
	if m.OtherConfiguration {
		w = append(w, "O")
	}
	return strings.Join(w, ", ")
}

// until runs the engine to a time, and returns what it sent: "SECONDS TO".
func until(e *Engine, end time.Time, each func(time.Time, Send)) {
	for {
		at, ok := e.Next()
		if !ok || at.After(end) {
			return
		}
		for _, s := range e.Tick(at) {
			each(at, s)
		}
	}
}

func TestWhatIsAdvertised(t *testing.T) {
	const dns = "dns [fd00::1] 30m0s, search [local] 30m0s"
	const link = "mac 02:00:00:00:00:01, mtu 1500"
	e := newEngine()
	now := start
	tick := func(what string, l LAN, want string) {
		t.Helper()
		e.Configure(now, l)
		at, _ := e.Next()
		if at.Sub(now) > urgentBetween {
			t.Errorf("%s: told after %v", what, at.Sub(now))
		}
		now = at
		out := e.Tick(now)
		if len(out) != 1 || out[0].To != allNodes() {
			t.Fatalf("%s: sent %v", what, out)
		}
		if got := show(out[0].Msg); got != want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		}
		if _, err := ndp.MarshalMessage(out[0].Msg); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	l := home()
	tick("at first", l, "router 30m0s, "+link+", fd00::/64 45m0s 1h30m0s, "+dns)
	l.Router = false
	tick("no line carries IPv6: no router, but prefix and resolver stay", l, "router 0s, "+link+", fd00::/64 45m0s 1h30m0s, "+dns)
	l.Router = true
	tick("one does again", l, "router 30m0s, "+link+", fd00::/64 45m0s 1h30m0s, "+dns)

	now = now.Add(time.Minute)
	l.Prefixes = []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/64")}
	l.DNS, l.Search, l.Link.MTU = []netip.Addr{netip.MustParseAddr("2001:db8:1::1")}, nil, 1400
	tick("renumbered: the old is taken back", l, "router 30m0s, mac 02:00:00:00:00:01, mtu 1400, 2001:db8:1::/64 45m0s 1h30m0s, fd00::/64 0s 0s, "+
		"dns [2001:db8:1::1] 30m0s, dns [fd00::1] 0s, search [local] 0s")
	now = now.Add(40 * time.Minute)
	l.Link.MTU = 1500
	tick("40 minutes later", l, "router 30m0s, "+link+", 2001:db8:1::/64 45m0s 1h30m0s, fd00::/64 0s 0s, dns [2001:db8:1::1] 30m0s")
	l.Prefixes = append(l.Prefixes, netip.MustParsePrefix("fd00::/64"))
	tick("the old one is back", l, "router 30m0s, "+link+", 2001:db8:1::/64 45m0s 1h30m0s, fd00::/64 45m0s 1h30m0s, dns [2001:db8:1::1] 30m0s")
	if got, want := show(e.Farewell(now).Msg), "router 0s, "+link+", 2001:db8:1::/64 45m0s 1h30m0s, fd00::/64 45m0s 1h30m0s, dns [2001:db8:1::1] 0s"; got != want {
		t.Errorf("farewell:\n got %s\nwant %s", got, want)
	}
	if got, want := show(newConfigured(LAN{Link: Link{MTU: 1000}}).Tick(start)[0].Msg), "router 0s"; got != want {
		t.Errorf("with nothing to say: %s, want %s", got, want)
	}
}

// TestWhatTheFileSays: each key of the file is in the advertisement, what is no
// more is taken back, and a lease that ends ends its route.
func TestWhatTheFileSays(t *testing.T) {
	l := LAN{
		Router: true, Lifetime: Lifetime{time.Minute, 2 * time.Minute, 3 * time.Minute}, Managed: true, Other: true,
		Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8:f:1::/64")},
		Limits:   []Limit{{netip.MustParsePrefix("2001:db8:f:1::/64"), time.Minute, 10 * time.Minute}},
		Routes:   []Route{{Prefix: netip.MustParsePrefix("fd00::/48")}, {netip.MustParsePrefix("2001:db8:f::/48"), 10 * time.Minute}},
		PREF64:   netip.MustParsePrefix("64:ff9b::/96"), Portal: "https://portal.example/api",
	}
	e := newConfigured(l)
	tick := func(what, want string) {
		t.Helper()
		at, _ := e.Next()
		out := e.Tick(at)
		if got := show(out[0].Msg); got != want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		}
		if _, err := ndp.MarshalMessage(out[0].Msg); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const rest = "pref64 64:ff9b::/96 30m0s, portal https://portal.example/api, M, O"
	tick("at first", "router 1m0s, 2001:db8:f:1::/64 1m0s 3m0s, route fd00::/48 30m0s, route 2001:db8:f::/48 10m0s, "+rest)
	until(e, start.Add(11*time.Minute), func(at time.Time, _ Send) {
		if next, _ := e.Next(); next.Sub(at) > time.Minute/3 {
			t.Errorf("the next advertisement after %v: the gateway's %v as a router would nearly be over", next.Sub(at), l.Lifetime.Router)
		}
	})
	tick("when the lease is over", "router 1m0s, 2001:db8:f:1::/64 0s 0s, route fd00::/48 30m0s, route 2001:db8:f::/48 0s, "+rest)
	at, _ := e.Next()
	l.Routes, l.Managed, l.Lifetime.Router = l.Routes[:1], false, 0
	e.Configure(at, l)
	tick("changed", "router 0s, 2001:db8:f:1::/64 1m0s 3m0s, route fd00::/48 30m0s, route 2001:db8:f::/48 0s, "+strings.Replace(rest, "M, ", "", 1))
}

func newConfigured(l LAN) *Engine {
	e := newEngine()
	e.Configure(start, l)
	return e
}

// TestTiming holds RFC 4861, 6.2.4: three soon, then between 200 and 600 s,
// never the same, and no two to all within 3 s.
func TestTiming(t *testing.T) {
	e := newConfigured(home())
	var at []time.Time
	until(e, start.Add(12*time.Hour), func(now time.Time, _ Send) { at = append(at, now) })
	seen := map[time.Duration]bool{}
	for i := 1; i < len(at); i++ {
		d := at[i].Sub(at[i-1])
		from, to := maxInterval/3, maxInterval
		if i < initialCount {
			from, to = minBetween, initialInterval
		}
		if d < from || d > to || seen[d] {
			t.Errorf("between %d and %d: %v, want another one of %v to %v", i-1, i, d, from, to)
		}
		seen[d] = true
	}
	if at[0] != start || len(at) < 12*6 || len(at) > 12*18 {
		t.Errorf("first at %v, %d in 12 hours", at[0].Sub(start), len(at))
	}
	before, _ := e.Next()
	e.Configure(start.Add(12*time.Hour), home())
	if after, _ := e.Next(); after != before {
		t.Error("a configuration that changes nothing is told to all")
	}
}

// TestAFlappingLineIsNoFlood: changes are told at once, but not more often than
// twice a second, and the last one always.
func TestAFlappingLineIsNoFlood(t *testing.T) {
	e := newConfigured(home())
	n := 0
	var last Send
	now := start
	l := home()
	for i := range 1000 { // each 10 ms
		l.Router = i%2 == 0
		e.Configure(now, l)
		until(e, now, func(_ time.Time, s Send) { n, last = n+1, s })
		now = now.Add(10 * time.Millisecond)
	}
	if n > 21 {
		t.Errorf("%d advertisements in 10 s", n)
	}
	until(e, now.Add(urgentBetween), func(_ time.Time, s Send) { last = s })
	if last.Msg.RouterLifetime != 0 {
		t.Error("the last change was not told in time")
	}
}

func TestSolicitations(t *testing.T) {
	host := netip.MustParseAddr("fe80::50")
	quiet := func() (*Engine, time.Time) { // a minute before the next regular one
		e := newConfigured(home())
		until(e, start.Add(time.Minute), func(time.Time, Send) {})
		at, _ := e.Next()
		return e, at.Add(-time.Minute)
	}
	collect := func(e *Engine, now time.Time, after time.Duration) (got []string) {
		until(e, now.Add(after), func(at time.Time, s Send) {
			if d := at.Sub(now); d > maxDelay && s.To != allNodes() {
				t.Errorf("%s is answered after %v", s.To, d)
			}
			if s.Msg.RouterLifetime != home().Lifetime.Router {
				t.Errorf("%s is told of no router", s.To)
			}
			got = append(got, s.To.String())
		})
		return got
	}
	for _, c := range []struct {
		what string
		ask  func(*Engine, time.Time)
		want string
	}{
		{"one host", func(e *Engine, now time.Time) { e.Solicited(now, host) }, "[fe80::50]"},
		{"the same, three times", func(e *Engine, now time.Time) {
			for range 3 {
				e.Solicited(now, host)
			}
		}, "[fe80::50]"},
		{"without an address yet", func(e *Engine, now time.Time) { e.Solicited(now, netip.IPv6Unspecified()) }, "[ff02::1]"},
		{"a whole classroom", func(e *Engine, now time.Time) {
			for i := range maxPending + 1 {
				e.Solicited(now, netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 15: byte(i)}))
			}
		}, "[ff02::1]"},
		{"nobody", func(*Engine, time.Time) {}, "[]"},
	} {
		e, now := quiet()
		c.ask(e, now)
		if got := fmt.Sprint(collect(e, now, time.Second)); got != c.want {
			t.Errorf("%s: answers %s, want %s", c.what, got, c.want)
		}
	}

	// To all not more than once in three seconds, however many ask.
	e, now := quiet()
	n := 0
	for range 300 { // 30 s
		e.Solicited(now, netip.IPv6Unspecified())
		until(e, now, func(time.Time, Send) { n++ })
		now = now.Add(100 * time.Millisecond)
	}
	if n < 8 || n > 11 {
		t.Errorf("a flood of 30 s gets %d answers to all", n)
	}

	var silent Engine
	silent.Solicited(start, host)
	if _, ok := silent.Next(); ok || silent.Tick(start) != nil {
		t.Error("an engine without configuration talks")
	}
}

func TestNotSentIsTriedAgain(t *testing.T) {
	e := newConfigured(home())
	now := start
	for range 5 {
		at, _ := e.Next()
		if at.Sub(now) > retry {
			t.Fatalf("tried again after %v", at.Sub(now))
		}
		now = at
		if len(e.Tick(now)) != 1 {
			t.Fatal("nothing to send")
		}
		e.NotSent(now)
	}
	n := 0
	until(e, now.Add(20*time.Second), func(time.Time, Send) { n++ })
	if n != initialCount {
		t.Errorf("once it works: %d soon, want %d", n, initialCount)
	}
}

func TestOtherRouters(t *testing.T) {
	e := newEngine()
	rogue := netip.MustParseAddr("fe80::bad")
	heard := func(now time.Time, from netip.Addr, life time.Duration) bool {
		_, news := e.Heard(now, from, &ndp.RouterAdvertisement{RouterLifetime: life})
		return news
	}
	for i, c := range []struct {
		after time.Duration
		life  time.Duration
		news  bool
	}{
		{0, time.Hour, true}, {time.Second, time.Hour, false}, {30 * time.Minute, 2 * time.Hour, false}, {40 * time.Minute, 0, true},
		{40*time.Minute + time.Second, time.Hour, false}, {99 * time.Minute, 0, true}, {159 * time.Minute, 0, true},
	} {
		if got := heard(start.Add(c.after), rogue, c.life); got != c.news {
			t.Errorf("%d: news %t", i, got)
		}
	}
	told := 0
	for i := range 1000 {
		if heard(start.Add(3*time.Hour), netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 14: byte(i >> 8), 15: byte(i)}), time.Hour) {
			told++
		}
	}
	if told > maxOthers || len(e.others) > maxOthers || len(e.told) > maxOthers {
		t.Errorf("a flood of routers: told of %d, kept %d", told, len(e.others))
	}
	if os := e.Others(start.Add(24 * time.Hour)); len(os) != 0 || len(e.told) != 0 {
		t.Errorf("a day later still known: %v", os)
	}
}

func TestParse(t *testing.T) {
	host, none := netip.MustParseAddr("fe80::50"), netip.IPv6Unspecified()
	rs := []byte{133, 0, 0, 0, 0, 0, 0, 0}
	withMAC := append(append([]byte{}, rs...), 1, 1, 2, 0, 0, 0, 0, 1)
	ra, err := ndp.MarshalMessage(&ndp.RouterAdvertisement{RouterLifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		b    []byte
		hops int
		from netip.Addr
		ok   bool
	}{
		{"a solicitation", rs, 255, host, true},
		{"with the host's MAC", withMAC, 255, host, true},
		{"from a host without an address", rs, 255, none, true},
		{"the same with its MAC", withMAC, 255, none, false},
		{"from another network", rs, 254, host, false},
		{"with a code", []byte{133, 1, 0, 0, 0, 0, 0, 0}, 255, host, false},
		{"cut off", rs[:7], 255, host, false},
		{"an option without length", append(append([]byte{}, rs...), 1, 0, 0, 0, 0, 0, 0, 0), 255, host, false},
		{"an option beyond the end", append(append([]byte{}, rs...), 1, 9, 0, 0, 0, 0, 0, 0), 255, host, false},
		{"an advertisement", ra, 255, host, true},
		{"from no link-local address", ra, 255, netip.MustParseAddr("2001:db8::1"), false},
		{"an advertisement, cut off", ra[:12], 255, host, false},
		{"something else", []byte{128, 0, 0, 0, 0, 0, 0, 0}, 255, host, false},
	} {
		if _, ok := parse(c.b, c.hops, c.from); ok != c.ok {
			t.Errorf("%s: taken %t, want %t", c.what, ok, c.ok)
		}
	}
}

// FuzzReceive: whatever a device on the LAN sends, the engine goes on, within
// its bounds.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{133, 0, 0, 0, 0, 0, 0, 0}, byte(1))
	f.Add([]byte{133, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1}, byte(0))
	f.Add([]byte{133, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 1}, byte(1))
	e := newConfigured(home())
	wire, err := ndp.MarshalMessage(e.Tick(start)[0].Msg)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire, byte(3))
	f.Fuzz(func(t *testing.T, b []byte, from byte) {
		src := netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 15: from})
		if from == 0 {
			src = netip.IPv6Unspecified()
		}
		m, ok := parse(b, 255, src)
		if !ok {
			return
		}
		e := newConfigured(home())
		switch m := m.(type) {
		case *ndp.RouterSolicitation:
			e.Solicited(start, src)
		case *ndp.RouterAdvertisement:
			if o, _ := e.Heard(start, src, m); len(o.Prefixes) > maxRetired {
				t.Errorf("%d prefixes kept", len(o.Prefixes))
			}
		default:
			t.Fatalf("took a %T", m)
		}
		until(e, start.Add(time.Second), func(_ time.Time, s Send) {
			if _, err := ndp.MarshalMessage(s.Msg); err != nil {
				t.Error(err)
			}
		})
	})
}
