package dhcpd6

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/ether"
	"weir/internal/state"
)

// Out is what an Engine wants done.
type Out struct {
	Reply  []byte        // to whom the message came from; nil: nothing
	Keep   []state.Lease // must be on disk before the reply leaves
	Events []Event
}

// Event is something for the log.
type Event struct {
	Level slog.Level
	Text  string
	LAN   string
	DUID  string
	MAC   string
	What  string // address or prefix; "" is none
	Name  string // of the host, or what the client calls itself
	Why   string
}

const (
	sweepEvery = 5 * time.Second // how often ended leases are looked for
	takenFor   = 10 * time.Minute

	// T1 is half of it where a prefix is awaited.
	awaited = time.Minute

	// A lease that was given a moment ago is given again without a write: its Reply was
	// lost, or the client floods.
	againWithin = time.Minute
)

// Engine is the protocol. It does no I/O and reads no clock. Times must come from
// time.Now, so that steps of the clock mean nothing.
type Engine struct {
	duid   dhcpv6.DUID
	scopes map[string]*scope
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
		if l.Addr.Is6() {
			e.scope(l.LAN).load(now, l, l.Remaining(e.at(now)))
		}
	}
}

func (e *Engine) scope(lan string) *scope {
	s := e.scopes[lan]
	if s == nil {
		s = newScope(lan, e.scopes)
		e.scopes[lan] = s
	}
	return s
}

// Configure takes a configuration. The error names the LAN with a mistake; the
// others are served.
func (e *Engine) Configure(cfg Config) error {
	b, err := hex.DecodeString(cfg.DUID)
	if err == nil {
		e.duid, err = dhcpv6.DUIDFromBytes(b)
	}
	if err != nil {
		return fmt.Errorf("the server's DUID %q: %w", cfg.DUID, err)
	}
	for _, s := range e.scopes {
		s.served = false
	}
	var errs []error
	for _, l := range cfg.LANs {
		errs = append(errs, e.scope(l.Name).configure(l))
	}
	return errors.Join(errs...)
}

// Kept marks a lease as being on disk.
func (e *Engine) Kept(l state.Lease) {
	t := thing{part: l.Part}
	if l.Part == 0 {
		t.id = half(l.Addr)
	}
	if b := e.scope(l.LAN).bindings[t]; b != nil && b.lease == l {
		b.kept = true
	}
}

// Next is when Tick is to be called.
func (e *Engine) Next() time.Time { return e.sweep }

// Tick ends what is over.
func (e *Engine) Tick(now time.Time) Out {
	var out Out
	if now.Before(e.sweep) {
		return out
	}
	e.sweep = now.Add(sweepEvery)
	for _, s := range e.scopes {
		for _, b := range s.bindings {
			if b.lease.Duration > 0 && !now.Before(b.until) {
				s.end(b, "it ended", &out)
			}
		}
		for id, until := range s.taken {
			if !now.Before(until) {
				delete(s.taken, id)
			}
		}
	}
	return out
}

// end ends a lease. Who had it is remembered.
func (s *scope) end(b *binding, why string, out *Out) {
	b.lease.Duration, b.kept = 0, false
	delete(s.inForce, b.lease.Part)
	s.addrs.looked, s.parts.looked = time.Time{}, time.Time{} // there is something to be found
	out.Keep = append(out.Keep, b.lease)
	out.Events = append(out.Events, s.event(slog.LevelInfo, b.lease, "lease ended", why))
}

func (s *scope) event(level slog.Level, l state.Lease, text, why string) Event {
	what := l.Addr.String()
	if l.Part > 0 {
		what = fmt.Sprintf("part %d, by %s", l.Part, l.Addr)
	}
	name := l.Host
	if name == "" {
		name = l.Hostname
	}
	return Event{Level: level, Text: text, LAN: s.lan.Name, DUID: duidText(l.Client), MAC: l.MAC, What: what, Name: name, Why: why}
}

// Handle takes a message that came in on a LAN, from an address and an Ethernet
// address (zero: not known).
func (e *Engine) Handle(now time.Time, lan string, b []byte, from netip.Addr, mac ether.MAC) Out {
	s := e.scopes[lan]
	if s == nil || !s.served {
		return Out{}
	}
	q, ok := parse(b, from, mac)
	if !ok || !e.heard(s.lan, q) {
		return Out{}
	}
	var out Out
	var m *dhcpv6.Message
	switch q.MessageType {
	case dhcpv6.MessageTypeInformationRequest:
		m = reply(dhcpv6.MessageTypeReply, e.duid, q)
		tell(m, s.lan, q)
		m.AddOption(dhcpv6.OptInformationRefreshTime(refresh))
	case dhcpv6.MessageTypeConfirm:
		m = e.confirm(s, q)
	case dhcpv6.MessageTypeRelease:
		m = e.release(now, s, q, &out)
	case dhcpv6.MessageTypeDecline:
		m = e.decline(now, s, q, &out)
	default:
		m = e.give(now, s, q, &out)
	}
	if m != nil {
		out.Reply = q.wrap(m).ToBytes()
	}
	return out
}

