package kernel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"weir/internal/kernel"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// TestForget: neighbours that were looked for in vain are forgotten, those of the
// port alone, and the next packet solicits at once.
func TestForget(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		if !b.k.Machine().TAP {
			netnstest.Missing(t, "tun", fmt.Errorf("/dev/net/tun can't be opened"))
		}
		b.must(netns.Create("wan-tap"))
		for _, name := range []string{"eth9", "eth10"} {
			b.in("wan-tap", func() error {
				tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP, Queues: 1}
				if err := netlink.LinkAdd(tap); err != nil {
					return err
				}
				return netlink.LinkSetUp(tap)
			})
		}
		b.run("wan-tap", `ip addr add 192.0.2.1/24 dev eth9
			ip addr add 2001:db8::1/64 dev eth9 nodad
			ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev eth9 nud stale
			ip neigh add 192.0.2.10 lladdr 02:00:00:00:00:10 dev eth9 nud permanent
			ip neigh add 192.0.2.11 dev eth9 nud failed
			ip neigh add 192.0.2.12 dev eth10 nud failed
			ip neigh add 2001:db8::11 dev eth9 nud failed`)
		at := kernel.Port{NS: "wan-tap", Link: "eth9"}
		look := func() string {
			return b.run("wan-tap", `ping -c1 -W0.01 192.0.2.13 >/dev/null || :; ping -c1 -W0.01 2001:db8::13 >/dev/null || :; ip neigh`)
		}
		for _, a := range []string{"192.0.2.13 dev eth9 INCOMPLETE", "2001:db8::13 dev eth9 INCOMPLETE"} {
			if before := look(); !strings.Contains(before, a) {
				t.Fatalf("no %q in\n%s", a, before)
			}
		}
		n, err := b.k.Forget(at)
		b.must(err)
		after := b.run("wan-tap", "ip neigh")
		if n != 4 {
			t.Errorf("%d forgotten, want 4; left:\n%s", n, after)
		}
		for _, a := range []string{"192.0.2.9 ", "192.0.2.10 ", "192.0.2.12 "} {
			if !strings.Contains(after, a) {
				t.Errorf("%sis forgotten too:\n%s", a, after)
			}
		}
		for _, a := range []string{"192.0.2.11 ", "192.0.2.13 ", "2001:db8::1"} {
			if strings.Contains(after, a) {
				t.Errorf("%sis still there:\n%s", a, after)
			}
		}
		for _, none := range []kernel.Port{{NS: "wan-none", Link: "eth9"}, {NS: "wan-tap", Link: "eth8"}} {
			if n, err := b.k.Forget(none); n != 0 || err != nil {
				t.Errorf("%+v: %d, %v", none, n, err)
			}
		}
	})
}
