package dhcp4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

// optionMSRoutes is Microsoft's number for option 121, from before RFC 3442.
const optionMSRoutes = dhcpv4.GenericOptionCode(249)

// Where the fields that option 52 fills with options lie in a message (RFC 2131,
// figure 1).
const (
	snameAt, fileAt, cookieAt = 44, 108, 236
	overloadFile              = 1
	overloadSname             = 2
)

// decode reads a message, and the options that overflowed into sname and file
// (option 52, RFC 2132, 9.3). A missing end option is forgiven: some servers
// leave it out.
func decode(b []byte) (*dhcpv4.DHCPv4, error) {
	p, err := dhcpv4.FromBytes(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		p, err = dhcpv4.FromBytes(append(slices.Clip(b), dhcpv4.OptionEnd.Code()))
	}
	if err != nil {
		return nil, fmt.Errorf("read a DHCP message of %d bytes: %w", len(b), err)
	}
	if o := p.Options.Get(dhcpv4.OptionOptionOverload); len(o) == 1 {
		// file comes before sname (RFC 2131, 4.1).
		if o[0]&overloadFile != 0 {
			err = p.Options.FromBytes(b[fileAt:cookieAt])
		}
		if o[0]&overloadSname != 0 {
			err = errors.Join(err, p.Options.FromBytes(b[snameAt:fileAt]))
		}
		if err != nil {
			return nil, fmt.Errorf("read a DHCP message's overflowing options: %w", err)
		}
	}
	return p, nil
}

// addrOf is an address of the fixed part or of a 4-byte option.
func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// usable says whether a could be a host's address.
func usable(a netip.Addr) bool {
	return a.Is4() && !a.IsLoopback() && a.As4()[0] != 0 && a.As4()[0] < 224
}

// leaseOf reads the lease out of an ACK for a request sent at sent. What was odd
// about it is in its Note. The error says why it can't be used at all.
func leaseOf(p *dhcpv4.DHCPv4, from ether.MAC, sent time.Time, ignoreClassless bool) (state.Lease4, error) {
	l := state.Lease4{Obtained: sent, Server: serverOf(p), ServerMAC: from.String()}
	addr := addrOf(p.YourIPAddr)
	if !usable(addr) {
		return l, fmt.Errorf("the server gives %s, which is nobody's address", addr)
	}
	var notes []string
	note := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }

	bits, ok := maskBits(fixed(p, dhcpv4.OptionSubnetMask, 4))
	if !ok {
		bits = classBits(addr)
		note("no usable subnet mask (option 1): taking /%d, as before 1993", bits)
	}
	l.Addr = netip.PrefixFrom(addr, bits)

	l.Duration, ok = seconds(p, dhcpv4.OptionIPAddressLeaseTime)
	switch {
	case !ok:
		l.Duration = defaultLease
		note("no lease time (option 51): taking %v", defaultLease)
	case l.Duration == infinite:
		l.Duration = 0
	case l.Duration < minLease:
		return l, fmt.Errorf("the server gives %s for %v: the shortest lease of use is %v", addr, l.Duration, minLease)
	}
	if l.Duration > 0 {
		l.T1, l.T2 = l.Duration/2, l.Duration-l.Duration/8 // RFC 2131, 4.4.5
		t1, ok1 := seconds(p, dhcpv4.OptionRenewTimeValue)
		t2, ok2 := seconds(p, dhcpv4.OptionRebindingTimeValue)
		if ok2 && t2 > 0 && t2 < l.Duration {
			l.T2 = t2
		}
		if ok1 && t1 > 0 && t1 < l.T2 {
			l.T1 = t1
		}
		l.T1 = min(l.T1, l.T2)
	}

	l.Routes = routesOf(p, addr, ignoreClassless, note)
	for _, ip := range dhcpv4.GetIPs(dhcpv4.OptionDomainNameServer, p.Options) {
		if a := addrOf(ip); usable(a) && !slices.Contains(l.DNS, a) {
			l.DNS = append(l.DNS, a)
		}
	}
	l.Domain = domainOf(p.Options.Get(dhcpv4.OptionDomainName))
	if p.Options.Has(dhcpv4.OptionInterfaceMTU) {
		switch v := mtuOf(fixed(p, dhcpv4.OptionInterfaceMTU, 2)); {
		case v > 576 && v <= 9216:
			l.MTU = v
		default:
			// 576 and less is what misconfigured modems say; ISC's client script
			// leaves it out too.
			note("MTU %d (option 26) is left out", v)
		}
	}
	l.Note = strings.Join(notes, "; ")
	return l, nil
}

// infinite is a lease time of 0xffffffff (RFC 2131, 3.3).
const infinite = 0xffffffff * time.Second

