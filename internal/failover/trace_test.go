package failover

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// calm is twoWANs with the file's default thresholds.
func calm() Config {
	cfg := twoWANs()
	cfg.Degraded = Thresholds{Loss: 20, Latency: 400 * ms}
	return cfg
}

func oneWAN(cfg Config) Config {
	cfg.WANs, cfg.Prefer = cfg.WANs[:1], cfg.Prefer[:1]
	return cfg
}

// start is a world whose lines have their addresses and answered once.
func start(cfg Config, seed uint64) *world {
	w := newWorld(cfg, seed)
	for _, c := range cfg.WANs {
		w.m.Line(w.now, LineID{c.Name, IPv4}, true)
	}
	w.step()
	return w
}

// returns runs until fiber, which works again, is in use, and holds the machine
// to the hold-down that it shows.
func (w *world) returns(t *testing.T) {
	t.Helper()
	w.run(w.now.Sub(epoch) + 3*sec) // the first reply of a line in reserve
	l := w.line(fiber)
	if l.Verdict == Up {
		w.mustUse(t, "fiber")
		return
	}
	if l.GoodAt.IsZero() || l.GoodAt.Before(w.now) {
		w.dump(t)
		t.Fatalf("at %v fiber is %v and shows no time at which it will be used", w.now.Sub(epoch), l.Verdict)
	}
	if left := l.GoodAt.Sub(w.now); left > l.HoldDown {
		t.Errorf("%v are left of a hold-down of %v", left, l.HoldDown)
	}
	w.run(l.GoodAt.Sub(epoch) - 10*ms)
	w.mustUse(t, "lte")
	w.run(l.GoodAt.Sub(epoch) + 10*ms)
	w.mustUse(t, "fiber")
}

// 30 % loss: one move to a line that loses nothing, and back when it is over; on
// the only line figures, and nothing moves.
func TestLossyLineIsLeftOnce(t *testing.T) {
	for seed := range uint64(rounds(3)) {
		w := start(calm(), seed)
		w.at(10*sec, func() { w.paths[fiber].loss = 0.3 })
		w.run(60 * sec)
		w.mustUse(t, "lte")
		if at := w.moves(sec)[0].at - 10*sec; at < patience {
			t.Errorf("left after %v: a lossy line deserves patience", at)
		}
		if l := w.line(fiber); l.Verdict != Degraded || !l.Up || l.Loss < 15 {
			t.Errorf("%v, up %v, loss %.0f %%: want a degraded line that keeps its flows", l.Verdict, l.Up, l.Loss)
		}
		w.run(2 * time.Hour)
		if n := len(w.moves(sec)); n != 1 {
			w.dump(t)
			t.Fatalf("seed %d: %d moves in two hours of loss, want 1", seed, n)
		}
		w.paths[fiber].loss = 0
		for w.verdict(fiber) == Degraded && w.now.Sub(epoch) < 2*time.Hour+5*time.Minute {
			w.run(w.now.Sub(epoch) + sec)
		}
		w.returns(t)

		w = start(oneWAN(calm()), seed)
		w.at(10*sec, func() { w.paths[fiber].loss = 0.3 })
		w.run(time.Hour)
		w.mustNotMove(t, 0)
		if l := w.line(fiber); l.Verdict != Degraded && l.Loss > 20 {
			t.Errorf("%v with %.0f %% lost", l.Verdict, l.Loss)
		}
	}
}

// Both lines lose: neither is clearly better, and nothing moves.
func TestNoBetterLine(t *testing.T) {
	w := start(calm(), 1)
	w.at(10*sec, func() { w.paths[fiber].loss, w.paths[lte].loss = 0.4, 0.3 })
	w.run(time.Hour)
	w.mustNotMove(t, 0)
}

