package failover

import (
	"fmt"
	"time"
)

// house is a simulated house whose lines fail by a script, and the book that is
// kept beside the machine of what the house had of it.
type house struct {
	*world
	fiber, lte *path

	since   time.Time
	unused  time.Duration // a line worked, and none that did was in use
	faults  int           // of a line in use, or one that was taken before its fault could be known
	acted   time.Duration // the longest from an outage to its being acted on
	late    time.Duration // the longest that fiber was used after the time that was shown
	backs   int           // times that it was in use again as shown
	seen    int           // of the log
	free    int           // moves from a line that worked
	promise time.Time     // when fiber is to be used again; zero: nothing is shown
	count   int           // of moves
	broken  []string      // what did not hold
}

func newHouse(cfg Config, seed uint64) *house {
	w := start(cfg, seed)
	h := &house{world: w, fiber: w.paths[fiber], lte: w.paths[lte], since: w.now}
	w.before, w.after = h.book, h.hold
	return h
}

func (p *path) works() bool { return !p.cut && !p.bare && !p.heldUp }

func (h *house) breaks(format string, args ...any) {
	h.broken = append(h.broken, fmt.Sprintf("at %v ", h.now.Sub(epoch))+fmt.Sprintf(format, args...))
}

// book counts the time without a working line though one worked.
func (h *house) book() {
	if h.fiber.works() || h.lte.works() {
		if use := h.used(); use == "" || use == "fiber" && !h.fiber.works() || use == "lte" && !h.lte.works() {
			h.unused += h.now.Sub(h.since)
		}
	}
	h.since = h.now
}

// hold has the machine keep what it showed first in each spell in which fiber
// works: the time at which it will be used again.
func (h *house) hold() {
	for ; h.seen < len(h.log); h.seen++ {
		c := h.log[h.seen]
		if c.Choice && (c.FromWAN == "fiber" && h.fiber.works() || c.FromWAN == "lte" && h.lte.works()) {
			h.free++
		}
		if to := map[string]*path{"fiber": h.fiber, "lte": h.lte}[c.ToWAN]; c.Choice && to != nil && !to.works() && h.now.Sub(to.failed) < aSecond {
			h.faults++
		}
	}
	l := h.m.lines[0]
	switch {
	case !h.fiber.works() || h.fiber.loss > 0 || h.fiber.limit > 0 || h.used() == "":
		h.promise = time.Time{}
	case h.used() == "fiber":
		if !h.promise.IsZero() {
			h.backs++
			h.late = max(h.late, h.now.Sub(h.promise))
		}
		h.promise = time.Time{}
	case !h.promise.IsZero():
		if h.now.Sub(h.promise) > 10*ms {
			h.breaks("fiber is %v and not in use, as it was to be at %v", l.verdict, h.promise.Sub(epoch))
			h.promise = time.Time{}
		}
	case l.verdict == Up:
		h.breaks("fiber is up and not in use")
	case l.verdict == Returning && !l.goodSince.IsZero():
		h.promise = l.goodSince.Add(l.owes(h.m))
		if h.promise.Sub(h.now) > l.owes(h.m) || h.promise.Before(h.now) {
			h.breaks("%v is shown with a hold-down of %v", h.promise.Sub(epoch), l.owes(h.m))
		}
	}
}

func (h *house) fault(p *path) {
	if p.works() {
		p.failed = h.now
	}
	if use := h.used(); p.works() && (use == "fiber" && p == h.fiber || use == "lte" && p == h.lte) {
		h.faults++
	}
}

// span is a random time between lo and hi.
func (w *world) span(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.r.Int64N(int64(hi-lo)))
}

// outage cuts a line from at until until.
func (h *house) outage(p *path, at, until time.Duration) {
	h.at(at, func() { h.fault(p); p.sever(h.now, true) })
	h.at(until, func() { p.sever(h.now, false) })
}

// unleased takes a line's lease from at until until, as the DHCP client tells it.
func (h *house) unleased(id LineID, at, until time.Duration) {
	h.at(at, func() { h.fault(h.paths[id]); h.paths[id].bare = true; h.m.Line(h.now, id, false) })
	h.at(until, func() { h.paths[id].bare = false; h.m.Line(h.now, id, true) })
}

// leaves runs until the house has left fiber, which failed at d, or, if it has no
// other, until fiber is down; and for most at most.
func (h *house) leaves(d, most time.Duration) {
	h.run(d)
	for h.now.Sub(epoch) < d+most && h.used() == "fiber" {
		h.run(min(h.now.Sub(epoch)+5*ms, d+most))
	}
	took := h.now.Sub(epoch) - d
	h.acted = max(h.acted, took)
	if h.used() == "fiber" {
		h.breaks("not acted on within %v", most)
	}
}

// rests runs until fiber is in use again, for which it has two hours.
func (h *house) rests() {
	for end := h.now.Add(2 * time.Hour); h.now.Before(end) && h.used() != "fiber"; {
		h.run(h.now.Sub(epoch) + sec)
	}
	if h.used() != "fiber" {
		h.breaks("fiber works and was not used again in two hours")
	}
}

// moved counts the moves since d.
func (h *house) moved(d time.Duration) int { return len(h.moves(d)) }
