package kernel_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"github.com/vishvananda/netlink"

	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/plan"
	"weir/internal/ruleset"
)

// A port that isn't there yet, that goes (as a USB stick does) and comes back.
func TestPortThatComesAndGoes(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.run("", "ip link del eth1")
		p := b.turn()
		if !slices.Equal(p.Waiting, []string{"waiting for eth1: it isn't there yet"}) {
			t.Errorf("waiting: %q", p.Waiting)
		}
		for _, s := range p.Steps {
			if strings.Contains(s.String(), "eth1") && s.Object != "nft table" {
				t.Errorf("a step for a port that isn't there: %s", s)
			}
		}
		if got := b.plan().String(); got != "  waiting for eth1: it isn't there yet\nNothing to change: the kernel holds all that is possible now.\n" {
			t.Errorf("second plan: %s", got)
		}
		for range 2 {
			b.port("eth1", "port1")
			p := b.turn()
			if len(p.Waiting) != 0 || !strings.Contains(p.String(), "in main -> wan-fiber") {
				t.Errorf("it came, and the plan is\n%s", p)
			}
			for _, s := range p.Steps {
				if s.Drift {
					t.Errorf("taken for somebody's doing: %s", s)
				}
			}
			b.run("wan-fiber", "ip link del eth1")
			if p := b.plan(); len(p.Steps) != 0 || len(p.Waiting) != 1 {
				t.Errorf("it went, and the plan is\n%s", p)
			}
		}
		// Down without it.
		b.must(b.k.Down(t.Context()))
	})
}

// The daemon was killed and its runtime directory is gone: everything is adopted
// from the kernel; only the ruleset, which nobody knows, is loaded again.
func TestAdoptedWithoutMemory(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.turn()
		b.opt.RuntimeDir = t.TempDir()
		b.open()
		for _, s := range b.plan().Steps {
			if s.Object != "nft table" || s.Why != "what is loaded is not known" {
				t.Errorf("step %s", s)
			}
		}
		b.turn()
		// And without the state directory: ports go back bare.
		b.opt.StateDir = t.TempDir()
		b.open()
		if p := b.plan(); !p.Empty() {
			t.Errorf("not adopted:\n%s", p)
		}
		b.must(b.k.Down(t.Context()))
		if got := b.run("", "ip -o link show eth1; ls /run/netns"); !strings.Contains(got, "eth1") || strings.Contains(got, "wan-") {
			t.Errorf("after down: %s", got)
		}
	})
}

// Somebody replaced the namespace by another of the same name while we had it open.
func TestNamespaceReplaced(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.turn()
		b.run("", "ip -n wan-fiber link set eth1 netns $$; ip netns del wan-fiber; ip netns add wan-fiber")
		p := b.plan()
		if !strings.Contains(p.String(), "! wan-fiber  nft table weir") {
			t.Errorf("the plan is\n%s", p)
		}
		b.turn()
		b.run("", "ip -n wan-fiber link set eth1 netns $$; ip netns del wan-fiber")
		if got := lines(b.plan())[0]; got != "! wan-fiber namespace wan-fiber (removed by hand, will come back)" && got != "! wan-fiber namespace wan-fiber removed by hand, will come back" {
			t.Errorf("the plan begins %s", got)
		}
		b.turn()
		// A file that no namespace is mounted on.
		b.run("", "ip -n wan-fiber link set eth1 netns $$; ip netns del wan-fiber; touch /run/netns/wan-fiber")
		b.turn()
		// A namespace called like ours that is not: left alone.
		b.run("", "ip netns add wan-mine")
		if p := b.plan(); !p.Empty() {
			t.Errorf("somebody else's namespace:\n%s", p)
		}
		b.must(b.k.Down(t.Context()))
		b.run("", "test -e /run/netns/wan-mine")
	})
}

