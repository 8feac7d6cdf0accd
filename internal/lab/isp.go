package lab

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Line is what an ISP sells on a WAN.
type Line struct {
	Name string // the WAN's
	Port string // the gateway's
	VLAN int    // 802.1Q VID on the port; 0 is untagged

	// IPv4: the networks of the customer's addresses, first the one that
	// translates, and the router's address, which may lie outside them. Invalid:
	// the line has no IPv4.
	Customer4 []netip.Prefix
	Router4   netip.Addr
	DHCP      bool
	Lease     time.Duration // of DHCP

	// IPv6: static addresses with their networks, or the prefix advertised for
	// SLAAC. Router6 is a global or a link-local address.
	Customer6 []netip.Prefix
	Prefix6   netip.Prefix
	Router6   netip.Addr

	// Delegate6 is the prefix that the ISP delegates by DHCPv6, for Lease preferred
	// and twice that valid; invalid: none. FourMessages: it knows no rapid commit.
	Delegate6    netip.Prefix
	FourMessages bool

	TAP bool // the port is a TAP, whose carrier is lost like a real port's; untagged only
	// Shaped puts a Link between the gateway and the ISP's router (that of the TAP,
	// if there is one), whose figures Shape sets. It is a plain cable at first.
	Shaped bool
}

// ISP is an ISP's router, isp-NAME, and the internet behind it, inet-NAME.
type ISP struct {
	Line
	Router, Inet *Host
	Wire         *Wire // all that the gateway sends on the line

	lab      *Lab
	link     *Link // nil: a veth
	dhcp     *dhcpServer
	pd       *delegator
	ra       *advertiser
	mu       sync.Mutex
	given4   []netip.Addr   // all addresses the customer has had
	given6   []netip.Prefix // all prefixes
	routers4 []netip.Addr   // all routers it was told of

	strays strays
}

// Connect makes the ISP of a line and plugs it into the gateway's port.
func (l *Lab) Connect(line Line) (*ISP, error) {
	i := &ISP{Line: line, lab: l}
	var err error
	if i.Router, err = l.Add("isp-" + line.Name); err != nil {
		return nil, err
	}
	for key, value := range map[string]string{
		"net/ipv4/ip_forward":              "1",
		"net/ipv6/conf/all/forwarding":     "1",
		"net/ipv4/conf/all/send_redirects": "0",
	} {
		if err := i.Router.Sysctl(key, value); err != nil {
			return nil, err
		}
	}
	if err := i.plugIn(); err != nil {
		return nil, err
	}
	// An ISP lets through what its customers have an address for, and no more.
	if err := i.Router.Sysctl("net/ipv4/conf/cust0/rp_filter", "1"); err != nil {
		return nil, err
	}
	if i.Inet, err = l.openInternet(i.Router, line.Name); err != nil {
		return nil, err
	}
	if err := i.number(); err != nil {
		return nil, err
	}
	if i.Wire, err = i.listen(); err != nil {
		return nil, err
	}
	if err := i.Router.serveDNS(line.Name, i.Gave); err != nil {
		return nil, err
	}
	if line.DHCP {
		if err := i.serveDHCP(); err != nil {
			return nil, err
		}
	}
	if line.Delegate6.IsValid() {
		if err := i.delegate(); err != nil {
			return nil, err
		}
	}
	if line.Prefix6.IsValid() {
		return i, i.advertise()
	}
	return i, nil
}

// plugIn lays the cable from the gateway's port to the router's cust0.
func (i *ISP) plugIn() error {
	cust := Plug{Host: i.Router, Dev: "cust0"}
	if i.TAP {
		var err error
		i.link, err = i.lab.Link(Plug{Host: i.lab.Gateway(), Dev: i.Port}, cust, Shape{}, Shape{}, i.seed())
		return err
	}
	// The modem: a switch whose port can lose power while the router behind it
	// stays as it is.
	sw, err := i.lab.Switch(fmt.Sprintf("modem%d", i.lab.count()))
	if err != nil {
		return err
	}
	if err := sw.Serve(i.Port, i.VLAN); err != nil || !i.Shaped {
		return first(err, sw.Plug(cust))
	}
	i.link, err = sw.link(cust, i.seed())
	return err
}

// seed is of the line's chances: those of a line of this name are always the same.
func (i *ISP) seed() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(i.Name))
	return h.Sum64()
}

