package desired

import (
	"cmp"
	"net/netip"
	"slices"

	"weir/internal/config"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// delegate cuts what the lines were delegated into a /64 for each LAN, by its
// number: the gateway has the first address in each. Those of lines that are not
// used stay: what a host there still sends has to be known as its own, to be
// translated.
func (b *build) delegate() {
	number := Numbers(b.cfg, b.st.LANs)
	for i := range b.wans {
		w := &b.wans[i]
		for j, p := range w.Delegated {
			for k := range b.lans {
				l := &b.lans[k]
				net, ok := config.SubnetOf(p, number[l.cfg.Name])
				if !ok {
					b.note("%s, which wan %q was delegated, has no network left for lan %q: devices there have addresses of the house only", p, w.Name, l.cfg.Name)
					continue
				}
				l.deleg = append(l.deleg, netip.PrefixFrom(net.Addr().Next(), 64))
				if j == 0 {
					w.Subnets = append(w.Subnets, ruleset.Subnet{LAN: l.cfg.Name, Prefix: net})
				}
			}
		}
	}
}

// Delegated are the gateway's addresses on a LAN in what the lines were delegated.
func Delegated(c *config.Config, s state.State, lan string) []netip.Prefix {
	for _, l := range begin(c, s).lans {
		if l.cfg.Name == lan {
			return l.deleg
		}
	}
	return nil
}

// Numbers numbers the LANs: as known has them, and by the lowest free number for
// one that it does not.
func Numbers(c *config.Config, known map[string]uint16) map[string]uint16 {
	out := make(map[string]uint16)
	taken := make(map[uint16]bool)
	for name, n := range known {
		out[name], taken[n] = n, true
	}
	next := uint16(0)
	for _, l := range c.LANs {
		if _, ok := out[l.Name]; ok {
			continue
		}
		for taken[next] {
			next++
		}
		out[l.Name], taken[next] = next, true
	}
	return out
}

// Home is the WAN whose delegated prefix devices are to use now, "" if there is
// none: the first that is preferred, was delegated one and works. While no line
// works at all it is the first: nothing is gained by taking addresses away.
func Home(c *config.Config, s state.State) string {
	var names []string
	for _, name := range c.Failover.Prefer {
		if w := c.WAN(name); w != nil && w.IPv6.Homes() && len(s.WANs[name].Delegated) > 0 {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if s.WANs[name].V6.Up {
			return name
		}
	}
	if s.Use6 != "" || len(names) == 0 {
		return ""
	}
	return names[0]
}

// spare is the rest of what the lines were delegated: nobody has it, and what is
// for it must not go back to the ISP by the default route (RFC 7084, WPD-5).
func (b *build) spare(n *Namespace) {
	var all []netip.Prefix
	for _, w := range b.wans {
		all = append(all, w.Delegated...)
	}
	slices.SortFunc(all, func(p, q netip.Prefix) int { return cmp.Or(p.Bits()-q.Bits(), p.Addr().Compare(q.Addr())) })
	for _, p := range slices.Compact(all) {
		if p.Bits() < 64 {
			n.Routes = append(n.Routes, Route{Dst: p, Type: Unreachable})
		}
	}
}
