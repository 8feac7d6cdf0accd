package dhcpd

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
)

// maxProbes bounds how many addresses are probed at a time, and with it the
// broadcasts that a flood causes. A client that comes on top is offered its
// address unprobed: it looks itself (RFC 2131, 3.1, 5), and declines.
const maxProbes = 64

// maxAttempts is how many addresses are probed for a client that asked once.
const maxAttempts = 4

// probe is a conflict check before an answer.
type probe struct {
	lan     string
	addr    netip.Addr
	c       client
	packet  *dhcpv4.DHCPv4
	from    ether.MAC
	unicast bool
	take    bool // the client asked for the address by itself, or by BOOTP: ACK, not OFFER
	bootp   bool
	reclaim bool // the address is another's, who may be gone
	sent    int
	next    time.Time
	attempt int
}

// Probing says whether ARP of a LAN is waited for.
func (e *Engine) Probing(lan string) bool {
	return slices.ContainsFunc(e.probes, func(p *probe) bool { return p.lan == lan })
}

// probe begins a conflict check. The address is nobody else's meanwhile.
func (e *Engine) probe(now time.Time, s *scope, q *probe) Out {
	if len(e.probes) >= maxProbes {
		if q.take && !q.bootp || q.reclaim {
			return Out{} // it asks again
		}
		return e.answer(now, s, q)
	}
	s.offers[q.addr] = offer{q.c.id, now.Add(offerFor)}
	q.sent, q.next = 1, now.Add(probeGap)
	e.probes = append(e.probes, q)
	return Out{Probes: []Probe{{s.lan.Name, q.addr}}}
}

func (e *Engine) drop(q *probe) {
	e.probes = slices.DeleteFunc(e.probes, func(o *probe) bool { return o == q })
}

// ARP takes an ARP packet of a LAN.
func (e *Engine) ARP(now time.Time, lan string, a ether.ARP) Out {
	var out Out
	s := e.scopes[lan]
	for _, q := range slices.Clone(e.probes) {
		if q.lan != lan || q.addr != a.SenderIP || a.Sender == q.c.mac || a.Sender == s.mac {
			continue
		}
		e.drop(q)
		delete(s.offers, q.addr)
		if q.reclaim {
			q.attempt++
			q.reclaim = false
			s.bindings[q.addr].seen = now
			out.add(e.searchBOOTP(now, s, q))
			continue
		}
		s.quarantine[q.addr] = now.Add(quarantineFor)
		out.Events = append(out.Events, e.event(slog.LevelWarn, s, q.c, q.addr, "address is in use without a lease", "by "+a.Sender.String()))
		if q.bootp {
			q.attempt++
			out.add(e.searchBOOTP(now, s, q))
			continue
		}
		if q.take {
			out.Replies = append(out.Replies, s.nak(q.packet, q.from, "somebody else uses it"))
			continue
		}
		q.attempt++
		out.add(e.search(now, s, q))
	}
	return out
}