// Latency alone moves new connections if nothing of the house's own makes it, and
// only to a line that is clearly quicker, and is not paid by volume.
func TestSlowLine(t *testing.T) {
	for _, c := range []struct {
		name    string
		fiber   time.Duration
		lte     time.Duration
		metered bool
		own     float64
		want    string
	}{
		{"clearly better", 900 * ms, 60 * ms, false, 0, "lte"},
		{"hardly better", 900 * ms, 600 * ms, false, 0, "fiber"},
		{"below the threshold", 350 * ms, 20 * ms, false, 0, "fiber"},
		{"paid by volume", 900 * ms, 60 * ms, true, 0, "fiber"},
		{"the house's own traffic", 900 * ms, 60 * ms, false, 100, "fiber"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := calm()
			cfg.WANs[1].Metered = c.metered
			w := start(cfg, 1)
			w.paths[lte].rtt = fixed(c.lte)
			w.at(200*sec, func() {
				w.paths[fiber].rtt = func(r *rand.Rand, at time.Time) time.Duration {
					grown := min(c.fiber, 20*ms+at.Sub(epoch.Add(200*sec))/5)
					return grown + time.Duration(r.Int64N(int64(c.fiber/10)))
				}
				w.paths[fiber].load(w.now, c.own, c.own/100)
			})
			w.run(400 * sec)
			w.mustUse(t, c.want)
			if got := w.line(fiber); got.Latency < c.fiber || (got.Verdict == Degraded) != (c.fiber > 400*ms) {
				t.Errorf("%v with a latency of %v", got.Verdict, got.Latency)
			}
		})
	}
}

// A full buffer, on the only line and with two: nothing moves, the figures are
// shown, and an outage in the midst of it is acted on within 1.5 s.
func TestFullBuffer(t *testing.T) {
	for _, most := range []time.Duration{500 * ms, 1200 * ms, 3 * sec, 5 * sec} {
		for _, loss := range []float64{0, 0.1, 0.3} {
			for _, lines := range []int{1, 2} {
				t.Run(fmt.Sprintf("%v/%.0f%%/%d", most, 100*loss, lines), func(t *testing.T) {
					t.Parallel()
					var worst time.Duration
					for seed := range uint64(rounds(8)) {
						cfg := calm()
						if lines == 1 {
							cfg = oneWAN(cfg)
						}
						w := start(cfg, seed)
						b := w.buffer(fiber, 20*ms)
						b.fill(10*sec, most, 85, loss)
						b.drain(100 * sec)
						b.fill(150*sec, most, 85, loss)
						w.run(99 * sec)
						if l := w.line(fiber); l.Verdict != Degraded && l.Verdict != Suspect || l.Latency < most*9/10 {
							t.Errorf("%v with a latency of %v", l.Verdict, l.Latency)
						}
						cut := 200*sec + time.Duration(seed)*37*ms
						w.at(cut, func() { w.paths[fiber].sever(w.now, true) })
						w.run(cut - ms)
						w.mustNotMove(t, 0)
						w.run(cut + 5*sec)
						fell := w.fell(fiber, cut)
						if fell < 0 {
							w.dump(t)
							t.Fatalf("seed %d: cut at %v and never down", seed, cut)
						}
						worst = max(worst, fell-cut)
					}
					t.Logf("the outage was acted on after %v at most", worst)
					if worst > 1500*ms {
						t.Errorf("an outage in the midst of load was acted on after %v", worst)
					}
				})
			}
		}
	}
}

// Targets that answer nothing while the line is busy fell nothing, as long as the
// house gets new answers; nor does an ISP that drops all pings.
func TestBusyLineWithoutPings(t *testing.T) {
	for seed := range uint64(rounds(10)) {
		w := start(calm(), seed)
		w.at(10*sec, func() {
			w.paths[fiber].only = map[Kind]bool{TCP: true}
			w.paths[fiber].load(w.now, 60, 2)
		})
		w.run(10 * time.Minute)
		w.mustNotMove(t, 0)
		if l := w.line(fiber); l.Loss > 20 {
			t.Errorf("loss %.0f %%: what the ISP drops is held against the line", l.Loss)
		}
		cut := 10*time.Minute + time.Duration(seed)*53*ms
		w.at(cut, func() { w.paths[fiber].sever(w.now, true) })
		w.run(cut + 1500*ms)
		w.mustUse(t, "lte")
	}
}

// What comes back but answers nothing new excuses a silence for three seconds: a
// dead uplink is found though three downloads go on retransmitting, and though a
// stream goes on for ever.
func TestUplinkDead(t *testing.T) {
	for name, packets := range map[string]float64{"stream": 100, "retransmissions": 3, "nothing": 0} {
		t.Run(name, func(t *testing.T) {
			var worst time.Duration
			for phase := time.Duration(0); phase < 250*ms; phase += 7 * ms {
				w := start(calm(), 1)
				w.at(5*sec, func() { w.paths[fiber].load(w.now, 300, 3) })
				cut := 20*sec + phase
				w.at(cut, func() {
					w.paths[fiber].load(w.now, packets, 3)
					w.paths[fiber].heldUp = true
				})
				w.run(cut + 5*sec)
				w.mustUse(t, "lte")
				worst = max(worst, w.moves(sec)[0].at-cut)
			}
			t.Logf("found after %v at most", worst)
			most := excuses + 400*ms
			if packets == 0 {
				most = sec
			}
			if worst > most {
				t.Errorf("found after %v, want %v", worst, most)
			}
		})
	}
}

