package ruleset

import (
	"net/netip"
	"slices"

	"weir/internal/config"
)

// pinging is what a line answers of the echo requests of others, so that nobody
// makes it a reflector or keeps it busy.
const pinging = "limit rate 100/second burst 50 packets accept"

// pings writes what the user's rules say of echo requests to a line's own
// address. It answers them itself, without main, so they are judged here; other ICMP from
// outside is let in only as part of a connection. Nothing of it is counted or logged.
func (h House) pings(here *chain, w WAN, port string) {
	echo := []match{{"icmp type 8", v4.digit}, {"icmpv6 type 128", v6.digit}}
	for _, r := range h.Config.Rules {
		to, from := h.anywhere(r.To), h.anywhere(r.From)
		if !to.any && !to.self || !ofICMP(r) {
			continue
		}
		sources := byAddress(from.outside(), "saddr")
		if from.any || slices.Contains(from.link, w.Name) {
			sources = []match{{}}
		}
		verdict := map[config.Verb]string{config.Allow: pinging, config.Block: "drop", config.Reject: "reject with icmpx type admin-prohibited"}[r.Verb]
		for i, p := range pairs(sources, echo) {
			here.add(ruleName(r)+".ping"+nth(i), "iifname", port, p.text, verdict)
		}
	}
}

// ofICMP says whether a rule is about ICMP, among others or alone.
func ofICMP(r config.Rule) bool {
	return len(r.Protocol) == 0 && len(r.Port) == 0 || slices.Contains(r.Protocol, config.ICMP)
}

// onlyICMP says whether a rule is about nothing else.
func onlyICMP(r config.Rule) bool {
	return len(r.Protocol) > 0 && !slices.ContainsFunc(r.Protocol, func(p config.Protocol) bool { return p != config.ICMP })
}

// inside is e without what comes in by the cables.
func (e ends) inside(cables []string) ends {
	out := e.outside()
	e.link = slices.DeleteFunc(slices.Clone(e.link), func(l string) bool { return slices.Contains(cables, l) })
	e.addr = slices.DeleteFunc(slices.Clone(e.addr), func(p netip.Prefix) bool { return slices.Contains(out, p) })
	return e
}
