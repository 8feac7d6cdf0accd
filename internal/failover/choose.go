package failover

import (
	"fmt"
	"slices"
	"time"
)

// choose decides which line of a family is used, by the rules in the package's
// comment.
func (m *Machine) choose(now time.Time, f Family) {
	use := m.use[f]
	var current *line
	var order []*line
	for _, name := range m.cfg.Prefer {
		if l := m.line(LineID{name, f}); l != nil {
			order = append(order, l)
			if name == use.wan {
				current = l
			}
		}
	}
	m.alarm(now, current, order)

	if current != nil && current.verdict.Works() {
		for _, l := range order[:slices.Index(order, current)] {
			if l.verdict == Up {
				m.take(now, f, l, "preferred to "+use.wan+", and "+l.why)
				return
			}
		}
		return
	}
	why := "no line has an address yet"
	if use.wan != "" {
		why = use.wan + " is no longer to be used"
	}
	if current != nil {
		why = current.id.WAN + ": " + current.why
	}
	for _, v := range []Verdict{Up, Returning, Suspect, Untried} {
		for _, l := range order {
			if l.verdict == v {
				switch {
				case use.wan != "":
				case v == Untried:
					why = "the first with an address"
				default:
					why = "the first that answers"
				}
				m.take(now, f, l, why)
				return
			}
		}
	}
	if use.wan != "" {
		m.take(now, f, nil, why)
	}
}

// alarm asks the lines in reserve when the line in use has been silent for half
// of what fells it, so that the choice is made on fresh answers.
func (m *Machine) alarm(now time.Time, current *line, order []*line) {
	if current == nil || current.verdict != Suspect || current.alarmed {
		return
	}
	since, ok := current.silentSince()
	if !ok || now.Sub(since) < current.rtt.settle(current.base(), m.cfg.Timeout)/2 {
		return
	}
	current.alarmed = true
	for _, l := range order {
		if l != current && l.verdict != Suspect {
			l.next, l.volley = now, true
		}
	}
}

// take puts l in use; nil is none.
func (m *Machine) take(now time.Time, f Family, l *line, why string) {
	use := m.use[f]
	c := Change{Choice: true, Line: LineID{Family: f}, FromWAN: use.wan, Why: why}
	if l == nil {
		if last := m.line(LineID{use.wan, f}); last != nil {
			last.held = last.verdict == Down
			last.inUse = false
		}
	} else {
		c.ToWAN = l.id.WAN
		for _, o := range m.lines {
			if o.id.Family == f {
				o.inUse, o.held = o == l, false
			}
		}
		l.next, l.volley = now, true
	}
	*use = choice{wan: c.ToWAN, since: now, why: why}
	if l == nil {
		use.why = fmt.Sprintf("no line works; the last was %s", why)
		for _, o := range m.lines { // whichever answers first is wanted soon
			if o.id.Family == f && o.next.After(now.Add(m.interval(o))) {
				o.next = now.Add(m.interval(o))
			}
		}
	}
	m.changes = append(m.changes, c)
}
