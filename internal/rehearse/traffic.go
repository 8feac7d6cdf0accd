package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

// traffic is what goes on in a house while a line is lost: echoes of both
// families, and of one family a conversation of each kind; and conversations
// from outside, by each line.
type traffic struct {
	b      *Bench
	lan    *LAN
	v6     bool // the family of the conversations
	echo   map[bool]*lab.Ping
	flows  map[lab.FlowKind]*lab.Flow
	inward map[string]*lab.Flow // by WAN
	// unrelated are echoes between the client and the gateway, which no line's fault
	// touches.
	unrelated *lab.Ping
	since     time.Time
}

// traffic starts it, and waits until all of it flows.
func (b *Bench) traffic(ctx context.Context) (*traffic, error) {
	return b.trafficBy(ctx, len(b.Order(false)) == 0)
}

// trafficBy is traffic with the conversations in a family.
func (b *Bench) trafficBy(ctx context.Context, v6 bool) (*traffic, error) {
	t := &traffic{
		b: b, lan: b.talker(), v6: v6,
		echo: map[bool]*lab.Ping{}, flows: map[lab.FlowKind]*lab.Flow{}, inward: map[string]*lab.Flow{},
	}
	if b.measure != nil {
		b.measure.talk = t
	}
	if err := t.start(ctx); err != nil {
		t.stop()
		return nil, fmt.Errorf("before anything was broken: %w", err)
	}
	t.since = time.Now()
	pause(ctx, shownBefore)
	return t, nil
}

func (t *traffic) start(ctx context.Context) error {
	c := t.b.Clients[t.lan.Name]
	if t.lan.Address4.IsValid() && c.Addr4.IsValid() {
		var err error
		if t.unrelated, err = c.Ping(t.lan.Address4.Addr(), pingEvery); err != nil {
			return err
		}
	}
	for _, v6 := range []bool{false, true} {
		if !slices.ContainsFunc(t.b.Order(v6), t.b.bright) || !addrOf(c, v6).IsValid() {
			continue
		}
		p, err := c.Ping(lab.Web(v6), pingEvery)
		if err != nil {
			return err
		}
		t.echo[v6] = p
		if _, ok := p.Answered(ctx, time.Time{}, askLimit); !ok {
			return fmt.Errorf("no echo of %s came back", lab.Web(v6))
		}
	}
	for _, kind := range []lab.FlowKind{lab.Idle, lab.Sending, lab.Receiving, lab.Datagrams} {
		f, err := c.Open(ctx, kind, netip.Addr{}, netip.AddrPortFrom(lab.Web(t.v6), 7), askLimit)
		if err != nil {
			return err
		}
		t.flows[kind] = f
	}
	for _, l := range t.b.Lines {
		f, port := t.b.inbound(l.Name, t.v6)
		if f == nil || t.b.darkened[l.Name] {
			continue
		}
		public, err := t.b.publicAddr(ctx, l.Name, t.v6)
		if err != nil {
			return err
		}
		flow, err := t.b.ISPs[l.Name].Inet.Open(ctx, lab.Sending, lab.Web(t.v6), netip.AddrPortFrom(public, port), askLimit)
		if err != nil {
			return err
		}
		t.inward[l.Name] = flow
	}
	return nil
}

// bright says that a line has not been made dark.
func (b *Bench) bright(wan string) bool { return !b.darkened[wan] }

func (t *traffic) stop() {
	if t.unrelated != nil {
		t.unrelated.Stop()
	}
	for _, p := range t.echo {
		p.Stop()
	}
	for _, f := range t.flows {
		_ = f.Close()
	}
	for _, f := range t.inward {
		_ = f.Close()
	}
}

// inbound is a TCP forward that the whole internet may use on a line, and a port
// of it; nil if there is none, as on a line without the family.
func (b *Bench) inbound(wan string, v6 bool) (*config.Forward, uint16) {
	if l := b.Line(wan); l == nil || !has(l, v6) {
		return nil, 0
	}
	for i := range b.Config.Forwards {
		f := &b.Config.Forwards[i]
		for _, r := range f.Port {
			in := b.fromOutside(wan, lab.Web(v6), config.TCP, r.From)
			if in.by == f && in.want == lab.Answered && b.target(f, v6) != "" {
				return f, r.From
			}
		}
	}
	return nil, 0
}

// gap is the longest time without an answered echo since a moment, once echoes
// are answered again.
func (t *traffic) gap(ctx context.Context, v6 bool, since time.Time, limit time.Duration) (lab.Gap, bool) {
	p := t.echo[v6]
	_, back := p.Answered(ctx, time.Now(), limit)
	pause(ctx, lab.Late) // only then it is known which of the last echoes are lost
	// What was on its way may have been lost: the gap begins before the cut.
	return lab.Longest(settled(p.Beats(), since.Add(-lab.Late))), back
}

// newGoes asks by a new connection of a family, and says which line it took and
// what is wrong with it.
func (t *traffic) newGoes(ctx context.Context, v6 bool) (wan, wrong string) {
	g, a, err := t.b.Clients[t.lan.Name].Ask(ctx, "tcp", netip.Addr{}, netip.AddrPortFrom(lab.Web(v6), 7), 900*time.Millisecond)
	if a != lab.Answered {
		return "", fmt.Sprintf("%s (%v)", a, err)
	}
	for name, isp := range t.b.ISPs {
		if g.Host == isp.Inet.Name {
			if !isp.Owns(g.From.Addr()) {
				return name, fmt.Sprintf("by %s from %s, which is not that line's", name, g.From.Addr())
			}
			return name, ""
		}
	}
	return "", "answered by " + g.Host
}

// comesBack waits until new connections of a family take a line, and returns
// when the one that did was tried.
func (t *traffic) comesBack(ctx context.Context, v6 bool, wan string, limit time.Duration) (time.Time, bool) {
	end := time.Now().Add(limit)
	for time.Now().Before(end) && ctx.Err() == nil {
		tried := time.Now()
		if got, wrong := t.newGoes(ctx, v6); got == wan && wrong == "" {
			return tried, true
		}
		if !pause(ctx, 100*time.Millisecond) {
			break
		}
	}
	return time.Time{}, false
}

// A timeline begins so long before a fault, and goes on so long after it, and after
// the gap that it made.
const (
	shownBefore = 300 * time.Millisecond
	shownAfter  = 5 * time.Second
	shownEnd    = 500 * time.Millisecond

	// shown is how many echoes a timeline has at most. Of those that are more it has
	// one for all of a while, lost if one of them is.
	shown = 600
)

// timeline is the echoes of a family from shortly before a moment until now.
func (t *traffic) timeline(v6 bool, cut time.Time, from, to string) *Timeline {
	return &Timeline{From: from, To: to, Beats: beats(settled(t.echo[v6].Beats(), cut.Add(-shownBefore)), cut)}
}

// beats are those of a timeline.
func beats(all []lab.Beat, cut time.Time) []Beat {
	length := shownAfter
	for _, g := range lab.Gaps(all) {
		if g.From.Sub(cut) < shownAfter {
			length = max(length, g.To.Sub(cut)+shownEnd)
		}
	}
	var out []Beat
	while := length / shown
	next := cut.Add(-time.Hour)
	for _, b := range all {
		switch {
		case b.Sent.Sub(cut) >= length:
		case !b.Sent.Before(next), !b.Sent.Before(cut) && out[len(out)-1].At < 0:
			out = append(out, Beat{At: b.Sent.Sub(cut).Seconds(), OK: b.Good()})
			next = b.Sent.Add(while)
		case !b.Good():
			out[len(out)-1].OK = false
		}
	}
	return out
}
