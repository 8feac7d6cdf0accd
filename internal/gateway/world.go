package gateway

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/plan"
	"weir/internal/state"
	"weir/internal/wan/dhcp6"
)

var (
	default4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	default6 = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
)

// world is what the gateway knows beside the file. The loop gathers it; state
// turns it into what desired.Build wants.
type world struct {
	house      house
	machine    state.Machine
	wans       map[string]wan
	names      map[int]string  // main's links by index
	lans       map[string]link // what carries each LAN; the zero link is not there
	use4, use6 string

	parts []state.Part // that routers in the LANs have been delegated
}

// link is a link in its namespace. It is another one when its index is.
type link struct {
	name  string
	index int // 0: it is not there
	mac   string
}

// wan is what is known of a WAN.
type wan struct {
	present bool // its port is there, in its namespace or not yet
	port    link // in its namespace
	cable   link // in main
	carrier bool
	downs   uint32 // how often the port lost it so far
	asked   int    // the index of the port that said so; 0: none yet
	confirm uint64 // rises when the carrier came back: the lease is to be confirmed

	lease  *state.Lease4 // nil: none
	last   *state.Lease4 // stored, and over by a clock that may be wrong: asked for again; nil: none
	lease6 *state.Lease6 // by DHCPv6; nil: none
	last6  *state.Lease6 // stored, and over; nil: none
	info6  *dhcp6.Info   // what a server tells without a lease; nil: nothing
	rdnss  []advertisedDNS

	slaac    []netip.Prefix // what the kernel made of router advertisements
	heard    bool           // one came, since the port is there
	managed  bool           // one said that addresses are to be had by DHCPv6, since the port is there
	other    bool           // one said that other things are, since the port is there
	router6  bool           // the kernel has a default route from one
	dad6     bool           // a fixed IPv6 address is not to be used yet: duplicate address detection
	up4, up6 bool           // the verdict: new connections may use it
	wary4    bool           // the verdict: not without need
	wary6    bool
	hollow4  bool // the verdict: nothing but echoes passes
	hollow6  bool

	until4, until6 time.Time // lost a moment ago: TCP waits for it until then; zero: not
}

// clone is w for somebody who looks at it while the loop goes on.
func (w world) clone() world {
	w.house.Index, w.house.LANs = maps.Clone(w.house.Index), maps.Clone(w.house.LANs)
	w.wans, w.names, w.lans = maps.Clone(w.wans), maps.Clone(w.names), maps.Clone(w.lans)
	w.parts = slices.Clone(w.parts)
	return w
}

// state is w as desired.Build wants it, for the WANs of c.
func (w world) state(c *config.Config) state.State {
	s := state.State{
		ULA:     w.house.ULA,
		Index:   w.house.Index,
		LANs:    w.house.LANs,
		WANs:    make(map[string]state.WAN, len(c.WANs)),
		Use4:    w.use4,
		Use6:    w.use6,
		Machine: w.machine,
		Parts:   w.parts,
	}
	var own []netip.Prefix
	for _, l := range c.LANs {
		own = append(append(own, c.Address6(l.Name, w.house.ULA)...), l.Address4)
	}
	for _, cw := range c.WANs {
		k := w.wans[cw.Name]
		v := state.WAN{V4: line4(cw, k), V6: line6(cw, k)}
		v.V4.Up, v.V6.Up, v.V4.Wary, v.V6.Wary = k.up4, k.up6, k.wary4, k.wary6
		v.V4.Hollow, v.V6.Hollow = k.hollow4, k.hollow6
		v.V4.Grace, v.V6.Grace = !k.until4.IsZero(), !k.until6.IsZero()
		if k.lease != nil {
			v.MTU = k.lease.MTU
		}
		if k.info6 != nil {
			v.V6.DNS = k.info6.DNS
		}
		if k.lease6 != nil {
			if len(k.lease6.DNS) > 0 {
				v.V6.DNS = k.lease6.DNS
			}
			if cw.IPv6.Delegate > 0 {
				for _, p := range k.lease6.Prefix {
					v.Delegated = append(v.Delegated, p.Prefix)
				}
			}
		}
		// Servers of DHCPv6 and of advertisements are equals; those go before (RFC 8106, 5.3.1).
		for _, r := range k.rdnss {
			if cw.IPv6.Method != config.MethodStatic && !r.addr.IsLinkLocalUnicast() && !slices.Contains(v.V6.DNS, r.addr) {
				v.V6.DNS = append(slices.Clip(v.V6.DNS), r.addr)
			}
		}
		if len(cw.IPv4.DNS) > 0 {
			v.V4.DNS = cw.IPv4.DNS
		}
		if len(cw.IPv6.DNS) > 0 {
			v.V6.DNS = cw.IPv6.DNS
		}
		v.V4.DNS, v.V6.DNS = notOurs(v.V4.DNS, own), notOurs(v.V6.DNS, own)
		s.WANs[cw.Name] = v
	}
	return s
}

