package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/config"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// Build works out what the kernel should hold for a file and what is known of
// the world. The same arguments give the same result, in the same order.
func Build(c *config.Config, s state.State) Desired {
	b := begin(c, s)
	b.overlaps()
	h := b.house()
	d := Desired{Namespaces: []Namespace{b.main(h)}}
	for _, w := range b.wans {
		d.Namespaces = append(d.Namespaces, b.card(h, w))
	}
	d.Moves = append(b.moves(b.st.Use4, false), b.moves(b.st.Use6, true)...)
	if f := c.Gateway.FastPath; f != config.FastPathOff && f != "" && !s.Machine.FastPath {
		b.note("no fast path here, all packets go the ordinary way: %s", s.Machine.NoFastPath)
	}
	d.Notes = b.notes
	return d
}

// House is what Build writes main's ruleset from: it can say what becomes of a
// flow (ruleset.House.Explain).
func House(c *config.Config, s state.State) ruleset.House { return begin(c, s).house() }

func begin(c *config.Config, s state.State) *build {
	b := &build{cfg: c, st: s, ula: c.Gateway.ULA}
	if !b.ula.IsValid() {
		b.ula = s.ULA
	}
	b.lans = b.makeLANs()
	b.wans = b.makeWANs()
	b.delegate()
	return b
}

// build is what one Build works with.
type build struct {
	cfg   *config.Config
	st    state.State
	ula   netip.Prefix
	lans  []lan
	wans  []wan
	notes []string
}

func (b *build) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// lan is a LAN with its links worked out.
type lan struct {
	cfg   *config.LAN
	link  string // what carries its addresses
	links []Link
	addr  []netip.Prefix // the gateway's, of the file and the house
	deleg []netip.Prefix // the gateway's, in what the lines were delegated
}

// wan is a WAN with its links worked out and what is known of it.
type wan struct {
	ruleset.WAN
	cfg    *config.WAN
	ns     string
	link   Link
	absent bool // the link can't be made on this machine
	mtu    int  // 0: unknown
	v4, v6 line
}

// line is one family of a WAN.
type line struct {
	addr   []netip.Prefix
	leased []netip.Prefix // those of addr that are ours to add though the line is the kernel's
	routes []state.Route
	kernel bool // addresses and routes are the kernel's (SLAAC)
	up     bool
	grace  bool // it was up a moment ago: TCP waits for it
	hollow bool // nothing but echoes passes
}

func (w wan) table() int { return TableBase + int(w.Index) }

// makeLANs works out which links a LAN is made of: a port, a VLAN on a port, or
// a bridge of several of either.
func (b *build) makeLANs() []lan {
	var out []lan
	for i := range b.cfg.LANs {
		c := &b.cfg.LANs[i]
		l := lan{cfg: c, addr: b.cfg.Address6(c.Name, b.ula)}
		if c.Address4.IsValid() {
			l.addr = append([]netip.Prefix{c.Address4}, l.addr...)
		}
		bridged := len(c.Interface) > 1
		if bridged {
			l.link = c.Name
		}
		var parts []Link
		for _, port := range c.Interface {
			switch {
			case c.VLAN == 0:
				parts = append(parts, Link{Name: port, Kind: Port, Up: true, OwnAddrs: true})
			case bridged:
				parts = append(parts, Link{Name: vlanName(port, c.VLAN), Kind: VLAN, Up: true, Parent: port, VID: c.VLAN, OwnAddrs: true})
			default:
				parts = append(parts, Link{Name: c.Name, Kind: VLAN, Up: true, Parent: port, VID: c.VLAN, OwnAddrs: true})
			}
		}
		if !bridged {
			l.link = parts[0].Name
		} else {
			for i := range parts {
				parts[i].Master = l.link
			}
			l.links = []Link{{Name: l.link, Kind: Bridge, Up: true, OwnAddrs: true}}
		}
		l.links = append(l.links, parts...)
		for i := range l.links {
			l.links[i].MTU = c.MTU
		}
		switch {
		case c.VLAN != 0 && !b.st.Machine.VLAN:
			b.note("lan %q is VLAN %d, and this kernel has no VLANs (CONFIG_VLAN_8021Q): it is left out", c.Name, c.VLAN)
			l.links = nil
		case bridged && !b.st.Machine.Bridge:
			b.note("lan %q is a bridge of %d ports, and this kernel has no bridges (CONFIG_BRIDGE): it is left out", c.Name, len(c.Interface))
			l.links = nil
		}
		out = append(out, l)
	}
	return out
}

// addrGenNone is IN6_ADDR_GEN_MODE_NONE (if_link.h): the kernel makes no
// link-local address.
const addrGenNone = 1

// ifNameMax is how long a link's name may be (IFNAMSIZ less the final zero).
const ifNameMax = 15

// vlanName names a VLAN that has no name of its own, as people do: eth0.20. Of
// a long port name the end is kept, where names differ.
func vlanName(port string, vid int) string {
	suffix := fmt.Sprintf(".%d", vid)
	if over := len(port) + len(suffix) - ifNameMax; over > 0 {
		port = port[over:]
	}
	return port + suffix
}

