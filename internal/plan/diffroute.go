package plan

import (
	"net/netip"
	"slices"

	"weir/internal/desired"
	"weir/internal/ruleset"
)

const (
	tableMain  = 254 // RT_TABLE_MAIN
	tableLocal = 255 // RT_TABLE_LOCAL
	protoOwn   = 2   // RTPROT_KERNEL

	metric6 = 1024 // IP6_RT_PRIO_USER: what IPv6 makes of no metric
)

// A routeSlot is the place in a table that one route can have.
type routeSlot struct {
	dst           netip.Prefix
	table, metric int
}

func routeSlotOf(r desired.Route) routeSlot {
	s := routeSlot{r.Dst, r.Table, r.Metric}
	if s.table == 0 {
		s.table = tableMain
	}
	if s.metric == 0 && r.Dst.Addr().Is6() {
		s.metric = metric6
	}
	return s
}

// sameRoute compares a route with the one wanted in its slot. One that says
// besides that its gateway is on the link leads the same way: internal/kernel
// has to say so at times.
func sameRoute(have, want desired.Route) bool {
	if have.Type != want.Type {
		return false
	}
	return have.Type != desired.Unicast ||
		have.Gateway == want.Gateway && (have.OnLink || !want.OnLink) && have.Link == want.Link && have.Src == want.Src
}

// ourTable says whether a routing table is a WAN's: all in it is ours.
func ourTable(table int) bool {
	return table > desired.TableBase && table <= desired.TableBase+ruleset.MarkIndex
}

// ourRoute says whether a route is weir's to remove.
func ourRoute(r Route) bool {
	return r.Proto == desired.RouteProto || ourTable(r.Table) && r.Proto != protoOwn
}

func (d *differ) routes(w *desired.Namespace, h *Namespace) {
	bySlot := map[routeSlot][]Route{}
	for _, r := range h.Routes {
		at := linkKey{w.Name, r.Link}
		if r.Link != "" && (d.gone[at] && !d.late[at] || d.void[at] != 0) {
			continue // goes by itself
		}
		if ourRoute(r) || d.competes(r) && w.Name == "" {
			s := routeSlotOf(r.Route)
			bySlot[s] = append(bySlot[s], r)
		}
	}
	last := d.last(w.Name).Routes
	for _, r := range w.Routes {
		slot := routeSlotOf(r)
		have := bySlot[slot]
		delete(bySlot, slot)
		if r.Link != "" && r.Type == desired.Unicast {
			at := linkKey{w.Name, r.Link}
			if d.waits[at] || !d.exists(at) {
				for _, x := range have {
					d.routeGone(w.Name, x, last)
				}
				continue
			}
		}
		inLast := slices.Contains(last, r) && (r.Link == "" || d.void[linkKey{w.Name, r.Link}] == 0)
		same := slices.IndexFunc(have, func(x Route) bool { return x.plain() && x.Proto == desired.RouteProto && sameRoute(x.Route, r) })
		new := Route{Route: r, Proto: desired.RouteProto}
		step := Step{NS: w.Name, Object: "route", Name: routeName(r), New: routeText(r)}
		switch {
		case same >= 0:
			old := have[same]
			have = slices.Delete(slices.Clone(have), same, same+1)
			if d.sourceGone(h, r.Src) {
				step.Op, step.Do = Add, PutRoute{NS: w.Name, Old: &old, New: new} // over it, should it be there
				d.add(atRoute, step)
			}
		case len(have) > 0:
			old := have[0]
			have = have[1:]
			step.Op, step.Old, step.Do = Change, actualRouteText(old), PutRoute{NS: w.Name, Old: &old, New: new}
			switch {
			case old.Proto != desired.RouteProto && w.Name == "" && !ourTable(old.Table):
				step.Why = "somebody else's; `weir down` gives it back"
				d.plan.Found.Routes = append(d.plan.Found.Routes, old)
			case inLast:
				step = mend(step)
			}
			d.add(atRoute, step)
		default:
			step.Op, step.Do = Add, PutRoute{NS: w.Name, New: new}
			if inLast {
				step = mend(step)
			}
			d.add(atRoute, step)
		}
		for _, x := range have {
			d.routeGone(w.Name, x, last)
		}
	}
	// In the order in which they were read, so that a plan is the same twice.
	for _, r := range h.Routes {
		s := routeSlotOf(r.Route)
		rest := bySlot[s]
		delete(bySlot, s)
		for _, x := range rest {
			d.routeGone(w.Name, x, last)
		}
	}
	if w.Name == "" {
		d.foreignDefaults(w, h)
	}
}

