package dhcp6

import (
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"weir/internal/state"
)

// Out is what an Engine wants done. The zero value is nothing.
type Out struct {
	Send   *dhcpv6.Message // to all servers of the link (ff02::1:2)
	Report *Report         // nil: nothing to tell
}

// Engine is the protocol. It does no I/O and reads no clock: every method takes
// the time and returns what to do; Next says when to call Tick. Times must come
// from time.Now, so that steps of the clock mean nothing.
type Engine struct {
	cfg    Config
	duid   dhcpv6.DUID
	random func() uint32 // for transaction ids and jitter
	start  time.Time     // when clock was read
	clock  state.Clock

	state State
	xid   dhcpv6.TransactionID
	began time.Time     // of this exchange: the first message
	sent  time.Time     // the last message: lifetimes count from its sending
	tries int           // messages sent in this exchange
	rt    time.Duration // the last retransmission time; 0: none yet
	next  time.Time
	solRT time.Duration // SOL_MAX_RT

	server  string // DUID in hex of whom a Request or Renew is for
	offer   state.Lease6
	best    *advert // the best advertisement of the first second
	nothing int     // how often in a row a server had nothing

	held   *state.Lease6 // nil: none
	since  time.Time     // held's Obtained, on our clock
	before netip.Prefix  // the last prefix held: the hint for the next; invalid: none
	giving *state.Lease6 // Releasing: what is given back, and is not held any more

	info info

	told  Report
	event string
}

// advert is an ADVERTISE that could be accepted.
type advert struct {
	server     string
	lease      state.Lease6
	preference int
	gives      int // how many of what is wanted
}

// New makes an engine and starts it. clock is the machine's at now. random must be
// unpredictable: a transaction id is all that tells a server's answer from a
// stranger's. The error is a DUID that is none.
func New(cfg Config, now time.Time, clock state.Clock, random func() uint32) (*Engine, Out, error) {
	d, err := parseDUID(cfg.DUID)
	if err != nil {
		return nil, Out{}, fmt.Errorf("the DHCPv6 client of WAN %s: %w", cfg.WAN, err)
	}
	e := &Engine{cfg: cfg, duid: d, random: random, start: now, clock: clock, solRT: solMaxRT}
	if cfg.Last != nil {
		age, known := cfg.Last.Age(clock)
		l := *cfg.Last
		l.Prefix, l.Addr = state.After(l.Prefix, age), state.After(l.Addr, age)
		if len(cfg.Last.Prefix) > 0 {
			e.before = cfg.Last.Prefix[0].Prefix
		}
		// One of an unknown age is asked for again, and not used until then: the LANs
		// would be told of what may be another house's by now.
		if e.keep(&l); known && len(l.Prefix)+len(l.Addr) > 0 {
			e.held, e.since = &l, now.Add(-age)
			e.server = l.ServerID
		}
	}
	return e, e.begin(now, "it is of before"), nil
}

// keep takes from l what the configuration doesn't want.
func (e *Engine) keep(l *state.Lease6) {
	if !e.cfg.Address {
		l.Addr = nil
	}
	if e.cfg.Prefix == 0 {
		l.Prefix = nil
	}
}

// State is where the client stands.
func (e *Engine) State() State { return e.state }

// Next is when Tick is to be called; never zero.
func (e *Engine) Next() time.Time {
	next := e.nextInfo(e.next)
	if e.held == nil {
		return next
	}
	switch e.state {
	case Bound:
		next = e.at(e.held.T1, next)
	case Renewing:
		next = e.at(e.held.T2, next)
	}
	for _, what := range [][]state.Leased6{e.held.Prefix, e.held.Addr} {
		for _, p := range what {
			next = e.at(p.Valid, next)
		}
	}
	return next
}

// at is the earlier of after, counted from the lease's begin, and t.
func (e *Engine) at(after time.Duration, t time.Time) time.Time {
	if after == state.Forever {
		return t
	}
	if a := e.since.Add(after); a.Before(t) {
		return a
	}
	return t
}

