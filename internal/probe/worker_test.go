package probe

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/worker"
)

// The test binary is its own child, as weir is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(worker.Main(os.Args[2:], Worker))
	}
	netnstest.Main(m)
}

// far is a namespace at the other end of a cable. It answers for the addresses
// on its lo, says that 203.0.113.1 is unreachable, and is silent for the rest.
type far struct{ ns, dev string }

func newFar(t *testing.T, dev string, number int) far {
	t.Helper()
	f := far{netnstest.New(t), dev}
	peer, err := os.Open(netns.Path(f.ns))
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	near, farEnd := fmt.Sprintf("172.31.%d.0/31", number), fmt.Sprintf("172.31.%d.1/31", number)
	near6, farEnd6 := fmt.Sprintf("fd00:1::%d:0/127", number), fmt.Sprintf("fd00:1::%d:1/127", number)
	run := func(ns string, f func() error) {
		t.Helper()
		if err := netns.Do(ns, f); err != nil {
			t.Fatal(err)
		}
	}
	run("", func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: dev}, PeerName: "lan", PeerNamespace: netlink.NsFd(int(peer.Fd()))})
	})
	t.Cleanup(func() { cut(t, dev) })
	run(f.ns, func() error {
		if err := up("lan", farEnd, farEnd6); err != nil {
			return err
		}
		if err := up("lo", "1.1.1.1/32", "8.8.8.8/32", "2001:db8::1/128"); err != nil {
			return err
		}
		for _, v := range []string{"4/ip_forward", "6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/ipv"+v, []byte("1"), 0o644); err != nil {
				return err
			}
		}
		for _, r := range []netlink.Route{
			{Dst: prefix("203.0.113.1/32"), Type: unix.RTN_UNREACHABLE},
			{Dst: prefix("2001:db8::2/128"), Type: unix.RTN_UNREACHABLE},
			{Dst: prefix("203.0.113.2/32"), Type: unix.RTN_BLACKHOLE},
		} {
			if err := netlink.RouteAdd(&r); err != nil {
				return err
			}
		}
		return nil
	})
	run("", func() error {
		if err := up(dev, near, near6); err != nil {
			return err
		}
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		for i, gw := range []string{farEnd, farEnd6} {
			dst, family := prefix("0.0.0.0/0"), netlink.FAMILY_V4
			if i == 1 {
				dst, family = prefix("::/0"), netlink.FAMILY_V6
			}
			via := netip.MustParsePrefix(gw).Addr().AsSlice()
			if err := netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: via, LinkIndex: link.Attrs().Index, Table: 87000 + number}); err != nil {
				return err
			}
			rule := netlink.NewRule()
			rule.Family, rule.OifName, rule.Table, rule.Priority = family, dev, 87000+number, 8700+number
			if err := netlink.RuleAdd(rule); err != nil {
				return err
			}
			t.Cleanup(func() {
				if err := netns.Do("", func() error { return netlink.RuleDel(rule) }); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	})
	return f
}

func cut(t *testing.T, dev string) {
	t.Helper()
	if err := netns.Do("", func() error {
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return nil //nolint:nilerr // it is gone already
		}
		return netlink.LinkDel(link)
	}); err != nil {
		t.Error(err)
	}
}

func up(dev string, addrs ...string) error {
	link, err := netlink.LinkByName(dev)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: prefix(a), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("%s on %s: %w", a, dev, err)
		}
	}
	return netlink.LinkSetUp(link)
}

