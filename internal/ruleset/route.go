package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/config"
)

// By names the WAN by which connections that a route matches leave now, in a
// family. "" is none of those it names: an only or never is refused then, a
// prefer leaves as failover says.
func (h House) By(r config.Route, ipv6 bool) string {
	if ipv6 {
		return h.by(r, v6)
	}
	return h.by(r, v4)
}

func (h House) by(r config.Route, f family) string {
	takes := func(name string, wary bool) bool {
		w := h.wan(name)
		return w != nil && w.takes(f) && (wary || !w.wary(f))
	}
	use, allowed := h.use(f), r.WANs
	if r.Way == config.Never {
		allowed = slices.DeleteFunc(slices.Clone(h.Config.Failover.Prefer), func(w string) bool { return slices.Contains(r.WANs, w) })
		if slices.Contains(allowed, use) && takes(use, true) {
			return use // what failover uses is not second-guessed
		}
	}
	// A line that has to prove itself is the last choice: one that comes and goes
	// is not to move the route's connections each time.
	for _, wary := range []bool{false, true} {
		for _, name := range allowed {
			if takes(name, wary) {
				return name
			}
		}
		if r.Way == config.Prefer && takes(use, false) {
			return ""
		}
	}
	return ""
}

// routes chooses the line of a new flow by the first route that matches it, and
// keeps flows that may leave by their own line only from every other one.
//
// The choice is the packet's mark, as pinning has it: after the first packet
// the flow is one like others. A flow of an only or never is marked besides
// (MarkHeld), and nothing of it passes to another cable: not while a line
// fails and the ip rules are between two states, and not its first packet
// either, which has no line's mark if no line may carry it.
//
// Nothing of this is written for a file without routes.
func (m *mainTable) routes() {
	if len(m.Config.Routes) == 0 || len(m.WANs) == 0 {
		return
	}
	out := fmt.Sprintf("ct state new ct mark and 0x%03x == 0", MarkIndex|MarkIn)
	held := false
	var self []string // chains of the routes that are about the gateway too
	list := m.chain("routes", "")
	listSelf := &chain{name: "routes_self"}
	for _, r := range m.Config.Routes {
		name := "route." + r.Name
		for n, p := range pairs(m.routeSources(r.From), m.routeDestinations(r.To)) {
			list.add(name+nth(n), p.text, protocols(r.Protocol, r.Port), "goto "+name)
		}
		for n, p := range pairs(m.selfSources(r.From), m.routeDestinations(r.To)) {
			self = append(self, name)
			listSelf.add(name+".self"+nth(n), p.text, protocols(r.Protocol, r.Port), "goto "+name)
		}
		m.route(name, r)
		held = held || r.Way != config.Prefer
	}
	for _, w := range m.WANs {
		by := m.chain("by."+w.Name, "")
		by.add("by."+w.Name, mark("meta", uint32(w.Index)))
		if slices.ContainsFunc(m.Config.WANs, func(c config.WAN) bool { return c.Move }) {
			by.add("routed."+w.Name, fmt.Sprintf("ct mark set ct mark or 0x%04x", MarkRouted))
		}
	}

	// After translation: what a forward of the house's own takes back in is not
	// leaving. What would leave is asked of the routing table, so that networks
	// behind links that are not weir's stay where they are. While failover uses no
	// line there is no way out to be found there, and a route may still have one.
	first := m.chain("route", "filter hook prerouting priority -90; policy accept")
	if lans := anyOf(m.lanLinks()); lans != "" {
		first.add("routes", "iifname", lans, out, "fib daddr oifname", anyOf(m.cables()), "goto routes")
		var none []string
		for _, f := range families() {
			if m.use(f) == "" {
				none = append(none, "ipv"+f.digit+" : goto routes")
			}
		}
		m.set("unused", "map", "type nf_proto : verdict", none)
		first.add("routes.unused", "iifname", lans, out, "fib daddr type { unicast, unreachable } fib daddr oif 0 meta nfproto vmap @unused")
	}
	if len(self) > 0 {
		m.chains = append(m.chains, listSelf)
		// Not what is bound to a cable, which has the cable's address, nor what is
		// marked for a line already: probes, and questions to a line's resolver.
		c := m.chain("route_self", "route hook output priority -90; policy accept")
		for _, f := range families() {
			var near []string
			for _, w := range m.WANs {
				if a := w.near(f); a.IsValid() {
					near = append(near, a.String())
				}
			}
			if len(near) > 0 {
				c.add("routes.self"+f.digit, "oifname", anyOf(m.cables()), out, fmt.Sprintf("meta mark and 0x%03x == 0", MarkMask),
					f.word+" saddr !=", anyOf(near), "goto routes_self")
			}
		}
	}
	if held {
		m.hold(len(self) > 0)
	}
}

