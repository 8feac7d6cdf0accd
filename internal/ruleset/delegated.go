package ruleset

import (
	"fmt"
	"net/netip"
)

// Of a line that has a prefix delegated to it, flows with a source in that leave as
// they are; what has another source of the house is put into the prefix, the LAN's
// network for the LAN's, the rest of the address as it was (RFC 6296's mapping, but
// through conntrack, so that two hosts may have equal ones). So is the gateway's own,
// which has its address in the first LAN. What is of no LAN, as a probe is, and all
// as long as nothing is delegated, has the line's own address.

// delegatedSets writes what changes with the ISPs' leases.
func (m *mainTable) delegatedSets() {
	for _, w := range m.WANs {
		if !w.Homes {
			continue
		}
		m.set("native6."+w.Name, "set", "type ipv6_addr; flags interval", v6.of(disjoint(w.Delegated)))
		if w.Strict6 {
			continue
		}
		var to []string
		for _, s := range w.Subnets {
			for _, from := range m.networks6(s.LAN) {
				if !w.native(from.Addr()) {
					to = append(to, fmt.Sprintf("%s : %s", prefixText(from), prefixText(s.Prefix)))
				}
			}
		}
		m.set("npt6."+w.Name, "map", "type ipv6_addr : interval ipv6_addr; flags interval", to)
	}
}

// networks6 are the /64s of a LAN.
func (h House) networks6(lan string) []netip.Prefix {
	var out []netip.Prefix
	for _, l := range h.LANs {
		for _, p := range l.nets() {
			if l.Name == lan && v6.holds(p.Addr()) && p.Bits() == 64 {
				out = append(out, p.Masked())
			}
		}
	}
	return out
}

// mapped is the address as which a device of the house leaves by w, if that puts it
// into a prefix of its own.
func (h House) mapped(w *WAN, a netip.Addr) (as netip.Addr, ok bool) {
	if !w.Homes || w.Strict6 || w.native(a) {
		return netip.Addr{}, false
	}
	for _, s := range w.Subnets {
		if inside(a, h.networks6(s.LAN)) {
			net, host := s.Prefix.Masked().Addr().As16(), a.As16()
			copy(net[8:], host[8:])
			return netip.AddrFrom16(net), true
		}
	}
	return netip.Addr{}, false
}

// delegatedOut writes the rules of a line for what leaves by it.
func (m *mainTable) delegatedOut(c *chain, w WAN) {
	if !w.Homes {
		return
	}
	c.add("native6."+w.Name, "ip6 saddr @native6."+w.Name, "accept")
	if !w.Strict6 {
		c.add("npt6."+w.Name, "snat ip6 prefix to ip6 saddr map @npt6."+w.Name)
	}
}

// wrongSource refuses new connections of the house that a line which does not
// translate would carry under an address that is not its own: the sender is told,
// and tries another of its addresses (RFC 4443, 3.1, code 5; RFC 7084, WPD-9).
func (m *mainTable) wrongSource(c *chain) {
	any := false
	for _, w := range m.WANs {
		if !w.Homes || !w.Strict6 {
			continue
		}
		any = true
		c.add("source.wrong."+w.Name, fmt.Sprintf("oifname %q ip6 saddr != @native6.%s goto source.wrong", w.Name, w.Name))
	}
	if any {
		wrong := m.chain("source.wrong", "")
		wrong.add("source.wrong.log", logged("source.wrong"))
		wrong.add("source.wrong", m.counter("source.wrong"), "reject with icmpv6 type policy-fail")
	}
}
