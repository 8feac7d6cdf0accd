package plan

import (
	"slices"
	"strings"
)

// flowPrograms compares on what links the program of the flows is. It is taken away
// before a link is made another's, and comes when all is there that it does in main's
// place. What it carries is no matter of a plan: the flows are judged by what there is
// when the turn is over (internal/kernel).
func (d *differ) flowPrograms() {
	for i := range d.actual.Namespaces {
		h := &d.actual.Namespaces[i]
		if h.Name != "" && h.Flows != nil {
			d.add(atShortcutKnows, Step{Op: Remove, NS: h.Name, Object: "fast path", Name: strings.Join(h.Flows.On, " "),
				Why: "it came along with the port", Do: PutFlows{NS: h.Name, Old: h.Flows.On}})
		}
	}
	var on []string
	wrong := ""
	if h := d.actual.namespace(""); h != nil && h.Flows != nil {
		on, wrong = h.Flows.On, h.Flows.Wrong
	}
	last := d.last("").Flows.Links()
	var want, stay []string // those on it when the turn is over; of these, those that have it and keep it
	for _, l := range d.wanted("").Flows.Links() {
		at := linkKey{"", l}
		if d.waits[at] || !d.exists(at) {
			continue
		}
		want = append(want, l)
		if slices.Contains(on, l) && d.void[at] != made {
			stay = append(stay, l)
		}
	}
	var gone []string // that have it and are not to
	for _, l := range on {
		if !slices.Contains(want, l) {
			gone = append(gone, l) // a port takes it along to where it goes
		}
	}
	if len(gone) > 0 {
		step := Step{Op: Remove, Object: "fast path", Name: strings.Join(gone, " "), Old: flowsText, Do: PutFlows{Old: on, New: stay}}
		d.add(atShortcutKnows, d.surplus(step, !slices.ContainsFunc(gone, func(l string) bool { return !slices.Contains(last, l) })))
	}
	var fresh []string
	for _, l := range want {
		if !slices.Contains(stay, l) {
			fresh = append(fresh, l)
		}
	}
	switch put := (PutFlows{Old: stay, New: want}); {
	case wrong != "" && len(want) > 0:
		d.add(atShortcut, Step{Op: Change, Object: "fast path", Name: strings.Join(want, " "), Why: wrong, Drift: slices.Equal(last, d.wanted("").Flows.Links()), Do: put})
	case len(fresh) > 0:
		step := Step{Op: Add, Object: "fast path", Name: strings.Join(fresh, " "), New: flowsText, Do: put}
		if !slices.ContainsFunc(fresh, func(l string) bool { return !slices.Contains(last, l) || d.void[linkKey{"", l}] != 0 }) {
			step = mend(step)
		}
		d.add(atShortcut, step)
	}
}

// flowsText is what the program does, in a few words.
const flowsText = "for established flows"
