package failover

import (
	"slices"
	"testing"
	"time"
)

// trace is something that lines do to a house, and what the house is promised.
type trace struct {
	name string
	most int           // moves
	a    time.Duration // without a working line though one worked, a fault
	act  time.Duration // in which an outage is acted on
	cfg  func() Config
	play func(h *house) (moves int)
}

const (
	aSecond  = sec       // without a line, a fault
	underWay = 1500 * ms // to act on an outage in the midst of load
	// The same of a metered line, which is asked only then: a full buffer's round trip more,
	// which in one of a thousand days is longer than what comes back excuses.
	askedThen = 4500 * ms
	noFault   = time.Duration(0)
)

// traces are all that a house is held to, with days so long. Each is played with a
// thousand seeds.
func traces(day time.Duration) []trace {
	return []trace{
		{"flapping for an hour, 1-25 s up and 1-40 s down", 2, aSecond, noFault, calm, func(h *house) int {
			return h.flaps(time.Hour, sec, 25*sec, sec, 40*sec)
		}},
		{"flapping for ten minutes, 5 s up and 25 s down", 2, aSecond, noFault, calm, func(h *house) int {
			return h.flaps(10*time.Minute, 5*sec, 5*sec+1, 25*sec, 25*sec+1)
		}},
		// The hold-down is what keeps it from moving: it doubles from 30 s, so six
		// of them take more than half of the hour.
		{"flapping for an hour, 31 s to 5 min up and 1-40 s down", 13, aSecond, noFault, calm, func(h *house) int {
			return h.flaps(time.Hour, 31*sec, 5*time.Minute, sec, 40*sec)
		}},
		// From 30 s to an hour are eight hold-downs: it leaves eight times, and is back
		// after each but the last, which no time between two outages is as long as.
		{"flapping for a day, 31 s to 50 min up and 1-40 s down", 16, aSecond, noFault, calm, func(h *house) int {
			return h.flaps(day, 31*sec, 50*time.Minute, sec, 40*sec)
		}},
		// Here only moves from a line that worked count: others are due to the faults.
		{"flapping for an hour, and the other line fails too", 1, aSecond, noFault, calm, func(h *house) int {
			h.fails(h.lte, h.span(0, 10*time.Minute), time.Hour, time.Minute, 20*time.Minute, sec, 60*sec)
			h.flaps(time.Hour, sec, 25*sec, sec, 40*sec)
			return h.free
		}},
		{"a day of evening load, then an outage in its midst", 0, underWay, underWay, calm, func(h *house) int {
			return h.evenings(day, underWay)
		}},
		{"a day of evening load on a metered line, then an outage in its midst", 2, askedThen, askedThen, paid, func(h *house) int {
			return h.evenings(day, askedThen)
		}},
		{"full buffer of 0.5-5 s, up to 30 % lost", 0, underWay, underWay, calm, (*house).fullBuffer},
		{"full buffer of 0.5-5 s, up to 30 % lost, no other line", 0, noFault, underWay, only, (*house).fullBuffer},
		{"30 % loss for an hour", 1, noFault, noFault, calm, func(h *house) int {
			h.at(10*sec, func() { h.fiber.loss = 0.3 })
			h.run(time.Hour)
			return h.moved(sec)
		}},
		{"30 % loss of both lines for an hour, then an outage", 0, aSecond, aSecond, calm, (*house).lossy},
		{"30 % loss of the only line for an hour, then an outage", 0, noFault, aSecond, only, (*house).lossy},
		{"twenty blinks of the carrier, 50-500 ms", 2, aSecond, noFault, calm, func(h *house) int { return h.blinks(true) }},
		{"twenty blinks behind the modem, 50-500 ms", 0, aSecond, noFault, calm, func(h *house) int { return h.blinks(false) }},
		{"targets that limit their replies, an hour, then an outage", 0, aSecond, aSecond, calm, func(h *house) int {
			h.fiber.limited = map[Target]time.Time{}
			h.at(h.span(10*sec, 20*sec), func() {
				h.fiber.limit = h.span(300*ms, 3*sec)
				for _, t := range targets[:1+h.r.IntN(2)] {
					h.fiber.limited[t] = time.Time{}
				}
			})
			return h.thenOut(time.Hour, aSecond)
		}},
		{"all targets limit their replies under load", 1, noFault, noFault, calm, (*house).limited},
		{"all targets limit their replies under load, no other line, then an outage", 0, noFault, underWay, only, (*house).limited},
		{"everything but pings, then an outage", 0, underWay, underWay, severalKinds, func(h *house) int {
			h.at(h.span(10*sec, 60*sec), func() { h.fiber.only = map[Kind]bool{TCP: true, DNS: true} })
			return h.thenOut(time.Hour, underWay)
		}},
		{"pings and nothing else", 2, noFault, 7 * sec, severalKinds, func(h *house) int {
			at := h.span(30*sec, 60*sec)
			h.at(at, func() { h.fiber.only = map[Kind]bool{Echo: true} })
			h.leaves(at, 7*sec)
			h.run(20 * time.Minute)
			h.fiber.only = nil
			h.rests()
			return h.moved(sec)
		}},
		{"uplink dead, three downloads retransmit, or a stream goes on", 2, 3400 * ms, 3400 * ms, calm, func(h *house) int {
			return h.uplink(3400*ms, true)
		}},
		{"downlink dead in the midst of load", 2, aSecond, aSecond, calm, func(h *house) int { return h.uplink(aSecond, false) }},
		{"lease lost for 1 s to 2 min, three times in an hour", 6, aSecond, ms, calm, func(h *house) int {
			for n := range time.Duration(3) {
				at := n*20*time.Minute + h.span(sec, 10*time.Minute)
				h.unleased(fiber, at, at+h.span(sec, 2*time.Minute))
				h.leaves(at, ms)
			}
			h.rests()
			return h.moved(sec)
		}},
		{"both lines lost, and their leases, back in any order", 4, aSecond, noFault, calm, func(h *house) int {
			ids := []LineID{fiber, lte}
			slices.SortFunc(ids, func(LineID, LineID) int { return h.r.IntN(2)*2 - 1 })
			for _, id := range ids {
				at, back := h.span(10*sec, 15*sec), h.span(60*sec, 200*sec)
				h.outage(h.paths[id], at, back)
				if h.r.IntN(2) == 0 {
					h.unleased(id, at+h.span(10*sec, 40*sec), back+h.span(0, 5*sec))
				}
			}
			h.run(210 * sec)
			h.rests()
			return h.moved(sec)
		}},
		// Whoever has a line that flaps slowly says so: no time between two outages is
		// as long as the hold-down, so it is left once, and used again when it is well.
		{"flapping for an hour, 31 s to 4 min up and 1-40 s down, hold_down = 5m", 2, aSecond, noFault, holding(5 * time.Minute), func(h *house) int {
			return h.flaps(time.Hour, 31*sec, 4*time.Minute, sec, 40*sec)
		}},
		{"flapping for a day, 31 s to 50 min up and 1-40 s down, hold_down = 1h", 2, aSecond, noFault, holding(time.Hour), func(h *house) int {
			return h.flaps(day, 31*sec, 50*time.Minute, sec, 40*sec)
		}},
	}
}

