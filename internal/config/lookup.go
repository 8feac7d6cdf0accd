package config

import (
	"net/netip"
	"slices"
)

// WAN returns the WAN of that name, or nil.
func (c *Config) WAN(name string) *WAN {
	for i := range c.WANs {
		if c.WANs[i].Name == name {
			return &c.WANs[i]
		}
	}
	return nil
}

// LAN returns the LAN of that name, or nil.
func (c *Config) LAN(name string) *LAN {
	for i := range c.LANs {
		if c.LANs[i].Name == name {
			return &c.LANs[i]
		}
	}
	return nil
}

// Domains are those of the house, the gateway's first, each once.
func (c *Config) Domains() []string {
	out := []string{c.Gateway.Domain}
	for _, l := range c.LANs {
		for _, d := range l.Domain {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// Host returns the host of that name, or nil.
func (c *Config) Host(name string) *Host {
	for i := range c.LANs {
		for j := range c.LANs[i].Hosts {
			if c.LANs[i].Hosts[j].Name == name {
				return &c.LANs[i].Hosts[j]
			}
		}
	}
	return nil
}

// Group returns the group of that name, or nil.
func (c *Config) Group(name string) *Group {
	for i := range c.Groups {
		if c.Groups[i].Name == name {
			return &c.Groups[i]
		}
	}
	return nil
}

// Expand returns places with groups replaced by their members, each place once,
// in the order of first mention. Groups in groups are followed.
func (c *Config) Expand(places []Place) []Place {
	var flat []Place
	seen := make(map[string]bool) // groups
	var add func([]Place)
	add = func(ps []Place) {
		for _, p := range ps {
			if p.Ref.Kind != KindGroup {
				if !slices.Contains(flat, p) {
					flat = append(flat, p)
				}
				continue
			}
			g := c.Group(p.Ref.Name)
			if g == nil || seen[g.Name] {
				continue
			}
			seen[g.Name] = true
			add(g.Member)
		}
	}
	add(places)
	return flat
}

// Address6 returns the gateway's IPv6 addresses on a LAN: the file's, or ::1 in
// a /64 of the house's ULA, numbered by the LAN's place in the file from 1 on.
// It is nil for a LAN that is not there, or where neither is known.
func (c *Config) Address6(lan string, ula netip.Prefix) []netip.Prefix {
	for i := range c.LANs {
		if c.LANs[i].Name != lan {
			continue
		}
		if len(c.LANs[i].Address6) > 0 {
			return c.LANs[i].Address6
		}
		if p, ok := Subnet6(ula, uint16(i+1)); ok {
			return []netip.Prefix{netip.PrefixFrom(p.Addr().Next(), 64)}
		}
	}
	return nil
}

// Cables6 returns the network of the patch cables: the file's, or the last /64
// of the house's ULA.
func (c *Config) Cables6(ula netip.Prefix) netip.Prefix {
	if c.Gateway.Cable6.IsValid() {
		return c.Gateway.Cable6
	}
	p, _ := Subnet6(ula, 0xffff)
	return p
}

// HostAddrs returns all fixed addresses of a host, with its tokens put into
// each /64 that its LAN has: the gateway's addresses there, and what is advertised.
func (c *Config) HostAddrs(h *Host, ula netip.Prefix) []netip.Addr {
	addrs := slices.Clone(h.Address)
	if len(h.Token) == 0 {
		return addrs
	}
	var nets []netip.Prefix
	for _, p := range c.Address6(h.LAN, ula) {
		nets = append(nets, p.Masked())
	}
	if l := c.LAN(h.LAN); l != nil {
		nets = append(nets, l.Advertise.Prefix...)
	}
	for _, t := range h.Token {
		for _, p := range nets {
			if a, ok := Join6(p, t); ok && !slices.Contains(addrs, a) {
				addrs = append(addrs, a)
			}
		}
	}
	return addrs
}

// ForwardTo6 returns where a forward goes in IPv6; it is invalid where the
// forward does not exist in that family.
func (c *Config) ForwardTo6(f *Forward, ula netip.Prefix) netip.Addr {
	if f.To6.IsValid() || !f.Token6.IsValid() {
		return f.To6
	}
	for _, p := range c.Address6(f.LAN, ula) {
		if a, ok := Join6(p.Masked(), f.Token6); ok {
			return a
		}
	}
	return netip.Addr{}
}

// Subnet6 returns the /64 number n of a /48.
func Subnet6(p48 netip.Prefix, n uint16) (netip.Prefix, bool) {
	if !p48.IsValid() || !p48.Addr().Is6() || p48.Bits() != 48 {
		return netip.Prefix{}, false
	}
	b := p48.Masked().Addr().As16()
	b[6], b[7] = byte(n>>8), byte(n)
	return netip.PrefixFrom(netip.AddrFrom16(b), 64), true
}

// SubnetOf returns the /64 number n of a prefix; false where it has no such one.
func SubnetOf(p netip.Prefix, n uint16) (netip.Prefix, bool) {
	if !p.IsValid() || !p.Addr().Is6() || p.Bits() > 64 || p.Bits() > 48 && int(n)>>(64-p.Bits()) != 0 {
		return netip.Prefix{}, false
	}
	b := p.Masked().Addr().As16()
	b[6] |= byte(n >> 8)
	b[7] |= byte(n)
	return netip.PrefixFrom(netip.AddrFrom16(b), 64), true
}

// Join6 puts an interface identifier (the lower 64 bits of token) into a /64.
func Join6(p64 netip.Prefix, token netip.Addr) (netip.Addr, bool) {
	if !p64.IsValid() || !p64.Addr().Is6() || p64.Bits() != 64 || !token.Is6() {
		return netip.Addr{}, false
	}
	b, t := p64.Addr().As16(), token.As16()
	copy(b[8:], t[8:])
	return netip.AddrFrom16(b), true
}
