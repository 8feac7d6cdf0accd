package gateway

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/kernel"
	"weir/internal/ruleset"
)

// advertisedDNS is a DNS server that a router advertised (RFC 8106).
type advertisedDNS struct {
	addr  netip.Addr
	until time.Time // zero: without end
}

// advertised6 is k with what a router advertised of DNS servers at now, and news whether
// others are known. Link-local ones are kept to be told of: they can't be asked from main.
func (k wan) advertised6(r kernel.Resolvers, now time.Time) (_ wan, news bool) {
	var until time.Time
	if r.Lifetime != kernel.Forever {
		until = now.Add(r.Lifetime)
	}
	out := slices.Clone(k.rdnss)
	for _, a := range r.DNS {
		i := slices.IndexFunc(out, func(o advertisedDNS) bool { return o.addr == a })
		switch {
		case a.IsMulticast() || a.IsLoopback() || a.IsUnspecified() || a.Is4In6():
		case i >= 0 && r.Lifetime == 0:
			out, news = slices.Delete(out, i, i+1), true
		case i >= 0:
			out[i].until = until
		case r.Lifetime > 0 && count(out, a) < ruleset.MaxResolvers:
			out, news = append(out, advertisedDNS{a, until}), true
		}
	}
	k.rdnss = out
	return k, news
}

// count is how many of known are of a's kind, link-local or not.
func count(known []advertisedDNS, a netip.Addr) (n int) {
	for _, k := range known {
		if k.addr.IsLinkLocalUnicast() == a.IsLinkLocalUnicast() {
			n++
		}
	}
	return n
}

// outlived is w without the advertised DNS servers whose time is over at now.
func (w world) outlived(now time.Time) world {
	w.wans = maps.Clone(w.wans)
	for name, k := range w.wans {
		k.rdnss = slices.DeleteFunc(slices.Clone(k.rdnss), func(r advertisedDNS) bool { return !r.until.IsZero() && !r.until.After(now) })
		w.wans[name] = k
	}
	return w
}

// unasked says of the lines whose own resolver is wanted which have none but one that
// their router advertises by its link-local address. forwarder says whose names they are.
func unasked(c *config.Config, w world, forwarder bool) (notes []string) {
	said := c.DNS.Upstream
	if forwarder && len(said) == 0 {
		said = []config.Server{{Line: config.Ref{Kind: config.KindWAN}}}
	}
	for _, z := range c.DNS.Zones {
		said = slices.Concat(said, z.Forward)
	}
	st := w.state(c)
	for _, l := range c.WANs {
		known := st.WANs[l.Name]
		if len(known.V4.DNS)+len(known.V6.DNS) > 0 || !slices.ContainsFunc(said, func(s config.Server) bool { return s.Line.Kind != "" && (s.Line.Name == "" || s.Line.Name == l.Name) }) {
			continue
		}
		for _, r := range w.wans[l.Name].rdnss {
			if r.addr.IsLinkLocalUnicast() {
				notes = append(notes, fmt.Sprintf("wan %s's own resolver is not asked: its router advertises it by a link-local address, %s, and nothing is led there from the house. Name it by another: dns in the wan's ipv6 or ipv4 block", l.Name, r.addr))
			}
		}
	}
	return notes
}