// holding is calm, with another hold-down.
func holding(d time.Duration) func() Config {
	return func() Config {
		cfg := calm()
		cfg.HoldDown = d
		return cfg
	}
}

// rounds is how many of n are made: with -short, where a processor is emulated or
// watched, what was gone through once tells nothing new.
func rounds(n int) int {
	if testing.Short() {
		return max(n/8, 1)
	}
	return n
}

func day() time.Duration {
	if testing.Short() { // on an emulated processor
		return 2 * time.Hour
	}
	return 24 * time.Hour
}

func only() Config { return oneWAN(calm()) }

// paid has the house prefer a line that is paid by volume.
func paid() Config {
	cfg := calm()
	cfg.WANs[0].Metered = true
	return cfg
}

// fails cuts a line again and again from at until the script's end.
func (h *house) fails(p *path, at, end, upLo, upHi, downLo, downHi time.Duration) (times int) {
	for ; at < end; times++ {
		down := h.span(downLo, downHi)
		h.outage(p, at, at+down)
		at += down + h.span(upLo, upHi)
	}
	return times
}

func (h *house) flaps(long, upLo, upHi, downLo, downHi time.Duration) int {
	h.fiber.rtt = uniform(5*ms, 100*ms)
	first := h.span(5*sec, 60*sec)
	h.fails(h.fiber, first, long, upLo, upHi, downLo, downHi)
	h.run(first)
	h.run(long + downHi)
	h.rests()
	return h.moved(sec)
}

