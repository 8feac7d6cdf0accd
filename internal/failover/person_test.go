package failover

import (
	"testing"
	"time"
)

// A person's choice is taken at once, stays whatever its figures, gives way when
// it fails and comes back after its hold-down; auto goes back at once.
func TestPersonsChoice(t *testing.T) {
	w := start(calm(), 1)
	w.run(30 * sec)
	w.m.Use(w.now, "lte")
	w.step()
	w.mustUse(t, "lte")
	w.at(60*sec, func() { w.paths[lte].loss = 0.4 })
	w.run(600 * sec)
	w.mustUse(t, "lte")
	w.mustBe(t, lte, Degraded)
	w.paths[lte].loss = 0
	w.cut(700*sec, 720*sec, lte)
	w.run(701 * sec)
	w.mustUse(t, "fiber")
	w.run(748 * sec)
	w.mustUse(t, "fiber")
	w.run(755 * sec)
	w.mustUse(t, "lte")
	if s := w.m.Status(); s.Person != "lte" {
		t.Errorf("chosen by hand: %q", s.Person)
	}

	w.cut(800*sec, 820*sec, lte)
	w.run(822 * sec)
	w.mustUse(t, "fiber")
	w.m.Use(w.now, "lte") // said again: without the rest of the hold-down
	w.step()
	w.mustUse(t, "lte")

	w.m.Use(w.now, "")
	w.step()
	w.mustUse(t, "fiber")
}

// A WAN that is left out of prefer can be chosen; one that is not there is as
// good as none; and a family that the chosen one has not stays where it is.
func TestPersonsChoiceOfAnyLine(t *testing.T) {
	cfg := calm()
	cfg.Prefer = cfg.Prefer[:1]
	w := start(cfg, 1)
	six := LineID{"fiber", IPv6}
	w.paths[six] = &path{rtt: fixed(20 * ms)}
	w.m.Line(w.now, six, true)
	w.run(10 * sec)
	w.m.Use(w.now, "lte")
	w.step()
	w.mustUse(t, "lte")
	if use := w.m.Status().Use6.WAN; use != "fiber" {
		t.Errorf("IPv6 uses %q, want fiber: lte has none", use)
	}
	w.m.Use(w.now, "gone")
	w.step()
	w.mustUse(t, "fiber")
}

// A choice that was made before a restart moves nothing at it.
func TestPersonsChoiceAtAStart(t *testing.T) {
	w := newWorld(calm(), 1)
	w.m.Use(w.now, "lte")
	w.m.Adopt(w.now, Adoption{Use4: "fiber"})
	w.up()
	w.run(20 * sec)
	w.mustNotMove(t, -1)
	w.run(40 * sec)
	w.mustUse(t, "lte") // it served its hold-down
}

// A metered line in use is asked every 30 s when it is quiet. While its traffic
// is answered it is asked even less, and read once a second.
func TestMeteredInUse(t *testing.T) {
	cfg := calm()
	cfg.WANs[0].Metered = true
	w := start(cfg, 1)
	w.run(10 * sec)
	before := w.paths[fiber].probes
	w.run(310 * sec)
	if n := w.paths[fiber].probes - before; n > 11 {
		t.Errorf("%d probes in five quiet minutes, want 10", n)
	}
	w.paths[fiber].load(w.now, 50, 3)
	before, reads := w.paths[fiber].probes, w.reads[fiber]
	w.run(610 * sec)
	if n := w.paths[fiber].probes - before; n > 1 {
		t.Errorf("%d probes in five minutes of traffic that is answered, want none", n)
	}
	if n := w.reads[fiber] - reads; n < 299 || n > 302 {
		t.Errorf("%d readings in five minutes, want one a second", n)
	}
	w.mustNotMove(t, 0)

	w.paths[fiber].load(w.now, 50, 0) // one long download
	before = w.paths[fiber].probes
	w.run(910 * sec)
	if n := w.paths[fiber].probes - before; n > 32 {
		t.Errorf("%d probes in five minutes of a download, want one every 10 s", n)
	}
}

// An outage of a metered line is found soon after its traffic stops, and in
// silence by the next probe.
func TestMeteredOutage(t *testing.T) {
	for _, c := range []struct {
		packets float64
		most    time.Duration
	}{{50, 3 * sec}, {0, 31 * sec}} {
		var worst time.Duration
		for phase := time.Duration(0); phase < sec; phase += 37 * ms {
			cfg := calm()
			cfg.WANs[0].Metered = true
			w := start(cfg, 1)
			w.paths[fiber].load(w.now, c.packets, c.packets/20)
			cut := 100*sec + phase
			w.at(cut, func() { w.paths[fiber].sever(w.now, true) })
			w.run(cut + 40*sec)
			w.mustUse(t, "lte")
			worst = max(worst, w.moves(sec)[0].at-cut)
		}
		t.Logf("with %v packets a second acted on after %v at most", c.packets, worst)
		if worst > c.most {
			t.Errorf("acted on after %v, want %v", worst, c.most)
		}
	}
}

// Counters that were set back, and readings out of order, prove nothing.
func TestCountersSetBack(t *testing.T) {
	w := start(calm(), 1)
	w.run(10 * sec)
	for _, c := range []Counts{{1000, 100}, {5, 0}, {900, 90}} {
		w.m.Traffic(w.now, fiber, c)
		w.m.Traffic(w.now.Add(-sec), fiber, Counts{1 << 40, 1 << 40})
		w.m.Traffic(w.now, LineID{"gone", IPv4}, c)
		w.run(w.now.Sub(epoch) + ms)
	}
	w.paths[fiber].counts = [2]float64{}
	w.cut(11*sec, 20*sec, fiber)
	w.run(12 * sec)
	w.mustUse(t, "lte")
}
