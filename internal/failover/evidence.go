package failover

import "time"

const (
	// excuses is how long what comes back on a line excuses lost probes, unless it
	// answers something new: longer than a buffer's queue grows in one leap, and
	// short enough for a peer that only repeats what it said.
	excuses = 3 * time.Second

	// busy is the traffic, in packets a second, that does not stop by itself
	// between two packets; it has lasted for busyFor, and is forgotten after idleFor.
	busy    = 20
	busyFor = 750 * time.Millisecond
	idleFor = 2 * time.Second

	// How often counters are read: of a line that is suspect, of one in use whose
	// round trips are long, of one that is metered and serves, or that has dense
	// traffic besides. One that is metered and does not serve is read when it is asked.
	countSuspect = 50 * time.Millisecond
	countSlow    = 250 * time.Millisecond
	countMetered = time.Second
	countDense   = 250 * time.Millisecond

	// A metered line has served for as long after its last packet.
	served = time.Minute

	// While a metered line has traffic it is asked when that stops: not more often
	// than askDense if it was dense, which does not stop by itself, and than
	// askStopped if not. It is asked too if nothing new was answered for askUnproven,
	// and if flows are begun and bring nothing, not more often than that either.
	askDense    = 500 * time.Millisecond
	askStopped  = 3 * time.Second
	askUnproven = 10 * time.Second
)

// traffic is what a line's counters show. A difference between two readings says
// that something came after the earlier one; that is taken as the time.
type traffic struct {
	counts    Counts
	countedAt time.Time
	ordered   time.Time // when a reading was asked for last

	packetAt             time.Time // something came back
	busySince, busyUntil time.Time // it came densely; busySince is zero: not of late
	flowing              bool      // the last reading showed packets
}

// Traffic tells what a line's counters showed at the time now. Output.Count asks
// for it; a reading that nobody asked for is as good.
func (m *Machine) Traffic(now time.Time, id LineID, c Counts) {
	l := m.line(id)
	if l == nil || !now.After(l.countedAt) {
		return
	}
	old, at := l.counts, l.countedAt
	l.counts, l.countedAt = c, now
	if at.IsZero() || at.Before(l.mark) || c.Packets < old.Packets || c.Answers < old.Answers || c.Begun < old.Begun ||
		!l.probing() || !l.verdict.Works() {
		return
	}
	n := c.Packets - old.Packets
	l.carries(at, n-min(n, c.Answers-old.Answers))
	l.pace(at, now, n)
	if n > 0 {
		l.packetAt = at
	}
	if c.Answers > old.Answers {
		l.proof(m, at)
	}
	was := l.flowing
	l.flowing = n > 0
	if l.verdict == Suspect {
		return
	}
	if l.metered && l.serves(now) {
		l.paid(now, c.Answers > old.Answers, was, c.Begun > old.Begun)
	}
	if l.busy(now) && n == 0 {
		if since, ok := l.silentSince(); ok && now.Sub(since) >= countSlow {
			l.suspect(m, now, "its traffic stopped, and "+l.unanswered())
		}
	}
}

// pace notes whether traffic is dense.
func (t *traffic) pace(at, now time.Time, n uint64) {
	gap := now.Sub(at)
	switch {
	case gap <= 3*countMetered/2 && float64(n) >= busy*gap.Seconds():
		if t.busySince.IsZero() {
			t.busySince = at
		}
		t.busyUntil = at
	case now.Sub(t.busyUntil) > idleFor:
		t.busySince = time.Time{}
	}
}

// busy says that traffic is dense, or was until not long ago.
func (t *traffic) busy(now time.Time) bool {
	return !t.busySince.IsZero() && t.busyUntil.Sub(t.busySince) >= busyFor && now.Sub(t.busyUntil) <= idleFor
}

// proof takes an answer to something new, which is as good as a reply. Probes that
// may still be answered are waited for.
func (l *line) proof(m *Machine, at time.Time) {
	asked := at.Add(-l.rtt.srtt - 2*l.rtt.rttvar)
	for len(l.waiting) > 0 && !l.waiting[0].sent.After(asked) {
		l.waiting = l.waiting[1:]
	}
	l.lastSent = later(l.lastSent, asked)
	l.heard(m, at)
}

// serves says whether the house has something from a line: it is in use, a route
// may lead to it, or flows that it was left with go on.
func (l *line) serves(now time.Time) bool {
	return l.inUse || l.routed || now.Sub(l.packetAt) < served
}

// paid replaces the probes of a metered line that serves by its traffic: what was
// answered, whether packets came until the reading before, what was begun.
func (l *line) paid(now time.Time, proof, was, begun bool) {
	sooner := func(at time.Time) {
		if at = later(now, at); at.Before(l.next) {
			l.next = at
		}
	}
	switch {
	case proof:
		l.next = now.Add(metered)
	case l.flowing:
		sooner(l.lastReply.Add(askUnproven))
	case was && l.busy(now):
		sooner(l.lastAsked.Add(askDense))
	case was:
		sooner(l.lastAsked.Add(askStopped))
	case begun:
		sooner(l.lastAsked.Add(askUnproven))
	}
}

// excused says whether what comes back excuses a silence.
func (l *line) excused(now time.Time, silence time.Duration) bool {
	return silence < excuses && now.Sub(l.packetAt) < l.base()
}

// enough is the silence that fells the line, if at least as many probes had their
// time: less than usual if round trips are long, but dense traffic stopped too.
func (l *line) enough(now time.Time) (silence time.Duration, probes int) {
	silence, probes = l.rtt.settle(l.base(), l.timeout), evidence
	if l.busy(now) && now.Sub(l.busyUntil) >= l.base() && now.Sub(l.packetAt) >= l.base() {
		return min(silence, l.base()), min(probes, 3)
	}
	return silence, probes
}

// countEvery is the time between two readings of the line's counters; 0: none is
// wanted.
func (m *Machine) countEvery(l *line) time.Duration {
	switch {
	case !l.probing() || !l.verdict.Works() || l.verdict == Untried || len(l.targets) == 0:
		return 0
	case l.verdict == Suspect:
		return countSuspect
	case l.metered && !l.serves(m.now):
		return metered
	case l.metered && l.busy(m.now):
		return countDense
	case l.metered:
		return countMetered
	case !l.inUse && !l.routed:
		return 0
	case !l.echoesSince.IsZero() && !l.hollow && !l.disproved():
		return countSlow
	case l.slow || l.lossy || l.rtt.settle(l.base(), l.timeout) > l.base():
		return countSlow
	}
	return 0
}

// count orders readings that are due.
func (m *Machine) count(now time.Time) []LineID {
	var out []LineID
	for _, l := range m.lines {
		if every := m.countEvery(l); every > 0 && !now.Before(l.ordered.Add(every)) {
			l.ordered = now
			out = append(out, l.id)
		}
	}
	return out
}
