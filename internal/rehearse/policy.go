package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

// party is one end of a connection as the policy sees it.
type party struct {
	zone config.Ref   // a LAN, a WAN or the gateway itself
	host *config.Host // nil: none of the file's
	addr netip.Addr
}

// at says whether one of the places is where the party is.
func (p party) at(c *config.Config, places []config.Place) bool {
	for _, q := range c.Expand(places) {
		switch {
		case !q.IsRef():
			if q.Prefix.Contains(p.addr) {
				return true
			}
		case q.Ref.Kind == config.KindHost:
			if p.host != nil && (q.Ref.Name == "" || q.Ref.Name == p.host.Name) {
				return true
			}
		case q.Ref.Kind == p.zone.Kind && (q.Ref.Name == "" || q.Ref.Name == p.zone.Name):
			return true
		}
	}
	return false
}

// verdict is what the file says of a connection from the inside, read anew from
// the language's own words (the rules in order, then reach, else refused) and
// not from what the gateway makes of it.
func verdict(c *config.Config, from, to party, proto config.Protocol, port uint16) lab.Answer {
	if a, ok := ruled(c, from, to, proto, port); ok {
		return a
	}
	if from.zone.Kind == config.KindLAN {
		if l := c.LAN(from.zone.Name); l != nil && to.at(c, l.Reach) {
			return lab.Answered
		}
	}
	return lab.Refused
}

// ruled is what the first of the rules that matches says; ok is false if none does.
func ruled(c *config.Config, from, to party, proto config.Protocol, port uint16) (a lab.Answer, ok bool) {
	for _, r := range c.Rules {
		if r.From != nil && !from.at(c, r.From) || r.To != nil && !to.at(c, r.To) {
			continue
		}
		if r.Protocol != nil && !slices.Contains(r.Protocol, proto) {
			continue
		}
		if r.Port != nil && !slices.ContainsFunc(r.Port, func(p config.PortRange) bool { return p.From <= port && port <= p.To }) {
			continue
		}
		switch r.Verb {
		case config.Allow:
			return lab.Answered, true
		case config.Reject:
			return lab.Refused, true
		}
		return lab.Silence, true
	}
	return "", false
}

func lanZone(name string) config.Ref { return config.Ref{Kind: config.KindLAN, Name: name} }
func wanZone(name string) config.Ref { return config.Ref{Kind: config.KindWAN, Name: name} }

// client is the party of a LAN's client.
func (b *Bench) client(l *LAN, v6 bool) party {
	return party{zone: lanZone(l.Name), addr: addrOf(b.Clients[l.Name], v6)}
}

func addrOf(c *lab.Client, v6 bool) netip.Addr {
	if v6 {
		return c.Addr6
	}
	return c.Addr4
}

// question is one connection tried between LANs.
type question struct {
	from *lab.Client
	to   netip.AddrPort
	udp  bool
	want lab.Answer
	host string
}

// policyAct tries every pair of LANs: each client asks the other's client and
// hosts, on the ports that the file speaks of.
func policyAct(from, to *LAN) Act {
	drill := name("policy", from.Name, to.Name)
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("what %s may open in %s", from.Name, to.Name)
		n, wrong := 0, ""
		for _, q := range b.questions(from, to) {
			network, limit := "tcp", 1500*time.Millisecond
			if q.udp {
				network = "udp"
			}
			if q.want == lab.Silence {
				limit = 500 * time.Millisecond
			}
			n++
			g, a, err := q.from.Ask(ctx, network, netip.Addr{}, q.to, limit)
			if a != q.want || a == lab.Answered && g.Host != q.host {
				wrong = fmt.Sprintf("%s asks %s %s: expected %s, got %s", q.from.Name, network, q.to, q.want, a)
				if a == lab.Answered {
					wrong += " from " + g.Host
				} else if err != nil {
					wrong += fmt.Sprintf(" (%v)", err)
				}
				break
			}
		}
		if wrong != "" {
			return []Result{fail(drill, about, "what reach and the rules of the file say", wrong,
				fmt.Sprintf("%s and the rules of the file; `nft list chain inet weir forward` on the gateway", place(from.Pos)))}
		}
		return []Result{pass(drill, about, packets("tried", n))}
	}}
}

func (b *Bench) questions(from, to *LAN) []question {
	var out []question
	ask := func(src party, client *lab.Client, machine string, dst party, ports []uint16, udp bool) {
		proto := config.TCP
		if udp {
			proto = config.UDP
		}
		for _, port := range ports {
			out = append(out, question{
				from: client, to: netip.AddrPortFrom(dst.addr, port), udp: udp, host: machine,
				want: verdict(b.Config, src, dst, proto, port),
			})
		}
	}
	for _, v6 := range []bool{false, true} {
		src := b.client(from, v6)
		if !src.addr.IsValid() {
			continue
		}
		if dst := b.client(to, v6); dst.addr.IsValid() {
			ask(src, b.Clients[from.Name], to.Client, dst, []uint16{7}, false)
			ask(src, b.Clients[from.Name], to.Client, dst, []uint16{7}, true)
		}
		for _, h := range to.Hosts {
			tcp, udp := b.portsOf(h)
			for _, a := range h.Addr {
				if a.Is6() == v6 {
					dst := party{zone: lanZone(to.Name), host: h.Of, addr: a}
					ask(src, b.Clients[from.Name], h.Name, dst, tcp, false)
					ask(src, b.Clients[from.Name], h.Name, dst, udp, true)
				}
			}
		}
	}
	return out
}

// place is a place in the user's file.
func place(p config.Pos) string { return fmt.Sprintf("%s:%d", filepath.Base(p.File), p.Line) }
