package ruleset

import (
	"fmt"
	"net/netip"
	"strings"
)

// Main writes the ruleset of the namespace that holds all state.
//
// A packet is judged in the order the language gives: established; spoofed or
// invalid; the user's rules; forwards; reach; else refused. Only the first
// packet of a connection comes further than the first of these.
//
// What each packet has to pass is written to be short: to compare the name of
// a link costs as much as half a dozen other expressions, so a chain asks for
// it once, by a verdict map, and what concerns first packets only stands in the
// chains of type nat, where no other packet comes.
func Main(h House) Table {
	m := mainTable{House: h, table: &table{}}
	m.sets()
	m.marks()
	m.seen()
	m.translateIn()
	m.nowhere()
	m.translateOut()
	m.through()
	m.here()
	m.leave()
	m.routes()
	m.zones()
	return m.table.table()
}

type mainTable struct {
	House
	*table
}

func (m *mainTable) sets() {
	for _, f := range families() {
		var all, source []string
		resolver := make([][]string, m.mostResolvers(f))
		for _, w := range m.WANs {
			asked := m.hairpins(w, f)
			all = append(all, asked...)
			var own []string
			for _, a := range w.own(f) {
				own = append(own, a.String())
			}
			m.set("wan"+f.digit+"."+w.Name, "set", "type "+f.typ, own)
			m.set("spoof"+f.digit+"."+w.Name, "set", "type "+f.typ+"; flags interval", m.impossible(w, f))
			if len(own) > 0 && w.translates(f) {
				source = append(source, fmt.Sprintf("%q : %s", w.Name, own[0]))
			}
			for n, r := range w.resolvers(f) {
				if w.far(f).IsValid() && (n > 0 || !m.standIn(w, f)) {
					resolver[n] = append(resolver[n], fmt.Sprintf("%s : %s", w.far(f), r))
				}
			}
		}
		if f == v6 {
			m.delegatedSets()
		}
		m.set("own"+f.digit, "set", "type "+f.typ, all)
		m.set("source"+f.digit, "map", "type ifname : "+f.typ, source)
		for n, elements := range resolver {
			m.set(resolverMap(f, n), "map", fmt.Sprintf("type %s : %s", f.typ, f.typ), elements)
		}
	}
}

// mark writes a statement that sets our bits of a mark, and no others.
func mark(of string, value uint32) string {
	return fmt.Sprintf("%s mark set %s mark and 0x%08x or 0x%08x", of, of, ^uint32(MarkMask), value)
}

// marks pins each flow to its line: by the conntrack mark that its first packet
// leaves, by the cable it comes in or goes out by.
func (m *mainTable) marks() {
	if len(m.WANs) == 0 {
		return
	}
	zone := m.chain("zone", "filter hook prerouting priority -300; policy accept")
	var zones []string
	for _, w := range m.WANs {
		zones = append(zones, fmt.Sprintf("%q : %d", w.Name, w.Index))
	}
	// Two lines may have one and the same address: a peer's connections by one
	// and by the other differ in nothing else.
	zone.add("zone", "ct original zone set iifname map { "+strings.Join(zones, ", ")+" }")
	var lines []string
	for _, w := range m.WANs {
		lines = append(lines, fmt.Sprintf("0x%03x : goto pin.%s", w.Index, w.Name),
			fmt.Sprintf("0x%03x : goto back.%s", MarkIn|uint32(w.Index), w.Name))
	}
	byMark := fmt.Sprintf("ct mark and 0x%03x vmap { %s }", MarkIndex|MarkIn, strings.Join(lines, ", "))

	in := m.chain("pin_in", "filter hook prerouting priority -150; policy accept")
	in.add("pin.in", "iifname vmap { "+strings.Join(m.perWAN("in"), ", ")+" }")
	in.add("pin", byMark)
	for _, w := range m.WANs {
		c := m.chain("in."+w.Name, "")
		m.count(c, w)
		c.add("mark.in."+w.Name, "ct state new", mark("ct", MarkIn|uint32(w.Index)))
	}
	m.answered()

	self := m.chain("pin_self", "route hook output priority -150; policy accept")
	for _, f := range families() {
		for _, w := range m.WANs {
			if far := w.far(f); far.IsValid() {
				self.add("resolver.mark"+f.digit+"."+w.Name, f.word+" daddr", far.String(), "meta l4proto { 6, 17 } th dport", resolverPorts(len(w.resolvers(f))),
					mark("meta", MarkBound|uint32(w.Index)), "accept")
			}
		}
	}
	self.add("pin.self", byMark)

	for _, w := range m.WANs {
		m.chain("pin."+w.Name, "").add("pin."+w.Name, mark("meta", uint32(w.Index)))
		m.chain("back."+w.Name, "").add("back."+w.Name, mark("meta", MarkIn|uint32(w.Index)))
	}
}

// ours are the links that weir judges; what passes between others is not its business.
func (m *mainTable) ours() []string { return append(m.cables(), m.lanLinks()...) }

