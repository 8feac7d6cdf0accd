package failover

import "time"

// The time-out's bounds. RFC 6298, 2.4 has at least 1 s, because a spurious
// retransmission harms TCP; a spurious burst of ours costs some packets. Its
// initial second (2.1) and 1 s as the most are kept.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = time.Second
	clockGrain = 10 * time.Millisecond // G of RFC 6298, 2
)

// estimator is RFC 6298, section 2. Every probe has a number of its own, so a
// late reply is measured too (Karn's ambiguity, section 3, does not arise).
//
// One thing is added: after quickInARow round trips of less than half the mean it
// starts anew. Else the first reply after a neighbour was resolved, or a buffer
// that was full for a while, leaves a time-out of seconds for tens of probes.
type estimator struct {
	srtt, rttvar time.Duration
	measured     bool
	quick        int

	last, sent time.Time // the latest reply's arrival, and its probe's sending
	drained    int       // replies in a row that came all at once
}

const quickInARow = 3

// arrived takes the round trip of a reply that came at a time. Replies to probes
// of different times that come all at once waited in a queue that is empty now:
// the one that was sent last tells more than their mean.
func (e *estimator) arrived(at time.Time, r time.Duration) {
	sent := at.Add(-r)
	switch {
	case at.Sub(e.last) >= clockGrain:
		e.drained = 0
	case sent.Sub(e.sent).Abs() > minTimeout:
		e.drained++
	}
	newest := sent.After(e.sent)
	e.last, e.sent = at, later(e.sent, sent)
	switch {
	case e.drained < quickInARow:
		e.add(r)
	case newest:
		e.srtt, e.rttvar, e.measured, e.quick = r, r/2, true, 0
	}
}

func (e *estimator) add(r time.Duration) {
	if e.quick++; r >= e.srtt/2 {
		e.quick = 0
	}
	if !e.measured || e.quick == quickInARow {
		e.srtt, e.rttvar, e.measured, e.quick = r, r/2, true, 0
		return
	}
	e.rttvar += ((e.srtt - r).Abs() - e.rttvar) / 4
	e.srtt += (r - e.srtt) / 8
}

// timeout is how long a probe may take before it counts as lost.
func (e *estimator) timeout(fixed time.Duration) time.Duration {
	if fixed > 0 {
		return fixed
	}
	if !e.measured {
		return maxTimeout
	}
	return min(max(e.srtt+max(clockGrain, 4*e.rttvar), minTimeout), maxTimeout)
}

// settle is how much silence fells a line: base, or for long round trips the
// time-out that sets off the burst and what the burst's first replies need.
// They get two mean deviations instead of four: they are several.
//
// With round trips below 150 ms, however they jump, the second term stays below
// 660 ms.
func (e *estimator) settle(base, fixed time.Duration) time.Duration {
	t := e.timeout(fixed)
	if !e.measured {
		return max(base, t+t/2)
	}
	return max(base, t+min(e.srtt+2*e.rttvar, 2*maxTimeout))
}
