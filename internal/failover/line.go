package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// burstProbes is how many probes a burst has about; burstGap the least time
	// between two of them.
	burstProbes = 30
	burstGap    = 20 * time.Millisecond

	// evidence is how many unanswered probes, each old enough to have had its
	// answer, a line must have before silence fells it: less than any burst
	// has, more than the few that went before a prober died.
	evidence = 5

	deafAfter  = 3                // probes missed in a row while other targets answered
	deafRetry  = 30 * time.Second // how often a deaf target is asked
	historyLen = 64               // probes that the loss figure is from
)

// asked is a probe that was ordered.
type asked struct {
	id       uint64
	line     *line
	target   *target
	ordered  time.Time
	sent     time.Time // zero until the prober says that it was sent
	deadline time.Time // counts as lost from here on
	answered bool

	// regular probes go by the clock, whatever the line does, and make the loss
	// figure. A burst's go because something was lost, and would distort it.
	regular bool
	trial   bool // to a deaf target: its loss says nothing
}

type target struct {
	Target
	missed int // in a row, while others answered
	last   time.Time
	trial  time.Time // when it was tried last since it is deaf
}

func (t *target) deaf() bool { return t.missed >= deafAfter }

// facts is whether a line has an address and a default route.
type facts uint8

const (
	unknown facts = iota
	has
	hasNot
)

// carrier is the last that was heard of a port's.
type carrier struct {
	known, up bool
	losses    uint32
}

func (c carrier) lost() bool { return c.known && !c.up }

type line struct {
	id      LineID
	metered bool
	every   time.Duration // between two probes while it is in use
	inUse   bool

	facts   facts
	carrier carrier

	verdict Verdict
	since   time.Time
	why     string

	fresh     bool      // has never answered yet
	steady    bool      // needs no hold-down (any more)
	held      bool      // down, but nothing took over: its flows are kept
	goodSince time.Time // start of the unbroken good time, while not steady

	rtt       estimator
	targets   []*target
	turn      int
	history   []outcome // ring of regular probes
	historyAt int

	mark      time.Time // replies to probes sent before say nothing about now
	lastReply time.Time
	lastSent  time.Time // of what was answered
	waiting   []*asked  // sent since mark, unanswered, and no later one answered
	flight    []*asked  // sent, and neither answered nor overdue
	lastError string    // why the latest probe failed, if it said; cleared by a reply
	graceFor  time.Time
	grace     time.Time // nothing is held against the line before

	next    time.Time // the next regular probe
	volley  bool      // it goes to all targets
	burst   time.Time // the next probe of the burst, while Suspect
	alarmed bool      // the lines in reserve were asked since this line is silent
}

type outcome struct {
	id   uint64
	lost bool
}

// probing says whether there is any sense in asking.
func (l *line) probing() bool { return l.facts != hasNot && l.verdict != Absent && !l.carrier.lost() }

// silentSince is the start of the line's silence; ok is false while nothing waits.
func (l *line) silentSince() (since time.Time, ok bool) {
	if len(l.waiting) == 0 {
		return time.Time{}, false
	}
	if s := l.waiting[0].sent; s.After(l.lastReply) {
		return s, true
	}
	return l.lastReply, true
}

func (l *line) enter(m *Machine, now time.Time, v Verdict, why string) {
	if l.verdict == v {
		l.why = why
		return
	}
	c := Change{Line: l.id, From: l.verdict, To: v, Why: why}
	if since, ok := l.silentSince(); ok && v == Down {
		c.Took = now.Sub(since)
	}
	if l.verdict.Works() && !v.Works() {
		l.steady = false
	}
	l.verdict, l.since, l.why = v, now, why
	m.changes = append(m.changes, c)
}

// forget drops every probe under way, as far as judging is concerned.
func (l *line) forget() {
	l.waiting, l.flight, l.alarmed = nil, nil, false
}

// fall takes the line down or away.
func (l *line) fall(m *Machine, now time.Time, v Verdict, why string) {
	l.enter(m, now, v, why)
	l.forget()
	l.mark, l.goodSince = now, time.Time{}
	l.held = l.held && v == Down
	l.next = now.Add(m.interval(l))
}

// begin asks the line at once: it has just got what it needs. Until it answers it
// is Untried if it never did, else what again says.
func (l *line) begin(m *Machine, now time.Time, again Verdict) {
	l.forget()
	l.mark, l.next, l.burst, l.volley, l.lastError = now, now, now, true, ""
	if l.fresh {
		again = Untried
	}
	l.enter(m, now, again, "has an address and carrier; no answer yet")
}

// doubt starts a burst without waiting for a loss. Only replies to what is sent
// from now on count.
func (l *line) doubt(m *Machine, now time.Time, why string) {
	if !l.verdict.Works() || l.verdict == Untried {
		return
	}
	l.forget()
	l.mark = now
	l.suspect(m, now, why)
}

func (l *line) suspect(m *Machine, now time.Time, why string) {
	if l.verdict != Suspect {
		l.enter(m, now, Suspect, why)
	}
	l.goodSince = time.Time{}
	l.burst, l.volley = now, true
}

