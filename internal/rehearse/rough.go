package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/lab"
)

// A line may be bad and still be the house's line. These drills make it so and
// look that nothing is moved and nobody is cut off for it: the losses are the
// line's, and weir adds none.

// The figures of a bad line. Its buffer takes 1.2 s to drain, as a modem's does.
var (
	lossy  = lab.Shape{Loss: 30}
	narrow = lab.Shape{Rate: 2_000_000, Queue: 300_000}
	wide   = lab.Shape{Rate: 20_000_000, Queue: 250_000}
)

const uploads = 8 // one alone slows down when it sees the delay grow, and has a window to fill first

// badFor is how long a line is bad: long enough for any verdict on it.
func (s *Site) badFor(wan string) time.Duration { return s.doubted(wan) + time.Second }

// worst is the longest that a line is bad, for the sake of what goes over it.
const worst = 20 * time.Second

// rough are the runs of a line in use that is bad but works.
func (s *Site) rough() []Run {
	wan := s.first(false)
	if wan == "" {
		wan = s.first(true)
	}
	if wan == "" || s.Machine.TAP != "" {
		return nil
	}
	var runs []Run
	shaped := Variant{Shaped: []string{wan}}
	brief := s.badFor(wan) <= worst
	if !brief {
		s.omit(false, "a bad line", "%s is tried each %s only, and what is bad for so long ends conversations by itself", wan, seconds(s.every(wan)))
	}
	if brief && len(s.Order(s.talk6())) > 1 {
		runs = append(runs, Run{Name: "rough-" + wan, About: wan + " is bad, but works", Variant: shaped, Acts: []Act{
			promised(wan+" loses 30 %", wan, true, Act{[]string{name("rough", wan, "loss")}, func(ctx context.Context, b *Bench) []Result {
				return []Result{b.loss(ctx, name("rough", wan, "loss"), wan, wan+" loses 30 % of all packets, each way")}
			}}),
			promised("uploads fill the buffer of "+wan, wan, true, Act{[]string{name("rough", wan, "buffer")}, func(ctx context.Context, b *Bench) []Result {
				return []Result{b.buffer(ctx, name("rough", wan, "buffer"), wan, "uploads fill the buffer of "+wan)}
			}}),
		}})
	}
	if l := s.Line(wan); len(s.Order(s.talk6())) > 1 && l.VLAN == 0 && !s.shared(l.Port) {
		drills := []string{name("rough", wan, "blinks"), name("rough", wan, "blinks", "moves")}
		about := "the carrier of " + wan + " blinks twenty times, 50 to 500 ms each"
		act := promised(about, wan, true, Act{drills, func(ctx context.Context, b *Bench) []Result {
			return b.blinks(ctx, drills, wan, about)
		}})
		runs = append(runs, Run{Name: "blinks-" + wan, About: about, Variant: Variant{TAP: []string{wan}}, Acts: []Act{act}})
	}
	if !brief {
		return append(runs, s.oneWay(wan)...)
	}
	alone := []string{name("rough", wan, "alone", "buffer"), name("rough", wan, "alone", "loss")}
	act := Act{alone, func(ctx context.Context, b *Bench) []Result {
		if err := b.onlyLine(ctx, wan); err != nil {
			return failAll(alone, "no other line", "the lab", err.Error(), "the lab")
		}
		return []Result{
			b.buffer(ctx, alone[0], wan, "uploads fill the buffer of "+wan+", the only line"),
			b.loss(ctx, alone[1], wan, wan+", the only line, loses 30 % of all packets, each way"),
		}
	}}
	runs = append(runs, Run{Name: "alone-" + wan, About: wan + ", the only line, is bad, but works", Variant: shaped, Acts: []Act{promised(wan+", the only line, is full, then loses 30 %", wan, true, act)}})
	return append(runs, s.oneWay(wan)...)
}

// talk6 says whether the house's conversations are by IPv6.
func (s *Site) talk6() bool { return len(s.Order(false)) == 0 }

// onlyLine has all other lines go dark, and waits until that is known.
func (b *Bench) onlyLine(ctx context.Context, wan string) error {
	var known time.Duration
	for _, i := range b.ISPs {
		if i.Name == wan {
			continue
		}
		if err := i.Dark(true); err != nil {
			return err
		}
		b.darkened[i.Name] = true
		known = max(known, b.unused(i.Name)+time.Second)
	}
	pause(ctx, known)
	return ctx.Err()
}

// loss has the line lose packets for a while.
func (b *Bench) loss(ctx context.Context, drill, wan, about string) Result {
	return b.bears(ctx, drill, wan, about, lossy, lossy, func(context.Context, *traffic) (string, []Figure) {
		pause(ctx, b.badFor(wan))
		return "", nil
	})
}

