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

// inward is what the file says of a connection from the internet to a line's
// address.
type inward struct {
	want lab.Answer
	by   *config.Forward // the forward that takes it, if one does
	// open is what a rule lets through to the gateway itself: the port answers as
	// whoever is there does.
	open bool
}

// fromOutside reads the file on a connection from src to a port of a line:
// forwards take it first, the rules judge it where it leads, and what nobody
// speaks of is silent.
func (b *Bench) fromOutside(wan string, src netip.Addr, proto config.Protocol, port uint16) inward {
	from := party{zone: wanZone(wan), addr: src}
	for i := range b.Config.Forwards {
		f := &b.Config.Forwards[i]
		inside, ok := insidePort(f, proto, port)
		target := to(f, src.Is6())
		if !ok || !target.IsValid() || !slices.Contains(f.On, wan) || f.From != nil && !from.at(b.Config, f.From) {
			continue
		}
		in := inward{want: lab.Answered, by: f}
		if !slices.ContainsFunc(f.ToPort, func(r config.PortRange) bool { return r.From == inside || r.To == inside }) {
			in.want = lab.Refused // by the host, which has no server in the midst of a range
		}
		if a, ok := ruled(b.Config, from, b.hostParty(f, src.Is6()), proto, inside); ok && a != lab.Answered {
			in.want = a
		}
		return in
	}
	a, ok := ruled(b.Config, from, party{zone: config.Ref{Kind: config.KindSelf}}, proto, port)
	switch {
	case !ok:
		return inward{want: lab.Silence}
	case a == lab.Answered && !b.listens(proto, port):
		return inward{want: lab.Refused, open: true}
	}
	return inward{want: a, open: a == lab.Answered}
}

// insidePort is where a forward leads a port; ok is false if it has no word in it.
func insidePort(f *config.Forward, proto config.Protocol, port uint16) (inside uint16, ok bool) {
	if !slices.Contains(f.Protocol, proto) {
		return 0, false
	}
	for k, r := range f.Port {
		if r.From <= port && port <= r.To {
			return f.ToPort[k].From + (port - r.From), true
		}
	}
	return 0, false
}

// hostParty is the target of a forward as the policy sees it.
func (b *Bench) hostParty(f *config.Forward, v6 bool) party {
	p := party{zone: lanZone(f.LAN), addr: to(f, v6)}
	if h := b.targetHost(f, v6); h != nil {
		p.host = h.Of
	}
	return p
}

// hairpinned is what the file says of a LAN's client that asks for a forward by
// a line's address: who is not in its from is refused.
func (b *Bench) hairpinned(f *config.Forward, l *LAN, v6 bool, proto config.Protocol, inside uint16) lab.Answer {
	from := b.client(l, v6)
	if f.From != nil && !from.at(b.Config, f.From) {
		return lab.Refused
	}
	if a, ok := ruled(b.Config, from, b.hostParty(f, v6), proto, inside); ok {
		return a
	}
	return lab.Answered
}

// ownPorts are those at which weir itself may be, so that nobody else is put there.
var ownPorts = map[config.Protocol][]uint16{config.TCP: {53}, config.UDP: {53, 67, 68, 123, 546, 547}}

// gatewayPorts are those at which the gateway machine has a server of its own, as
// it would have its sshd: what is closed must be closed although somebody is there.
func gatewayPorts(c *config.Config) map[config.Protocol][]uint16 {
	out := map[config.Protocol][]uint16{config.TCP: {7, 22}, config.UDP: {7}}
	for _, r := range c.Rules {
		if r.To != nil && !(party{zone: config.Ref{Kind: config.KindSelf}}).at(c, r.To) {
			continue
		}
		for _, proto := range r.Protocol {
			for _, p := range r.Port {
				for _, port := range []uint16{p.From, p.To} {
					if l, ok := out[proto]; ok && !slices.Contains(l, port) && !slices.Contains(ownPorts[proto], port) {
						out[proto] = append(l, port)
					}
				}
			}
		}
	}
	return out
}

func (b *Bench) listens(proto config.Protocol, port uint16) bool {
	return slices.Contains(gatewayPorts(b.Config)[proto], port)
}

// closedAct scans every TCP port of a line's address from the internet: what is
// forwarded or allowed answers, and nothing else gives a sign of life.
func closedAct(wan string, v6 bool) Act {
	drill := name("closed", wan, familyName(v6))
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		return []Result{b.scanned(ctx, drill, "every TCP port", wan, v6, config.TCP, allPorts(1), b.ISPs[wan].ScanTCP)}
	}}
}

