package dhcp4

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

// Out is what an Engine wants done, in this order. The zero value is nothing.
type Out struct {
	Broadcast *dhcpv4.DHCPv4 // to everybody on the link, by the packet socket
	Source    netip.Addr     // its source address; invalid: 0.0.0.0

	Unicast *dhcpv4.DHCPv4 // to Server's port 67, by the WAN's routes
	Server  netip.Addr
	From    netip.Addr // its source address, the leased one

	Probe netip.Addr // ask who has this address; invalid: don't
	Watch bool       // tell Conflict of whoever uses Probe, from now on

	Report *Report // nil: nothing to tell
}

// Engine is the protocol. It does no I/O and reads no clock: every method takes
// the time and returns what to do; Next says when to call Tick. Times must come
// from time.Now, so that steps of the clock mean nothing.
type Engine struct {
	cfg    Config
	mac    ether.MAC
	random func() uint32 // for transaction ids and jitter

	state State
	xid   dhcpv4.TransactionID
	began time.Time // of this attempt to get a lease, for the secs field
	sent  time.Time // the last message: a lease counts from its request
	tries int       // messages sent in this state
	next  time.Time

	suggest netip.Addr // address of before: asked for again; invalid: none
	offer   struct{ addr, server netip.Addr }

	held   *state.Lease4 // nil: none
	t1, t2 time.Time     // of held; zero for a lease without end
	end    time.Time     // of held; zero for a lease without end

	pending  state.Lease4 // Probing: the lease that is checked
	router   ether.MAC    // Probing: who sent the ACK, see Conflict
	declines int          // in a row
	naks     int          // in a row

	told  Report
	event string // for the next report
}

// New makes an engine and starts it. random must be unpredictable: a transaction
// id is all that tells a server's answer from a stranger's. The error is a MAC
// that is none.
func New(cfg Config, now time.Time, random func() uint32) (*Engine, Out, error) {
	mac, err := ether.ParseMAC(cfg.MAC)
	if err != nil {
		return nil, Out{}, fmt.Errorf("the port of WAN %s: %w", cfg.WAN, err)
	}
	e := &Engine{cfg: cfg, mac: mac, random: random}
	if cfg.Last == nil || !usable(cfg.Last.Addr.Addr()) {
		return e, e.report(e.discovering(now)), nil
	}
	// The clock may be wrong (no battery, no time yet): what seems to have ended
	// is asked for again, and only not used meanwhile; what seems to come from
	// the future was got at an unknown time, and is used.
	e.suggest = cfg.Last.Addr.Addr()
	age := now.Round(0).Sub(cfg.Last.Obtained)
	switch {
	case cfg.Last.Duration == 0:
		e.hold(*cfg.Last, now)
	case age < 0:
		e.hold(*cfg.Last, now)
	case age < cfg.Last.Duration:
		e.hold(*cfg.Last, now.Add(-age))
	}
	e.event = "asking for " + e.suggest.String() + " again"
	return e, e.report(e.rebooting(now)), nil
}

// State is where the client stands.
func (e *Engine) State() State { return e.state }

// Next is when Tick is to be called; never zero.
func (e *Engine) Next() time.Time {
	next := e.next
	if e.held != nil && !e.end.IsZero() {
		next = earliest(next, e.end)
	}
	if e.state == Bound {
		next = earliest(next, e.t1)
	}
	if e.state == Renewing {
		next = earliest(next, e.t2)
	}
	return next
}

