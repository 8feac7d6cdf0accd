package fastpath_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// The next hop's address is nowhere kept: a new one is used by the next packet, an
// unknown one is asked for by the namespace, and one that went stale is confirmed.
func TestNextHopIsTheKernels(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		out := packet{src: pc, dst: peer, sport: 5000, dport: 443}
		carried := func(want bool) {
			t.Helper()
			had := l.counts().Short
			l.must(l.inside.send(out.frame(l.inside)))
			for end := time.Now().Add(5 * time.Second); want && l.counts().Short == had; {
				if time.Now().After(end) {
					t.Fatal("the shortcut was not taken")
				}
			}
		}
		// next hears the next frame of a kind.
		next := func(kind gopacket.LayerType) []byte {
			t.Helper()
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
				if f := l.outside.hear(time.Until(end)); f != nil && gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default).Layer(kind) != nil {
					return f
				}
			}
			t.Fatalf("no %v within 10 s", kind)
			return nil
		}
		carried(true)
		if got := net.HardwareAddr(next(layers.LayerTypeUDP)[:6]); !slices.Equal(got, l.outside.mac) {
			t.Errorf("sent to %v, want %v", got, l.outside.mac)
		}
		other := net.HardwareAddr{2, 0, 0, 0, 0, 0x77}
		l.neighbour("wan-fiber", "eth1", "198.51.100.1", other)
		carried(true)
		if got := net.HardwareAddr(next(layers.LayerTypeUDP)[:6]); !slices.Equal(got, other) {
			t.Errorf("the gateway has another MAC address, and packets go to %v, want %v", got, other)
		}
		hop := func(state int) {
			t.Helper()
			l.must(netns.Do("wan-fiber", func() error {
				link, err := netlink.LinkByName("eth1")
				if err != nil {
					return err
				}
				// Soon doubted, and then asked for at once.
				if err := os.WriteFile("/proc/sys/net/ipv4/neigh/eth1/delay_first_probe_time", []byte("0"), 0); err != nil {
					return err
				}
				n := &netlink.Neigh{LinkIndex: link.Attrs().Index, State: state, IP: net.ParseIP("198.51.100.1"), HardwareAddr: other}
				if err := netlink.NeighDel(n); err != nil || state == netlink.NUD_NONE {
					return err
				}
				return netlink.NeighSet(n)
			}))
		}
		hop(netlink.NUD_STALE)
		carried(true)
		next(layers.LayerTypeARP)
		hop(netlink.NUD_NONE)
		carried(false)
		next(layers.LayerTypeARP)
	})
}

// What somebody does to the programs is named by the plan and mended; turned off,
// nothing is left; a port that comes back to main brings none along.
func TestPutRight(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		says := func(want string) {
			t.Helper()
			got := l.turn().String()
			if words := strings.Join(strings.Fields(got), " "); !strings.Contains(words, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("the plan says\n%sand should say %q", got, want)
			}
		}
		do := func(ns string, f func() error) {
			t.Helper()
			l.must(netns.Do(ns, f))
		}
		detach := func(link string) {
			t.Helper()
			links := slices.DeleteFunc(l.links(), func(k fastpath.Link) bool { return link != "" && k.Name != link })
			do("wan-fiber", func() error { return fastpath.Remove(links) })
		}
		detach("eth1")
		says("! wan-fiber  fast path eth1 lan  the program on eth1 is gone")
		detach("lan")
		says("! wan-fiber  fast path eth1 lan  the program on lan is gone")
		detach("")
		says("! wan-fiber  fast path eth1 lan  for 198.51.100.10 2001:db8:1::10   (removed by hand, will come back)")

		main := func(names ...string) (out []fastpath.Link) {
			for _, p := range l.ports() {
				if slices.Contains(names, p.Name) {
					out = append(out, p.Link)
				}
			}
			return out
		}
		do("", func() error { return fastpath.RemoveFlows(main("eth0")) })
		says("! main fast path eth0 for established flows (removed by hand, will come back)")
		do("", func() error { return fastpath.RemoveFlows(main("eth0", "fiber")) })
		says("! main fast path eth0 fiber for established flows (removed by hand, will come back)")
		do("", func() error {
			f, err := fastpath.NewFlows(1024)
			if err != nil {
				return err
			}
			defer f.Close()
			return errors.Join(fastpath.RemoveFlows(main("eth0")), f.Attach(main("eth0")[0]))
		})
		says("! main fast path eth0 fiber the programs don't belong together")

		mtu := func(ns, link string, n int) {
			t.Helper()
			do(ns, func() error {
				k, err := netlink.LinkByName(link)
				if err != nil {
					return err
				}
				return netlink.LinkSetMTU(k, n)
			})
		}
		mtu("wan-fiber", "lan", 1300)
		says("fast path eth1 lan")
		if got := l.plan(); !got.Empty() {
			t.Errorf("then it says\n%s", got)
		}

		// An address that goes, goes in the same turn; so does a line without any.
		l.cfg.WANs[0].IPv4.Address = []netip.Prefix{pre("198.51.100.11/24")}
		says("~ wan-fiber  fast path eth1 lan  for 198.51.100.10 -> 198.51.100.11")
		l.cfg.WANs[0].IPv4.Address = []netip.Prefix{pre("198.51.100.10/24")}
		l.turn()

		// The namespace is gone, and the port is back in main with its program.
		do("", func() error {
			return netns.Do("wan-fiber", func() error {
				k, err := netlink.LinkByName("eth1")
				if err != nil {
					return err
				}
				return netlink.LinkSetNsPid(k, os.Getpid())
			})
		})
		says("- main       fast path eth1      it came along with the port")

		// A port of the LAN becomes the line's, with the program that it had.
		do("wan-fiber", func() error {
			f, err := fastpath.NewFlows(1024)
			if err != nil {
				return err
			}
			defer f.Close()
			for _, k := range l.links() {
				if k.Name == "eth1" {
					return f.Attach(k)
				}
			}
			return errors.New("eth1 is not there")
		})
		says("- wan-fiber fast path eth1 it came along with the port")
		l.cfg.Gateway.FastPath = config.FastPathOff
		says("- wan-fiber  fast path eth1 lan  for 198.51.100.10 2001:db8:1::10   (no longer wanted)")
		l.cfg.Gateway.FastPath = config.FastPathAuto
		says("+ wan-fiber  fast path eth1 lan  for 198.51.100.10 2001:db8:1::10")

		l.must(l.k.Down(t.Context()))
		if a, err := l.k.Read(t.Context(), desired.Desired{}); err != nil || len(a.Namespaces) != 1 || a.Namespaces[0].Shortcut != nil || a.Namespaces[0].Flows != nil {
			t.Errorf("after down: %+v, %v", a.Namespaces, err)
		}
	})
}
