package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

// askLimit bounds an answer that is expected: a lost SYN is sent again after 1 s.
const askLimit = 2500 * time.Millisecond

// silenceLimit is how long silence is listened to.
const silenceLimit = 700 * time.Millisecond

// outAct tries the way out: by the line that stands first, translated to its
// address; or that the LAN may not reach it, if so says the file.
func outAct(s *Site, l *LAN, v6 bool) Act {
	drill := name("out", l.Name, familyName(v6))
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		wan := s.Order(v6)[0]
		if r := firstRoute(s.Config, b.client(l, v6), party{zone: wanZone(wan), addr: lab.Web(v6)}, config.TCP, 7); r != nil {
			wan = s.exit(r, v6, "")
		}
		return []Result{b.out(ctx, drill, l, wan, v6)}
	}}
}

func (b *Bench) out(ctx context.Context, drill string, l *LAN, wan string, v6 bool) Result {
	about := fmt.Sprintf("a client of %s reaches the internet by %s, translated", l.Name, wan)
	to := netip.AddrPortFrom(lab.Web(v6), 7)
	want := verdict(b.Config, b.client(l, v6), party{zone: wanZone(wan), addr: to.Addr()}, config.TCP, 7)
	if wan == "" {
		want = lab.Refused // by a route
	}
	limit := askLimit
	if want != lab.Answered {
		about, limit = fmt.Sprintf("a client of %s reaches no internet", l.Name), silenceLimit
	}
	start := time.Now()
	g, a, err := b.Clients[l.Name].Ask(ctx, "tcp", netip.Addr{}, to, limit)
	took := time.Since(start)
	look := fmt.Sprintf("`ip route show default` and `nft list table inet weir` on the gateway; `ip netns exec wan-%s ip route`", wan)
	isp := b.ISPs[wan]
	expected := fmt.Sprintf("inet-%s sees an address of the line", wan)
	switch {
	case a != want && want == lab.Answered:
		return fail(drill, about, expected, fmt.Sprintf("%s (%v)", a, err), look)
	case a != want:
		return fail(drill, about, string(want), fmt.Sprintf("%s %v", a, g.Host), look)
	case want != lab.Answered:
		return pass(drill, about, secs("told after", took))
	case g.Host != "inet-"+wan:
		return fail(drill, about, expected, fmt.Sprintf("%s saw %s", g.Host, g.From), look)
	case !isp.Owns(g.From.Addr()):
		return fail(drill, about, expected, fmt.Sprintf("it saw %s, which is not the line's", g.From), look)
	}
	return pass(drill, about, secs("took", took))
}

// customer4 is the line's present IPv4 address that translates. An IPv6 address
// by SLAAC the gateway chooses; see publicAddr.
func (b *Bench) customer4(wan string) netip.Addr {
	return b.ISPs[wan].Current4()
}

// publicAddr is the address of a line under which the gateway is reached: what
// the ISP gave, or what the internet host sees of it.
func (b *Bench) publicAddr(ctx context.Context, wan string, v6 bool) (netip.Addr, error) {
	isp := b.ISPs[wan]
	switch {
	case !v6:
		return b.customer4(wan), nil
	case len(isp.Customer6) > 0:
		return isp.Customer6[0].Addr(), nil
	}
	return isp.Seen6(ctx, upLimit)
}

// forwardAct tries a forward from outside by a line and, where hairpin is said,
// from each LAN under the line's address.
func forwardAct(s *Site, f *config.Forward, wan string, v6, hairpin bool) Act {
	outside := name("forward", f.Name, wan, familyName(v6))
	drills := []string{outside}
	if hairpin {
		for _, l := range s.LANs {
			drills = append(drills, name("hairpin", f.Name, l.Name, wan, familyName(v6)))
		}
	}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		public, err := b.publicAddr(ctx, wan, v6)
		if err != nil {
			var out []Result
			for _, d := range drills {
				out = append(out, fail(d, "a forward", "the line has an address of the family", err.Error(), "weir's log: "+b.Daemon.Log(3)))
			}
			return out
		}
		out := []Result{b.forward(ctx, outside, f, wan, public)}
		if hairpin {
			for i := range s.LANs {
				l := &s.LANs[i]
				out = append(out, b.hairpin(ctx, name("hairpin", f.Name, l.Name, wan, familyName(v6)), f, l, public))
			}
		}
		return out
	}}
}

// tries are the ports of a forward that are asked: the first and last of each
// range.
func tries(f *config.Forward) (out []struct {
	proto    string
	number   config.Protocol
	from, to uint16
}) {
	for _, p := range f.Protocol {
		network := "tcp"
		if p == config.UDP {
			network = "udp"
		}
		for k, r := range f.Port {
			for _, port := range slices.Compact([]uint16{r.From, r.To}) {
				out = append(out, struct {
					proto    string
					number   config.Protocol
					from, to uint16
				}{network, p, port, f.ToPort[k].From + (port - r.From)})
			}
		}
	}
	return out
}

