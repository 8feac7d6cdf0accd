package failover

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

func (w *world) used() string { return w.m.Status().Use4.WAN }

func (w *world) mustUse(t *testing.T, wan string) {
	t.Helper()
	if got := w.used(); got != wan {
		w.dump(t)
		t.Fatalf("at %v %q is in use, want %q", w.now.Sub(epoch), got, wan)
	}
}

func (w *world) mustBe(t *testing.T, id LineID, v Verdict) {
	t.Helper()
	if got := w.verdict(id); got != v {
		w.dump(t)
		t.Fatalf("at %v %v is %v, want %v", w.now.Sub(epoch), id, got, v)
	}
}

func (w *world) mustNotMove(t *testing.T, since time.Duration) {
	t.Helper()
	if len(w.moves(since)) > 0 {
		w.dump(t)
		t.Fatalf("moved after %v", since)
	}
}

func (w *world) cut(at, until time.Duration, ids ...LineID) {
	for _, id := range ids {
		w.at(at, func() { w.paths[id].cut = true })
		w.at(until, func() { w.paths[id].cut = false })
	}
}

// B01: both lines have the same targets; a standby that dies is down within 3 s
// and moves nothing, also with slower probing than the default.
func TestStandbyIsJudgedByItsOwnProbes(t *testing.T) {
	for _, every := range []time.Duration{250 * ms, 500 * ms} {
		for phase := time.Duration(0); phase < 4*sec; phase += 37 * ms {
			cfg := twoWANs()
			cfg.Every = every
			w := newWorld(cfg, 1).up()
			at := 10*sec + phase
			w.cut(at, time.Hour, lte)
			w.run(at + 4*sec)
			w.mustNotMove(t, 0)
			w.mustBe(t, fiber, Up)
			if fell := w.fell(lte, at); fell < 0 || fell-at > 3*sec {
				w.dump(t)
				t.Fatalf("lte fell %v after it was cut, want 3s at most", fell-at)
			}
		}
	}
}

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