// A dead downlink in the midst of load is a dead line.
func TestDownlinkDead(t *testing.T) {
	for phase := time.Duration(0); phase < 250*ms; phase += 7 * ms {
		w := start(calm(), 1)
		w.at(5*sec, func() { w.paths[fiber].load(w.now, 300, 3) })
		cut := 20*sec + phase
		w.at(cut, func() { w.paths[fiber].sever(w.now, true) })
		w.run(cut + sec)
		w.mustUse(t, "lte")
	}
}

func severalKinds() Config {
	cfg := calm()
	cfg.Target4 = []Target{
		targets[0], targets[1],
		{Kind: TCP, Addr: targets[2].Addr, Port: 443},
		{Kind: DNS, Addr: targets[2].Addr, Name: "example.org"},
	}
	return cfg
}

// An ISP that answers pings and nothing else is left when the file names targets
// of other kinds that answer by another line; with nothing to compare it stays.
func TestPingsAndNothingElse(t *testing.T) {
	w := start(severalKinds(), 1)
	w.at(30*sec, func() { w.paths[fiber].only = map[Kind]bool{Echo: true} })
	w.run(37 * sec)
	w.mustUse(t, "lte")
	if l := w.line(fiber); l.Verdict != Degraded {
		t.Errorf("%v, want degraded", l.Verdict)
	}
	w.run(20 * time.Minute)
	if n := len(w.moves(sec)); n != 1 {
		w.dump(t)
		t.Errorf("%d moves, want 1", n)
	}
	w.paths[fiber].only = nil
	for w.verdict(fiber) == Degraded && w.now.Sub(epoch) < 25*time.Minute {
		w.run(w.now.Sub(epoch) + sec)
	}
	w.returns(t)

	cfg := severalKinds() // the line in reserve is asked each 30 s, one target of four, but now
	cfg.WANs[1].Metered = true
	w = start(cfg, 1)
	w.at(5*sec, func() { w.paths[fiber].only = map[Kind]bool{Echo: true} })
	w.run(10 * sec)
	w.mustUse(t, "lte")

	cfg = severalKinds() // the other line owes good time: it works, and this one does not
	cfg.HoldDown = time.Hour
	w = start(cfg, 1)
	w.cut(40*sec, 42*sec, lte)
	w.at(60*sec, func() { w.paths[fiber].only = map[Kind]bool{Echo: true} })
	w.run(67 * sec)
	w.mustUse(t, "lte")
	w.mustBe(t, lte, Returning)

	w = start(severalKinds(), 1) // the servers are dead, and not the line
	w.at(30*sec, func() {
		for _, p := range w.paths {
			p.only = map[Kind]bool{Echo: true}
		}
	})
	w.run(time.Hour)
	w.mustNotMove(t, 0)
}

// The targets of other kinds are blocked on one line, by an ISP or a government,
// and the house's own conversations go on: nothing is moved, by night neither.
func TestTargetsThatAreBlocked(t *testing.T) {
	w := start(severalKinds(), 1)
	w.at(5*sec, func() { w.paths[fiber].load(w.now, 30, 1) })
	w.at(30*sec, func() { w.paths[fiber].only = map[Kind]bool{Echo: true} })
	w.at(10*time.Minute, func() { w.paths[fiber].load(w.now, 0, 0) })
	w.run(8 * time.Hour)
	w.mustNotMove(t, 0)
	w.mustBe(t, fiber, Up)
}

// What far ends repeat that hear nothing from us, because nothing but echoes leaves
// by the line, does not speak for it for long.
func TestRepeatedAtUs(t *testing.T) {
	w := start(severalKinds(), 1)
	w.at(30*sec, func() { w.paths[fiber].only = map[Kind]bool{Echo: true} })
	for _, after := range []time.Duration{200 * ms, 600 * ms, 1400 * ms, 3 * sec, 6200 * ms, 12600 * ms, 25400 * ms} {
		w.at(30*sec+after, func() {
			w.paths[fiber].count(w.now)
			w.paths[fiber].counts[0] += 3 // downloads
		})
	}
	w.run(40 * sec)
	w.mustUse(t, "lte")
}

