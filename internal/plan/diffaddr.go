package plan

import (
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
				continue
			}
		}
		inLast := d.void[at] == 0 && slices.Contains(d.last(w.Name).Addrs, a)
		if have >= 0 && !d.loses(at, a) {
			old := h.Addrs[have].Addr
			s := Step{Op: Change, NS: w.Name, Object: "address", Name: a.Link, Old: old.Prefix.String(), New: a.Prefix.String(), Do: PutAddr{NS: w.Name, Old: &old, New: a}}
			if inLast {
				s = mend(s)
			}
			d.add(atAddr, s)
			continue
		}
		s := Step{Op: Add, NS: w.Name, Object: "address", Name: a.Link, New: a.Prefix.String(), Do: PutAddr{NS: w.Name, New: a}}
		if inLast {
			s = mend(s)
		}
		d.add(atAddr, s)
	}
	owned := map[string]bool{}
	for _, l := range w.Links {
		owned[l.Name] = l.OwnAddrs
	}
	last := d.last(w.Name).Addrs
	for i, x := range h.Addrs {
		at := linkKey{w.Name, x.Link}
		if used[i] || x.Kernel || d.gone[at] || d.loses(at, x.Addr) {
			continue
		}
		wasOurs := slices.ContainsFunc(last, func(l desired.Addr) bool { return l.Link == x.Link && l.Prefix == x.Prefix })
		if !owned[x.Link] && !wasOurs {
			continue
		}
		if p, ok := d.actual.Found.Ports[x.Link]; ok && !wantsLink(w, x.Link) && slices.Contains(p.Addrs, x.Prefix) {
			continue // it stays, as it was found
		}
		s := Step{Op: Remove, NS: w.Name, Object: "address", Name: x.Link, Old: x.Prefix.String(), Do: DeleteAddr{NS: w.Name, Addr: x.Addr}}
		if p, ok := d.plan.Found.Ports[x.Link]; ok && slices.Contains(p.Addrs, x.Prefix) {
			s.Why = "was there before; `weir down` gives it back"
		}
		d.add(atAddrGone, d.surplus(s, wasOurs))
	}
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
