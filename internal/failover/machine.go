package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Machine judges all lines. It is not safe for concurrent use. Times given to it
// are readings of a monotonic clock. Those of Tick must not go back; what is told
// in between may have happened before the last.
type Machine struct {
	cfg            Config
	start          time.Time
	lines          []*line // WANs in the file's order, IPv4 before IPv6
	use4           choice
	use6           choice
	order4, order6 []*line // that may be used, best first; see reorder

	person string // the WAN that a person chose; "" is none
	spoken bool   // since the last Tick

	now time.Time // of the last Tick

	lastID  uint64
	asked   []*asked // by time and number, the answered ones too: each the last one's plus one
	spare   []asked  // room for the next
	changes []Change
	next    time.Time // what the last Tick asked for
}

type choice struct {
	wan   string
	since time.Time
	why   string
}

const (
	lateReply = 10 * time.Second       // how long an answer is waited for at all
	stalled   = 50 * time.Millisecond  // a Tick later than this saw the machine stall
	metered   = 30 * time.Second       // between probes of a metered line in reserve
	reserve   = 2 * time.Second        // at most between probes of a line in reserve
	eager     = 250 * time.Millisecond // at most between probes of a line not judged yet, or whose carrier came back
	hopeful   = 5 * time.Second        // for so long after it came back
)

// New makes a Machine. No line has an address yet, none is in use.
func New(cfg Config, now time.Time) *Machine {
	m := &Machine{start: now}
	m.use4 = choice{since: now, why: "no line has an address yet"}
	m.use6 = m.use4
	m.Configure(now, cfg)
	return m
}

// Configure takes a changed file. What is known of lines that stay is kept; a
// WAN that is gone is in use no longer.
func (m *Machine) Configure(now time.Time, cfg Config) {
	changed := cfg.HoldDown != m.cfg.HoldDown
	m.cfg = cfg
	old := m.lines
	m.lines = nil
	for _, w := range cfg.WANs {
		for _, f := range []Family{IPv4, IPv6} {
			id := LineID{w.Name, f}
			i := slices.IndexFunc(old, func(l *line) bool { return l.id == id })
			var l *line
			if i >= 0 {
				l = old[i]
			} else {
				l = &line{id: id, verdict: Absent, since: now, why: "no address", fresh: true, next: now}
			}
			l.metered, l.routed = w.Metered, w.Routed
			own, all := w.Target4, cfg.Target4
			if f == IPv6 {
				own, all = w.Target6, cfg.Target6
			}
			if own == nil {
				own = all
			}
			l.every, l.timeout = cmp.Or(w.Every, cfg.Every), cmp.Or(w.Timeout, cfg.Timeout)
			l.setTargets(own)
			if changed && l.verdict == Returning {
				l.why = fmt.Sprintf("works again; to be good for %v", l.owes(m))
			}
			m.lines = append(m.lines, l)
		}
	}
	m.reorder()
}

// used is the choice of a family.
func (m *Machine) used(f Family) *choice {
	if f == IPv6 {
		return &m.use6
	}
	return &m.use4
}

// find is the probe of a number, if it is waited for; else nil.
func (m *Machine) find(id uint64) *asked {
	if len(m.asked) == 0 || id < m.asked[0].id || id > m.lastID {
		return nil
	}
	if p := m.asked[id-m.asked[0].id]; !p.answered && slices.Contains(m.lines, p.line) {
		return p
	}
	return nil
}

// ask makes a probe.
func (m *Machine) ask(l *line, t *target, now time.Time) *asked {
	if len(m.spare) == 0 {
		m.spare = make([]asked, 64)
	}
	p := &m.spare[0]
	m.spare = m.spare[1:]
	m.lastID++
	*p = asked{id: m.lastID, line: l, target: t, ordered: now}
	m.asked = append(m.asked, p)
	return p
}

// setTargets keeps the record of targets that stay, and forgets what waits for
// those that are gone.
func (l *line) setTargets(targets []Target) {
	var ts []*target
	for _, a := range targets {
		i := slices.IndexFunc(l.targets, func(t *target) bool { return t.Target == a })
		if i >= 0 {
			ts = append(ts, l.targets[i])
		} else {
			ts = append(ts, &target{Target: a})
		}
	}
	l.targets, l.turn = ts, 0
	gone := func(p *asked) bool { return !slices.Contains(ts, p.target) }
	l.waiting = slices.DeleteFunc(l.waiting, gone)
	l.flight = slices.DeleteFunc(l.flight, gone)
}

// Adoption is what a daemon finds in force when it starts over a running
// gateway.
type Adoption struct {
	Use4, Use6 string   // the WANs that the kernel's default routes use; "" is none
	Down       []LineID // the lines that were down
}

