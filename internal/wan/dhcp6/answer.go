package dhcp6

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/state"
)

// answer is what a message gives us.
type answer struct {
	server     string // DUID in hex
	from       netip.Addr
	pd, na     ia
	lease      state.Lease6 // what both hold
	notes      []string
	code       iana.StatusCode // of the whole message
	says       string
	wantedOnes int // how many of what is wanted it gives
}

// denies says that an answer gives nothing, and ends nothing either.
func (a answer) denies() bool {
	return a.wantedOnes == 0 && len(a.pd.ended)+len(a.na.ended) == 0 &&
		(a.pd.code == iana.StatusNoPrefixAvail || a.na.code == iana.StatusNoAddrsAvail)
}

// Receive takes a message that came from a server or relay at from.
func (e *Engine) Receive(now time.Time, m *dhcpv6.Message, from netip.Addr) Out {
	server := duid(m.Options.Options, dhcpv6.OptionServerID)
	if server == "" || duid(m.Options.Options, dhcpv6.OptionClientID) != e.cfg.DUID {
		return Out{} // RFC 8415, 16.3 and 16.10
	}
	if e.info.tries > 0 && m.TransactionID == e.info.xid && m.MessageType == dhcpv6.MessageTypeReply {
		return e.hearInfo(now, m, from)
	}
	if m.TransactionID != e.xid {
		return Out{}
	}
	if e.state == Soliciting || e.state == Requesting || e.state == Renewing || e.state == Rebinding || e.state == Verifying {
		if d, ok := maxRT(m, dhcpv6.OptionSolMaxRT); ok { // also of a message that is ignored otherwise (18.2.9)
			e.solRT = d
		}
	}
	a := e.read(m, server, from)
	switch {
	case m.MessageType == dhcpv6.MessageTypeAdvertise && e.state == Soliciting:
		return e.report(e.advertised(now, a, preference(m)))
	case m.MessageType == dhcpv6.MessageTypeReply:
		return e.report(e.replied(now, m, a))
	}
	return Out{}
}

// read reads what a message gives.
func (e *Engine) read(m *dhcpv6.Message, server string, from netip.Addr) answer {
	a := answer{server: server, from: from}
	note := func(format string, args ...any) { a.notes = append(a.notes, fmt.Sprintf(format, args...)) }
	a.code, a.says = status(m.Options.Options)
	other(&a.lease, m)
	a.lease.Server = from
	a.lease.T1, a.lease.T2 = state.Forever, state.Forever
	take := func(i ia) {
		a.lease.T1, a.lease.T2 = min(a.lease.T1, i.t1), min(a.lease.T2, i.t2)
		a.wantedOnes++
	}
	if e.cfg.Prefix > 0 {
		if a.pd = prefixes(m, e.iaid(), note); a.pd.has() {
			a.lease.Prefix = a.pd.leased
			take(a.pd)
			if p := a.pd.leased[0].Prefix; p.Bits() > 64 {
				note("%s is too long for a network: LANs need a /64", p)
			} else if p.Bits() > e.cfg.Prefix {
				note("a /%d was asked for, and the ISP gave a /%d", e.cfg.Prefix, p.Bits())
			}
		}
	}
	if e.cfg.Address {
		if a.na = addresses(m, e.iaid(), note); a.na.has() {
			a.lease.Addr = a.na.leased
			take(a.na)
		}
	}
	a.lease.Note = strings.Join(a.notes, "; ")
	return a
}

// advertised takes an offer: at the end of the first second the best of all, after
// that at once (RFC 8415, 18.2.1).
func (e *Engine) advertised(now time.Time, a answer, preference int) Out {
	if a.wantedOnes == 0 || a.code != iana.StatusSuccess {
		e.event = e.why("offers nothing", a)
		return Out{}
	}
	n := advert{server: a.server, lease: a.lease, preference: preference, gives: a.wantedOnes}
	if preference == 255 || e.tries > 1 {
		return e.accept(now, n)
	}
	if b := e.best; b == nil || n.preference > b.preference || n.preference == b.preference && n.gives > b.gives {
		e.best = &n
	}
	return Out{}
}

// accept asks for an offer.
func (e *Engine) accept(now time.Time, a advert) Out {
	e.server, e.offer = a.server, a.lease
	e.enter(Requesting, now)
	return e.ask(now)
}