// target is the machine that a forward leads to.
func (b *Bench) target(f *config.Forward, v6 bool) string {
	if h := b.targetHost(f, v6); h != nil {
		return h.Name
	}
	return ""
}

func (b *Bench) targetHost(f *config.Forward, v6 bool) *Host {
	for _, l := range b.LANs {
		for k := range l.Hosts {
			if slices.Contains(l.Hosts[k].Addr, to(f, v6)) {
				return &l.Hosts[k]
			}
		}
	}
	return nil
}

// to is where a forward leads in a family.
func to(f *config.Forward, v6 bool) netip.Addr {
	if v6 {
		return f.To6
	}
	return f.To4
}

// source is an address of the internet from which a forward may be used.
func (b *Bench) source(f *config.Forward, v6 bool) netip.Addr {
	for _, p := range b.Config.Expand(f.From) {
		if p.IsRef() || p.Prefix.Addr().Is6() != v6 {
			continue
		}
		switch a := p.Prefix.Masked().Addr(); {
		case p.Prefix.Contains(lab.Web(v6)):
			return lab.Web(v6)
		case p.Prefix.IsSingleIP():
			return a
		default:
			return a.Next()
		}
	}
	return lab.Web(v6)
}

func (b *Bench) forward(ctx context.Context, drill string, f *config.Forward, wan string, public netip.Addr) Result {
	v6 := public.Is6()
	host := b.target(f, v6)
	about := fmt.Sprintf("from the internet by %s to %s", wan, host)
	src := b.source(f, v6)
	if src != lab.Web(v6) {
		if err := b.ISPs[wan].Inet.AddAddr("lo", netip.PrefixFrom(src, src.BitLen())); err != nil {
			return fail(drill, about, "an address to come from", err.Error(), "the lab")
		}
	}
	look := fmt.Sprintf("%s; `nft list map`s of table inet weir on the gateway, and in wan-%s", place(f.Pos), wan)
	start := time.Now()
	for _, t := range tries(f) {
		to := netip.AddrPortFrom(public, t.from)
		expected := fmt.Sprintf("%s %s is answered by %s port %d, which sees %s", t.proto, to, host, t.to, src)
		// The rules of the file come before its forwards.
		want, limit := b.fromOutside(wan, src, t.number, t.from).want, askLimit
		if want != lab.Answered {
			expected, limit = fmt.Sprintf("%s %s: %s", t.proto, to, want), silenceLimit
		}
		g, a, err := b.ISPs[wan].Inet.Ask(ctx, t.proto, src, to, limit)
		switch {
		case a != want:
			return fail(drill, about, expected, fmt.Sprintf("%s (%v)", a, err), look)
		case want != lab.Answered:
		case g.Host != host || g.To.Port() != t.to:
			return fail(drill, about, expected, fmt.Sprintf("%s answered at port %d", g.Host, g.To.Port()), look)
		case g.From.Addr() != src:
			return fail(drill, about, expected, fmt.Sprintf("it saw %s", g.From), look)
		}
	}
	return pass(drill, about, secs("took", time.Since(start)))
}

func (b *Bench) hairpin(ctx context.Context, drill string, f *config.Forward, l *LAN, public netip.Addr) Result {
	v6 := public.Is6()
	host := b.target(f, v6)
	about := fmt.Sprintf("from %s by the public address %s to %s", l.Name, public, host)
	look := fmt.Sprintf("%s; the sets of the lines' addresses in `nft list table inet weir` on the gateway", place(f.Pos))
	start := time.Now()
	for _, t := range tries(f) {
		to := netip.AddrPortFrom(public, t.from)
		want, limit := b.hairpinned(f, l, v6, t.number, t.to), askLimit
		expected := fmt.Sprintf("%s %s is answered by %s", t.proto, to, host)
		if want != lab.Answered {
			expected = fmt.Sprintf("%s %s: %s", t.proto, to, want)
			limit = silenceLimit
		}
		g, a, err := b.Clients[l.Name].Ask(ctx, t.proto, netip.Addr{}, to, limit)
		switch {
		case a != want:
			return fail(drill, about, expected, fmt.Sprintf("%s (%v)", a, err), look)
		case want != lab.Answered:
		case g.Host != host || g.To.Port() != t.to:
			return fail(drill, about, expected, fmt.Sprintf("%s answered at port %d", g.Host, g.To.Port()), look)
		}
	}
	return pass(drill, about, secs("took", time.Since(start)))
}

// ports writes a list of ports, shortened.
func ports(list []uint16) string {
	if len(list) == 0 {
		return "none"
	}
	var s []string
	for i, p := range list {
		if i == 8 {
			s = append(s, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		s = append(s, fmt.Sprint(p))
	}
	return strings.Join(s, ", ")
}
