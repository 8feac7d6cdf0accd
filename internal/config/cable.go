package config

import (
	"net/netip"
	"slices"
)

// clearCable4 chooses the network of the patch cables: room for a /31 for each
// WAN, at least a /24, clear of everything that the file names. A file may name
// all private space in a rule; then only what has to be clear is kept clear of.
func (h *house) clearCable4() netip.Prefix {
	bits := 24
	for 1<<(32-bits) < 2*len(h.WANs) && bits > 16 {
		bits--
	}
	for _, taken := range [][]netip.Prefix{mentioned4(h.root), h.linked4()} {
		for _, space := range []string{"172.31.0.0/16", "10.255.0.0/16", "192.168.0.0/16", "198.18.0.0/15"} {
			p := netip.MustParsePrefix(space)
			for at := netip.PrefixFrom(lastAddr(p), bits).Masked(); p.Contains(at.Addr()); at = netip.PrefixFrom(at.Addr().Prev(), bits).Masked() {
				if !slices.ContainsFunc(taken, at.Overlaps) {
					return at
				}
			}
		}
	}
	return netip.Prefix{}
}

// linked4 are the IPv4 networks on the house's links.
func (h *house) linked4() []netip.Prefix {
	var ps []netip.Prefix
	for i := range h.LANs {
		if p := h.LANs[i].Address4; p.IsValid() {
			ps = append(ps, p.Masked())
		}
	}
	for i := range h.WANs {
		for _, p := range h.WANs[i].IPv4.Address {
			ps = append(ps, p.Masked())
		}
	}
	return ps
}

// mentioned4 are all IPv4 networks and addresses in a block.
func mentioned4(root *node) []netip.Prefix {
	var ps []netip.Prefix
	var walk func(*node)
	walk = func(n *node) {
		for _, a := range n.attrs {
			for _, it := range a.items {
				switch v := it.val.(type) {
				case netip.Prefix:
					ps = append(ps, v.Masked())
				case netip.Addr:
					ps = append(ps, netip.PrefixFrom(v, v.BitLen()))
				case Place:
					ps = append(ps, v.Prefix)
				case Range:
					ps = append(ps, netip.PrefixFrom(v.From, 32), netip.PrefixFrom(v.To, 32))
				case Server:
					ps = append(ps, netip.PrefixFrom(v.Addr.Addr(), v.Addr.Addr().BitLen()))
				}
			}
		}
		for _, b := range n.blocks {
			walk(b)
		}
	}
	walk(root)
	return slices.DeleteFunc(ps, func(p netip.Prefix) bool { return !p.IsValid() || !p.Addr().Is4() || p.Bits() == 0 })
}
