package fastpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	mdl "github.com/mdlayher/netlink"
	"github.com/ti-mo/conntrack"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// edge is what of the kernel a keeper asks and tells, in the namespace it was opened in.
type edge struct {
	ct     int // a socket of ctnetlink; -1 is none
	seq    uint32
	buf    []byte
	routes *netlink.Handle
	timers timers
}

func openEdge() (e *edge, err error) {
	e = &edge{ct: -1, buf: make([]byte, 64<<10)}
	defer func() {
		if err != nil {
			e.close()
			e = nil
		}
	}()
	if e.ct, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER); err != nil {
		return e, fmt.Errorf("open conntrack: %w", err)
	}
	// The kernel answers within the call that asks; nobody waits here for long.
	if err = unix.SetsockoptTimeval(e.ct, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return e, fmt.Errorf("open conntrack: %w", err)
	}
	if e.routes, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return e, fmt.Errorf("open netlink: %w", err)
	}
	// Made with the thread that opens them, whose namespace /proc/sys/net shows.
	for name, to := range map[string]*time.Duration{"tcp_timeout_established": &e.timers.tcp, "udp_timeout_stream": &e.timers.udp} {
		path := "/proc/sys/net/netfilter/nf_conntrack_" + name
		b, err := os.ReadFile(path)
		if err != nil {
			return e, err
		}
		s, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			return e, fmt.Errorf("read %s: %w", path, err)
		}
		*to = time.Duration(s) * time.Second
	}
	return e, nil
}

func (e *edge) close() {
	if e.ct >= 0 {
		unix.Close(e.ct)
	}
	if e.routes != nil {
		e.routes.Close()
	}
}

// Messages of ctnetlink (linux/netfilter/nfnetlink_conntrack.h).
const (
	ctNew = unix.NFNL_SUBSYS_CTNETLINK << 8
	ctGet = ctNew | 1
)

