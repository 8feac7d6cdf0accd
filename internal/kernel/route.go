package kernel

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/plan"
)

const (
	rtmCloned    = 0x200 // RTM_F_CLONED: a cached exception, not a route
	rtnhOnLink   = 4     // RTNH_F_ONLINK
	rtaNextHopID = 30    // RTA_NH_ID
	tableLocal   = 255
	protoKernel  = 2
)

// The values of rtm_type (linux/rtnetlink.h).
const (
	rtnUnicast     = 1
	rtnBlackhole   = 6
	rtnUnreachable = 7
)

func rtmsg(family uint8, dstLen int, table int, proto, scope, typ uint8, flags uint32) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0], b[1] = family, uint8(dstLen)
	b[4] = uint8(unix.RT_TABLE_UNSPEC)
	if table < 256 {
		b[4] = uint8(table)
	}
	b[5], b[6], b[7] = proto, scope, typ
	native.PutUint32(b[8:], flags)
	return b
}

// routes lists the routes of both families and all tables, without what the
// kernel keeps for itself: of that, direct has what addresses need.
func (s *space) routes(names map[int]string) ([]plan.Route, *direct, error) {
	var out []plan.Route
	direct := &direct{local: map[netip.Addr]bool{}, networks: map[network]bool{}}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		msgs, err := dump(s.route, unix.RTM_GETROUTE, rtmsg(family, 0, 0, 0, 0, 0, 0))
		if family == unix.AF_INET6 && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list routes in %s: %w", place(s.name), err)
		}
		for _, m := range msgs {
			if m.Header.Type != unix.RTM_NEWROUTE {
				continue
			}
			r, ok, err := parseRoute(m.Data, names)
			if err = errors.Join(err, direct.note(m.Data, names)); err != nil {
				return nil, nil, fmt.Errorf("list routes in %s: %w", place(s.name), err)
			}
			if ok {
				out = append(out, r)
			}
		}
	}
	return out, direct, nil
}

// parseRoute returns ok false for what nobody plans: the kernel's own routes,
// table local, cached exceptions, multicast.
func parseRoute(b []byte, names map[int]string) (r plan.Route, ok bool, err error) {
	if len(b) < unix.SizeofRtMsg {
		return r, false, short("route", b)
	}
	family, dstLen, srcLen, tos, proto, typ := b[0], int(b[1]), b[2], b[3], b[5], b[7]
	flags := native.Uint32(b[8:])
	table := int(b[4])
	if proto == protoKernel || flags&rtmCloned != 0 {
		return r, false, nil
	}
	var other []string
	dst := netip.IPv4Unspecified()
	if family == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	var hops []byte
	err = decode(b[unix.SizeofRtMsg:], func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.RTA_TABLE:
			table = int(d.Uint32())
		case unix.RTA_DST:
			if a, ok := netip.AddrFromSlice(d.Bytes()); ok {
				dst = a
			}
		case unix.RTA_GATEWAY:
			r.Gateway, _ = netip.AddrFromSlice(d.Bytes())
		case unix.RTA_VIA:
			other = append(other, "via a gateway of the other family")
		case unix.RTA_OIF:
			r.Link = names[int(d.Uint32())]
		case unix.RTA_PREFSRC:
			r.Src, _ = netip.AddrFromSlice(d.Bytes())
		case unix.RTA_PRIORITY:
			r.Metric = int(d.Uint32())
		case unix.RTA_MULTIPATH:
			hops = d.Bytes()
		case unix.RTA_ENCAP:
			other = append(other, "encapsulated")
		case rtaNextHopID:
			other = append(other, fmt.Sprintf("nexthop object %d", d.Uint32()))
		}
	})
	if err != nil {
		return r, false, err
	}
	if table == tableLocal {
		return r, false, nil
	}
	switch typ {
	case rtnUnicast:
	case rtnUnreachable:
		r.Type = desired.Unreachable
	case rtnBlackhole:
		r.Type = desired.Blackhole
	default:
		return r, false, nil // multicast, anycast, prohibit and the like are nobody's here
	}
	if r.Type != desired.Unicast {
		r.Link = "" // IPv6 says lo
	}
	if r.Hops, err = parseHops(hops, names); err != nil {
		return r, false, err
	}
	if srcLen != 0 {
		other = append(other, "for some sources")
	}
	if tos != 0 {
		other = append(other, fmt.Sprintf("tos %#x", tos))
	}
	r.Dst = netip.PrefixFrom(dst, dstLen)
	r.Table = table
	if table == unix.RT_TABLE_MAIN {
		r.Table = 0
	}
	r.OnLink = flags&rtnhOnLink != 0
	r.Proto = int(proto)
	if r.Other = strings.Join(other, ", "); r.Other != "" {
		r.Raw = hex.EncodeToString(b)
	}
	return r, true, nil
}

