package ruleset

import (
	"net/netip"
	"slices"
)

// subtract returns the parts of p that lie in none of holes, as prefixes.
func subtract(p netip.Prefix, holes []netip.Prefix) []netip.Prefix {
	p = p.Masked()
	for _, h := range holes {
		if !h.Overlaps(p) {
			continue
		}
		if h.Bits() <= p.Bits() {
			return nil
		}
		low, high := halves(p)
		return append(subtract(low, holes), subtract(high, holes)...)
	}
	return []netip.Prefix{p}
}

// halves cuts a prefix in two.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	bits := p.Bits()
	low = netip.PrefixFrom(p.Addr(), bits+1)
	b := p.Addr().AsSlice()
	b[bits/8] |= 0x80 >> (bits % 8)
	a, _ := netip.AddrFromSlice(b)
	return low, netip.PrefixFrom(a, bits+1)
}

// disjoint sorts prefixes and leaves out what another one holds: an interval
// set refuses elements that overlap.
func disjoint(prefixes []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		out = append(out, p.Masked())
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		if c := a.Bits() - b.Bits(); c != 0 {
			return c
		}
		return a.Addr().Compare(b.Addr())
	})
	kept := out[:0]
	for _, p := range out {
		if !slices.ContainsFunc(kept, func(q netip.Prefix) bool { return q.Overlaps(p) }) {
			kept = append(kept, p)
		}
	}
	return kept
}

// inside says whether a lies in one of prefixes.
func inside(a netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// covered says whether one of nets holds all of p.
func covered(p netip.Prefix, nets []netip.Prefix) bool {
	return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) })
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
