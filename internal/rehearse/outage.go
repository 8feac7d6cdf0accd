package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"weir/internal/lab"
)

// way is how a line is lost.
type way struct {
	word  string
	about string
	told  bool // the kernel tells when
	cut   func(i *lab.ISP, on bool) error
}

// The ways.
var ways = []way{
	{"dark", "goes dark behind its router", false, func(i *lab.ISP, on bool) error { return i.Dark(on) }},
	{"carrier", "loses its carrier", true, func(i *lab.ISP, on bool) error { return i.Carrier(!on) }},
}

// fault loses a line, or gives it back.
func (b *Bench) fault(w way, wan string, on bool) error {
	if err := w.cut(b.ISPs[wan], on); err != nil {
		return err
	}
	if on {
		return b.happens(Cut)
	}
	return b.happens(Restored)
}

// slack is what a flow gets beyond the limit: its program's next write.
const slack = 200 * time.Millisecond

// outage is a line in use lost, and back.
type outage struct {
	s     *Site
	wan   string
	other string // who takes over the conversations' family
	v6    bool   // that family
	way   way
	most  time.Duration // until the house is served by another line
}

// lossAct loses the line that is in use and gives it back.
func lossAct(s *Site, w way, wan string) (Act, bool) {
	v6 := len(s.Order(false)) == 0
	order := s.Order(v6)
	if len(order) < 2 || order[0] != wan {
		return Act{}, false
	}
	o := outage{s: s, wan: wan, other: order[1], v6: v6, way: w, most: s.most(w, wan)}
	return promised(wan+" "+w.about, wan, false, Act{Drills: o.drills(), Do: o.do}), true
}

func (o outage) name(what ...string) string {
	return name(append([]string{o.way.word, o.wan}, what...)...)
}

// families are those in which the line is in use and another can take over.
func (o outage) families() (out []bool) {
	for _, v6 := range []bool{false, true} {
		if order := o.s.Order(v6); len(order) > 1 && order[0] == o.wan {
			out = append(out, v6)
		}
	}
	return out
}

func (o outage) drills() []string {
	var out []string
	for _, v6 := range o.families() {
		out = append(out, o.name("gap", familyName(v6)))
	}
	out = append(out, o.name("new"))
	for _, k := range connections {
		out = append(out, o.name(k.drill))
	}
	out = append(out, o.name("datagrams"))
	if o.hasInward(o.other) {
		out = append(out, o.name("others"))
	}
	return append(out, o.backDrills()...)
}

// backDrills are those of the line's return, if that is waited for.
func (o outage) backDrills() []string {
	if !o.s.returns() {
		return nil
	}
	out := []string{o.name("back"), o.name("calm")}
	if o.hasInward(o.wan) {
		out = append(out, o.name("inbound"))
	}
	return out
}

// hasInward says whether conversations come in by a line.
func (o outage) hasInward(wan string) bool {
	f, _ := (&Bench{Site: o.s}).inbound(wan, o.v6)
	return f != nil
}

func (o outage) do(ctx context.Context, b *Bench) []Result {
	about := fmt.Sprintf("%s %s and comes back", o.wan, o.way.about)
	t, err := b.traffic(ctx)
	if err != nil {
		return failAll(o.drills(), about, "a house in order", err.Error(), "weir's log: "+b.Daemon.Log(5))
	}
	defer t.stop()
	look := func() string { return "the line's verdict and its probes; weir's log: " + b.Daemon.Log(6) }

	if err := b.fault(o.way, o.wan, true); err != nil {
		return failAll(o.drills(), about, "an outage", err.Error(), "the lab")
	}
	cut := time.Now()
	var out []Result
	for _, v6 := range o.families() {
		gap, back := t.gap(ctx, v6, cut, o.most+5*time.Second)
		r := timed(o.name("gap", familyName(v6)), about, gap.Len(), o.most, "echoes answered again by "+o.s.Order(v6)[1], look(),
			secs("gap", gap.Len()), packets("lost", gap.Lost))
		if !back {
			r = fail(r.Drill, about, r.Expected, "none answered in "+seconds(o.most+5*time.Second), look())
		}
		r.Timeline = t.timeline(v6, cut, o.wan, o.s.Order(v6)[1])
		out = append(out, r)
	}
	out = append(out, o.moved(ctx, t, about, look))
	out = append(out, o.flows(ctx, t, about, cut, look)...)
	if f := t.inward[o.other]; f != nil {
		out = append(out, undisturbed(o.name("others"), about, "a conversation from outside by "+o.other, f, t.since, look()))
	}

	if o.backDrills() == nil {
		return out
	}
	if err := b.fault(o.way, o.wan, false); err != nil {
		return append(out, failAll(o.backDrills(), about, "the outage's end", err.Error(), "the lab")...)
	}
	return append(out, o.back(ctx, t, about, look)...)
}

