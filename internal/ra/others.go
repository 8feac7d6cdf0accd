package ra

import (
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"
)

// tellAgain is how often the owner is told of the same router.
const tellAgain = time.Hour

// Heard books another router's advertisement (RFC 4861, 6.2.7). news tells
// whether the owner should hear of it: the first time, when it has changed, and
// once an hour. A flood of routers is not remembered beyond a bound.
func (e *Engine) Heard(now time.Time, from netip.Addr, m *ndp.RouterAdvertisement) (o OtherRouter, news bool) {
	o = OtherRouter{Addr: from, Lifetime: m.RouterLifetime, Seen: now}
	for _, opt := range m.Options {
		if p, ok := opt.(*ndp.PrefixInformation); ok && len(o.Prefixes) < maxRetired {
			o.Prefixes = append(o.Prefixes, netip.PrefixFrom(p.Prefix, int(p.PrefixLength)))
		}
	}
	old, known := e.others[from]
	if !known && len(e.others) >= maxOthers {
		e.forgetOthers(now)
		if len(e.others) >= maxOthers {
			return o, false
		}
	}
	e.others[from] = o
	changed := !known || (old.Lifetime == 0) != (o.Lifetime == 0) || !slices.Equal(old.Prefixes, o.Prefixes)
	// One that changes with every message is told of once a minute.
	since := now.Sub(e.told[from])
	if changed && since >= time.Minute || since >= tellAgain {
		e.told[from] = now
		return o, true
	}
	return o, false
}

// Others returns the routers heard of lately, by address.
func (e *Engine) Others(now time.Time) []OtherRouter {
	e.forgetOthers(now)
	var os []OtherRouter
	for _, o := range e.others {
		os = append(os, o)
	}
	slices.SortFunc(os, func(a, b OtherRouter) int { return a.Addr.Compare(b.Addr) })
	return os
}

func (e *Engine) forgetOthers(now time.Time) {
	for a, o := range e.others {
		if now.Sub(o.Seen) > 2*time.Hour {
			delete(e.others, a)
			delete(e.told, a)
		}
	}
}

// parse reads an ICMPv6 message as a router takes it (RFC 4861, 6.1.1 and 6.1.2):
// from this link, with an address that it can have, and whole. ok is false for
// everything else, which is silently dropped.
func parse(b []byte, hops int, from netip.Addr) (m ndp.Message, ok bool) {
	if hops != ndp.HopLimit || len(b) < 8 || b[1] != 0 { // code 0
		return nil, false
	}
	m, err := ndp.ParseMessage(b)
	if err != nil {
		return nil, false
	}
	switch m := m.(type) {
	case *ndp.RouterSolicitation:
		if from.IsUnspecified() {
			for _, o := range m.Options {
				if l, is := o.(*ndp.LinkLayerAddress); is && l.Direction == ndp.Source {
					return nil, false
				}
			}
			return m, true
		}
		return m, from.Is6() && !from.IsMulticast()
	case *ndp.RouterAdvertisement:
		return m, from.IsLinkLocalUnicast()
	}
	return nil, false
}