// fixed is the value of an option of n bytes; nil if it is missing or another
// length. Of an option sent twice, which the library joins (RFC 3396), the first
// counts: dnsmasq does that to an option that its owner forces.
func fixed(p *dhcpv4.DHCPv4, code dhcpv4.OptionCode, n int) []byte {
	b := p.Options.Get(code)
	if len(b) == 0 || len(b)%n != 0 {
		return nil
	}
	return b[:n]
}

// typeOf is option 53.
func typeOf(p *dhcpv4.DHCPv4) dhcpv4.MessageType {
	if b := fixed(p, dhcpv4.OptionDHCPMessageType, 1); b != nil {
		return dhcpv4.MessageType(b[0])
	}
	return dhcpv4.MessageTypeNone
}

// serverOf is the server's identifier; invalid if there is none.
func serverOf(p *dhcpv4.DHCPv4) netip.Addr {
	return addrOf(fixed(p, dhcpv4.OptionServerIdentifier, 4))
}

func seconds(p *dhcpv4.DHCPv4, code dhcpv4.OptionCode) (time.Duration, bool) {
	b := fixed(p, code, 4)
	if b == nil {
		return 0, false
	}
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Second, true
}

func mtuOf(b []byte) int {
	if len(b) != 2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(b))
}

// maskBits is the length of a netmask; false for none, one with holes, and /0.
func maskBits(b []byte) (int, bool) {
	if len(b) != 4 {
		return 0, false
	}
	ones, size := net.IPMask(b).Size()
	return ones, size == 32 && ones > 0
}

// classBits is the mask of the address's class (RFC 791).
func classBits(a netip.Addr) int {
	switch b := a.As4()[0]; {
	case b < 128:
		return 8
	case b < 192:
		return 16
	}
	return 24
}

// routesOf reads options 121, 249 and 3. RFC 3442: with 121 there, 3 MUST be
// ignored. 249 counts where 121 is not. A malformed one counts as not there.
func routesOf(p *dhcpv4.DHCPv4, own netip.Addr, ignoreClassless bool, note func(string, ...any)) []state.Route {
	if !ignoreClassless {
		for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionClasslessStaticRoute, optionMSRoutes} {
			b := p.Options.Get(code)
			if b == nil {
				continue
			}
			routes, err := classless(b)
			if err != nil {
				note("classless routes (option %d) are malformed and left out: %v", code.Code(), err)
				continue
			}
			if !slices.ContainsFunc(routes, func(r state.Route) bool { return r.Dst.Bits() == 0 }) {
				note("the ISP's classless routes (option %d) hold no default route, and its router (option 3) must then be ignored (RFC 3442):"+
					" nothing goes out here. ignore_classless_routes = true takes the router", code.Code())
			}
			return routes
		}
	}
	for _, ip := range dhcpv4.GetIPs(dhcpv4.OptionRouter, p.Options) {
		switch a := addrOf(ip); {
		case a == own: // point-to-point modems: everything is on the link
			return []state.Route{{Dst: netip.PrefixFrom(netip.IPv4Unspecified(), 0)}}
		case usable(a):
			return []state.Route{{Dst: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Gateway: a}}
		}
	}
	note("the lease has no default route: nothing goes out here")
	return nil
}

// classless reads option 121 (RFC 3442). What is on the link comes first, then
// the longer prefixes, so that a gateway can be reached when its route is made.
// Of two routes to one place the first counts.
func classless(b []byte) ([]state.Route, error) {
	var read dhcpv4.Routes
	if err := read.FromBytes(b); err != nil {
		return nil, err
	}
	if len(read) == 0 {
		return nil, errors.New("it is empty")
	}
	var routes []state.Route
	for _, r := range read {
		bits, _ := r.Dest.Mask.Size()
		route := state.Route{Dst: netip.PrefixFrom(addrOf(r.Dest.IP), bits).Masked(), Gateway: addrOf(r.Router)}
		if route.Gateway.IsUnspecified() {
			route.Gateway = netip.Addr{} // on the link
		} else if !usable(route.Gateway) {
			return nil, fmt.Errorf("%s is no gateway", route.Gateway)
		}
		if !slices.ContainsFunc(routes, func(o state.Route) bool { return o.Dst == route.Dst }) {
			routes = append(routes, route)
		}
	}
	slices.SortStableFunc(routes, func(a, b state.Route) int {
		if a.Gateway.IsValid() != b.Gateway.IsValid() {
			if !a.Gateway.IsValid() {
				return -1
			}
			return 1
		}
		return b.Dst.Bits() - a.Dst.Bits()
	})
	return routes, nil
}

// domainOf takes a domain name that consists of what host names consist of
// (RFC 1123), and "" for anything else.
func domainOf(b []byte) string {
	s := strings.ToLower(strings.Trim(string(b), "\x00. "))
	if len(s) > 253 {
		return ""
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInHostName) {
			return ""
		}
	}
	return s
}

func notInHostName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}
