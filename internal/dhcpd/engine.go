package dhcpd

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/ether"
	"weir/internal/state"
)

// Out is what an Engine wants done.
type Out struct {
	Probes  []Probe
	Replies []Reply
	Keep    []state.Lease // without a reply that waits for them
	Events  []Event
}

// Probe asks who has an address on a LAN (RFC 5227).
type Probe struct {
	LAN  string
	Addr netip.Addr
}

// Reply is a message to send from a LAN's gateway.
type Reply struct {
	LAN    string
	Packet *dhcpv4.DHCPv4
	MAC    ether.MAC // where the frame goes
	Dst    netip.AddrPort
	Keep   *state.Lease // must be on disk before the reply leaves; nil: nothing
}

// Event is something for the log.
type Event struct {
	Level slog.Level
	Text  string
	LAN   string
	MAC   string
	Addr  netip.Addr // invalid: none
	Name  string     // of the host or what the client calls itself
	Why   string
}

// client is who asks.
type client struct {
	id  string // of the lease: option 61 in hex, else "mac:" and the address
	mac ether.MAC
	hw  string  // mac in letters
	net *subnet // where it is
}

// sweepEvery is how often ended leases are looked for.
const sweepEvery = 5 * time.Second

// Engine is the protocol. It does no I/O and reads no clock. Times must come
// from time.Now, so that steps of the clock mean nothing.
type Engine struct {
	scopes map[string]*scope
	probes []*probe
	sweep  time.Time

	began time.Time
	clock state.Clock // at began
}

// New makes an engine that serves nothing yet; clock is the time now.
func New(now time.Time, clock state.Clock) *Engine {
	return &Engine{scopes: map[string]*scope{}, began: now, clock: clock, sweep: now.Add(sweepEvery)}
}

// at is the clock at a time.
func (e *Engine) at(now time.Time) state.Clock {
	return state.Clock{Wall: now.Round(0), Boot: e.clock.Boot, Up: e.clock.Up + now.Sub(e.began)}
}

// Load takes stored leases.
func (e *Engine) Load(now time.Time, leases []state.Lease) {
	for _, l := range leases {
		if l.Addr.Is4() {
			e.scope(l.LAN).load(now, l, l.Remaining(e.at(now)))
		}
	}
}

func (e *Engine) scope(lan string) *scope {
	s := e.scopes[lan]
	if s == nil {
		s = newScope(lan)
		e.scopes[lan] = s
	}
	return s
}

// Configure takes a configuration. Leases stay, also those that it no longer
// allows: their clients hear that when they renew. A LAN with a mistake is not
// served, the others are; the error names it.
func (e *Engine) Configure(now time.Time, cfg Config) error {
	for _, s := range e.scopes {
		s.served = false
	}
	var errs []error
	for _, l := range cfg.LANs {
		errs = append(errs, e.scope(l.Name).configure(l))
	}
	e.probes = slices.DeleteFunc(e.probes, func(p *probe) bool {
		s := e.scopes[p.lan]
		c, ok := s.identify(p.packet, p.unicast)
		if p.c = c; ok && !p.reclaim && s.mayHave(now, c, p.addr) == "" {
			return false
		}
		delete(s.offers, p.addr) // it asks again
		return true
	})
	return errors.Join(errs...)
}

// Kept marks a lease as being on disk.
func (e *Engine) Kept(l state.Lease) {
	if b := e.scope(l.LAN).bindings[l.Addr]; b != nil && b.lease == l {
		b.kept = true
	}
}

// Status is how the served LANs are doing, by name.
func (e *Engine) Status(now time.Time) []Status {
	var st []Status
	for _, name := range slices.Sorted(maps.Keys(e.scopes)) {
		if s := e.scopes[name]; s.served {
			st = append(st, s.status(now))
		}
	}
	return st
}

// Next is when Tick is to be called.
func (e *Engine) Next() time.Time {
	next := e.sweep
	for _, p := range e.probes {
		if p.next.Before(next) {
			next = p.next
		}
	}
	return next
}

// Handle takes a message that came in on a LAN in a frame from an address;
// unicast says that it was sent to the gateway alone.
func (e *Engine) Handle(now time.Time, lan string, p *dhcpv4.DHCPv4, from ether.MAC, unicast bool) Out {
	s := e.scopes[lan]
	if s == nil {
		return Out{}
	}
	c, ok := s.identify(p, unicast)
	if !ok {
		return Out{}
	}
	if s.lan.KnownOnly && s.host(c) == nil && p.MessageType() != dhcpv4.MessageTypeRelease {
		return e.stranger(now, s, p, c, from)
	}
	switch p.MessageType() {
	case dhcpv4.MessageTypeNone:
		if isBOOTP(p) {
			return e.bootp(now, s, p, c, from)
		}
	case dhcpv4.MessageTypeDiscover:
		return e.discover(now, s, p, c, from)
	case dhcpv4.MessageTypeRequest:
		return e.request(now, s, p, c, from)
	case dhcpv4.MessageTypeDecline:
		return e.decline(now, s, p, c)
	case dhcpv4.MessageTypeRelease:
		return e.release(now, s, p, c)
	case dhcpv4.MessageTypeInform:
		return e.inform(s, p, c, from)
	}
	return Out{}
}