// line4 is the IPv4 of a WAN, from the file or the lease, without the verdict.
func line4(c config.WAN, k wan) state.Line {
	switch {
	case c.IPv4.Method == config.MethodStatic && !c.IPv4.Gateway.IsValid():
		return state.Line{Addr: c.IPv4.Address}
	case c.IPv4.Method == config.MethodStatic:
		return state.Line{Addr: c.IPv4.Address, Routes: []state.Route{{Dst: default4, Gateway: c.IPv4.Gateway}}}
	case c.IPv4.Method == config.MethodDHCP && k.lease != nil:
		return state.Line{Addr: []netip.Prefix{k.lease.Addr}, Routes: k.lease.Routes, DNS: k.lease.DNS}
	}
	return state.Line{}
}

// line6 is the IPv6 of a WAN, from the file or the kernel, without the verdict.
func line6(c config.WAN, k wan) state.Line {
	switch c.IPv6.Method {
	case config.MethodStatic:
		return state.Line{Addr: c.IPv6.Address, Routes: []state.Route{{Dst: default6, Gateway: c.IPv6.Gateway}}}
	case config.MethodAuto:
		l := state.Line{Addr: k.slaac, Leased: leased6(k)}
		l.Addr = slices.Concat(l.Addr, l.Leased)
		return l
	case config.MethodSLAAC:
		return state.Line{Addr: k.slaac}
	case config.MethodDHCP:
		return state.Line{Addr: leased6(k)}
	}
	return state.Line{}
}

// lacks says what a WAN has not that a line of a family needs; "": it has all.
func lacks(c config.WAN, k wan, family int) string {
	_, why := complete4(c, k)
	if family == 6 {
		_, why = complete6(c, k)
	}
	return why
}

// complete4 and complete6 say whether a WAN has what a line of that family
// needs: the port, an address and a default route. why is what it lacks.
func complete4(c config.WAN, k wan) (ok bool, why string) {
	l := line4(c, k)
	switch {
	case c.IPv4.Method == config.MethodNone:
		return false, "the file wants no IPv4 here"
	case !k.present:
		return false, c.Interface + " isn't there yet"
	case len(l.Addr) == 0:
		return false, "no lease yet"
	case !slices.ContainsFunc(l.Routes, func(r state.Route) bool { return r.Dst.Bits() == 0 }):
		if k.lease != nil && k.lease.Note != "" {
			return false, k.lease.Note // says why, and what helps
		}
		return false, "the lease has no default route"
	}
	return true, ""
}

func complete6(c config.WAN, k wan) (ok bool, why string) {
	l := line6(c, k)
	switch {
	case c.IPv6.Method == config.MethodNone:
		return false, "the file wants no IPv6 here"
	case !k.present:
		return false, c.Interface + " isn't there yet"
	case len(l.Addr) == 0 && wantsAddr6(c, k):
		return false, "no lease yet"
	case len(l.Addr) == 0:
		return false, unadvertised(k)
	case c.IPv6.Method != config.MethodStatic && !k.router6:
		return false, "no router offers itself as the default"
	}
	return true, ""
}

// unadvertised says why a line whose address is to come of router advertisements has
// none.
func unadvertised(k wan) string {
	switch {
	case !k.heard:
		return "no router of the ISP has advertised itself yet"
	case k.managed: // the file wants no address by DHCPv6
		return "the ISP's router advertises no prefix to make an address of, but an address by DHCPv6 (the M flag): with method = \"auto\" it is asked for"
	case k.other:
		return "the ISP's router advertises neither a prefix to make an address of nor an address by DHCPv6 (no M flag), only what else DHCPv6 has to tell (the O flag)"
	}
	return "the ISP's router advertises neither a prefix to make an address of nor DHCPv6 (no M, no O flag): with method = \"dhcp\" it is asked all the same"
}