// buffer has uploads fill the line's buffer, as real ones do: by sending faster
// than it takes.
func (b *Bench) buffer(ctx context.Context, drill, wan, about string) Result {
	return b.bears(ctx, drill, wan, about, narrow, wide, func(ctx context.Context, t *traffic) (string, []Figure) {
		c := b.Clients[t.lan.Name]
		before, _ := b.ISPs[wan].Counts()
		for range uploads {
			up, err := c.Upload(ctx, lab.Web(t.v6), askLimit)
			if err != nil {
				return err.Error(), nil
			}
			defer up.Close()
		}
		began := time.Now()
		full := lab.Until(ctx, b.badFor(wan), func() bool { up, _ := b.ISPs[wan].Counts(); return up.Full > before.Full })
		pause(ctx, time.Until(began.Add(b.badFor(wan))))
		after, _ := b.ISPs[wan].Counts()
		if !full {
			return fmt.Sprintf("the buffer of %s did not fill: %d bytes by that line", wan, after.Bytes-before.Bytes), nil
		}
		longest := time.Duration(0)
		for _, e := range t.echo[t.v6].Beats() {
			longest = max(longest, e.RTT)
		}
		return "", []Figure{secs("echoes waited up to", longest), packets("found it full", int(after.Full-before.Full))}
	})
}

// bears makes a line what the shapes say while the house talks, and judges that
// nothing went by another line, no conversation ended, and all go on afterwards.
func (b *Bench) bears(ctx context.Context, drill, wan, about string, up, down lab.Shape, during func(context.Context, *traffic) (string, []Figure)) Result {
	look := func() string { return "the line's verdict and figures; weir's log: " + b.Daemon.Log(6) }
	const expected = "nothing is moved, and no conversation ends"
	isp := b.ISPs[wan]
	t, err := b.traffic(ctx)
	if err != nil {
		return fail(drill, about, "a house in order", err.Error(), look())
	}
	defer t.stop()
	stray := b.elsewhere(wan)
	defer stray.stop()
	if err := isp.Shape(up, down); err != nil {
		return fail(drill, about, "a line with figures", err.Error(), "the lab")
	}
	began := time.Now()
	if err := b.happens(Cut); err != nil {
		return fail(drill, about, expected, err.Error(), "the lab")
	}
	stopAsking := t.keepAsking(ctx)
	wrong, figures := during(ctx, t)
	stopAsking()
	if err := isp.Shape(lab.Shape{}, lab.Shape{}); err != nil {
		return fail(drill, about, "the end of it", err.Error(), "the lab")
	}
	restored := time.Now()
	if by := stray.seen.Load(); by != nil {
		return fail(drill, about, expected, by.what, look())
	}
	if wrong != "" {
		return fail(drill, about, expected, wrong, look())
	}
	if wrong := t.goesOn(ctx, wan, restored, restored.Sub(began)+3*time.Second); wrong != "" {
		return fail(drill, about, expected, wrong, look())
	}
	if there, back := isp.Counts(); there.Over+back.Over > 0 {
		return fail(drill, about, "a lab that keeps up", fmt.Sprintf("the link itself lost %d packets", there.Over+back.Over), "this machine's load")
	}
	return pass(drill, about, append(figures, packets("conversations lost", 0))...)
}

// keepAsking has the house begin new connections until stop: where they go the
// lines' own wires tell.
func (t *traffic) keepAsking(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		for pause(ctx, 250*time.Millisecond) {
			t.newGoes(ctx, t.v6)
		}
	})
	return func() { cancel(); ended.Wait() }
}

// repeats is within what time a TCP that was losing for some seconds repeats itself.
const repeats = 8 * time.Second

// goesOn says which of the conversations does not, or nothing: each is heard by
// the line's internet again within a time, the idle one when it is used.
func (t *traffic) goesOn(ctx context.Context, wan string, since time.Time, most time.Duration) string {
	all := map[string]*lab.Flow{}
	for kind, f := range t.flows {
		all["the "+string(kind)+" conversation"] = f
	}
	for by, f := range t.inward {
		if by == wan {
			all["the conversation from outside by "+by] = f
		}
	}
	for what, f := range all {
		host := "inet-" + wan
		if f == t.inward[wan] {
			host = f.First.Host
		}
		if f.Kind == lab.Idle {
			f.Poke()
		}
		if _, err, ended := f.Ended(ctx, 0); ended {
			return fmt.Sprintf("%s has ended: %v", what, err)
		}
		if _, ok := f.HeardFrom(ctx, host, since, time.Until(since.Add(max(most, repeats)))); !ok {
			if _, err, ended := f.Ended(ctx, 0); ended {
				return fmt.Sprintf("%s has ended: %v", what, err)
			}
			return fmt.Sprintf("%s is silent for %s afterwards", what, seconds(time.Since(since)))
		}
	}
	return ""
}

// strays watches the other lines for what the house has to do with the internet's
// server, which is what the drills talk to and no probe does.
type strays struct {
	seen  atomic.Pointer[sighting] // the first
	stops []func()
}

// sighting is a packet on a wire where it should not be.
type sighting struct {
	what string
	at   time.Time
}

