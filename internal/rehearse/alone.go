package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"weir/internal/lab"
)

// solitude is a line lost, and back, that no other can stand in for.
type solitude struct {
	s        *Site
	wan      string
	way      way
	families []bool        // those in which it is alone, the conversations' first: v6?
	most     time.Duration // until who asks anew is told
}

// aloneAct loses a line that is the only one of a family: clients are told at
// once that there is no way, nothing is reset, and what was under way goes on
// when the line is back.
func aloneAct(s *Site, w way, wan string) (Act, bool) {
	o := solitude{s: s, wan: wan, way: w, most: s.most(w, wan)}
	for _, v6 := range []bool{false, true} {
		if s.only(wan, v6) {
			o.families = append(o.families, v6)
		}
	}
	if len(o.families) == 0 {
		return Act{}, false
	}
	fault := wan + " " + w.about
	if len(o.families) == 1 && len(s.Lines) > 1 {
		fault += ", the only line of " + familyName(o.families[0])
	}
	return promised(fault, wan, true, Act{Drills: o.drills(), Do: o.do}), true // that nothing comes by it is the line's doing
}

func (o solitude) name(what ...string) string {
	return name(append([]string{o.way.word, o.wan}, what...)...)
}

// kept are the conversations that outlive the outage.
var kept = []lab.FlowKind{lab.Sending, lab.Receiving, lab.Idle, lab.Datagrams}

func (o solitude) drills() []string {
	var out []string
	for _, what := range []string{"told", "back"} {
		for _, v6 := range o.families {
			out = append(out, o.name(what, familyName(v6)))
		}
	}
	for _, kind := range kept {
		out = append(out, o.name("kept", string(kind)))
	}
	if (outage{s: o.s, wan: o.wan, v6: o.families[0]}).hasInward(o.wan) {
		out = append(out, o.name("inbound"))
	}
	return out
}

func (o solitude) do(ctx context.Context, b *Bench) []Result {
	about := fmt.Sprintf("%s, the only line, %s and comes back", o.wan, o.way.about)
	look := func() string { return "the line's verdict; weir's log: " + b.Daemon.Log(6) }
	v6 := o.families[0]
	t, err := b.trafficBy(ctx, v6)
	if err != nil {
		return failAll(o.drills(), about, "a house in order", err.Error(), look())
	}
	defer t.stop()
	if err := b.fault(o.way, o.wan, true); err != nil {
		return failAll(o.drills(), about, "an outage", err.Error(), "the lab")
	}
	cut := time.Now()
	told := map[bool]time.Duration{}
	for _, v6 := range o.families {
		if at, ok := b.toldBy(ctx, v6, cut.Add(o.most+5*time.Second)); ok {
			told[v6] = at.Sub(cut)
		}
	}
	// Long enough for whatever would give up a conversation: nobody does.
	long := pause(ctx, time.Until(cut.Add(max(o.most, time.Second)+1500*time.Millisecond)))
	if err := b.fault(o.way, o.wan, false); err != nil || !long {
		return failAll(o.drills(), about, "the outage's end", fmt.Sprint(err), "the lab")
	}
	restored := time.Now()

	var out []Result
	for _, v6 := range o.families {
		took, ok := told[v6]
		drill, expected := o.name("told", familyName(v6)), "who asks anew is told that there is no way"
		r := timed(drill, about, took, o.most, expected, look(), secs("told from", took))
		if !ok {
			r = fail(drill, about, expected+" within "+seconds(o.most), "silence for "+seconds(o.most+5*time.Second), look())
		}
		out = append(out, r)
	}
	soon := 3 * time.Second
	if !o.way.told {
		soon += o.s.needed(o.wan)
	}
	for _, v6 := range o.families {
		drill := o.name("back", familyName(v6))
		at, ok := t.comesBack(ctx, v6, o.wan, soon+7*time.Second)
		r := timed(drill, about, at.Sub(restored), soon, "a new connection is answered", look(), secs("after", at.Sub(restored)))
		if !ok {
			r = fail(drill, about, "a new connection is answered within "+seconds(soon), "not in "+seconds(soon+7*time.Second), look())
		}
		out = append(out, r)
	}
	// A TCP tries again ever more seldom: after an outage within as much.
	end := restored.Add(max(restored.Sub(cut), 3*time.Second) + 5*time.Second)
	for _, kind := range kept {
		out = append(out, o.goesOn(ctx, t.flows[kind], about, restored, end, look))
	}
	if t.inward[o.wan] != nil {
		out = append(out, b.inboundAgain(ctx, o.name("inbound"), about, o.wan, v6, inboundSoon))
	}
	return out
}

// goesOn judges a conversation from before the outage: it goes on by itself.
func (o solitude) goesOn(ctx context.Context, f *lab.Flow, about string, restored, end time.Time, look func() string) Result {
	drill := o.name("kept", string(f.Kind))
	expected := fmt.Sprintf("a %s conversation goes on", f.Kind)
	if f.Kind == lab.Idle {
		f.Poke()
	}
	at, ok := f.HeardFrom(ctx, "inet-"+o.wan, restored, time.Until(end))
	switch _, err, ended := f.Ended(ctx, 0); {
	case ended:
		return fail(drill, about, expected, fmt.Sprintf("it has ended: %v", err), look())
	case !ok:
		return fail(drill, about, expected, "it was silent for "+seconds(end.Sub(restored)), look())
	}
	return pass(drill, about, secs("goes on after", at.Sub(restored)))
}

// toldBy asks the internet anew, over and over, until a client is told that there
// is no way, and returns when. ok is false if it is not by the end. An answer
// takes less than a millisecond here; what is asked before the line is given up
// has none, and how long that is waited for is how finely the time is known.
func (b *Bench) toldBy(ctx context.Context, v6 bool, end time.Time) (at time.Time, ok bool) {
	c := b.Clients[b.talker().Name]
	for time.Now().Before(end) && ctx.Err() == nil {
		_, a, _ := c.Ask(ctx, "tcp", netip.Addr{}, netip.AddrPortFrom(lab.Web(v6), 7), 15*time.Millisecond)
		if at = time.Now(); a == lab.Refused {
			return at, true
		}
	}
	return time.Time{}, false
}