// heard says whether a message is for this server (RFC 8415, 16).
func (e *Engine) heard(l LAN, q query) bool {
	servers := q.Options.Get(dhcpv6.OptionServerID)
	ours := len(servers) == 1 && q.Options.ServerID() != nil && q.Options.ServerID().Equal(e.duid)
	switch q.MessageType {
	case dhcpv6.MessageTypeInformationRequest:
		for _, code := range []dhcpv6.OptionCode{dhcpv6.OptionIANA, dhcpv6.OptionIATA, dhcpv6.OptionIAPD} {
			if q.GetOneOption(code) != nil {
				return false
			}
		}
		return len(servers) == 0 || ours
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRebind:
		return l.stateful() && q.duid != "" && len(servers) == 0
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline:
		return l.stateful() && q.duid != "" && ours
	}
	return false
}

func status(code iana.StatusCode, says string) *dhcpv6.OptStatusCode {
	return &dhcpv6.OptStatusCode{StatusCode: code, StatusMessage: says}
}

func (q query) client(a ia) client {
	return client{duid: q.duid, mac: q.mac, iaid: binary.BigEndian.Uint32(a.id[:]), pd: a.pd}
}

// confirm says whether a client is still where it was (RFC 8415, 18.3.3).
func (e *Engine) confirm(s *scope, q query) *dhcpv6.Message {
	any, all := false, true
	for _, a := range q.ias() {
		for _, x := range a.addrs {
			any, all = true, all && s.onLink(x)
		}
	}
	if !any {
		return nil
	}
	m := reply(dhcpv6.MessageTypeReply, e.duid, q)
	if all {
		m.AddOption(status(iana.StatusSuccess, "all is as it was"))
	} else {
		m.AddOption(status(iana.StatusNotOnLink, "this is another network"))
	}
	return m
}

// release takes back what a client has (RFC 8415, 18.3.7).
func (e *Engine) release(now time.Time, s *scope, q query, out *Out) *dhcpv6.Message {
	m := reply(dhcpv6.MessageTypeReply, e.duid, q)
	for _, a := range q.ias() {
		b := s.holder(now, q.client(a))
		if b == nil {
			m.AddOption(association(a, nil, status(iana.StatusNoBinding, "nothing is leased to it")))
			continue
		}
		s.end(b, "given back", out)
	}
	m.AddOption(status(iana.StatusSuccess, "given back"))
	return m
}

// decline hears that somebody else uses an address (RFC 8415, 18.3.8). Only who has
// it can say so: else anybody could take the pool.
func (e *Engine) decline(now time.Time, s *scope, q query, out *Out) *dhcpv6.Message {
	m := reply(dhcpv6.MessageTypeReply, e.duid, q)
	for _, a := range q.ias() {
		b := s.holder(now, q.client(a))
		if b == nil || a.pd || !slices.Contains(s.things(a), thing{id: half(b.lease.Addr)}) {
			m.AddOption(association(a, nil, status(iana.StatusNoBinding, "nothing is leased to it")))
			continue
		}
		s.taken[half(b.lease.Addr)] = now.Add(takenFor)
		s.end(b, "declined", out)
		delete(s.byClient, q.client(a).key())
		out.Events[len(out.Events)-1] = s.event(slog.LevelWarn, b.lease, "address is in use without a lease", "says the client that was given it")
	}
	m.AddOption(status(iana.StatusSuccess, "noted"))
	return m
}

