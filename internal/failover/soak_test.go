package failover

import (
	"testing"
	"time"
)

// firstSeed keeps the seeds of the soak apart from those that other tests use.
const firstSeed = 1 << 20

// ledger books, beside the machine, for how long no line in use worked though one
// could have been used, and how many faults there were.
type ledger struct {
	w      *world
	fiber  *path
	lte    *path
	since  time.Time
	unused time.Duration // one worked, and none that did was in use
	faults int
}

func (g *ledger) book() {
	if !g.fiber.cut || !g.lte.cut {
		if use := g.w.used(); use == "" || use == "fiber" && g.fiber.cut || use == "lte" && g.lte.cut {
			g.unused += g.w.now.Sub(g.since)
		}
	}
	g.since = g.w.now
}

func (g *ledger) outage(at, until time.Duration, id LineID) {
	g.w.at(at, func() { g.faults++; g.w.paths[id].sever(g.w.now, true) })
	g.w.at(until, func() { g.w.paths[id].sever(g.w.now, false) })
}

// run goes on until d, booking at every event.
func (g *ledger) run(d time.Duration) {
	g.w.before = g.book
	g.w.run(d)
	g.book()
	g.w.before = nil
}

// An hour of flapping, one second to 25 up and one to 40 down, makes one move
// away and one back, within the hold-down that is shown; with the other line
// failing now and then too, the house is without a working line at most for as
// long as none worked and a second a fault.
func TestAnHourOfFlapping(t *testing.T) {
	houses := uint64(5 * *seeds)
	if testing.Short() { // on an emulated processor
		houses = 1
	}
	for n := range houses {
		for _, both := range []bool{false, true} {
			w := start(calm(), firstSeed+n)
			g := &ledger{w: w, fiber: w.paths[fiber], lte: w.paths[lte], since: w.now}
			span := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(w.r.Int64N(int64(hi-lo))) }
			w.paths[fiber].rtt = uniform(5*ms, 100*ms)
			at := span(5*sec, 60*sec)
			for at < time.Hour {
				down := span(sec, 40*sec)
				g.outage(at, at+down, fiber)
				at += down + span(sec, 25*sec)
			}
			if both {
				for on := span(0, 10*time.Minute); on < time.Hour; on += span(time.Minute, 20*time.Minute) {
					down := span(sec, 60*sec)
					g.outage(on, on+down, lte)
					on += down
				}
			}
			g.run(at + sec)
			if g.unused > time.Duration(g.faults)*sec {
				w.dump(t)
				t.Fatalf("seed %d: %v without a working line though one worked, in %d faults", n, g.unused, g.faults)
			}
			if both {
				continue
			}
			w.returns(t)
			if moves := len(w.moves(sec)); moves != 2 {
				w.dump(t)
				t.Fatalf("seed %d: %d moves, want 2", n, moves)
			}
		}
	}
}

// A day of evening load on a line moves nothing, and neither does an evening of
// each seed; an outage in the midst of a transfer is acted on within 1.5 s.
func TestEveningLoad(t *testing.T) {
	load := func(t *testing.T, seed uint64, long time.Duration) {
		w := start(calm(), firstSeed+seed)
		w.evening(fiber, 10*sec, long)
		cut := long - time.Duration(w.r.Int64N(int64(time.Minute)))
		w.at(cut, func() { w.paths[fiber].sever(w.now, true) })
		for w.now.Before(epoch.Add(cut-ms)) && len(w.moves(0)) == 0 {
			w.run(min(cut-ms, w.now.Sub(epoch)+time.Minute))
		}
		if len(w.moves(0)) > 0 {
			w.dump(t)
			t.Fatalf("seed %d: moved", seed)
		}
		w.run(cut + 1500*ms)
		if w.used() != "lte" {
			w.dump(t)
			t.Fatalf("seed %d: cut at %v and not acted on within 1.5 s", seed, cut)
		}
	}
	t.Run("day", func(t *testing.T) {
		t.Parallel()
		day := 24 * time.Hour
		if testing.Short() {
			day = 2 * time.Hour
		}
		for n := range uint64(*seeds) {
			load(t, n, day)
		}
	})
	t.Run("evening", func(t *testing.T) {
		t.Parallel()
		for n := range uint64(5 * *seeds) {
			load(t, 1000+n, time.Hour)
		}
	})
}
