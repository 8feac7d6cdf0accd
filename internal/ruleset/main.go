package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weir/internal/config"
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
		var all, source, resolver []string
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
			if r := w.resolver(f); r.IsValid() && w.far(f).IsValid() && !m.standIn(w, f) {
				resolver = append(resolver, fmt.Sprintf("%s : %s", w.far(f), r))
			}
		}
		if f == v6 {
			m.delegatedSets()
		}
		m.set("own"+f.digit, "set", "type "+f.typ, all)
		m.set("source"+f.digit, "map", "type ifname : "+f.typ, source)
		m.set("resolver"+f.digit, "map", fmt.Sprintf("type %s : %s", f.typ, f.typ), resolver)
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
				self.add("resolver.mark"+f.digit+"."+w.Name, f.word+" daddr", far.String(), "meta l4proto { 6, 17 } th dport 53",
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

// translateIn undoes nothing: it says where new connections to the lines' own
// addresses go. What no rule here claims keeps its destination and is refused.
func (m *mainTable) translateIn() {
	if len(m.WANs) == 0 {
		return
	}
	in := m.chain("translate_in", "nat hook prerouting priority -100; policy accept")
	by := m.perWAN("asked")
	for _, l := range m.LANs {
		by = append(by, fmt.Sprintf("%q : goto asked_inside", l.Link))
	}
	in.add("asked", "iifname vmap { "+strings.Join(by, ", ")+" }")
	inside := m.chain("asked_inside", "")
	asked := m.chain("asked", "")
	hairpin := m.chain("hairpin", "")
	for _, w := range m.WANs {
		c := m.chain("asked."+w.Name, "")
		for _, f := range families() {
			c.add("asked"+f.digit+"."+w.Name, fmt.Sprintf("%s daddr @wan%s.%s goto asked", f.word, f.digit, w.Name))
		}
	}
	if len(m.LANs) > 0 {
		for _, f := range families() {
			inside.add("hairpin"+f.digit, fmt.Sprintf("%s daddr @own%s goto hairpin", f.word, f.digit))
		}
	}
	for _, fwd := range m.Config.Forwards {
		m.forward(asked, hairpin, fwd)
	}
	for _, r := range m.Config.Rules {
		m.toSelf(asked, r)
	}

	// A line's resolver is asked under the address of its cable's far end.
	resolver := m.chain("resolver", "nat hook output priority -100; policy accept")
	for _, f := range families() {
		resolver.add("resolver"+f.digit, "meta l4proto { 6, 17 } th dport 53 dnat", f.word, "to", f.word, "daddr map @resolver"+f.digit)
	}
}

// toSelf brings what a rule lets a line reach of the gateway itself to the
// near end of the cable: the line's address is not local in main.
func (m *mainTable) toSelf(asked *chain, r config.Rule) {
	to := m.anywhere(r.To)
	if r.Verb == config.Block || !to.any && !to.self || onlyICMP(r) {
		return
	}
	from := m.anywhere(r.From)
	var cables []string
	for _, w := range m.WANs {
		if from.any || slices.Contains(from.link, w.Name) {
			cables = append(cables, w.Name)
		}
	}
	sources := byAddress(from.outside(), "saddr")
	if len(cables) > 0 {
		sources = append(sources, match{text: oneOf("iifname", quoted(cables))})
	}
	for _, f := range families() {
		var near []string
		for _, w := range m.WANs {
			if a := w.near(f); a.IsValid() {
				near = append(near, fmt.Sprintf("%q : %s", w.Name, a))
			}
		}
		if len(near) == 0 {
			continue
		}
		for i, s := range pairs(sources, []match{{f.nfproto, f.digit}}) {
			asked.add(fmt.Sprintf("%s.self%s%s", ruleName(r), f.digit, nth(i)), s.text, protocols(r.Protocol, r.Port),
				"dnat", f.word, "to iifname map { "+strings.Join(near, ", ")+" }")
		}
	}
}

// translateOut pins a new flow to the line that it leaves by and gives it the
// line's address.
func (m *mainTable) translateOut() {
	out := m.chain("translate_out", "nat hook postrouting priority 100; policy accept")
	to := m.perWAN("out")
	var into []*chain
	for _, l := range m.LANs {
		c := &chain{name: "into." + l.Name}
		fwds := slices.DeleteFunc(slices.Clone(m.Config.Forwards), func(f config.Forward) bool { return f.LAN != l.Name })
		if slices.ContainsFunc(fwds, func(f config.Forward) bool { return f.Hairpin }) {
			// Client and target share a LAN: answered directly, the client would
			// not know the answer as one.
			c.add("hairpin.back."+l.Name, claimed(true), fmt.Sprintf("iifname %q masquerade", l.Link))
		}
		// A peer outside whose address lies in the LAN's own network: the
		// answer would be looked for in the LAN.
		for _, f := range families() {
			nets := f.of(l.Addr)
			if len(m.WANs) > 0 && len(nets) > 0 && slices.ContainsFunc(fwds, func(fwd config.Forward) bool { return m.target(fwd, f).IsValid() }) {
				c.add("overlap"+f.digit+"."+l.Name, oneOf(f.word+" saddr", nets), oneOf("iifname", m.cables()), "masquerade")
			}
		}
		if len(c.rules) > 0 {
			into, to = append(into, c), append(to, fmt.Sprintf("%q : goto %s", l.Link, c.name))
		}
	}
	if len(to) == 0 {
		return
	}
	if len(m.WANs) > 0 {
		out.add("mark.tcp", "meta l4proto 6", oneOf("oifname", m.cables()), fmt.Sprintf("ct mark and 0x%03x == 0 ct mark set ct mark or 0x%04x", MarkIndex|MarkIn, MarkTCP))
	}
	out.add("out", "oifname vmap { "+strings.Join(to, ", ")+" }")
	for _, w := range m.WANs {
		c := m.chain("out."+w.Name, "")
		m.probes(c, w)
		// Not over a mark that is there: a flow keeps the line it began with. A
		// datagram of a flow that has no answer yet does not come here again, or it
		// would take the mark of the line that takes over with the old one's
		// address, and escape the deletion by mark.
		c.add("mark.out."+w.Name, fmt.Sprintf("ct mark and 0x%03x == 0", MarkIndex|MarkIn), mark("ct", uint32(w.Index)))
		m.begun(c, w)
		for _, f := range families() {
			if f == v6 {
				m.delegatedOut(c, w)
			}
			c.add("source"+f.digit+"."+w.Name, "snat", f.word, "to oifname map @source"+f.digit)
		}
	}
	m.chains = append(m.chains, into...)
}

// perWAN are the elements of a verdict map from cable to chain: PREFIX.NAME.
func (m *mainTable) perWAN(prefix string) []string {
	var out []string
	for _, w := range m.WANs {
		out = append(out, fmt.Sprintf("%q : goto %s.%s", w.Name, prefix, w.Name))
	}
	return out
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

// claimed matches the flows that a forward claims, or those that none does.
func claimed(yes bool) string {
	if yes {
		return fmt.Sprintf("ct mark and 0x%03x != 0", MarkClaimed)
	}
	return fmt.Sprintf("ct mark and 0x%03x == 0", MarkClaimed)
}

// perZone is a verdict map from link to chain: TO.lan.NAME and TO.wan.NAME,
// where to is a verdict and the start of a name. What is at the gateway itself
// is closed to a line.
func (m *mainTable) perZone(to string) string {
	var out []string
	for _, l := range m.LANs {
		out = append(out, fmt.Sprintf("%q : %s.lan.%s", l.Link, to, l.Name))
	}
	for _, w := range m.WANs {
		out = append(out, fmt.Sprintf("%q : %s.wan.%s", w.Name, strings.ReplaceAll(to, "jump at", "jump closed"), w.Name))
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

// zones writes what each LAN may do, and how little each line.
func (m *mainTable) zones() {
	for _, l := range m.LANs {
		name := "lan." + l.Name
		m.spoofed(l)
		to := m.chain("through."+name, "")
		to.add(name+".source", "jump from."+name)
		to.add(name+".rules", "jump judged_inside")
		reach := m.ends(l.Reach)
		for i, d := range reach.destinations() {
			to.add(name+".reach"+nth(i), d.text, "accept")
		}
		at := m.chain("at."+name, "")
		for i, d := range reach.here(l.Addr) {
			at.add(name+".reach.self"+nth(i), d.text, "accept")
		}
		m.refuse(to, name+".refused")
		if !reach.self {
			// Talk to everyone on the link, of which nothing is said to anyone.
			at.add(name+".chatter", "meta pkttype { broadcast, multicast } drop")
			m.refuse(at, name+".refused.self")
		}
	}
	for _, w := range m.WANs {
		name := "wan." + w.Name
		from := m.chain("from."+name, "")
		for _, f := range families() {
			id := name + ".spoofed" + f.digit
			from.add(id+".from", fmt.Sprintf("%s saddr @spoof%s.%s", f.word, f.digit, w.Name), "goto "+id)
			m.drop(m.chain(id, ""), id)
		}
		through := m.chain("through."+name, "")
		through.add(name+".source", "jump from."+name)
		through.add(name+".rules", "jump judged")
		through.add(name+".reach", "goto closed."+name)
		m.drop(m.chain("closed."+name, ""), name+".closed")
	}
	c := m.chain("refuse", "")
	c.add("refuse.tcp", "meta l4proto 6 reject with tcp reset")
	c.add("refuse.other", "reject with icmpx type admin-prohibited")
}

// spoofed drops what comes from a LAN with a source that does not live there.
// An address of the LAN's own IPv4 network needs no look-up: what is the
// gateway's own or a broadcast among them the kernel drops (fib_validate_source).
func (m *mainTable) spoofed(l LAN) {
	from, name := m.chain("from.lan."+l.Name, ""), "lan."+l.Name+".spoofed"
	if nets := v4.of(l.Addr); len(nets) > 0 {
		from.add(name+".from4", "ip saddr !=", anyOf(nets), "fib saddr . iif oif 0 goto", name)
		from.add(name+".from6", v6.nfproto, "fib saddr . iif oif 0 goto", name)
	} else {
		from.add(name+".from", "fib saddr . iif oif 0 goto", name)
	}
	m.drop(m.chain(name, ""), name)
}

// ruleName is how a rule of the user is called in comments, counters and the
// log. A dot cannot be in a name of the file, so ours never meet the user's.
func ruleName(r config.Rule) string { return string(r.Verb) + "." + r.Name }

// judge writes a rule of the user.
func (m *mainTable) judge(c *chain, r config.Rule, where string, i int, p match) {
	name := ruleName(r)
	text := strings.TrimSpace(p.text + " " + protocols(r.Protocol, r.Port))
	id := name + where + nth(i)
	verdict := "accept"
	switch r.Verb {
	case config.Block:
		verdict = "drop"
	case config.Reject:
		verdict = "goto refuse"
	}
	if r.Verb != config.Allow {
		c.add(id+".log", text, logged(name))
	}
	c.add(id, text, m.counter(name), verdict)
}

// logged is the statement that tells of a refusal: to nflog group 87, so many
// of one rule that a person can read them.
func logged(name string) string {
	return fmt.Sprintf("limit rate 5/second burst 10 packets log prefix %q group %d", LogPrefix+name, LogGroup)
}

// refuse says no, politely: for the inside.
func (m *mainTable) refuse(c *chain, name string) {
	c.add(name+".log", logged(name))
	c.add(name, m.counter(name), "goto refuse")
}

// drop says nothing.
func (m *mainTable) drop(c *chain, name string) {
	c.add(name+".log", logged(name))
	c.add(name, m.counter(name), "drop")
}

// nth tells the parts of one rule apart: "", ".2", ".3"...
func nth(i int) string {
	if i == 0 {
		return ""
	}
	return "." + strconv.Itoa(i+1)
}
