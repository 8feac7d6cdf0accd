package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/lab"
)

// Pace is how long what takes minutes takes.
type Pace struct {
	Flaps    int // of the line in use: away for Down, back for Up
	Up, Down time.Duration
	Outage   time.Duration // of all lines
	Lease    time.Duration // of the ISPs meanwhile, less than Outage
}

// Long is the pace of `weir rehearse --long`.
var Long = Pace{Flaps: 20, Up: 5 * time.Second, Down: 25 * time.Second, Outage: time.Minute, Lease: 20 * time.Second}

// moves is how often a house may move for a line that flaps: away and, if at all,
// back; and twice more for each time that the file's hold-down, which doubles, is
// served while the line is back.
func (p Pace) moves(hold time.Duration) int {
	n := 2
	for hold = max(hold, time.Second); hold <= p.Up; hold *= 2 {
		n += 2
	}
	return n
}

// around is what a lab and the house in it take besides.
const around = 45 * time.Second

// flapping is how long the line goes on failing.
func (p Pace) flapping() time.Duration { return time.Duration(p.Flaps) * (p.Up + p.Down) }

// longRuns are those that take minutes: the line in use flaps; all lines are lost
// until their leases have ended, and come back, each of them as the first.
func (s *Site) longRuns(p Pace) []Run {
	var runs []Run
	v6 := s.talk6()
	order := s.Order(v6)
	if len(order) > 1 && s.noticed(order[0]) > p.Down/2 {
		s.omit(false, "a line that flaps", "%s is tried each %s only, and dark for %s", order[0], seconds(s.every(order[0])), seconds(p.Down))
	} else if len(order) > 1 {
		wan := order[0]
		drills := []string{name("flaps", wan, "moves"), name("flaps", wan, "without")}
		if !s.Config.WAN(order[1]).Move {
			drills = append(drills, name("flaps", wan, "calm"))
		}
		about := fmt.Sprintf("%s is dark for %s and back for %s, %d times", wan, seconds(p.Down), seconds(p.Up), p.Flaps)
		runs = append(runs, Run{Name: "flaps-" + wan, About: about, Takes: p.flapping() + around, Acts: []Act{
			promised(about, wan, false, Act{drills, func(ctx context.Context, b *Bench) []Result { return b.flaps(ctx, p, drills, wan, about) }}),
		}})
	}
	for _, wan := range order {
		drills := []string{name("blackout", wan, "told"), name("blackout", wan, "first")}
		if len(order) > 1 {
			drills = append(drills, name("blackout", wan, "others"))
		}
		if slow := slices.IndexFunc(order, func(o string) bool { return !s.leases(o, v6) && s.noticed(o) > p.Outage/2 }); slow >= 0 {
			s.omit(false, "all lines lost and back", "%s is tried each %s only, and lost for %s", order[slow], seconds(s.every(order[slow])), seconds(p.Outage))
			break
		}
		about := fmt.Sprintf("all lines are lost for %s, past the ends of their leases; %s is back first", seconds(p.Outage), wan)
		runs = append(runs, Run{Name: "blackout-" + wan, About: about, Variant: Variant{Lease: p.Lease},
			Takes: p.Outage + leasedWithin + s.Config.Failover.HoldDown + around,
			Acts:  []Act{{drills, func(ctx context.Context, b *Bench) []Result { return b.blackout(ctx, p, drills, wan, about) }}}})
	}
	return runs
}

// leases says whether a line of a family is gone with its lease.
func (s *Site) leases(wan string, v6 bool) bool { return !v6 && s.Line(wan).DHCP }

