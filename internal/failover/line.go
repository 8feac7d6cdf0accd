package failover

import (
	"fmt"
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

	deafAfter = 3                // probes missed in a row while other targets answered
	deafRetry = 30 * time.Second // how often a deaf target is asked
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
	booked  bool // its outcome is in the history
}

type target struct {
	Target
	missed int // in a row, while others answered
	last   time.Time
	trial  time.Time // when it was tried last since it is deaf

	asked, lost int  // of the line's latest regular probes
	shy         bool // see shun
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
	routed  bool          // see WAN.Routed
	every   time.Duration // between two probes while it is in use
	timeout time.Duration // of a probe; 0: from measured round trips
	inUse   bool

	facts   facts
	carrier carrier

	verdict Verdict
	since   time.Time
	why     string

	fresh  bool // has never answered yet
	steady bool // needs no hold-down (any more)
	held   bool // down, but nothing took over: its flows are kept
	trouble
	figures
	traffic
	hearsay

	rtt     estimator
	targets []*target
	turn    int

	mark      time.Time // replies to probes sent before say nothing about now
	lastReply time.Time
	lastSent  time.Time // of what was answered
	waiting   []*asked  // sent since mark, unanswered, and no later one answered
	flight    []*asked  // sent, and neither answered nor overdue
	lastError string    // why the latest probe failed, if it said; cleared by a reply
	graceFor  time.Time
	grace     time.Time // nothing is held against the line before

	next      time.Time // the next regular probe
	backAt    time.Time // when the carrier came back last
	lastAsked time.Time
	volley    bool      // it goes to all targets
	burst     time.Time // the next probe of the burst, while Suspect
	alarmed   bool      // the lines in reserve were asked since this line is silent
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
		l.failed(m, now)
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
	l.anew()
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
	l.burst, l.volley = now, true
}

// standing is the verdict on a line that answers.
func (l *line) standing() Verdict {
	switch {
	case l.bad():
		return Degraded
	case !l.steady:
		return Returning
	}
	return Up
}

func (l *line) goodAgain(m *Machine, at time.Time, why string) {
	if m.cfg.HoldDown <= 0 {
		l.steady = true
	}
	from, v := l.verdict, l.standing()
	switch v {
	case Returning:
		why += fmt.Sprintf("; to be good for %v", l.owes(m))
	case Degraded:
		why = l.badWhy()
	}
	l.enter(m, at, v, why)
	l.volley = false
	if from == Suspect { // the burst's last probe was the latest: go on from there
		l.next = l.burst.Add(-m.burstGap(l)).Add(m.interval(l))
	}
}