// makeWANs works out each line: its number, cable, link, addresses and routes.
func (b *build) makeWANs() []wan {
	index := b.indexes()
	near4 := b.cfg.Gateway.Cable4
	near6 := b.cfg.Cables6(b.ula)
	var out []wan
	granted, refused := Granted(b.cfg, b.st)
	b.notes = append(b.notes, refused...)
	for i := range b.cfg.WANs {
		c := &b.cfg.WANs[i]
		known := b.st.WANs[c.Name]
		w := wan{cfg: c, ns: NSPrefix + c.Name, mtu: cmp.Or(c.MTU, known.MTU)}
		w.Name, w.Index = c.Name, index[c.Name]
		w.Near4, w.Far4 = cableEnds(near4, i)
		w.Near6, w.Far6 = cableEnds(near6, i)
		w.Translate4 = c.IPv4.Translate != config.NoTranslate
		w.Translate6 = true // what is not in its delegated prefix; nothing else leaves
		w.DHCP4 = c.IPv4.Method == config.MethodDHCP
		w.DHCP6 = c.IPv6.Asks()
		w.Homes, w.Strict6 = c.IPv6.Homes(), c.IPv6.Translate == config.NoTranslate
		w.Delegated = granted[c.Name]

		w.v4 = makeLine(c.IPv4.Method, c.IPv4.Address, c.IPv4.Gateway, known.V4)
		w.v6 = makeLine(c.IPv6.Method, c.IPv6.Address, c.IPv6.Gateway, known.V6)
		w.v4.grace = known.V4.Grace && len(w.v4.addr) > 0
		w.v4.hollow, w.v6.hollow = known.V4.Hollow, known.V6.Hollow
		w.v6.grace = known.V6.Grace && len(w.v6.addr) > 0
		w.Own = slices.Concat(w.v4.addr, w.v6.addr)
		w.Resolver = slices.Concat(known.V4.DNS, known.V6.DNS)

		w.link = Link{Name: c.Interface, Kind: Port, Up: true, OwnAddrs: true, MTU: w.mtu, MAC: c.MAC}
		if c.VLAN != 0 {
			w.link.Kind, w.link.Parent, w.link.VID = VLAN, c.Interface, c.VLAN
			w.link.Name = c.Name
			if w.absent = !b.st.Machine.VLAN; w.absent {
				b.note("wan %q is VLAN %d, and this kernel has no VLANs (CONFIG_VLAN_8021Q): its port is left out", c.Name, c.VLAN)
			}
		}
		w.Port = w.link.Name
		out = append(out, w)
	}
	return out
}

// makeLine puts together what file and state say of one family of a line.
func makeLine(m config.Method, addr []netip.Prefix, gateway netip.Addr, known state.Line) line {
	switch m {
	case config.MethodNone:
		return line{}
	case config.MethodStatic:
		l := line{addr: addr, up: known.Up}
		if gateway.IsValid() {
			l.routes = []state.Route{{Dst: netip.PrefixFrom(unspecified(gateway), 0), Gateway: gateway}}
		}
		return l
	case config.MethodSLAAC, config.MethodAuto:
		return line{addr: known.Addr, leased: known.Leased, kernel: true, up: known.Up}
	default:
		return line{addr: known.Addr, routes: known.Routes, up: known.Up}
	}
}

// indexes numbers the WANs: as state has them, and by the lowest free number
// for one that state does not know (weir plan without a daemon).
func (b *build) indexes() map[string]uint8 {
	out := make(map[string]uint8)
	taken := make(map[uint8]bool)
	for name, n := range b.st.Index {
		out[name], taken[n] = n, true
	}
	next := uint8(1)
	for _, w := range b.cfg.WANs {
		if out[w.Name] != 0 {
			continue
		}
		for taken[next] {
			next++
		}
		out[w.Name], taken[next] = next, true
	}
	return out
}

// house is what the rulesets are written from.
func (b *build) house() ruleset.House {
	h := ruleset.House{Config: b.cfg, ULA: b.ula, Use4: b.st.Use4, Use6: b.st.Use6}
	for _, p := range []netip.Prefix{b.cfg.Gateway.Cable4, b.cfg.Cables6(b.ula)} {
		if p.IsValid() {
			h.Cable = append(h.Cable, p)
		}
	}
	for _, l := range b.lans {
		h.LANs = append(h.LANs, ruleset.LAN{Name: l.cfg.Name, Link: l.link, Addr: l.addr, Delegated: l.deleg, DHCP6: l.cfg.DHCP6.Enabled, Reach: l.cfg.Reach})
		for _, p := range b.parts(l) {
			h.LANs[len(h.LANs)-1].Routed = append(h.LANs[len(h.LANs)-1].Routed, p.Dst)
		}
	}
	for _, w := range b.wans {
		w.Wary4, w.Wary6 = b.st.WANs[w.Name].V4.Wary, b.st.WANs[w.Name].V6.Wary
		w.Takes4 = w.Far4.IsValid() && b.takes(w.Name, w.v4, b.st.Use4)
		w.Takes6 = w.Far6.IsValid() && b.takes(w.Name, w.v6, b.st.Use6)
		h.WANs = append(h.WANs, w.WAN)
	}
	return h
}

// cableEnds are the two addresses of the cable number i in network: the lower
// one is main's. They are invalid without a network.
func cableEnds(network netip.Prefix, i int) (near, far netip.Addr) {
	if !network.IsValid() {
		return
	}
	near = network.Masked().Addr()
	for range 2 * i {
		near = near.Next()
	}
	return near, near.Next()
}

// unspecified is the zero address of a's family.
func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// everything is the default route's destination.
func everything(a netip.Addr) netip.Prefix { return netip.PrefixFrom(unspecified(a), 0) }

// cableLen is the length of a cable's network: /31 (RFC 3021), /127 (RFC 6164).
func cableLen(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()-1) }