// child runs a prober for the lines. Its events arrive on one channel; the other
// tells of each start.
func child(t *testing.T, lines []Line) (*worker.Child, <-chan Event, <-chan error) {
	t.Helper()
	events := make(chan Event, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan error, 10)
	c := worker.Start(ctx, worker.Options{
		Kind: Worker.Name,
		Setup: func(_ context.Context, c *worker.Conn) error {
			m, files, err := setup(lines)
			if err == nil {
				err = c.Send(m, files...)
			}
			ready <- err
			return err
		},
		Received: func(_ *worker.Child, m worker.Message) error {
			var r Report
			if err := m.Decode(&r); err != nil {
				return err
			}
			for _, ev := range r.Events {
				events <- ev
			}
			return nil
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() { cancel(); <-c.Done() })
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	return c, events, ready
}

func setup(lines []Line) (m Message, files []*os.File, err error) {
	m.Config = &Config{Lines: lines}
	err = netns.Do("", func() error {
		for _, l := range lines {
			f, err := Open(l, l.WAN)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		return nil
	})
	return m, files, err
}

// next waits for the event of a kind about a probe, passing over those about others.
func next(t *testing.T, events <-chan Event, id uint64, kind Kind) Event {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case ev := <-events:
			if ev.ID == id && ev.Kind == kind {
				return ev
			}
			if ev.ID == id && ev.Kind != Sent {
				t.Fatalf("got %+v, want kind %d of %d", ev, kind, id)
			}
		case <-late:
			t.Fatalf("no event of kind %d about probe %d", kind, id)
		}
	}
}

func order(t *testing.T, c *worker.Child, orders ...Order) {
	t.Helper()
	if err := c.Send(Message{Probes: orders}); err != nil {
		t.Fatal(err)
	}
}

// Two lines ask the same targets at the same time, in both families, and each
// hears its own.
func TestProbesOverCables(t *testing.T) {
	netnstest.Need(t)
	a := newFar(t, "fiber", 1)
	newFar(t, "lte", 2)
	lines := []Line{{WAN: "fiber", ID: 0x1230}, {WAN: "fiber", IPv6: true, ID: 0x1240}, {WAN: "lte", ID: 0x1250}, {WAN: "lte", IPv6: true, ID: 0x1260}}
	c, events, _ := child(t, lines)

	var orders []Order
	for i, wan := range []string{"fiber", "lte"} {
		for j, target := range []string{"1.1.1.1", "8.8.8.8", "2001:db8::1"} {
			orders = append(orders, Order{ID: uint64(10*i + j), WAN: wan, Target: netip.MustParseAddr(target)})
		}
	}
	before := time.Now()
	order(t, c, orders...)
	for answered := 0; answered < len(orders); {
		select {
		case ev := <-events:
			if ev.Kind == Failed {
				t.Errorf("probe %d failed: %s", ev.ID, ev.Why)
			}
			if ev.Kind == Reply {
				answered++
			}
			if ev.Kind == Reply && (ev.RTT < 0 || ev.RTT > 5*time.Second) {
				t.Errorf("probe %d took %v", ev.ID, ev.RTT)
			}
			if at := ev.At.Time(); at.Before(before) || at.After(time.Now()) {
				t.Errorf("an event at %v, which is not between %v and now", at, before)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("not every probe was answered")
		}
	}

	// An error comes back; silence is no event, but the sending is one.
	order(t, c, Order{ID: 100, WAN: "fiber", Target: netip.MustParseAddr("203.0.113.2")})
	next(t, events, 100, Sent)
	order(t, c, Order{ID: 101, WAN: "fiber", Target: netip.MustParseAddr("203.0.113.1")})
	if ev := next(t, events, 101, Failed); !strings.Contains(ev.Why, "172.31.1.1 says: host unreachable") {
		t.Errorf("why: %q", ev.Why)
	}
	order(t, c, Order{ID: 102, WAN: "lte", Target: netip.MustParseAddr("2001:db8::2")})
	if ev := next(t, events, 102, Failed); !strings.Contains(ev.Why, "says: ") {
		t.Errorf("why: %q", ev.Why)
	}

	// One line goes dark: the other's replies don't count for it.
	if err := netns.Do(a.ns, func() error {
		link, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.AddrDel(link, &netlink.Addr{IPNet: prefix("1.1.1.1/32")})
	}); err != nil {
		t.Fatal(err)
	}
	order(t, c,
		Order{ID: 200, WAN: "fiber", Target: netip.MustParseAddr("1.1.1.1")},
		Order{ID: 201, WAN: "lte", Target: netip.MustParseAddr("1.1.1.1")},
		Order{ID: 202, WAN: "fiber", Target: netip.MustParseAddr("8.8.8.8")})
	for replies := 0; replies < 2; {
		select {
		case ev := <-events:
			if ev.Kind == Reply {
				replies++
			}
			if ev.ID == 200 && ev.Kind == Reply {
				t.Error("lte's target answered for fiber")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("not every probe was answered")
		}
	}

	// An order for a line that is not there is told as failed, and harms nothing.
	order(t, c, Order{ID: 300, WAN: "dsl", Target: netip.MustParseAddr("1.1.1.1")})
	if ev := next(t, events, 300, Failed); !ev.Reopen {
		t.Errorf("the parent is not asked for the socket that is missing: %+v", ev)
	}

	// The cable is made anew: its socket is of no use, and says so. With new
	// sockets all is well.
	cut(t, "fiber")
	order(t, c, Order{ID: 400, WAN: "fiber", Target: netip.MustParseAddr("8.8.8.8")})
	if ev := next(t, events, 400, Failed); !ev.Reopen {
		t.Errorf("the cable is gone, and the parent is not asked to open the socket again: %+v", ev)
	}
	newFar(t, "fiber", 3)
	m, files, err := setup(lines)
	if err != nil {
		t.Fatal(err)
	}
	m.Probes = []Order{{ID: 401, WAN: "fiber", Target: netip.MustParseAddr("8.8.8.8")}}
	if err := c.Send(m, files...); err != nil {
		t.Fatal(err)
	}
	next(t, events, 401, Reply)
}

// A child that is killed is started again with new sockets.
func TestKilledChildComesBack(t *testing.T) {
	netnstest.Need(t)
	newFar(t, "fiber", 1)
	c, events, started := child(t, []Line{{WAN: "fiber", ID: 0x770}})
	order(t, c, Order{ID: 1, WAN: "fiber", Target: netip.MustParseAddr("1.1.1.1")})
	next(t, events, 1, Reply)
	if err := unix.Kill(c.State().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-started:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it is not started again")
	}
	order(t, c, Order{ID: 2, WAN: "fiber", Target: netip.MustParseAddr("1.1.1.1")})
	next(t, events, 2, Reply)
}

func prefix(s string) *net.IPNet {
	p := netip.MustParsePrefix(s)
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
