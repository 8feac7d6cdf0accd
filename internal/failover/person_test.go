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
	w.m.Use(w.now, "fiber") // which is in use: from now on because a person says so
	w.step()
	if use := w.m.Status().Use4; use.WAN != "fiber" || use.Why != chosen {
		t.Errorf("chosen while it was in use: %+v", use)
	}

	// Left to failover while the preferred one has its hold-down before it.
	w.cut(900*sec, 902*sec, fiber)
	w.run(904 * sec)
	w.m.Use(w.now, "lte")
	w.step()
	w.m.Use(w.now, "")
	w.step()
	if use := w.m.Status().Use4; use.WAN != "lte" || use.Why != "was "+chosen {
		t.Errorf("no longer chosen, and still in use: %+v", use)
	}
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
// is answered it is asked even less, and read once a second, or four times if the
// traffic is dense.
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
	for _, c := range []struct {
		packets float64
		reads   int
	}{{10, 300}, {50, 1200}} {
		w.paths[fiber].load(w.now, c.packets, 3)
		before, reads := w.paths[fiber].probes, w.reads[fiber]
		w.run(w.now.Sub(epoch) + 300*sec)
		if n := w.paths[fiber].probes - before; n > 1 {
			t.Errorf("%d probes in five minutes of traffic that is answered, want none", n)
		}
		if n := w.reads[fiber] - reads; n < c.reads-10 || n > c.reads+2 {
			t.Errorf("%d readings in five minutes at %v packets a second, want about %d", n, c.packets, c.reads)
		}
	}
	w.mustNotMove(t, 0)

	w.paths[fiber].load(w.now, 50, 0) // one long download
	before = w.paths[fiber].probes
	w.run(1210 * sec)
	if n := w.paths[fiber].probes - before; n > 32 {
		t.Errorf("%d probes in five minutes of a download, want one every 10 s", n)
	}
}

// An outage of a metered line is found soon after its traffic stops, or after what
// is begun brings nothing, and in silence by the next probe: if it is in use, if a
// route leads to it while another is in use, and if it was left with flows.
func TestMeteredOutage(t *testing.T) {
	for _, c := range []struct {
		about          string
		packets, begun float64 // what there is until the outage; what is begun stays
		metered        string
		routed         bool
		most           time.Duration
	}{
		{"in use, dense", 50, 0, "fiber", false, 1500 * ms},
		{"in use, sparse", 5, 0, "fiber", false, 3 * sec},
		{"in use, new flows", 0, 1, "fiber", false, 12 * sec},
		{"in use, quiet", 0, 0, "fiber", false, 31 * sec},
		{"of a route, dense", 50, 0, "lte", true, 1500 * ms},
		{"of a route, sparse", 5, 0, "lte", true, 3 * sec},
		{"of a route, new flows", 0, 1, "lte", true, 12 * sec},
		{"of a route, quiet", 0, 0, "lte", true, 31 * sec},
		{"left with a call", 50, 0, "lte", false, 1500 * ms},
	} {
		id := LineID{c.metered, IPv4}
		var worst time.Duration
		for n := range rounds(92) { // 337 ms apart, all of 31 s
			phase := time.Duration(n) * 31 * sec / time.Duration(rounds(92))
			cfg := calm()
			for i := range cfg.WANs {
				if w := &cfg.WANs[i]; w.Name == c.metered {
					w.Metered, w.Routed = true, c.routed
				}
			}
			w := start(cfg, 1)
			cut := 100*sec + phase
			w.at(40*sec, func() { w.paths[id].load(w.now, c.packets, c.packets/20) })
			w.at(cut, func() { w.paths[id].sever(w.now, true); w.paths[id].begun = c.begun })
			w.run(cut + 40*sec)
			at := w.fell(id, cut)
			if at < 0 {
				t.Fatalf("%s: its death was not noticed", c.about)
			}
			worst = max(worst, at-cut)
		}
		t.Logf("%s: acted on after %v at most", c.about, worst)
		if worst > c.most {
			t.Errorf("%s: acted on after %v, want %v", c.about, worst, c.most)
		}
	}
}

// A line that a route may lead to is asked as often as the one in use, unless it is
// paid by volume; one that is, and is dead, as often as one in reserve. One with no
// route is asked as seldom as ever, and what begins and brings nothing costs a probe
// each ten seconds.
func TestRouted(t *testing.T) {
	for _, c := range []struct {
		about           string
		routed, metered bool
		dead            bool
		begun           float64
		least, most     int // probes in five minutes
	}{
		{"in reserve", false, false, false, 0, 149, 151},
		{"of a route", true, false, false, 0, 1199, 1201},
		{"metered", false, true, false, 0, 9, 11},
		{"metered, of a route", true, true, false, 0, 9, 11},
		{"metered, of a route, in vain", true, true, false, 0.5, 27, 31},
		{"metered, of a route, dead", true, true, true, 0, 149, 151},
		{"metered, dead", false, true, true, 0, 9, 11},
	} {
		cfg := calm()
		cfg.WANs[1].Routed, cfg.WANs[1].Metered = c.routed, c.metered
		w := start(cfg, 1)
		w.paths[lte].begun = c.begun
		w.paths[lte].cut = c.dead
		w.run(100 * sec)
		before := w.paths[lte].probes
		w.run(400 * sec)
		if n := w.paths[lte].probes - before; n < c.least || n > c.most {
			t.Errorf("%s: %d probes in five minutes, want %d to %d", c.about, n, c.least, c.most)
		}
		w.mustUse(t, "fiber")
	}
}

// A metered line to which routes lead is asked again soon when it has fallen, also if
// it was the line in use until then, which is asked each half minute.
func TestRoutedFellInUse(t *testing.T) {
	for phase := time.Duration(0); phase < 3*sec; phase += 170 * ms {
		cfg := calm()
		cfg.WANs[0].Metered, cfg.WANs[0].Routed = true, true
		w := start(cfg, 1)
		w.at(20*sec, func() { w.paths[fiber].load(w.now, 50, 5) })
		w.cut(60*sec+phase, 65*sec+phase, fiber)
		w.run(64 * sec)
		w.mustUse(t, "lte")
		w.run(65*sec + phase + 2100*ms)
		w.mustBe(t, fiber, Returning)
	}
}

// Counters that were set back, and readings out of order, prove nothing.
func TestCountersSetBack(t *testing.T) {
	w := start(calm(), 1)
	w.run(10 * sec)
	for _, c := range []Counts{{Packets: 1000, Answers: 100}, {Packets: 5}, {Packets: 900, Answers: 90}} {
		w.m.Traffic(w.now, fiber, c)
		w.m.Traffic(w.now.Add(-sec), fiber, Counts{Packets: 1 << 40, Answers: 1 << 40})
		w.m.Traffic(w.now, LineID{"gone", IPv4}, c)
		w.run(w.now.Sub(epoch) + ms)
	}
	w.paths[fiber].counts = [3]float64{}
	w.cut(11*sec, 20*sec, fiber)
	w.run(12 * sec)
	w.mustUse(t, "lte")
}
