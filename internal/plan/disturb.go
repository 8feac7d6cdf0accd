package plan

import (
	"net/netip"
	"slices"

	"weir/internal/desired"
)

// Some steps can't be done without a moment in which a link carries nothing: a port
// goes to another namespace or under another bridge, gets another MAC address or MTU
// (drivers start anew for it), or a link is made again under its name. The kernel has no
// way to prepare them, nor to undo them without another such moment. So they come after
// every addition that does not need them, and no failure of one of those has to undo them.

// disturb notes that a link that carries packets stops doing so for a moment.
func (d *differ) disturb(at linkKey) { d.disturbed[at] = true }

// additions are the steps of the phases that add, in their order: first all that disturb
// nothing, then those that do and what is on the same links.
func (d *differ) additions() (out []Step) {
	tables := map[tableKey]bool{} // with routes by such links
	for _, s := range d.steps[atRoute] {
		if r, ok := s.Do.(PutRoute); ok && d.disturbs(atRoute, s) {
			tables[tableKey{r.NS, routeSlotOf(r.New.Route).table}] = true
		}
	}
	var last []Step
	for at := range atRuleGone {
		for _, s := range d.steps[at] {
			rule, ok := s.Do.(PutRule)
			if d.disturbs(at, s) || ok && tables[tableKey{rule.NS, rule.New.Table}] {
				last = append(last, s)
			} else {
				out = append(out, s)
			}
		}
	}
	return append(out, last...)
}

type tableKey struct {
	ns    string
	table int
}

// disturbs says whether a step disturbs a link, or is about one that another step
// disturbs and comes after that.
func (d *differ) disturbs(at phase, s Step) bool {
	is := func(ns, link string) bool { return d.disturbed[linkKey{ns, link}] }
	switch do := s.Do.(type) {
	case MoveLink, DeleteLink:
		return true
	case AddLink:
		return is(do.NS, do.Link.Name) || do.Link.Parent != "" && is("", do.Link.Parent)
	case SetLink:
		return is(do.NS, do.Link) || do.New.Master != nil && is(do.NS, *do.New.Master)
	case PutAddr:
		return is(do.NS, do.New.Link)
	case RouteAddr:
		return is(do.NS, do.Addr.Link)
	case SetSysctl:
		link := SysctlLink(do.Key)
		return link != "" && is(do.NS, link)
	case PutRoute:
		return is(do.NS, do.New.Link) || do.Old == nil && d.taken(do.NS, do.New) || d.sourceLate(do.NS, do.New.Src)
	case PutShortcut:
		if at != atShortcut {
			return false // what it forgets, nothing passes by any more
		}
		for k := range d.disturbed {
			if k.ns == do.NS {
				return true
			}
		}
	}
	return false
}

// taken says whether a route that goes with its link stands in r's place until then.
func (d *differ) taken(ns string, r Route) bool {
	h := d.actual.namespace(ns)
	if h == nil {
		return false
	}
	for _, x := range h.Routes {
		if routeSlotOf(x.Route) == routeSlotOf(r.Route) && x.Link != "" && d.disturbed[linkKey{ns, x.Link}] {
			return true
		}
	}
	return false
}

// sourceLate says whether an address, a route's source, comes with a link that is disturbed.
func (d *differ) sourceLate(ns string, src netip.Addr) bool {
	w := d.wanted(ns)
	return src.IsValid() && w != nil && slices.ContainsFunc(w.Addrs, func(a desired.Addr) bool {
		return a.Prefix.Addr() == src && d.disturbed[linkKey{ns, a.Link}]
	})
}
