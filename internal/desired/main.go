package desired

import (
	"net/netip"
	"slices"

	"weir/internal/ruleset"
)

// Priorities of main's ip rules: a class of them for each of the four reasons
// to use a line, and in it the line's index.
const (
	prefBoundLink = RulePref       // by the cable the socket is bound to
	prefBound     = RulePref + 256 // MarkBound: whatever the verdict
	prefIn        = RulePref + 512 // MarkIn: this line or none
	prefPinned    = RulePref + 768 // while the line is up; TCP a while longer
)

const protoTCP = 6 // IPPROTO_TCP

// main is the namespace weir starts in: the LANs, the near ends of the cables,
// and all state.
func (b *build) main(h ruleset.House) Namespace {
	n := Namespace{Table: ruleset.Main(h)}
	n.sysctls(
		"net/ipv4/ip_forward", "1",
		"net/ipv6/conf/all/forwarding", "1",
		// The larger of "all" and a link's own value counts, and the answer to a
		// probe comes in by a cable that the main table knows no route by. The
		// ruleset checks sources, in both families.
		"net/ipv4/conf/all/rp_filter", "0",
		"net/ipv4/conf/all/send_redirects", "0",
		// What is in mid-stream and unknown is invalid, and gets a reset...
		"net/netfilter/nf_conntrack_tcp_loose", "0",
		// ...but a segment outside the window harms no connection that is known.
		"net/netfilter/nf_conntrack_tcp_be_liberal", "1",
		// Who sends how much is told by each entry that was made with this on.
		"net/netfilter/nf_conntrack_acct", "1",
	)
	n.Sysctls = append(n.Sysctls,
		Sysctl{Key: "net/netfilter/nf_conntrack_buckets", Value: "65536", Global: true},
		Sysctl{Key: "net/netfilter/nf_conntrack_max", Value: "262144", Global: true})

	if slices.ContainsFunc(b.lans, func(l lan) bool { return len(l.links) > 1 }) {
		// With br_netfilter (Docker loads it) what a bridge's port takes in meets the
		// ruleset while it still is a frame: a hairpin is translated there and then
		// never leaves by the port it came in by, and neighbours of one LAN are
		// judged as if they were not.
		n.Sysctls = append(n.Sysctls,
			Sysctl{Key: "net/bridge/bridge-nf-call-iptables", Value: "0", IfThere: true},
			Sysctl{Key: "net/bridge/bridge-nf-call-ip6tables", Value: "0", IfThere: true})
	}
	for _, l := range b.lans {
		if l.links == nil {
			continue
		}
		for _, k := range l.links {
			if k.Kind == VLAN && k.MTU > defaultMTU {
				n.addParent(k.Parent, k.MTU) // first: a VLAN is no wider than its port
			}
			n.addLink(k)
			if k.Kind == VLAN {
				n.addParent(k.Parent, 0)
			}
			if k.Master != "" {
				// A bridge's port has no addresses, not even one of its own making.
				n.sysctls(ipv6conf(k.Name, "disable_ipv6"), "1")
			}
		}
		n.hostile(l.link)
		n.sysctls(ipv6conf(l.link, "accept_ra"), "0")
		for _, a := range l.addr {
			// Without DAD: the gateway's address must be there at once, for what
			// waits on it to start.
			n.Addrs = append(n.Addrs, Addr{Link: l.link, Prefix: a, NoDAD: a.Addr().Is6()})
		}
		for _, a := range l.deleg {
			n.Addrs = append(n.Addrs, Addr{Link: l.link, Prefix: a, NoDAD: true})
		}
	}
	for _, w := range b.wans {
		b.nearEnd(&n, w)
		if w.link.Kind == VLAN && !w.absent {
			n.addParent(w.link.Parent, 0)
		}
	}
	for _, l := range b.lans {
		n.Routes = append(n.Routes, b.parts(l)...)
	}
	b.spare(&n)
	b.defaultRoute(&n, b.st.Use4, netip.IPv4Unspecified())
	b.defaultRoute(&n, b.st.Use6, netip.IPv6Unspecified())
	slices.SortStableFunc(n.Rules, func(x, y Rule) int { return x.Pref - y.Pref })
	n.Flows = b.flows()
	return n
}

