package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/lab"
)

// shortLease is the lease of ISPs whose DHCP server is to fail: T1 after 10 s.
const shortLease = 20 * time.Second

// acked waits for an ACK of the ISP that comes after a moment.
func acked(ctx context.Context, i *lab.ISP, after time.Time, limit time.Duration) (lab.DHCPEvent, bool) {
	return dhcpEvent(ctx, i, after, dhcpv4.MessageTypeAck, limit)
}

func dhcpEvent(ctx context.Context, i *lab.ISP, after time.Time, answer dhcpv4.MessageType, limit time.Duration) (ev lab.DHCPEvent, ok bool) {
	lab.Until(ctx, limit, func() bool {
		for _, e := range i.DHCPLog() {
			if e.Answer == answer && e.At.After(after) {
				ev, ok = e, true
				return true
			}
		}
		return false
	})
	return ev, ok
}

// lastACK is the last time that the ISP confirmed a lease.
func lastACK(i *lab.ISP) time.Time {
	var at time.Time
	for _, e := range i.DHCPLog() {
		if e.Answer == dhcpv4.MessageTypeAck {
			at = e.At
		}
	}
	return at
}

// deafAct has an ISP's DHCP server hear nothing any more: the line is kept as long
// as the lease lasts, not a moment longer, and comes back with the server. If it
// is in use, another line takes over, or clients are told that there is none.
func deafAct(s *Site, wan string) Act {
	held, quiet, back := name("deaf", wan, "held"), name("deaf", wan, "quiet"), name("deaf", wan, "back")
	drills := []string{held, quiet, back}
	gap, told := name("deaf", wan, "gap"), name("deaf", wan, "told")
	inUse := s.first(false) == wan
	alone := s.only(wan, false)
	switch {
	case alone:
		drills = append(drills, told)
	case inUse:
		drills = append(drills, gap)
	}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("the DHCP server of %s goes deaf, past the lease's end, and hears again", wan)
		isp := b.ISPs[wan]
		look := func() string { return "the lease of wan " + wan + "; weir's log: " + b.Daemon.Log(6) }
		t, err := b.traffic(ctx)
		if err != nil {
			return failAll(drills, about, "a house in order", err.Error(), look())
		}
		defer t.stop()
		isp.Deaf(true)
		if err := b.happens(Cut); err != nil {
			return failAll(drills, about, "a deaf server", err.Error(), "the lab")
		}
		end := lastACK(isp).Add(isp.Lease)
		old := isp.Current4()
		var last atomic.Pointer[time.Time] // when the old address was used last
		last.Store(&time.Time{})
		defer isp.Wire.Watch(func(f lab.Frame) {
			if f.Src == old {
				last.Store(&f.At)
			}
		})()
		pause(ctx, time.Until(end.Add(-200*time.Millisecond)))
		r := t.undisturbed(held, about, "")
		if r.OK {
			r.Figures = []Figure{secs("lease left", max(end.Sub(t.since), 0)), packets("lost", 0)}
		}
		out := []Result{r}
		// The ISP keeps no way to an address whose lease is over, but is not quick to
		// notice: whoever still uses it is heard meanwhile.
		if alone {
			at, ok := b.toldBy(ctx, false, end.Add(4*time.Second))
			after := max(at.Sub(end), 0) // the lease's time is in whole seconds
			r := timed(told, about, after, time.Second, "who asks anew is told that there is no way", look(), secs("told from the lease's end", after))
			if !ok {
				r = fail(told, about, "who asks anew is told that there is no way within 1 s of the lease's end", "not in 4 s", look())
			}
			out = append(out, r)
		}
		pause(ctx, time.Until(end.Add(1500*time.Millisecond)))
		if err := isp.Expire(true); err != nil {
			return append(out, failAll(drills[1:], about, "a lease's end", err.Error(), "the lab")...)
		}
		pause(ctx, time.Until(end.Add(4*time.Second)))
		if inUse && !alone {
			g, ok := t.gap(ctx, false, end, 3*time.Second)
			r := timed(gap, about, g.Len(), time.Second, "echoes answered again by another line", look(), secs("gap", g.Len()), packets("lost", g.Lost))
			if !ok {
				r = fail(gap, about, "echoes answered again by another line within 1 s of the lease's end", "none in 6 s", look())
			}
			out = append(out, r)
		}
		late := last.Load().Sub(end)
		// The lease's time is in whole seconds, and begins when the customer asked.
		if late > time.Second {
			out = append(out, fail(quiet, about, "nothing from "+old.String()+" after its lease", fmt.Sprintf("still used %s after its end", seconds(late)), look()))
		} else {
			out = append(out, pass(quiet, about, secs("last used before the lease's end", max(-late, 0))))
		}
		if err := isp.Expire(false); err != nil {
			return append(out, fail(back, about, "a line again", err.Error(), "the lab"))
		}
		isp.Deaf(false)
		if err := b.happens(Restored); err != nil {
			return append(out, fail(back, about, "a server that hears", err.Error(), "the lab"))
		}
		heard := time.Now()
		ev, ok := acked(ctx, isp, heard, 40*time.Second)
		if !ok {
			return append(out, fail(back, about, "a lease again within 20 s", "none in 40 s", look()))
		}
		return append(out, timed(back, about, ev.At.Sub(heard), 20*time.Second, "a lease again", look(), secs("leased again after", ev.At.Sub(heard))))
	}}
}