// elsewhere watches for the families that use wan: another line may be the only one
// of the other.
func (b *Bench) elsewhere(wan string) *strays {
	var server []netip.Addr
	for _, v6 := range []bool{false, true} {
		if b.Site.first(v6) == wan {
			server = append(server, lab.Web(v6))
		}
	}
	return b.elsewhereTo(wan, server...)
}

// elsewhereTo is elsewhere for those of the server's addresses.
func (b *Bench) elsewhereTo(wan string, server ...netip.Addr) *strays {
	s := &strays{}
	for name, isp := range b.ISPs {
		if name == wan {
			continue
		}
		s.stops = append(s.stops, isp.Wire.Watch(func(f lab.Frame) {
			if slices.Contains(server, f.Dst) && starts(f) {
				s.seen.CompareAndSwap(nil, &sighting{fmt.Sprintf("%s by %s", f, name), f.At})
			}
		}))
	}
	return s
}

// starts says whether a frame is the house's, and not the answer to one who came
// in by the line.
func starts(f lab.Frame) bool {
	const syn, ack = 2, 16
	return f.Proto != unix.IPPROTO_TCP || f.Flags&(syn|ack) == syn
}

func (s *strays) stop() {
	for _, f := range s.stops {
		f()
	}
}

// oneWay are the runs of a line in use that is dead in one direction, its carrier
// there: what arrives on it says nothing about what leaves.
func (s *Site) oneWay(wan string) []Run {
	order := s.Order(s.talk6())
	if len(order) < 2 {
		return nil
	}
	var out []Run
	for _, w := range []struct {
		word     string
		brief    string
		about    string
		up, down lab.Shape
		most     time.Duration
	}{
		// What still comes by the line speaks for it at first; it is not believed for long.
		{"uplink", "carries nothing up", "carries nothing up any more, while three downloads are repeated at us", lab.Shape{Dead: true}, wide, s.doubted(wan)},
		{"downlink", "carries nothing down", "carries nothing down any more", lab.Shape{}, lab.Shape{Dead: true}, s.noticed(wan)},
	} {
		o := outage{s: s, wan: wan, other: order[1], v6: s.talk6(), way: way{word: w.word, about: w.about}, most: w.most}
		drills := []string{o.name("gap"), o.name("new")}
		for _, k := range connections {
			drills = append(drills, o.name(k.drill))
		}
		act := Act{drills, func(ctx context.Context, b *Bench) []Result { return b.half(ctx, drills, o, w.up, w.down) }}
		out = append(out, Run{Name: w.word + "-" + wan, About: wan + " " + w.about, Variant: Variant{Shaped: []string{wan}}, Acts: []Act{promised(wan+" "+w.brief, wan, false, act)}})
	}
	return out
}

// half loses one direction of the line in use amid downloads.
func (b *Bench) half(ctx context.Context, drills []string, o outage, up, down lab.Shape) []Result {
	about, most := o.wan+" "+o.way.about, o.most
	look := func() string { return "the line's verdict and its probes; weir's log: " + b.Daemon.Log(6) }
	isp := b.ISPs[o.wan]
	t, err := b.traffic(ctx)
	if err != nil {
		return failAll(drills, about, "a house in order", err.Error(), look())
	}
	defer t.stop()
	if err := isp.Shape(lab.Shape{}, wide); err != nil {
		return failAll(drills, about, "a line with figures", err.Error(), "the lab")
	}
	for range 3 {
		d, err := b.Clients[t.lan.Name].Download(ctx, lab.Web(t.v6), askLimit)
		if err != nil {
			return failAll(drills, about, "a download", err.Error(), look())
		}
		defer d.Close()
		if !lab.Until(ctx, askLimit, func() bool { return d.Bytes() > 50_000 }) {
			return failAll(drills, about, "a download", fmt.Sprintf("%d bytes of it", d.Bytes()), look())
		}
	}
	if err := isp.Shape(up, down); err != nil {
		return failAll(drills, about, "an outage", err.Error(), "the lab")
	}
	cut := time.Now()
	if err := b.happens(Cut); err != nil {
		return failAll(drills, about, "an outage", err.Error(), "the lab")
	}
	gap, back := t.gap(ctx, t.v6, cut, most+4*time.Second)
	first := timed(drills[0], about, gap.Len(), most, "echoes answered again by "+o.other, look(), secs("gap", gap.Len()), packets("lost", gap.Lost))
	if !back {
		first = fail(drills[0], about, "echoes answered again by "+o.other+" within "+seconds(most), "none answered in "+seconds(most+4*time.Second), look())
	}
	first.Timeline = t.timeline(t.v6, cut, o.wan, o.other)
	fresh := pass(drills[1], about)
	by, wrong := t.newGoes(ctx, t.v6)
	if by != o.other && wrong == "" {
		wrong = "it goes by " + by
	}
	if wrong != "" {
		fresh = fail(drills[1], about, "a new connection goes by "+o.other+", translated", wrong, look())
	}
	out := []Result{first, fresh}
	for i, k := range connections {
		out = append(out, o.told(ctx, t.flows[k.kind], drills[2+i], about, k.what+" connection is reset", cut, look))
	}
	return out
}