// nearEnd adds the cable of a WAN, and what leads flows to it.
func (b *build) nearEnd(n *Namespace, w wan) {
	n.addLink(Link{Name: w.Name, Kind: Veth, Up: true, MTU: cableMTU(w), Peer: CableInner, PeerNS: w.ns, AddrGen: addrGenNone, OwnAddrs: true})
	n.cable(w.Name, w.Near4, w.Near6, linkLocalNear)
	for _, far := range []netip.Addr{w.Far4, w.Far6} {
		if !far.IsValid() {
			continue
		}
		v6 := far.Is6()
		line := w.v4
		if v6 {
			line = w.v6
		}
		up := line.up
		n.Routes = append(n.Routes, Route{Dst: everything(far), Gateway: far, Link: w.Name, Table: w.table()})
		k := int(w.Index)
		mark := uint32(w.Index)
		n.Rules = append(n.Rules,
			Rule{V6: v6, Pref: prefBoundLink + k, OIF: w.Name, Table: w.table()},
			Rule{V6: v6, Pref: prefBound + k, Mark: ruleset.MarkBound | mark, Mask: ruleset.MarkMask, Table: w.table()})
		in := Rule{V6: v6, Pref: prefIn + k, Mark: ruleset.MarkIn | mark, Mask: ruleset.MarkMask, Table: w.table()}
		if !up {
			in.Table, in.Action = 0, Unreachable
		}
		n.Rules = append(n.Rules, in)
		pinned := Rule{V6: v6, Pref: prefPinned + k, Mark: mark, Mask: ruleset.MarkMask, Table: w.table()}
		switch {
		case up:
			n.Rules = append(n.Rules, pinned)
		case line.grace:
			pinned.IPProto = protoTCP
			n.Rules = append(n.Rules, pinned)
		}
	}
}

// defaultRoute leads new connections of a family by the line in use. The
// machine's own leave with a LAN address, as the house's do. Without a line
// everyone is told at once.
func (b *build) defaultRoute(n *Namespace, use string, zero netip.Addr) {
	r := Route{Dst: netip.PrefixFrom(zero, 0), Type: Unreachable}
	for _, w := range b.wans {
		far := w.Far4
		if zero.Is6() {
			far = w.Far6
		}
		if w.Name == use && far.IsValid() {
			r.Type, r.Link, r.Gateway, r.Src = Unicast, w.Name, far, b.inside(zero.Is6())
		}
	}
	n.Routes = append(n.Routes, r)
}

// inside is the first address the gateway has on a LAN, in a family.
func (b *build) inside(v6 bool) netip.Addr {
	for _, l := range b.lans {
		for _, a := range l.addr {
			if l.links != nil && a.Addr().Is6() == v6 {
				return a.Addr()
			}
		}
	}
	return netip.Addr{}
}

// Link-local addresses of a cable's ends. They are given by hand: without one
// the kernel sends no neighbour solicitation for what it forwards, and one of
// its own making is tentative for the first second.
const (
	linkLocalNear = "fe80::1/64"
	linkLocalFar  = "fe80::2/64"
)

// cable puts addresses on an end of a cable.
func (n *Namespace) cable(link string, a4, a6 netip.Addr, linkLocal string) {
	if a4.IsValid() {
		n.Addrs = append(n.Addrs, Addr{Link: link, Prefix: cableLen(a4)})
	}
	if a6.IsValid() {
		n.Addrs = append(n.Addrs,
			Addr{Link: link, Prefix: netip.MustParsePrefix(linkLocal), NoDAD: true},
			Addr{Link: link, Prefix: cableLen(a6), NoDAD: true})
	}
	n.hostile(link)
	// What comes out of a cable may have a source that is local here: a WAN's
	// own address in its namespace; in main the LAN's, where an ISP uses the
	// same range and its router has the gateway's address.
	n.sysctls("net/ipv4/conf/"+link+"/accept_local", "1", ipv6conf(link, "accept_ra"), "0")
}

// hostile sets what a router's link needs that faces people: no redirects, no
// source routes, no answers for the addresses of other links.
func (n *Namespace) hostile(link string) {
	for _, kv := range [][2]string{
		{"accept_redirects", "0"},
		{"accept_source_route", "0"},
		{"arp_ignore", "1"},
		{"rp_filter", "0"},
		{"secure_redirects", "0"},
		{"send_redirects", "0"},
	} {
		n.sysctls("net/ipv4/conf/"+link+"/"+kv[0], kv[1])
	}
	n.sysctls(ipv6conf(link, "accept_redirects"), "0")
}

func ipv6conf(link, key string) string { return "net/ipv6/conf/" + link + "/" + key }

// sysctls appends keys and values, in turn.
func (n *Namespace) sysctls(kv ...string) {
	for i := 0; i < len(kv); i += 2 {
		n.Sysctls = append(n.Sysctls, Sysctl{Key: kv[i], Value: kv[i+1]})
	}
}

// addLink adds a link, in the place of a mere parent of VLANs.
func (n *Namespace) addLink(l Link) {
	if i := slices.IndexFunc(n.Links, func(k Link) bool { return k.Name == l.Name }); i >= 0 {
		n.Links[i] = l
		return
	}
	n.Links = append(n.Links, l)
}

// addParent adds a port that carries VLANs, unless it is there as more than that. It
// is made as wide as mtu; 0: it stays as it is.
func (n *Namespace) addParent(port string, mtu int) {
	i := slices.IndexFunc(n.Links, func(k Link) bool { return k.Name == port })
	if i < 0 {
		n.Links = append(n.Links, Link{Name: port, Kind: Port, Up: true, MTU: mtu})
		return
	}
	n.Links[i].MTU = max(n.Links[i].MTU, mtu)
}

// cableMTU is that of a cable: it must not be narrower than the line.
func cableMTU(w wan) int { return max(defaultMTU, w.mtu) }

const defaultMTU = 1500 // Ethernet, RFC 894
