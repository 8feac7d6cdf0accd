package dhcpd

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

// A BOOTP client (RFC 951, 1542) asks once, and never again: its lease has no
// end. So that those of machines long gone don't eat the pool, unknown ones have
// a share of it, and who was not seen goes when another needs the place.
const (
	bootpShare = 4         // one address of so many, at least one
	bootpMost  = 256       // whatever the pool
	bootpRest  = time.Hour // nobody is looked for by ARP before: it may be starting
	bootpSize  = 300       // of a reply: 64 bytes of options (RFC 951, 3; RFC 1542, 2.1)
	vendAt     = fixedSize - 4
)

// parse reads a message. One without RFC 1048's cookie has no options: in what
// stands there only its vendor knows what it means.
func parse(b []byte) (*dhcpv4.DHCPv4, error) {
	cookie := [4]byte{99, 130, 83, 99}
	if len(b) >= vendAt && (len(b) < fixedSize || [4]byte(b[vendAt:fixedSize]) != cookie) {
		b = append(append(slices.Clone(b[:vendAt]), cookie[:]...), 255)
	}
	return dhcpv4.FromBytes(b)
}

// isBOOTP says whether a message is one of BOOTP's (RFC 2131, 2: they lack option 53).
func isBOOTP(p *dhcpv4.DHCPv4) bool { return !p.Options.Has(dhcpv4.OptionDHCPMessageType) }

func (b *binding) endless() bool { return b.lease.Duration == state.Forever }

// lastSeen is when there was a sign of who has an address.
func (b *binding) lastSeen() time.Time {
	if granted := b.until.Add(-b.lease.Duration); granted.After(b.seen) {
		return granted
	}
	return b.seen
}

// bootp is a BOOTREQUEST of BOOTP.
func (e *Engine) bootp(now time.Time, s *scope, p *dhcpv4.DHCPv4, c client, from ether.MAC) Out {
	if !s.lan.BOOTP || slices.ContainsFunc(e.probes, func(q *probe) bool { return q.lan == s.lan.Name && q.c == c }) {
		return Out{}
	}
	return e.searchBOOTP(now, s, &probe{lan: s.lan.Name, c: c, packet: p, from: from, take: true, bootp: true})
}

// searchBOOTP finds an address for a BOOTP client.
func (e *Engine) searchBOOTP(now time.Time, s *scope, q *probe) Out {
	c := q.c
	full := s.endless(c.net) >= min(max(1, c.net.size/bootpShare), bootpMost)
	if own, ok := s.own(now, c); ok {
		b := s.bindings[own]
		q.addr = own
		if b != nil && b.lease.MAC == c.hw {
			return e.answer(now, s, q)
		}
		return e.probe(now, s, q)
	}
	if a, ok := s.byClient[c.id]; ok && s.inPool(c.net, a) {
		// Its own, though it was given up for lost and another is about to have it.
		b := s.bindings[a]
		if b.active(now) && b.endless() && b.lease.Client == c.id || !full && s.free(now, a, c.id) {
			q.addr = a
			return e.answer(now, s, q)
		}
	}
	if !full && q.attempt < maxAttempts {
		if a, ok := s.pick(now, c); ok {
			q.addr = a
			return e.probe(now, s, q)
		}
	}
	if old := s.unseen(now, c.net); old != nil && q.attempt < maxAttempts {
		q.addr, q.reclaim = old.lease.Addr, true
		return e.probe(now, s, q)
	}
	first := s.note == ""
	s.note = fmt.Sprintf("no address is free for BOOTP: unknown devices get one of %d in the pool", bootpShare)
	if !first {
		return Out{}
	}
	return Out{Events: []Event{e.event(slog.LevelWarn, s, c, netip.Addr{}, "no address is free for BOOTP",
		"its leases have no end, so unknown devices get a quarter of the pool: give those that matter a host block with an address")}}
}

// endless counts the leases without end in a network's pool.
func (s *scope) endless(n *subnet) int {
	count := 0
	for a := range s.bootp {
		if s.inPool(n, a) {
			count++
		}
	}
	return count
}

// unseen is the lease without end whose device gave no sign for longest; nil if
// all did a while ago.
func (s *scope) unseen(now time.Time, n *subnet) *binding {
	var old []*binding
	for a, b := range s.bootp {
		if s.inPool(n, a) && now.Sub(b.lastSeen()) >= bootpRest && s.unheld(now, a, b.lease.Client) {
			old = append(old, b)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return slices.MinFunc(old, func(a, b *binding) int {
		return cmp.Or(a.lastSeen().Compare(b.lastSeen()), a.lease.Addr.Compare(b.lease.Addr))
	})
}

// bootReply answers BOOTP: none of DHCP's options (RFC 1534, 2).
func (s *scope) bootReply(p *dhcpv4.DHCPv4, c client, a netip.Addr, from ether.MAC) Reply {
	r := s.empty(p, dhcpv4.MessageTypeNone)
	r.YourIPAddr, r.ClientIPAddr = a.AsSlice(), p.ClientIPAddr
	set, all := s.options(p, c)
	s.boot(p, r, set)
	for code := range set {
		if code >= 50 && code <= 61 && code != 60 {
			delete(set, code)
		}
	}
	fill(r, set, append([]byte{1, 3, 6, 12, 15, 28, 26}, all...), bootpSize)
	return s.addressed(p, r, from)
}