// An ISP that answers everything but pings is no outage, whether the house is
// awake or asleep.
func TestEverythingButPings(t *testing.T) {
	w := start(severalKinds(), 1)
	w.at(30*sec, func() { w.paths[fiber].only = map[Kind]bool{TCP: true, DNS: true} })
	w.run(time.Hour)
	w.mustNotMove(t, 0)
	w.mustBe(t, fiber, Up)
	w.cut(time.Hour, 2*time.Hour, fiber)
	w.run(time.Hour + sec)
	w.mustUse(t, "lte")
}

// Carrier blinks, twenty in a row, of all lengths: one move away and one back.
func TestTwentyBlinks(t *testing.T) {
	for seed := range uint64(50) {
		w := start(calm(), seed)
		at := 10 * sec
		for n := range uint32(20) {
			long := 50*ms + time.Duration(w.r.Int64N(int64(450*ms)))
			w.at(at, func() { w.paths[fiber].sever(w.now, true); w.m.Carrier(w.now, "fiber", false, n+1) })
			w.at(at+long, func() { w.paths[fiber].sever(w.now, false); w.m.Carrier(w.now, "fiber", true, n+1) })
			at += long + 50*ms + time.Duration(w.r.Int64N(int64(450*ms)))
		}
		w.run(at)
		w.returns(t)
		if n := len(w.moves(sec)); n != 2 {
			w.dump(t)
			t.Fatalf("seed %d: %d moves, want 2", seed, n)
		}
	}
}

// A line that flaps, 5 s up and 25 s down for ten minutes, is left once and
// comes back once, when it has been good about as long as it was bad.
func TestFlapping(t *testing.T) {
	w := start(calm(), 1)
	for at := 10 * sec; at < 10*sec+10*time.Minute; at += 30 * sec {
		w.cut(at, at+25*sec, fiber)
	}
	w.run(10*time.Minute + 10*sec)
	if l := w.line(fiber); l.Relapses != 4 || l.HoldDown != 8*time.Minute {
		t.Errorf("%d relapses and a hold-down of %v, want 4 and 8m", l.Relapses, l.HoldDown)
	}
	w.returns(t)
	if n := len(w.moves(sec)); n != 2 {
		w.dump(t)
		t.Errorf("%d moves, want 2", n)
	}
}

// Good time makes failures forgotten, one an hour.
func TestGoodTimeIsForgiveness(t *testing.T) {
	w := start(calm(), 1)
	for n := range time.Duration(3) {
		w.cut(n*5*time.Minute+10*sec, n*5*time.Minute+20*sec, fiber)
	}
	w.run(20 * time.Minute)
	if l := w.line(fiber); l.Relapses != 2 || l.NextHoldDown != 4*time.Minute || l.HoldDown != 0 {
		t.Errorf("%d relapses, next hold-down %v, this one %v", l.Relapses, l.NextHoldDown, l.HoldDown)
	}
	for hours, want := range []time.Duration{4, 2, 1, 0} {
		w.run(20*time.Minute + time.Duration(hours)*time.Hour)
		if got := w.line(fiber).NextHoldDown; got != max(30*sec, want*time.Minute) {
			t.Errorf("after %d good hours the next hold-down is %v", hours, got)
		}
	}
}

// All lines lost for a minute and back in each order, with their leases: the
// first that answers is used at once, and in the end the preferred one.
func TestAllLinesLost(t *testing.T) {
	for _, c := range []struct {
		fiber, lte time.Duration
		leases     bool
	}{{60 * sec, 70 * sec, false}, {70 * sec, 60 * sec, false}, {60 * sec, 60 * sec, false}, {60 * sec, 70 * sec, true}, {70 * sec, 60 * sec, true}, {60 * sec, 200 * sec, true}, {200 * sec, 60 * sec, true}} {
		w := start(calm(), 1)
		for id, back := range map[LineID]time.Duration{fiber: c.fiber, lte: c.lte} {
			w.cut(10*sec, 10*sec+back, id)
			if c.leases {
				w.at(40*sec, func() { w.m.Line(w.now, id, false) })
				w.at(10*sec+back+sec, func() { w.m.Line(w.now, id, true) })
			}
		}
		first := 10*sec + min(c.fiber, c.lte)
		want := "fiber"
		if c.lte < c.fiber {
			want = "lte"
		}
		w.run(first - ms)
		w.mustUse(t, "")
		w.run(first + 1500*ms)
		w.mustUse(t, want)
		w.run(10*sec + max(c.fiber, c.lte) + 2*sec)
		if want == "lte" {
			w.returns(t)
		}
		w.run(10 * time.Minute)
		w.mustUse(t, "fiber")
	}
}
