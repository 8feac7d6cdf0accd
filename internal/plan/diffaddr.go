package plan

import (
	"net/netip"
	"slices"

	"weir/internal/desired"
)

func (d *differ) addrs(w *desired.Namespace, h *Namespace) {
	used := map[int]bool{}
	for _, a := range w.Addrs {
		at := linkKey{w.Name, a.Link}
		if d.waits[at] || !d.exists(at) {
			continue
		}
		have := slices.IndexFunc(h.Addrs, func(x Addr) bool { return x.Link == a.Link && x.Prefix == a.Prefix })
		if have < 0 {
			have = slices.IndexFunc(h.Addrs, func(x Addr) bool { return x.Link == a.Link && x.Prefix.Addr() == a.Prefix.Addr() })
		}
		if have >= 0 {
			used[have] = true
			x := h.Addrs[have]
			if x.DADFailed {
				d.note("%s on %s is in use by another machine (duplicate address detection failed)", a.Prefix.Addr(), a.Link)
			}
			if x.Prefix == a.Prefix && !d.loses(at, a) {
				if x.Bare && d.void[at] == 0 {
					d.routeAddr(w.Name, x)
				}
				continue
			}
		}
		inLast := d.void[at] == 0 && slices.Contains(d.last(w.Name).Addrs, a)
		if have >= 0 && !d.loses(at, a) {
			old := h.Addrs[have]
			s := Step{Op: Change, NS: w.Name, Object: "address", Name: a.Link, Old: old.Prefix.String(), New: a.Prefix.String(), Do: PutAddr{NS: w.Name, Old: &old, New: ours(a)}}
			if inLast {
				s = mend(s)
			}
			d.add(atAddr, s)
			continue
		}
		s := Step{Op: Add, NS: w.Name, Object: "address", Name: a.Link, New: a.Prefix.String(), Do: PutAddr{NS: w.Name, New: ours(a)}}
		if inLast {
			s = mend(s)
		}
		d.add(atAddr, s)
	}
	// Those that the kernel made itself serve us as well: clients know a router by
	// its link-local address.
	for i, x := range h.Addrs {
		at := linkKey{w.Name, x.Link}
		if !used[i] && x.Kernel && x.Bare && !x.Temporary && wantsLink(w, x.Link) && !d.gone[at] && d.void[at] == 0 {
			d.routeAddr(w.Name, x)
		}
	}
	owned := map[string]bool{}
	for _, l := range w.Links {
		owned[l.Name] = l.OwnAddrs
	}
	last := d.last(w.Name).Addrs
	// From the last: the first of a network is its primary address, the others
	// would change places with it.
	for i, x := range slices.Backward(h.Addrs) {
		at := linkKey{w.Name, x.Link}
		if used[i] || x.Kernel || d.gone[at] || d.loses(at, x.Addr) {
			continue
		}
		wasOurs := slices.ContainsFunc(last, func(l desired.Addr) bool { return l.Link == x.Link && l.Prefix == x.Prefix })
		if !owned[x.Link] && !wasOurs {
			continue
		}
		if p, ok := d.actual.Found.Ports[x.Link]; ok && !wantsLink(w, x.Link) && hasAddr(p.Addrs, x.Prefix) {
			continue // it stays, as it was found
		}
		s := Step{Op: Remove, NS: w.Name, Object: "address", Name: x.Link, Old: x.Prefix.String(), Do: DeleteAddr{NS: w.Name, Addr: x, Lost: d.sourced(h, x)}}
		if p, ok := d.plan.Found.Ports[x.Link]; ok && hasAddr(p.Addrs, x.Prefix) {
			s.Why = "was there before; `weir down` gives it back"
		}
		d.add(atAddrGone, d.surplus(s, wasOurs))
	}
}

func (d *differ) routeAddr(ns string, a Addr) {
	d.add(atAddr, Step{Op: Change, Drift: true, NS: ns, Object: "address", Name: a.Link, New: a.Prefix.String(),
		Why: "the kernel's routes for it were removed by hand", Do: RouteAddr{NS: ns, Addr: a}})
}

// ours is an address as weir makes it.
func ours(a desired.Addr) Addr { return Addr{Addr: a, Broadcast: broadcast(a.Prefix)} }

// broadcast is the last address of an IPv4 network that has one (RFC 919; RFC
// 3021 for /31).
func broadcast(p netip.Prefix) netip.Addr {
	if !p.Addr().Is4() || p.Bits() > 30 {
		return netip.Addr{}
	}
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

func hasAddr(addrs []Addr, p netip.Prefix) bool {
	return slices.ContainsFunc(addrs, func(a Addr) bool { return a.Prefix == p })
}

// sourced returns the routes of others that go with an address: those that have
// it as source, and if it may be a link's last IPv4 address all by that link.
func (d *differ) sourced(h *Namespace, a Addr) (out []Route) {
	last := a.Prefix.Addr().Is4()
	if w := d.wanted(h.Name); w != nil && last {
		last = !slices.ContainsFunc(w.Addrs, func(x desired.Addr) bool { return x.Link == a.Link && x.Prefix.Addr().Is4() })
	}
	for _, r := range h.Routes {
		goes := r.Src == a.Prefix.Addr() || last && r.Dst.Addr().Is4() && r.uses(a.Link)
		if goes && r.Proto != desired.RouteProto && !d.gone[linkKey{h.Name, r.Link}] {
			out = append(out, r)
		}
	}
	return out
}

// loses says whether the link drops the address by itself in this turn.
func (d *differ) loses(at linkKey, a desired.Addr) bool {
	switch d.void[at] {
	case made:
		return true
	case bounced:
		return a.Prefix.Addr().Is6()
	}
	return false
}
