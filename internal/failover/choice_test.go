package failover

import (
	"testing"
	"time"
)

// B02: both lines lost for a minute; whichever comes back first is taken at its
// first reply, and the preferred one again after the hold-down.
func TestFirstToComeBackIsTakenAtOnce(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.cut(10*sec, 80*sec, fiber)
	w.cut(10*sec, 70*sec, lte)
	w.run(13 * sec)
	w.mustUse(t, "")
	if l := w.line(lte); !l.Up {
		t.Error("lte was used last and nothing took over: its flows should be kept")
	}
	if l := w.line(fiber); l.Up {
		t.Error("lte took over from fiber: its flows should have ended")
	}
	w.run(70*sec + 300*ms)
	w.mustUse(t, "lte")
	w.run(109 * sec)
	w.mustUse(t, "lte")
	w.mustBe(t, fiber, Returning)
	w.run(113 * sec)
	w.mustUse(t, "fiber")
	w.mustBe(t, fiber, Up)

	// And the other way round, with the lease lost in the meantime.
	w.cut(200*sec, 300*sec, fiber)
	w.cut(200*sec, 400*sec, lte)
	w.at(230*sec, func() { w.m.Line(w.now, fiber, false) })
	w.at(300*sec+500*ms, func() { w.m.Line(w.now, fiber, true) })
	w.run(240 * sec)
	w.mustUse(t, "")
	w.mustBe(t, fiber, Absent)
	w.run(300*sec + 600*ms)
	w.mustUse(t, "fiber")
}

// A lease that is taken back and given anew ends no flow, unless the line is dead.
func TestAddressComesBack(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	again := func() {
		w.m.Line(w.now, fiber, false)
		w.step()
		w.m.Line(w.now, fiber, true)
		w.step()
	}
	w.at(40*sec, again)
	w.run(40 * sec)
	if l := w.line(fiber); !l.Up || l.Verdict != Suspect {
		t.Errorf("%v, up %v: want suspect, and its flows kept", l.Verdict, l.Up)
	}
	w.mustUse(t, "lte")
	w.run(40*sec + 50*ms)
	w.mustBe(t, fiber, Returning)
	w.run(71 * sec)
	w.mustUse(t, "fiber")
	w.at(80*sec, func() { w.paths[fiber].cut = true; again() })
	w.run(81 * sec)
	w.mustBe(t, fiber, Down)
}

// The last line that fell keeps its flows only until another takes over.
func TestFlowsOfTheLastLineAreKept(t *testing.T) {
	cfg := twoWANs()
	cfg.WANs, cfg.Prefer = cfg.WANs[:1], cfg.Prefer[:1]
	w := newWorld(cfg, 1)
	w.m.Line(w.now, fiber, true)
	w.step()
	w.cut(10*sec, 20*sec, fiber)
	w.run(15 * sec)
	w.mustUse(t, "")
	w.mustBe(t, fiber, Down)
	if !w.line(fiber).Up {
		t.Error("nothing took over: the flows should be kept")
	}
	w.run(20*sec + 300*ms)
	w.mustUse(t, "fiber")
}

// B04: twenty short losses of carrier, then a quiet cut, then all is well again.
func TestBlinksDoNotConfuse(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(twoWANs(), seed).up()
		at := 10 * sec
		for n := range uint32(20) {
			up := at + 100*ms
			w.at(at, func() { w.paths[fiber].cut = true; w.m.Carrier(w.now, "fiber", false, n+1) })
			w.at(up, func() { w.paths[fiber].cut = false; w.m.Carrier(w.now, "fiber", true, n+1) })
			at = up + 50*ms + time.Duration(w.r.Int64N(int64(450*ms)))
		}
		w.run(10*sec + 1*ms)
		w.mustUse(t, "lte") // at the first
		w.run(at + 45*sec)
		w.mustUse(t, "fiber")
		cut := at + 60*sec
		w.cut(cut, cut+60*sec, fiber)
		w.run(cut + sec)
		w.mustUse(t, "lte")
		w.run(cut + 60*sec + 59*sec) // its second failure: twice the hold-down
		w.mustUse(t, "lte")
		w.run(cut + 60*sec + 65*sec)
		w.mustUse(t, "fiber")
		if n := len(w.moves(10*sec - 1)); n != 4 {
			w.dump(t)
			t.Fatalf("seed %d: %d moves, want 4", seed, n)
		}
	}
}

// A blink of the line in reserve moves nothing.
func TestBlinkOfTheReserveMovesNothing(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	for n := range uint32(10) {
		w.at(10*sec+time.Duration(n)*sec, func() { w.m.Carrier(w.now, "lte", false, n+1) })
		w.at(10*sec+time.Duration(n)*sec+100*ms, func() { w.m.Carrier(w.now, "lte", true, n+1) })
	}
	w.run(60 * sec)
	w.mustNotMove(t, 0)
	w.mustBe(t, lte, Up)
}

