package failover

import "time"

const (
	longest  = time.Hour // the hold-down doubles up to this, unless the file says more
	forgives = time.Hour // of good time make one failure forgotten
)

// trouble is how a line failed of late, and what it owes for that.
//
// Failures within the hold-down of the one that was counted last are the same
// trouble and count once. So a cable that is plugged in badly costs one hold-down,
// and a line that goes on failing has to be good about as long as it was bad.
type trouble struct {
	failures  int       // counted and not forgotten yet
	failedAt  time.Time // when the last was counted
	goodSince time.Time // start of the unbroken good time; zero: it is not good
	forgiven  time.Time // when the last was forgotten
}

// failed books a failure. A line that never answered has none.
func (l *line) failed(m *Machine, now time.Time) {
	if l.steady = false; l.fresh {
		return
	}
	l.forgive(now)
	if l.again(m, now) {
		return
	}
	l.failedAt = now
	if l.after(m, l.failures) < max(longest, m.cfg.HoldDown) {
		l.failures++
	}
}

// again says whether a failure now would be the same trouble.
func (l *line) again(m *Machine, now time.Time) bool {
	return l.failures > 0 && now.Sub(l.failedAt) < l.owes(m)
}

// after is the hold-down after so many failures.
func (t *trouble) after(m *Machine, failures int) time.Duration {
	d, most := m.cfg.HoldDown, max(longest, m.cfg.HoldDown)
	for range failures - 1 {
		d = min(2*d, most)
	}
	return d
}

// owes is the good time after a failure.
func (t *trouble) owes(m *Machine) time.Duration { return t.after(m, t.failures) }

// next is what it would owe if it failed now.
func (l *line) nextHoldDown(m *Machine, now time.Time) time.Duration {
	if l.again(m, now) {
		return l.owes(m)
	}
	return l.after(m, l.failures+1)
}

// forgive forgets failures for good time.
func (t *trouble) forgive(now time.Time) {
	if t.goodSince.IsZero() {
		return
	}
	for from := later(t.goodSince, t.forgiven); t.failures > 0 && now.Sub(from) >= forgives; t.failures-- {
		from = from.Add(forgives)
		t.forgiven = from
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