// sourceGone says whether in this turn an address goes with each link that has it: the
// kernel takes the routes with it whose source it is, unless another has it by then.
func (d *differ) sourceGone(h *Namespace, src netip.Addr) (going bool) {
	for _, a := range h.Addrs {
		if a.Prefix.Addr() != src {
			continue
		}
		if at := (linkKey{h.Name, a.Link}); (!d.gone[at] || d.late[at]) && !d.loses(at, a.Addr) {
			return false
		}
		going = true
	}
	return going
}

func (d *differ) routeGone(ns string, r Route, last []desired.Route) {
	s := Step{Op: Remove, NS: ns, Object: "route", Name: routeName(r.Route), Old: actualRouteText(r), Do: DeleteRoute{NS: ns, Route: r}}
	if ns == "" && r.Proto != desired.RouteProto && !ourTable(r.Table) {
		s.Why = "somebody else's, and would win over ours; `weir down` gives it back"
		d.plan.Found.Routes = append(d.plan.Found.Routes, r)
	}
	d.add(atRouteGone, d.surplus(s, slices.ContainsFunc(last, func(x desired.Route) bool {
		return routeSlotOf(x) == routeSlotOf(r.Route) && sameRoute(x, r.Route)
	})))
}

// competes says whether a route of somebody else in main would win over, or
// collide with, the default route that is wanted there.
func (d *differ) competes(r Route) bool {
	if r.Proto == desired.RouteProto || !isDefault(r.Dst) || routeSlotOf(r.Route).table != tableMain {
		return false
	}
	for _, w := range d.wanted("").Routes {
		if w.Dst == r.Dst && routeSlotOf(w).table == tableMain {
			return routeSlotOf(r.Route).metric <= routeSlotOf(w).metric
		}
	}
	return false
}

// foreignDefaults names default routes of others in main that stay behind ours.
func (d *differ) foreignDefaults(w *desired.Namespace, h *Namespace) {
	for _, r := range h.Routes {
		if r.Proto == desired.RouteProto || !isDefault(r.Dst) || routeSlotOf(r.Route).table != tableMain {
			continue
		}
		if !slices.ContainsFunc(w.Routes, func(x desired.Route) bool { return x.Dst == r.Dst && routeSlotOf(x).table == tableMain }) {
			continue
		}
		if d.competes(r) || d.gone[linkKey{"", r.Link}] || d.void[linkKey{"", r.Link}] != 0 {
			continue
		}
		d.note("main has another default route, which is not weir's and stays behind it: %s %s", routeName(r.Route), actualRouteText(r))
	}
}

