package state

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Part is a part of each prefix that a LAN's routers get some of (DHCPv6 prefix
// delegation), and who has it.
type Part struct {
	LAN    string
	Number uint32     // as PartOf has it
	Via    netip.Addr // link-local address of the router
}

// PartOf is a part of a prefix, of a length, numbered from 1 at its upper end: the
// lower end is the LANs'. It is invalid where the prefix has no such part, or one
// of reserved is in it.
func PartOf(p netip.Prefix, bits int, part uint32, reserved []netip.Prefix) netip.Prefix {
	width := bits - p.Bits()
	if part == 0 || width < 0 || bits > 64 || width < 32 && uint64(part) > 1<<width {
		return netip.Prefix{}
	}
	b := p.Masked().Addr().As16()
	high := binary.BigEndian.Uint64(b[:8])
	if width > 0 {
		high |= (1<<width - uint64(part)) << (64 - bits)
	}
	binary.BigEndian.PutUint64(b[:8], high)
	out := netip.PrefixFrom(netip.AddrFrom16(b), bits)
	if slices.ContainsFunc(reserved, out.Overlaps) {
		return netip.Prefix{}
	}
	return out
}