// nakAct has the ISP refuse to renew the lease, and lease it anew at once.
func nakAct(s *Site, wan string) Act {
	inUse := s.first(false) == wan
	again, gap := name("nak", wan, "again"), name("nak", wan, "gap")
	drills := []string{again, gap}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("%s answers a renewal with NAK and leases anew", wan)
		isp := b.ISPs[wan]
		look := func() string { return "the lease of wan " + wan + "; weir's log: " + b.Daemon.Log(6) }
		t, err := b.traffic(ctx)
		if err != nil {
			return failAll(drills, about, "a house in order", err.Error(), look())
		}
		defer t.stop()
		isp.Refuse()
		if err := b.happens(Cut); err != nil {
			return failAll(drills, about, "a NAK", err.Error(), "the lab")
		}
		nak, ok := dhcpEvent(ctx, isp, time.Now(), dhcpv4.MessageTypeNak, shortLease)
		if !ok {
			return failAll(drills, about, "a renewal at half the lease's time", "none in all of it", look())
		}
		ack, ok := acked(ctx, isp, nak.At, 15*time.Second)
		var r Result
		if !ok {
			r = fail(again, about, "a new lease within 5 s", "none in 15 s", look())
		} else {
			r = timed(again, about, ack.At.Sub(nak.At), 5*time.Second, "a new lease", look(), secs("leased again after", ack.At.Sub(nak.At)))
		}
		pause(ctx, 1500*time.Millisecond)
		if !inUse {
			calm := t.undisturbed(gap, about, wan)
			return []Result{r, calm}
		}
		g, back := t.gap(ctx, false, nak.At, 5*time.Second)
		if !back {
			return []Result{r, fail(gap, about, "echoes answered again", "none in 5 s", look())}
		}
		return []Result{r, timed(gap, about, g.Len(), time.Second, "echoes answered again", look(), secs("gap", g.Len()), packets("lost", g.Lost))}
	}}
}

// renumberAct blinks the line's carrier and gives it other addresses: they are
// used at once, from outside and by hairpin, and the old ones no more.
func renumberAct(s *Site, wan string) Act {
	l := s.Line(wan)
	v4, v6 := name("renumber", wan, "IPv4"), name("renumber", wan, "IPv6")
	var drills []string
	if l.DHCP {
		drills = append(drills, v4)
	}
	if l.Prefix6.IsValid() {
		drills = append(drills, v6)
	}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("%s blinks and has other addresses", wan)
		isp := b.ISPs[wan]
		look := "the lease of wan " + wan + "; weir's log: " + b.Daemon.Log(6)
		fails := func(err error) []Result { return failAll(drills, about, "an ISP that renumbers", err.Error(), look) }
		old := isp.Current4()
		if err := isp.Carrier(false); err != nil {
			return fails(err)
		}
		pause(ctx, 300*time.Millisecond)
		if l.DHCP {
			net := netip.MustParsePrefix("198.18.77.0/24")
			if err := isp.Renumber4(netip.PrefixFrom(plus(net.Addr(), 10), 24), net.Addr().Next()); err != nil {
				return fails(err)
			}
		}
		if l.Prefix6.IsValid() {
			if err := isp.Renumber6(netip.MustParsePrefix("2001:db8:7777::/64")); err != nil {
				return fails(err)
			}
		}
		if err := isp.Carrier(true); err != nil {
			return fails(err)
		}
		restored := time.Now()
		if err := b.happens(Restored); err != nil {
			return fails(err)
		}
		var out []Result
		if l.DHCP {
			out = append(out, b.renumbered4(ctx, v4, about, wan, old, restored))
		}
		if l.Prefix6.IsValid() {
			out = append(out, b.renumbered6(ctx, v6, about, wan, restored))
		}
		return out
	}}
}

