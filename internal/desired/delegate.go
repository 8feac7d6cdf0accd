package desired

import (
	"cmp"
	"fmt"
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

// Granted is what is taken of each line's delegation. Nothing of what is the
// house's, and nothing that a line before it in the file has: a server that leases
// what is not its own to give would else have it leave by its line untranslated.
// refused says what was not taken.
func Granted(c *config.Config, s state.State) (taken map[string][]netip.Prefix, refused []string) {
	type owner struct {
		prefix netip.Prefix
		who    string
	}
	ula := c.Gateway.ULA
	if !ula.IsValid() {
		ula = s.ULA
	}
	owners := []owner{{ula, "the house's own"}, {c.Cables6(ula), "the cables'"}}
	for _, l := range c.LANs {
		for _, a := range l.Address6 {
			owners = append(owners, owner{a, fmt.Sprintf("lan %q's", l.Name)})
		}
	}
	taken = make(map[string][]netip.Prefix)
	for _, w := range c.WANs {
		if !w.IPv6.Homes() {
			continue
		}
		for _, p := range s.WANs[w.Name].Delegated {
			i := slices.IndexFunc(owners, func(o owner) bool { return o.prefix.IsValid() && o.prefix.Overlaps(p) })
			if i >= 0 {
				refused = append(refused, fmt.Sprintf("%s, which wan %q was delegated, is not used: %s is %s", p, w.Name, owners[i].prefix, owners[i].who))
				continue
			}
			taken[w.Name] = append(taken[w.Name], p)
		}
		for _, p := range taken[w.Name] {
			owners = append(owners, owner{p, fmt.Sprintf("wan %q's", w.Name)})
		}
	}
	return taken, refused
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

// Source is a prefix that parts are delegated out of, and the line that has it; ""
// is the house's own.
type Source struct {
	Prefix netip.Prefix
	WAN    string
}

// Sources are the prefixes that routers in the LANs get parts of: what the lines were
// delegated, in file order, and the ULA.
func Sources(c *config.Config, s state.State) []Source {
	granted, _ := Granted(c, s)
	var out []Source
	for _, w := range c.WANs {
		for _, p := range granted[w.Name] {
			out = append(out, Source{p, w.Name})
		}
	}
	ula := c.Gateway.ULA
	if !ula.IsValid() {
		ula = s.ULA
	}
	if ula.IsValid() {
		out = append(out, Source{ula, ""})
	}
	return out
}

// Reserved are the networks in these that are the LANs' and the cables': no part may
// have one of them in it. The gateway's own addresses are among them.
func Reserved(c *config.Config, s state.State) []netip.Prefix {
	ula := c.Gateway.ULA
	if !ula.IsValid() {
		ula = s.ULA
	}
	var out []netip.Prefix
	if p := c.Cables6(ula); p.IsValid() {
		out = append(out, p)
	}
	numbers := Numbers(c, s.LANs)
	sources := Sources(c, s)
	for _, l := range c.LANs {
		for _, p := range c.Address6(l.Name, ula) {
			out = append(out, p.Masked(), netip.PrefixFrom(p.Addr(), 128))
		}
		for _, p := range sources {
			if net, ok := config.SubnetOf(p.Prefix, numbers[l.Name]); ok && p.WAN != "" {
				out = append(out, net, netip.PrefixFrom(net.Addr().Next(), 128))
			}
		}
	}
	return out
}

// parts are the routes to what routers in a LAN have been delegated.
func (b *build) parts(l lan) []Route {
	if l.links == nil || l.cfg.DHCP6.Delegate == 0 {
		return nil
	}
	var out []Route
	sources, reserved := Sources(b.cfg, b.st), Reserved(b.cfg, b.st)
	for _, p := range b.st.Parts {
		if p.LAN != l.cfg.Name {
			continue
		}
		for _, s := range sources {
			if dst := state.PartOf(s.Prefix, l.cfg.DHCP6.Delegate, p.Number, reserved); dst.IsValid() {
				out = append(out, Route{Dst: dst, Gateway: p.Via, Link: l.link})
			}
		}
	}
	return out
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
	granted, _ := Granted(c, s)
	for _, name := range c.Failover.Prefer {
		if len(granted[name]) > 0 {
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
