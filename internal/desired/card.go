package desired

import (
	"net/netip"
	"slices"

	"weir/internal/config"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// Priorities of a WAN namespace's ip rules.
const (
	prefHome  = 5  // what is marked goes home over the cable, also what is for an address of this namespace
	prefLocal = 10 // the local table, whose own rule at 0 goes
)

// TableLocal is the kernel's table of local addresses (rtnetlink(7)).
const TableLocal = 255

// card is the namespace of a WAN: the ISP's addresses and routes, and no state.
func (b *build) card(h ruleset.House, w wan) Namespace {
	n := Namespace{Name: w.ns, WAN: w.Name, Table: ruleset.Card(h, w.WAN)}
	n.sysctls(
		"net/ipv4/ip_forward", "1",
		"net/ipv6/conf/all/forwarding", "1",
		"net/ipv4/conf/all/rp_filter", "0",
		"net/ipv4/conf/all/send_redirects", "0",
	)
	n.addLink(Link{Name: CableInner, Kind: Veth, Up: true, MTU: cableMTU(w), Peer: w.Name, AddrGen: addrGenNone, OwnAddrs: true})
	n.cable(CableInner, w.Far4, w.Far6, linkLocalFar)
	for _, near := range []netip.Addr{w.Near4, w.Near6} {
		if !near.IsValid() {
			continue
		}
		n.Routes = append(n.Routes, Route{Dst: everything(near), Gateway: near, Link: CableInner, Table: w.table()})
	}
	for _, v6 := range []bool{false, true} {
		n.Rules = append(n.Rules,
			Rule{V6: v6, Pref: prefHome, Mark: ruleset.MarkHome, Mask: ruleset.MarkMask, Table: w.table()},
			Rule{V6: v6, Pref: prefLocal, Table: TableLocal})
	}
	if w.absent {
		return n
	}

	port := w.link.Name
	n.addLink(w.link)
	n.hostile(port)
	n.sysctls("net/ipv4/conf/"+port+"/arp_announce", "2") // never a cable's address in an ARP request
	ra := [2]string{"0", "0"}
	if w.v6.kernel {
		ra = [2]string{"2", "1"} // 2: also on a router
	} else if w.cfg.IPv6.Method == config.MethodDHCP {
		ra = [2]string{"2", "0"} // for the default route
	}
	off := "0"
	if w.cfg.IPv6.Method == config.MethodNone {
		off = "1"
	}
	n.sysctls(ipv6conf(port, "disable_ipv6"), off, ipv6conf(port, "accept_ra"), ra[0], ipv6conf(port, "autoconf"), ra[1], ipv6conf(port, "use_tempaddr"), "0")
	n.line(port, w.v4)
	n.line(port, w.v6)
	n.Shortcut = b.shortcut(w)
	return n
}

// line adds a line's addresses and routes, where they are not the kernel's.
func (n *Namespace) line(port string, l line) {
	if l.kernel {
		for _, a := range l.leased {
			n.Addrs = append(n.Addrs, Addr{Link: port, Prefix: a})
		}
		return
	}
	var nets []netip.Prefix
	for _, a := range l.addr {
		n.Addrs = append(n.Addrs, Addr{Link: port, Prefix: a})
		nets = append(nets, a.Masked())
	}
	if len(l.addr) == 0 {
		return // a gateway of yesterday's lease
	}
	routes := slices.Clone(l.routes)
	slices.SortStableFunc(routes, func(x, y state.Route) int {
		if c := y.Dst.Bits() - x.Dst.Bits(); c != 0 {
			return c
		}
		return x.Dst.Addr().Compare(y.Dst.Addr())
	})
	for i, r := range routes {
		dst := r.Dst.Masked()
		if i > 0 && dst == routes[i-1].Dst.Masked() || slices.Contains(nets, dst) {
			continue // said twice, or connected
		}
		out := Route{Dst: dst, Link: port}
		if r.Gateway.IsValid() && !r.Gateway.IsUnspecified() {
			out.Gateway = r.Gateway
			// Whatever other routes make it reachable: so their order is no matter.
			out.OnLink = !r.Gateway.IsLinkLocalUnicast() && !slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(r.Gateway) })
		}
		n.Routes = append(n.Routes, out)
	}
}
