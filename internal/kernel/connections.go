package kernel

import (
	"fmt"
	"iter"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/plan"
	"weir/internal/ruleset"
	"weir/internal/traffic"
)

// connection is a TCP connection as its client sees it: untranslated.
type connection struct{ client, server netip.AddrPort }

// The states of a TCP entry (enum tcp_conntrack, linux/netfilter/nf_conntrack_tcp.h)
// in which a client may wait for data, and the first of those in which it is over.
const (
	tcpEstablished = 3
	tcpFinWait     = 4 // one side has said all it had to say
	tcpCloseWait   = 5
	tcpTimeWait    = 7
)

// connections lists the TCP connections that went out, among the flows that f is
// about, in one dump that the kernel filters. beyond is how many there are more
// than most.
func (s *space) connections(f plan.DeleteFlows, most int) (list []connection, beyond int, err error) {
	// Only those that went out, all of them TCP.
	f.Mark = f.Mark&^ruleset.MarkIn | ruleset.MarkTCP
	f.Mask |= ruleset.MarkIn | ruleset.MarkTCP
	filter, err := flowFilter(f, 0)
	if err != nil {
		return nil, 0, err
	}
	err = entries(s.name, f.Family, filter, func(e entry) {
		switch waits := e.state == tcpEstablished || e.state == tcpFinWait || e.state == tcpCloseWait; {
		case e.proto != unix.IPPROTO_TCP || !waits || !e.client.IsValid():
		case len(list) < most:
			list = append(list, connection{client: e.client, server: e.server})
		default:
			beyond++
		}
	})
	return list, beyond, err
}

// entry is a conntrack entry: its addresses as who began it says them, the one that
// answers, and the source as that one sees it.
type entry struct {
	client, server, answers, seen netip.AddrPort
	proto, state                  uint8 // state: of TCP
	mark, id                      uint32
	forth, back                   traffic.Count
	counted                       bool
	orig                          []byte // CTA_TUPLE_ORIG as it came, with its zone: only while the entry is looked at
}

// entries dumps conntrack's entries of a namespace that pass the kernel's filter;
// family 0 is both.
//
// The answer is read piece by piece, and none of it is kept: it may be longer
// than a small machine has memory to spare.
func entries(namespace string, family int, filter []byte, each func(entry)) error {
	var fd int
	if err := netns.Do(namespace, func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return err
	}); err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer unix.Close(fd)
	// The kernel answers within the call that asks; nobody waits here for long.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return err
	}
	data := append(nfgen(flowFamily(family), 0), filter...)
	m, err := netlink.Message{
		Header: netlink.Header{Length: uint32(unix.NLMSG_HDRLEN + len(data)), Type: ctGet, Flags: netlink.Request | netlink.Dump, Sequence: 1},
		Data:   data,
	}.MarshalBinary()
	if err != nil {
		return err
	}
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask for connections in %s: %w", place(namespace), err)
	}
	b := make([]byte, 64<<10) // the kernel fills at most 32 KiB of a dump at a time
	for {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			return fmt.Errorf("list connections in %s: %w", place(namespace), err)
		}
		for rest := b[:n]; len(rest) >= unix.NLMSG_HDRLEN; {
			size := int(native.Uint32(rest))
			if size < unix.NLMSG_HDRLEN || size > len(rest) {
				return short("list of connections", rest)
			}
			body := rest[unix.NLMSG_HDRLEN:size]
			switch native.Uint16(rest[4:]) {
			case unix.NLMSG_DONE:
				return nil
			case unix.NLMSG_ERROR:
				if len(body) < 4 {
					return short("error", body)
				}
				return fmt.Errorf("list connections in %s: %w", place(namespace), unix.Errno(-int32(native.Uint32(body))))
			case ctNew:
				e, err := parseEntry(body)
				if err != nil {
					return err
				}
				each(e)
			}
			rest = rest[min(len(rest), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
		}
	}
}

