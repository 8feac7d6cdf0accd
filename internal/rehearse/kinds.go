package rehearse

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

// kinds are the runs of a line in use that answers pings and nothing else, and of
// one that answers everything but pings: what of it works is known by targets of
// several kinds only.
func (s *Site) kinds() []Run {
	v6 := s.talk6()
	order := s.Order(v6)
	if len(order) < 2 {
		return nil
	}
	wan := order[0]
	own, others := targetsOf(s.Config.WAN(wan), v6), targetsOf(s.Config.WAN(order[1]), v6)
	echo := func(t config.Target) bool { return t.Ask == config.AskEcho }
	both := func(t config.Target) bool { return !echo(t) && slices.Contains(others, t) }
	var runs []Run
	// Three misses of a target, each in its turn; two seconds without a word of the
	// house's conversations; and some for whoever begins one.
	most := time.Duration(3*len(own))*s.every(wan) + 4*time.Second
	switch {
	case !slices.ContainsFunc(own, echo) || !slices.ContainsFunc(own, both):
		s.omit(false, "an ISP that answers pings and nothing else", "%s and %s have no target in common that is asked otherwise than by an echo", wan, order[1])
	case most > 30*time.Second || s.metered(wan):
		s.omit(false, "an ISP that answers pings and nothing else", "%s is tried so seldom that it would take minutes to find out", wan)
	default:
		about := wan + " answers pings and nothing else"
		drills := []string{name("pings", wan, "new"), name("pings", wan, "datagrams"), name("pings", wan, "told")}
		drills = append(drills, s.hollow(wan, about).backDrills()...)
		runs = append(runs, Run{Name: "pings-" + wan, About: about, Acts: []Act{promised(about, wan, true, Act{drills, func(ctx context.Context, b *Bench) []Result {
			return b.onlyPings(ctx, drills, wan, about, most)
		}})}})
	}
	if slices.ContainsFunc(own, func(t config.Target) bool { return !echo(t) }) {
		drills := []string{name("nopings", wan, "calm"), name("nopings", wan, "back")}
		about := wan + " answers everything but pings"
		runs = append(runs, Run{Name: "nopings-" + wan, About: about, Acts: []Act{promised(about, wan, true, Act{drills, func(ctx context.Context, b *Bench) []Result {
			return b.noPings(ctx, drills, wan, about)
		}})}})
	} else {
		s.omit(false, "an ISP that answers everything but pings", "%s has targets of no other kind", wan)
	}
	return runs
}

// hollow is a line that answers pings and nothing else, as an outage.
func (s *Site) hollow(wan, about string) outage {
	v6 := s.talk6()
	return outage{s: s, wan: wan, other: s.Order(v6)[1], v6: v6, way: way{word: "pings", about: about}}
}

func targetsOf(w *config.WAN, v6 bool) []config.Target {
	if v6 {
		return w.Probe.Target6
	}
	return w.Probe.Target4
}

// onlyPings has the line in use answer nothing but pings, waits for new
// connections by another one, and for those that are under way; and for the line
// to be used again when it answers all.
func (b *Bench) onlyPings(ctx context.Context, drills []string, wan, about string, most time.Duration) []Result {
	look := func() string { return "the line's targets; weir's log: " + b.Daemon.Log(6) }
	t, err := b.traffic(ctx)
	if err != nil {
		return failAll(drills, about, "a house in order", err.Error(), look())
	}
	defer t.stop()
	other := b.Order(t.v6)[1]
	if err := b.ISPs[wan].OnlyPings(true); err != nil {
		return failAll(drills, about, "an ISP that passes pings only", err.Error(), "the lab")
	}
	cut := time.Now()
	if err := b.happens(Cut); err != nil {
		return failAll(drills, about, "an ISP that passes pings only", err.Error(), "the lab")
	}
	judge := func(drill, expected string, at time.Time, ok bool, figure string) Result {
		if !ok {
			return fail(drill, about, expected+" within "+seconds(most), "not in "+seconds(time.Since(cut)), look())
		}
		return timed(drill, about, at.Sub(cut), most, expected, look(), secs(figure, at.Sub(cut)))
	}
	at, ok := t.comesBack(ctx, t.v6, other, most+time.Second)
	out := []Result{judge(drills[0], "new connections go by "+other, at, ok, "found after")}
	at, ok = t.flows[lab.Datagrams].HeardFrom(ctx, "inet-"+other, cut, time.Until(cut.Add(most+time.Second)))
	out = append(out, judge(drills[1], "a UDP conversation goes on by "+other, at, ok, "moved after"))
	var last time.Time
	var told Result
	for _, k := range connections {
		at, err, ended := t.flows[k.kind].Ended(ctx, time.Until(cut.Add(most+time.Second)))
		if !ended || !lab.Reset(err) {
			told = fail(drills[2], about, k.what+" connection is reset within "+seconds(most), fmt.Sprintf("ended %t: %v", ended, err), look())
		}
		if at.After(last) {
			last = at
		}
	}
	if told.Drill == "" {
		told = judge(drills[2], "its connections are reset", last, true, "all reset after")
	}
	out = append(out, told)
	err = b.ISPs[wan].OnlyPings(false)
	if err == nil {
		err = b.happens(Restored)
	}
	if err != nil {
		return append(out, failAll(drills[3:], about, "an ISP that passes all again", err.Error(), "the lab")...)
	}
	return append(out, b.hollow(wan, about).back(ctx, t, about, look)...)
}

// noPings has the line in use answer everything but pings, while nobody in the
// house begins anything: the line stays in use by its other targets alone, and
// also when it answers pings again.
func (b *Bench) noPings(ctx context.Context, drills []string, wan, about string) []Result {
	look := func() string { return "the line's targets; weir's log: " + b.Daemon.Log(6) }
	const expected = "nothing is moved, and no conversation ends"
	t, err := b.traffic(ctx)
	if err != nil {
		return failAll(drills, about, "a house in order", err.Error(), look())
	}
	defer t.stop()
	stray := b.elsewhere(wan)
	defer stray.stop()
	var out []Result
	for i, x := range []struct {
		on     bool
		moment Moment
	}{{true, Cut}, {false, Restored}} {
		began := time.Now()
		err := b.ISPs[wan].NoPings(x.on)
		if err == nil {
			err = b.happens(x.moment)
		}
		if err != nil {
			return append(out, failAll(drills[i:], about, expected, err.Error(), "the lab")...)
		}
		// Longer than a line lives on what comes back of old conversations.
		pause(ctx, b.doubted(wan)+2*time.Second)
		since := time.Now()
		by, wrong := t.newGoes(ctx, t.v6)
		if seen := stray.seen.Load(); seen != nil {
			wrong = seen.what
		} else if wrong == "" && by != wan {
			wrong = "a new connection goes by " + by
		}
		if wrong == "" {
			wrong = t.goesOn(ctx, wan, since, repeats)
		}
		if wrong != "" {
			out = append(out, fail(drills[i], about, expected, wrong, look()))
			continue
		}
		out = append(out, pass(drills[i], about, packets("conversations lost", 0), secs("for", time.Since(began))))
	}
	return out
}
