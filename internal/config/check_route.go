package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// ways are the keys of a route of which one is said.
var ways = []Way{Prefer, Only, Never}

func (h *house) route(n *node) Route {
	r := Route{
		Name: n.label, Pos: n.pos(),
		From: list[Place](n, "from"), To: list[Place](n, "to"),
		Protocol: list[Protocol](n, "protocol"), Port: list[PortRange](n, "port"),
	}
	if len(r.Port) > 0 && n.said("protocol") == nil {
		r.Protocol = []Protocol{TCP}
	}
	for _, w := range ways {
		if n.said(string(w)) != nil {
			r.Way, r.WANs = w, h.wanNames(list[Place](n, string(w)))
			break
		}
	}
	return r
}

func (c *checker) checkRoutes(h *house) {
	c.uniqueLabels(h.routes)
	sound := make([]bool, len(h.routes)) // what is wrong anyway is compared with nothing
	for i, n := range h.routes {
		r := &h.Routes[i]
		before := len(c.diags)
		c.checkWay(h, n, r)
		c.checkRoutePlaces(h, n)
		c.checkPorts(n)
		c.checkFamilies(h, n, &Rule{From: r.From, To: r.To})
		if sound[i] = r.Way != "" && !c.diags[before:].HasErrors() && !n.bad("from") && !n.bad("to") && !n.bad("port") && !n.bad("protocol"); !sound[i] {
			continue
		}
		c.checkHolds(h, n, r)
		for k := range h.Routes[:i] {
			if sound[k] && h.covers(&h.Routes[k], r) {
				c.note(n.at(), fmt.Sprintf("%s matches all of it, and the first that matches decides. Put the narrower one first.", sentence(line(h.routes[k].at(), n.at()))),
					"%s never matches", n.called())
				break
			}
		}
	}
}

// checkWay sees that a route says one thing of lines, and that there is a line
// left.
func (c *checker) checkWay(h *house, n *node, r *Route) {
	said := c.saidWays(n)
	switch {
	case len(said) == 0 && n.syntax.Body.Attributes["share"] == nil:
		c.err(n.at(), "Say one: prefer = wan.NAME (first), only = wan.NAME (or nothing), never = wan.NAME.", "%s says no line", n.called())
	case len(said) == 1 && r.Way == Never && !n.bad("never") && len(h.WANs) > 0:
		if !slices.ContainsFunc(h.Failover.Prefer, func(w string) bool { return !slices.Contains(r.WANs, w) }) && !h.root.child("failover").bad("prefer") {
			c.err(n.said("never").value, "What is to leave by no line at all is a rule: reject or block, to = wan.", "%s leaves none of failover's lines", n.called())
		}
	}
}

// saidWays are the ways that a route says, each by itself right.
func (c *checker) saidWays(n *node) (said []Way) {
	for _, w := range ways {
		a := n.said(string(w))
		if a == nil {
			continue
		}
		if said = append(said, w); len(said) > 1 {
			c.err(a.name, fmt.Sprintf("It has %s (%s). Say one of them: prefer goes over to the others, only and never do not.", said[0], line(n.said(string(said[0])).name, a.name)),
				"%s can't stand beside %s", w, said[0])
		}
		items := n.items(string(w))
		for _, it := range items {
			if p, _ := it.val.(Place); p.Ref.Name == "" && len(items) > 1 {
				c.err(it.at, "wan is all of them; name them one by one.", "wan can't stand beside others")
			}
		}
	}
	return said
}

// checkRoutePlaces sees that a route is about what leaves the house.
func (c *checker) checkRoutePlaces(h *house, n *node) {
	each := func(key string, f func(at hcl.Range, p Place, in string) bool) {
		for _, it := range n.items(key) {
			p, _ := it.val.(Place)
			in := ""
			if p.Ref.Kind == KindGroup {
				in = fmt.Sprintf(" (in group.%s)", p.Ref.Name)
			}
			for _, m := range h.Expand([]Place{p}) {
				if f(it.at, m, in) {
					break
				}
			}
		}
	}
	each("from", func(at hcl.Range, p Place, in string) bool {
		if p.Ref.Kind == KindWAN {
			c.err(at, "A route is for what the house opens; answers leave by the line that was asked.", "%s%s is outside", p, in)
			return true
		}
		return false
	})
	each("to", func(at hcl.Range, p Place, in string) bool {
		switch {
		case p.Ref.Kind == KindWAN && p.Ref.Name != "":
			c.err(at, "By which line is said with prefer, only and never; to is an address outside, or wan for all of them.", "%s%s is no destination", p, in)
		case p.IsRef() && p.Ref.Kind != KindWAN, !p.IsRef() && h.inOneLAN(p.Prefix):
			c.err(at, "A route is for what leaves the house. Who may talk to whom in it is said with allow, block and reject.", "%s%s is in the house", p, in)
		default:
			return false
		}
		return true
	})
}

