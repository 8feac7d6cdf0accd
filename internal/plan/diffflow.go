package plan

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/desired"
	"weir/internal/ruleset"
)

const protoTCP = 6 // IPPROTO_TCP

// pin is which flows of a line are led to it.
type pin uint8

const (
	pinNone pin = iota
	pinTCP      // connections only: the line was lost a moment ago
	pinAll
)

// pinOf is what a rule does for the outbound flows of a line.
func pinOf(r desired.Rule) pin {
	switch {
	case r.Mask != ruleset.MarkMask || r.Mark == 0 || r.Mark > ruleset.MarkIndex || r.Action != desired.Unicast:
		return pinNone
	case r.IPProto == 0:
		return pinAll
	case r.IPProto == protoTCP:
		return pinTCP
	}
	return pinNone
}

// outbound are the bits of a conntrack mark that tell what went out by a line:
// flows that came in by it keep their entries, also while it is down.
const outbound = ruleset.MarkIndex | ruleset.MarkIn

// unpinned deletes the outbound flows of a line that are led to it no longer: they
// are to be reset, or made anew by the line now in use. What a rule for TCP alone
// leaves is the connections that were answered: an unanswered one loses nothing
// by a new start.
func (d *differ) unpinned(w *desired.Namespace, h *Namespace) {
	type line struct {
		mark uint32
		v6   bool
	}
	have, want := map[line]pin{}, map[line]pin{}
	var marks []uint32
	for _, r := range h.Rules {
		if p := pinOf(r.Rule); p != pinNone && r.Proto == desired.RouteProto && r.Other == "" {
			have[line{r.Mark, r.V6}] = max(have[line{r.Mark, r.V6}], p)
			if !slices.Contains(marks, r.Mark) {
				marks = append(marks, r.Mark)
			}
		}
	}
	for _, r := range w.Rules {
		if p := pinOf(r); p != pinNone {
			want[line{r.Mark, r.V6}] = max(want[line{r.Mark, r.V6}], p)
		}
	}
	for _, mark := range marks {
		lost := map[pin][]bool{} // families in which only that much is led to the line from now on
		for _, v6 := range []bool{false, true} {
			l := line{mark, v6}
			if want[l] < have[l] {
				lost[want[l]] = append(lost[want[l]], v6)
			}
		}
		if fs := lost[pinTCP]; fs != nil {
			d.flows(DeleteFlows{Mark: mark, Mask: outbound | ruleset.MarkTCP, Family: only(fs)}, "outbound FAMILY flows of a line that was lost, but TCP")
			d.flows(DeleteFlows{Mark: mark | ruleset.MarkTCP, Mask: outbound | ruleset.MarkTCP, Family: only(fs), Unanswered: true}, "unanswered outbound FAMILY TCP flows of a line that was lost")
		}
		if fs := lost[pinNone]; fs != nil {
			d.flows(DeleteFlows{Mark: mark, Mask: outbound, Family: only(fs), Prod: w.Table.Text != ""}, "outbound FAMILY flows of a line no longer used")
		}
	}
}

// moved deletes the outbound flows of a line that works, and that failover leaves
// for one that is preferred to it, if its owner wants that.
func (d *differ) moved(w *desired.Namespace, h *Namespace) {
	leads := func(link string, v6 bool) func(desired.Route) bool {
		return func(r desired.Route) bool {
			return isDefault(r.Dst) && r.Dst.Addr().Is6() == v6 && routeSlotOf(r).table == tableMain && r.Type == desired.Unicast && (link == "" || r.Link == link)
		}
	}
	for _, m := range d.want.Moves {
		was := slices.ContainsFunc(h.Routes, func(r Route) bool { return r.Proto == desired.RouteProto && leads(m.Cable, m.V6)(r.Route) })
		is := slices.IndexFunc(w.Routes, leads("", m.V6))
		if !was || is < 0 {
			continue
		}
		link := w.Routes[is].Link
		if at := (linkKey{w.Name, link}); link == m.Cable || d.waits[at] || !d.exists(at) {
			continue
		}
		d.flows(DeleteFlows{Mark: m.Mark, Mask: outbound | ruleset.MarkRouted, Family: only([]bool{m.V6}), Prod: true}, "outbound FAMILY flows of "+m.Cable+", which go on by "+link)
	}
}

// only is the family of DeleteFlows for families, each said by whether it is IPv6.
func only(v6 []bool) int {
	switch {
	case len(v6) > 1:
		return 0
	case v6[0]:
		return 6
	}
	return 4
}

// flows adds the step that deletes flows. In what, FAMILY stands for their family.
func (d *differ) flows(f DeleteFlows, what string) {
	family := ""
	if f.Family != 0 {
		family = fmt.Sprintf("IPv%d ", f.Family)
	}
	s := Step{Op: Remove, Object: "flows", Name: fmt.Sprintf("mark %#x/%#x", f.Mark, f.Mask), Old: strings.Replace(what, "FAMILY ", family, 1), Do: f}
	if f.Prod {
		s.Why = "who only waits on TCP is told"
	}
	d.add(atFlows, s)
}
