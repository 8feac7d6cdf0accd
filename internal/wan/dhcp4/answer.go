package dhcp4

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

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
	l.Boot, l.Up = e.clock.Boot, e.clock.Up+e.sent.Sub(e.start)
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