// sent takes the prober's word that a probe went out.
func (l *line) sent(m *Machine, p *asked) {
	p.deadline = p.sent.Add(l.rtt.timeout(m.cfg.Timeout))
	l.flight = append(l.flight, p)
	if !p.trial && !p.sent.Before(l.mark) && p.sent.After(l.lastSent) && l.verdict != Down && l.verdict != Absent {
		l.waiting = append(l.waiting, p)
	}
}

// reply takes an answer that arrived at the time at.
func (l *line) reply(m *Machine, at time.Time, p *asked, rtt time.Duration) {
	l.rtt.add(rtt)
	p.answered = true
	p.target.missed, p.target.last = 0, at
	l.flight = slices.DeleteFunc(l.flight, func(q *asked) bool { return q == p })
	if p.regular {
		l.record(p.id, false)
	}
	if p.sent.Before(l.mark) || l.facts == hasNot || l.carrier.lost() {
		return // it was asked before the line fell or blinked
	}
	if at.After(l.lastReply) {
		l.lastReply = at
	}
	if p.sent.After(l.lastSent) {
		l.lastSent = p.sent
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(q *asked) bool { return !q.sent.After(p.sent) })
	l.lastError, l.alarmed = "", false
	if l.goodSince.IsZero() {
		l.goodSince = at
	}
	switch {
	case l.fresh:
		l.fresh = false
		l.steady = at.Sub(m.start) <= m.cfg.HoldDown
		l.goodAgain(m, at, "answers")
	case l.verdict == Down, l.verdict == Suspect:
		l.goodAgain(m, at, "answers again")
	}
}

func (l *line) goodAgain(m *Machine, at time.Time, why string) {
	v := Returning
	if l.steady || m.cfg.HoldDown <= 0 {
		v, l.steady = Up, true
	} else {
		why += fmt.Sprintf("; to be good for %v", m.cfg.HoldDown)
	}
	from := l.verdict
	l.enter(m, at, v, why)
	l.volley = false
	if from == Suspect { // the burst's last probe was the latest: go on from there
		l.next = l.burst.Add(-m.burstGap(l)).Add(m.interval(l))
	}
}

// record notes the outcome of a regular probe; a late reply corrects its loss.
func (l *line) record(id uint64, lost bool) {
	for i := range l.history {
		if l.history[i].id == id {
			l.history[i].lost = lost
			return
		}
	}
	if len(l.history) < historyLen {
		l.history = append(l.history, outcome{id, lost})
		return
	}
	l.history[l.historyAt] = outcome{id, lost}
	l.historyAt = (l.historyAt + 1) % historyLen
}

// expire holds against the line what is overdue.
func (l *line) expire(m *Machine, now time.Time) {
	if now.Before(l.grace) {
		return
	}
	l.flight = slices.DeleteFunc(l.flight, func(p *asked) bool {
		if now.Before(p.deadline) {
			return false
		}
		l.overdue(now, p)
		return true
	})
	if l.verdict == Returning && !l.goodSince.IsZero() && now.Sub(l.goodSince) >= m.cfg.HoldDown {
		l.steady = true
		l.enter(m, now, Up, fmt.Sprintf("good for %v", m.cfg.HoldDown))
	}
	since, ok := l.silentSince()
	if !ok {
		return
	}
	silence := now.Sub(since)
	switch l.verdict {
	case Up, Returning:
		if silence >= l.rtt.timeout(m.cfg.Timeout) || l.lastError != "" {
			l.suspect(m, now, l.unanswered())
		}
	case Untried, Suspect:
		if silence >= l.rtt.settle(l.base(), m.cfg.Timeout) && l.judged(now) {
			l.fall(m, now, Down, fmt.Sprintf("%s for %v", l.unanswered(), silence.Round(10*time.Millisecond)))
		}
	}
}

// overdue books a lost probe.
func (l *line) overdue(now time.Time, p *asked) {
	if !l.lastReply.Before(p.sent) {
		p.target.missed++ // others answered meanwhile
		if p.target.missed == deafAfter {
			p.target.trial = now
		}
	}
	if p.regular && !p.target.deaf() {
		l.record(p.id, true)
		l.goodSince = time.Time{}
	}
}

// judged says whether enough probes have had their time.
func (l *line) judged(now time.Time) bool {
	n := 0
	for _, p := range l.waiting {
		if !p.sent.Add(l.rtt.srtt + l.rtt.rttvar).After(now) {
			n++
		}
	}
	return n >= evidence
}

func (l *line) unanswered() string {
	var from []string
	for _, t := range l.targets {
		if slices.ContainsFunc(l.waiting, func(p *asked) bool { return p.target == t }) {
			from = append(from, t.String())
		}
	}
	s := fmt.Sprintf("no answer from %s", strings.Join(from, ", "))
	if n := len(l.waiting); n > len(from) {
		s += fmt.Sprintf(" to %d probes", n)
	}
	if l.lastError != "" {
		s += " (" + l.lastError + ")"
	}
	return s
}
