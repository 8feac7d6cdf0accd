package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/desired"
)

// A phase is a part of a plan's order: never a route before its filter, never
// an address before its policy, a mark's table before its rule; what destroys
// comes last, and what it destroys is by then out of use.
type phase int

const (
	atNamespace     phase = iota
	atShortcutKnows       // before the ruleset: what it forgets, nothing passes by any more
	atTable               // policy first: every later step is already under it
	atSysctl              // after the tables: loading one brings conntrack's into being
	atUnlink              // links whose names are needed
	atLink
	atLinkSysctl // before an address or a router advertisement can come in
	atAddr
	atUp
	atRoute
	atRule
	atShortcut // when all that it stands in for is there
	atRuleGone
	atRouteGone
	atAddrBack // before ours go: a link's last IPv4 address takes its routes with it
	atAddrGone
	atLinkShut // IPv6 off: takes what addresses are left
	atLinkGone // ports go home, cables and bridges go
	atGiveBack
	atGiveBackRoute // by way of several ports, perhaps
	atSysctlGone    // forwarding ends before the filter does
	atTableGone
	atNamespaceGone
	atFlows // the last of all: a flow that was ended is the one thing that can't be undone
	phases
)

// Diff returns the steps that turn actual into want. It is pure.
func Diff(actual Actual, want desired.Desired) Plan {
	d := &differ{actual: &actual, want: want, void: map[linkKey]why{}, gone: map[linkKey]bool{}, late: map[linkKey]bool{}, back: map[Route]bool{}, waits: map[linkKey]bool{}, disturbed: map[linkKey]bool{}}
	d.plan.Goal = want
	d.plan.Notes = slices.Clone(want.Notes)
	if len(want.Namespaces) == 0 || want.Namespaces[0].Name != "" {
		// Nothing is wanted of main: whatever is ours there goes.
		d.want.Namespaces = append([]desired.Namespace{{}}, want.Namespaces...)
	}
	d.namespaces()
	d.links()
	for i := range d.want.Namespaces {
		w := &d.want.Namespaces[i]
		h := d.actual.namespace(w.Name)
		if h == nil {
			h = &Namespace{Name: w.Name}
		}
		d.table(w, h)
		d.sysctls(w, h)
		d.addrs(w, h)
		d.routes(w, h)
		d.rules(w, h)
	}
	d.shortcuts()
	d.flowPrograms()
	d.giveBack()
	for _, f := range actual.Due {
		if !slices.ContainsFunc(d.steps[atFlows], func(s Step) bool { return s.Do == Action(f) }) {
			d.flows(f, "FAMILY flows that an earlier turn could not end")
		}
	}
	d.plan.Steps = d.additions()
	for _, steps := range d.steps[atRuleGone:] {
		d.plan.Steps = append(d.plan.Steps, steps...)
	}
	return d.plan
}

type linkKey struct{ ns, name string }

// why says how a link comes to be bare in this turn.
type why uint8

const (
	_       why = iota
	made        // made, or moved here: no address, route or sysctl of ours is on it
	bounced     // goes down and up: its routes and IPv6 addresses go
)

type differ struct {
	actual *Actual
	want   desired.Desired
	plan   Plan
	steps  [phases][]Step

	void  map[linkKey]why
	gone  map[linkKey]bool // deleted or moved away in this turn, with all that is on it
	late  map[linkKey]bool // gone, but only at the end: our routes by it go before it
	back  map[Route]bool   // given back already
	waits map[linkKey]bool // not there yet, and what depends on it waits

	disturbed map[linkKey]bool // carries nothing for a moment, in the phases that add
}

func (d *differ) add(at phase, s Step) { d.steps[at] = append(d.steps[at], s) }

func (d *differ) refuse(format string, args ...any) {
	d.plan.Refused = append(d.plan.Refused, fmt.Sprintf(format, args...))
}

func (d *differ) note(format string, args ...any) {
	n := fmt.Sprintf(format, args...)
	if !slices.Contains(d.plan.Notes, n) {
		d.plan.Notes = append(d.plan.Notes, n)
	}
}