// parseEntry reads an entry. One of neither IPv4 nor IPv6 has no addresses.
func parseEntry(b []byte) (e entry, err error) {
	if len(b) < 4 {
		return e, short("flow", b)
	}
	for typ, v := range nested(b[4:], &err) {
		switch typ {
		case ctTupleOrig:
			e.orig = v
			parseTuple(v, &e.client, &e.server, &e.proto, &err)
		case ctTupleReply:
			var proto uint8
			parseTuple(v, &e.answers, &e.seen, &proto, &err)
		case ctMark:
			e.mark = uint32(number(v, 4, &err))
		case ctCountersOrig:
			e.counted = true
			parseCount(v, &e.forth, &err)
		case ctCountersReply:
			parseCount(v, &e.back, &err)
		case ctID:
			e.id = uint32(number(v, 4, &err))
		case ctProtoInfo:
			for typ, v := range nested(v, &err) {
				if typ != 1 { // CTA_PROTOINFO_TCP
					continue
				}
				for typ, v := range nested(v, &err) {
					if typ == 1 { // CTA_PROTOINFO_TCP_STATE
						e.state = uint8(number(v, 1, &err))
					}
				}
			}
		}
	}
	if e.client.Addr().BitLen() != e.server.Addr().BitLen() {
		e.client, e.server, e.answers, e.seen = netip.AddrPort{}, netip.AddrPort{}, netip.AddrPort{}, netip.AddrPort{}
	}
	return e, err
}

// nested are the attributes in b, by type and value. A table has a hundred thousand
// entries of thirty attributes: nothing is allocated for one. What is wrong is put
// into err, and ends it.
func nested(b []byte, err *error) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			size := int(native.Uint16(b))
			if size < unix.SizeofNlAttr || size > len(b) {
				*err = short("attribute of a flow", b)
				return
			}
			if !yield(native.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofNlAttr:size]) {
				return
			}
			b = b[min(len(b), (size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
		}
	}
}

// number is a value of so many bytes, in the network's order.
func number(v []byte, size int, err *error) (n uint64) {
	if len(v) != size {
		*err = short("number of a flow", v)
		return 0
	}
	for _, b := range v {
		n = n<<8 | uint64(b)
	}
	return n
}

// parseCount reads the counters of one direction.
func parseCount(b []byte, c *traffic.Count, err *error) {
	for typ, v := range nested(b, err) {
		switch typ {
		case 1: // CTA_COUNTERS_PACKETS
			c.Packets = number(v, 8, err)
		case 2: // CTA_COUNTERS_BYTES
			c.Bytes = number(v, 8, err)
		}
	}
}

// parseTuple reads one direction of an entry.
func parseTuple(b []byte, from, to *netip.AddrPort, proto *uint8, err *error) {
	var src, dst netip.Addr
	var ports [2]uint16
	for typ, v := range nested(b, err) {
		switch typ {
		case 1: // CTA_TUPLE_IP
			for typ, v := range nested(v, err) {
				a, ok := netip.AddrFromSlice(v)
				switch typ {
				case 1, 3: // CTA_IP_V4_SRC, CTA_IP_V6_SRC
					src = a
				case 2, 4: // CTA_IP_V4_DST, CTA_IP_V6_DST
					dst = a
				default:
					continue
				}
				if !ok {
					*err = fmt.Errorf("a flow's address of %d bytes: %w", len(v), unix.EBADMSG)
				}
			}
		case 2: // CTA_TUPLE_PROTO
			for typ, v := range nested(v, err) {
				switch typ {
				case 1: // CTA_PROTO_NUM
					*proto = uint8(number(v, 1, err))
				case 2, 3: // CTA_PROTO_SRC_PORT, CTA_PROTO_DST_PORT
					ports[typ-2] = uint16(number(v, 2, err))
				}
			}
		}
	}
	*from, *to = netip.AddrPortFrom(src, ports[0]), netip.AddrPortFrom(dst, ports[1])
}
