package dhcpd6

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/internal/state"
)

// thing is what is leased: a lower half of addresses, or a part of prefixes.
type thing struct {
	id   uint64
	part uint32 // from 1; 0: it is an id
}

// binding is a lease and when it ends.
type binding struct {
	lease state.Lease
	until time.Time
	kept  bool // on disk
}

// active says whether somebody has the lease; a nil one nobody has.
func (b *binding) active(now time.Time) bool {
	return b != nil && b.lease.Duration > 0 && now.Before(b.until)
}

// client is who asks, for one of its identity associations.
type client struct {
	duid, mac string
	iaid      uint32
	pd        bool
}

// key tells identity associations apart (RFC 8415, 4.2).
func (c client) key() string {
	kind := "na"
	if c.pd {
		kind = "pd"
	}
	return fmt.Sprintf("%s/%08x/%s", c.duid, c.iaid, kind)
}

// has says whether a lease is this client's.
func (c client) has(b *binding) bool {
	return b != nil && b.lease.Client == c.duid && b.lease.IAID == c.iaid && (b.lease.Part > 0) == c.pd
}

// scope is what is leased on a LAN. All of it is bounded by what there is to lease,
// and by maxLeases.
type scope struct {
	lan    LAN
	served bool

	bindings map[thing]*binding   // the ended ones too
	byClient map[string]thing     // what a client has or had last, by key
	taken    map[uint64]time.Time // ids that somebody uses without a lease, until then
	inForce  map[uint32]bool      // parts that are leased
	all      map[string]*scope    // every LAN's

	afar netip.Addr // the last network behind a relay that was told of

	byMAC, byDUID map[string]*Host
	reserved      map[uint64]*Host
	addrs, parts  store
}

func newScope(lan string, all map[string]*scope) *scope {
	return &scope{lan: LAN{Name: lan}, all: all, bindings: map[thing]*binding{}, byClient: map[string]thing{}, taken: map[uint64]time.Time{}, inForce: map[uint32]bool{}}
}

// configure takes what a LAN is to be. Leases stay, also those that it no longer
// allows: their clients hear that when they renew.
func (s *scope) configure(l LAN) error {
	s.byMAC, s.byDUID, s.reserved = map[string]*Host{}, map[string]*Host{}, map[uint64]*Host{}
	for i := range l.Hosts {
		h := &l.Hosts[i]
		for _, m := range h.MAC {
			s.byMAC[m] = h
		}
		for _, d := range h.DUID {
			s.byDUID[d] = h
		}
		if h.ID != 0 {
			s.reserved[h.ID] = h
		}
	}
	var errs []error
	s.addrs, s.parts = store{}, store{}
	for _, r := range l.Pool {
		p := pool{from: half(r.From), to: half(r.To)}
		if !isHalf(r.From) {
			p.only = netip.PrefixFrom(r.From, 64).Masked()
		}
		if !r.From.Is6() || !r.To.Is6() || p.to < p.from || !isHalf(r.From) && !p.only.Contains(r.To) {
			errs = append(errs, fmt.Errorf("LAN %s: %s-%s is no pool of a /64", l.Name, r.From, r.To))
			continue
		}
		s.addrs.pools = append(s.addrs.pools, p)
	}
	if l.Delegate > 0 {
		most := uint64(0)
		for _, n := range l.Sources {
			if bits := l.Delegate - n.Prefix.Bits(); bits >= 0 {
				most = max(most, uint64(1)<<min(bits, 16))
			}
		}
		if most > 0 {
			s.parts.pools = []pool{{from: 1, to: most}}
		}
	}
	s.lan, s.served = l, true
	return errors.Join(errs...)
}

// stateful says whether anything is leased there.
func (l LAN) stateful() bool { return l.Managed || l.Delegate > 0 }

func half(a netip.Addr) uint64 {
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}

func isHalf(a netip.Addr) bool {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]) == 0
}

// address is the one with a lower half in a /64.
func address(n netip.Prefix, id uint64) netip.Addr {
	b := n.Addr().As16()
	binary.BigEndian.PutUint64(b[8:], id)
	return netip.AddrFrom16(b)
}

// host is the file's host that a client is: by its MAC, else by its DUID.
func (s *scope) host(c client) *Host {
	if h := s.byMAC[c.mac]; h != nil && c.mac != "" {
		return h
	}
	return s.byDUID[c.duid]
}

// own is what the file reserves for a client, if it can have it now: not while
// another of the host's cards has it, or somebody from before it was reserved.
func (s *scope) own(now time.Time, c client) (thing, bool) {
	h := s.host(c)
	if c.pd || h == nil || h.ID == 0 || !s.lan.Managed {
		return thing{}, false
	}
	t := thing{id: h.ID}
	b := s.bindings[t]
	if b.active(now) && b.lease.MAC == c.mac && c.mac != "" && b.lease.Client != c.duid {
		return t, true // the same card under another DUID: another system on it
	}
	return t, s.free(now, t, c)
}

// free says whether nobody but client has a thing, or uses it.
func (s *scope) free(now time.Time, t thing, c client) bool {
	b := s.bindings[t]
	return (!b.active(now) || c.has(b)) && (t.part > 0 || !now.Before(s.taken[t.id]))
}

