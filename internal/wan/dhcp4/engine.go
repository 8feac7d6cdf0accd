package dhcp4

import (
	"encoding/binary"
	"fmt"
	"net/netip"
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
	From    netip.Addr // its source address, the leased one; Release's too

	Release *dhcpv4.DHCPv4 // to Server as well, in a frame to Via: addresses and routes may go at once
	Via     ether.MAC

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
	start  time.Time
	clock  state.Clock // at start

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

// New makes an engine and starts it; clock is the time now. random must be unpredictable: a transaction
// id is all that tells a server's answer from a stranger's. The error is a MAC
// that is none.
func New(cfg Config, now time.Time, clock state.Clock, random func() uint32) (*Engine, Out, error) {
	mac, err := ether.ParseMAC(cfg.MAC)
	if err != nil {
		return nil, Out{}, fmt.Errorf("the port of WAN %s: %w", cfg.WAN, err)
	}
	e := &Engine{cfg: cfg, mac: mac, random: random, start: now, clock: clock}
	if cfg.Last == nil || !usable(cfg.Last.Addr.Addr()) {
		return e, e.report(e.discovering(now)), nil
	}
	// The clock may be wrong after a boot (no battery, no time yet): what seems to have
	// ended, or to come from the future, is asked for again, and only not used meanwhile.
	e.suggest = cfg.Last.Addr.Addr()
	if cfg.Last.Holds(clock) {
		age, _ := cfg.Last.Age(clock)
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
	case cfg.Release:
		return e.report(e.release(now)), nil
	case mac != e.mac || cfg.ClientID != old.ClientID:
		// Somebody else to the server: nothing of before is ours.
		e.mac, e.suggest = mac, netip.Addr{}
		e.drop("the client's identity changed")
		return e.report(e.discovering(now)), nil
	case old.Release:
		return e.report(e.discovering(now)), nil
	case cfg.Confirm != old.Confirm, cfg.Hostname != old.Hostname, cfg.VendorClass != old.VendorClass, cfg.IgnoreClasslessRoutes != old.IgnoreClasslessRoutes:
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
	case Released:
		e.next = now.Add(24 * time.Hour)
		return Out{}
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
