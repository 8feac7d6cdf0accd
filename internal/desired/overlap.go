package desired

import (
	"net/netip"
	"slices"
)

// overlaps notes networks of lines that meet the house's own. They work, and
// their owner should know.
func (b *build) overlaps() {
	cables := []netip.Prefix{b.cfg.Gateway.Cable4, b.cfg.Cables6(b.ula)}
	for _, w := range b.wans {
		for _, a := range w.Own {
			for _, l := range b.lans {
				if i := slices.IndexFunc(l.addr, func(p netip.Prefix) bool { return p.Masked().Overlaps(a.Masked()) }); i >= 0 {
					b.note("wan %q is in %s, which meets lan %q's %s: this works, but what the ISP has there can't be reached from the house",
						w.Name, a.Masked(), l.cfg.Name, l.addr[i].Masked())
				}
			}
			for _, p := range cables {
				if p.IsValid() && p.Overlaps(a.Masked()) {
					b.note("wan %q is in %s, which meets the cables' %s: choose other addresses for them with cable in the gateway block",
						w.Name, a.Masked(), p)
				}
			}
		}
	}
}