// The good time starts anew with every failure.
func TestHoldDownWantsAnUnbrokenGoodTime(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.cut(10*sec, 20*sec, fiber)
	w.cut(45*sec, 45*sec+300*ms, fiber)
	w.cut(47*sec, 49*sec, fiber)
	w.run(108 * sec) // the third is a relapse: twice the hold-down
	w.mustUse(t, "lte")
	w.run(112 * sec)
	w.mustUse(t, "fiber")
}

// A line in reserve that died unnoticed is not taken when another is known to
// work: all are asked before the line in use is given up.
func TestReserveIsAskedBeforeItIsNeeded(t *testing.T) {
	cfg := twoWANs()
	dsl := LineID{"dsl", IPv4}
	cfg.WANs = append(cfg.WANs, WAN{Name: "dsl"})
	cfg.WANs[1].Metered = true
	cfg.Prefer = append(cfg.Prefer, "dsl")
	w := newWorld(cfg, 1)
	w.paths[dsl] = &path{rtt: fixed(30 * ms)}
	w.m.Line(w.now, dsl, true)
	w.up()
	w.cut(40*sec, time.Hour, fiber, lte)
	w.run(42 * sec)
	w.mustUse(t, "dsl")
	if n := len(w.moves(30 * sec)); n != 1 {
		w.dump(t)
		t.Errorf("%d moves, want one: lte was dead", n)
	}
}

// At a cold start an address is enough, and the preferred line needs no
// hold-down if it is a little later.
func TestColdStart(t *testing.T) {
	w := newWorld(twoWANs(), 1)
	w.at(100*ms, func() { w.m.Line(w.now, lte, true) })
	w.at(900*ms, func() { w.m.Line(w.now, fiber, true) })
	w.run(100 * ms)
	w.mustUse(t, "lte")
	w.run(925 * ms)
	w.mustUse(t, "fiber")

	// The preferred line has an address and is dead.
	for _, c := range []struct{ back, used time.Duration }{
		{5 * sec, 8 * sec},   // it was not there yet: its first answer is enough
		{40 * sec, 73 * sec}, // the house has long been on the other
	} {
		w = newWorld(twoWANs(), 1)
		w.cut(0, c.back, fiber)
		w.run(0)
		w.up()
		w.mustUse(t, "fiber")
		w.run(1600 * ms)
		w.mustUse(t, "lte")
		w.run(c.used - 4*sec)
		w.mustUse(t, "lte")
		w.run(c.used)
		w.mustUse(t, "fiber")
	}

	// It appears when the house has long been on the other.
	w = newWorld(twoWANs(), 1)
	w.m.Line(w.now, lte, true)
	w.step()
	w.at(100*sec, func() { w.m.Line(w.now, fiber, true) })
	w.run(128 * sec)
	w.mustUse(t, "lte")
	w.run(131 * sec)
	w.mustUse(t, "fiber")

	// A cable plugged in while the machine starts.
	w = newWorld(twoWANs(), 1)
	w.m.Carrier(w.now, "fiber", false, 0)
	w.up()
	w.mustUse(t, "lte")
	w.at(3*sec, func() { w.m.Carrier(w.now, "fiber", true, 0) })
	w.run(3*sec + 30*ms)
	w.mustUse(t, "fiber")
}

// IPv6 without an address is absent and disturbs nothing; the families fail apart.
func TestFamiliesApart(t *testing.T) {
	six := LineID{"fiber", IPv6}
	w := newWorld(twoWANs(), 1)
	w.paths[six] = &path{rtt: fixed(30 * ms)}
	w.up()
	w.run(10 * sec)
	w.mustBe(t, six, Absent)
	if s := w.m.Status(); s.Use6.WAN != "" {
		t.Errorf("%q is used for IPv6", s.Use6.WAN)
	}
	w.m.Line(w.now, six, true)
	w.step()
	w.run(11 * sec)
	if s := w.m.Status(); s.Use6.WAN != "fiber" {
		t.Errorf("%q is used for IPv6, want fiber", s.Use6.WAN)
	}
	w.cut(12*sec, time.Hour, fiber)
	w.run(14 * sec)
	if s := w.m.Status(); s.Use4.WAN != "lte" || s.Use6.WAN != "fiber" {
		t.Errorf("in use: %q and %q, want lte and fiber", s.Use4.WAN, s.Use6.WAN)
	}
	w.m.Carrier(w.now, "fiber", false, 1)
	w.step()
	w.mustBe(t, six, Down)
	if s := w.m.Status(); s.Use6.WAN != "" {
		t.Errorf("%q is used for IPv6 without carrier", s.Use6.WAN)
	}
}

