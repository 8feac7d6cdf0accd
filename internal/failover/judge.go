package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// sent takes the prober's word that a probe went out.
func (l *line) sent(p *asked) {
	p.deadline = p.sent.Add(l.rtt.timeout(l.timeout))
	l.flight = append(l.flight, p)
	if !p.trial && !p.sent.Before(l.mark) && p.sent.After(l.lastSent) && l.verdict != Down && l.verdict != Absent {
		l.waiting = append(l.waiting, p)
	}
}

// reply takes an answer that arrived at the time at.
func (l *line) reply(m *Machine, at time.Time, p *asked, rtt time.Duration) {
	l.rtt.arrived(at, rtt)
	p.answered = true
	p.target.missed, p.target.last = 0, at
	l.flight = slices.DeleteFunc(l.flight, func(q *asked) bool { return q == p })
	if p.regular {
		l.record(p, outcome{rtt: rtt})
		l.add(at, rtt)
	}
	if p.sent.Before(l.mark) || l.facts == hasNot || l.carrier.lost() {
		return // it was asked before the line fell or blinked
	}
	l.lastSent = later(l.lastSent, p.sent)
	l.waiting = slices.DeleteFunc(l.waiting, func(q *asked) bool { return !q.sent.After(p.sent) })
	l.heard(m, at)
}

// heard takes a sign of life.
func (l *line) heard(m *Machine, at time.Time) {
	l.lastReply = later(l.lastReply, at)
	l.lastError, l.alarmed = "", false
	if l.goodSince.IsZero() && !l.bad() {
		l.goodSince = at
	}
	switch {
	case l.fresh:
		l.fresh = false
		l.steady = at.Sub(m.start) <= m.cfg.HoldDown
		l.goodAgain(m, at, "answers")
	case l.verdict == Down:
		l.anew()
		l.goodSince = at
		l.goodAgain(m, at, "answers again")
	case l.verdict == Suspect:
		if !l.steady && at.Sub(l.since) > l.rtt.timeout(l.timeout) {
			l.goodSince = at // more was lost than a probe
		}
		l.goodAgain(m, at, "answers again")
	}
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
		l.overdue(m, now, p)
		return true
	})
	l.figure(m, now)
	if l.verdict == Returning && !l.goodSince.IsZero() && now.Sub(l.goodSince) >= l.owes(m) {
		l.steady = true
		l.enter(m, now, Up, fmt.Sprintf("good for %v", l.owes(m)))
	}
	l.forgive(now)
	since, ok := l.silentSince()
	if !ok {
		return
	}
	silence := now.Sub(since)
	switch l.verdict {
	case Up, Degraded, Returning:
		if silence >= l.rtt.timeout(l.timeout) || l.lastError != "" {
			l.suspect(m, now, l.unanswered())
		}
	case Untried, Suspect:
		if most, probes := l.enough(now); silence >= most && l.judged(now, probes) && !l.excused(now, silence) {
			l.fall(m, now, Down, fmt.Sprintf("%s for %v", l.unanswered(), silence.Round(10*time.Millisecond)))
		}
	}
}

// overdue books a lost probe.
func (l *line) overdue(m *Machine, now time.Time, p *asked) {
	if !l.lastReply.Before(p.sent) {
		p.target.missed++ // others answered meanwhile
		if p.target.missed == deafAfter {
			p.target.trial = now
			m.secondOpinion(now, l)
		}
	}
	if p.regular && !p.target.deaf() {
		l.record(p, outcome{lost: true})
	}
}

// judged says whether so many probes have had their time.
func (l *line) judged(now time.Time, probes int) bool {
	n := 0
	for _, p := range l.waiting {
		if !p.sent.Add(l.rtt.srtt + l.rtt.rttvar).After(now) {
			n++
		}
	}
	return n >= probes
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