// putRoute adds r; replace puts it in the place of the one of the same
// destination, table and metric, without a moment between.
func (s *space) putRoute(r plan.Route, replace bool) error {
	flags := netlink.Create | netlink.Excl
	if replace {
		flags = netlink.Create | netlink.Replace
	}
	err := s.routeRequest(unix.RTM_NEWROUTE, flags, r)
	if errors.Is(err, unix.EHOSTUNREACH) && r.Dst.Addr().Is6() && !r.OnLink && s.connected(r) {
		// IPv6 looks its gateway up in the route's own table, and by the rules
		// for the link: in a line's table it finds the old default route and
		// takes it for the way there (ip6_route_check_nh). The gateway is in a
		// network of the link, so the route can say so.
		r.OnLink = true
		err = s.routeRequest(unix.RTM_NEWROUTE, flags, r)
	}
	return err
}

// connected says whether a route's gateway is in a network of its link.
func (s *space) connected(r plan.Route) bool {
	index, err := s.linkIndex(r.Link)
	if err != nil || !r.Gateway.IsValid() {
		return false
	}
	addrs, err := s.addrs(map[int]string{index: r.Link})
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if a.Link == r.Link && a.Prefix.Contains(r.Gateway) {
			return true
		}
	}
	return false
}

func (s *space) deleteRoute(r plan.Route) error {
	return s.routeRequest(unix.RTM_DELROUTE, 0, r)
}

func (s *space) routeRequest(typ netlink.HeaderType, flags netlink.HeaderFlags, r plan.Route) error {
	if r.Raw != "" {
		raw, err := hex.DecodeString(r.Raw)
		if err != nil {
			return err
		}
		return s.request(s.route, typ, flags, raw)
	}
	family := uint8(unix.AF_INET6)
	if r.Dst.Addr().Is4() {
		family = unix.AF_INET
	}
	hops, err := s.encodeHops(r.Hops)
	if err != nil {
		return err
	}
	rtype := map[desired.RouteType]uint8{desired.Unicast: rtnUnicast, desired.Unreachable: rtnUnreachable, desired.Blackhole: rtnBlackhole}[r.Type]
	scope := uint8(unix.RT_SCOPE_UNIVERSE)
	if family == unix.AF_INET && r.Type == desired.Unicast && !r.Gateway.IsValid() && hops == nil {
		scope = unix.RT_SCOPE_LINK
	}
	if typ == unix.RTM_DELROUTE {
		scope = unix.RT_SCOPE_NOWHERE // any
	}
	var rtflags uint32
	if r.OnLink {
		rtflags = rtnhOnLink
	}
	table := r.Table
	if table == 0 {
		table = unix.RT_TABLE_MAIN
	}
	index := 0
	if r.Link != "" {
		var err error
		if index, err = s.linkIndex(r.Link); err != nil {
			return err
		}
	}
	proto := uint8(r.Proto)
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		if r.Dst.Bits() > 0 {
			e.Bytes(unix.RTA_DST, r.Dst.Masked().Addr().AsSlice())
		}
		if table >= 256 {
			e.Uint32(unix.RTA_TABLE, uint32(table))
		}
		if r.Metric != 0 {
			e.Uint32(unix.RTA_PRIORITY, uint32(r.Metric))
		}
		if r.Gateway.IsValid() {
			e.Bytes(unix.RTA_GATEWAY, r.Gateway.WithZone("").AsSlice())
		}
		if r.Src.IsValid() {
			e.Bytes(unix.RTA_PREFSRC, r.Src.AsSlice())
		}
		if index != 0 {
			e.Uint32(unix.RTA_OIF, uint32(index))
		}
		if hops != nil {
			e.Bytes(unix.RTA_MULTIPATH, hops)
		}
	})
	if err != nil {
		return err
	}
	return s.request(s.route, typ, flags, append(rtmsg(family, r.Dst.Bits(), table, proto, scope, rtype, rtflags), data...))
}