// Shape changes what the line does to what the customer sends (up) and is sent
// (down), from now on.
func (i *ISP) Shape(up, down Shape) error {
	if i.link == nil {
		return fmt.Errorf("isp-%s: its line is a plain cable, and has no figures", i.Name)
	}
	return i.link.Shape(up, down)
}

// Counts tells what a shaped line has done so far. It is zero of a plain cable.
func (i *ISP) Counts() (up, down Count) {
	if i.link == nil {
		return up, down
	}
	return i.link.Counts()
}

// count numbers what needs a short name.
func (l *Lab) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.trunks)
}

// number gives the router its addresses and both machines the routes to the
// customer.
func (i *ISP) number() error {
	if i.Router4.IsValid() {
		i.routers4 = append(i.routers4, i.Router4)
		if err := i.Router.AddAddr("cust0", netip.PrefixFrom(i.Router4, 32)); err != nil {
			return err
		}
		for _, p := range i.Customer4 {
			if err := i.routeTo(p); err != nil {
				return err
			}
			i.gave(p.Addr())
		}
	}
	if i.Router6.IsValid() {
		bits := 128
		if i.Router6.IsLinkLocalUnicast() {
			bits = 64
		}
		if err := i.Router.AddAddr("cust0", netip.PrefixFrom(i.Router6, bits)); err != nil {
			return err
		}
	}
	prefixes := i.Customer6
	if i.Prefix6.IsValid() {
		prefixes = append(prefixes[:len(prefixes):len(prefixes)], i.Prefix6)
		if err := i.Router.AddAddr("cust0", netip.PrefixFrom(routerIn(i.Prefix6), 128)); err != nil {
			return err
		}
	}
	for _, p := range prefixes {
		if err := i.routeTo(p); err != nil {
			return err
		}
		i.mu.Lock()
		i.given6 = append(i.given6, p.Masked())
		i.mu.Unlock()
	}
	return nil
}

// routeTo routes a customer's network, from the internet and on the last link.
func (i *ISP) routeTo(p netip.Prefix) error {
	via := up4.Addr()
	if p.Addr().Is6() {
		via = upLink
	}
	return first(
		i.Router.Route(p.Masked(), netip.Addr{}, "cust0"),
		i.Inet.localRoute(p.Masked(), via, "eth0"),
	)
}

// noRouteTo takes it back: whoever still uses the network reaches nobody.
func (i *ISP) noRouteTo(p netip.Prefix) error {
	for _, h := range []struct {
		host  *Host
		dev   string
		table int
	}{{i.Router, "cust0", unix.RT_TABLE_MAIN}, {i.Inet, "eth0", unix.RT_TABLE_LOCAL}} {
		link, err := h.host.nl.LinkByName(h.dev)
		if err != nil {
			return err
		}
		r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(p.Masked()), Table: h.table}
		if p.Addr().Is4() && h.table == unix.RT_TABLE_MAIN {
			r.Scope = netlink.SCOPE_LINK
		}
		if err := h.host.nl.RouteDel(r); err != nil {
			return fmt.Errorf("take the route to %s from %s: %w", p, h.host, err)
		}
	}
	return nil
}

func (i *ISP) gave(a netip.Addr) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.given4 = append(i.given4, a)
}

// Gave says whether the address is one that the customer has now or had before.
func (i *ISP) Gave(a netip.Addr) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, g := range i.given4 {
		if g == a {
			return true
		}
	}
	for _, p := range i.given6 {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Owns says whether the address is one that the customer has now.
func (i *ISP) Owns(a netip.Addr) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range i.Customer4 {
		if p.Addr() == a {
			return true
		}
	}
	for _, p := range i.Customer6 {
		if p.Addr() == a {
			return true
		}
	}
	return i.Prefix6.IsValid() && i.Prefix6.Contains(a) || i.Delegated().Contains(a)
}

// Carrier takes the carrier from the gateway's port, or gives it back.
func (i *ISP) Carrier(on bool) error {
	if i.TAP {
		return i.link.Carrier(on)
	}
	return i.lab.Unplug(i.Port, !on)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Current4 is the customer's IPv4 address that translates, now.
func (i *ISP) Current4() netip.Addr {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.Customer4) == 0 {
		return netip.Addr{}
	}
	return i.Customer4[0].Addr()
}
