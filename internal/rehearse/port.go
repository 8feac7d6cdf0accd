package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"weir/internal/config"
	"weir/internal/lab"
)

// portAct plugs a device into a further port of a LAN's bridge, the one after
// the k-th: it gets all that one at the first port gets, and each reaches the
// other.
func portAct(l *LAN, k int) Act {
	port := l.Interface[k+1]
	drill := name("port", l.Name, port)
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("a device at %s, a further port of %s", port, l.Name)
		start := time.Now()
		if expected, seen := b.atPort(ctx, l, k); expected != "" {
			return []Result{fail(drill, about, expected, seen,
				"`bridge link` on the gateway; weir's log: "+b.Daemon.Log(3))}
		}
		return []Result{pass(drill, about, secs("took", time.Since(start)))}
	}}
}

// atPort tries a port: what of it should have been, and what was seen; "" if all
// was as it should be.
func (b *Bench) atPort(ctx context.Context, l *LAN, k int) (expected, seen string) {
	b.devices++
	c, err := b.Lab.Join(b.ports[l.Name][k], fmt.Sprintf("new-%d-%s", b.devices, l.Name), "")
	if err != nil {
		return "a device at the port", err.Error()
	}
	if err := c.ServeEcho([]uint16{7}, nil); err != nil {
		return "a server on it", err.Error()
	}
	if l.DHCP.Enabled && len(l.DHCP.Pool) > 0 {
		short, cancel := context.WithTimeout(ctx, b.joins())
		defer cancel()
		ack, err := c.Lease(short)
		if err == nil {
			err = c.Use(ack)
		}
		if err != nil {
			return "a lease", err.Error()
		}
	}
	if l.Advertise.Enabled {
		auto, _, ok := c.Autoconfigured(ctx, b.joins())
		if !ok {
			return "an address and a router by router advertisement", fmt.Sprintf("none after %s", b.joins())
		}
		c.Addr6 = auto.Addr()
	}
	here, there := c, b.Clients[l.Name]
	for _, v6 := range []bool{false, true} {
		if !addrOf(here, v6).IsValid() || !addrOf(there, v6).IsValid() {
			continue
		}
		for _, q := range [][2]*lab.Client{{here, there}, {there, here}} {
			to := netip.AddrPortFrom(addrOf(q[1], v6), 7)
			if g, a, err := q[0].Ask(ctx, "tcp", netip.Addr{}, to, askLimit); a != lab.Answered || g.Host != q[1].Name {
				return fmt.Sprintf("%s reaches %s at %s", q[0].Name, q[1].Name, to), fmt.Sprintf("%s %s (%v)", a, g.Host, err)
			}
		}
		if expected, seen := b.outFrom(ctx, l, c, v6); expected != "" {
			return expected, seen
		}
	}
	if len(c.DNS) > 0 {
		own := b.Config.Gateway.Name + "." + b.Config.Gateway.Domain
		if m, err := c.Resolve(ctx, c.DNS[0], own, dns.TypeA, 3*time.Second); err != nil {
			return own + " resolved", err.Error()
		} else if len(m.Answer) == 0 {
			return own + " resolved", dns.RcodeToString[m.Rcode] + " without an answer"
		}
	}
	return "", ""
}

// outFrom tries the way out from a device of a LAN: there, or refused.
func (b *Bench) outFrom(ctx context.Context, l *LAN, c *lab.Client, v6 bool) (expected, seen string) {
	order := b.Order(v6)
	if len(order) == 0 {
		return "", ""
	}
	to := netip.AddrPortFrom(lab.Web(v6), 7)
	want := verdict(b.Config, party{zone: lanZone(l.Name), addr: addrOf(c, v6)}, party{zone: wanZone(order[0]), addr: to.Addr()}, config.TCP, 7)
	limit := askLimit
	if want == lab.Silence {
		limit = silenceLimit
	}
	if _, a, err := c.Ask(ctx, "tcp", netip.Addr{}, to, limit); a != want {
		return fmt.Sprintf("%s from %s", want, to), fmt.Sprintf("%s (%v)", a, err)
	}
	return "", ""
}