// A loss of carrier too short to be seen, which only the counter tells, is asked
// about: a line that answers stays in use, and one that does not falls.
func TestUnseenBlinkIsAskedAbout(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.m.Carrier(w.now, "fiber", true, 4)
	w.at(10*sec, func() { w.m.Carrier(w.now, "fiber", true, 5) })
	w.run(10*sec + 1*ms)
	w.mustBe(t, fiber, Suspect)
	w.run(10*sec + 30*ms)
	w.mustBe(t, fiber, Up)
	w.mustNotMove(t, sec)
	w.at(20*sec, func() { w.m.Carrier(w.now, "fiber", true, 6); w.paths[fiber].cut = true })
	w.run(20*sec + 700*ms)
	w.mustUse(t, "lte")
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

// B05: an upload fills the only line's buffer until echo replies take 1.2 s, then
// 30 % are lost besides. Nothing moves.
func TestFullBufferMovesNothing(t *testing.T) {
	for _, grow := range []time.Duration{600 * ms, 3 * sec} { // a buffer drained at the line's rate fills no faster in TCP's slow start
		for seed := range uint64(20) {
			w := newWorld(twoWANs(), seed).up()
			w.paths[fiber].rtt = func(_ *rand.Rand, at time.Time) time.Duration {
				full := at.Sub(epoch) - 10*sec
				switch {
				case full < 0 || full > 70*sec:
					return 20 * ms
				case full < 2*grow:
					return 20*ms + 1200*ms*full/(2*grow)
				}
				return 1220*ms + time.Duration(w.r.Int64N(int64(100*ms)))
			}
			w.at(30*sec, func() { w.paths[fiber].loss = 0.3 })
			w.at(80*sec, func() { w.paths[fiber].loss = 0 })
			w.run(29 * sec)
			if l := w.line(fiber); l.RTT < sec {
				t.Errorf("the latency shown is %v, want more than a second", l.RTT)
			}
			w.run(100 * sec)
			w.mustNotMove(t, 0)
			w.mustBe(t, fiber, Up)
		}
	}
}

// A dead target, and one that limits its rate, fell nothing as long as another
// answers; the dead one is named and left alone.
func TestDeadTargetFellsNothing(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.at(10*sec, func() {
		w.paths[fiber].dead = map[Target]bool{targets[0]: true}
		w.paths[fiber].limit, w.paths[fiber].limited = 3*sec, map[Target]time.Time{targets[1]: {}}
	})
	w.run(60 * sec)
	w.mustNotMove(t, 0)
	w.paths[fiber].limit = 0
	w.run(120 * sec)
	l := w.line(fiber)
	if len(l.Deaf) != 1 || l.Deaf[0] != targets[0] {
		t.Errorf("deaf: %v, want %v", l.Deaf, targets[0])
	}
	before, changes := w.probes[fiber], len(w.log)
	w.run(180 * sec)
	if n := w.probes[fiber] - before; n > 4*60+5 {
		t.Errorf("%d probes in a minute, want some 240: the dead target sets off bursts", n)
	}
	if len(w.log) != changes || w.line(fiber).Loss > 0 {
		w.dump(t)
		t.Errorf("loss %.1f %%: the dead target's silence is held against the line", w.line(fiber).Loss)
	}
	w.paths[fiber].dead = nil
	w.run(220 * sec)
	if l := w.line(fiber); len(l.Deaf) != 0 {
		t.Errorf("%v answers again and is still deaf", l.Deaf)
	}
}

// A dead target does not keep the preferred line from coming back.
func TestDeadTargetDoesNotHinderReturn(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.paths[fiber].dead = map[Target]bool{targets[1]: true}
	w.cut(10*sec, 20*sec, fiber)
	w.run(75 * sec)
	w.mustUse(t, "fiber")
}

// The good period starts anew with every lost probe.
func TestHoldDownWantsAnUnbrokenGoodTime(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.cut(10*sec, 20*sec, fiber)
	w.cut(45*sec, 45*sec+300*ms, fiber)
	w.cut(47*sec, 49*sec, fiber)
	w.run(78 * sec)
	w.mustUse(t, "lte")
	w.run(85 * sec)
	w.mustUse(t, "fiber")
}

// Errors are lost probes that need not be waited for.
func TestErrorsAreSamples(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.at(10*sec, func() { w.paths[fiber].refuse = "192.0.2.1 says: network unreachable" })
	w.run(11 * sec)
	w.mustUse(t, "lte")
	if why := w.line(fiber).Why; !strings.Contains(why, "network unreachable") {
		t.Errorf("why: %q", why)
	}
	for _, c := range w.log {
		if c.Line == fiber && c.To == Suspect && c.at%(250*ms) > 10*ms {
			t.Errorf("suspect at %v, which waited for more than the error", c.at)
		}
	}
}

// ask has the machine order probes at a time, and returns fiber's.
func ask(t *testing.T, m *Machine, now time.Time) []Probe {
	t.Helper()
	var out []Probe
	for _, p := range m.Tick(now).Probes {
		if p.Line == fiber {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		t.Fatalf("nothing is asked at %v", now.Sub(epoch))
	}
	return out
}

func verdictOf(m *Machine) Verdict { return m.Status().Lines[0].Verdict }

// What was asked before a blink says nothing about the line after it.
func TestReplyFromBeforeABlink(t *testing.T) {
	m, now := New(twoWANs(), epoch), epoch
	m.Carrier(now, "fiber", true, 1)
	m.Line(now, fiber, true)
	for _, p := range ask(t, m, now) {
		m.Reply(now.Add(10*ms), p.ID, 10*ms)
	}
	now = now.Add(250 * ms)
	before := ask(t, m, now)[0]
	m.Sent(now, before.ID)
	m.Carrier(now.Add(ms), "fiber", true, 2)
	after := ask(t, m, now.Add(ms))[0]
	m.Reply(now.Add(10*ms), before.ID, 10*ms)
	m.Tick(now.Add(10 * ms))
	if v := verdictOf(m); v != Suspect {
		t.Errorf("after a reply to what was asked before: %v, want suspect", v)
	}
	m.Reply(now.Add(11*ms), after.ID, 10*ms)
	m.Tick(now.Add(11 * ms))
	if v := verdictOf(m); v != Up {
		t.Errorf("after a reply to what was asked since: %v, want up", v)
	}
}

// A sending that is told after the reply to a later one is no silence.
func TestSendingToldLate(t *testing.T) {
	m, now := New(twoWANs(), epoch), epoch
	m.Line(now, fiber, true)
	for _, p := range ask(t, m, now) {
		m.Reply(now.Add(10*ms), p.ID, 10*ms)
	}
	m.Tick(now.Add(10 * ms))
	first := ask(t, m, now.Add(250*ms))[0]
	second := ask(t, m, now.Add(500*ms))[0]
	m.Reply(now.Add(510*ms), second.ID, 10*ms)
	m.Sent(now.Add(250*ms), first.ID)
	for at := now.Add(511 * ms); at.Before(now.Add(740 * ms)); {
		if at = m.Tick(at).Next; at.IsZero() {
			t.Fatal("the machine wants nothing any more")
		}
	}
	if v := verdictOf(m); v != Up {
		t.Errorf("%v, want up: %s", v, m.Status().Lines[0].Why)
	}
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
		asked = w.probes[fiber] + w.probes[lte]
		w.m.Line(w.now, fiber, true)
		w.m.Line(w.now, lte, true)
	})
	w.run(2*sec + 101*ms)
	if n := w.probes[fiber] + w.probes[lte] - asked; n != 2*len(targets) {
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

// A prober that dies, or a machine that stalls, fells no line.
func TestOurOwnFaultFellsNothing(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.at(10*sec, func() { w.mute = true })
	probes := 0
	w.at(20*sec+100*ms, func() { probes = w.probes[fiber] + w.probes[lte]; w.mute = false; w.m.Void(w.now) })
	w.run(20*sec + 101*ms)
	if n := w.probes[fiber] + w.probes[lte] - probes; n != 2 {
		t.Errorf("%d probes with the new prober, want one for each line at once", n)
	}
	w.run(30 * sec)
	w.mustNotMove(t, 0)
	w.mustBe(t, fiber, Up)

	// It died with a probe under way.
	w = newWorld(twoWANs(), 1).up()
	w.at(10*sec, func() { w.paths[fiber].cut = true })
	w.at(10*sec+110*ms, func() { w.mute = true })
	w.at(15*sec, func() { w.paths[fiber].cut, w.mute = false, false; w.m.Void(w.now) })
	w.run(30 * sec)
	w.mustNotMove(t, 0)
	w.mustBe(t, fiber, Up)

	// The machine stalls for two seconds, and finds its timer before its replies.
	m := New(twoWANs(), epoch)
	now := epoch
	m.Line(now, fiber, true)
	for range 200 {
		out := m.Tick(now)
		for _, p := range out.Probes {
			m.Sent(now, p.ID)
			m.Reply(now.Add(5*ms), p.ID, 5*ms)
		}
		now = out.Next
	}
	out := m.Tick(now)
	for _, p := range out.Probes {
		m.Sent(now, p.ID)
	}
	late := now.Add(2 * sec)
	if out := m.Tick(late); len(out.Changes) > 0 {
		t.Fatalf("after a stall: %+v", out.Changes)
	}
	for _, p := range out.Probes {
		m.Reply(now.Add(5*ms), p.ID, 5*ms)
	}
	if out := m.Tick(late.Add(60 * ms)); len(out.Changes) > 0 {
		t.Fatalf("after a stall whose replies were read: %+v", out.Changes)
	}
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
	before := w.probes[lte]
	w.run(310 * sec)
	if n := w.probes[lte] - before; n > 11 {
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

// A satellite's round trips are no outage, and its outages are noticed.
func TestLongRoundTrips(t *testing.T) {
	w := newWorld(twoWANs(), 1)
	w.paths[fiber].rtt = uniform(580*ms, 720*ms)
	w.up()
	w.at(60*sec, func() { w.paths[fiber].loss = 0.1 })
	w.run(600 * sec)
	w.mustNotMove(t, 0)
	w.cut(600*sec, 700*sec, fiber)
	w.run(602500 * ms)
	w.mustUse(t, "lte")
}

// A first reply that took seconds, because a neighbour had to be resolved, does
// not spoil the time-out for long.
func TestSlowFirstReply(t *testing.T) {
	w := newWorld(twoWANs(), 1)
	w.paths[fiber].rtt = func(_ *rand.Rand, at time.Time) time.Duration {
		return max(20*ms, 2*sec-at.Sub(epoch))
	}
	w.up()
	w.cut(4*sec, 10*sec, fiber)
	w.run(5 * sec)
	w.mustUse(t, "lte")
}

func TestVerdictText(t *testing.T) {
	for v := Absent; v <= Returning; v++ {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back Verdict
		if err := json.Unmarshal(b, &back); err != nil || back != v {
			t.Errorf("%s: %v, %v", b, back, err)
		}
	}
	if _, err := json.Marshal(Verdict(0)); err == nil {
		t.Error("the zero verdict has a text")
	}
	if err := new(Verdict).UnmarshalText([]byte("fine")); err == nil {
		t.Error("an unknown word is a verdict")
	}
}
