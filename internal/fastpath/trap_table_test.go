package fastpath_test

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// carries sends a packet until it, or one like it, is carried.
func (l *lab) carries(f *fastpath.Flows, send func()) {
	l.Helper()
	had, err := f.Why()
	l.must(err)
	l.soon("it is carried", 10*time.Second, func() bool {
		send()
		now, err := f.Why()
		l.must(err)
		return now.Fast > had.Fast
	})
}

// A device whose card was changed under a flow has the next packet, and nobody else does:
// no entry keeps an Ethernet address of a neighbour.
func TestNeighbourChangesUnderAFlow(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		f, _, _ := l.keep()
		out, in := l.converse(f)
		for _, c := range []struct {
			what, ns, port, addr string
			from, to             *end
			packet               packet
		}{
			{"the device's", "", "eth0", pc, l.outside, l.inside, in},
			{"the ISP's router's", "wan-fiber", "eth1", "198.51.100.1", l.inside, l.outside, out},
		} {
			l.carries(f, func() { l.must(c.from.send(c.packet.frame(c.from))) })
			other := net.HardwareAddr{2, 0, 0, 0, 9, 9}
			l.neighbour(c.ns, c.port, c.addr, other)
			for c.to.hear(0) != nil { // what was on its way
			}
			l.carries(f, func() { l.must(c.from.send(c.packet.frame(c.from))) })
			frame := c.to.hear(5 * time.Second)
			if frame == nil || net.HardwareAddr(frame[:6]).String() != other.String() {
				t.Errorf("%s address changed: the next packet goes to %x", c.what, frame[:min(6, len(frame))])
			}
			l.neighbour(c.ns, c.port, c.addr, c.to.mac)
		}
	})
}

// Who empties conntrack by hand ends what is carried, by the sweep that misses it; who
// comes again is a new flow for main's rules.
func TestConntrackIsEmptied(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		f, _, _ := l.keep()
		out, _ := l.converse(f)
		l.conntrack(func(ct *conntrack.Conn) error { return ct.Flush() })
		l.soon("what was carried is not any more", 20*time.Second, func() bool {
			l.must(l.inside.send(out.frame(l.inside)))
			return len(l.entries(f)) == 0
		})
	})
}

// Twenty thousand connections are opened, carried and closed, and neither conntrack nor
// the program has anything left of them.
func TestTwentyThousandFlowsLeaveNothing(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		l.must(netns.Do("", func() error { // conntrack remembers closed ones for two minutes
			return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait", []byte("1"), 0)
		}))
		f, _, _ := l.keep()
		const all, batch = 20000, 400
		carried := 0
		for first := 0; first < all; first += batch {
			at := func(out bool, i int, flags string, seq, ack uint32) {
				p, e := packet{src: pc, dst: peer, sport: uint16(10000 + first + i), dport: 443}, l.inside
				if !out {
					p.src, p.dst, p.sport, p.dport, e = peer, own, p.dport, p.sport, l.outside
				}
				p.tcp, p.seq, p.ack = flags, seq, ack
				l.must(e.send(p.frame(e)))
			}
			each := func(do func(i int)) {
				for i := range batch {
					do(i)
				}
				l.passed()
			}
			each(func(i int) { at(true, i, "S", 1000, 0) })
			each(func(i int) { at(false, i, "SA", 2000, 1001) })
			each(func(i int) { at(true, i, "A", 1001, 2001) })
			for n := range 17 {
				each(func(i int) { at(true, i, "A", 1001+20*uint32(n), 2001) })
			}
			now := 0
			l.soon("most are carried", 20*time.Second, func() bool {
				now = 0
				for _, e := range l.entries(f) {
					if p := int(e.In.Src.Port()) - 10000 - first; p >= 0 && p < batch {
						now++
					}
				}
				return now >= batch*9/10
			})
			carried += now
			each(func(i int) { at(true, i, "A", 1341, 2001) })
			each(func(i int) { at(true, i, "FA", 1361, 2001) })
			each(func(i int) { at(false, i, "FA", 2001, 1382) })
			each(func(i int) { at(true, i, "A", 1382, 2002) })
		}
		t.Logf("%d of %d were carried", carried, all)
		l.soon("the program has nothing left", 30*time.Second, func() bool { return len(l.entries(f)) == 0 })
		l.soon("conntrack has nothing left", 30*time.Second, func() bool { return l.connections(443) == 0 })
	})
}

// passed waits until what was sent has passed the gateway: the ends' own queues are
// emptied, as nobody else does.
func (l *lab) passed() {
	for _, e := range []*end{l.inside, l.outside} {
		for e.hear(0) != nil {
		}
	}
}

// connections counts conntrack's entries of TCP to a port.
func (l *lab) connections(port uint16) (n int) {
	l.Helper()
	for _, c := range l.tracked() {
		if c.TupleOrig.Proto.Protocol == unix.IPPROTO_TCP && c.TupleOrig.Proto.DestinationPort == port {
			n++
		}
	}
	return n
}
