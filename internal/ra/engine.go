package ra

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"
)

// Engine decides what is advertised on one LAN, and when. It has no I/O and no
// clock: its user calls it with the time, calls Tick at Next, and sends what
// that returns.
type Engine struct {
	rand *rand.Rand
	lan  LAN

	limits map[netip.Prefix]limit
	routes []retired[netip.Prefix] // and when their lease ends; zero: never

	started bool
	fast    int       // advertisements that still come in short intervals
	next    time.Time // the next one to all
	last    time.Time // the last one to all; zero: none
	pending map[netip.Addr]time.Time

	// What was advertised and is no more, until hosts can have forgotten it.
	oldPrefixes []retired[netip.Prefix]
	oldDNS      []retired[netip.Addr]
	oldSearch   []retired[string]
	oldRoutes   []retired[netip.Prefix]

	others map[netip.Addr]OtherRouter
	told   map[netip.Addr]time.Time // when the owner was told of a router
}

type retired[T comparable] struct {
	what  T
	until time.Time
}

// limit is a Limit on the engine's clock.
type limit struct{ preferred, valid time.Time }

// Send is a message to send.
type Send struct {
	To  netip.Addr // all nodes, or the host that solicited
	Msg *ndp.RouterAdvertisement
}

// allNodes is ff02::1.
func allNodes() netip.Addr { return netip.IPv6LinkLocalAllNodes() }

// NewEngine makes the engine of a LAN that nothing is advertised on yet. r is
// where jitter comes from.
func NewEngine(r *rand.Rand) *Engine {
	return &Engine{rand: r, pending: map[netip.Addr]time.Time{}, others: map[netip.Addr]OtherRouter{}, told: map[netip.Addr]time.Time{}}
}

// Configure takes over what is to be advertised. A change goes out at once, and
// twice more soon after (RFC 4861, 6.2.4).
func (e *Engine) Configure(now time.Time, l LAN) {
	old := e.lan
	sooner := e.limit(now, l.Limits)
	e.lan = l
	e.routes = nil
	for _, r := range l.Routes {
		end := time.Time{}
		if r.Until != 0 {
			end = now.Add(r.Until)
		}
		e.routes = append(e.routes, retired[netip.Prefix]{r.Prefix, end})
	}
	if e.started && same(old, l) && !sooner {
		return
	}
	if !e.started {
		e.oldPrefixes = retire(nil, l.Old, l.Prefixes, now.Add(l.Lifetime.Valid))
	} else {
		e.oldPrefixes = retire(e.oldPrefixes, old.Prefixes, l.Prefixes, now.Add(max(old.Lifetime.Valid, l.Lifetime.Valid)))
		e.oldRoutes = retire(e.oldRoutes, prefixes(old.Routes), prefixes(l.Routes), now.Add(routeLifetime))
		e.oldDNS = retire(e.oldDNS, old.DNS, l.DNS, now.Add(dnsLifetime))
		e.oldSearch = retire(e.oldSearch, old.Search, l.Search, now.Add(dnsLifetime))
	}
	e.started = true
	e.fast = initialCount
	e.next = later(now, e.last.Add(urgentBetween))
}

// limit takes over how long prefixes may be advertised, and tells whether one ends
// sooner than what was said of it: its hosts have to hear of that. A lease renewed
// needs no haste.
func (e *Engine) limit(now time.Time, ls []Limit) (sooner bool) {
	limits := map[netip.Prefix]limit{}
	for _, l := range ls {
		n := limit{now.Add(l.Preferred), now.Add(l.Valid)}
		limits[l.Prefix] = n
		// What the last advertisement said counts from then.
		old, known := e.limits[l.Prefix]
		sooner = sooner || known && (n.preferred.Before(earlier(old.preferred, e.last.Add(e.lan.Lifetime.Preferred)).Add(-time.Second)) ||
			n.valid.Before(earlier(old.valid, e.last.Add(e.lan.Lifetime.Valid)).Add(-time.Second)))
	}
	e.limits = limits
	return sooner
}

// lifetimes are those of a prefix that is advertised: ours, but never more than the
// ISP's lease has left (RFC 9096, 3.4).
func (e *Engine) lifetimes(now time.Time, p netip.Prefix) (preferred, valid time.Duration) {
	preferred, valid = e.lan.Lifetime.Preferred, e.lan.Lifetime.Valid
	if l, ok := e.limits[p]; ok {
		valid = max(0, min(valid, l.valid.Sub(now).Truncate(time.Second)))
		preferred = max(0, min(preferred, valid, l.preferred.Sub(now).Truncate(time.Second)))
	}
	return preferred, valid
}

