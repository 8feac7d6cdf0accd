package rehearse

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

// join has a LAN's client come in. Where it gets no address it takes one, so that
// other drills can be made: the lack is the lease drill's to tell.
func (b *Bench) join(ctx context.Context, l *LAN, start time.Time) {
	c, j := b.Clients[l.Name], &joined{}
	b.Joined[l.Name] = j
	var wg sync.WaitGroup
	if l.DHCP.Enabled {
		wg.Go(func() {
			short, cancel := context.WithDeadline(ctx, start.Add(joinLimit))
			defer cancel()
			for short.Err() == nil {
				var err error
				if j.ack, err = c.Lease(short); err == nil || b.Daemon.Gone() != nil {
					return
				}
			}
		})
	}
	if l.Advertise.Enabled {
		wg.Go(func() {
			j.auto, _, _ = c.Autoconfigured(ctx, joinLimit)
		})
	}
	wg.Wait()
	var err error
	switch {
	case j.ack != nil:
		err = c.Use(j.ack)
	case l.Spare4[0].IsValid():
		err = c.Static(netip.PrefixFrom(l.Spare4[0], l.Address4.Bits()), l.Address4.Addr())
	}
	if err == nil && j.auto.IsValid() {
		c.Addr6 = j.auto.Addr()
	} else if err == nil && len(l.Address6) > 0 {
		p := l.Address6[0]
		err = c.Static(netip.PrefixFrom(plus(p.Masked().Addr(), 0xc11e), p.Bits()), p.Addr())
	}
	if err != nil {
		b.log.Warn("client has no address", "lan", l.Name, "err", err)
	}
}

// patience is how long something is waited for that has to come within limit: longer
// on a machine that was slow to start, so that what comes too late is told from what
// does not come.
func (b *Bench) patience(limit time.Duration) time.Duration { return max(limit, 4*b.first) }

// awaitFirst measures how long after the start the first packet gets through, by
// a host with an address of its own.
func (b *Bench) awaitFirst(ctx context.Context, start time.Time) {
	for _, l := range b.LANs {
		for _, h := range l.Hosts {
			src := party{zone: lanZone(l.Name), host: h.Of, addr: h.addr4(&l)}
			if !src.addr.IsValid() || verdict(b.Config, src, party{zone: wanZone(b.Lines[0].Name), addr: lab.Web(false)}, config.ICMP, 0) != lab.Answered {
				continue
			}
			p, err := b.Hosts[h.Name].Ping(lab.Web(false), 10*time.Millisecond)
			if err != nil {
				return
			}
			defer p.Stop()
			if at, ok := p.Answered(ctx, start, upLimit); ok {
				b.first = at.Sub(start)
			}
			return
		}
	}
}

// await waits until each line is in use or probed in reserve.
func (b *Bench) await(ctx context.Context) {
	var wg sync.WaitGroup
	for _, isp := range b.ISPs {
		for _, v6 := range []bool{false, true} {
			if has(&isp.Line, v6) {
				wg.Go(func() { seen(ctx, isp, v6, upLimit) })
			}
		}
	}
	wg.Wait()
	for _, v6 := range []bool{false, true} {
		b.awaitPreferred(ctx, v6)
	}
}

// awaitPreferred waits, where another line serves a family, for the line that stands
// first. One whose first answer comes later than a hold-down after the start, as on a
// busy machine, serves that before. If it never comes the drills say so.
func (b *Bench) awaitPreferred(ctx context.Context, v6 bool) {
	l, order := b.talker(), b.Order(v6)
	if len(order) < 2 || !addrOf(b.Clients[l.Name], v6).IsValid() ||
		firstRoute(b.Config, b.client(l, v6), party{zone: wanZone(order[0]), addr: lab.Web(v6)}, config.TCP, 7) != nil {
		return
	}
	t := &traffic{b: b, lan: l, v6: v6}
	if wan, _ := t.newGoes(ctx, v6); wan != "" && wan != order[0] {
		t.comesBack(ctx, v6, order[0], min(b.Config.Failover.HoldDown, joinLimit)+time.Second)
	}
}

// seen waits until two echoes of a customer were answered, or the limit is over:
// what the gateway probes by has been tried.
func seen(ctx context.Context, isp *lab.ISP, v6 bool, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	const request4, request6 = 8, 128
	ch := make(chan struct{}, 64)
	stop := isp.Wire.Watch(func(f lab.Frame) {
		if f.Src.IsValid() && f.Src.Is6() == v6 && !f.Dst.IsLinkLocalUnicast() && (f.ICMP == request4 || f.ICMP == request6) && isp.Owns(f.Src) {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	})
	defer stop()
	for range 2 {
		select {
		case <-ch:
		case <-ctx.Done():
			return
		}
	}
}
