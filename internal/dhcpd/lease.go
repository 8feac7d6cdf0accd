package dhcpd

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

// addrOf is an address of a message's fixed part; 0.0.0.0 if it is missing.
func addrOf(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.IPv4Unspecified()
	}
	return a.Unmap()
}

// p4 is the address in an option of four bytes; invalid if there is none.
func p4(p *dhcpv4.DHCPv4, code dhcpv4.OptionCode) netip.Addr {
	if b := p.Options.Get(code); len(b) == 4 {
		return netip.AddrFrom4([4]byte(b))
	}
	return netip.Addr{}
}

// request is RFC 2131, 4.3.2.
func (e *Engine) request(now time.Time, s *scope, p *dhcpv4.DHCPv4, c client, from ether.MAC) Out {
	server, wants, uses := p4(p, dhcpv4.OptionServerIdentifier), p4(p, dhcpv4.OptionRequestedIPAddress), addrOf(p.ClientIPAddr)
	if server.IsValid() && server != s.serverID(p) {
		for a, o := range s.offers { // it took another's offer
			if o.client == c.id {
				delete(s.offers, a)
			}
		}
		return Out{}
	}
	using := !uses.IsUnspecified()
	a := wants
	if using {
		a = uses
	}
	if !a.IsValid() || a.IsUnspecified() {
		return Out{}
	}
	if why := s.mayHave(now, c, a); why != "" {
		// Authoritative: a client from elsewhere starts over at once.
		ev := e.event(slog.LevelInfo, s, c, a, "request refused", why)
		ev.Name = hostname(p)
		return Out{Replies: []Reply{s.nak(p, from, why)}, Events: []Event{ev}}
	}
	b := s.bindings[a]
	offered := s.offers[a].client == c.id
	if using || offered || b != nil && (b.lease.Client == c.id || b.lease.MAC == c.hw) {
		return e.ack(now, s, p, c, a, from)
	}
	// It claims an address that we don't remember to be its own: the store was
	// damaged, or it comes from another server. Its word is good, unless
	// somebody answers there.
	q := &probe{lan: s.lan.Name, addr: a, c: c, packet: p, from: from, take: true}
	for _, o := range e.probes {
		if o.lan == q.lan && o.c == c {
			return Out{}
		}
	}
	return e.probe(now, s, q)
}

// duration is how long a lease is given for.
func (s *scope) duration(p *dhcpv4.DHCPv4) time.Duration {
	if isBOOTP(p) {
		return state.Forever
	}
	d := s.lan.Lease
	if want := p.IPAddressLeaseTime(d); want < d {
		d = max(want, min(shortest, d))
	}
	return d
}

// ack gives a lease, or renews it.
func (e *Engine) ack(now time.Time, s *scope, p *dhcpv4.DHCPv4, c client, a netip.Addr, from ether.MAC) Out {
	name := hostname(p)
	delete(s.offers, a)
	b := s.bindings[a]
	if name == "" && b.active(now) && b.lease.Client == c.id {
		name = b.lease.Hostname // a client that does not say it again has not lost it
	}
	if b.active(now) && b.kept && b.lease.Client == c.id && b.lease.MAC == c.hw && b.lease.Hostname == name {
		// Asked again within a moment (its ACK was lost, or it floods): the
		// lease it has is good, and the disk has peace.
		if left := b.until.Sub(now); b.lease.Duration-left < min(b.lease.Duration/20, time.Minute) {
			return Out{Replies: []Reply{s.reply(p, c, dhcpv4.MessageTypeAck, a, left, from)}}
		}
	}
	var out Out
	// One lease per client. Those of a host's other cards are other clients'.
	if old, ok := s.byClient[c.id]; ok && old != a {
		if b := s.bindings[old]; b.active(now) && b.lease.Client == c.id {
			out.add(e.end(s, b, "the client has another"))
		}
	}
	d := s.duration(p)
	clock := e.at(now)
	l := state.Lease{
		LAN: s.lan.Name, Addr: a, Client: c.id, MAC: c.hw, Hostname: name,
		Granted: clock.Wall, Duration: d, Boot: clock.Boot, Up: clock.Up,
	}
	if h := s.host(c); h != nil {
		l.Host = h.Name
	}
	renewed := b.active(now) && b.lease.Client == c.id
	if b != nil && !renewed {
		s.forget(b.lease)
	}
	s.bind(&binding{lease: l, until: now.Add(d)})
	s.byClient[l.Client], s.byClient[l.MAC] = a, a
	r := s.reply(p, c, dhcpv4.MessageTypeAck, a, d, from)
	r.Keep = &l
	out.Replies = append(out.Replies, r)
	level, text := slog.LevelInfo, "lease given"
	if renewed {
		level, text = slog.LevelDebug, "lease renewed"
	}
	why := fmt.Sprintf("for %v", d)
	if isBOOTP(p) {
		why = "for ever, by BOOTP"
	}
	ev := e.event(level, s, c, a, text, why)
	ev.Name = name
	if l.Host != "" {
		ev.Name = l.Host
	}
	out.Events = append(out.Events, ev)
	return out
}

// decline: the client found somebody else at the address it was given.
func (e *Engine) decline(now time.Time, s *scope, p *dhcpv4.DHCPv4, c client) Out {
	a := p4(p, dhcpv4.OptionRequestedIPAddress)
	b := s.bindings[a]
	if server := p4(p, dhcpv4.OptionServerIdentifier); server.IsValid() && server != s.serverID(p) || b == nil || b.lease.Client != c.id || !b.active(now) {
		return Out{} // whoever could say so of any address could take the pool
	}
	s.quarantine[a] = now.Add(quarantineFor)
	s.forget(b.lease)
	out := e.end(s, b, "declined")
	out.Events = []Event{e.event(slog.LevelWarn, s, c, a, "address is in use without a lease", "says the client that was given it")}
	return out
}

func (e *Engine) release(now time.Time, s *scope, p *dhcpv4.DHCPv4, c client) Out {
	b := s.bindings[addrOf(p.ClientIPAddr)]
	if !b.active(now) || b.lease.Client != c.id || b.lease.MAC != c.hw {
		return Out{}
	}
	return e.end(s, b, "given back")
}

// inform: the client has an address of its own, and wants the rest (RFC 2131, 4.3.5).
func (e *Engine) inform(s *scope, p *dhcpv4.DHCPv4, c client, from ether.MAC) Out {
	if !c.net.Prefix.Contains(addrOf(p.ClientIPAddr)) {
		return Out{}
	}
	return Out{Replies: []Reply{s.reply(p, c, dhcpv4.MessageTypeAck, netip.Addr{}, 0, from)}}
}

// stranger is a client that the file does not know, where only known ones are
// served. It hears nothing: there may be a server for it. One that has a lease of
// ours, from before, is told that it is over.
func (e *Engine) stranger(now time.Time, s *scope, p *dhcpv4.DHCPv4, c client, from ether.MAC) Out {
	a, ok := s.byClient[c.id]
	b := s.bindings[a]
	if !ok || !b.active(now) || b.lease.Client != c.id || p.MessageType() != dhcpv4.MessageTypeRequest {
		return Out{}
	}
	out := e.end(s, b, "only hosts of the file are served")
	if server := p4(p, dhcpv4.OptionServerIdentifier); !server.IsValid() || server == s.serverID(p) {
		out.Replies = []Reply{s.nak(p, from, "only hosts of the file are served")}
	}
	return out
}
