package failover

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

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
	before, changes := w.paths[fiber].probes, len(w.log)
	w.run(180 * sec)
	if n := w.paths[fiber].probes - before; n > 4*60+5 {
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

// A prober that dies, or a machine that stalls, fells no line.
func TestOurOwnFaultFellsNothing(t *testing.T) {
	w := newWorld(twoWANs(), 1).up()
	w.at(10*sec, func() { w.mute = true })
	probes := 0
	w.at(20*sec+100*ms, func() { probes = w.paths[fiber].probes + w.paths[lte].probes; w.mute = false; w.m.Void(w.now) })
	w.run(20*sec + 101*ms)
	if n := w.paths[fiber].probes + w.paths[lte].probes - probes; n != 2 {
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

// A line whose carrier is back is asked often for some seconds: what waits for it
// shall not wait longer than it must, though the first probes were lost. A line
// that stays silent is left in peace after that.
func TestReturnedCarrierIsAskedOften(t *testing.T) {
	for _, mute := range []time.Duration{0, 200 * ms, 700 * ms, 1500 * ms, 4 * sec} {
		w := newWorld(twoWANs(), 1).up()
		w.m.Carrier(w.now, "fiber", true, 4)
		w.at(10*sec, func() { w.m.Carrier(w.now, "fiber", false, 5); w.paths[fiber].sever(w.now, true) })
		w.at(10300*ms, func() { w.m.Carrier(w.now, "fiber", true, 5) })
		w.at(10300*ms+mute, func() { w.paths[fiber].sever(w.now, false) })
		w.run(10300*ms + mute + 300*ms)
		w.mustBe(t, fiber, Returning)
		w.mustUse(t, "lte")
		w.run(35 * sec)
		if n := len(w.moves(9 * sec)); n != 1 {
			w.dump(t)
			t.Errorf("silent for %v: %d moves, want the one to lte", mute, n)
		}
	}
	w := newWorld(twoWANs(), 1).up()
	w.m.Carrier(w.now, "fiber", true, 4)
	w.at(10*sec, func() { w.m.Carrier(w.now, "fiber", false, 5); w.paths[fiber].sever(w.now, true) })
	w.at(10300*ms, func() { w.m.Carrier(w.now, "fiber", true, 5) })
	w.run(16 * sec)
	before := w.paths[fiber].probes
	w.run(76 * sec)
	if n := w.paths[fiber].probes - before; n > 31 {
		t.Errorf("%d probes in a minute of a silent line in reserve, want one each 2 s", n)
	}
}
