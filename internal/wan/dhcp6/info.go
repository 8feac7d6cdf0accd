package dhcp6

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/state"
)

// Info is what a server tells who asks it for no lease (RFC 8415, 18.2.6).
type Info struct {
	Server netip.Addr // link-local address that it came from
	DNS    []netip.Addr
	Domain []string
}

// info is the exchange of an Information-request, beside that of a lease: while a
// server has no prefix for the house, it may well have a resolver.
type info struct {
	xid   dhcpv6.TransactionID
	began time.Time // the first message of the exchange
	tries int       // messages sent in the exchange; 0: none is under way
	rt    time.Duration
	next  time.Time     // the next message; zero: to be set
	maxRT time.Duration // INF_MAX_RT, if a server said so; 0: infMaxRT
	got   *Info         // nil: nothing yet
}

// informs says whether it is asked: not while a lease brings the same.
func (e *Engine) informs() bool {
	return e.cfg.Info && (e.held == nil || len(e.held.DNS) == 0) && e.state != Releasing
}

// informed is what counts of what was told; nil: nothing.
func (e *Engine) informed() *Info {
	if !e.cfg.Info || e.held != nil && len(e.held.DNS) > 0 {
		return nil
	}
	return e.info.got
}

// nextInfo is the earlier of t and when the next Information-request is due; a time
// that has passed where that is yet to be settled.
func (e *Engine) nextInfo(t time.Time) time.Time {
	switch next := e.info.next; {
	case !e.informs() || next.After(t):
		return t
	case next.IsZero():
		return e.start
	default:
		return next
	}
}

// askInfo is the Information-request that is due; nil: none is.
func (e *Engine) askInfo(now time.Time) *dhcpv6.Message {
	i := &e.info
	switch {
	case !e.informs():
		i.next = time.Time{}
		return nil
	case i.next.IsZero():
		i.tries, i.rt = 0, 0
		i.next = now.Add(time.Duration(e.random()) % infMaxDelay)
		return nil
	case now.Before(i.next):
		return nil
	}
	if i.tries == 0 {
		r := e.random()
		i.xid, i.began, i.rt = dhcpv6.TransactionID{byte(r >> 16), byte(r >> 8), byte(r)}, now, 0
	}
	r := inf
	if i.maxRT > 0 {
		r.max = i.maxRT
	}
	i.rt = r.after(i.rt, e.random())
	i.next = now.Add(i.rt)
	i.tries++
	m := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeInformationRequest, TransactionID: i.xid}
	m.AddOption(dhcpv6.OptClientID(e.duid))
	m.AddOption(elapsed(now.Sub(i.began)))
	m.AddOption(dhcpv6.OptRequestedOption(dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionDomainSearchList, dhcpv6.OptionInformationRefreshTime, dhcpv6.OptionInfMaxRT))
	return m
}

// hearInfo takes the Reply to an Information-request.
func (e *Engine) hearInfo(now time.Time, m *dhcpv6.Message, from netip.Addr) Out {
	i := &e.info
	if d, ok := maxRT(m, dhcpv6.OptionInfMaxRT); ok {
		i.maxRT = d
	}
	if code, _ := status(m.Options.Options); code != iana.StatusSuccess {
		return Out{} // asked again, as if nobody had said anything
	}
	var l state.Lease6
	other(&l, m)
	i.got, i.tries = &Info{Server: from, DNS: l.DNS, Domain: l.Domain}, 0
	// The servers of a whole town are not asked in the same second: up to a tenth earlier.
	refresh := refreshTime(m)
	i.next = now.Add(refresh - time.Duration(e.random())%(refresh/10))
	if e.state == Idle {
		e.event = "told by " + from.String() + " what there is without a lease"
	}
	return e.report(Out{})
}

// refreshTime is after which time what was told is asked for again (RFC 8415, 21.23).
func refreshTime(m *dhcpv6.Message) time.Duration {
	o := m.Options.GetOne(dhcpv6.OptionInformationRefreshTime)
	if o == nil {
		return irtDefault
	}
	b := o.ToBytes()
	if len(b) != 4 {
		return irtDefault
	}
	return min(max(time.Duration(binary.BigEndian.Uint32(b))*time.Second, irtMinimum), irtMaximum)
}