// through judges what is forwarded.
func (m *mainTable) through() {
	c := m.chain("through", "filter hook forward priority 0; policy drop")
	c.add("established", "ct state established,related accept")
	ours := m.ours()
	if len(ours) == 0 {
		c.add("stranger", "accept")
		return
	}
	if len(m.WANs) > 0 {
		c.add("invalid", "ct state invalid jump invalid")
	}
	m.wrongSource(c)
	c.add("from", "iifname vmap", m.perZone("goto through"))
	c.add("stranger", "oifname !=", anyOf(ours), "accept")
	c.add("stranger.rules", "jump judged")
	c.add("stranger.refused", m.counter("stranger.refused"), "goto refuse")

	if len(m.WANs) > 0 {
		// A packet of no known connection. It is said so to the inside, where a
		// connection whose line died is mended the sooner for it.
		cables := anyOf(m.cables())
		invalid := m.chain("invalid", "")
		invalid.add("invalid.in", "iifname", cables, m.counter("invalid.in"), "drop")
		invalid.add("invalid.out", "meta l4proto 6 oifname", cables, m.counter("invalid.out"), "reject with tcp reset")
		invalid.add("invalid.out.other", "oifname", cables, m.counter("invalid.out.other"), "drop")
	}

	judged := m.chain("judged", "")
	// Of one link only (RFC 4890, 4.3.4): neighbour and listener discovery,
	// router renumbering, node information.
	judged.add("icmpv6.link", "icmpv6 type { 130-140, 143 } drop")
	judged.add("rules", "jump rules_through")
	if len(m.LANs) > 0 {
		judged.add("forwards", claimed(true), "iifname", anyOf(ours), "oifname", anyOf(m.lanLinks()), "accept")
	}
	rules := m.chain("rules_through", "")
	for _, r := range m.Config.Rules {
		for i, p := range pairs(m.anywhere(r.From).sources(), m.anywhere(r.To).destinations()) {
			m.judge(rules, r, "", i, p)
		}
	}
	if len(m.LANs) > 0 {
		inside := m.chain("judged_inside", "")
		if len(m.WANs) > 0 {
			for _, f := range families() {
				inside.add("unclaimed"+f.digit, f.word, "daddr @own"+f.digit, claimed(false), "goto unclaimed")
			}
		}
		inside.add("inside.judged", "goto judged")
	}
	m.refuse(m.chain("unclaimed", ""), "unclaimed")
}

// here judges what is for the gateway itself. What comes from links that are
// not weir's is let alone: the ssh session of whoever starts it may be among it.
func (m *mainTable) here() {
	c := m.chain("here", "filter hook input priority 0; policy drop")
	ours := m.ours()
	if len(ours) == 0 {
		c.add("here.stranger", "accept")
		return
	}
	c.add("here.stranger", "iifname !=", anyOf(ours), "accept")
	// Invalid is not judged: a session older than the first ruleset is.
	c.add("here.established", "ct state established,related accept")
	if len(m.WANs) > 0 {
		c.add("cable.nd", "iifname", anyOf(m.cables()), "icmpv6 type { 135, 136 } accept")
	}
	if len(m.LANs) > 0 {
		// What a link needs to work at all: DHCP, router and neighbour
		// solicitation, listener reports (RFC 4890, 4.4.1). Before the check of
		// sources, since a client without an address has none.
		lans := anyOf(m.lanLinks())
		c.add("lan.dhcp", "iifname", lans, "meta nfproto ipv4 udp dport 67 accept")
		if six := m.dhcp6Links(); len(six) > 0 {
			c.add("lan.dhcp6", "iifname", anyOf(six), "meta nfproto ipv6 udp dport 547 accept")
		}
		c.add("lan.nd", "iifname", lans, "icmpv6 type { 130-133, 135, 136, 143 } accept")
	}
	c.add("here.source", "iifname vmap", m.perZone("jump from"))
	c.add("here.rules", "jump rules_here")
	if len(m.LANs) > 0 {
		lans := anyOf(m.lanLinks())
		c.add("lan.dns", "iifname", lans, "meta l4proto { 6, 17 } th dport 53 accept")
		if m.Config.Time.Serve {
			c.add("lan.time", "iifname", lans, "meta l4proto 17 th dport 123 accept")
		}
		c.add("lan.ping4", "iifname", lans, "icmp type 8 accept")
		c.add("lan.ping6", "iifname", lans, "icmpv6 type 128 accept")
	}
	c.add("here.reach", "iifname vmap", m.perZone("jump at"))

	var own []netip.Prefix
	for _, l := range m.LANs {
		own = append(own, l.Addr...)
	}
	rules := m.chain("rules_here", "")
	for _, r := range m.Config.Rules {
		from := m.anywhere(r.From)
		if onlyICMP(r) {
			from = from.inside(m.cables()) // a line answers echo requests itself: pings
		}
		for i, p := range pairs(from.sources(), m.anywhere(r.To).here(own)) {
			m.judge(rules, r, ".here", i, p)
		}
	}
}

// leave judges what the gateway itself sends: only whether the line still
// knows the connection. The machine's own programs are told as clients are.
func (m *mainTable) leave() {
	if len(m.WANs) == 0 {
		return
	}
	m.chain("leave", "filter hook output priority 0; policy accept").
		add("invalid.self", "oifname", anyOf(m.cables()), "ct state invalid meta l4proto 6", m.counter("invalid.self"), "reject with tcp reset")
}
