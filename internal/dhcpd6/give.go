package dhcpd6

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/state"
)

// life is an address (a /128) or a prefix that a client has, and for how long.
type life struct {
	prefix           netip.Prefix
	preferred, valid time.Duration
}

// answered is what an identity association is answered.
type answered struct {
	ia
	has  []life
	gone []netip.Prefix // what the client named and has no more
	says *dhcpv6.OptStatusCode
}

// none says that there is nothing for it.
func (g answered) none(pd bool) answered {
	g.has = nil
	g.says = status(iana.StatusNoAddrsAvail, "there is no address for it")
	if pd {
		g.says = status(iana.StatusNoPrefixAvail, "there is no prefix for it")
	}
	return g
}

// longest is when the last of what it has ends.
func (g answered) longest() time.Duration {
	d := time.Duration(0)
	for _, l := range g.has {
		d = max(d, l.valid)
	}
	return d
}

// lives are the addresses or prefixes that a thing is at the moment; up is the time
// since the boot. Lifetimes are whole seconds, and never above what the gateway
// itself has of a network (RFC 8415, 18.3; RFC 9096, 3.4).
func (s *scope) lives(up time.Duration, t thing, c client, a ia) []life {
	var out []life
	nets := s.lan.Networks
	if c.pd {
		nets = s.lan.Sources
	}
	own := s.reserved[t.id]
	for _, n := range nets {
		var l life
		named := false
		if c.pd {
			l.prefix = state.PartOf(n.Prefix, s.lan.Delegate, t.part, s.lan.Reserved)
			named = slices.Contains(a.nets, l.prefix)
		} else if t.id != 0 && (own != nil && own == s.host(c) || s.inPool(n.Prefix, t.id)) {
			x := address(n.Prefix, t.id)
			l.prefix, named = netip.PrefixFrom(x, 128), slices.Contains(a.addrs, x)
		}
		if !l.prefix.IsValid() || n.Old && !named {
			continue
		}
		left := func(most, until time.Duration) time.Duration {
			if until != 0 {
				most = min(most, until-up)
			}
			return max(0, most).Truncate(time.Second)
		}
		l.preferred, l.valid = left(s.lan.Preferred, n.Preferred), left(s.lan.Valid, n.Valid)
		if l.preferred = min(l.preferred, l.valid); n.Old {
			l.preferred = 0
		}
		if l.valid > 0 {
			out = append(out, l)
		}
	}
	return out
}

// gone is what a client named and does not have: it is told to forget that.
func gone(a ia, has []life) []netip.Prefix {
	var out []netip.Prefix
	add := func(p netip.Prefix) {
		if p.IsValid() && !slices.Contains(out, p) && !slices.ContainsFunc(has, func(l life) bool { return l.prefix == p }) {
			out = append(out, p)
		}
	}
	for _, x := range a.addrs {
		if x.Is6() {
			add(netip.PrefixFrom(x, 128))
		}
	}
	for _, p := range a.nets {
		add(p)
	}
	return out
}

// option is the answer as it goes on the wire; least is the shortest preferred
// lifetime in the message, of which T1 is half and T2 four fifths (RFC 8415, 21.4).
func (g answered) option(least time.Duration) dhcpv6.Option {
	has := g.has
	for _, p := range g.gone {
		has = append(has, life{prefix: p})
	}
	var says *dhcpv6.OptStatusCode
	if len(g.has) == 0 {
		says = g.says
	}
	t1, t2 := time.Duration(0), time.Duration(0)
	if len(g.has) > 0 && least != state.Forever {
		t1, t2 = (least / 2).Truncate(time.Second), (least * 4 / 5).Truncate(time.Second)
	}
	return timed(association(g.ia, has, says), t1, t2)
}

// association is an identity association as it goes on the wire, without T1 and T2.
func association(a ia, has []life, says *dhcpv6.OptStatusCode) dhcpv6.Option {
	var os dhcpv6.Options
	for _, l := range has {
		if a.pd {
			os = append(os, &dhcpv6.OptIAPrefix{PreferredLifetime: l.preferred, ValidLifetime: l.valid, Prefix: &net.IPNet{IP: l.prefix.Addr().AsSlice(), Mask: net.CIDRMask(l.prefix.Bits(), 128)}})
		} else {
			os = append(os, &dhcpv6.OptIAAddress{PreferredLifetime: l.preferred, ValidLifetime: l.valid, IPv6Addr: l.prefix.Addr().AsSlice()})
		}
	}
	if says != nil {
		os = append(os, says)
	}
	if a.pd {
		return &dhcpv6.OptIAPD{IaId: a.id, Options: dhcpv6.PDOptions{Options: os}}
	}
	return &dhcpv6.OptIANA{IaId: a.id, Options: dhcpv6.IdentityOptions{Options: os}}
}

func timed(o dhcpv6.Option, t1, t2 time.Duration) dhcpv6.Option {
	switch o := o.(type) {
	case *dhcpv6.OptIANA:
		o.T1, o.T2 = t1, t2
	case *dhcpv6.OptIAPD:
		o.T1, o.T2 = t1, t2
	}
	return o
}