func (d *differ) rules(w *desired.Namespace, h *Namespace) {
	var have []Rule
	for _, r := range h.Rules {
		if r.Proto == desired.RouteProto {
			have = append(have, r)
		}
	}
	last := d.last(w.Name).Rules
	var missing []desired.Rule
	for _, r := range w.Rules {
		i := slices.IndexFunc(have, func(x Rule) bool { return x.Other == "" && sameRule(x.Rule, r) })
		if i < 0 {
			missing = append(missing, r)
			continue
		}
		have = slices.Delete(have, i, i+1)
	}
	for _, r := range missing {
		new := Rule{Rule: r, Proto: desired.RouteProto}
		s := Step{Op: Add, NS: w.Name, Object: "rule", Name: ruleName(r), New: ruleText(r), Do: PutRule{NS: w.Name, New: new}}
		if i := slices.IndexFunc(have, func(x Rule) bool { return x.V6 == r.V6 && x.Pref == r.Pref }); i >= 0 {
			old := have[i]
			have = slices.Delete(have, i, i+1)
			s.Op, s.Old, s.Do = Change, actualRuleText(old), PutRule{NS: w.Name, Old: &old, New: new}
		}
		if slices.Contains(last, r) {
			s = mend(s)
		}
		d.add(atRule, s)
	}
	for _, r := range have {
		s := Step{Op: Remove, NS: w.Name, Object: "rule", Name: ruleName(r.Rule), Old: actualRuleText(r), Do: DeleteRule{NS: w.Name, Rule: r}}
		d.add(atRuleGone, d.surplus(s, slices.Contains(last, r.Rule)))
	}
	d.localRule(w, h)
	d.kernelRules(w, h)
	if w.Name == "" {
		d.unpinned(w, h)
		d.moved(w, h)
	}
}

// localRule moves the kernel's rule for table local out of the way where
// another stands for it: in a WAN's namespace marks are looked at first.
func (d *differ) localRule(w *desired.Namespace, h *Namespace) {
	for _, v6 := range []bool{false, true} {
		moved := slices.ContainsFunc(w.Rules, func(r desired.Rule) bool {
			return r.V6 == v6 && r.Table == tableLocal && r.Mask == 0 && r.OIF == "" && r.Pref > 0
		})
		if !moved {
			continue
		}
		first := Rule{Rule: desired.Rule{V6: v6, Pref: 0, Table: tableLocal}, Proto: protoOwn}
		if d.actual.namespace(w.Name) != nil {
			i := slices.IndexFunc(h.Rules, func(r Rule) bool { return r.Rule == first.Rule && r.Other == "" })
			if i < 0 {
				continue
			}
			first = h.Rules[i] // whoever put it there
		}
		d.add(atRuleGone, Step{Op: Remove, NS: w.Name, Object: "rule", Name: ruleName(first.Rule), Old: ruleText(first.Rule),
			Why: "marks are looked at first", Do: DeleteRule{NS: w.Name, Rule: first}})
	}
}

// kernelRules puts back the rules that a namespace begins with: without them no
// packet finds the tables local and main, whatever ours say.
func (d *differ) kernelRules(w *desired.Namespace, h *Namespace) {
	if d.actual.namespace(w.Name) == nil {
		return // a new one has them
	}
	for _, first := range []desired.Rule{{Pref: 0, Table: tableLocal}, {Pref: 32766, Table: tableMain}} {
		for _, v6 := range []bool{false, true} {
			first.V6 = v6
			looksUp := func(r desired.Rule) bool {
				return r.V6 == v6 && r.Table == first.Table && r.Action == desired.Unicast && r.Mask == 0 && r.OIF == "" && r.IPProto == 0
			}
			if !slices.ContainsFunc(w.Rules, func(r desired.Rule) bool { return r.V6 == v6 }) || slices.ContainsFunc(w.Rules, looksUp) ||
				slices.ContainsFunc(h.Rules, func(r Rule) bool { return r.Other == "" && looksUp(r.Rule) }) {
				continue // a family that is not used, or somebody's looks it up
			}
			d.add(atRule, mend(Step{Op: Add, NS: w.Name, Object: "rule", Name: ruleName(first), New: ruleText(first),
				Do: PutRule{NS: w.Name, New: Rule{Rule: first, Proto: protoOwn}}}))
		}
	}
}

// sameRule compares rules as the kernel does: the table means nothing to an
// action that looks none up.
func sameRule(a, b desired.Rule) bool {
	if a.Action != desired.Unicast {
		a.Table = 0
	}
	if b.Action != desired.Unicast {
		b.Table = 0
	}
	return a == b
}
