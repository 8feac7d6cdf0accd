package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// chosen is why a person's choice is in use.
const chosen = "chosen by hand"

// Use takes a person's choice: the WAN to use for as long as it works, whatever
// its figures. It is taken now, without a hold-down, if it works; while it does
// not, the others are used as the file says, and it is taken again after its
// hold-down. A family that it has no address of stays with the others. "" leaves
// the choice to the machine. At a start, call it before Adopt: then what was in
// force stays.
func (m *Machine) Use(_ time.Time, wan string) {
	m.person, m.spoken = wan, true
	for _, use := range []*choice{&m.use4, &m.use6} {
		if use.wan != wan && strings.HasPrefix(use.why, chosen) {
			use.why = "was " + chosen // and nothing that is better works
		}
	}
	m.reorder()
}

// reorder lists the lines of each family that may be used, best first: a person's
// choice before the file's.
func (m *Machine) reorder() {
	names := m.cfg.Prefer
	if m.person != "" {
		names = append([]string{m.person}, names...)
	}
	list := func(f Family) (out []*line) {
		for _, name := range names {
			if l := m.line(LineID{name, f}); l != nil && !slices.Contains(out, l) {
				out = append(out, l)
			}
		}
		return out
	}
	m.order4, m.order6 = list(IPv4), list(IPv6)
}

func (m *Machine) order(f Family) []*line {
	if f == IPv6 {
		return m.order6
	}
	return m.order4
}

// choose decides which line of a family is used, by the rules in the package's
// comment.
func (m *Machine) choose(now time.Time, f Family) {
	use := m.used(f)
	order := m.order(f)
	var current *line
	for _, l := range order {
		if l.id.WAN == use.wan {
			current = l
		}
	}
	m.alarm(now, current, order)
	if m.spoken && m.person != "" && len(order) > 0 && order[0] != current && order[0].id.WAN == m.person && order[0].verdict.Works() {
		m.take(now, f, order[0], chosen)
		return
	}
	if m.spoken && current != nil && current.id.WAN == m.person && current.verdict.Works() {
		use.why = chosen // it was in use before for another reason
	}
	if current != nil && current.verdict.Works() {
		m.improve(now, f, current, order)
		return
	}
	why := "no line has an address yet"
	if use.wan != "" {
		why = use.wan + " is no longer to be used"
	}
	if current != nil {
		why = current.id.WAN + ": " + current.why
	}
	for _, v := range []Verdict{Up, Returning, Degraded, Suspect, Untried} {
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

// improve leaves a line that works for a better one: one that is preferred to it,
// or one that is clearly better than what it has become.
func (m *Machine) improve(now time.Time, f Family, current *line, order []*line) {
	for _, l := range order[:slices.Index(order, current)] {
		if l.verdict == Up {
			why := "preferred to " + current.id.WAN + ", and " + l.why
			if l.id.WAN == m.person {
				why = chosen + ", and " + l.why
			}
			m.take(now, f, l, why)
			return
		}
	}
	if !current.tooBad(now) || current.id.WAN == m.person {
		return
	}
	var better *line
	for _, l := range order {
		if l != current && l.betterThan(m, now, current) && (better == nil || better.verdict != Up && l.verdict == Up) {
			better = l
		}
	}
	if better != nil {
		why := current.id.WAN + ": " + current.badWhy()
		current.failed(m, now)
		m.take(now, f, better, why)
	}
}

// alarm asks the lines in reserve when the line in use has been silent for half
// of what fells it, so that the choice is made on fresh answers.
func (m *Machine) alarm(now time.Time, current *line, order []*line) {
	if current == nil || current.verdict != Suspect || current.alarmed {
		return
	}
	since, ok := current.silentSince()
	most, _ := current.enough(now)
	if !ok || now.Sub(since) < most/2 {
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
	use := m.used(f)
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
