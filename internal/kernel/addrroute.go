package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/plan"
)

// The kernel makes routes for each address: one to its network, and one in table
// local that says the address is ours. It makes them once: somebody who flushes a
// table takes them for good, and what goes through a gateway of that network, or
// to the address itself, has no road any more.

const (
	rtnLocal       = 2
	metricPrefixV6 = 256 // IP6_RT_PRIO_ADDRCONF
)

// direct are the routes without a gateway: whose addresses are local, and which
// networks a link leads to.
type direct struct {
	local    map[netip.Addr]bool
	networks map[network]bool
}

type network struct {
	link   string
	prefix netip.Prefix
}

// note takes in a route, whoever made it: it may stand in the kernel's place.
func (d *direct) note(b []byte, names map[int]string) error {
	if len(b) < unix.SizeofRtMsg {
		return short("route", b)
	}
	table, typ := int(b[4]), b[7]
	dst, link, gateway := netip.Addr{}, "", false
	err := decode(b[unix.SizeofRtMsg:], func(a *netlink.AttributeDecoder) {
		switch a.Type() {
		case unix.RTA_DST:
			dst, _ = netip.AddrFromSlice(a.Bytes())
		case unix.RTA_OIF:
			link = names[int(a.Uint32())]
		case unix.RTA_GATEWAY:
			gateway = true
		case unix.RTA_TABLE:
			table = int(a.Uint32())
		}
	})
	switch {
	case err != nil:
		return err
	case gateway || !dst.IsValid():
	case table == tableLocal && typ == rtnLocal:
		d.local[dst] = true
	case table == unix.RT_TABLE_MAIN && typ == rtnUnicast:
		d.networks[network{link, netip.PrefixFrom(dst, int(b[1]))}] = true
	}
	return nil
}

// bare says whether a has lost one of the routes that the kernel made for it. A link
// that is down has none, and IPv6 makes them when nobody else has the address.
func (d *direct) bare(a plan.Addr, up bool) bool {
	ip := a.Prefix.Addr()
	if !up || a.Peer.IsValid() || a.Tentative || a.DADFailed {
		return false
	}
	if !d.local[ip] && (ip.Is4() || !a.Fresh) {
		return true
	}
	return !a.NoPrefixRoute && !a.Prefix.IsSingleIP() && !d.networks[network{a.Link, a.Prefix.Masked()}]
}

// putAddrRoutes makes the routes of an address as the kernel made them.
func (s *space) putAddrRoutes(a plan.Addr) error {
	index, err := s.linkIndex(a.Link)
	if err != nil {
		return err
	}
	ip, net := a.Prefix.Addr(), a.Prefix.Masked()
	if ip.Is6() {
		_, have, err := s.routes(map[int]string{index: a.Link})
		if err != nil {
			return err
		}
		if !have.local[ip] {
			return s.remakeAddr6(ip, index)
		}
		err = s.putDirect(rtmsg(unix.AF_INET6, net.Bits(), unix.RT_TABLE_MAIN, protoKernel, unix.RT_SCOPE_UNIVERSE, rtnUnicast, 0), net.Addr(), netip.Addr{}, index, metricPrefixV6)
		if err != nil {
			return fmt.Errorf("the route to its network: %w", err)
		}
		return nil
	}
	if err := s.putDirect(rtmsg(unix.AF_INET, 32, tableLocal, protoKernel, unix.RT_SCOPE_HOST, rtnLocal, 0), ip, ip, index, 0); err != nil {
		return fmt.Errorf("the route to itself: %w", err)
	}
	if a.NoPrefixRoute || a.Prefix.IsSingleIP() {
		return nil
	}
	if err := s.putDirect(rtmsg(unix.AF_INET, net.Bits(), unix.RT_TABLE_MAIN, protoKernel, unix.RT_SCOPE_LINK, rtnUnicast, 0), net.Addr(), ip, index, 0); err != nil {
		return fmt.Errorf("the route to its network: %w", err)
	}
	return nil
}

// remakeAddr6 takes an IPv6 address from its link and adds it again as it was, its
// lifetimes and who made it included. There is no other way to its route in table
// local, whose metric 0 a request can't say (ip6_route_info_create), and to the
// link's route to ff00::/8 (addrconf_add_dev), without which nothing multicast leaves.
func (s *space) remakeAddr6(ip netip.Addr, index int) error {
	msgs, err := dump(s.route, unix.RTM_GETADDR, ifaddr(unix.AF_INET6, 0, 0, 0))
	if err != nil {
		return err
	}
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_NEWADDR || len(m.Data) < unix.SizeofIfAddrmsg || int(native.Uint32(m.Data[4:])) != index {
			continue
		}
		as, err := netlink.UnmarshalAttributes(m.Data[unix.SizeofIfAddrmsg:])
		if err != nil {
			return err
		}
		ours := false
		for i, a := range as {
			switch a.Type {
			case unix.IFA_ADDRESS:
				ours = netip.AddrFrom16([16]byte(append(a.Data, make([]byte, 16)...))) == ip
			case unix.IFA_FLAGS:
				as[i].Data = native.AppendUint32(nil, native.Uint32(a.Data)|unix.IFA_F_NODAD) // it is ours already
			}
		}
		if !ours {
			continue
		}
		data, err := netlink.MarshalAttributes(as)
		if err != nil {
			return err
		}
		return s.swapAddr6(ip, append(slices.Clone(m.Data[:unix.SizeofIfAddrmsg]), data...))
	}
	return unix.EADDRNOTAVAIL
}

// swapAddr6 removes and adds the address of a message. The kernel takes it off the
// routes that have it as their source, which get it back.
func (s *space) swapAddr6(ip netip.Addr, msg []byte) error {
	links, err := s.links()
	if err != nil {
		return err
	}
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Index] = l.Name
	}
	routes, _, err := s.routes(names)
	if err != nil {
		return err
	}
	if err := s.request(s.route, unix.RTM_DELADDR, 0, msg); err != nil {
		return err
	}
	if err := s.request(s.route, unix.RTM_NEWADDR, netlink.Create|netlink.Excl, msg); err != nil {
		return err
	}
	for _, r := range routes {
		if r.Src == ip {
			if err := s.putRoute(r, true); err != nil {
				return fmt.Errorf("the source of route %s: %w", r.Dst, err)
			}
		}
	}
	return nil
}

// putDirect adds a route by a link, unless it is there.
func (s *space) putDirect(msg []byte, dst, src netip.Addr, index int, metric uint32) error {
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.RTA_DST, dst.AsSlice())
		e.Uint32(unix.RTA_OIF, uint32(index))
		if src.IsValid() {
			e.Bytes(unix.RTA_PREFSRC, src.AsSlice())
		}
		if metric != 0 {
			e.Uint32(unix.RTA_PRIORITY, metric)
		}
	})
	if err != nil {
		return err
	}
	err = s.request(s.route, unix.RTM_NEWROUTE, netlink.Create|netlink.Excl, append(msg, data...))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