func (b *Bench) renumbered4(ctx context.Context, drill, about, wan string, old netip.Addr, restored time.Time) Result {
	isp := b.ISPs[wan]
	look := "the lease of wan " + wan + "; weir's log: " + b.Daemon.Log(6)
	ack, ok := acked(ctx, isp, restored, 20*time.Second)
	if !ok {
		return fail(drill, about, "the new address leased", "not in 20 s", look)
	}
	f, port := b.inbound(wan, false)
	switch {
	case f == nil && b.only(wan, false):
		return b.outUnder(ctx, drill, about, wan, false, restored)
	case f == nil:
		return timed(drill, about, ack.At.Sub(restored), 10*time.Second, "the new address leased", look, secs("leased after", ack.At.Sub(restored)))
	}
	to := netip.AddrPortFrom(isp.Current4(), port)
	c := b.Clients[b.talker().Name]
	host := b.target(f, false)
	both := func(a netip.AddrPort) (string, bool) {
		g, x, err := isp.Inet.Ask(ctx, "tcp", lab.Web(false), a, 250*time.Millisecond)
		if x != lab.Answered || g.Host != host {
			return fmt.Sprintf("from outside: %s %s (%v)", x, g.Host, err), false
		}
		if !f.Hairpin {
			return "", true
		}
		g, x, err = c.Ask(ctx, "tcp", netip.Addr{}, a, 250*time.Millisecond)
		return fmt.Sprintf("by hairpin: %s %s (%v)", x, g.Host, err), x == lab.Answered && g.Host == host
	}
	var why string
	if !lab.Until(ctx, 5*time.Second, func() (ok bool) { why, ok = both(to); return ok }) {
		return fail(drill, about, to.String()+" leads to "+host, why, look)
	}
	took := time.Since(ack.At)
	if g, x, _ := c.Ask(ctx, "tcp", netip.Addr{}, netip.AddrPortFrom(old, port), 500*time.Millisecond); x == lab.Answered && g.Host == host {
		return fail(drill, about, "the old address leads nowhere", old.String()+" still leads to "+host, look)
	}
	return timed(drill, about, took, time.Second, "forwards and hairpin under the new address", look,
		secs("leased after", ack.At.Sub(restored)), secs("in use after", took))
}

// renumbered6 waits until the line speaks by an address of the new prefix.
func (b *Bench) renumbered6(ctx context.Context, drill, about, wan string, restored time.Time) Result {
	look := "`ip -6 addr` in wan-" + wan + "; weir's log: " + b.Daemon.Log(6)
	a, err := b.ISPs[wan].Seen6(ctx, 15*time.Second)
	if err != nil {
		return fail(drill, about, "the line speaks by an address of the new prefix", err.Error(), look)
	}
	took := time.Since(restored)
	if f, port := b.inbound(wan, true); f != nil {
		g, x, err := b.ISPs[wan].Inet.Ask(ctx, "tcp", lab.Web(true), netip.AddrPortFrom(a, port), askLimit)
		if x != lab.Answered || g.Host != b.target(f, true) {
			return fail(drill, about, a.String()+" leads to "+b.target(f, true), fmt.Sprintf("%s %s (%v)", x, g.Host, err), look)
		}
	}
	if b.only(wan, true) {
		return b.outUnder(ctx, drill, about, wan, true, restored)
	}
	return timed(drill, about, took, 10*time.Second, "the line speaks by an address of the new prefix", look, secs("after", took))
}

// outUnder waits until a client reaches the internet under an address that the
// only line has now.
func (b *Bench) outUnder(ctx context.Context, drill, about, wan string, v6 bool, restored time.Time) Result {
	look := "the addresses of wan-" + wan + "; weir's log: " + b.Daemon.Log(6)
	c, isp := b.Clients[b.talker().Name], b.ISPs[wan]
	var seen string
	ok := lab.Until(ctx, 20*time.Second, func() bool {
		g, a, err := c.Ask(ctx, "tcp", netip.Addr{}, netip.AddrPortFrom(lab.Web(v6), 7), 300*time.Millisecond)
		seen = fmt.Sprintf("%s from %s (%v)", a, g.From, err)
		return a == lab.Answered && isp.Owns(g.From.Addr())
	})
	took := time.Since(restored)
	if !ok {
		return fail(drill, about, "a client reaches the internet under an address that the line has now", seen, look)
	}
	return timed(drill, about, took, 10*time.Second, "a client reaches the internet under the new address", look, secs("in use after", took))
}
