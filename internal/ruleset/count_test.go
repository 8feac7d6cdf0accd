package ruleset_test

import (
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
	type expected struct {
		name string
		mark uint32
	}
	wants := map[conntrack.Tuple]expected{}
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
		wants[opening(c)] = expected{f.name, f.want}
	}
	for from, to := range map[string]string{"172.31.0.50": "192.0.2.80", "fd00::50": "2001:db8:80::80"} {
		first, err := echoed("pc", netip.MustParseAddr(from), netip.MustParseAddr(to), 20000+round%10000)
		if err != nil {
			return err
		}
		wants[first] = expected{"an echo to " + to, 0}
	}
	known, err := flowsOf()
	if err != nil {
		return err
	}
	const bits = ruleset.MarkAnswered | ruleset.MarkProbe
	for first, want := range wants {
		if f, ok := known[first]; !ok {
			return fmt.Errorf("%s: conntrack knows no %v", want.name, first)
		} else if f.Mark&bits != want.mark {
			return fmt.Errorf("%s: the flow's mark is %#x, of which %#x is %#x; want %#x", want.name, f.Mark, bits, f.Mark&bits, want.mark)
		}
	}
	return nil
}

// begunOnce sees that a metered line's flows are counted once, and our own probes
// by it not at all.
func (w *world) begunOnce() error {
	before, err := w.counters()
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name, from, local, to, counter string
		want                           int
	}{
		{"a flow", "pc", "", "192.0.2.80:7000", "begun4.lte", 1},
		{"a flow, IPv6", "pc", "", "[2001:db8:80::80]:7000", "begun6.lte", 1},
		{"a probe", "", "%lte", "192.0.2.80:7000", "begun4.lte", 0},
		{"a probe, IPv6", "", "%lte", "[2001:db8:80::80]:7000", "begun6.lte", 0},
	} {
		c, err := dial(f.from, "udp", f.local, f.to)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		defer hangUp(c)
		for range 2 {
			if got, err := say(c, "begun"); err != nil {
				return fmt.Errorf("%s: got %q (%w)", f.name, got, err)
			}
		}
		after, err := w.counters()
		if err != nil {
			return err
		}
		if n := after[f.counter] - before[f.counter]; n != f.want {
			return fmt.Errorf("%s was counted %d times by %s, want %d", f.name, n, f.counter, f.want)
		}
		before = after
	}
	return nil
}

// echoed pings with an identifier, and returns how conntrack knows the flow.
func echoed(ns string, from, to netip.Addr, id int) (conntrack.Tuple, error) {
	first := conntrack.Tuple{
		IP:    conntrack.IPTuple{SourceAddress: from, DestinationAddress: to},
		Proto: conntrack.ProtoTuple{Protocol: unix.IPPROTO_ICMP, ICMPv4: true, ICMPType: uint8(ipv4.ICMPTypeEcho), ICMPID: uint16(id)},
	}
	network, proto := "ip4:icmp", 1
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: id, Seq: 1}}
	if to.Is6() {
		network, proto = "ip6:ipv6-icmp", 58
		m.Type = ipv6.ICMPTypeEchoRequest
		first.Proto = conntrack.ProtoTuple{Protocol: unix.IPPROTO_ICMPV6, ICMPv6: true, ICMPType: uint8(ipv6.ICMPTypeEchoRequest), ICMPID: uint16(id)}
	}
	return first, netns.Do(ns, func() error {
		c, err := icmp.ListenPacket(network, from.String())
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
				return nil
			}
		}
	})
}

// flowsOf are the flows that main knows, by their first packets. Ask once for many:
// it is a walk through a table that is as large as the machine.
func flowsOf() (map[conntrack.Tuple]conntrack.Flow, error) {
	known := map[conntrack.Tuple]conntrack.Flow{}
	err := netns.Do("", func() error {
		n, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer n.Close()
		all, err := n.Dump(nil)
		for _, f := range all {
			known[f.TupleOrig] = f
		}
		return err
	})
	return known, err
}

// opening is how conntrack knows the first packet of a connection.
func opening(c net.Conn) conntrack.Tuple {
	proto := uint8(unix.IPPROTO_UDP)
	if c.LocalAddr().Network() == "tcp" {
		proto = unix.IPPROTO_TCP
	}
	// A parsed address has no zone, which a link-local one would have here.
	from, to := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
	return conntrack.Tuple{
		IP:    conntrack.IPTuple{SourceAddress: from.Addr(), DestinationAddress: to.Addr()},
		Proto: conntrack.ProtoTuple{Protocol: proto, SourcePort: from.Port(), DestinationPort: to.Port()},
	}
}
