package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

func (c *checker) checkWAN(h *house, i int) {
	n, w := h.wans[i], &h.WANs[i]
	v4, v6 := n.child("ipv4"), n.child("ipv6")
	c.checkFamily(n, v4, w.IPv4.Method, w.IPv4.Gateway)
	c.checkFamily(n, v6, w.IPv6.Method, w.IPv6.Gateway)
	if w.IPv4.Method == MethodNone && w.IPv6.Method == MethodNone {
		c.err(n.at(), "Let it have one of them.", "wan %q has neither IPv4 nor IPv6", w.Name)
	}
	for _, it := range n.items("mtu") {
		if w.MTU < 1280 && w.IPv6.Method != MethodNone && !v6.bad("method") {
			c.err(it.at, "IPv6 needs 1280 (RFC 8200, 5). If the line has none: ipv6 { method = \"none\" }", "%d is too small for IPv6", w.MTU)
		}
	}
	if w.IPv4.Method != MethodDHCP && !v4.bad("method") {
		for _, key := range []string{"client_id", "hostname", "vendor_class", "ignore_classless_routes"} {
			if a := v4.said(key); a != nil {
				c.note(a.name, "The line's addresses don't come from DHCP.", "%s changes nothing", key)
			}
		}
	}
	c.checkDelegate(h, v6, w)
	for _, bytes := range []struct {
		key   string
		least int
		help  string
	}{
		{"client_id", 2, `Two digits for each byte, at least two bytes: "hex:01020000000001".`},
		{"vendor_class", 1, `Two digits for each byte: "hex:64736c".`},
	} {
		for _, it := range v4.items(bytes.key) {
			s, _ := it.val.(string)
			if b, isHex := inHex(s); isHex && len(b) < bytes.least {
				c.err(it.at, bytes.help, "%q is no %s", s, bytes.key)
			}
		}
	}
	for _, it := range v4.items("hostname") {
		if s, _ := it.val.(string); !validDomain(s) {
			c.err(it.at, "Letters, digits, hyphens, dots (RFC 1123).", "%q is no host name", s)
		}
	}
	for _, it := range v4.items("translate") {
		if w.IPv4.Translate != NoTranslate {
			continue
		}
		for j := range h.LANs {
			if p := h.LANs[j].Address4; p.IsValid() && p.Addr().IsPrivate() {
				c.note(it.at, fmt.Sprintf("lan %q has private ones (%s): the ISP has to route them back, or nothing returns.", h.LANs[j].Name, p.Masked()),
					"wan %q sends the house's own IPv4 addresses out", w.Name)
				break
			}
		}
	}
}

// checkDelegate checks what a WAN asks for the LANs.
func (c *checker) checkDelegate(h *house, v6 *node, w *WAN) {
	at := v6.said("delegate")
	translate := v6.said("translate")
	if v6.bad("delegate") || v6.bad("translate") || v6.bad("method") {
		return
	}
	n := w.IPv6.Delegate
	switch {
	case n == 0:
		if translate != nil && w.IPv6.Translate != NAT66 {
			c.err(translate.value, "Ask the ISP for one: delegate = 56. It leases what it likes.", "translate = %q needs a delegated prefix", w.IPv6.Translate)
		}
		return
	case n < 48:
		c.err(at.value, "The length of the prefix, 48 to 64; most ISPs give 56. 0 asks for none.", "nobody delegates a /%d to a house", n)
		return
	case w.IPv6.Method == MethodNone:
		c.err(at.name, "Leave out one of the two.", "delegate contradicts method = \"none\"")
	case w.IPv6.Translate == NAT66:
		c.note(translate.value, "So it is of no use. Clients that have only fd00:: addresses prefer IPv4 (RFC 6724, 6): translate = \"npt\", or leave translate out.",
			"with nat66 the LANs get no addresses in the prefix that wan %q asks for", w.Name)
	}
	if room := 1 << (64 - n); at != nil && len(h.LANs) > room {
		fits := n
		for fits > 48 && 1<<(64-fits) < len(h.LANs) {
			fits--
		}
		c.err(at.value, fmt.Sprintf("Networks of /64 that it holds: %d. delegate = %d", room, fits), "a /%d is asked for, and there are %d LANs", n, len(h.LANs))
	}
}

