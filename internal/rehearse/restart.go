package rehearse

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"weir/internal/config"
	"weir/internal/lab"
)

// pingEvery is how finely outages are measured.
const pingEvery = 10 * time.Millisecond

// restartAct ends the daemon by a signal and starts it again: not a packet may be
// lost meanwhile, and the clients' leases are known afterwards.
func restartAct(s *Site, how string, sig syscall.Signal) Act {
	loss, lease := name("restart", how, "loss"), name("restart", how, "lease")
	l := s.talker()
	drills := []string{loss}
	if l.DHCP.Enabled {
		drills = append(drills, lease)
	}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		c := b.Clients[l.Name]
		about := "weir run ended by " + how + " and started again under traffic"
		bad := func(err error) []Result {
			return failAll(drills, about, "a restart", err.Error(), "weir's log: "+b.Daemon.Log(5))
		}
		var had netip.Addr
		var none error
		if l.DHCP.Enabled {
			had, none = b.leaseBefore(ctx, l, c)
		}
		w, err := b.watch(ctx, l)
		if err != nil {
			return bad(err)
		}
		defer w.stop()
		if err := b.Daemon.End(sig, 10*time.Second); err != nil {
			return bad(err)
		}
		ended := time.Now()
		if err := b.happens(Ended); err != nil {
			return bad(err)
		}
		// Alone for a while: what a dead daemon leaves is what must work.
		if !pause(ctx, 500*time.Millisecond) {
			return bad(ctx.Err())
		}
		if err := b.Daemon.Start(); err != nil {
			return bad(err)
		}
		// Names are the sign that it is back; if they never come, name/... tells.
		b.answersNames(ctx, l, 5*time.Second)
		took := time.Since(ended)
		if !pause(ctx, time.Second) {
			return bad(ctx.Err())
		}
		lost, where := w.lost()
		r := pass(loss, about, packets("lost", lost), secs("without daemon", took))
		if lost > 0 {
			r = fail(loss, about, "0 packets lost", fmt.Sprintf("%d lost: %s", lost, where), "weir's log: "+b.Daemon.Log(5), packets("lost", lost))
		}
		switch {
		case !l.DHCP.Enabled:
			return []Result{r}
		case none != nil:
			return []Result{r, fail(lease, about, "a lease before", none.Error(), "lease/"+l.Name+"; weir's log: "+b.Daemon.Log(5))}
		}
		return []Result{r, b.sameLease(ctx, lease, c, had, how)}
	}}
}

// leaseBefore is the address that a client was leased when it came in. It asks
// again if it has got none: that it came too early is no matter here.
func (b *Bench) leaseBefore(ctx context.Context, l *LAN, c *lab.Client) (netip.Addr, error) {
	j := b.Joined[l.Name]
	if j.ack == nil {
		ctx, cancel := context.WithTimeout(ctx, b.joins())
		defer cancel()
		var err error
		if j.ack, err = c.Lease(ctx); err != nil {
			return netip.Addr{}, err
		}
	}
	a, _ := netip.AddrFromSlice(j.ack.YourIPAddr.To4())
	return a, nil
}

// sameLease asks for a lease again: the client gets what it had.
func (b *Bench) sameLease(ctx context.Context, drill string, c *lab.Client, had netip.Addr, how string) Result {
	about := "a client gets the lease it had, after " + how
	ctx, cancel := context.WithTimeout(ctx, b.joins())
	defer cancel()
	start := time.Now()
	ack, err := c.Lease(ctx)
	if err != nil {
		return fail(drill, about, had.String(), err.Error(), "weir's log: "+b.Daemon.Log(5))
	}
	if got, _ := netip.AddrFromSlice(ack.YourIPAddr.To4()); got != had {
		return fail(drill, about, had.String(), got.String(), "the stored leases; weir's log: "+b.Daemon.Log(5))
	}
	return pass(drill, about, secs("took", time.Since(start)))
}

// answersNames waits until the gateway answers a client's DNS.
func (b *Bench) answersNames(ctx context.Context, l *LAN, limit time.Duration) bool {
	c := b.Clients[l.Name]
	server := l.Address4.Addr()
	if !server.IsValid() {
		server = l.Address6[0].Addr()
	}
	return lab.Until(ctx, limit, func() bool {
		_, err := c.Resolve(ctx, server, b.Config.Gateway.Name+"."+b.Config.Gateway.Domain, dns.TypeA, 300*time.Millisecond)
		return err == nil
	})
}

// talker is the LAN whose client makes the traffic: the first that may reach the
// internet.
func (s *Site) talker() *LAN {
	var routed *LAN
	for i := range s.LANs {
		l := &s.LANs[i]
		from := party{zone: lanZone(l.Name), addr: l.Spare4[0]}
		if len(l.DHCP.Pool) > 0 {
			from.addr = l.DHCP.Pool[0].From
		}
		if verdict(s.Config, from, party{zone: wanZone(s.Lines[0].Name), addr: lab.Web(false)}, config.ICMP, 0) != lab.Answered {
			continue
		}
		if s.free(l) {
			return l
		}
		if routed == nil {
			routed = l
		}
	}
	return cmp.Or(routed, &s.LANs[0])
}

// pause waits; it is false if there is no time left.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// watched is traffic that goes on while something is done to the gateway.
type watched struct {
	pings map[string]*lab.Ping
	since time.Time
}

// watch starts echoes by each family that works, and waits for their first
// answers.
func (b *Bench) watch(ctx context.Context, l *LAN) (*watched, error) {
	w := &watched{pings: map[string]*lab.Ping{}}
	for _, v6 := range []bool{false, true} {
		if len(b.Order(v6)) == 0 || !addrOf(b.Clients[l.Name], v6).IsValid() {
			continue
		}
		p, err := b.Clients[l.Name].Ping(lab.Web(v6), pingEvery)
		if err != nil {
			w.stop()
			return nil, err
		}
		w.pings[familyName(v6)] = p
		if _, ok := p.Answered(ctx, time.Time{}, askLimit); !ok {
			w.stop()
			return nil, fmt.Errorf("no echo of %s came back before anything was done", lab.Web(v6))
		}
	}
	w.since = time.Now()
	return w, nil
}

func (w *watched) stop() {
	for _, p := range w.pings {
		p.Stop()
	}
}

// lost counts the echoes without an answer since the watch began, and says of
// which family.
func (w *watched) lost() (n int, where string) {
	for family, p := range w.pings {
		p.Answered(context.Background(), time.Now().Add(-pingEvery), lab.Late)
		for _, g := range lab.Gaps(settled(p.Beats(), w.since)) {
			n += g.Lost
			where += fmt.Sprintf("%d by %s over %s; ", g.Lost, family, seconds(g.Len()))
		}
	}
	return n, where
}

// settled are the beats since a moment of which it is known whether they are
// answered.
func settled(beats []lab.Beat, since time.Time) []lab.Beat {
	var out []lab.Beat
	now := time.Now()
	for _, x := range beats {
		if x.Sent.Before(since) || !x.Good() && now.Sub(x.Sent) < lab.Late {
			continue
		}
		out = append(out, x)
	}
	return out
}