// interval is how long hosts may wait for the next advertisement: what is short-lived
// has to be renewed on them before it ends.
func (e *Engine) interval(now time.Time) time.Duration {
	longest := maxInterval
	if r := e.lan.Lifetime.Router; r > 0 {
		longest = min(longest, r/3)
	}
	for _, p := range e.lan.Prefixes {
		if preferred, _ := e.lifetimes(now, p); preferred > 0 {
			longest = min(longest, preferred/3)
		}
	}
	return max(longest, initialInterval)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func same(a, b LAN) bool {
	return a.Router == b.Router && a.Link == b.Link && slices.Equal(a.Prefixes, b.Prefixes) &&
		slices.Equal(a.DNS, b.DNS) && slices.Equal(a.Search, b.Search) &&
		a.Lifetime == b.Lifetime && a.Managed == b.Managed && a.Other == b.Other &&
		slices.Equal(prefixes(a.Routes), prefixes(b.Routes)) && a.PREF64 == b.PREF64 && a.Portal == b.Portal
}

func prefixes(rs []Route) []netip.Prefix {
	out := make([]netip.Prefix, len(rs))
	for i, r := range rs {
		out[i] = r.Prefix
	}
	return out
}

// retire adds to old what was advertised and is no more, and takes from it what
// is advertised again.
func retire[T comparable](old []retired[T], before, now []T, until time.Time) []retired[T] {
	old = slices.DeleteFunc(old, func(r retired[T]) bool { return slices.Contains(now, r.what) })
	for _, v := range before {
		if !slices.Contains(now, v) {
			old = append(old, retired[T]{v, until})
		}
	}
	return old[max(0, len(old)-maxRetired):]
}

// Solicited books a host's solicitation. The answer goes to it alone, and not to
// all whose radios it would wake (RFC 7772); to all if it has no address yet, or
// if many ask at once.
func (e *Engine) Solicited(now time.Time, from netip.Addr) {
	if !e.started {
		return
	}
	at := now.Add(e.jitter(0, maxDelay))
	if _, ok := e.pending[from]; ok {
		return
	}
	if from.IsLinkLocalUnicast() && len(e.pending) < maxPending {
		e.pending[from] = at
		return
	}
	if from.IsLinkLocalUnicast() {
		clear(e.pending)
	}
	at = later(at, e.last.Add(minBetween))
	if at.Before(e.next) {
		e.next = at
	}
}

// Next is when Tick wants to be called; ok is false before Configure.
func (e *Engine) Next() (at time.Time, ok bool) {
	if !e.started {
		return time.Time{}, false
	}
	at = e.next
	for _, t := range e.pending {
		if t.Before(at) {
			at = t
		}
	}
	return at, true
}

// Tick returns what is to be sent now.
func (e *Engine) Tick(now time.Time) []Send {
	if !e.started {
		return nil
	}
	var out []Send
	if !now.Before(e.next) {
		e.last = now
		e.schedule(now)
		clear(e.pending) // answered along
		return []Send{{allNodes(), e.message(now, e.lan.Router)}}
	}
	for from, at := range e.pending {
		if !now.Before(at) {
			delete(e.pending, from)
			out = append(out, Send{from, e.message(now, e.lan.Router)})
		}
	}
	slices.SortFunc(out, func(a, b Send) int { return a.To.Compare(b.To) })
	return out
}

// schedule sets the time of the next advertisement to all.
func (e *Engine) schedule(now time.Time) {
	if e.fast > 0 {
		e.fast--
	}
	if e.fast > 0 {
		e.next = now.Add(e.jitter(minBetween, initialInterval))
		return
	}
	longest := e.interval(now)
	e.next = now.Add(e.jitter(longest/3, longest))
}

// NotSent says that an advertisement to all that Tick returned could not be
// sent. It is due again soon: that is how a LAN gets its first one as soon as
// its link is up.
func (e *Engine) NotSent(now time.Time) {
	e.next = now.Add(retry)
	e.fast = min(e.fast+1, initialCount)
}

// Last is when the last advertisement to all was due.
func (e *Engine) Last() time.Time { return e.last }

// Farewell is the advertisement that takes the gateway back (RFC 4861, 6.2.5):
// no router, no resolver. The prefix stays: hosts of the LAN still reach each
// other.
func (e *Engine) Farewell(now time.Time) Send {
	l := e.lan
	e.oldDNS = retire(e.oldDNS, l.DNS, nil, now.Add(dnsLifetime))
	e.oldSearch = retire(e.oldSearch, l.Search, nil, now.Add(dnsLifetime))
	e.lan.DNS, e.lan.Search = nil, nil
	return Send{allNodes(), e.message(now, false)}
}

// message is the advertisement as of now.
func (e *Engine) message(now time.Time, router bool) *ndp.RouterAdvertisement {
	ra := &ndp.RouterAdvertisement{CurrentHopLimit: hopLimit, ManagedConfiguration: e.lan.Managed, OtherConfiguration: e.lan.Other}
	if router {
		ra.RouterLifetime = e.lan.Lifetime.Router
	}
	if mac, err := net.ParseMAC(e.lan.Link.MAC); err == nil {
		ra.Options = append(ra.Options, &ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac})
	}
	if e.lan.Link.MTU >= 1280 {
		ra.Options = append(ra.Options, ndp.NewMTU(uint32(e.lan.Link.MTU)))
	}
	for _, p := range e.lan.Prefixes {
		preferred, valid := e.lifetimes(now, p)
		ra.Options = append(ra.Options, prefixOption(p, preferred, valid))
	}
	for _, r := range e.oldPrefixes {
		if now.Before(r.until) {
			// RFC 9096, 3.5 wants both at 0. A host makes two hours of the valid one, in
			// which its old connections may end (RFC 4862, 5.5.3).
			ra.Options = append(ra.Options, prefixOption(r.what, 0, 0))
		}
	}
	for _, r := range e.routes {
		life := routeLifetime
		if !r.until.IsZero() {
			life = max(0, min(life, r.until.Sub(now).Truncate(time.Second)))
		}
		ra.Options = append(ra.Options, routeOption(r.what, life))
	}
	for _, p := range current(e.oldRoutes, now) {
		ra.Options = append(ra.Options, routeOption(p, 0))
	}
	if len(e.lan.DNS) > 0 {
		ra.Options = append(ra.Options, &ndp.RecursiveDNSServer{Lifetime: dnsLifetime, Servers: e.lan.DNS})
	}
	if old := current(e.oldDNS, now); len(old) > 0 {
		ra.Options = append(ra.Options, &ndp.RecursiveDNSServer{Servers: old})
	}
	if len(e.lan.Search) > 0 {
		ra.Options = append(ra.Options, &ndp.DNSSearchList{Lifetime: dnsLifetime, DomainNames: e.lan.Search})
	}
	if old := current(e.oldSearch, now); len(old) > 0 {
		ra.Options = append(ra.Options, &ndp.DNSSearchList{DomainNames: old})
	}
	if p := e.lan.PREF64; p.IsValid() {
		ra.Options = append(ra.Options, &ndp.PREF64{Lifetime: dnsLifetime, Prefix: p})
	}
	if e.lan.Portal != "" {
		ra.Options = append(ra.Options, &ndp.CaptivePortal{URI: e.lan.Portal})
	}
	return ra
}

func routeOption(p netip.Prefix, life time.Duration) ndp.Option {
	return &ndp.RouteInformation{Prefix: p.Masked().Addr(), PrefixLength: uint8(p.Bits()), RouteLifetime: life}
}

func prefixOption(p netip.Prefix, preferred, valid time.Duration) ndp.Option {
	return &ndp.PrefixInformation{
		Prefix: p.Masked().Addr(), PrefixLength: uint8(p.Bits()),
		OnLink: true, AutonomousAddressConfiguration: p.Bits() == 64,
		PreferredLifetime: preferred, ValidLifetime: valid,
	}
}

// current returns what of old hosts may still remember.
func current[T comparable](old []retired[T], now time.Time) (what []T) {
	for _, r := range old {
		if now.Before(r.until) {
			what = append(what, r.what)
		}
	}
	return what
}

func (e *Engine) jitter(from, to time.Duration) time.Duration {
	return from + time.Duration(e.rand.Int64N(int64(to-from)))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