// A name that is taken is refused with what to do, and nothing is changed.
func TestNamesTaken(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.run("", "ip link add fiber type bridge; ip link add iot type bridge")
		before := b.snapshot("")
		p := b.plan()
		err := b.k.Apply(t.Context(), p)
		for _, want := range []string{"a link called fiber is in main already, and weir did not make it", "ip link set iot name"} {
			if !strings.Contains(p.String(), want) || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not said: %v\n%s", want, err, p)
			}
		}
		b.same("refused", before, b.snapshot(""))
	})
}

// Counters and what was learned live through a change of the rules; a chain's
// hook and a set's type can change; what is gone is removed.
func TestRulesetChanges(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.turn()
		// Something counted and something learned.
		b.run("", `nft add element inet weir learned '{ 192.0.2.7 }'
h=$(nft -a list chain inet weir through | sed -n 's/.*"web".*handle //p')
nft add chain inet weir lo '{ type filter hook output priority 0; }'; nft add rule inet weir lo counter name c_web; ping -c 3 -i 0.01 -W 1 127.0.0.1 >/dev/null; nft delete chain inet weir lo`)
		counted := func() uint64 {
			t.Helper()
			n, err := b.k.Counters()
			b.must(err)
			return n["c_web"]
		}
		before := counted()
		if before < 3 {
			t.Errorf("the counter says %d, and three pings went by it", before)
		}
		b.turn()
		text := b.want.Namespaces[0].Table.Text
		edit := func(from ...string) {
			t.Helper()
			text = strings.NewReplacer(from...).Replace(text)
			b.want.Namespaces[0].Table.Text = text
			b.turn()
		}
		edit("priority filter; policy drop", "priority -7; policy accept")
		edit("set wan4 { type ipv4_addr", "set wan4 { type ipv4_addr; flags interval")
		edit("  chain translate {", "  chain helper {\n    accept comment \"helped\"\n  }\n  map go { type ifname : verdict\n    elements = { \"eth0\" : goto helper }\n  }\n  chain translate {",
			"    iifname \"eth0\" counter accept", "    iifname vmap @go\n    iifname \"eth0\" counter accept")
		edit("goto helper }", "goto helper, \"eth2\" : drop }")
		edit("  chain helper {\n    accept comment \"helped\"\n  }\n  map go { type ifname : verdict\n    elements = { \"eth0\" : goto helper, \"eth2\" : drop }\n  }\n", "", "    iifname vmap @go\n", "")
		b.want.Namespaces[0].Table.Sets[0].Elements = []string{"198.51.100.0/24", "203.0.113.7"}
		b.turn()
		got := b.run("", "nft list table inet weir")
		for _, want := range []string{"192.0.2.7", "198.51.100.0/24", "priority filter - 7"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is lost:\n%s", want, got)
			}
		}
		if strings.Contains(got, "packets 0 bytes 0\n\t}\n\n\tset") || strings.Contains(got, "helper") || strings.Contains(got, "map go") {
			t.Errorf("counter lost, or something left:\n%s", got)
		}
		if n := counted(); n != before {
			t.Errorf("the counter says %d after the ruleset was changed, and %d before", n, before)
		}
		edit("  counter c_web { }\n", "", `counter name "c_web" `, "")
		if n, err := b.k.Counters(); err != nil || len(n) != 0 {
			t.Errorf("no counter is left, and read was %v, %v", n, err)
		}
		if got := b.run("", "nft list table inet weir"); strings.Contains(got, "c_web") {
			t.Errorf("the counter is still there:\n%s", got)
		}
	})
}