// due says whether a time after the lease's begin has come.
func (e *Engine) due(now time.Time, after time.Duration) bool {
	return after != state.Forever && now.Sub(e.since) >= after
}

// Configure takes a changed configuration. The error is a DUID that is none; the
// old configuration is then in force.
func (e *Engine) Configure(cfg Config, now time.Time) (Out, error) {
	d, err := parseDUID(cfg.DUID)
	if err != nil {
		return Out{}, fmt.Errorf("the DHCPv6 client of WAN %s: %w", cfg.WAN, err)
	}
	old := e.cfg
	e.cfg = cfg
	switch {
	case cfg.DUID != old.DUID || cfg.IAID != old.IAID:
		e.duid = d
		e.drop("the client's identity changed")
		return e.begin(now, ""), nil
	case cfg.Address != old.Address || cfg.Prefix != old.Prefix:
		if back := e.part(); back != nil && cfg.Release {
			e.giving = back
			e.enter(Releasing, now)
			return e.report(e.ask(now)), nil
		}
		// What is held is asked for along with what is wanted besides.
		return e.begin(now, "asking for something else"), nil
	case cfg.Confirm != old.Confirm:
		e.info.next = time.Time{}
		return e.begin(now, "the carrier was away"), nil
	}
	return e.report(Out{}), nil
}

// begin starts from what is held: it is verified (RFC 8415, 18.2.12), or something
// is looked for.
func (e *Engine) begin(now time.Time, why string) Out {
	switch {
	case !e.cfg.Address && e.cfg.Prefix == 0:
		e.enter(Idle, now)
	case e.held != nil:
		if why != "" {
			e.event = "verifying the lease: " + why
		}
		e.enter(Verifying, now)
		e.delay(now, cnfMaxDelay)
	default:
		if e.event == "" {
			e.event = "looking for a server"
		}
		e.enter(Soliciting, now)
		e.delay(now, solMaxDelay)
	}
	return e.report(Out{})
}

// delay puts off the first message of an exchange: houses that got their power
// back together don't ask together.
func (e *Engine) delay(now time.Time, most time.Duration) {
	e.next = now.Add(time.Duration(e.random()) % most)
}

// Tick is called when Next has come.
func (e *Engine) Tick(now time.Time) Out {
	out := e.tick(now)
	if out.Send == nil { // of two that are due at a time one can wait until the next Tick
		out.Send = e.askInfo(now)
	}
	return out
}

func (e *Engine) tick(now time.Time) Out {
	if e.held != nil && e.expire(now) && e.held == nil && e.state != Soliciting && e.state != Requesting && e.state != Releasing {
		e.enter(Soliciting, now)
		return e.report(e.ask(now))
	}
	switch {
	case e.state == Bound && e.due(now, e.held.T1):
		e.enter(Renewing, now)
		if e.due(now, e.held.T2) || e.server == "" {
			e.enter(Rebinding, now)
		}
		return e.report(e.ask(now))
	case e.state == Renewing && e.due(now, e.held.T2):
		e.enter(Rebinding, now)
		return e.report(e.ask(now))
	case now.Before(e.next):
		return e.report(Out{})
	}
	return e.report(e.ask(now))
}

// expire takes from what is held what has ended, and tells whether anything did.
func (e *Engine) expire(now time.Time) bool {
	l := *e.held
	age := now.Sub(e.since)
	l.Prefix, l.Addr = state.After(l.Prefix, age), state.After(l.Addr, age)
	if len(l.Prefix) == len(e.held.Prefix) && len(l.Addr) == len(e.held.Addr) {
		return false
	}
	if len(l.Prefix)+len(l.Addr) == 0 {
		e.drop("the lease ended: no server renewed it")
		return true
	}
	e.held, e.event = &l, "a part of the lease ended"
	return true
}