// moved looks where new connections go.
func (o outage) moved(ctx context.Context, t *traffic, about string, look func() string) Result {
	for _, v6 := range o.families() {
		want := o.s.Order(v6)[1]
		if wan, wrong := t.newGoes(ctx, v6); wan != want || wrong != "" {
			if wrong == "" {
				wrong = "it goes by " + wan
			}
			return fail(o.name("new"), about, fmt.Sprintf("a new %s connection goes by %s, translated", familyName(v6), want), wrong, look())
		}
	}
	return pass(o.name("new"), about)
}

// flows looks what became of the conversations.
func (o outage) flows(ctx context.Context, t *traffic, about string, cut time.Time, look func() string) []Result {
	var out []Result

	for _, k := range connections {
		out = append(out, o.told(ctx, t.flows[k.kind], o.name(k.drill), about, k.what+" connection is reset", cut, look))
	}

	most := o.most + slack
	at, ok := t.flows[lab.Datagrams].HeardFrom(ctx, "inet-"+o.other, cut, time.Until(cut.Add(most+time.Second)))
	if !ok {
		return append(out, fail(o.name("datagrams"), about, "a UDP conversation goes on by "+o.other, "nothing was heard of it there", look()))
	}
	return append(out, timed(o.name("datagrams"), about, at.Sub(cut), most, "a UDP conversation goes on by "+o.other, look(), secs("moved after", at.Sub(cut))))
}

// grace is how long the connections of a lost line wait for it, so that a blink
// ends none.
const grace = 2 * time.Second

// connections are the kinds of TCP conversation: each is told when its line is
// given up, also one that only waits.
var connections = []struct {
	kind        lab.FlowKind
	drill, what string
}{
	{lab.Sending, "sending", "a sending"},
	{lab.Receiving, "receiving", "a listening"},
	{lab.Idle, "idle", "an idle"},
}

// told looks whether a connection is reset, after the grace and soon after it.
func (o outage) told(ctx context.Context, f *lab.Flow, drill, about, expected string, cut time.Time, look func() string) Result {
	most := o.most + grace + slack
	at, err, ended := f.Ended(ctx, time.Until(cut.Add(most+time.Second)))
	switch took := at.Sub(cut); {
	case !ended:
		return fail(drill, about, expected+" within "+seconds(most), "it hangs", look())
	case !lab.Reset(err):
		return fail(drill, about, expected, err.Error(), look())
	default:
		r := timed(drill, about, took, most, expected, look(), secs("reset after", took))
		if r.Judged.Least = grace.Seconds(); r.OK && took < grace {
			r.OK, r.Expected, r.Seen, r.Look = false, "no reset before the line had "+seconds(grace)+" to return", seconds(took), look()
		}
		return r
	}
}