// identify says who asks, and from which network; ok is false for a message that
// is none of a client's here.
func (s *scope) identify(p *dhcpv4.DHCPv4, unicast bool) (c client, ok bool) {
	if !s.served || p.OpCode != dhcpv4.OpcodeBootRequest || p.HWType != iana.HWTypeEthernet || len(p.ClientHWAddr) != 6 {
		return client{}, false
	}
	c = client{mac: ether.MAC(p.ClientHWAddr), net: s.netOf(p, unicast)}
	if c.net == nil || c.mac.IsGroup() || c.mac == (ether.MAC{}) {
		return client{}, false
	}
	c.hw = c.mac.String()
	c.id = "mac:" + c.hw
	if id := p.Options.Get(dhcpv4.OptionClientIdentifier); len(id) >= 2 && len(id) <= 255 {
		c.id = hex.EncodeToString(id)
	}
	return c, true
}

func (e *Engine) discover(now time.Time, s *scope, p *dhcpv4.DHCPv4, c client, from ether.MAC) Out {
	if slices.ContainsFunc(e.probes, func(q *probe) bool { return q.lan == s.lan.Name && q.c == c }) {
		return Out{} // it is impatient
	}
	return e.search(now, s, &probe{lan: s.lan.Name, c: c, packet: p, from: from})
}

// search finds an address for a DISCOVER, and offers or probes it.
func (e *Engine) search(now time.Time, s *scope, q *probe) Out {
	var wants netip.Addr
	if ip := p4(q.packet, dhcpv4.OptionRequestedIPAddress); ip.IsValid() {
		wants = ip
	}
	a, known, ok := s.choose(now, q.c, wants)
	if !ok || q.attempt >= maxAttempts {
		first := s.note == ""
		s.note = fmt.Sprintf("no address is free: %d in the pool", q.c.net.size)
		if !first {
			return Out{}
		}
		return Out{Events: []Event{e.event(slog.LevelWarn, s, q.c, netip.Addr{}, "no address is free", "the pool is too small, or somebody takes all of it")}}
	}
	s.note = ""
	q.addr = a
	if known {
		return e.answer(now, s, q)
	}
	return e.probe(now, s, q)
}

// answer is what a client hears when its address is found.
func (e *Engine) answer(now time.Time, s *scope, q *probe) Out {
	if q.reclaim {
		b := s.bindings[q.addr]
		delete(s.offers, q.addr)
		if now.Sub(b.lastSeen()) < bootpRest { // it asked just now
			q.attempt++
			q.reclaim = false
			return e.searchBOOTP(now, s, q)
		}
		out := e.end(s, b, "by BOOTP, and nobody answers there")
		s.forget(b.lease)
		out.add(e.ack(now, s, q.packet, q.c, q.addr, q.from))
		return out
	}
	if q.take {
		return e.ack(now, s, q.packet, q.c, q.addr, q.from)
	}
	if q.packet.Options.Has(dhcpv4.OptionRapidCommit) {
		out := e.ack(now, s, q.packet, q.c, q.addr, q.from)
		for _, r := range out.Replies {
			r.Packet.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionRapidCommit, nil)) // RFC 4039
		}
		return out
	}
	s.offers[q.addr] = offer{q.c.id, now.Add(offerFor)}
	return Out{Replies: []Reply{s.reply(q.packet, q.c, dhcpv4.MessageTypeOffer, q.addr, s.duration(q.packet), q.from)}}
}

// Tick is called when Next has come.
func (e *Engine) Tick(now time.Time) Out {
	var out Out
	var ready []*probe
	for _, q := range e.probes {
		switch {
		case now.Before(q.next):
		case q.sent < probeTries:
			q.sent++
			q.next = now.Add(probeGap)
			out.Probes = append(out.Probes, Probe{q.lan, q.addr})
		default:
			ready = append(ready, q)
		}
	}
	for _, q := range ready {
		e.drop(q)
		out.add(e.answer(now, e.scopes[q.lan], q))
	}
	if !now.Before(e.sweep) {
		e.sweep = now.Add(sweepEvery)
		for _, s := range e.scopes {
			out.add(e.clean(now, s))
		}
	}
	return out
}

// clean forgets what is over.
func (e *Engine) clean(now time.Time, s *scope) Out {
	var out Out
	for _, b := range s.bindings {
		if b.lease.Duration > 0 && !now.Before(b.until) {
			out.add(e.end(s, b, "it ended"))
		}
	}
	maps.DeleteFunc(s.offers, func(_ netip.Addr, o offer) bool { return !now.Before(o.until) })
	maps.DeleteFunc(s.quarantine, func(_ netip.Addr, until time.Time) bool { return !now.Before(until) })
	return out
}

// end ends a lease. Who had it is remembered.
func (e *Engine) end(s *scope, b *binding, why string) Out {
	b.lease.Duration, b.kept = 0, false
	delete(s.bootp, b.lease.Addr)
	for _, n := range s.nets {
		n.looked = time.Time{} // there is something to be found
	}
	ev := e.event(slog.LevelInfo, s, client{}, b.lease.Addr, "lease ended", why)
	ev.MAC, ev.Name = b.lease.MAC, cmp.Or(b.lease.Host, b.lease.Hostname)
	return Out{Keep: []state.Lease{b.lease}, Events: []Event{ev}}
}

func (o *Out) add(p Out) {
	o.Probes = append(o.Probes, p.Probes...)
	o.Replies = append(o.Replies, p.Replies...)
	o.Keep = append(o.Keep, p.Keep...)
	o.Events = append(o.Events, p.Events...)
}

func (e *Engine) event(level slog.Level, s *scope, c client, a netip.Addr, text, why string) Event {
	return Event{Level: level, Text: text, LAN: s.lan.Name, MAC: c.hw, Addr: a, Why: why}
}
