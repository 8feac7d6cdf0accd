package ruleset

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/config"
)

// House is what the rulesets are made from: the file, and what desired.Build
// worked out from it and the state.
type House struct {
	Config *config.Config
	WANs   []WAN          // in file order
	LANs   []LAN          // in file order
	Cable  []netip.Prefix // the cables' networks
	ULA    netip.Prefix   // the house's /48; invalid while it has none

	Use4, Use6 string // the WANs that failover uses; "" is none
}

// WAN is a line as the rulesets see it. Addresses of a family that the house
// does not have are the zero Addr.
type WAN struct {
	Name  string // also the name of the cable in main
	Port  string // the link to the ISP, in the WAN's namespace
	Index uint8

	Near4, Far4, Near6, Far6 netip.Addr // the cable's ends: in main, in the WAN's namespace

	// Own are the line's current addresses with their networks, the one used
	// for translation first.
	Own []netip.Prefix

	Takes4, Takes6         bool // new connections may use the line now
	Wary4, Wary6           bool // but not if another may be used
	Translate4, Translate6 bool
	DHCP4, DHCP6           bool // has a client of it

	// Homes says that the LANs have networks in what the line is delegated: then
	// Delegated are those prefixes now, and Subnets the LANs' networks in the first.
	// Strict6 says that nothing else leaves by the line.
	Homes, Strict6 bool
	Delegated      []netip.Prefix
	Subnets        []Subnet

	Resolver []netip.Addr // the line's own DNS servers
}

// Subnet is a LAN's network in a delegated prefix.
type Subnet struct {
	LAN    string
	Prefix netip.Prefix
}

// LAN is a network of the house.
type LAN struct {
	Name string
	Link string         // the link that carries it in main
	Addr []netip.Prefix // the gateway's addresses there, with their networks

	// Delegated are its addresses in what lines are delegated. They come and go,
	// and stand in no text.
	Delegated []netip.Prefix

	// Routed are the prefixes that routers there have been delegated. They stand in
	// no text either: the kernel's routes tell which sources are right.
	Routed []netip.Prefix

	DHCP6 bool // has a server of it
	Reach []config.Place
}

// nets are all of the gateway's addresses there.
func (l LAN) nets() []netip.Prefix { return slices.Concat(l.Addr, l.Delegated) }

// self says whether a is one of the gateway's.
func (l LAN) self(a netip.Addr) bool {
	return slices.ContainsFunc(l.nets(), func(p netip.Prefix) bool { return p.Addr() == a })
}

// lives says whether a is an address of somebody there.
func (l LAN) lives(a netip.Addr) bool { return inside(a, l.nets()) || inside(a, l.Routed) }

// native says whether a leaves by the line as it is.
func (w WAN) native(a netip.Addr) bool { return inside(a, w.Delegated) }

func (h House) use(f family) string {
	if f == v4 {
		return h.Use4
	}
	return h.Use6
}

// wan returns the line of that name, or nil.
func (h House) wan(name string) *WAN {
	for i := range h.WANs {
		if h.WANs[i].Name == name {
			return &h.WANs[i]
		}
	}
	return nil
}

func (w WAN) near(f family) netip.Addr {
	if f == v4 {
		return w.Near4
	}
	return w.Near6
}

func (w WAN) far(f family) netip.Addr {
	if f == v4 {
		return w.Far4
	}
	return w.Far6
}

func (w WAN) takes(f family) bool {
	if f == v4 {
		return w.Takes4
	}
	return w.Takes6
}

func (w WAN) wary(f family) bool {
	if f == v4 {
		return w.Wary4
	}
	return w.Wary6
}

func (w WAN) translates(f family) bool {
	if f == v4 {
		return w.Translate4
	}
	return w.Translate6
}

// own returns the line's addresses of a family, without their networks.
func (w WAN) own(f family) []netip.Addr {
	var out []netip.Addr
	for _, p := range w.Own {
		if f.holds(p.Addr()) {
			out = append(out, p.Addr())
		}
	}
	return out
}

// MaxResolvers is how many of a line's DNS servers of a family are asked: as many as
// resolv.conf(5) has.
const MaxResolvers = 3

