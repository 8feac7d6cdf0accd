package ruleset

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/config"
)

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

	// A line's resolver is asked under the address of its cable's far end, the second at another port.
	resolver := m.chain("resolver", "nat hook output priority -100; policy accept")
	for _, f := range families() {
		resolver.add("resolver"+f.digit, "meta l4proto { 6, 17 } th dport 53 dnat", f.word, "to", f.word, "daddr map @resolver"+f.digit)
		for n := 1; n < m.mostResolvers(f); n++ {
			resolver.add(resolverMap(f, n), "meta l4proto { 6, 17 } th dport", fmt.Sprint(ResolverPort(n)), "dnat", f.word, "to", f.word, "daddr map @"+resolverMap(f, n), ": 53")
		}
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

// claimed matches the flows that a forward claims, or those that none does.
func claimed(yes bool) string {
	if yes {
		return fmt.Sprintf("ct mark and 0x%03x != 0", MarkClaimed)
	}
	return fmt.Sprintf("ct mark and 0x%03x == 0", MarkClaimed)
}