// A restart moves nothing: neither before the addresses are known, nor after.
func TestRestartMovesNothing(t *testing.T) {
	w := newWorld(twoWANs(), 1)
	w.m.Adopt(w.now, Adoption{Use4: "lte"})
	w.step()
	w.mustUse(t, "lte")
	asked := 0
	w.at(2*sec+100*ms, func() {
		asked = w.paths[fiber].probes + w.paths[lte].probes
		w.m.Line(w.now, fiber, true)
		w.m.Line(w.now, lte, true)
	})
	w.run(2*sec + 101*ms)
	if n := w.paths[fiber].probes + w.paths[lte].probes - asked; n != 2*len(targets) {
		t.Errorf("%d probes once the addresses are known, want one to each target by each line", n)
	}
	w.run(20 * sec)
	w.mustUse(t, "lte")
	if !w.line(fiber).Up || !w.line(lte).Up {
		t.Error("a line that was up is up no longer: its flows would end")
	}
	w.run(35 * sec)
	w.mustUse(t, "fiber") // it has served its hold-down since the restart

	w = newWorld(twoWANs(), 1)
	w.m.Adopt(w.now, Adoption{Use4: "lte", Down: []LineID{fiber}})
	w.paths[fiber].cut = true
	w.up()
	w.run(100 * sec)
	w.mustBe(t, fiber, Down)
	w.mustNotMove(t, -1)

	// The loop has run before it knew what is in force.
	w = newWorld(twoWANs(), 1)
	w.m.Line(w.now, fiber, false)
	w.m.Line(w.now, lte, false)
	w.step()
	w.m.Adopt(w.now, Adoption{Use4: "fiber"})
	w.up()
	w.run(10 * sec)
	w.mustNotMove(t, -1)
	w = newWorld(twoWANs(), 1)
	w.m.Line(w.now, fiber, false)
	w.step()
	w.m.Adopt(w.now, Adoption{Use4: "fiber"})
	w.m.Line(w.now, fiber, false)
	w.m.Line(w.now, lte, true)
	w.step()
	w.mustUse(t, "lte")

	// The line in use died while the daemon was away.
	w = newWorld(twoWANs(), 1)
	w.m.Adopt(w.now, Adoption{Use4: "fiber"})
	w.paths[fiber].cut = true
	w.up()
	w.run(1600 * ms)
	w.mustUse(t, "lte")
}

// A WAN left out of prefer is probed and never chosen.
func TestLeftOutOfPrefer(t *testing.T) {
	cfg := twoWANs()
	cfg.Prefer = []string{"fiber"}
	w := newWorld(cfg, 1).up()
	w.run(5 * sec)
	w.mustBe(t, lte, Up)
	w.cut(10*sec, time.Hour, fiber)
	w.run(20 * sec)
	w.mustUse(t, "")
	cfg.Prefer = []string{"fiber", "lte"} // a new file
	w.m.Configure(w.now, cfg)
	w.step()
	w.mustUse(t, "lte")
	cfg.WANs, cfg.Prefer = cfg.WANs[:1], cfg.Prefer[:1]
	w.m.Configure(w.now, cfg)
	w.step()
	w.mustUse(t, "")
}

// A metered line in reserve is asked every 30 s, and at once when it is needed.
func TestMetered(t *testing.T) {
	cfg := twoWANs()
	cfg.WANs[1].Metered = true
	w := newWorld(cfg, 1).up()
	w.run(10 * sec)
	before := w.paths[lte].probes
	w.run(310 * sec)
	if n := w.paths[lte].probes - before; n > 11 {
		t.Errorf("%d probes in five minutes, want 10", n)
	}
	// It died unnoticed just before it is needed, and is known to be dead in time.
	w.cut(311*sec, time.Hour, lte)
	w.cut(311*sec, 330*sec, fiber)
	w.run(313 * sec)
	w.mustUse(t, "")
	w.run(330*sec + 300*ms)
	w.mustUse(t, "fiber")
}

// A file with another hold-down is told of in the words of a line that has one before
// it.
func TestHoldDownChanged(t *testing.T) {
	w := start(calm(), 1)
	w.cut(40*sec, 42*sec, lte)
	w.run(50 * sec)
	w.mustBe(t, lte, Returning)
	cfg := calm()
	cfg.HoldDown = time.Hour
	w.m.Configure(w.now, cfg)
	if l := w.line(lte); l.HoldDown != time.Hour || l.Why != "works again; to be good for 1h0m0s" {
		t.Errorf("owes %v: %s", l.HoldDown, l.Why)
	}
	w.m.Configure(w.now, cfg)
	w.mustBe(t, lte, Returning)
}
