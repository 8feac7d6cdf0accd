package rehearse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"weir/internal/lab"
)

// reserveAct loses a line that is not in use, and gives it back: the house must
// not notice, and who comes in by the line does, and is back with it.
func reserveAct(s *Site, w way, wan string) Act {
	v6 := len(s.Order(false)) == 0
	calm, inbound := name(w.word, wan, "undisturbed"), name(w.word, wan, "inbound")
	drills := []string{calm}
	o := outage{s: s, wan: wan, v6: v6, way: w}
	if o.hasInward(wan) {
		drills = append(drills, inbound)
	}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("%s, in reserve, %s and comes back", wan, w.about)
		t, err := b.traffic(ctx)
		if err != nil {
			return failAll(drills, about, "a house in order", err.Error(), "weir's log: "+b.Daemon.Log(5))
		}
		defer t.stop()
		if err := b.fault(w, wan, true); err != nil {
			return failAll(drills, about, "an outage", err.Error(), "the lab")
		}
		long := pause(ctx, s.lostFor(w, wan))
		if err := b.fault(w, wan, false); err != nil || !long {
			return failAll(drills, about, "the outage's end", fmt.Sprint(err), "the lab")
		}
		var out []Result
		if len(drills) > 1 {
			out = append(out, b.inboundAgain(ctx, inbound, about, wan, v6, s.again(w, wan)+inboundSoon))
		}
		return append(out, t.undisturbed(calm, about, wan))
	}}
}

// undisturbed judges all traffic but what came in by the line that was lost.
func (t *traffic) undisturbed(drill, about, lost string) Result {
	look := "weir's log: " + t.b.Daemon.Log(5)
	n := 0
	for v6, p := range t.echo {
		for _, g := range lab.Gaps(settled(p.Beats(), t.since)) {
			n += g.Lost
			if g.Lost > 0 {
				return fail(drill, about, "no packet lost", fmt.Sprintf("%d %s echoes lost over %s", g.Lost, familyName(v6), seconds(g.Len())), look)
			}
		}
	}
	for kind, f := range t.flows {
		if kind == lab.Idle {
			continue
		}
		if r := undisturbed(drill, about, "a "+string(kind)+" conversation", f, t.since, look); !r.OK {
			return r
		}
	}
	for wan, f := range t.inward {
		if wan == lost {
			continue
		}
		if r := undisturbed(drill, about, "a conversation from outside by "+wan, f, t.since, look); !r.OK {
			return r
		}
	}
	return pass(drill, about, packets("lost", n))
}

// blinkAct takes the carrier of a line in reserve ten times for a moment, and
// then loses the line in use: the other one must still take over.
func blinkAct(s *Site, wan, used string) Act {
	v6 := len(s.Order(false)) == 0
	drill := name("carrier", wan, "blinks")
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("the carrier of %s blinks ten times, and then %s is lost", wan, used)
		look := "weir's log: " + b.Daemon.Log(5)
		if err := b.happens(Cut); err != nil {
			return failAll([]string{drill}, about, "blinks", err.Error(), "the lab")
		}
		for range 10 {
			if err := b.ISPs[wan].Carrier(false); err != nil {
				return failAll([]string{drill}, about, "a blink", err.Error(), "the lab")
			}
			pause(ctx, time.Duration(50+rand.IntN(250))*time.Millisecond)
			if err := b.ISPs[wan].Carrier(true); err != nil {
				return failAll([]string{drill}, about, "a blink", err.Error(), "the lab")
			}
			pause(ctx, time.Duration(50+rand.IntN(250))*time.Millisecond)
		}
		// Back in order: by the line that blinked someone comes in.
		if o := (outage{s: s, wan: wan, v6: v6}); o.hasInward(wan) {
			if r := b.inboundAgain(ctx, drill, about, wan, v6, inboundSoon); !r.OK {
				return []Result{r}
			}
		}
		seen(ctx, b.ISPs[wan], v6, 8*time.Second)
		t, err := b.traffic(ctx)
		if err != nil {
			return failAll([]string{drill}, about, "a house in order", err.Error(), look)
		}
		defer t.stop()
		if err := b.ISPs[used].Dark(true); err != nil {
			return failAll([]string{drill}, about, "an outage", err.Error(), "the lab")
		}
		b.darkened[used] = true
		most := s.noticed(used)
		gap, back := t.gap(ctx, v6, time.Now(), most+5*time.Second)
		if !back {
			return []Result{fail(drill, about, "echoes answered again by "+wan, "none in "+seconds(most+5*time.Second), look)}
		}
		return []Result{timed(drill, about, gap.Len(), most, "echoes answered again by "+wan, look, secs("gap", gap.Len()))}
	}}
}

