package ruleset

import (
	"fmt"
)

// CableInner is the cable's end inside a WAN's namespace.
const CableInner = "lan"

// MarkHome marks, within a WAN's namespace, what goes home: over the cable to
// main. Marks do not cross the cable, so it meets none of main's.
const MarkHome = MarkIn

// Card writes the ruleset of a WAN's namespace, a line card without state: no
// rule may use conntrack, or the kernel tracks every packet a second time.
func Card(h House, w WAN) Table {
	t := &table{}
	port, cable := fmt.Sprintf("%q", w.Port), fmt.Sprintf("%q", CableInner)

	// Without translation the LANs' own addresses are asked for by this line.
	open := map[family]bool{}
	for _, f := range families() {
		var own []string
		for _, a := range w.own(f) {
			own = append(own, a.String())
		}
		t.set("own"+f.digit, "set", "type "+f.typ, own)
		var resolver, standIn []string
		if h.standIn(w, f) && w.far(f).IsValid() {
			resolver = append(resolver, fmt.Sprintf("%s : %s", w.far(f), w.resolver(f)))
			standIn = append(standIn, fmt.Sprintf("%s : %s", w.resolver(f), w.far(f)))
		}
		t.set("resolver"+f.digit, "map", fmt.Sprintf("type %s : %s", f.typ, f.typ), resolver)
		t.set("stand_in"+f.digit, "map", fmt.Sprintf("type %s : %s", f.typ, f.typ), standIn)
		open[f] = !w.translates(f) && len(f.of(h.lanPrefixes())) > 0
	}
	if w.Homes {
		t.set("delegated6", "set", "type ipv6_addr; flags interval", v6.of(disjoint(w.Delegated)))
	}
	lans := func(f family, side string) string {
		return oneOf(f.word+" "+side, f.of(disjoint(h.lanPrefixes())))
	}

	arrive := t.chain("arrive", "filter hook prerouting priority -300; policy accept")
	arrive.add("arrive", fmt.Sprintf("iifname vmap { %s : goto from_house, %s : goto from_line }", cable, port))
	house, line := t.chain("from_house", ""), t.chain("from_line", "")
	for _, f := range families() {
		// A resolver whose address main has too, asked as the cable's far end.
		// Nobody in the house means it by that address, so no state is needed.
		if far := w.far(f); far.IsValid() {
			house.add("resolver"+f.digit, f.word+" daddr", far.String(), "meta l4proto { 6, 17 } th dport 53", f.word, "daddr set", f.word, "daddr map @resolver"+f.digit)
		}
		line.add("own"+f.digit, f.word+" daddr @own"+f.digit, "goto hand_over")
		if open[f] {
			line.add("lans"+f.digit, lans(f, "daddr"), home())
		}
	}
	if w.Homes {
		line.add("delegated6", "ip6 daddr @delegated6", home())
	}
	over := t.chain("hand_over", "")
	if w.DHCP4 {
		over.add("keep.dhcp", "meta nfproto ipv4 udp sport 67 udp dport 68 accept")
	}
	over.add("keep.ping4", "icmp type 8 accept")
	over.add("keep.icmpv6", "icmpv6 type { 128, 130, 134, 135, 136, 137 } accept")
	over.add("home", home())

	// Errors about what the house sends are made here, for an address that is
	// here: they would never arrive (path MTU discovery would fail in silence).
	errors := t.chain("errors", "route hook output priority -150; policy accept")
	errors.add("error4", "ip daddr @own4 icmp type { 3, 11, 12 }", home())
	errors.add("error6", "ip6 daddr @own6 icmpv6 type { 1, 2, 3, 4 }", home())
	for _, f := range families() {
		if open[f] {
			errors.add("error.lans"+f.digit, lans(f, "daddr"), "meta l4proto { 1, 58 }", home())
		}
	}

	if w.Homes {
		errors.add("error.delegated6", "ip6 daddr @delegated6 icmpv6 type { 1, 2, 3, 4 }", home())
	}

	through := t.chain("through", "filter hook forward priority 0; policy drop")
	// Here and not in main: the route back is by this line and no other, so
	// "rt mtu", which takes the smaller of both directions, is right for the SYN
	// and for its answer.
	through.add("mss", "tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu")
	through.add("in", marked(), "iifname", port, "oifname", cable, "goto answer")
	// Nothing of the house leaves but under the line's own address, whatever
	// else goes wrong.
	for _, f := range families() {
		through.add("out"+f.digit, f.word, "saddr @own"+f.digit, "iifname", cable, "oifname", port, "accept")
		if open[f] {
			through.add("out.lans"+f.digit, lans(f, "saddr"), "iifname", cable, "oifname", port, "accept")
		}
	}
	if w.Homes {
		through.add("out.delegated6", "ip6 saddr @delegated6 iifname", cable, "oifname", port, "accept")
	}
	// After routing: a packet that comes in with an address of this namespace
	// as its source is a martian.
	answer := t.chain("answer", "")
	for _, f := range families() {
		answer.add("stand_in"+f.digit, "meta l4proto { 6, 17 } th sport 53", f.word, "saddr set", f.word, "saddr map @stand_in"+f.digit)
	}
	answer.add("answer", "accept")

	here := t.chain("here", "filter hook input priority 0; policy drop")
	here.add("nd", "icmpv6 type { 130, 134, 135, 136, 137 } accept")
	h.pings(here, w, port)
	here.add("ping4", "iifname", port, "icmp type 8", pinging)
	here.add("ping6", "iifname", port, "icmpv6 type 128", pinging)
	if w.DHCP4 {
		here.add("dhcp", "iifname", port, "meta nfproto ipv4 udp sport 67 udp dport 68 accept")
	}

	if w.DHCP6 {
		here.add("dhcp6", "iifname", port, "ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept")
	}

	// What this namespace says itself: discovery, echo replies, errors, DHCP.
	leave := t.chain("leave", "filter hook output priority 0; policy drop")
	leave.add("leave.home", marked(), "accept") // the link is still the one from before it was marked
	leave.add("leave.cable", "oifname", cable, "icmpv6 type { 131, 132, 135, 136, 143 } accept")
	leave.add("leave.icmp", "oifname", port, "ip saddr @own4 icmp type { 0, 3, 11, 12 } accept")
	leave.add("leave.icmpv6", "oifname", port, "icmpv6 type { 1, 2, 3, 4, 129, 131, 132, 133, 135, 136, 143 } accept")
	if w.DHCP4 {
		leave.add("leave.dhcp", "oifname", port, "meta nfproto ipv4 udp sport 68 udp dport 67 accept")
	}
	if w.DHCP6 {
		leave.add("leave.dhcp6", "oifname", port, "ip6 daddr ff02::1:2 udp sport 546 udp dport 547 accept")
	}
	return t.table()
}

// home is the statement that sends a packet over the cable.
func home() string { return mark("meta", MarkHome) + " accept" }

// marked matches what home marked.
func marked() string { return fmt.Sprintf("meta mark and 0x%03x == 0x%03x", MarkHome, MarkHome) }