// route writes what becomes of the flows that a route matches. Where it leads
// to is state, and so an element of a map.
func (m *mainTable) route(name string, r config.Route) {
	var elements []string
	for _, f := range families() {
		if to := m.by(r, f); to != "" {
			elements = append(elements, fmt.Sprintf("ipv%s : goto by.%s", f.digit, to))
		}
	}
	m.set(name, "map", "type nf_proto : verdict", elements)
	c := m.chain(name, "")
	if r.Way != config.Prefer {
		c.add(name+".held", fmt.Sprintf("ct mark set ct mark or 0x%03x", MarkHeld))
	}
	c.add(name+".by", m.counter(name), "meta nfproto vmap @"+name)
	if r.Way != config.Prefer {
		c.add(name+".none.log", logged(name))
		c.add(name+".none", m.counter(name+".refused"))
	}
}

// hold refuses what would leave by a line that is not its own.
func (m *mainTable) hold(self bool) {
	test := []string{fmt.Sprintf("ct mark and 0x%03x != 0", MarkHeld), "oifname", anyOf(m.cables())}
	m.chain("hold", "filter hook forward priority 10; policy accept").add("held", append(test, "goto held")...)
	var lines []string
	for _, w := range m.WANs {
		lines = append(lines, fmt.Sprintf("0x%03x . %q", w.Index, w.Name))
	}
	own := fmt.Sprintf("meta mark and 0x%03x . oifname { %s } accept", MarkIndex, strings.Join(lines, ", "))
	c := m.chain("held", "")
	c.add("held.own", own)
	c.add("held.refused", "goto refuse")
	if !self {
		return
	}
	// What the gateway sends has its way by its mark only after the output hook,
	// where the link is still the one from before it: what no line may carry is
	// refused there, what found another way is dropped behind it.
	m.chain("hold_self", "filter hook output priority 10; policy accept").
		add("held.self", append(test, fmt.Sprintf("meta mark and 0x%03x == 0 goto refuse", MarkIndex))...)
	last := m.chain("hold_last", "filter hook postrouting priority -150; policy accept")
	last.add("held.last", append(test, "goto held_last")...)
	c = m.chain("held_last", "")
	c.add("held_last.own", own)
	c.add("held_last.dropped", "drop")
}

// routeDestinations are the matches of a route's to: addresses outside, or all
// that is there.
func (m *mainTable) routeDestinations(to []config.Place) []match {
	places := m.Config.Expand(to)
	if len(places) == 0 || slices.ContainsFunc(places, config.Place.IsRef) {
		return []match{{}}
	}
	return byAddress(m.ends(places).addr, "daddr")
}

// routeSources are the matches of a route's from for what comes from the LANs. A
// device is known by its MAC in both families, also where it has a fixed
// address: it makes itself further ones (RFC 8981), and has to be kept off a
// line under each of them.
func (m *mainTable) routeSources(from []config.Place) []match {
	e := m.anywhere(from)
	e.mac4, e.mac6 = nil, nil
	var mac []string
	for _, p := range m.Config.Expand(from) {
		if p.Ref.Kind == config.KindHost {
			mac = append(mac, m.Config.Host(p.Ref.Name).MAC...)
		}
	}
	out := e.sources()
	if len(mac) > 0 {
		out = append(out, match{text: oneOf("ether saddr", unique(mac))})
	}
	return out
}

// selfSources are those for what the gateway itself sends: its own addresses
// count where the file names a network that holds them.
func (m *mainTable) selfSources(from []config.Place) []match {
	e := m.anywhere(from)
	if e.any || e.self {
		return []match{{}}
	}
	var holding []netip.Prefix
	for _, p := range e.addr {
		if slices.ContainsFunc(m.LANs, func(l LAN) bool {
			return slices.ContainsFunc(l.Addr, func(a netip.Prefix) bool { return p.Contains(a.Addr()) })
		}) {
			holding = append(holding, p)
		}
	}
	return byAddress(holding, "saddr")
}
