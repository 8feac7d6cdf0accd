package fastpath

import (
	"net/netip"

	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"
)

// A Side is where packets of a flow come in, and where those to it leave.
type Side struct {
	Link int    // index
	Hop  uint16 // an index of the hops
	Line uint8  // a line's index; 0: it is a LAN's
}

// TCP_CONNTRACK_ESTABLISHED.
const tcpEstablished = 3

// Ways are the two ways of a conntrack entry, first that of its first packet, which
// came in by near's link and left to far; or it says why main is to keep them.
func Ways(c conntrack.Flow, near, far Side) (ways [2]Way, why string) {
	o, r := c.TupleOrig, c.TupleReply
	switch {
	case o.Proto.Protocol != unix.IPPROTO_TCP && o.Proto.Protocol != unix.IPPROTO_UDP:
		return ways, "neither TCP nor UDP"
	case c.Zone != 0:
		return ways, "of another zone"
	case c.Status&conntrack.StatusDying != 0:
		return ways, "it ends"
	// UDP is assured by conntrack when it is two seconds old: a keeper does not wait for it.
	case c.Status&conntrack.StatusSeenReply == 0,
		c.Status&conntrack.StatusAssured == 0 && o.Proto.Protocol != unix.IPPROTO_UDP:
		return ways, "no conversation yet"
	case o.Proto.Protocol == unix.IPPROTO_TCP && (c.ProtoInfo.TCP == nil || c.ProtoInfo.TCP.State != tcpEstablished):
		return ways, "not established"
	case c.Status&conntrack.StatusHelper != 0 || c.Helper.Name != "":
		return ways, "its payload is read"
	case c.Status&conntrack.StatusSeqAdjust != 0:
		return ways, "its sequence numbers are shifted"
	case o.Proto.DestinationPort == 53 || r.Proto.SourcePort == 53:
		return ways, "DNS: each answer counts for the line" // internal/ruleset, count.go
	case near.Link == far.Link:
		return ways, "it leaves where it came from"
	}
	end := func(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a.Unmap(), port) }
	in := Tuple{end(o.IP.SourceAddress, o.Proto.SourcePort), end(o.IP.DestinationAddress, o.Proto.DestinationPort), o.Proto.Protocol}
	back := Tuple{end(r.IP.SourceAddress, r.Proto.SourcePort), end(r.IP.DestinationAddress, r.Proto.DestinationPort), o.Proto.Protocol}
	turned := func(t Tuple) Tuple { return Tuple{t.Dst, t.Src, t.Protocol} }
	return [2]Way{
		{From: near.Link, In: in, Out: turned(back), Hop: far.Hop},
		{From: far.Link, In: back, Out: turned(in), Hop: near.Hop, Counter: counter(far.Line, in.Src.Addr().Is6())},
	}, ""
}
