package failover

import (
	"math/rand/v2"
	"time"
)

// buffer is a queue in front of a slow link, filled by a transfer that its
// acknowledgements clock (TCP's slow start): it grows by as much as it drains.
type buffer struct {
	w      *world
	id     LineID
	base   time.Duration // the round trip when it is empty
	slope  float64       // seconds of queue a second; 0: as it is
	queue  time.Duration // at the time since
	since  time.Time
	most   time.Duration
	jitter time.Duration
}

func (w *world) buffer(id LineID, base time.Duration) *buffer {
	b := &buffer{w: w, id: id, base: base, since: w.now, jitter: 5 * time.Millisecond}
	w.paths[id].rtt = func(r *rand.Rand, at time.Time) time.Duration {
		return b.base + b.at(at) + time.Duration(r.Int64N(int64(b.jitter)))
	}
	return b
}

// at is the queue at a time.
func (b *buffer) at(t time.Time) time.Duration {
	q := b.queue + time.Duration(b.slope*float64(t.Sub(b.since)))
	return max(0, min(q, b.most))
}

func (b *buffer) turn(now time.Time, slope float64, most time.Duration) {
	q := b.at(now)
	if q > most {
		most = q
	}
	b.queue, b.since, b.slope, b.most = q, now, slope, most
}

// fill starts a transfer at d that fills the buffer to most, whose answers come
// at a pace, and which loses some when it is full.
func (b *buffer) fill(d, most time.Duration, packets, loss float64) {
	b.w.at(d, func() {
		p := b.w.paths[b.id]
		p.load(b.w.now, packets, 0.2)
		b.turn(b.w.now, 1, most)
	})
	b.w.at(d+most, func() { b.w.paths[b.id].loss = loss })
}

// drain ends the transfer.
func (b *buffer) drain(d time.Duration) {
	b.w.at(d, func() {
		p := b.w.paths[b.id]
		p.loss = 0
		b.turn(b.w.now, -1, b.most)
		b.w.push(b.w.now.Add(b.at(b.w.now)), func() { p.load(b.w.now, 0.5, 0.1) })
	})
}

// evening has a house use a line from d to end: transfers of all lengths that
// fill a buffer of up to 3 s, streams that fill none, pauses of all lengths; and
// what comes back comes in spurts. It returns when its last transfer is under way.
func (w *world) evening(id LineID, from, end time.Duration) (busy, until time.Duration) {
	b := w.buffer(id, 12*time.Millisecond)
	for d := from; d < end; {
		long := w.span(2*time.Second, 3*time.Minute)
		if w.r.IntN(5) == 0 {
			long = w.span(3*time.Minute, 20*time.Minute)
		}
		busy, until = d, d+long
		pace := 25 + w.r.Float64()*400
		switch w.r.IntN(4) {
		case 0: // a stream
			w.at(d, func() { w.paths[id].load(w.now, pace, 1) })
			w.at(d+long, func() { w.paths[id].load(w.now, 0.5, 0.1) })
		default:
			most := min(w.span(100*time.Millisecond, 3*time.Second), long/2)
			b.fill(d, most, pace, w.r.Float64()*0.15)
			for at := d + most; at < d+long-time.Second; at += w.span(2*time.Second, 20*time.Second) {
				w.at(at, func() { w.paths[id].load(w.now, 0, 0) }) // a hiccup
				w.at(at+w.span(10*time.Millisecond, 300*time.Millisecond), func() { w.paths[id].load(w.now, pace, 0.5) })
			}
			b.drain(d + long)
			long += 2 * most
		}
		d += long + w.span(time.Second, 5*time.Minute)
	}
	return busy, until
}