// blackoutAct has all lines go dark at once, and comes back with them: clients
// are told at once that there is no way, and served by the first line that works.
func blackoutAct(s *Site) Act {
	v6 := len(s.Order(false)) == 0
	told, back := name("dark", "all", "told"), name("dark", "all", "back")
	return Act{Drills: []string{told, back}, Do: func(ctx context.Context, b *Bench) []Result {
		const about = "all lines go dark at once and come back"
		all := func(on bool) error {
			for _, i := range b.ISPs {
				if b.darkened[i.Name] != on {
					if err := i.Dark(on); err != nil {
						return err
					}
					b.darkened[i.Name] = on
				}
			}
			return nil
		}
		fails := func(err error) []Result {
			return failAll([]string{told, back}, about, "an outage of all lines", err.Error(), "weir's log: "+b.Daemon.Log(5))
		}
		if err := all(false); err != nil {
			return fails(err)
		}
		c := b.Clients[b.talker().Name]
		p, err := c.Ping(lab.Web(v6), pingEvery)
		if err != nil {
			return fails(err)
		}
		defer p.Stop()
		if _, ok := p.Answered(ctx, time.Now(), upLimit); !ok {
			return fails(fmt.Errorf("no echo was answered before"))
		}
		if err := all(true); err != nil {
			return fails(err)
		}
		cut := time.Now()
		if err := b.happens(Cut); err != nil {
			return fails(err)
		}
		var took, fall time.Duration
		soon := s.needed(b.Lines[0].Name)
		for _, l := range b.Lines {
			fall, soon = max(fall, s.noticed(l.Name)), min(soon, s.needed(l.Name))
		}
		limit := 2*fall + 6*time.Second // one falls after the other
		refused := lab.Until(ctx, limit, func() bool {
			start := time.Now()
			_, a, _ := c.Ask(ctx, "tcp", netip.Addr{}, netip.AddrPortFrom(lab.Web(v6), 7), 300*time.Millisecond)
			took = time.Since(start)
			return a == lab.Refused
		})
		look := "the default route on the gateway; weir's log: " + b.Daemon.Log(5)
		r := pass(told, about, secs("told from", time.Since(cut)), secs("on asking, after", took))
		if !refused {
			r = fail(told, about, "clients are told that there is no way", "silence for "+seconds(limit), look)
		}
		if err := all(false); err != nil {
			return append([]Result{r}, fails(err)[1])
		}
		restored := time.Now()
		if err := b.happens(Restored); err != nil {
			return fails(err)
		}
		// A new connection: what was there before is kept on its line, and goes on
		// by itself.
		var at time.Time
		soon += 3 * time.Second
		ok := lab.Until(ctx, soon+7*time.Second, func() bool {
			at = time.Now()
			_, a, _ := c.Ask(ctx, "tcp", netip.Addr{}, netip.AddrPortFrom(lab.Web(v6), 7), 300*time.Millisecond)
			return a == lab.Answered
		})
		if !ok {
			return []Result{r, fail(back, about, "a new connection is answered within "+seconds(soon), "not in "+seconds(soon+7*time.Second), look)}
		}
		return []Result{r, timed(back, about, at.Sub(restored), soon, "a new connection is answered", look, secs("after", at.Sub(restored)))}
	}}
}

// takeoverAct loses the line in use and only looks who takes over, and when.
func takeoverAct(used, other string) Act {
	drill := name("takeover", other)
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("%s is lost, %s takes over", used, other)
		look := "weir's log: " + b.Daemon.Log(5)
		t, err := b.traffic(ctx)
		if err != nil {
			return failAll([]string{drill}, about, "a house in order", err.Error(), look)
		}
		defer t.stop()
		if err := b.fault(ways[0], used, true); err != nil {
			return failAll([]string{drill}, about, "an outage", err.Error(), "the lab")
		}
		most := b.noticed(used)
		gap, back := t.gap(ctx, false, time.Now(), most+5*time.Second)
		if !back {
			return []Result{fail(drill, about, "echoes answered again", "none in "+seconds(most+5*time.Second), look)}
		}
		if wan, wrong := t.newGoes(ctx, false); wan != other || wrong != "" {
			return []Result{fail(drill, about, "a new connection goes by "+other, wan+" "+wrong, look)}
		}
		return []Result{timed(drill, about, gap.Len(), most, "echoes answered again", look, secs("gap", gap.Len()))}
	}}
}
