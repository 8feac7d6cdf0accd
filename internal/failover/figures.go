package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	historyLen = 64 // probes that the loss is from
	latencyLen = 16 // answered ones that the latency is from
	judgeFrom  = 32 // probes from which on the loss is judged, at latencyLen the latency

	// patience is how long a line has to be degraded before new connections leave
	// it: longer than what a transfer of the house does to its figures.
	patience = 10 * time.Second

	// A target is shy if it loses more than the one that loses least, of so many
	// probes and of so many, by so many standard deviations, squared: chance makes
	// it so once in a hundred times.
	shyFrom  = 4
	bestFrom = 8
	shyBy    = 7

	// A line that loses less than the one in use is clearly better if of as many of
	// its probes as sample, sent since that is bad, hardly any was lost; or at most
	// half as many for doubtful. With less, chance would choose between two lines
	// that lose equally, as it has an hour for it.
	sample   = 40
	doubtful = 30 * time.Second

	// queued is by how much a full buffer lengthens round trips at least.
	queued = 80 * time.Millisecond
)

// figures are what a line's regular probes show, and what is thought of it.
type figures struct {
	history []outcome // ring of regular probes
	oldest  int
	lost    int  // of them
	shy     int  // outcomes of targets that answer much less than the best one
	shyLost int  // of them
	changed bool // since they were judged

	lossy, slow, hollow bool
	badSince            time.Time // since when it is bad without the house's own doing
	badFrom             uint64    // the last probe before
	betterSince         time.Time // it loses half as much as the line in use
	own                 bool      // the house's own traffic fills a buffer and makes it so
	quickest
}

type outcome struct {
	id   uint64
	of   *target
	lost bool
	rtt  time.Duration // if not lost
}

// record notes the outcome of a regular probe; a late reply corrects its loss.
func (f *figures) record(p *asked, o outcome) {
	f.changed = true
	if o.lost {
		f.lost++
	}
	o.id, o.of = p.id, p.target
	if p.booked {
		if i := slices.IndexFunc(f.history, func(h outcome) bool { return h.id == o.id }); i >= 0 {
			f.replace(i, o)
			return
		}
	}
	p.booked = true
	if len(f.history) < historyLen {
		f.history = append(f.history, o)
		return
	}
	f.replace(f.oldest, o)
	f.oldest = (f.oldest + 1) % historyLen
}

func (f *figures) replace(i int, o outcome) {
	if f.history[i].lost {
		f.lost--
	}
	f.history[i] = o
}

// quickest is the least round trip of the last one or two hours.
type quickest struct {
	hour, before time.Duration // 0: none measured
	since        time.Time     // of hour
}

func (q *quickest) add(now time.Time, rtt time.Duration) {
	if now.Sub(q.since) >= time.Hour {
		*q = quickest{before: q.hour, since: now}
	}
	if q.hour == 0 || rtt < q.hour {
		q.hour = rtt
	}
}

func (q *quickest) least() time.Duration {
	if q.before != 0 && q.before < q.hour {
		return q.before
	}
	return q.hour
}

// anew forgets the figures: they were of an outage, or of a full buffer.
func (f *figures) anew() { *f = figures{history: f.history[:0], quickest: f.quickest} }

// loss is in percent, of the targets that count.
func (f *figures) loss() float64 {
	return 100 * float64(f.lost-f.shyLost) / float64(max(len(f.history)-f.shy, 1))
}

// shun leaves out of the loss what targets lose by limiting their replies: a line
// loses about as much to all.
func (l *line) shun() {
	l.shy, l.shyLost = 0, 0
	for _, t := range l.targets {
		t.asked, t.lost, t.shy = 0, 0, false
	}
	if l.lost == 0 {
		return
	}
	for i := range l.history {
		o := &l.history[i]
		if o.of.asked++; o.lost {
			o.of.lost++
		}
	}
	var best *target
	for _, t := range l.targets {
		if t.asked >= bestFrom && (best == nil || t.lost*best.asked < best.lost*t.asked) {
			best = t
		}
	}
	for _, t := range l.targets {
		if t.shy = best != nil && t.asked >= shyFrom && t.losesMore(best); t.shy {
			l.shy, l.shyLost = l.shy+t.asked, l.shyLost+t.lost
		}
	}
}

// losesMore is the test of two proportions.
func (t *target) losesMore(than *target) bool {
	n, m := float64(t.asked), float64(than.asked)
	more := float64(t.lost)/n - float64(than.lost)/m
	p := float64(t.lost+than.lost) / (n + m)
	return more > 0 && more*more > shyBy*p*(1-p)*(1/n+1/m)
}

// latency is the median of the latest that were answered; n is of how many.
func (f *figures) latency() (d time.Duration, n int) {
	var rtts [latencyLen]time.Duration
	for i := len(f.history) - 1; i >= 0 && n < latencyLen; i-- {
		if o := f.history[(f.oldest+i)%len(f.history)]; !o.lost {
			rtts[n] = o.rtt
			n++
		}
	}
	if n == 0 {
		return 0, 0
	}
	slices.Sort(rtts[:n])
	return rtts[n/2], n
}

// slower says whether the median of the latest round trips, of which there are at
// least so many, is above d. It is asked at every reply, and sorts nothing.
func (f *figures) slower(d time.Duration, least int) bool {
	n, above := 0, 0
	for i := len(f.history) - 1; i >= 0 && n < latencyLen; i-- {
		if o := &f.history[(f.oldest+i)%len(f.history)]; !o.lost {
			n++
			if o.rtt > d {
				above++
			}
		}
	}
	return n >= least && above >= n-n/2
}

