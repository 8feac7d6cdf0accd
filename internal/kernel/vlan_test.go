package kernel_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"weir/internal/desired"
	"weir/internal/netns/netnstest"
)

// A LAN and a WAN that are VLANs of ports of main; the WAN's lives in its namespace.
func TestVLANs(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		if !b.k.Machine().VLAN {
			netnstest.Missing(t, "vlan", errors.New("no 802.1Q in this kernel"))
		}
		before := ports(b)
		main, wan := &b.want.Namespaces[0], &b.want.Namespaces[1]
		// The VLAN is listed before the port it sits on.
		main.Links = append([]desired.Link{{Name: "guest", Kind: desired.VLAN, Parent: "eth0", VID: 20, Up: true, OwnAddrs: true}}, main.Links...)
		main.Addrs = append(main.Addrs, desired.Addr{Link: "guest", Prefix: netip.MustParsePrefix("172.31.20.1/24")})
		main.Links = append(main.Links, desired.Link{Name: "eth1", Kind: desired.Port, Up: true})
		wan.Links[1] = desired.Link{Name: "isp", Kind: desired.VLAN, Parent: "eth1", VID: 35, Up: true, OwnAddrs: true}
		wan.Addrs[2].Link, wan.Routes[2].Link = "isp", "isp"
		wan.Sysctls[2].Key = "net/ipv6/conf/isp/accept_ra"
		b.turn()
		for _, c := range []struct{ ns, do, first string }{
			{"", "ip link del guest", "! main link guest VLAN 20 on eth0 (removed by hand, will come back)"},
			{"", "ip link del guest; ip link add link eth0 name guest type vlan id 21; ip link set guest alias weir",
				"- main link guest VLAN 21 on eth0 (it is not the one wanted)"},
			{"wan-fiber", "ip link del isp", "! wan-fiber link isp VLAN 35 on eth1 (removed by hand, will come back)"},
		} {
			b.run(c.ns, c.do)
			if got := lines(b.plan()); !slices.Contains(got, c.first) {
				t.Errorf("after %s the plan is\n%s", c.do, b.plan())
			}
			b.turn()
		}
		// Without its port it waits, and takes what is in the VLAN with it.
		b.run("", "ip link del eth1")
		p := b.plan()
		if !slices.Equal(p.Waiting, []string{"waiting for eth1: it isn't there yet"}) || len(p.Steps) != 0 {
			t.Errorf("without its port:\n%s", p)
		}
		b.port("eth1", "port1")
		b.turn()
		b.must(b.k.Down(t.Context()))
		b.same("down", before, ports(b))
	})
}