func (e *Engine) replied(now time.Time, m *dhcpv6.Message, a answer) Out {
	switch e.state {
	case Soliciting:
		if m.Options.GetOne(dhcpv6.OptionRapidCommit) == nil {
			return Out{} // 18.2.10
		}
		if a.wantedOnes == 0 {
			return e.empty(now, a)
		}
		return e.bind(now, a, "got")
	case Requesting:
		if a.server != e.server {
			return Out{}
		}
	case Releasing:
		if a.server != e.giving.ServerID {
			return Out{}
		}
		return e.released(now, fmt.Sprintf("given back to %s", a.from))
	case Renewing, Rebinding, Verifying:
	default:
		return Out{} // one that we did not ask for, or the second of two
	}
	switch a.code {
	case iana.StatusUnspecFail, iana.StatusUseMulticast:
		// The message is sent again, as if nobody had said anything (18.2.10): the
		// times between grow. All that we send is multicast.
		e.event = e.why("can't", a)
		return Out{}
	case iana.StatusNotOnLink:
		e.drop(e.why("says that this is another network", a))
		e.enter(Soliciting, now)
		return e.ask(now)
	}
	if e.state == Verifying && m.Options.GetOne(dhcpv6.OptionIANA) == nil && m.Options.GetOne(dhcpv6.OptionIAPD) == nil && len(e.held.Prefix) == 0 {
		return e.resume(now, fmt.Sprintf("confirmed by %s", a.from)) // CONFIRM
	}
	if e.state != Requesting && (a.pd.code == iana.StatusNoBinding || a.na.code == iana.StatusNoBinding) {
		// The server has forgotten us, and is asked for the same again (18.2.10.1).
		e.event = e.why("knows nothing of the lease", a)
		e.server, e.offer = a.server, *e.held
		e.enter(Requesting, now)
		return e.ask(now)
	}
	if e.held != nil && (e.state == Verifying || e.state == Rebinding) && a.server != e.held.ServerID && a.denies() {
		// To a message for all servers one answers that has nothing to give and never
		// had: no word of the one that we have the lease from (18.2.10.1).
		e.event = e.why("has nothing for us", a)
		return Out{}
	}
	if a.wantedOnes == 0 && !a.pd.there && !a.na.there {
		return Out{} // about nothing of ours: the others may know more
	}
	if l, some := e.rest(a); some {
		a.lease = l
		return e.bind(now, a, map[bool]string{true: "got", false: "renewed"}[e.state == Requesting])
	}
	return e.empty(now, a)
}

// rest joins what an answer gives with what is held of an association that it does
// not speak of, or of which it gives one thing and says nothing of another.
func (e *Engine) rest(a answer) (state.Lease6, bool) {
	l := a.lease
	if e.held == nil || e.state == Requesting {
		return l, a.wantedOnes > 0
	}
	// Lifetimes of before count from before: they are moved to the new begin.
	shift := e.sent.Sub(e.since)
	join := func(given ia, now []state.Leased6, before []state.Leased6) []state.Leased6 {
		if given.there && given.code != iana.StatusSuccess {
			return now // NoPrefixAvail, NoAddrsAvail: it has nothing any more
		}
		for _, p := range before {
			if slices.Contains(given.ended, p.Prefix) || slices.ContainsFunc(now, func(o state.Leased6) bool { return o.Prefix.Overlaps(p.Prefix) }) {
				continue
			}
			if p.Preferred != state.Forever {
				p.Preferred = max(0, p.Preferred-shift)
			}
			if p.Valid != state.Forever {
				p.Valid -= shift
			}
			if p.Valid <= 0 {
				continue
			}
			now = append(now, p)
		}
		return now
	}
	l.Prefix, l.Addr = join(a.pd, l.Prefix, e.held.Prefix), join(a.na, l.Addr, e.held.Addr)
	if a.wantedOnes == 0 {
		// Only something that is no more was told of. What stays is asked for again.
		l.T1, l.T2 = min(max(minT1, e.held.T1-shift), state.Forever), min(max(2*minT1, e.held.T2-shift), state.Forever)
	}
	return l, len(l.Prefix)+len(l.Addr) > 0
}

// bind takes a lease.
func (e *Engine) bind(now time.Time, a answer, how string) Out {
	l := a.lease
	l.Prefix, l.Addr = state.After(l.Prefix, 0), state.After(l.Addr, 0)
	e.nothing = 0
	e.since, e.server = e.sent, a.server
	l.Obtained = e.sent.Round(0)
	l.Boot, l.Up = e.clock.Boot, e.clock.Up+e.sent.Sub(e.start)
	var names []string
	for _, p := range slices.Concat(l.Prefix, l.Addr) {
		names = append(names, p.Prefix.String())
	}
	e.event = fmt.Sprintf("%s %s from %s", how, strings.Join(names, ", "), a.from)
	if len(l.Prefix) > 0 {
		e.before = l.Prefix[0].Prefix
	}
	e.held = &l
	e.enter(Bound, now)
	return e.ask(now)
}

// empty takes an answer that leaves nothing: the server has no prefix, no address.
// It is asked again, less and less often.
func (e *Engine) empty(now time.Time, a answer) Out {
	e.drop(e.why("has nothing for us", a))
	e.nothing++
	e.enter(Soliciting, now)
	wait := min(nothingWait<<min(e.nothing-1, 20), e.solRT)
	e.next = now.Add(wait + time.Duration(e.random())%(wait/10))
	return Out{}
}

// why says what a server does not do, and its reason.
func (e *Engine) why(what string, a answer) string {
	s := fmt.Sprintf("server %s %s", a.from, what)
	for _, c := range []struct {
		code iana.StatusCode
		says string
	}{{a.code, a.says}, {a.pd.code, a.pd.says}, {a.na.code, a.na.says}} {
		if c.code != iana.StatusSuccess {
			s += ": " + c.code.String()
			if c.says != "" {
				s += " (" + c.says + ")"
			}
			break
		}
	}
	return s
}