// flaps has the line in use come and go. The house leaves it and stays away: a line
// that flaps has to be good about as long as it was bad. What it does by the other
// line meanwhile is not disturbed, unless the file has it move when the line is back.
func (b *Bench) flaps(ctx context.Context, p Pace, drills []string, wan, about string) []Result {
	look := func() string { return "the line's hold-down; weir's log: " + b.Daemon.Log(8) }
	fails := func(expected string, err error) []Result {
		return failAll(drills, about, expected, err.Error(), look())
	}
	t, err := b.traffic(ctx)
	if err != nil {
		return fails("a house in order", err)
	}
	defer t.stop()
	lines := t.followNew(ctx)
	defer lines()
	if err := b.ISPs[wan].Dark(true); err != nil {
		return fails("an outage", err)
	}
	began := time.Now()
	if err := b.happens(Cut); err != nil {
		return fails("an outage", err)
	}
	other := b.Order(t.v6)[1]
	if at, ok := t.comesBack(ctx, t.v6, other, p.Down); !ok {
		return fails("new connections by "+other, fmt.Errorf("none after %s", seconds(time.Since(began))))
	} else if took := at.Sub(began); took > b.noticed(wan)+time.Second {
		return fails("new connections by "+other, fmt.Errorf("not before %s", seconds(took)))
	}
	// What the house does by the other line from now on.
	talk, err := b.Clients[t.lan.Name].Open(ctx, lab.Sending, netip.Addr{}, netip.AddrPortFrom(lab.Web(t.v6), 7), askLimit)
	if err != nil {
		return fails("a conversation by "+other, err)
	}
	defer talk.Close()
	since := time.Now()
	for n := range p.Flaps {
		b.step("%d of %d", n+1, p.Flaps)
		down := began.Add(time.Duration(n) * (p.Down + p.Up))
		for _, x := range []struct {
			dark bool
			at   time.Time
		}{{true, down}, {false, down.Add(p.Down)}} {
			pause(ctx, time.Until(x.at))
			if n == 0 && x.dark {
				continue // it is
			}
			if err := b.ISPs[wan].Dark(x.dark); err != nil {
				return fails("an outage", err)
			}
			if !x.dark && n == 0 {
				if err := b.happens(Restored); err != nil {
					return fails("the outage's end", err)
				}
			}
		}
	}
	pause(ctx, p.Up)
	took := lines()
	moves := pass(drills[0], about, packets("moves", len(took)-1), packets("outages", p.Flaps))
	if most := p.moves(b.Config.Failover.HoldDown); len(took) == 0 || len(took)-1 > most {
		moves = fail(drills[0], about, fmt.Sprintf("new connections move %d times at most", most), fmt.Sprintf("they went by: %q", took), look())
	}
	left := 0
	for _, x := range took {
		if x == other {
			left++
		}
	}
	// A line worked at all times, so that each second without one is weir's.
	most := b.noticed(wan) * time.Duration(max(left, 1))
	without := timed(drills[1], about, 0, most, "", "")
	for v6, ping := range t.echo {
		if len(b.Order(v6)) < 2 {
			continue // no other line has the family
		}
		var sum time.Duration
		for _, g := range lab.Gaps(settled(ping.Beats(), t.since)) {
			sum += g.Len()
		}
		if sum.Seconds() >= without.Judged.Value {
			without = timed(drills[1], about, sum, most, "in all, as long without an answered "+familyName(v6)+" echo as it takes to leave the line, each time that the house does", look(),
				secs("without an answer, in all", sum), secs("of", p.flapping()))
		}
	}
	out := []Result{moves, without}
	if len(drills) > len(out) {
		out = append(out, undisturbed(drills[2], about, "a conversation by "+other, talk, since, look()))
	}
	return out
}

// leasedWithin is how soon a customer leases an address from a server that hears
// again (the deaf drills).
const leasedWithin = 20 * time.Second