// wanted returns the wanted namespace called name, or nil.
func (d *differ) wanted(name string) *desired.Namespace { return find(&d.want, name) }

// last returns what the last turn left in a namespace; empty if not known.
func (d *differ) last(name string) *desired.Namespace {
	if d.actual.Last != nil {
		if n := find(d.actual.Last, name); n != nil {
			return n
		}
	}
	return &desired.Namespace{}
}

func find(d *desired.Desired, name string) *desired.Namespace {
	for i := range d.Namespaces {
		if d.Namespaces[i].Name == name {
			return &d.Namespaces[i]
		}
	}
	return nil
}

// mend marks s as drift, done by somebody else, and says so.
func mend(s Step) Step {
	s.Drift = true
	switch s.Op {
	case Add:
		s.Why = "removed by hand, will come back"
	case Change:
		s.Why = "changed by hand"
	case Remove:
		s.Why = "added by hand"
	}
	return s
}

// surplus finishes the step that removes something which is not wanted: it was
// of an earlier file, or somebody else's doing.
func (d *differ) surplus(s Step, wasOurs bool) Step {
	switch {
	case s.Why != "" || d.actual.Last == nil:
		return s
	case wasOurs:
		s.Why = "no longer wanted"
		return s
	}
	return mend(s)
}

func (d *differ) namespaces() {
	for _, w := range d.want.Namespaces {
		if w.Name != "" && d.actual.namespace(w.Name) == nil {
			s := Step{Op: Add, NS: w.Name, Object: "namespace", Name: w.Name, Do: CreateNamespace{w.Name}}
			if d.last(w.Name).Name != "" {
				s = mend(s)
			}
			d.add(atNamespace, s)
		}
	}
	for i := range d.actual.Namespaces {
		h := &d.actual.Namespaces[i]
		if h.Name == "" || d.wanted(h.Name) != nil || !h.Ours {
			continue
		}
		s := Step{Op: Remove, NS: h.Name, Object: "namespace", Name: h.Name, Do: DeleteNamespace{h.Name}}
		d.add(atNamespaceGone, d.surplus(s, d.last(h.Name).Name != ""))
	}
}

func (d *differ) sysctls(w *desired.Namespace, h *Namespace) {
	last := map[string]string{}
	for _, s := range d.last(w.Name).Sysctls {
		last[s.Key] = s.Value
	}
	for _, s := range w.Sysctls {
		link := SysctlLink(s.Key)
		at := linkKey{w.Name, link}
		if link != "" && (d.waits[at] || !d.exists(at)) {
			continue
		}
		old, known := h.Sysctls[s.Key]
		if s.IfThere && !known {
			continue
		}
		if link != "" && d.void[at] == made {
			old, known = "", false
		}
		if w.Name == "" && known {
			d.findSysctl(s.Key, old)
		}
		if s.Global {
			if !d.global(s, old, known) {
				continue
			}
		} else if known && SameValue(old, s.Value) {
			continue
		}
		if !known && link == "" && h.Table.Exists && len(d.steps[atTable]) == 0 {
			d.note("this kernel has no %s in %s: left out", s.Key, place(w.Name))
			continue
		}
		step := Step{Op: Change, NS: w.Name, Object: "sysctl", Name: s.Key, Old: old, New: s.Value,
			Do: SetSysctl{NS: w.Name, Key: s.Key, Old: old, New: s.Value, Raise: s.Global, Found: w.Name == "" && !known && !makesLink(w, link)}}
		if v, ok := last[s.Key]; ok && v == s.Value && known {
			step = mend(step)
		}
		switch {
		case strings.HasSuffix(s.Key, "/disable_ipv6") && SameValue(s.Value, "1"):
			d.add(atLinkShut, step)
		case link != "":
			d.add(atLinkSysctl, step)
		default:
			d.add(atSysctl, step)
		}
	}
}