// back waits for the line to be used again: after the file's hold-down and no
// sooner, without a packet lost, and without moving what has found its way unless
// the file says so (on_return).
func (o outage) back(ctx context.Context, t *traffic, about string, look func() string) []Result {
	b, hold := t.b, o.s.Config.Failover.HoldDown
	most := hold + o.s.again(o.way, o.wan) + time.Second
	restored := time.Now()
	// Echoes keep coming by the other line: what is lost from here on is lost by
	// the line's return.
	at, ok := t.comesBack(ctx, o.v6, o.wan, most+7*time.Second)
	backName, calm := o.name("back"), o.name("calm")
	var out []Result
	switch took := at.Sub(restored); {
	case !ok:
		out = append(out, fail(backName, about, fmt.Sprintf("new connections by %s again after %s", o.wan, seconds(hold)),
			fmt.Sprintf("not in %s", seconds(most+7*time.Second)), look()))
	default:
		r := timed(backName, about, took, most, "new connections by "+o.wan+" again", look(), secs("after", took))
		// A probe may have been answered just before the lab says that it is over.
		if r.Judged.Least = (hold - 500*time.Millisecond).Seconds(); !r.Judged.ok() && r.OK {
			r.OK, r.Expected, r.Seen, r.Look = false, "not before "+seconds(hold)+" of good time", seconds(took), look()
		}
		out = append(out, r)
	}
	lost := 0
	for _, v6 := range o.families() {
		for _, g := range lab.Gaps(settled(t.echo[v6].Beats(), restored)) {
			lost += g.Lost
		}
	}
	by, expected := o.other, "a UDP conversation stays where it went"
	if o.s.Config.WAN(o.other).Move {
		by, expected = o.wan, "a UDP conversation moves back, as on_return says"
	}
	_, heard := t.flows[lab.Datagrams].HeardFrom(ctx, "inet-"+by, time.Now(), time.Second)
	switch {
	case lost > 0:
		out = append(out, fail(calm, about, "no packet lost by the line's return", fmt.Sprintf("%d echoes", lost), look(), packets("lost", lost)))
	case !heard:
		out = append(out, fail(calm, about, expected, "it is not heard by "+by, look()))
	default:
		out = append(out, pass(calm, about, packets("lost", 0)))
	}
	if t.inward[o.wan] != nil {
		out = append(out, b.inboundAgain(ctx, o.name("inbound"), about, o.wan, o.v6, inboundSoon))
	}
	return out
}

// inboundSoon is within what time a line that works is used by whoever comes in.
const inboundSoon = 5 * time.Second

// inboundAgain asks a forward from outside by a line that has come back.
func (b *Bench) inboundAgain(ctx context.Context, drill, about, wan string, v6 bool, most time.Duration) Result {
	f, port := b.inbound(wan, v6)
	start := time.Now()
	end := start.Add(most)
	var seen string
	for time.Now().Before(end) && ctx.Err() == nil {
		public, err := b.publicAddr(ctx, wan, v6)
		if err != nil {
			seen = err.Error()
			break
		}
		g, a, err := b.ISPs[wan].Inet.Ask(ctx, "tcp", lab.Web(v6), netip.AddrPortFrom(public, port), 500*time.Millisecond)
		if a == lab.Answered && g.Host == b.target(f, v6) {
			return pass(drill, about, secs("answered after", time.Since(start)))
		}
		seen = fmt.Sprintf("%s (%v)", a, err)
		pause(ctx, 50*time.Millisecond)
	}
	return fail(drill, about, fmt.Sprintf("%s reached from the internet by %s again within %s", place(f.Pos), wan, seconds(most)), seen, "weir's log: "+b.Daemon.Log(5))
}

// undisturbed judges a conversation that should not have noticed.
func undisturbed(drill, about, what string, f *lab.Flow, since time.Time, look string) Result {
	if _, err, ended := f.Ended(context.Background(), 0); ended {
		return fail(drill, about, what+" goes on", fmt.Sprintf("it has ended: %v", err), look)
	}
	// Single packets are counted by the echoes. A conversation that lost its way
	// stays silent; a busy machine alone makes pauses of some 0.1 s.
	if s := f.Silence(since); s > time.Second {
		return fail(drill, about, what+" goes on", "it was silent for "+seconds(s), look)
	}
	return pass(drill, about, secs("longest silence", f.Silence(since)))
}

func failAll(drills []string, about, expected, seen, look string) []Result {
	var out []Result
	for _, d := range drills {
		out = append(out, fail(d, about, expected, seen, look))
	}
	return out
}