// blackout loses all lines until their leases have ended, and has them come back,
// one of them first: new connections take it as soon as it has an address, and the
// preferred one as soon as it has proved itself.
func (b *Bench) blackout(ctx context.Context, p Pace, drills []string, first, about string) []Result {
	v6 := b.talk6()
	order := b.Order(v6)
	look := func() string { return "the leases and verdicts of the lines; weir's log: " + b.Daemon.Log(10) }
	lose := func(wan string, on bool) error {
		isp := b.ISPs[wan]
		if isp.DHCP {
			isp.Deaf(on)
		}
		return isp.Dark(on)
	}
	fails := func(from int, expected string, err error) []Result {
		return failAll(drills[from:], about, expected, err.Error(), look())
	}
	t := &traffic{b: b, lan: b.talker(), v6: v6}
	if wan, wrong := t.newGoes(ctx, v6); wan != order[0] {
		return fails(0, "a house in order", fmt.Errorf("before anything was broken a new connection goes by %q: %s", wan, wrong))
	}
	for wan := range b.ISPs {
		if err := lose(wan, true); err != nil {
			return fails(0, "an outage of all lines", err)
		}
	}
	cut := time.Now()
	if err := b.happens(Cut); err != nil {
		return fails(0, "an outage of all lines", err)
	}
	for left := p.Outage; left > 0; left = time.Until(cut.Add(p.Outage)) {
		b.step("all lines lost, %s left", seconds(left.Round(time.Second)))
		pause(ctx, min(left, 20*time.Second))
	}
	asked := time.Now()
	_, a, err := b.Clients[t.lan.Name].Ask(ctx, "tcp", netip.Addr{}, netip.AddrPortFrom(lab.Web(v6), 7), 900*time.Millisecond)
	told := timed(drills[0], about, time.Since(asked), time.Second, "who asks anew is told that there is no way", look(), secs("told after", time.Since(asked)))
	if a != lab.Refused {
		told = fail(drills[0], about, "who asks anew is told that there is no way", fmt.Sprintf("%s (%v)", a, err), look())
	}
	out := []Result{told}

	if err := lose(first, false); err != nil {
		return append(out, fails(1, "the end of the outage", err)...)
	}
	restored := time.Now()
	if err := b.happens(Restored); err != nil {
		return append(out, fails(1, "the end of the outage", err)...)
	}
	b.step("%s is back", first)
	most := b.back(first, v6, b.needed(first))
	at, ok := t.comesBack(ctx, v6, first, most+5*time.Second)
	r := timed(drills[1], about, at.Sub(restored), most, "a new connection by "+first, look(), secs("after", at.Sub(restored)))
	if !ok {
		r = fail(drills[1], about, "a new connection by "+first+" within "+seconds(most), "none in "+seconds(most+5*time.Second), look())
	}
	if out = append(out, r); len(order) < 2 {
		return out
	}
	return append(out, b.othersBack(ctx, t, drills[2], first, about, look))
}

// back is within what time a line works again whose ISP does, if it is asked so often.
func (b *Bench) back(wan string, v6 bool, asked time.Duration) time.Duration {
	if b.leases(wan, v6) {
		return leasedWithin + 2*time.Second
	}
	return asked + 4*time.Second
}

// othersBack gives the other lines back. Each leases an address; if one of them is
// preferred, new connections take it after its hold-down, and else stay.
func (b *Bench) othersBack(ctx context.Context, t *traffic, drill, first, about string, look func() string) Result {
	order, hold := b.Order(t.v6), b.Config.Failover.HoldDown
	restored := time.Now()
	for _, wan := range order {
		if wan == first {
			continue
		}
		if b.ISPs[wan].DHCP {
			b.ISPs[wan].Deaf(false)
		}
		if err := b.ISPs[wan].Dark(false); err != nil {
			return fail(drill, about, "the end of the outage", err.Error(), "the lab")
		}
	}
	b.step("all are back")
	for _, wan := range order {
		isp := b.ISPs[wan]
		if wan == first || !isp.DHCP || t.v6 {
			continue
		}
		if _, ok := dhcpEvent(ctx, isp, restored, dhcpv4.MessageTypeAck, time.Until(restored.Add(leasedWithin))); !ok {
			return fail(drill, about, wan+" leases an address again within "+seconds(leasedWithin), "it does not", look())
		}
	}
	if first == order[0] {
		if wan, wrong := t.newGoes(ctx, t.v6); wan != first {
			return fail(drill, about, "a new connection still goes by "+first, fmt.Sprintf("it goes by %q (%s)", wan, wrong), look())
		}
		return pass(drill, about, secs("all leased after", time.Since(restored)))
	}
	most := b.back(order[0], t.v6, b.found(order[0])) + hold + 2*time.Second
	at, ok := t.comesBack(ctx, t.v6, order[0], most+5*time.Second)
	if !ok {
		return fail(drill, about, "new connections by "+order[0]+" again within "+seconds(most), "not in "+seconds(most+5*time.Second), look())
	}
	r := timed(drill, about, at.Sub(restored), most, "new connections by "+order[0]+" again", look(), secs("by "+order[0]+" again after", at.Sub(restored)))
	if r.Judged.Least = (hold - 500*time.Millisecond).Seconds(); !r.Judged.ok() && r.OK {
		r.OK, r.Expected, r.Seen, r.Look = false, "not before "+seconds(hold)+" of good time", seconds(at.Sub(restored)), look()
	}
	return r
}