// A line goes down: its rule, the default route, then the flows that went out
// by it, and no others.
func TestFlowsOfALineThatIsDown(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.turn()
		var ct *conntrack.Conn
		b.in("", func() (err error) { ct, err = conntrack.Dial(nil); return err })
		defer ct.Close()
		flow := func(src string, mark uint32) conntrack.Flow {
			dst := netip.MustParseAddr("192.0.2.80")
			if strings.Contains(src, ":") {
				dst = netip.MustParseAddr("2001:db8::80")
			}
			f := conntrack.NewFlow(17, 0, netip.MustParseAddr(src), dst, 4000+uint16(mark), 53, 300, mark)
			b.must(ct.Create(f))
			return f
		}
		out4, out6 := flow("172.31.0.50", 1), flow("fd00::50", 1)
		in, other := flow("172.31.0.51", ruleset.MarkIn|1), flow("172.31.0.52", 2)
		user := flow("172.31.0.53", 0x10001) // with a bit that is not ours
		left := func() (n []string) {
			flows, err := ct.Dump(nil)
			b.must(err)
			for name, f := range map[string]conntrack.Flow{"out4": out4, "out6": out6, "in": in, "other": other, "user": user} {
				if slices.ContainsFunc(flows, func(x conntrack.Flow) bool { return x.TupleOrig.IP == f.TupleOrig.IP && x.Mark == f.Mark }) {
					n = append(n, name)
				}
			}
			slices.Sort(n)
			return n
		}
		main := &b.want.Namespaces[0]
		pin := func(v6 bool) func(desired.Rule) bool {
			return func(r desired.Rule) bool { return r.Mark == 1 && r.V6 == v6 }
		}
		main.Rules = slices.DeleteFunc(main.Rules, pin(true))
		p := b.turn()
		if got := left(); !slices.Equal(got, []string{"in", "other", "out4", "user"}) {
			t.Errorf("IPv6 down, left: %q\n%s", got, p)
		}
		main.Rules = slices.DeleteFunc(main.Rules, pin(false))
		for i, r := range main.Routes {
			if r.Src.IsValid() {
				main.Routes[i] = desired.Route{Dst: r.Dst, Type: desired.Unreachable}
			}
		}
		p = b.plan()
		order := []string{}
		for _, s := range p.Steps {
			order = append(order, s.Object)
		}
		if !slices.Equal(order, []string{"route", "rule", "flows"}) {
			t.Errorf("the order is %q", order)
		}
		b.turn()
		if got := left(); !slices.Equal(got, []string{"in", "other"}) {
			t.Errorf("IPv4 down, left: %q", got)
		}
		// Another address: all of the line's flows in that family.
		flow("172.31.0.50", 1)
		main.Table.Sets[1].Elements = []string{`"fiber" : 198.51.100.99`}
		p = b.turn()
		if got := left(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("another address, left: %q\n%s", got, p)
		}
		if want := "~ main nft sets out4 \"fiber\" : 198.51.100.10 -> 198.51.100.99"; lines(p)[0] != want {
			t.Errorf("%s\nis not %s", lines(p)[0], want)
		}
	})
}

func TestWatch(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		events, err := b.k.Watch(ctx)
		b.must(err)
		wait := func(want kernel.Event) {
			t.Helper()
			deadline := time.After(5 * time.Second)
			for {
				select {
				case e := <-events:
					if e.Kind == want.Kind && e.NS == want.NS && e.Link == want.Link && e.Gone == want.Gone {
						return
					}
				case <-deadline:
					t.Fatalf("no event %s %+v", want.Kind, want)
				}
			}
		}
		b.turn()
		wait(kernel.Event{Kind: kernel.NamespaceEvent, NS: "wan-fiber"})
		for _, c := range []struct {
			ns, do string
			want   kernel.Event
		}{
			{"", "ip link set eth0 down", kernel.Event{Kind: kernel.LinkEvent, Link: "eth0"}},
			{"wan-fiber", "ip addr del 198.51.100.10/24 dev eth1", kernel.Event{Kind: kernel.AddrEvent, NS: "wan-fiber"}},
			{"", "ip route del default", kernel.Event{Kind: kernel.RouteEvent}},
			{"", "ip -6 rule del pref 8701", kernel.Event{Kind: kernel.RuleEvent}},
			{"wan-fiber", "nft delete table inet weir", kernel.Event{Kind: kernel.TableEvent, NS: "wan-fiber"}},
			{"wan-fiber", "ip link del eth1", kernel.Event{Kind: kernel.LinkEvent, NS: "wan-fiber", Link: "eth1", Gone: true}},
			{"", "ip netns del wan-fiber", kernel.Event{Kind: kernel.NamespaceEvent, NS: "wan-fiber", Gone: true}},
		} {
			b.run(c.ns, c.do)
			wait(c.want)
		}
		// One made again is watched again.
		b.turn()
		b.run("wan-fiber", "ip link set lan mtu 1400")
		wait(kernel.Event{Kind: kernel.LinkEvent, NS: "wan-fiber", Link: "lan"})
		// A reader that sleeps is told that it missed something.
		b.run("", "seq 1 6000 | sed 's/.*/rule add pref & from 10.0.0.1 lookup 100\\nrule del pref & from 10.0.0.1 lookup 100/' | ip -batch -")
		wait(kernel.Event{Kind: kernel.Resync})
		cancel()
		for range events { // is closed
		}
	})
}