// inOneLAN says whether a prefix lies in the networks of a LAN.
func (h *house) inOneLAN(p netip.Prefix) bool {
	for i := range h.LANs {
		if within(p, h.networks(i)) {
			return true
		}
	}
	return false
}

func within(p netip.Prefix, nets []netip.Prefix) bool {
	return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) })
}

// checkHolds reports a route that keeps off a line and would not in IPv6: of a
// device that is known by an IPv4 address alone nobody can tell what it sends
// by IPv6.
func (c *checker) checkHolds(h *house, n *node, r *Route) {
	if r.Way != Only && r.Way != Never || len(r.From) == 0 || !h.reachesIPv6(r) {
		return
	}
	six := false // an address says that IPv6 was thought of
	for _, p := range h.Expand(r.From) {
		six = six || !p.IsRef() && p.Prefix.Addr().Is6()
	}
	for _, it := range n.items("from") {
		p, _ := it.val.(Place)
		for _, m := range h.Expand([]Place{p}) {
			if host, hn := h.hostNode(m.Ref); host != nil && len(host.MAC) == 0 && !hn.bad("mac") {
				c.err(it.at, fmt.Sprintf("Devices choose further IPv6 addresses by themselves. Give it one in %s: mac = \"...\".", line(hn.at(), it.at)),
					"without a mac %s can't hold host.%s in IPv6", n.called(), host.Name)
				break
			}
			if !m.IsRef() && m.Prefix.Addr().Is4() && !six && h.lanOf(m.Prefix.Addr()) != "" {
				c.note(it.at, "What the same devices send by IPv6 leaves by any line. A host with its mac, or a LAN, is held in both.",
					"%s holds IPv4 alone", n.called())
				break
			}
		}
	}
}

// reachesIPv6 says whether what a route matches can leave by IPv6 at all.
func (h *house) reachesIPv6(r *Route) bool {
	if to := h.Expand(r.To); len(to) > 0 && !slices.ContainsFunc(to, func(p Place) bool { return p.IsRef() || p.Prefix.Addr().Is6() }) {
		return false
	}
	return slices.ContainsFunc(h.WANs, func(w WAN) bool { return w.IPv6.Method != MethodNone })
}

// covers says whether each connection that b matches is matched by a.
func (h *house) covers(a, b *Route) bool {
	return h.coversFrom(a.From, b.From) && h.coversTo(a.To, b.To) && coversPorts(a, b)
}

func (h *house) coversFrom(a, b []Place) bool {
	if a == nil {
		return true
	}
	if b == nil {
		b = []Place{{Ref: Ref{Kind: KindLAN}}, {Ref: Ref{Kind: KindSelf}}}
	}
	as := h.Expand(a)
	holds := func(p Place) bool {
		return slices.ContainsFunc(as, func(q Place) bool {
			switch {
			case p == q:
				return true
			case q.Ref.Kind == KindLAN && q.Ref.Name == "":
				return p.Ref.Kind == KindLAN || p.Ref.Kind == KindHost || !p.IsRef() && h.inOneLAN(p.Prefix)
			case q.Ref.Kind == KindLAN:
				host := h.Host(p.Ref.Name)
				return p.Ref.Kind == KindHost && host != nil && host.LAN == q.Ref.Name || !p.IsRef() && h.inOneLAN(p.Prefix) && h.lanOf(p.Prefix.Addr()) == q.Ref.Name
			}
			return !p.IsRef() && !q.IsRef() && within(p.Prefix, []netip.Prefix{q.Prefix})
		})
	}
	return !slices.ContainsFunc(h.Expand(b), func(p Place) bool {
		if p.Ref.Kind == KindLAN && p.Ref.Name == "" && !holds(p) { // each LAN by itself
			return slices.ContainsFunc(h.LANs, func(l LAN) bool { return !holds(Place{Ref: Ref{KindLAN, l.Name}}) })
		}
		return !holds(p)
	})
}

func (h *house) coversTo(a, b []Place) bool {
	as := h.Expand(a)
	if a == nil || slices.ContainsFunc(as, Place.IsRef) {
		return true // all outside
	}
	return b != nil && !slices.ContainsFunc(h.Expand(b), func(p Place) bool {
		return p.IsRef() || !slices.ContainsFunc(as, func(q Place) bool { return within(p.Prefix, []netip.Prefix{q.Prefix}) })
	})
}

func coversPorts(a, b *Route) bool {
	if a.Protocol != nil && (b.Protocol == nil || slices.ContainsFunc(b.Protocol, func(p Protocol) bool { return !slices.Contains(a.Protocol, p) })) {
		return false
	}
	if a.Port == nil {
		return true
	}
	return b.Port != nil && !slices.ContainsFunc(b.Port, func(p PortRange) bool {
		return !slices.ContainsFunc(a.Port, func(q PortRange) bool { return q.From <= p.From && p.To <= q.To })
	})
}