func earliest(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Configure takes a changed configuration. The error is a MAC that is none; the
// old configuration is then in force.
func (e *Engine) Configure(cfg Config, now time.Time) (Out, error) {
	mac, err := ether.ParseMAC(cfg.MAC)
	if err != nil {
		return Out{}, fmt.Errorf("the port of WAN %s: %w", cfg.WAN, err)
	}
	old := e.cfg
	e.cfg = cfg
	switch {
	case mac != e.mac || cfg.ClientID != old.ClientID:
		// Somebody else to the server: nothing of before is ours.
		e.mac, e.suggest = mac, netip.Addr{}
		e.drop("the client's identity changed")
		return e.report(e.discovering(now)), nil
	case cfg.Confirm != old.Confirm, cfg.Hostname != old.Hostname, cfg.IgnoreClasslessRoutes != old.IgnoreClasslessRoutes:
		if e.held == nil {
			return e.report(e.discovering(now)), nil
		}
		e.suggest = e.held.Addr.Addr()
		e.event = "confirming the lease"
		return e.report(e.rebooting(now)), nil
	}
	return Out{}, nil
}

// Tick is called when Next has come.
func (e *Engine) Tick(now time.Time) Out {
	if e.held != nil && !e.end.IsZero() && !now.Before(e.end) {
		e.drop("the lease ended: no server renewed it")
		if e.state == Bound || e.state == Renewing || e.state == Rebinding || e.state == Rebooting {
			return e.report(e.discovering(now))
		}
	}
	switch {
	case e.state == Bound && !e.t1.IsZero() && !now.Before(e.t1):
		e.enter(Renewing, now)
		return e.report(e.ask(now))
	case e.state == Renewing && !now.Before(e.t2):
		e.enter(Rebinding, now)
		return e.report(e.ask(now))
	case now.Before(e.next):
		return e.report(Out{})
	}
	return e.report(e.ask(now))
}

// discovering starts anew.
func (e *Engine) discovering(now time.Time) Out {
	e.began = now
	e.enter(Selecting, now)
	return e.ask(now)
}

// rebooting asks for the address of before (RFC 2131, 3.2).
func (e *Engine) rebooting(now time.Time) Out {
	e.began = now
	e.enter(Rebooting, now)
	return e.ask(now)
}

// wait starts anew after a pause.
func (e *Engine) wait(now time.Time, pause time.Duration) {
	e.enter(Init, now)
	e.next = now.Add(pause)
}

// enter changes the state. Each exchange has a transaction id of its own, but a
// request takes over its offer's.
func (e *Engine) enter(s State, now time.Time) {
	if s == Renewing {
		e.began = now
	}
	if s != Requesting && s != Probing {
		binary.BigEndian.PutUint32(e.xid[:], e.random())
	}
	e.state, e.tries = s, 0
	e.next = now.Add(maxBackoff) // every state below sets it
}

// ask sends what the state has to send, or gives the state up.
func (e *Engine) ask(now time.Time) Out {
	var out Out
	switch e.state {
	case Init:
		return e.discovering(now)
	case Selecting:
		if e.held != nil && e.tries >= askTries {
			// Nobody answers at all: the lease is as good as it was.
			return e.resume(now, "no DHCP server answers; the lease goes on")
		}
		out.Broadcast = e.discover(now)
	case Requesting:
		if e.tries >= askTries {
			e.event = fmt.Sprintf("server %s offered %s and then fell silent", e.offer.server, e.offer.addr)
			return e.discovering(now)
		}
		out.Broadcast = e.take(now)
	case Rebooting:
		if e.tries >= askTries-1 {
			// A server that doesn't know the address may be silent (RFC 2131,
			// 4.3.2): this could be another network, so look for anybody.
			return e.discovering(now)
		}
		out.Broadcast = e.reboot(now)
	case Probing:
		if e.tries >= probeTries {
			return e.bind(now, e.pending, "got")
		}
		e.tries++
		e.next = now.Add(probeGap)
		return Out{Probe: e.pending.Addr.Addr(), Watch: e.tries == 1}
	case Bound:
		e.next = now.Add(24 * time.Hour) // t1 comes first; a lease without end has none
		return Out{}
	case Renewing:
		out.Unicast, out.Server, out.From = e.renew(now), e.held.Server, e.held.Addr.Addr()
		if !out.Server.IsValid() {
			out = Out{Broadcast: e.renew(now), Source: e.held.Addr.Addr()}
		}
		e.next = now.Add(max(e.t2.Sub(now)/2, renewFloor))
	case Rebinding:
		out.Broadcast, out.Source = e.renew(now), e.held.Addr.Addr()
		e.next = now.Add(max(e.end.Sub(now)/2, renewFloor))
	}
	if e.state != Renewing && e.state != Rebinding {
		e.next = now.Add(e.jitter(min(startBackoff<<min(e.tries, 10), maxBackoff)))
	}
	e.tries++
	e.sent = now
	return out
}

// jitter is d, give or take an eighth: houses that lost power together don't
// ask together (RFC 2131, 4.1).
func (e *Engine) jitter(d time.Duration) time.Duration {
	return d - d/8 + time.Duration(e.random())%(d/4)
}

// Receive takes a message that a host with the address from sent.
func (e *Engine) Receive(now time.Time, p *dhcpv4.DHCPv4, from ether.MAC) Out {
	if p.OpCode != dhcpv4.OpcodeBootReply || p.TransactionID != e.xid || !slices.Equal(p.ClientHWAddr, e.mac[:]) {
		return Out{}
	}
	server := serverOf(p)
	switch typeOf(p) {
	case dhcpv4.MessageTypeOffer:
		addr := addrOf(p.YourIPAddr)
		if e.state != Selecting || !usable(addr) || !usable(server) {
			return Out{}
		}
		if d, ok := seconds(p, dhcpv4.OptionIPAddressLeaseTime); ok && d < minLease {
			return Out{}
		}
		e.offer.addr, e.offer.server = addr, server
		e.enter(Requesting, now)
		return e.report(e.ask(now))
	case dhcpv4.MessageTypeAck:
		return e.acked(now, p, from)
	case dhcpv4.MessageTypeNak:
		return e.refused(now, p, server)
	}
	return Out{}
}

func (e *Engine) acked(now time.Time, p *dhcpv4.DHCPv4, from ether.MAC) Out {
	switch e.state {
	case Requesting, Rebooting, Renewing, Rebinding:
	default:
		return Out{} // one that we did not ask for, or the second of two
	}
	l, err := leaseOf(p, from, e.sent, e.cfg.IgnoreClasslessRoutes)
	if err != nil {
		e.event = err.Error()
		return e.report(Out{})
	}
	if !l.Server.IsValid() && e.held != nil {
		l.Server = e.held.Server
	}
	e.naks = 0
	addr := l.Addr.Addr()
	switch {
	case e.state == Renewing || e.state == Rebinding:
		return e.report(e.bind(now, l, "renewed"))
	case e.held != nil && e.held.Addr.Addr() == addr, e.state == Rebooting && e.suggest == addr:
		return e.report(e.bind(now, l, "confirmed"))
	case e.declines >= maxDeclines:
		l.Note = join(l.Note, "taken without a check: the last addresses offered were all in use")
		return e.report(e.bind(now, l, "got"))
	}
	e.pending, e.router = l, from
	e.enter(Probing, now)
	return e.report(e.ask(now))
}

func (e *Engine) refused(now time.Time, p *dhcpv4.DHCPv4, server netip.Addr) Out {
	switch {
	case e.state == Requesting && server == e.offer.server,
		e.state == Rebooting, e.state == Renewing, e.state == Rebinding:
	default:
		return Out{}
	}
	why := fmt.Sprintf("server %s said no", server)
	if m := printable(p.Message()); m != "" {
		why += ": " + m
	}
	if e.state != Requesting {
		e.drop(why)
		e.suggest = netip.Addr{}
	}
	e.event = why
	e.naks++
	if e.naks == 1 {
		return e.report(e.discovering(now))
	}
	// Offered and refused again and again: no faster than a silent server.
	e.wait(now, e.jitter(min(startBackoff<<min(e.naks-2, 10), maxBackoff)))
	return e.report(Out{})
}

// Conflict takes an ARP packet that says that somebody else uses, or wants, the
// address that is probed.
func (e *Engine) Conflict(now time.Time, a ether.ARP) Out {
	if e.state != Probing || a.Sender == e.mac {
		return Out{}
	}
	addr := e.pending.Addr.Addr()
	switch {
	case a.SenderIP == addr:
	case a.SenderIP.IsUnspecified() && a.TargetIP == addr && a.Op == ether.ARPRequest:
	default:
		return Out{}
	}
	if a.Sender == e.router {
		// The ISP's box, which gave us the address, answers for every address
		// of the network (proxy ARP). It doesn't use ours.
		return Out{}
	}
	e.declines++
	out := Out{Broadcast: e.decline(now, addr, e.pending.Server)}
	e.event = fmt.Sprintf("%s gave %s, which %s uses already: declined", e.pending.Server, addr, a.Sender)
	e.suggest = netip.Addr{}
	e.wait(now, declineWait)
	return e.report(out)
}

// bind takes a lease.
func (e *Engine) bind(now time.Time, l state.Lease4, how string) Out {
	e.event = fmt.Sprintf("%s %s from server %s", how, l.Addr, l.Server)
	e.hold(l, e.sent)
	e.declines, e.naks = 0, 0
	e.suggest = l.Addr.Addr()
	e.enter(Bound, now)
	return e.ask(now)
}

// hold makes l the lease that is held, got at since.
func (e *Engine) hold(l state.Lease4, since time.Time) {
	e.held = &l
	e.t1, e.t2, e.end = time.Time{}, time.Time{}, time.Time{}
	if l.Duration > 0 {
		e.t1, e.t2, e.end = since.Add(l.T1), since.Add(l.T2), since.Add(l.Duration)
	}
}

// drop gives the held lease up.
func (e *Engine) drop(why string) {
	if e.held != nil {
		e.held, e.event = nil, why
	}
}

// resume goes on with the held lease, unconfirmed.
func (e *Engine) resume(now time.Time, why string) Out {
	e.event = why
	switch {
	case e.t1.IsZero() || now.Before(e.t1):
		e.enter(Bound, now)
	case now.Before(e.t2):
		e.enter(Renewing, now)
	default:
		e.enter(Rebinding, now)
	}
	return e.ask(now)
}

// report puts a report into out if there is something to tell.
func (e *Engine) report(out Out) Out {
	r := Report{State: e.state, Tries: e.tries, Event: e.event}
	if r.State == Bound || r.State == Probing {
		r.Tries = 0
	}
	if e.held != nil {
		l := *e.held
		l.Obtained = l.Obtained.Round(0) // without the monotonic reading: for others
		r.Lease = &l
	}
	if !reflect.DeepEqual(r, e.told) {
		e.told = r
		out.Report = &r
	}
	return out
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// printable is a server's text, for a log line.
func printable(s string) string {
	b := make([]byte, 0, len(s))
	for _, c := range []byte(s) {
		if c >= ' ' && c < 0x7f {
			b = append(b, c)
		}
	}
	return string(b)
}
