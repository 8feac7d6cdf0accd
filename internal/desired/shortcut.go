package desired

import (
	"cmp"
	"net/netip"
	"slices"
)

// Shortcut is what the fast path of a line's namespace is to do: programs on the
// port and on the cable carry past the namespace what it would only pass on
// (internal/fastpath).
type Shortcut struct {
	Port, Cable string
	Parts       []Part // by prefix; no prefix twice
}

// Part says what addresses are to the line, by the longest prefix. The same is
// said by the namespace's ruleset.
type Part struct {
	Prefix netip.Prefix
	Role   Role
}

// Role is a set of bits; they are the programs' too (bpf/card.c).
type Role uint32

// What an address may be.
const (
	RoleHome   Role = 1 << iota // a destination that is main's
	RoleLeaves                  // a source that may leave by the line
	RoleHere                    // a source that nobody outside has: the kernel drops it
)

// SortParts puts parts in order.
func SortParts(parts []Part) {
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
}

// shortcut says what the programs of a line are to know; nil where there are none.
func (b *build) shortcut(w wan) *Shortcut {
	if !b.fast() || w.absent {
		return nil
	}
	roles := map[netip.Prefix]Role{}
	single := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
	if w.Homes {
		for _, p := range w.Delegated {
			roles[p.Masked()] |= RoleHome | RoleLeaves
		}
	}
	for _, l := range b.lans {
		for _, p := range l.addr {
			if p.Addr().Is4() && !w.Translate4 || p.Addr().Is6() && !w.Translate6 {
				roles[p.Masked()] |= RoleHome | RoleLeaves
			}
		}
	}
	for _, p := range w.Own {
		// Who sends from the address of a network, or of all that are in it, lies.
		if p.Addr().Is4() && !p.IsSingleIP() {
			roles[single(lastAddr(p))] |= RoleHere
		}
	}
	for _, a := range []netip.Addr{w.Far4, w.Far6} {
		if a.IsValid() {
			roles[single(a)] |= RoleHere
		}
	}
	for _, p := range w.Own {
		roles[single(p.Addr())] |= RoleHome | RoleLeaves | RoleHere
	}
	s := &Shortcut{Port: w.link.Name, Cable: CableInner}
	for p, r := range roles {
		s.Parts = append(s.Parts, Part{p, r})
	}
	SortParts(s.Parts)
	return s
}

// lastAddr is the last address of a network: to IPv4 its broadcast.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}
