package fastpath_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"weir/internal/fastpath"
)

// What of conntrack's entries becomes ways, and what main is to keep, and why.
func TestWays(t *testing.T) {
	side := func(src, dst string, sport, dport uint16) conntrack.Tuple {
		return conntrack.Tuple{IP: conntrack.IPTuple{SourceAddress: netip.MustParseAddr(src), DestinationAddress: netip.MustParseAddr(dst)},
			Proto: conntrack.ProtoTuple{Protocol: unix.IPPROTO_TCP, SourcePort: sport, DestinationPort: dport}}
	}
	entry := func(change func(*conntrack.Flow)) conntrack.Flow {
		c := conntrack.Flow{Status: conntrack.StatusSeenReply | conntrack.StatusAssured | conntrack.StatusConfirmed | conntrack.StatusSrcNAT,
			TupleOrig: side(pc, peer, 5000, 443), TupleReply: side(peer, own, 443, 6000),
			ProtoInfo: conntrack.ProtoInfo{TCP: &conntrack.ProtoInfoTCP{State: 3}}}
		change(&c)
		return c
	}
	udp := func(c *conntrack.Flow) {
		c.ProtoInfo.TCP = nil
		c.TupleOrig.Proto.Protocol, c.TupleReply.Proto.Protocol = unix.IPPROTO_UDP, unix.IPPROTO_UDP
	}
	lan, line := fastpath.Side{Link: 2, Hop: 20}, fastpath.Side{Link: 3, Hop: 30}
	two := func(protocol uint8, inSrc, inDst, outSrc, outDst string, near, far fastpath.Side) [2]fastpath.Way {
		w := both(protocol, inSrc, inDst, outSrc, outDst, far.Hop, near.Hop)
		w[0].From, w[1].From = near.Link, far.Link
		return [2]fastpath.Way{w[0], w[1]}
	}
	for _, c := range []struct {
		name      string
		change    func(*conntrack.Flow)
		near, far fastpath.Side
		want      [2]fastpath.Way
		why       string
	}{
		{name: "masqueraded", change: func(*conntrack.Flow) {}, near: lan, far: line,
			want: two(unix.IPPROTO_TCP, pc+":5000", peer+":443", own+":6000", peer+":443", lan, line)},
		{name: "UDP", change: udp, near: lan, far: line,
			want: two(unix.IPPROTO_UDP, pc+":5000", peer+":443", own+":6000", peer+":443", lan, line)},
		{name: "a forward", near: line, far: lan, change: func(c *conntrack.Flow) {
			c.TupleOrig, c.TupleReply = side(peer, own, 7000, 80), side(nas, peer, 8080, 7000)
		}, want: two(unix.IPPROTO_TCP, peer+":7000", own+":80", peer+":7000", nas8080, line, lan)},
		{name: "IPv6, routed", near: lan, far: line, change: func(c *conntrack.Flow) {
			c.TupleOrig, c.TupleReply = side(routed6, peer6, 5000, 443), side(peer6, routed6, 443, 5000)
		}, want: two(unix.IPPROTO_TCP, "["+routed6+"]:5000", "["+peer6+"]:443", "["+routed6+"]:5000", "["+peer6+"]:443", lan, line)},
		{name: "ICMP", near: lan, far: line, why: "neither TCP nor UDP", change: func(c *conntrack.Flow) { c.TupleOrig.Proto.Protocol = unix.IPPROTO_ICMP }},
		{name: "zone", near: lan, far: line, why: "of another zone", change: func(c *conntrack.Flow) { c.Zone = 1 }},
		{name: "dying", near: lan, far: line, why: "it ends", change: func(c *conntrack.Flow) { c.Status |= conntrack.StatusDying }},
		{name: "not answered", near: lan, far: line, why: "no conversation yet", change: func(c *conntrack.Flow) { c.Status = conntrack.StatusConfirmed }},
		{name: "UDP that is not answered", near: lan, far: line, why: "no conversation yet", change: func(c *conntrack.Flow) { udp(c); c.Status &^= conntrack.StatusSeenReply }},
		{name: "UDP that is young", near: lan, far: line, change: func(c *conntrack.Flow) { udp(c); c.Status &^= conntrack.StatusAssured },
			want: two(unix.IPPROTO_UDP, pc+":5000", peer+":443", own+":6000", peer+":443", lan, line)},
		{name: "answered once", near: lan, far: line, why: "no conversation yet", change: func(c *conntrack.Flow) { c.Status &^= conntrack.StatusAssured }},
		{name: "FIN was seen", near: lan, far: line, why: "not established", change: func(c *conntrack.Flow) { c.ProtoInfo.TCP.State = 4 }},
		{name: "TCP without a state", near: lan, far: line, why: "not established", change: func(c *conntrack.Flow) { c.ProtoInfo.TCP = nil }},
		{name: "FTP", near: lan, far: line, why: "its payload is read", change: func(c *conntrack.Flow) { c.Helper.Name = "ftp" }},
		{name: "a helper changed its length", near: lan, far: line, why: "its sequence numbers are shifted", change: func(c *conntrack.Flow) { c.Status |= conntrack.StatusSeqAdjust }},
		{name: "DNS", near: lan, far: line, why: "DNS: each answer counts for the line", change: func(c *conntrack.Flow) {
			udp(c)
			c.TupleOrig.Proto.DestinationPort, c.TupleReply.Proto.SourcePort = 53, 53
		}},
		{name: "hairpin", near: lan, far: lan, why: "it leaves where it came from", change: func(*conntrack.Flow) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ways, why := fastpath.Ways(entry(c.change), c.near, c.far)
			if why != c.why {
				t.Fatalf("kept because %q, want %q", why, c.why)
			}
			if d := cmp.Diff(c.want, ways, cmpopts.EquateComparable(netip.AddrPort{})); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}