// observe is w with what the kernel holds: which ports are there, and what it
// made of router advertisements. The rest of w stays.
func (w world) observe(c *config.Config, d desired.Desired, a plan.Actual) world {
	main := actualNamespace(a, "")
	wans := make(map[string]wan, len(c.WANs))
	for _, cw := range c.WANs {
		k := w.wans[cw.Name]
		name := wanLink(d, cw.Name)
		ns := actualNamespace(a, desired.NSPrefix+cw.Name)
		port, before := linkOf(ns, name), k.port.index
		k.port = link{name: name}
		k.cable, _ = seen(linkOf(main, cw.Name), cw.Name)
		// A port that has not been moved to its namespace yet is there as well; a
		// VLAN is there where its port is.
		k.present = name != "" && (port != nil || linkOf(main, cw.Interface) != nil)
		k.slaac, k.router6, k.dad6 = nil, false, cw.IPv6.Method == config.MethodStatic || cw.IPv6.Method == config.MethodDHCP
		// A port that is down can't tell; it is taken to have a carrier until it does.
		k.carrier = k.present
		if port != nil {
			k.port, k.carrier = seen(port, name)
			k.slaac, k.router6 = advertised(ns, name)
			// Of two routers one may not know of the other's DHCPv6.
			same := before == port.Index
			if !same {
				k.rdnss = nil
			}
			k.heard, k.managed, k.other = port.Heard || k.heard && same, port.Managed || k.managed && same, port.OtherRA || k.other && same
			if l := line6(cw, k); k.dad6 || len(k.slaac) == 0 && len(l.Leased) > 0 {
				k.dad6 = !usable(ns, name, l.Addr)
			}
		}
		wans[cw.Name] = k
	}
	w.wans = wans
	w.names = map[int]string{}
	if main != nil {
		for _, l := range main.Links {
			w.names[l.Index] = l.Name
		}
	}
	w.lans = make(map[string]link, len(c.LANs))
	for _, l := range c.LANs {
		name := lanLink(l)
		w.lans[l.Name], _ = seen(linkOf(main, name), name)
	}
	return w
}

// polled is k with a fresh look at the carrier. A line whose carrier was away,
// however shortly, may lead to another network now: its lease is to be confirmed.
func (k wan) polled(up bool, downs uint32) wan {
	if up && k.asked == k.port.index && downs != k.downs {
		k.confirm++
	}
	if up || k.asked != k.port.index {
		k.downs, k.asked = downs, k.port.index
	}
	k.carrier = up
	return k
}

// seen is l as we keep it, and whether it has a carrier as far as it can tell.
func seen(l *plan.Link, name string) (_ link, carrier bool) {
	if l == nil {
		return link{name: name}, false
	}
	return link{name: name, index: l.Index, mac: l.MAC}, !l.Up || l.Carrier
}

func linkOf(ns *plan.Namespace, name string) *plan.Link {
	if ns == nil {
		return nil
	}
	for i := range ns.Links {
		if ns.Links[i].Name == name {
			return &ns.Links[i]
		}
	}
	return nil
}

// lanLink is the name of the link that carries a LAN's addresses, as Build has
// it: the port itself, or a bridge or VLAN that is called like the LAN.
func lanLink(l config.LAN) string {
	if len(l.Interface) == 1 && l.VLAN == 0 {
		return l.Interface[0]
	}
	return l.Name
}

// advertised is what the kernel made of router advertisements on a link: usable
// addresses in order, those for new connections first (RFC 4862, 5.5.4: an ISP
// that renumbers deprecates), and whether there is a default route.
func advertised(ns *plan.Namespace, link string) (addrs []netip.Prefix, router bool) {
	var old []netip.Prefix
	for _, a := range ns.Addrs {
		ip := a.Prefix.Addr()
		if a.Link != link || !a.Kernel || a.Tentative || a.DADFailed || !ip.Is6() || !ip.IsGlobalUnicast() {
			continue
		}
		if a.Deprecated {
			old = append(old, a.Prefix)
		} else {
			addrs = append(addrs, a.Prefix)
		}
	}
	for _, r := range ns.Routes {
		router = router || r.Link == link && r.Proto == protoRA && r.Dst == default6
	}
	order := func(a, b netip.Prefix) int { return a.Compare(b) }
	slices.SortFunc(addrs, order)
	slices.SortFunc(old, order)
	return append(addrs, old...), router
}

// usable says whether a link has all the addresses, and may use them: until
// duplicate address detection is over (RFC 4862, 5.4), a second or two, nobody
// can answer them.
func usable(ns *plan.Namespace, link string, addrs []netip.Prefix) bool {
	for _, p := range addrs {
		if !slices.ContainsFunc(ns.Addrs, func(a plan.Addr) bool {
			return a.Link == link && a.Prefix.Addr() == p.Addr() && !a.Tentative && !a.DADFailed
		}) {
			return false
		}
	}
	return true
}

// protoRA is RTPROT_RA (rtnetlink(7)): what the kernel made of a router advertisement.
const protoRA = 9

func actualNamespace(a plan.Actual, name string) *plan.Namespace {
	for i := range a.Namespaces {
		if a.Namespaces[i].Name == name {
			return &a.Namespaces[i]
		}
	}
	return nil
}

// wanLink is the name of the link in a WAN's namespace that goes to the ISP, ""
// if Build has none.
func wanLink(d desired.Desired, name string) string {
	for _, ns := range d.Namespaces {
		if ns.WAN != name {
			continue
		}
		for _, l := range ns.Links {
			if l.Kind == desired.Port || l.Kind == desired.VLAN {
				return l.Name
			}
		}
	}
	return ""
}