func (f *figures) bad() bool { return f.lossy || f.slow || f.hollow }

// figure judges the line's figures. What is bad stays so until it is clearly better
// than the threshold: half the loss (a quarter, if the line was left), three
// quarters of the latency.
func (l *line) figure(m *Machine, now time.Time) {
	if !l.changed {
		return
	}
	l.changed = false
	l.shun()
	loss, n := l.loss(), len(l.history)
	t := m.cfg.Degraded
	was, wasOwn := l.bad(), l.own
	over := t.Loss / 2
	if !l.inUse { // chance has an hour to make it look better
		over = t.Loss / 4
	}
	l.lossy = t.Loss > 0 && (n >= judgeFrom && loss > t.Loss || l.lossy && loss > over)
	l.slow = t.Latency > 0 && (l.slower(t.Latency, latencyLen) || l.slow && l.slower(t.Latency*3/4, 1))
	l.suspectEchoes(now)
	l.hollow = m.isHollow(l, now)
	if l.own = (l.slow || l.lossy) && l.busy(now) && l.slower(l.least()+queued, 1); wasOwn && !l.own {
		l.anew() // what a full buffer lost says nothing about the line
		if l.goodSince.IsZero() {
			l.goodSince = now
		}
	}
	if !l.bad() || l.own && !l.hollow {
		l.badSince = time.Time{}
	} else if l.badSince.IsZero() {
		l.badSince, l.badFrom = now, m.lastID
	}
	switch {
	case l.bad():
		l.goodSince = time.Time{}
	case was:
		l.goodSince = now
	}
	if l.verdict == Up || l.verdict == Returning || l.verdict == Degraded {
		switch v := l.standing(); {
		case v == Degraded && l.verdict == Degraded:
		case v == Degraded:
			l.enter(m, now, v, l.badWhy())
		case l.verdict == Degraded && v == Returning:
			l.enter(m, now, v, fmt.Sprintf("better again; to be good for %v", l.owes(m)))
		case l.verdict == Degraded:
			l.enter(m, now, v, "better again")
		}
	}
}

// badWhy says what is bad about the figures, as they are now.
func (l *line) badWhy() string {
	var why []string
	if l.lossy {
		why = append(why, fmt.Sprintf("%.0f %% of the probes are lost", l.loss()))
	}
	if l.slow {
		latency, _ := l.latency()
		why = append(why, fmt.Sprintf("answers take %v", latency.Round(10*time.Millisecond)))
	}
	if l.hollow {
		why = append(why, "it answers pings and nothing else")
	}
	s := strings.Join(why, ", ")
	if l.own {
		s += ", by the house's own traffic"
	}
	return s
}

// isHollow says whether a line carries echoes and nothing else: every target that
// is asked in another way, and was answered before, is deaf here, one of them has
// answered by another line since, and the house's own conversations have stopped. So
// neither a dead server is held against it, nor a port that this ISP never let
// through, or lets through no more.
func (m *Machine) isHollow(l *line, now time.Time) bool {
	switch {
	case l.echoesSince.IsZero(), l.disproved():
		return false
	case l.inUse && !l.unheard(now):
		return l.hollow
	}
	for _, t := range l.targets {
		if t.Kind != Echo && !t.last.IsZero() && m.answeredElsewhere(l, t) {
			return true
		}
	}
	return false
}

func (m *Machine) answeredElsewhere(l *line, t *target) bool {
	for _, o := range m.lines {
		if o == l || o.id.Family != l.id.Family || !o.verdict.Works() {
			continue
		}
		for _, u := range o.targets {
			if u.Target == t.Target && !u.deaf() && u.last.After(t.last) {
				return true
			}
		}
	}
	return false
}

// tooBad says whether new connections should leave the line for a better one.
func (l *line) tooBad(now time.Time) bool {
	return l.verdict == Degraded && (l.hollow || !l.badSince.IsZero() && now.Sub(l.badSince) >= patience)
}

// betterThan says whether the line is clearly better than one that is degraded. A
// line that is paid by volume is not taken because another one is slow.
func (l *line) betterThan(m *Machine, now time.Time, o *line) bool {
	loss := l.loss()
	latency, answered := l.latency()
	t := m.cfg.Degraded
	switch {
	case o.hollow: // then any line that carries something is, whatever it owes
		return l.verdict == Up || l.verdict == Returning || l.verdict == Degraded && !l.hollow
	case l.verdict != Up, len(l.history) < latencyLen, answered == 0,
		t.Loss > 0 && loss > t.Loss/2, t.Latency > 0 && latency > t.Latency*3/4:
		l.betterSince = time.Time{}
		return false
	case o.lossy:
		return l.losesLess(now, o)
	}
	theirs, _ := o.latency()
	return !l.metered && 2*latency <= theirs
}

func (l *line) losesLess(now time.Time, o *line) bool {
	n, lost := 0, 0
	for i := range l.history {
		if h := &l.history[i]; h.id > o.badFrom {
			if n++; h.lost {
				lost++
			}
		}
	}
	switch {
	case 2*l.loss() > o.loss():
		l.betterSince = time.Time{}
	case n < sample:
	case lost*sample <= n:
		return true
	case l.betterSince.Before(o.badSince):
		l.betterSince = now
	default:
		return now.Sub(l.betterSince) >= doubtful
	}
	return false
}