// checkFamily checks the ipv4 or ipv6 block of a WAN.
func (c *checker) checkFamily(wan, n *node, m Method, gateway netip.Addr) {
	is6 := n.def.name == "ipv6"
	family := map[bool]string{false: "IPv4", true: "IPv6"}
	if n.bad("method") {
		return
	}
	if a := n.said("dns"); a != nil && m == MethodNone {
		c.err(a.name, "Leave out one of the two.", "dns contradicts method = \"none\"")
	}
	for _, it := range n.items("dns") {
		a, _ := it.val.(netip.Addr)
		if a.Is6() != is6 {
			c.err(it.at, fmt.Sprintf("It belongs into ipv%d { }.", map[bool]int{true: 6, false: 4}[a.Is6()]), "%s is no %s address", a, family[is6])
		} else if why := unfit(a); why != "" {
			c.err(it.at, "It has to be a resolver that is reached over this line.", "%s is %s", a, why)
		}
	}
	if m != MethodStatic {
		for _, key := range []string{"address", "gateway"} {
			if a := n.said(key); a != nil {
				c.err(a.name, `Leave method out, or say method = "static"; or leave out address and gateway.`, "%s contradicts method = %q", key, m)
			}
		}
		return
	}
	if n.said("address") == nil {
		c.err(n.said("method").value, fmt.Sprintf("Say address = %s", n.def.key("address").example), "static needs an address")
	}
	if n.said("gateway") == nil {
		at := n.at()
		if a := n.said("address"); a != nil {
			at = a.value
		}
		c.err(at, fmt.Sprintf("Say whom the ISP calls its router: gateway = %s", n.def.key("gateway").example), "static needs a gateway")
	}
	var seen []netip.Addr
	for _, it := range n.items("address") {
		p, _ := it.val.(netip.Prefix)
		switch {
		case p.Addr().Is6() != is6:
			c.err(it.at, fmt.Sprintf("It belongs into ipv%d { }.", map[bool]int{true: 6, false: 4}[p.Addr().Is6()]), "%s is no %s address", p.Addr(), family[is6])
		case slices.Contains(seen, p.Addr()):
			c.err(it.at, "With one length.", "%s stands twice", p.Addr())
		case p.Addr() == gateway:
			c.err(it.at, fmt.Sprintf("wan %q has it, so the ISP's router has another.", wan.label), "%s is the gateway's address", p.Addr())
		}
		seen = append(seen, p.Addr())
	}
	for _, it := range n.items("gateway") {
		a, _ := it.val.(netip.Addr)
		if a.Is6() != is6 {
			c.err(it.at, fmt.Sprintf("It is in ipv%d { }.", map[bool]int{true: 6, false: 4}[is6]), "%s is no %s address", a, family[is6])
		} else if why := unfit(a); why != "" && !a.IsLinkLocalUnicast() {
			c.err(it.at, "It has to be the ISP's router.", "%s is %s", a, why)
		}
	}
}

// network is a network of the house or of a line, and where the file has it.
type network struct {
	prefix netip.Prefix
	owner  string // `lan "home"`
	lan    int    // index; -1: none
	at     hcl.Range
}

// checkNetworks compares all networks with each other.
func (c *checker) checkNetworks(h *house) {
	var house, lines []network
	for i, n := range h.lans {
		for _, it := range slices.Concat(n.items("address"), n.child("advertise").items("prefix")) {
			if p, ok := it.val.(netip.Prefix); ok && !slices.ContainsFunc(house, func(b network) bool { return b.lan == i && b.prefix == p.Masked() }) {
				house = append(house, network{p.Masked(), n.called(), i, it.at})
			}
		}
		if len(h.LANs[i].Address6) == 0 {
			for _, p := range h.Address6(n.label, h.Gateway.ULA) {
				house = append(house, network{p.Masked(), n.called(), i, n.at()})
			}
		}
	}
	for i, n := range h.wans {
		for _, p := range slices.Concat(n.child("ipv4").items("address"), n.child("ipv6").items("address")) {
			if v, ok := p.val.(netip.Prefix); ok {
				lines = append(lines, network{v.Masked(), n.called(), -1 - i, p.at})
			}
		}
	}
	for i, b := range house {
		for _, a := range house[:i] {
			if !a.prefix.Overlaps(b.prefix) {
				continue
			}
			first, second := a, b
			if c.before(b.at, a.at) {
				first, second = b, a
			}
			if a.lan == b.lan {
				c.err(second.at, fmt.Sprintf("%s overlaps %s (%s).", second.prefix, first.prefix, line(first.at, second.at)), "two networks of %s overlap", a.owner)
				continue
			}
			c.err(second.at, overlapText(first, second)+" Traffic between them would never reach the gateway.", "%s and %s overlap", first.owner, second.owner)
		}
	}
	noted := make(map[string]bool)
	for _, l := range lines {
		for _, b := range house {
			if !l.prefix.Overlaps(b.prefix) || noted[l.owner+b.owner] {
				continue
			}
			noted[l.owner+b.owner] = true
			shared := l.prefix
			if b.prefix.Bits() > shared.Bits() {
				shared = b.prefix
			}
			c.note(l.at, "That works here: each line is a world of its own. The modem's own page can't be reached then.", "%s and %s hold %s", b.owner, l.owner, shared)
		}
	}
	for _, it := range h.gw.items("cable") {
		p, _ := it.val.(netip.Prefix)
		for _, b := range slices.Concat(house, lines) {
			if p.Overlaps(b.prefix) {
				c.err(it.at, fmt.Sprintf("%s is in %s. Cables need space of their own; leave it out, and it is chosen.", b.prefix, line(b.at, it.at)), "the cables and %s overlap", b.owner)
			}
		}
	}
	if p := h.Cables6(h.Gateway.ULA); p.IsValid() && !h.Gateway.Cable6.IsValid() {
		for _, b := range house {
			if p.Overlaps(b.prefix) {
				c.err(b.at, "It is the last /64 of ula, which the cables take unless cable says otherwise.", "the cables and %s overlap", b.owner)
			}
		}
	}
}

func overlapText(a, b network) string {
	where := func(n network) string { return fmt.Sprintf("%s (line %d)", n.prefix, n.at.Start.Line) }
	if a.at.Filename != b.at.Filename {
		where = func(n network) string {
			return fmt.Sprintf("%s (%s, line %d)", n.prefix, n.at.Filename, n.at.Start.Line)
		}
	}
	switch {
	case a.prefix == b.prefix:
		return fmt.Sprintf("Both hold %s: %s and %s.", a.prefix, line(a.at, b.at), line(b.at, b.at))
	case a.prefix.Bits() < b.prefix.Bits():
		return fmt.Sprintf("%s holds %s.", where(a), where(b))
	}
	return fmt.Sprintf("%s holds %s.", where(b), where(a))
}
