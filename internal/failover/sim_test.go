package failover

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

var (
	epoch   = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	targets = []Target{echo("1.1.1.1"), echo("8.8.8.8"), echo("9.9.9.9")}
	fiber   = LineID{"fiber", IPv4}
	lte     = LineID{"lte", IPv4}
)

func echo(addr string) Target { return Target{Kind: Echo, Addr: netip.MustParseAddr(addr)} }

func twoWANs() Config {
	return Config{
		WANs: []WAN{{Name: "fiber"}, {Name: "lte"}}, Prefer: []string{"fiber", "lte"},
		HoldDown: 30 * time.Second, Every: 250 * time.Millisecond,
		Target4: targets, Target6: []Target{echo("2001:db8::1")},
	}
}

// path is how a line treats packets in the simulation.
type path struct {
	loss    float64 // of round trips
	rtt     func(r *rand.Rand, at time.Time) time.Duration
	cut     bool
	bare    bool // it has no lease
	dead    map[Target]bool
	limit   time.Duration // the limited targets answer once in this time
	limited map[Target]time.Time
	refuse  string        // routers answer with this ICMP error
	only    map[Kind]bool // nil: all; the kinds of probe that are answered

	packets, answers float64 // a second that come back
	begun            float64 // flows a second that the house begins, if that is counted
	heldUp           bool    // the uplink is dead: what comes back answers nothing new
	counts           [3]float64
	counted          time.Time

	failed time.Time // the last time, in a house
	id     LineID    // filled in when it is counted
	probes int       // that were ordered
}

// carries says whether a probe of a time comes back, and after how long.
func (p *path) carries(r *rand.Rand, at time.Time, t Target) (back bool, rtt time.Duration) {
	if p.cut || p.heldUp || p.dead[t] || p.only != nil && !p.only[t.Kind] || p.loss > 0 && r.Float64() < p.loss {
		return false, 0
	}
	if p.limit > 0 {
		if last, is := p.limited[t]; is {
			if at.Sub(last) < p.limit {
				return false, 0
			}
			p.limited[t] = at
		}
	}
	return true, p.rtt(r, at)
}

// count advances the line's counters to a time.
func (p *path) count(now time.Time) Counts {
	d := now.Sub(p.counted).Seconds()
	switch {
	case p.counted.IsZero():
	case p.cut:
		p.counts[2] += d * p.begun
	default:
		p.counts[0] += d * p.packets
		p.counts[2] += d * p.begun
		if !p.heldUp {
			p.counts[1] += d * p.answers
		}
	}
	p.counted = now
	return Counts{Packets: uint64(p.counts[0]), Answers: uint64(p.counts[1]), Begun: uint64(p.counts[2])}
}

// load changes what comes back a second.
func (p *path) load(now time.Time, packets, answers float64) {
	p.count(now)
	p.packets, p.answers = packets, answers
}

// sever cuts the line or mends it.
func (p *path) sever(now time.Time, cut bool) {
	p.count(now)
	p.cut = cut
}

func fixed(d time.Duration) func(*rand.Rand, time.Time) time.Duration {
	return func(*rand.Rand, time.Time) time.Duration { return d }
}

func uniform(lo, hi time.Duration) func(*rand.Rand, time.Time) time.Duration {
	return func(r *rand.Rand, _ time.Time) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo))) }
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any     { x := (*e)[len(*e)-1]; *e = (*e)[:len(*e)-1]; return x }

// note is what the machine is about to be told: there are a thousand million of
// them in a day of a thousand houses, so they are plain values, told apart by what.
type note struct {
	at   time.Time // when it is told
	of   time.Time // when it happened, if not then
	what uint8
	id   uint64
	path *path
	rtt  time.Duration
	c    Counts
}

const (
	wasSent uint8 = iota
	wasAnswered
	wasRefused
	wasRead
)

// notes are in the order in which they are told. There are few at a time.
type notes []note

func (q *notes) add(n note) {
	*q = append(*q, n)
	for i := len(*q) - 1; i > 0 && n.at.Before((*q)[i-1].at); i-- {
		(*q)[i], (*q)[i-1] = (*q)[i-1], n
	}
}

type stamped struct {
	at time.Duration // since the epoch
	Change
}

// world drives a Machine through simulated time.
type world struct {
	m      *Machine
	r      *rand.Rand
	now    time.Time
	paths  map[LineID]*path
	queue  events // of the script
	seq    int
	notes  notes
	told   int       // of notes, from the start
	tick   time.Time // when the machine asked to be called; zero: never
	log    []stamped
	before func() // called when time has gone on, before anything happens
	after  func() // called when the machine has judged
	mute   bool   // the prober is dead: orders vanish
	ticks  int
	orders int            // ticks that ordered probes
	reads  map[LineID]int // of counters
}

// tellsAfter is when the prober tells of a sending, if no reply came before
// (package probe).
const tellsAfter = 40 * time.Millisecond

func newWorld(cfg Config, seed uint64) *world {
	w := &world{m: New(cfg, epoch), r: rand.New(rand.NewPCG(seed, 87)), now: epoch, paths: map[LineID]*path{}, reads: map[LineID]int{}}
	for _, id := range []LineID{fiber, lte} {
		w.paths[id] = &path{rtt: fixed(20 * time.Millisecond)}
	}
	return w
}