// enter changes the state: an exchange of its own.
func (e *Engine) enter(s State, now time.Time) {
	r := e.random()
	e.xid = dhcpv6.TransactionID{byte(r >> 16), byte(r >> 8), byte(r)}
	e.state, e.tries, e.rt, e.best, e.began = s, 0, 0, nil, now
	e.next = now.Add(24 * time.Hour)
	if s != Releasing {
		e.giving = nil
	}
}

// ask sends what the state has to send, or gives the state up.
func (e *Engine) ask(now time.Time) Out {
	if e.tries == 0 {
		e.began = now // the delay does not count as elapsed
	}
	var t dhcpv6.MessageType
	r := sol
	switch e.state {
	case Soliciting:
		if b := e.best; b != nil {
			e.best = nil
			return e.accept(now, *b)
		}
		if e.held != nil && e.tries >= lookTries {
			return e.resume(now, "no DHCPv6 server answers; the lease goes on")
		}
		t, r.max = dhcpv6.MessageTypeSolicit, e.solRT
	case Requesting:
		t, r = dhcpv6.MessageTypeRequest, req
		if e.tries >= r.count {
			// A lease that is held goes on: its end was not the silence of a server
			// that only offered another.
			if e.held == nil {
				e.drop("the server fell silent")
			} else {
				e.event = "the server fell silent; the lease goes on"
			}
			e.enter(Soliciting, now)
			return e.ask(now)
		}
	case Verifying:
		r = cnf
		if e.tries > 0 && now.Sub(e.began) >= cnfMaxRD {
			// Nobody says anything against it, but this could be another network
			// whose servers know nothing of us: look for anybody.
			e.enter(Soliciting, now)
			return e.ask(now)
		}
		t = dhcpv6.MessageTypeRebind
		if len(e.held.Prefix) == 0 && e.cfg.Prefix == 0 {
			t = dhcpv6.MessageTypeConfirm
		}
	case Renewing:
		t, r = dhcpv6.MessageTypeRenew, ren
	case Rebinding:
		t, r = dhcpv6.MessageTypeRebind, reb
	case Releasing:
		t, r = dhcpv6.MessageTypeRelease, rel
		if e.tries >= r.count {
			return e.released(now, "given back; the server did not say that it heard")
		}
	default: // Idle, Bound: time will tell
		e.next = now.Add(24 * time.Hour)
		return Out{}
	}
	m := e.message(now, t)
	e.retransmit(now, r)
	e.tries++
	e.sent = now
	return Out{Send: m}
}

// retransmit sets the time of the next message (RFC 8415, 15).
func (e *Engine) retransmit(now time.Time, r retransmission) {
	random := e.random()
	if e.state == Soliciting && e.rt == 0 {
		random = r.late(random) // 18.2.1
	}
	e.rt = r.after(e.rt, random)
	e.next = now.Add(e.rt)
}

// resume goes on with the held lease, unconfirmed.
func (e *Engine) resume(now time.Time, why string) Out {
	e.event = why
	e.server = e.held.ServerID
	switch {
	case !e.due(now, e.held.T1):
		e.enter(Bound, now)
	case !e.due(now, e.held.T2) && e.server != "":
		e.enter(Renewing, now)
	default:
		e.enter(Rebinding, now)
	}
	return e.ask(now)
}

// drop gives up what is held.
func (e *Engine) drop(why string) {
	if e.held != nil {
		if len(e.held.Prefix) > 0 {
			e.before = e.held.Prefix[0].Prefix
		}
		e.held = nil
	}
	e.event = why
}

// report puts a report into out if there is something to tell.
func (e *Engine) report(out Out) Out {
	r := Report{State: e.state, Tries: e.tries, Event: e.event, Released: e.cfg.Release && e.state != Releasing, Info: e.informed()}
	if r.State == Bound {
		r.Tries = 0
	}
	if e.held != nil {
		l := *e.held
		r.Lease = &l
	}
	if !reflect.DeepEqual(r, e.told) {
		e.told = r
		out.Report = &r
	}
	return out
}