// closedUDPAct does so with UDP: all ports up to 1024, those around what the file
// speaks of, and of the others each thirteenth.
func closedUDPAct(wan string, v6 bool) Act {
	drill := name("closed", wan, familyName(v6), "UDP")
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		list := sample(b.Config)
		scan := func(ctx context.Context, to netip.Addr, wait time.Duration) (lab.Scan, error) {
			return b.ISPs[wan].ScanUDP(ctx, to, list, wait)
		}
		return []Result{b.scanned(ctx, drill, fmt.Sprintf("%d UDP ports", len(list)), wan, v6, config.UDP, list, scan)}
	}}
}

func allPorts(step int) []uint16 {
	var out []uint16
	for p := 1; p <= 65535; p += step {
		out = append(out, uint16(p))
	}
	return out
}

// wellKnown are UDP ports above 1024 at which something may be that should not be
// seen outside: L2TP, RADIUS, SSDP, STUN, IPsec, SIP, mDNS, LLMNR, WireGuard.
var wellKnown = []uint16{1194, 1701, 1812, 1900, 3478, 4500, 5060, 5351, 5353, 5355, 51820, 65535}

// sample are the UDP ports that are asked, ascending.
func sample(c *config.Config) []uint16 {
	out := slices.Concat(allPorts(1)[:1024], wellKnown, allPorts(13))
	around := func(ranges []config.PortRange) {
		for _, r := range ranges {
			for _, p := range []int{int(r.From) - 1, int(r.From), int(r.From) + 1, int(r.To) - 1, int(r.To), int(r.To) + 1} {
				if p > 0 && p <= 65535 {
					out = append(out, uint16(p))
				}
			}
		}
	}
	for _, f := range c.Forwards {
		around(f.Port)
		around(f.ToPort)
	}
	for _, r := range c.Rules {
		around(r.Port)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// scanned scans ports and judges what was found.
func (b *Bench) scanned(ctx context.Context, drill, what, wan string, v6 bool, proto config.Protocol, list []uint16,
	scan func(context.Context, netip.Addr, time.Duration) (lab.Scan, error)) Result {
	about := fmt.Sprintf("%s of %s from the internet", what, wan)
	public, err := b.publicAddr(ctx, wan, v6)
	if err != nil {
		return fail(drill, about, "an address to scan", err.Error(), "weir's log: "+b.Daemon.Log(3))
	}
	start := time.Now()
	found, err := scan(ctx, public, silenceLimit)
	if err != nil {
		return fail(drill, about, "a scan of "+public.String(), err.Error(), "the lab")
	}
	wrong, open := b.compare(found, wan, v6, proto, list)
	if found.Lost > 0 || found.Sent != len(list) {
		wrong = append(wrong, fmt.Sprintf("only %d of %d ports were asked", found.Sent-int(found.Lost), len(list)))
	}
	if wrong != nil {
		return fail(drill, about, fmt.Sprintf("answered: %s; what the rules of the file refuse, refused; silence else", ports(open)), strings.Join(wrong, "; "),
			"`nft list table inet weir` on the gateway and in wan-"+wan)
	}
	return pass(drill, about, packets("open", len(open)), secs("took", time.Since(start)))
}

// compare holds what a scan found against the file: what is otherwise, in words,
// and the ports that are open.
func (b *Bench) compare(found lab.Scan, wan string, v6 bool, proto config.Protocol, list []uint16) (wrong []string, open []uint16) {
	otherwise := map[lab.Answer][]uint16{}
	for _, port := range list {
		in := b.fromOutside(wan, lab.Web(v6), proto, port)
		got, ok := found.Ports[port]
		if !ok {
			got = lab.Silence
		}
		if in.want == lab.Answered {
			open = append(open, port)
		}
		switch {
		case got == in.want:
		case in.open && slices.Contains(ownPorts[proto], port):
			// weir is there, or nobody.
		case proto == config.UDP && in.want == lab.Refused && got == lab.Silence:
			// ICMP has its limits; rule/... asks for each.
		default:
			otherwise[got] = append(otherwise[got], port)
		}
	}
	for _, a := range []lab.Answer{lab.Answered, lab.Refused, lab.Silence} {
		if l := otherwise[a]; l != nil {
			wrong = append(wrong, fmt.Sprintf("%s, not as the file says: %s", a, ports(l)))
		}
	}
	return wrong, open
}