// give answers who wants something or has it: Solicit, Request, Renew, Rebind (RFC
// 8415, 18.3.1 to 18.3.5).
func (e *Engine) give(now time.Time, s *scope, q query, out *Out) *dhcpv6.Message {
	t, commit := dhcpv6.MessageTypeReply, true
	rapid := q.MessageType == dhcpv6.MessageTypeSolicit && q.GetOneOption(dhcpv6.OptionRapidCommit) != nil
	if q.MessageType == dhcpv6.MessageTypeSolicit && !rapid {
		t, commit = dhcpv6.MessageTypeAdvertise, false
	}
	m := reply(t, e.duid, q)
	if rapid {
		m.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
	}
	var given []answered
	for _, a := range q.ias() {
		given = append(given, e.associate(now, s, q, a, commit, out))
	}
	if len(given) == 0 && q.MessageType != dhcpv6.MessageTypeSolicit {
		return nil // it asks for nothing
	}
	// All have the same T1 and T2, so that a client renews them together (RFC 8415, 18.2.4).
	least := state.Forever
	if s.lan.Awaited {
		least = awaited
	}
	for _, g := range given {
		for _, l := range g.has {
			if l.preferred > 0 {
				least = min(least, l.preferred)
			}
		}
	}
	for _, g := range given {
		m.AddOption(g.option(least))
	}
	tell(m, s.lan, q)
	return m
}

// associate is what an identity association is given.
func (e *Engine) associate(now time.Time, s *scope, q query, a ia, commit bool, out *Out) answered {
	c := q.client(a)
	g := answered{ia: a}
	foreign := slices.ContainsFunc(a.addrs, func(x netip.Addr) bool { return !s.onLink(x) })
	has := s.holder(now, c)
	switch {
	case q.link.IsValid() && !s.onLink(q.link):
		// Behind a relay in a network that is none of this LAN's.
		if s.afar != q.link {
			s.afar = q.link
			out.Events = append(out.Events, Event{
				Level: slog.LevelWarn, Text: "a relay asks for a network that is not the LAN's", LAN: s.lan.Name, DUID: duidText(q.duid), MAC: q.mac, What: q.link.String(),
				Why: "devices behind a router get nothing here: have it ask for a prefix (dhcp6 { delegate }) and serve them itself",
			})
		}
		return g.none(a.pd)
	case q.MessageType == dhcpv6.MessageTypeRequest && foreign:
		g.says = status(iana.StatusNotOnLink, "this is another network")
		return g
	case q.MessageType == dhcpv6.MessageTypeRenew && has == nil:
		g.says = status(iana.StatusNoBinding, "nothing is leased to it")
		return g
	}
	t, ok := s.choose(now, c, s.things(a))
	if ok {
		g.has = s.lives(e.at(now).Up, t, c, a)
	}
	if q.MessageType == dhcpv6.MessageTypeRenew || q.MessageType == dhcpv6.MessageTypeRebind {
		g.gone = gone(a, g.has) // to all else none is an association without addresses (RFC 8415, 18.3.2, 18.3.9)
	}
	if len(g.has) == 0 {
		return g.none(a.pd)
	}
	if commit {
		e.bind(now, s, q, c, t, g.longest(), out)
	}
	return g
}

// bind leases a thing to a client, or renews that.
func (e *Engine) bind(now time.Time, s *scope, q query, c client, t thing, d time.Duration, out *Out) {
	name := q.hostname()
	b := s.bindings[t]
	renewed := b.active(now) && c.has(b)
	if name == "" && renewed {
		name = b.lease.Hostname // a client that does not say it again has not lost it
	}
	clock := e.at(now)
	l := state.Lease{
		LAN: s.lan.Name, Addr: address(netip.PrefixFrom(netip.IPv6Unspecified(), 64), t.id), Part: t.part,
		Client: c.duid, IAID: c.iaid, MAC: c.mac, Hostname: name,
		Granted: clock.Wall, Duration: d, Boot: clock.Boot, Up: clock.Up,
	}
	if t.part > 0 {
		l.Addr = q.from
	}
	if h := s.host(c); h != nil {
		l.Host = h.Name
	}
	if renewed && b.kept && b.lease.Hostname == l.Hostname && b.lease.MAC == l.MAC && b.lease.Addr == l.Addr && b.lease.Host == l.Host {
		if old, left := b.lease.Duration, b.until.Sub(now); old-left < min(old/20, againWithin) && left <= d {
			return // the disk has peace
		}
	}
	if had := s.holder(now, c); had != nil && had != b {
		s.end(had, "the client has another", out)
	}
	if b.active(now) && !c.has(b) {
		s.end(b, "another system runs on the device", out)
	}
	s.bind(t, &binding{lease: l, until: now.Add(d)})
	out.Keep = append(out.Keep, l)
	level, text := slog.LevelInfo, "lease given"
	if renewed {
		level, text = slog.LevelDebug, "lease renewed"
	}
	out.Events = append(out.Events, s.event(level, l, text, fmt.Sprintf("for %v", d)))
}
