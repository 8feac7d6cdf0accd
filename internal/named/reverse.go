package named

import (
	"net/netip"
	"strings"

	weirdns "weir/internal/dns"
)

// labelBits is how many bits a label of a reverse name stands for.
func labelBits(a netip.Addr) int {
	if a.Is4() {
		return 8
	}
	return 4
}

func reverseOf(a netip.Addr) string { return weirdns.ReverseName(netip.PrefixFrom(a, a.BitLen())) }

// reverseZones are the zones that a network's names are in. A network that does
// not end where a label does is several zones, for what is beside it is not ours;
// but in private space, where nobody else can have it, it is the one around it.
func reverseZones(p netip.Prefix) []string {
	p = p.Masked()
	step := labelBits(p.Addr())
	if up := p.Bits() / step * step; up > 0 && (up == p.Bits() || p.Addr().IsPrivate()) {
		return []string{weirdns.ReverseName(netip.PrefixFrom(p.Addr(), up).Masked())}
	}
	return split(p)
}

// split cuts a network where labels end.
func split(p netip.Prefix) []string {
	p = p.Masked()
	step := labelBits(p.Addr())
	bits := (p.Bits() + step - 1) / step * step
	raw := p.Addr().AsSlice()
	var out []string
	for i := range 1 << (bits - p.Bits()) {
		b := append([]byte{}, raw...)
		if bits > 0 {
			b[(bits-1)/8] |= byte(i << ((8 - bits%8) % 8))
		}
		a, _ := netip.AddrFromSlice(b)
		out = append(out, weirdns.ReverseName(netip.PrefixFrom(a, bits)))
	}
	return out
}

// within says whether a name is a zone's or below it; both absolute, lower case.
func within(name, zone string) bool {
	return name == zone || zone == "." || strings.HasSuffix(name, "."+zone)
}
