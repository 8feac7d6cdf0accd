package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/config"
	"weir/internal/lab"
)

// delegates says whether a line's ISP can delegate a prefix here, and the file has
// the LANs use it.
func (s *Site) delegates(wan string) bool {
	l, w := s.Line(wan), s.Config.WAN(wan)
	return l != nil && l.Prefix6.IsValid() && w.IPv6.Homes()
}

// prefixOf is what the ISP of the k-th line delegates, the n-th time: of the length
// that the file asks for.
func prefixOf(k, n, bits int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("2001:db8:f%x%x0::/%d", k+1, n, bits))
}

// delegated is the run of a house whose ISPs delegate prefixes, for which the file
// asks: the LANs have networks in that of the line that is used first.
func (s *Site) delegated() []Run {
	order := s.Order(true)
	if len(order) == 0 || !s.delegates(order[0]) {
		return nil
	}
	home := order[0]
	run := Run{Name: "delegated", About: "the ISPs delegate prefixes", Variant: Variant{Delegate: true, Lease: shortLease}}
	var lans []*LAN
	for i := range s.LANs {
		l := &s.LANs[i]
		if i < 1<<(64-s.Config.WAN(home).IPv6.Delegate) && l.Advertise.Enabled && l.Advertise.Prefix == nil {
			lans = append(lans, l)
		}
	}
	if len(lans) == 0 {
		return nil
	}
	var free []*LAN // those that may go out, by no route of the file
	for _, l := range lans {
		drills := []string{name("delegated", l.Name, "address")}
		if s.free(l) && verdict(s.Config, party{zone: lanZone(l.Name)}, party{zone: wanZone(home), addr: lab.Web(true)}, config.UDP, 7) == lab.Answered {
			drills, free = append(drills, name("delegated", l.Name, "out")), append(free, l)
		}
		run.Acts = append(run.Acts, Act{drills, func(ctx context.Context, b *Bench) []Result {
			return b.delegatedTo(ctx, drills, l, home)
		}})
	}
	drill := name("delegated", home, "renumber")
	run.Acts = append(run.Acts, Act{[]string{drill}, func(ctx context.Context, b *Bench) []Result {
		return []Result{b.redelegated(ctx, drill, lans[0], home)}
	}})
	if len(order) > 1 && len(free) > 0 {
		drill := name("delegated", home, "lost")
		run.Acts = append(run.Acts, Act{[]string{drill}, func(ctx context.Context, b *Bench) []Result {
			return []Result{b.delegatedLost(ctx, drill, free[0], home, order[1])}
		}})
	}
	return []Run{run}
}

// in6 is the address that a LAN's client would use in a network now, once it has
// one.
func (b *Bench) in6(ctx context.Context, l *LAN, p netip.Prefix, limit time.Duration) (own netip.Addr, seen string) {
	lab.Until(ctx, limit, func() bool {
		as, err := b.Clients[l.Name].Addrs("e0", true)
		if err != nil {
			seen = err.Error()
			return false
		}
		seen = fmt.Sprint(as)
		for _, a := range as {
			if p.Contains(a.Addr()) {
				own = a.Addr()
			}
		}
		return own.IsValid()
	})
	return own, seen
}

// delegatedTo waits for an address of the LAN's client in what the home line was
// delegated, and has it leave under it.
func (b *Bench) delegatedTo(ctx context.Context, drills []string, l *LAN, home string) []Result {
	about := fmt.Sprintf("a client of %s has an address in what %s was delegated", l.Name, home)
	look := func() string { return "`weir status`: is a prefix delegated? weir's log: " + b.Daemon.Log(4) }
	p := b.ISPs[home].Delegated()
	start := time.Now()
	own, seen := b.in6(ctx, l, p, shortLease)
	if !own.IsValid() {
		return failAll(drills, about, "an address in "+p.String(), "only "+seen, look())
	}
	out := []Result{pass(drills[0], about, secs("waited", time.Since(start)))}
	for i := range b.LANs {
		if o := &b.LANs[i]; o.Name != l.Name {
			other, _ := b.in6(ctx, o, netip.PrefixFrom(own, 64).Masked(), 0)
			if other.IsValid() {
				out[0] = fail(drills[0], about, "a network of its own", fmt.Sprintf("%s of %s is in the same one as %s", other, o.Name, own), look())
			}
		}
	}
	about = fmt.Sprintf("it goes out by %s under it, untranslated", home)
	if len(drills) == 1 {
		return out
	}
	return append(out, b.leaves(ctx, drills[1], about, l, own, home, shortLease, look))
}

