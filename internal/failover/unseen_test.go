package failover

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

// first keeps the seeds of the houses apart from those that anything was tuned
// with: other tests count from 0, and what was mended for a house was mended for
// one below 4,500,000.
var first = flag.Int("first", 5_000_000, "the first seed of TestPromises")

// What a house is promised holds on every trace, with seeds that nothing was
// tuned with. The table of docs/failover.md is
//
//	go test ./internal/failover -run TestPromises -v -seeds=500 -timeout 2h
func TestPromises(t *testing.T) {
	for i, tr := range traces(day()) {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			seeds := 2 * *seeds
			if testing.Short() { // on an emulated processor
				seeds = 1
			}
			var sum sums
			began := time.Now()
			for n := range seeds {
				h := tr.run(uint64(*first+100_000*i+n), nil)
				if len(h.broken) > 0 {
					h.dump(t)
					t.Errorf("seed %d: %q", *first+100_000*i+n, h.broken)
				}
				sum.add(h)
			}
			t.Logf("| %s | %d | %s | %d%s | %s | %s |", tr.name, seeds, few(sum.moves, tr.most),
				sum.backs, ifAny(sum.backs, fmt.Sprintf(", %v late", sum.late.Round(ms))), worst(sum.mean, tr.a), worst(sum.acted, tr.act))
			t.Logf("took %v", time.Since(began).Round(ms))
		})
	}
}

// run plays the trace once. sabotage, if any, is done after each judgement.
func (tr trace) run(seed uint64, sabotage func(*house)) *house {
	h := newHouse(tr.cfg(), seed)
	if sabotage != nil {
		h.after = func() { sabotage(h); h.hold() }
	}
	h.count = tr.play(h)
	if h.count > tr.most {
		h.breaks("%d moves, want %d at most", h.count, tr.most)
	}
	if h.faults > 0 && tr.a > 0 && h.unused > time.Duration(h.faults)*tr.a {
		h.breaks("%v without a working line though one worked, in %d faults", h.unused, h.faults)
	}
	return h
}

// sums are the worst of all houses of a trace.
type sums struct {
	moves, backs      int
	mean, acted, late time.Duration
}

func (s *sums) add(h *house) {
	s.moves, s.backs = max(s.moves, h.count), s.backs+h.backs
	s.mean = max(s.mean, h.unused/time.Duration(max(h.faults, 1)))
	s.acted, s.late = max(s.acted, h.acted), max(s.late, h.late)
}

func few(n, most int) string { return fmt.Sprintf("%d of %d", n, most) }

func ifAny(n int, s string) string {
	if n == 0 {
		return ""
	}
	return s
}

func worst(d, most time.Duration) string {
	if most == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f of %.2f s", d.Seconds(), most.Seconds())
}

// What a line costs that is up for about two minutes and away for about three, by
// the file's hold_down: the table of docs/failover.md is
//
//	go test ./internal/failover -run TestSlowFlapping -v -seeds=100
func TestSlowFlapping(t *testing.T) {
	for i, c := range []struct {
		hold      time.Duration
		hour, day int // moves at most
	}{
		{30 * sec, 8, 8},
		{3 * time.Minute, 2, 2},
		{time.Hour, 2, 2},
	} {
		for _, long := range []time.Duration{time.Hour, day()} {
			most := map[bool]int{true: c.hour, false: c.day}[long == time.Hour]
			worst, wasted, faults := 0, time.Duration(0), 0
			for n := range *seeds {
				h := newHouse(holding(c.hold)(), uint64(*first+10_000_000+100_000*i+n))
				moves := h.flaps(long, 100*sec, 140*sec, 150*sec, 210*sec)
				worst, faults = max(worst, moves), faults+h.faults
				wasted += h.unused
				if moves > most || len(h.broken) > 0 {
					t.Errorf("hold_down %v, seed %d: %d moves in %v, want %d at most; %q", c.hold, *first+10_000_000+100_000*i+n, moves, long, most, h.broken)
				}
			}
			t.Logf("| %v | %v | %d | %.1f s |", c.hold, long, worst, wasted.Seconds()/float64(*seeds))
		}
	}
}