func (h *house) evenings(long, act time.Duration) int {
	busy, until := h.evening(fiber, 10*sec, long)
	cut := h.span(busy+sec, until)
	return h.thenOut(cut, act)
}

func (h *house) fullBuffer() int {
	b := h.buffer(fiber, h.span(5*ms, 60*ms))
	most, loss := h.span(500*ms, 5*sec), 0.3*h.r.Float64()
	b.fill(10*sec, most, 30+h.r.Float64()*400, loss)
	b.drain(100 * sec)
	b.fill(150*sec, most, 30+h.r.Float64()*400, loss)
	return h.thenOut(h.span(190*sec, 250*sec), underWay)
}

func (h *house) lossy() int {
	h.at(10*sec, func() { h.fiber.loss, h.lte.loss = 0.3, 0.3 })
	return h.thenOut(time.Hour, aSecond)
}

// thenOut runs until d, at which fiber fails, and holds the house to having moved
// before d not at all; then it mends, and the house goes back.
func (h *house) thenOut(d, act time.Duration) int {
	d += h.span(0, 250*ms)
	h.outage(h.fiber, d, d+30*sec)
	h.run(d - 1)
	n := h.moved(sec)
	h.leaves(d, act)
	h.run(d + 30*sec)
	h.queue = nil
	h.fiber.loss, h.lte.loss, h.fiber.limit = 0, 0, 0
	h.fiber.rtt = fixed(20 * ms)
	h.fiber.load(h.now, 0.5, 0.1)
	if len(h.m.cfg.WANs) > 1 {
		h.rests()
	}
	return n
}

// limited has each target answer once in some seconds; this looks like loss, but
// is no outage.
func (h *house) limited() int {
	h.fiber.limited = map[Target]time.Time{}
	h.at(h.span(10*sec, 20*sec), func() {
		h.fiber.limit = h.span(sec, 10*sec)
		for _, t := range targets {
			h.fiber.limited[t] = time.Time{}
		}
		h.fiber.load(h.now, 25+h.r.Float64()*400, 1+h.r.Float64()*5)
	})
	h.run(10 * time.Minute)
	if h.fell(fiber, 0) >= 0 {
		h.breaks("down without an outage")
	}
	if len(h.m.cfg.WANs) > 1 {
		return h.moved(sec)
	}
	return h.thenOut(10*time.Minute, underWay)
}

func (h *house) blinks(carrier bool) int {
	at := 10 * sec
	for n := range uint32(20) {
		long := h.span(50*ms, 500*ms)
		h.outage(h.fiber, at, at+long)
		if carrier {
			h.at(at, func() { h.m.Carrier(h.now, "fiber", false, n+1) })
			h.at(at+long, func() { h.m.Carrier(h.now, "fiber", true, n+1) })
		}
		at += long + h.span(50*ms, 500*ms)
	}
	h.run(at)
	h.rests()
	return h.moved(sec)
}

// uplink has the line's one direction die in the midst of three downloads. If it
// is the uplink, their peers go on repeating themselves as RFC 6298 has it, and
// who sends a stream notices nothing at all.
func (h *house) uplink(act time.Duration, up bool) int {
	h.at(5*sec, func() { h.fiber.load(h.now, 300, 3) })
	at, stream := h.span(20*sec, 21*sec), 100*float64(h.r.IntN(2))
	h.at(at, func() {
		h.fault(h.fiber)
		h.fiber.load(h.now, stream, 3)
		if h.fiber.heldUp = up; !up {
			h.fiber.sever(h.now, true)
		}
	})
	for range 3 {
		rto := h.span(200*ms, 400*ms)
		for again := at + rto; up && again < at+60*sec; again += rto {
			h.at(again, func() { h.fiber.counts[0]++ })
			rto *= 2
		}
	}
	h.leaves(at, act)
	h.at(at+60*sec, func() { h.fiber.heldUp = false; h.fiber.sever(h.now, false) })
	h.run(at + 60*sec)
	h.rests()
	return h.moved(sec)
}
