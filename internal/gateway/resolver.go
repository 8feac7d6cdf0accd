package gateway

import (
	"net/netip"
	"slices"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/dns"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// A line's own resolver is asked under the address of its cable's far end, which
// main translates to the resolver's and routes by that line's table. So no address
// of an ISP is told to who asks, and two lines may have the same one.

// upstreams are whom weir's own resolver asks: those of the file, of lines those
// that are up; where it names none, the lines' own, the one in use first.
func upstreams(c *config.Config, w world, far map[string][]netip.Addr) []dns.Upstream {
	said := c.DNS.Upstream
	if len(said) == 0 {
		said = []config.Server{{Line: config.Ref{Kind: config.KindWAN}}}
	}
	st := w.state(c)
	var out []dns.Upstream
	for _, s := range said {
		if s.Line.Kind == "" {
			out = append(out, dns.Upstream{Server: dns.Server{Addr: s.Addr, TLS: s.TLS, Name: s.Name}})
			continue
		}
		for _, name := range linesInOrder(c, w) {
			if s.Line.Name != "" && s.Line.Name != name {
				continue
			}
			for _, a := range answering(st.WANs[name], far[name]) {
				if u := (dns.Upstream{Server: dns.Server{Addr: a}, WAN: name}); !slices.Contains(out, u) {
					out = append(out, u)
				}
			}
		}
	}
	return out
}

// forwarders are whom BIND asks in place of the servers of the file. It asks all
// of them, by how soon they answer: so of several lines it is told one, the first
// that has a resolver. And it is always told some: with none it would ask from the
// root on, and take what the world says for what is this line's to say.
func forwarders(c *config.Config, w world, far map[string][]netip.Addr, said []config.Server) []netip.AddrPort {
	st := w.state(c)
	var out []netip.AddrPort
	for _, s := range said {
		if s.Line.Kind == "" {
			out = append(out, s.Addr)
		}
	}
	lines := slices.DeleteFunc(linesInOrder(c, w), func(name string) bool {
		return !slices.ContainsFunc(said, func(s config.Server) bool { return s.Line.Kind != "" && (s.Line.Name == "" || s.Line.Name == name) })
	})
	for _, name := range lines {
		if now := answering(st.WANs[name], far[name]); len(now) > 0 {
			return append(out, now...)
		}
	}
	if len(out) == 0 {
		for _, name := range lines {
			for _, a := range far[name] {
				out = append(out, netip.AddrPortFrom(a, 53))
			}
		}
	}
	return out
}

// resolversOf are those of a line's resolvers in a family that are asked.
func resolversOf(known state.WAN, six bool) []netip.Addr {
	out := slices.DeleteFunc(slices.Concat(known.V4.DNS, known.V6.DNS), func(s netip.Addr) bool { return s.Is6() != six })
	return out[:min(len(out), ruleset.MaxResolvers)]
}

// notOurs leaves out what of a line's further resolvers is the gateway itself, as where an ISP
// has the LAN's range: only a first one can be asked then, by its cable's far end alone.
func notOurs(dns []netip.Addr, own []netip.Prefix) (out []netip.Addr) {
	for i, a := range dns {
		first := !slices.ContainsFunc(dns[:i], func(o netip.Addr) bool { return o.Is6() == a.Is6() })
		if !slices.Contains(out, a) && (first || !slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr() == a })) {
			out = append(out, a)
		}
	}
	return out
}

// answering are the far ends of a line's cable, by IPv4 and IPv6, where the line
// works, each with a port for each resolver that is known.
func answering(known state.WAN, far []netip.Addr) (out []netip.AddrPort) {
	for _, a := range far {
		fam := known.V4
		if a.Is6() {
			fam = known.V6
		}
		for n := range len(resolversOf(known, a.Is6())) {
			if fam.Up {
				out = append(out, netip.AddrPortFrom(a, ruleset.ResolverPort(n)))
			}
		}
	}
	return out
}

// linesInOrder are the WANs in the order in which they would be used: those in
// use, then as the file prefers, then the rest.
func linesInOrder(c *config.Config, w world) []string {
	var out []string
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	add(w.use4)
	add(w.use6)
	for _, name := range c.Failover.Prefer {
		add(name)
	}
	for _, cw := range c.WANs {
		add(cw.Name)
	}
	return out
}

// farEnds are the addresses of the cables' ends in the WANs' namespaces.
func farEnds(d desired.Desired) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, ns := range d.Namespaces {
		if ns.WAN == "" {
			continue
		}
		for _, a := range ns.Addrs {
			if a.Link == desired.CableInner && !a.Prefix.Addr().IsLinkLocalUnicast() {
				out[ns.WAN] = append(out[ns.WAN], a.Prefix.Addr())
			}
		}
	}
	return out
}