func (w *world) at(d time.Duration, do func()) { w.push(epoch.Add(d), do) }

func (w *world) push(at time.Time, do func()) {
	w.seq++
	heap.Push(&w.queue, event{at, w.seq, do})
}

// up gives both lines addresses.
func (w *world) up() *world {
	for _, id := range []LineID{fiber, lte} {
		w.m.Line(w.now, id, true)
	}
	w.step()
	return w
}

func (w *world) step() {
	w.ticks++
	out := w.m.Tick(w.now)
	w.tick = out.Next
	for _, c := range out.Changes {
		w.log = append(w.log, stamped{w.now.Sub(epoch), c})
	}
	if len(out.Probes) > 0 {
		w.orders++
	}
	for _, id := range out.Count {
		w.reads[id]++
		at := w.now.Add(300 * time.Microsecond)
		path := w.paths[id]
		path.id = id
		w.notes.add(note{at: at.Add(time.Millisecond), of: at, what: wasRead, path: path, c: path.count(at)})
	}
	for _, p := range out.Probes {
		path := w.paths[p.Line]
		path.probes++
		if !w.mute {
			w.send(p, path)
		}
	}
	if w.after != nil {
		w.after()
	}
}

// send has a probe go out 200 us after it was ordered.
func (w *world) send(p Probe, path *path) {
	sent := w.now.Add(200 * time.Microsecond)
	n := note{at: sent, of: sent, id: p.ID, path: path}
	if path.refuse != "" {
		n.what = wasRefused
		w.notes.add(n)
		return
	}
	if back, rtt := path.carries(w.r, sent, p.Target); back {
		n.at, n.of, n.what, n.rtt = sent.Add(rtt), sent.Add(rtt), wasAnswered, rtt
		w.notes.add(n)
		if rtt < tellsAfter {
			return
		}
	}
	n.at, n.of, n.what = sent.Add(tellsAfter), sent, wasSent
	w.notes.add(n)
}

// tell passes a note to the machine; false: nothing came.
func (w *world) tell(n note) bool {
	switch n.what {
	case wasSent:
		w.m.Sent(n.of, n.id)
	case wasRefused:
		w.m.Error(n.of, n.id, n.path.refuse)
	case wasRead:
		w.m.Traffic(n.of, n.path.id, n.c)
	case wasAnswered:
		if n.path.cut {
			return false
		}
		w.m.Reply(n.of, n.id, n.rtt)
	}
	return true
}

// run goes on until d after the epoch.
func (w *world) run(d time.Duration) {
	end := epoch.Add(d)
	for {
		next := end
		if !w.tick.IsZero() && w.tick.Before(next) {
			next = w.tick
		}
		script := len(w.queue) > 0 && !w.queue[0].at.After(next)
		if script {
			next = w.queue[0].at
		}
		if w.told < len(w.notes) && !w.notes[w.told].at.After(next) {
			n := w.notes[w.told]
			if w.told++; w.told == 64 {
				w.notes, w.told = slices.Delete(w.notes, 0, w.told), 0
			}
			w.now = n.at
			w.pass()
			if w.tell(n) {
				w.step()
			}
			continue
		}
		w.now = next
		w.pass()
		if script {
			heap.Pop(&w.queue).(event).do()
			w.step()
			continue
		}
		w.step()
		if next.Equal(end) {
			return
		}
	}
}

func (w *world) pass() {
	if w.before != nil {
		w.before()
	}
}

func (w *world) verdict(id LineID) Verdict {
	for _, l := range w.m.Status().Lines {
		if l.LineID == id {
			return l.Verdict
		}
	}
	return 0
}

func (w *world) line(id LineID) Line {
	for _, l := range w.m.Status().Lines {
		if l.LineID == id {
			return l
		}
	}
	return Line{}
}

// moves lists the choices made after d.
func (w *world) moves(d time.Duration) []stamped {
	var out []stamped
	for _, c := range w.log {
		if c.Choice && c.at > d {
			out = append(out, c)
		}
	}
	return out
}

// fell is when id went Down first after d; -1 is never.
func (w *world) fell(id LineID, d time.Duration) time.Duration {
	for _, c := range w.log {
		if c.Line == id && c.To == Down && c.at > d {
			return c.at
		}
	}
	return -1
}

// dump logs the last changes, without the suspicions that came to nothing.
func (w *world) dump(t *testing.T) {
	t.Helper()
	var log []stamped
	for i, c := range w.log {
		if c.From == Suspect && c.To != Down || c.To == Suspect && (i+1 == len(w.log) || w.log[i+1].From == Suspect && w.log[i+1].To != Down) {
			continue
		}
		log = append(log, c)
	}
	for _, c := range log[max(0, len(log)-30):] {
		if c.Choice {
			t.Logf("%9v %v: %q -> %q (%s)", c.at, c.Line.Family, c.FromWAN, c.ToWAN, c.Why)
		} else {
			t.Logf("%9v %v: %v -> %v (%s)", c.at, c.Line, c.From, c.To, c.Why)
		}
	}
}

const (
	ms  = time.Millisecond
	sec = time.Second
)

func (w *world) used() string { return w.m.use4.wan }

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