// leaves asks the internet from one of the client's addresses, until that is seen
// there as it should be by a line.
func (b *Bench) leaves(ctx context.Context, drill, about string, l *LAN, own netip.Addr, wan string, limit time.Duration, look func() string) Result {
	start := time.Now()
	expected, seen := b.seenAs(wan, own)
	var got string
	if !lab.Until(ctx, limit, func() bool {
		g, a, err := b.Clients[l.Name].Ask(ctx, "udp", own, netip.AddrPortFrom(lab.Web(true), 7), 500*time.Millisecond)
		got = fmt.Sprintf("%s of %s by %s (%v)", a, g.From, g.Host, err)
		return seen(g, a, err)
	}) {
		return fail(drill, about, expected, got+", after "+seconds(limit), look())
	}
	return pass(drill, about, secs("waited", time.Since(start)))
}

// seenAs is as what an address of a LAN has to be seen by a line: as it is, in the
// line's own prefix; in another line's, put into this one's address for address, or
// behind the line's own address where nothing is delegated, or refused with ICMPv6
// 1/5 where the file wants no translation.
func (b *Bench) seenAs(wan string, own netip.Addr) (expected string, seen func(lab.Greeting, lab.Answer, error) bool) {
	isp, w := b.ISPs[wan], b.Config.WAN(wan)
	by := func(g lab.Greeting, a lab.Answer) bool { return a == lab.Answered && g.Host == "inet-"+wan }
	switch p := isp.Delegated(); {
	case b.delegates(wan) && p.Contains(own):
		return fmt.Sprintf("inet-%s sees %s", wan, own), func(g lab.Greeting, a lab.Answer, _ error) bool { return by(g, a) && g.From.Addr() == own }
	case w.IPv6.Translate == config.NoTranslate:
		return "refused, with ICMPv6 1/5", func(_ lab.Greeting, a lab.Answer, err error) bool {
			return a == lab.Refused && errors.Is(err, unix.EACCES)
		}
	case b.delegates(wan):
		return fmt.Sprintf("inet-%s sees the same interface identifier in %s", wan, p), func(g lab.Greeting, a lab.Answer, _ error) bool {
			x, y := own.As16(), g.From.Addr().As16()
			return by(g, a) && p.Contains(g.From.Addr()) && slices.Equal(x[8:], y[8:])
		}
	}
	return fmt.Sprintf("inet-%s sees an address of the line", wan), func(g lab.Greeting, a lab.Answer, _ error) bool {
		return by(g, a) && isp.Owns(g.From.Addr())
	}
}

// redelegated has the ISP delegate another prefix when it is asked to renew: the
// LAN's client has an address in that, and uses the old one no more.
func (b *Bench) redelegated(ctx context.Context, drill string, l *LAN, home string) Result {
	about := "the ISP of " + home + " delegates another prefix"
	look := func() string { return "weir's log: " + b.Daemon.Log(6) }
	isp := b.ISPs[home]
	old := isp.Delegated()
	k := slices.IndexFunc(b.Lines, func(o lab.Line) bool { return o.Name == home })
	now := prefixOf(k, 1, old.Bits())
	if err := b.happens(Cut); err != nil {
		return fail(drill, about, "another prefix", err.Error(), "the lab")
	}
	start := time.Now()
	if err := isp.Redelegate(now); err != nil {
		return fail(drill, about, "another prefix", err.Error(), "the lab")
	}
	const limit = 2 * shortLease
	own, seen := b.in6(ctx, l, now, limit)
	if !own.IsValid() {
		return fail(drill, about, "an address in "+now.String()+" within "+seconds(limit), "only "+seen, look())
	}
	if !lab.Until(ctx, 5*time.Second, func() bool {
		a, _ := b.in6(ctx, l, old, 0)
		return !a.IsValid()
	}) {
		return fail(drill, about, "no address in "+old.String()+" is used any more", "one still is", look())
	}
	return pass(drill, about, secs("moved after", time.Since(start)))
}

// delegatedLost has the home line fail: what still comes under its prefix leaves by
// the next line as that wants it.
func (b *Bench) delegatedLost(ctx context.Context, drill string, l *LAN, home, next string) Result {
	about := fmt.Sprintf("%s is lost, and an address in its prefix goes by %s", home, next)
	look := func() string { return "`nft list table inet weir` on the gateway; weir's log: " + b.Daemon.Log(6) }
	own, seen := b.in6(ctx, l, b.ISPs[home].Delegated(), shortLease)
	if !own.IsValid() {
		return fail(drill, about, "a client that has one", "only "+seen, look())
	}
	if err := errors.Join(b.ISPs[home].Dark(true), b.happens(Restored)); err != nil {
		return fail(drill, about, "a line that fails", err.Error(), "the lab")
	}
	return b.leaves(ctx, drill, about, l, own, next, b.noticed(home)+shortLease, look)
}