// Over a TAP, whose carrier is told late or not at all, as a real port's is.
func TestCarrier(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		if !b.k.Machine().TAP {
			netnstest.Missing(t, "tun", fmt.Errorf("/dev/net/tun can't be opened"))
		}
		b.must(netns.Create("wan-tap"))
		var tap *netlink.Tuntap
		b.in("wan-tap", func() error {
			tap = &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "eth9"}, Mode: netlink.TUNTAP_MODE_TAP, Queues: 1}
			if err := netlink.LinkAdd(tap); err != nil {
				return err
			}
			return netlink.LinkSetUp(tap)
		})
		at := kernel.Port{NS: "wan-tap", Link: "eth9"}
		read := func() kernel.Carrier {
			t.Helper()
			c, err := b.k.Carrier(at, kernel.Port{NS: "wan-none", Link: "x"}, kernel.Port{Link: "none"})
			b.must(err)
			if c[1].Present || c[2].Present {
				t.Errorf("ports that are not there: %+v", c)
			}
			return c[0]
		}
		if c := read(); !c.Present || !c.Up || !c.Carrier {
			t.Fatalf("at first %+v", c)
		}
		downs := read().Downs
		for range 10 {
			b.must(setCarrier(tap.Fds[0], false))
			if c := read(); c.Carrier {
				t.Errorf("lost: %+v", c)
			}
			b.must(setCarrier(tap.Fds[0], true))
		}
		if c := read(); !c.Carrier || c.Downs != downs+10 {
			t.Errorf("after 10 blinks: %+v, had %d", c, downs)
		}
		b.must(netns.Delete("wan-tap"))
	})
}

// What the kernel makes of a router advertisement is left alone, and told.
func TestSLAACLeftAlone(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.turn()
		b.router()
		b.advertise()
		var a plan.Advertised
		deadline := time.Now().Add(10 * time.Second)
		events, err := b.k.Watch(t.Context())
		b.must(err)
		for {
			actual, err := b.k.Read(t.Context(), b.want)
			b.must(err)
			for i := range actual.Namespaces {
				if n := &actual.Namespaces[i]; n.Name == "wan-fiber" {
					a = n.Advertised("eth1")
				}
			}
			if len(a.Addrs) == 1 && a.Router || time.Now().After(deadline) {
				break
			}
			select {
			case <-events:
			case <-time.After(time.Second):
				b.advertise() // as a router does: the first may come before eth1 listens
			}
		}
		if len(a.Addrs) != 1 || netip.MustParsePrefix("2001:db8:1::/64").Masked() != a.Addrs[0].Masked() || !a.Router || a.MTU != 1400 {
			t.Fatalf("advertised: %+v\n%s", a, b.run("wan-fiber", "ip a; ip -6 r"))
		}
		if p := b.plan(); !p.Empty() {
			t.Errorf("what the kernel made is to be changed:\n%s", p)
		}
	})
}