// ask sends one request, and returns the entry that is the answer to it; nil if all it says
// is that it went well. (The kernel says of the one entry that more follow,
// NLM_F_MULTI, and ends them with no NLMSG_DONE: a library that believes it waits for
// ever.)
func (e *edge) ask(typ uint16, v6 bool, body []byte) (entry []byte, err error) {
	e.seq++
	family := uint8(unix.AF_INET)
	if v6 {
		family = unix.AF_INET6
	}
	data := append([]byte{family, unix.NFNETLINK_V0, 0, 0}, body...)
	flags := mdl.Request
	if typ != ctGet {
		flags |= mdl.Acknowledge
	}
	m, err := mdl.Message{
		Header: mdl.Header{Length: uint32(unix.NLMSG_HDRLEN + len(data)), Type: mdl.HeaderType(typ), Flags: flags, Sequence: e.seq},
		Data:   data,
	}.MarshalBinary()
	if err != nil {
		return nil, err
	}
	if err := unix.Sendto(e.ct, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	for {
		n, _, err := unix.Recvfrom(e.ct, e.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for rest := e.buf[:n]; len(rest) >= unix.NLMSG_HDRLEN; {
			size := int(native.Uint32(rest))
			if size < unix.NLMSG_HDRLEN+4 || size > len(rest) {
				return nil, unix.EBADMSG
			}
			body := rest[unix.NLMSG_HDRLEN:size]
			switch mine := native.Uint32(rest[8:]) == e.seq; {
			case !mine: // of a question that was given up
			case native.Uint16(rest[4:]) == unix.NLMSG_ERROR:
				if no := -int32(native.Uint32(body)); no != 0 {
					return nil, unix.Errno(no)
				}
				return nil, nil
			case native.Uint16(rest[4:]) == ctNew:
				return append([]byte{}, body[4:]...), nil
			}
			rest = rest[min(len(rest), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
		}
	}
}

// get reads the entry that a packet belongs to, by either of its directions; false if
// there is none.
func (e *edge) get(in Tuple, zone uint16) (c conntrack.Flow, there bool, err error) {
	enc := newEncoder()
	tupleTo(enc, in, zone)
	body, err := enc.Encode()
	if err == nil {
		body, err = e.ask(ctGet, in.Src.Addr().Is6(), body)
	}
	if errors.Is(err, unix.ENOENT) {
		return c, false, nil
	}
	if err == nil {
		c, err = parseEntry(body)
	}
	if err != nil {
		return c, false, fmt.Errorf("ask conntrack for %s > %s: %w", in.Src, in.Dst, err)
	}
	return c, true, nil
}

// parseEntry reads what of an entry matters here.
func parseEntry(b []byte) (c conntrack.Flow, err error) {
	d, err := mdl.NewAttributeDecoder(b)
	if err != nil {
		return c, err
	}
	d.ByteOrder = binary.BigEndian
	for d.Next() {
		switch d.Type() {
		case ctTupleOrig:
			d.Nested(func(d *mdl.AttributeDecoder) error { return parseTuple(d, &c.TupleOrig) })
		case ctTupleReply:
			d.Nested(func(d *mdl.AttributeDecoder) error { return parseTuple(d, &c.TupleReply) })
		case ctStatus:
			c.Status = conntrack.Status(d.Uint32())
		case ctProtoInfo:
			d.Nested(func(d *mdl.AttributeDecoder) error {
				for d.Next() {
					if d.Type() != ctInfoTCP {
						continue
					}
					c.ProtoInfo.TCP = &conntrack.ProtoInfoTCP{}
					d.Nested(func(d *mdl.AttributeDecoder) error {
						for d.Next() {
							if d.Type() == ctStateTCP {
								c.ProtoInfo.TCP.State = d.Uint8()
							}
						}
						return nil
					})
				}
				return nil
			})
		case ctHelp:
			d.Nested(func(d *mdl.AttributeDecoder) error {
				for d.Next() {
					if d.Type() == ctHelpName {
						c.Helper.Name = d.String()
					}
				}
				return nil
			})
		case ctTimeout:
			c.Timeout = d.Uint32()
		case ctMark:
			c.Mark = d.Uint32()
		case ctID:
			c.ID = d.Uint32()
		case ctZone:
			c.Zone = d.Uint16()
		}
	}
	if err := d.Err(); err != nil {
		return c, err
	}
	if o, r := c.TupleOrig.IP, c.TupleReply.IP; !o.SourceAddress.IsValid() || !o.DestinationAddress.IsValid() || !r.SourceAddress.IsValid() || !r.DestinationAddress.IsValid() {
		return c, fmt.Errorf("an entry without addresses: %w", unix.EBADMSG)
	}
	return c, nil
}

// parseTuple reads one direction of an entry.
func parseTuple(d *mdl.AttributeDecoder, t *conntrack.Tuple) error {
	for d.Next() {
		switch d.Type() {
		case ctTupleIP:
			d.Nested(func(d *mdl.AttributeDecoder) error {
				for d.Next() {
					a, ok := netip.AddrFromSlice(d.Bytes())
					switch {
					case d.Type() < ctSrc4 || d.Type() > ctDst6:
						continue
					case !ok:
						return fmt.Errorf("an address of %d bytes: %w", len(d.Bytes()), unix.EBADMSG)
					case d.Type() == ctSrc4 || d.Type() == ctSrc6:
						t.IP.SourceAddress = a
					default:
						t.IP.DestinationAddress = a
					}
				}
				return nil
			})
		case ctTupleProto:
			d.Nested(func(d *mdl.AttributeDecoder) error {
				for d.Next() {
					switch d.Type() {
					case ctProtoNum:
						t.Proto.Protocol = d.Uint8()
					case ctProtoSrc:
						t.Proto.SourcePort = d.Uint16()
					case ctProtoDst:
						t.Proto.DestinationPort = d.Uint16()
					}
				}
				return nil
			})
		case ctTupleZone:
			t.Zone = d.Uint16()
		}
	}
	return nil
}

// Attributes of ctnetlink.
const (
	ctTupleOrig, ctTupleReply, ctStatus, ctProtoInfo, ctHelp = 1, 2, 3, 4, 5
	ctTimeout, ctMark, ctID, ctZone                          = 7, 8, 12, 18

	ctTupleIP, ctTupleProto, ctTupleZone      = 1, 2, 3
	ctSrc4, ctDst4, ctSrc6, ctDst6            = 1, 2, 3, 4
	ctProtoNum, ctProtoSrc, ctProtoDst        = 1, 2, 3
	ctInfoTCP                                 = 1
	ctStateTCP, ctFlagsOriginal, ctFlagsReply = 1, 4, 5
	ctHelpName                                = 1
)

// liberal is IP_CT_TCP_FLAG_BE_LIBERAL, as flag and in the mask of what to change (struct
// nf_ct_tcp_flags): without it FIN and RST after segments that conntrack has not seen
// would be out of the window, invalid and dropped.
var liberal = []byte{0x08, 0x08}

func newEncoder() *mdl.AttributeEncoder {
	e := mdl.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	return e
}

func nested(e *mdl.AttributeEncoder, typ uint16, f func(*mdl.AttributeEncoder)) {
	e.Nested(typ, func(e *mdl.AttributeEncoder) error {
		e.ByteOrder = binary.BigEndian
		f(e)
		return nil
	})
}

// tupleTo writes by what an entry is found. zone is that in which packets look for it
// that go the way of the first one (CTA_TUPLE_ZONE).
func tupleTo(e *mdl.AttributeEncoder, t Tuple, zone uint16) {
	nested(e, ctTupleOrig, func(e *mdl.AttributeEncoder) {
		nested(e, ctTupleIP, func(e *mdl.AttributeEncoder) {
			src, dst := uint16(ctSrc4), uint16(ctDst4)
			if t.Src.Addr().Is6() {
				src, dst = ctSrc6, ctDst6
			}
			e.Bytes(src, t.Src.Addr().AsSlice())
			e.Bytes(dst, t.Dst.Addr().AsSlice())
		})
		nested(e, ctTupleProto, func(e *mdl.AttributeEncoder) {
			e.Uint8(ctProtoNum, t.Protocol)
			e.Uint16(ctProtoSrc, t.Src.Port())
			e.Uint16(ctProtoDst, t.Dst.Port())
		})
		if zone != 0 {
			e.Uint16(ctTupleZone, zone)
		}
	})
}

// hold has an entry live for a time from now on, and take what of its connection
// follows on packets that it has not seen; false if it is gone. A full table makes no room
// by it (IPS_ASSURED): UDP's entry would come to that by itself if conntrack saw its packets.
// TCP's state is not told, so that a FIN which came a moment ago is not undone.
func (e *edge) hold(c conntrack.Flow, left time.Duration) (there bool, err error) {
	t := c.TupleOrig
	in := Tuple{netip.AddrPortFrom(t.IP.SourceAddress.Unmap(), t.Proto.SourcePort), netip.AddrPortFrom(t.IP.DestinationAddress.Unmap(), t.Proto.DestinationPort), t.Proto.Protocol}
	enc := newEncoder()
	tupleTo(enc, in, t.Zone)
	enc.Uint32(ctTimeout, uint32(left/time.Second))
	if c.Status&conntrack.StatusAssured == 0 {
		enc.Uint32(ctStatus, uint32(c.Status|conntrack.StatusAssured))
	}
	if t.Proto.Protocol == unix.IPPROTO_TCP {
		nested(enc, ctProtoInfo, func(e *mdl.AttributeEncoder) {
			nested(e, ctInfoTCP, func(e *mdl.AttributeEncoder) {
				e.Bytes(ctFlagsOriginal, liberal)
				e.Bytes(ctFlagsReply, liberal)
			})
		})
	}
	body, err := enc.Encode()
	if err == nil {
		_, err = e.ask(ctNew, in.Src.Addr().Is6(), body)
	}
	// ETIME: it is dying; EBUSY: it was not when its status was read.
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ETIME) || errors.Is(err, unix.EBUSY) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("keep conntrack's entry of %s > %s: %w", in.Src, in.Dst, err)
	}
	return true, nil
}

// route asks the kernel where it would send a packet.
func (e *edge) route(q question) (answer, error) {
	found, err := e.routes.RouteGetWithOptions(q.dst.AsSlice(), &netlink.RouteGetOptions{IifIndex: q.from, SrcAddr: q.src.AsSlice(), Mark: q.mark})
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EXDEV), errors.Is(err, unix.EACCES):
		return answer{}, nil
	case err != nil:
		return answer{}, fmt.Errorf("ask for the route from %s to %s: %w", q.src, q.dst, err)
	case len(found) != 1 || found[0].Type != unix.RTN_UNICAST || len(found[0].MultiPath) > 0:
		return answer{}, nil
	}
	a := answer{link: found[0].LinkIndex, mtu: found[0].MTU}
	if via, ok := netip.AddrFromSlice(found[0].Gw); ok && !via.IsUnspecified() {
		a.via = via.Unmap()
	}
	if v, ok := found[0].Via.(*netlink.Via); ok {
		if via, ok := netip.AddrFromSlice(v.Addr); ok {
			a.via = via
		}
	}
	return a, nil
}

// uptime is CLOCK_MONOTONIC, the programs' clock.
func uptime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}
