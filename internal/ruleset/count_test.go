package ruleset_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/ruleset"
)

// countedOnce sees which flows count as answered by their first reply only, and
// which are our own probes, by the marks that counting goes by.
func (w *world) countedOnce(round int) error {
	for _, f := range []struct {
		name, from, network, local, to string
		want                           uint32
	}{
		{"pc's connection", "pc", "tcp", "", "192.0.2.80:7000", ruleset.MarkAnswered},
		{"pc's datagram, IPv6", "pc", "udp", "", "[2001:db8:80::80]:7000", ruleset.MarkAnswered},
		{"pc's question to a DNS server", "pc", "udp", "", "192.0.2.80:53", 0},
		{"pc's question to a DNS server by TCP", "pc", "tcp", "", "192.0.2.80:53", ruleset.MarkAnswered},
		{"a probe", "", "udp", "%fiber", "192.0.2.80:7000", ruleset.MarkProbe},
		{"a probe, IPv6", "", "udp", "%fiber", "[2001:db8:80::80]:7000", ruleset.MarkProbe},
		{"a probe of lte", "", "tcp", "%lte", "192.0.2.80:7000", ruleset.MarkProbe},
		{"a probe of lte, IPv6", "", "tcp", "%lte", "[2001:db8:80::80]:7000", ruleset.MarkProbe},
	} {
		c, err := dial(f.from, f.network, f.local, f.to)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		defer hangUp(c)
		if got, err := say(c, "count"); err != nil {
			return fmt.Errorf("%s: got %q (%w)", f.name, got, err)
		}
		local, _ := netip.ParseAddrPort(c.LocalAddr().String())
		remote, _ := netip.ParseAddrPort(c.RemoteAddr().String())
		if err := marked(local, remote, f.want); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for _, to := range []string{"192.0.2.80", "2001:db8:80::80"} {
		if err := echoed("pc", netip.MustParseAddr(to), 20000+round%10000); err != nil {
			return err
		}
	}
	return nil
}

// echoed pings with an identifier, and sees that the flow is not marked as answered.
func echoed(ns string, to netip.Addr, id int) error {
	network, listen, proto := "ip4:icmp", "0.0.0.0", 1
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: id, Seq: 1}}
	if to.Is6() {
		network, listen, proto = "ip6:ipv6-icmp", "::", 58
		m.Type = ipv6.ICMPTypeEchoRequest
	}
	return netns.Do(ns, func() error {
		c, err := icmp.ListenPacket(network, listen)
		if err != nil {
			return err
		}
		defer c.Close()
		b, err := m.Marshal(nil)
		if err != nil {
			return err
		}
		if _, err := c.WriteTo(b, &net.IPAddr{IP: to.AsSlice()}); err != nil {
			return err
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		for buf := make([]byte, 1500); ; {
			n, _, err := c.ReadFrom(buf)
			if err != nil {
				return fmt.Errorf("ping %s: %w", to, err)
			}
			got, err := icmp.ParseMessage(proto, buf[:n])
			if err != nil {
				return err
			}
			if e, ok := got.Body.(*icmp.Echo); ok && e.ID == id && got.Type != m.Type {
				break
			}
		}
		return marked(netip.AddrPortFrom(netip.Addr{}, uint16(id)), netip.AddrPortFrom(to, 0), 0)
	})
}

// marked compares the bits that counting goes by, in the mark of a flow of main.
// A flow from no address is an echo request's, and its port the identifier.
func marked(from, to netip.AddrPort, want uint32) error {
	return netns.Do("", func() error {
		n, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer n.Close()
		all, err := n.Dump(nil)
		if err != nil {
			return err
		}
		const bits = ruleset.MarkAnswered | ruleset.MarkProbe
		for _, f := range all {
			t := f.TupleOrig
			echo := (t.Proto.Protocol == unix.IPPROTO_ICMP || t.Proto.Protocol == unix.IPPROTO_ICMPV6) && !from.Addr().IsValid() &&
				t.Proto.ICMPID == from.Port() && t.IP.DestinationAddress == to.Addr()
			if !echo && (netip.AddrPortFrom(t.IP.SourceAddress, t.Proto.SourcePort) != from || netip.AddrPortFrom(t.IP.DestinationAddress, t.Proto.DestinationPort) != to) {
				continue
			}
			if f.Mark&bits != want {
				return fmt.Errorf("the flow's mark is %#x, of which %#x is %#x; want %#x", f.Mark, bits, f.Mark&bits, want)
			}
			return nil
		}
		return errors.New("conntrack has no such flow")
	})
}