// offered says whether a thing may be leased to whoever asks.
func (s *scope) offered(t thing) bool {
	if t.part > 0 {
		return slices.ContainsFunc(s.lan.Sources, func(n Network) bool {
			p := state.PartOf(n.Prefix, s.lan.Delegate, t.part, s.lan.Reserved)
			return p.IsValid() && !s.elsewhere(n.Prefix, p)
		})
	}
	return s.lan.Managed && t.id != 0 && s.reserved[t.id] == nil && !slices.ContainsFunc(s.lan.Reserved, func(p netip.Prefix) bool {
		return p.IsSingleIP() && half(p.Addr()) == t.id
	}) && slices.ContainsFunc(s.lan.Networks, func(n Network) bool { return s.inPool(n.Prefix, t.id) })
}

// elsewhere says whether something of a part is leased on another LAN.
func (s *scope) elsewhere(source, part netip.Prefix) bool {
	for _, o := range s.all {
		if o == s || !o.served {
			continue
		}
		for n := range o.inForce {
			if p := state.PartOf(source, o.lan.Delegate, n, nil); p.IsValid() && p.Overlaps(part) {
				return true
			}
		}
	}
	return false
}

func (s *scope) inPool(n netip.Prefix, id uint64) bool {
	return slices.ContainsFunc(s.addrs.pools, func(p pool) bool { return p.from <= id && id <= p.to && (!p.only.IsValid() || p.only == n) })
}

// holder is the lease that an identity association has now; nil: none.
func (s *scope) holder(now time.Time, c client) *binding {
	if t, ok := s.byClient[c.key()]; ok {
		if b := s.bindings[t]; b.active(now) && c.has(b) {
			return b
		}
	}
	return nil
}

// choose finds what a client is to have; wants is what it would like.
func (s *scope) choose(now time.Time, c client, wants []thing) (thing, bool) {
	if t, ok := s.own(now, c); ok {
		return t, true
	}
	if t, ok := s.byClient[c.key()]; ok && s.offered(t) && s.free(now, t, c) {
		return t, true
	}
	for _, t := range wants {
		if s.offered(t) && s.free(now, t, c) && (s.bindings[t] != nil || s.room(c.pd)) {
			return t, true
		}
	}
	st := &s.addrs
	if c.pd {
		st = &s.parts
	}
	return st.pick(now, s, c)
}

// room says whether one more lease can be kept in mind.
func (s *scope) room(pd bool) bool {
	return len(s.bindings) < maxLeases && (!pd || len(s.inForce) < maxParts)
}

// load takes a stored lease.
func (s *scope) load(now time.Time, l state.Lease, left time.Duration) {
	t := thing{part: l.Part}
	if l.Part == 0 {
		t.id = half(l.Addr)
	}
	s.bind(t, &binding{lease: l, until: now.Add(left), kept: true})
}

// bind leases a thing, in the place of what it was before.
func (s *scope) bind(t thing, b *binding) {
	if old := s.bindings[t]; old != nil {
		if k := keyOf(old.lease); s.byClient[k] == t {
			delete(s.byClient, k)
		}
	}
	s.bindings[t] = b
	if t.part > 0 && b.lease.Duration > 0 {
		s.inForce[t.part] = true
	}
	k := keyOf(b.lease)
	if had := s.bindings[s.byClient[k]]; had == nil || keyOf(had.lease) != k || !had.lease.Granted.After(b.lease.Granted) {
		s.byClient[k] = t
	}
}

func keyOf(l state.Lease) string {
	return client{duid: l.Client, iaid: l.IAID, pd: l.Part > 0}.key()
}

// things are what a client names in a message: lower halves of its addresses, parts
// of its prefixes. Each once.
func (s *scope) things(a ia) (out []thing) {
	for _, x := range a.addrs {
		if t := (thing{id: half(x)}); x.Is6() && s.onLink(x) && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	for _, p := range a.nets {
		for _, n := range s.lan.Sources {
			if t := (thing{part: partIn(n.Prefix, p)}); t.part > 0 && p.Bits() == s.lan.Delegate && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// partIn is which part of a prefix p is; 0: none.
func partIn(of, p netip.Prefix) uint32 {
	width := p.Bits() - of.Bits()
	if width < 0 || width > 31 || p.Bits() > 64 || !of.Contains(p.Addr()) {
		return 0
	}
	b := p.Addr().As16()
	n := binary.BigEndian.Uint64(b[:8]) >> (64 - p.Bits()) & (1<<width - 1)
	return uint32(1<<width - n)
}

// onLink says whether an address is in a network of the LAN.
func (s *scope) onLink(a netip.Addr) bool {
	return slices.ContainsFunc(s.lan.Networks, func(n Network) bool { return n.Prefix.Contains(a) })
}

// duidText writes a DUID as people do, for logs.
func duidText(h string) string {
	if _, err := hex.DecodeString(h); err != nil {
		return h
	}
	var w strings.Builder
	for i := 0; i+2 <= len(h); i += 2 {
		if i > 0 {
			w.WriteByte(':')
		}
		w.WriteString(h[i : i+2])
	}
	return w.String()
}