// Adopt takes over what was in force, so that a restart moves nothing: the lines
// in use count as Up until shown otherwise, even before their addresses are
// known, and every other line serves its hold-down before it is preferred to
// them. What Line told before is forgotten: tell it again.
func (m *Machine) Adopt(now time.Time, a Adoption) {
	m.spoken = false
	for _, l := range m.lines {
		l.facts = unknown
		use := a.Use4
		if l.id.Family == IPv6 {
			use = a.Use6
		}
		switch {
		case use != "" && l.id.WAN == use:
			l.fresh, l.steady, l.volley = false, true, true
			l.enter(m, now, Up, "was in use when weir started")
			*m.used(l.id.Family) = choice{wan: use, since: now, why: "was in use when weir started"}
			l.inUse = true
		case slices.Contains(a.Down, l.id):
			l.fresh = false
			l.enter(m, now, Down, "was down when weir started")
		case use != "":
			l.fresh, l.volley = false, true
			l.enter(m, now, Returning, "was there when weir started")
		}
	}
}

// Carrier tells whether a WAN's port has carrier, and how often it lost it so
// far (IFLA_CARRIER_DOWN_COUNT; only changes matter). A port that is not there
// has none. Until the first call a port counts as having it.
func (m *Machine) Carrier(now time.Time, wan string, up bool, losses uint32) {
	for _, l := range m.lines {
		if l.id.WAN != wan {
			continue
		}
		was := l.carrier
		l.carrier = carrier{known: true, up: up, losses: losses}
		switch {
		case l.verdict == Absent:
		case !up && (!was.lost() || l.verdict.Works()):
			l.fall(m, now, Down, "no carrier")
		case up && was.lost():
			l.begin(m, now, Down)
			l.backAt = now
		case up && was.known && was.losses != losses:
			l.doubt(m, now, "carrier blinked")
		}
	}
}

// Line tells whether a line has what it needs to be used: an address and a
// default route.
func (m *Machine) Line(now time.Time, id LineID, ready bool) {
	l := m.line(id)
	if l == nil {
		return
	}
	before := l.facts
	l.facts = hasNot
	if ready {
		l.facts = has
	}
	switch {
	case l.facts == before:
	case !ready:
		l.fall(m, now, Absent, "no address or no default route")
	case l.verdict.Works(): // adopted
		l.next, l.volley = now, true
	case l.carrier.lost():
		l.fall(m, now, Down, "no carrier")
	default:
		// A lease taken back and given anew: what flows may go on, if it does.
		l.begin(m, now, Suspect)
	}
}

// Sent tells that a probe went out at the time at. Unknown numbers are ignored,
// here and below.
func (m *Machine) Sent(at time.Time, id uint64) {
	if p := m.find(id); p != nil && p.sent.IsZero() {
		p.sent = at
		p.line.sent(p)
	}
}

// Reply tells that a probe's answer arrived at the time at, rtt after it was
// sent. A second answer to one probe is ignored.
func (m *Machine) Reply(at time.Time, id uint64, rtt time.Duration) {
	p := m.find(id)
	if p == nil {
		return
	}
	if p.sent.IsZero() {
		m.Sent(at.Add(-rtt), id)
	}
	p.line.reply(m, at, p, rtt)
}

// Error tells that a probe could not be sent, or that a router on the way
// returned an ICMP error: why says so in words. It is a lost probe that need not
// be waited for.
func (m *Machine) Error(at time.Time, id uint64, why string) {
	p := m.find(id)
	if p == nil {
		return
	}
	if p.sent.IsZero() {
		m.Sent(at, id)
	}
	p.deadline = at
	if slices.Contains(p.line.waiting, p) {
		p.line.lastError = why
	}
}

// Void forgets the probes under way: the prober was started anew and will never
// tell of them.
func (m *Machine) Void(now time.Time) {
	m.asked = nil
	for _, l := range m.lines {
		l.forget()
		l.next, l.burst = now, now
		l.volley = l.volley || l.verdict == Suspect
	}
}

func (m *Machine) line(id LineID) *line {
	for _, l := range m.lines {
		if l.id == id {
			return l
		}
	}
	return nil
}

// Tick does what is due at the time now. Call it after every input (several
// that came together are one), and at Output.Next.
func (m *Machine) Tick(now time.Time) Output {
	if !m.next.IsZero() && now.Sub(m.next) > stalled {
		for _, l := range m.lines {
			if since, ok := l.silentSince(); ok && !since.Equal(l.graceFor) {
				l.graceFor, l.grace = since, now.Add(stalled)
			}
		}
	}
	m.now = now
	for len(m.asked) > 0 && now.Sub(m.asked[0].ordered) > lateReply {
		m.asked = m.asked[1:]
	}
	for _, l := range m.lines {
		if l.verdict != Absent {
			l.expire(m, now)
		}
	}
	m.choose(now, IPv4)
	m.choose(now, IPv6)
	m.spoken = false
	out := Output{Count: m.count(now)}
	for _, l := range m.lines {
		out.Probes = l.schedule(m, now, out.Probes)
	}
	for _, l := range m.lines {
		if l.verdict == Absent {
			continue
		}
		if w := l.wake(m, now); !w.IsZero() && (out.Next.IsZero() || w.Before(out.Next)) {
			out.Next = w
		}
	}
	out.Changes, m.changes = m.changes, nil
	m.next = out.Next
	return out
}

// base is the silence that fells a line with short round trips.
func (l *line) base() time.Duration {
	return min(max(900*time.Millisecond-l.every, 450*time.Millisecond), 650*time.Millisecond)
}