// findSysctl remembers how a value of main was found, the first time it is seen.
func (d *differ) findSysctl(key, value string) {
	if link := SysctlLink(key); link != "" && d.actual.namespace("").link(link).ours() {
		return // goes with its link
	}
	if _, ok := d.actual.Found.Sysctls[key]; ok {
		return
	}
	if d.plan.Found.Sysctls == nil {
		d.plan.Found.Sysctls = map[string]string{}
	}
	d.plan.Found.Sysctls[key] = value
}

// global says whether a value that exists once in the machine is to be raised.
func (d *differ) global(s desired.Sysctl, old string, known bool) bool {
	if known && AtLeast(old, s.Value) {
		return false
	}
	if !d.actual.Machine.ConntrackMax {
		d.note("%s stays as it is: it can be changed in the machine's first network namespace only", s.Key)
		return false
	}
	return true
}

// AtLeast says whether the number in a sysctl is no less than want.
func AtLeast(have, want string) bool {
	h, err1 := strconv.ParseUint(strings.TrimSpace(have), 10, 64)
	w, err2 := strconv.ParseUint(strings.TrimSpace(want), 10, 64)
	return err1 == nil && err2 == nil && h >= w
}

// SysctlLink returns the link that a key is about, or "".
func SysctlLink(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) < 5 || parts[0] != "net" || (parts[2] != "conf" && parts[2] != "neigh") {
		return ""
	}
	if parts[3] == "all" || parts[3] == "default" {
		return ""
	}
	return parts[3]
}

// SameValue compares values of a sysctl as the kernel does: blanks apart.
func SameValue(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) }

// exists says whether the link will be there when this turn is over.
func (d *differ) exists(at linkKey) bool {
	if d.void[at] != 0 {
		return true
	}
	return d.actual.namespace(at.ns).link(at.name) != nil && !d.gone[at]
}

// giveBack returns what was found to what is no longer wanted.
func (d *differ) giveBack() {
	main := d.actual.namespace("")
	if main == nil {
		return
	}
	kept := map[string]bool{}
	for _, s := range d.wanted("").Sysctls {
		kept[s.Key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(d.actual.Found.Sysctls)) {
		if kept[key] {
			continue
		}
		if d.plan.Forget.Sysctls == nil {
			d.plan.Forget.Sysctls = map[string]string{}
		}
		d.plan.Forget.Sysctls[key] = ""
		found := d.actual.Found.Sysctls[key]
		at := atSysctlGone
		if link := SysctlLink(key); link != "" {
			if d.gone[linkKey{"", link}] {
				continue // goes with its link, which was made by weir
			}
			at = atLinkSysctl // IPv6 may have been off on it, and is needed now
		}
		if now, ok := main.Sysctls[key]; ok && !SameValue(now, found) {
			d.add(at, Step{Op: Change, Object: "sysctl", Name: key, Old: now, New: found, Why: "as it was found",
				Do: SetSysctl{Key: key, Old: now, New: found}})
		}
	}
	for _, r := range d.actual.Found.Routes {
		if d.competes(r) {
			continue
		}
		d.plan.Forget.Routes = append(d.plan.Forget.Routes, r)
		d.routeBack(r, false)
	}
}

// routeBack puts a route of somebody else's in main back, once, unless it is
// there, or another is in its place. bare says that its port was moved here in
// this turn.
func (d *differ) routeBack(r Route, bare bool) {
	if d.back[r] || r.Link != "" && !d.exists(linkKey{"", r.Link}) {
		return
	}
	words := strings.Fields(r.Hops)
	for i, w := range words {
		if w != "dev" || i+1 == len(words) {
			continue
		}
		if port := words[i+1]; !d.exists(linkKey{"", port}) || wantsLink(d.wanted(""), port) {
			return // it comes with that port
		}
	}
	taken := func(x Route) bool {
		return routeSlotOf(x.Route) == routeSlotOf(r.Route) && x.Proto != desired.RouteProto && !bare
	}
	if slices.ContainsFunc(d.actual.namespace("").Routes, taken) {
		return
	}
	d.back[r] = true
	d.add(atGiveBackRoute, Step{Op: Add, Object: "route", Name: routeName(r.Route), New: actualRouteText(r), Why: "as it was found", Do: PutRoute{New: r}})
}