// ResolverPort is where at the far end of a line's cable its nth DNS server of a family is
// asked, from 0 on.
func ResolverPort(n int) uint16 { return 53 + uint16(n) }

// resolvers returns the line's DNS servers of a family, as many as are asked.
func (w WAN) resolvers(f family) (out []netip.Addr) {
	for _, a := range w.Resolver {
		if f.holds(a) && len(out) < MaxResolvers {
			out = append(out, a)
		}
	}
	return out
}

// resolver returns the line's first DNS server of a family.
func (w WAN) resolver(f family) netip.Addr {
	if all := w.resolvers(f); len(all) > 0 {
		return all[0]
	}
	return netip.Addr{}
}

// resolverPorts are those of the first n DNS servers, at least the first, in nft's words.
func resolverPorts(n int) string {
	if n < 2 {
		return "53"
	}
	return fmt.Sprintf("53-%d", ResolverPort(n-1))
}

// resolverMap is the map of the nth DNS servers of all lines, from 0 on.
func resolverMap(f family, n int) string {
	if n == 0 {
		return "resolver" + f.digit
	}
	return fmt.Sprintf("resolver%s.%d", f.digit, n+1)
}

// mostResolvers is how many DNS servers of a family a line has at most, at least 1.
func (h House) mostResolvers(f family) int {
	most := 1
	for _, w := range h.WANs {
		most = max(most, len(w.resolvers(f)))
	}
	return most
}

// standIn says whether main can't ask w's resolver by its own address: it has
// that address itself, since the ISP uses the LAN's range. The cable's far end
// stands in for it then, all the way to the line's namespace.
func (h House) standIn(w WAN, f family) bool {
	r := w.resolver(f)
	return r.IsValid() && slices.ContainsFunc(h.LANs, func(l LAN) bool {
		return slices.ContainsFunc(l.Addr, func(p netip.Prefix) bool { return p.Addr() == r })
	})
}

func (h House) cables() []string {
	out := make([]string, len(h.WANs))
	for i, w := range h.WANs {
		out[i] = w.Name
	}
	return quoted(out)
}

// dhcp6Links are the links of the LANs with a DHCPv6 server.
func (h House) dhcp6Links() (out []string) {
	for _, l := range h.LANs {
		if l.DHCP6 {
			out = append(out, l.Link)
		}
	}
	return quoted(out)
}

func (h House) lanLinks() []string {
	out := make([]string, len(h.LANs))
	for i, l := range h.LANs {
		out[i] = l.Link
	}
	return quoted(out)
}

// lanPrefixes are the networks of all LANs.
func (h House) lanPrefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, l := range h.LANs {
		for _, p := range l.Addr {
			out = append(out, p.Masked())
		}
	}
	return out
}

// hairpins are the addresses by which a LAN may ask for a forward: those of
// all lines, but not one that lies in a LAN's own network, where it may well
// be the address of a device there (the ISP uses the LAN's range).
func (h House) hairpins(w WAN, f family) []string {
	lans := h.lanPrefixes()
	var out []string
	for _, a := range w.own(f) {
		if !inside(a, lans) {
			out = append(out, a.String())
		}
	}
	return out
}

// impossible are the sources that cannot come in by a line: the house's own
// networks and addresses. What lies in the line's own network is possible
// there (the ISP uses the LAN's range, or both ISPs use one), but its own
// addresses never are. Loopback, multicast and unspecified sources are the
// kernel's to drop (ip_route_input_slow, ip6_rcv_core).
func (h House) impossible(w WAN, f family) []string {
	var own, nets, out []netip.Prefix
	for _, p := range w.Own {
		own, nets = append(own, single(p.Addr())), append(nets, p.Masked())
	}
	ours := slices.Concat(h.lanPrefixes(), h.Cable)
	for _, o := range h.WANs {
		ours = append(ours, o.Delegated...)
	}
	for _, o := range h.WANs {
		for _, p := range o.Own {
			ours = append(ours, single(p.Addr()))
		}
	}
	for _, p := range ours {
		out = append(out, subtract(p, nets)...)
	}
	return f.of(disjoint(append(out, own...)))
}
