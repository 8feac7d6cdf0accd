package failover

import "time"

// interval is the time between two regular probes of a line.
func (m *Machine) interval(l *line) time.Duration {
	every := l.every
	seldom := min(8*every, max(reserve, every))
	switch {
	case l.verdict == Untried, l.verdict == Down && !l.backAt.IsZero() && m.now.Sub(l.backAt) < hopeful:
		return min(every, eager)
	case l.metered && l.inUse && l.verdict.Works():
		return max(metered, every)
	case l.metered && l.routed && l.verdict == Down: // what is led there has no other
		return seldom
	case l.metered && l.verdict == Returning:
		return min(max(seldom, l.owes(m)/15), max(metered, seldom))
	case l.metered && m.used(l.id.Family).wan == "":
		return max(every, time.Second)
	case l.inUse, l.routed && !l.metered, m.used(l.id.Family).wan == "":
		return every
	case !l.metered && (l.verdict == Returning || l.lossy): // what limits its replies must not pass for good
		return every
	case l.metered && m.comparing(l):
		return max(every, time.Second)
	case l.metered:
		return max(metered, seldom)
	case m.comparing(l):
		return every
	}
	return seldom
}

// comparing says whether it is looked whether l is better than the line in use,
// which is bad.
func (m *Machine) comparing(l *line) bool {
	for _, o := range m.order(l.id.Family) {
		if o.inUse {
			return o.verdict == Degraded && (o.lossy || o.hollow || !l.metered) && (o.hollow || !o.badSince.IsZero())
		}
	}
	return false
}

// burstGap is the time between two probes of a burst: about burstProbes of them
// between the time-out that sets it off and the verdict.
func (m *Machine) burstGap(l *line) time.Duration {
	return max(burstGap, (l.rtt.settle(l.base(), l.timeout)-l.rtt.timeout(l.timeout))/burstProbes)
}

// early is by how much a probe may go before its time, if the machine is called
// just then: one time fewer to wake up.
const early = 5 * time.Millisecond

// beat is when a line that was due at a time, not after now but for early, is
// asked again: within every, and at a time at which other lines are asked too, so
// that a house's probes go together.
func (m *Machine) beat(due, now time.Time, every time.Duration) time.Time {
	if due.Before(now) {
		due = now
	}
	since := due.Add(every).Sub(m.start)
	if at := m.start.Add(since - since%min(m.cfg.Every, eager)); at.After(due) {
		return at
	}
	return due.Add(every)
}

// schedule adds the line's probes that are due to out.
func (l *line) schedule(m *Machine, now time.Time, out []Probe) []Probe {
	switch {
	case !l.probing() || len(l.targets) == 0:
		return out
	case l.verdict == Suspect && now.Before(l.burst):
		return out
	case l.verdict != Suspect && now.Add(early).Before(l.next):
		return out
	}
	send := func(t *target, regular, trial bool) {
		l.lastAsked = now
		p := m.ask(l, t, now)
		p.regular, p.trial = regular, trial
		out = append(out, Probe{ID: p.id, Line: l.id, Target: t.Target, Wait: max(lastUse, l.timeout+time.Second)})
	}
	allDeaf := l.allDeaf() // then their silence is all there is to go by
	if l.verdict == Suspect {
		if l.volley {
			for _, t := range l.targets {
				send(t, false, t.deaf() && !allDeaf)
			}
			l.volley = false
		} else {
			l.turn++
			t := l.targets[l.turn%len(l.targets)]
			send(t, false, t.deaf() && !allDeaf)
		}
		l.burst = now.Add(m.burstGap(l))
		return out
	}
	l.next = m.beat(l.next, now, m.interval(l))
	if l.volley || l.verdict == Untried {
		for _, t := range l.targets {
			send(t, true, t.deaf() && !allDeaf)
		}
		l.volley = false
		return out
	}
	send(l.inTurn(), true, false)
	retry := deafRetry
	if l.hollow { // what it is waited for to answer again
		retry = reserve
	}
	for _, t := range l.targets {
		if t.deaf() && !allDeaf && (l.hollow || !l.metered) && now.Sub(t.trial) >= retry {
			t.trial = now
			send(t, false, true)
		}
	}
	return out
}

func (l *line) allDeaf() bool {
	for _, t := range l.targets {
		if !t.deaf() {
			return false
		}
	}
	return true
}

// inTurn is the next target that is not deaf; the next of all if all are.
func (l *line) inTurn() *target {
	all := l.allDeaf()
	for {
		l.turn++
		if t := l.targets[l.turn%len(l.targets)]; all || !t.deaf() {
			return t
		}
	}
}

// wake is when something of the line falls due after now; zero is never.
func (l *line) wake(m *Machine, now time.Time) time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	judge := func(t time.Time) { // nothing is judged before the grace ends
		if t.Before(l.grace) {
			t = l.grace
		}
		if t.After(now) {
			sooner(t)
		}
	}
	if l.probing() && len(l.targets) > 0 {
		if l.verdict == Suspect {
			sooner(l.burst)
		} else {
			sooner(l.next)
		}
	}
	for _, p := range l.flight {
		judge(p.deadline)
	}
	if l.verdict == Returning && !l.goodSince.IsZero() {
		judge(l.goodSince.Add(l.owes(m)))
	}
	if every := m.countEvery(l); every > 0 {
		sooner(l.ordered.Add(every))
	}
	if l.inUse && l.verdict == Degraded && !l.badSince.IsZero() {
		judge(l.badSince.Add(patience))
	}
	since, ok := l.silentSince()
	if !ok {
		return at
	}
	switch l.verdict {
	case Up, Degraded, Returning:
		judge(since.Add(l.rtt.timeout(l.timeout)))
	case Suspect:
		settle, _ := l.enough(now)
		judge(since.Add(settle / 2)) // the alarm
		judge(since.Add(settle))
		judge(since.Add(excuses))
		judge(l.packetAt.Add(l.base()))
	case Untried:
		settle, _ := l.enough(now)
		judge(since.Add(settle))
	}
	return at
}
