package dhcpd

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"weir/internal/ether"
	"weir/internal/state"
)

// Times of the server.
const (
	offerFor      = 20 * time.Second // how long an offered address is nobody else's
	quarantineFor = 10 * time.Minute // an address that somebody uses without a lease
	shortest      = 2 * time.Minute  // of what a client may ask for

	// Conflict check: two ARP requests. A host on the link answers in a few ms.
	probeTries = 2
	probeGap   = 80 * time.Millisecond
)

// binding is who has an address, or had it last.
type binding struct {
	lease state.Lease
	until time.Time // of the lease; meaningless if it ended
	kept  bool      // is on disk as it is
}

func (b *binding) active(now time.Time) bool {
	return b != nil && b.lease.Duration > 0 && now.Before(b.until)
}

// offer is an address that a client was told it could have.
type offer struct {
	client string
	until  time.Time
}

// scope is a LAN with its addresses. The maps are keyed by address, and so
// bounded by what the LAN has.
type scope struct {
	lan    LAN
	mac    ether.MAC
	served bool
	size   int // of the pool

	bindings   map[netip.Addr]*binding
	offers     map[netip.Addr]offer
	quarantine map[netip.Addr]time.Time // until when
	byClient   map[string]netip.Addr    // the address that a client had last

	hosts    map[ether.MAC]*Host
	reserved map[netip.Addr]*Host

	note string
}

func newScope(name string) *scope {
	return &scope{
		lan:        LAN{Name: name},
		bindings:   map[netip.Addr]*binding{},
		offers:     map[netip.Addr]offer{},
		quarantine: map[netip.Addr]time.Time{},
		byClient:   map[string]netip.Addr{},
	}
}

// configure takes a LAN's configuration; leases stay.
func (s *scope) configure(l LAN) error {
	mac, err := ether.ParseMAC(l.MAC)
	if err != nil {
		return fmt.Errorf("serve DHCP on LAN %s: its link %s: %w", l.Name, l.Link, err)
	}
	if !l.Address.Addr().Is4() || l.Lease <= 0 {
		return fmt.Errorf("serve DHCP on LAN %s: address %s and leases of %v", l.Name, l.Address, l.Lease)
	}
	hosts, reserved := map[ether.MAC]*Host{}, map[netip.Addr]*Host{}
	for i := range l.Hosts {
		h := &l.Hosts[i]
		for _, m := range h.MAC {
			mac, err := ether.ParseMAC(m)
			if err != nil {
				return fmt.Errorf("serve DHCP on LAN %s: host %s: %w", l.Name, h.Name, err)
			}
			hosts[mac] = h
		}
		if h.Addr.IsValid() {
			reserved[h.Addr] = h
		}
	}
	size := 0
	for _, r := range l.Pool {
		if !r.From.Is4() || !r.To.Is4() || r.To.Less(r.From) {
			return fmt.Errorf("serve DHCP on LAN %s: pool %s-%s", l.Name, r.From, r.To)
		}
		size += int(number(r.To)-number(r.From)) + 1
	}
	s.lan, s.mac, s.hosts, s.reserved, s.size, s.served = l, mac, hosts, reserved, size, true
	return nil
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// inPool says whether a may be leased to whoever asks.
func (s *scope) inPool(a netip.Addr) bool {
	if a == s.lan.Address.Addr() || s.reserved[a] != nil || !s.lan.Address.Contains(a) {
		return false
	}
	return slices.ContainsFunc(s.lan.Pool, func(r Range) bool { return !a.Less(r.From) && !r.To.Less(a) })
}

// free says whether nobody but client has a, is about to have it, or uses it.
func (s *scope) free(now time.Time, a netip.Addr, client string) bool {
	if b := s.bindings[a]; b.active(now) && b.lease.Client != client {
		return false
	}
	if o, ok := s.offers[a]; ok && o.client != client && now.Before(o.until) {
		return false
	}
	until, ok := s.quarantine[a]
	return !ok || !now.Before(until)
}

// own is the address that the file reserves for a device, if it can have it now:
// not while another of the host's cards has it, or somebody from before it was
// reserved.
func (s *scope) own(now time.Time, c client) (netip.Addr, bool) {
	h := s.hosts[c.mac]
	if h == nil || !h.Addr.IsValid() {
		return netip.Addr{}, false
	}
	if b := s.bindings[h.Addr]; b.active(now) && b.lease.MAC == c.mac.String() {
		return h.Addr, true // the same card under another client identifier
	}
	return h.Addr, s.free(now, h.Addr, c.id)
}

// mayHave says whether a client that asks for an address, or uses it, may have
// it. why says why not.
func (s *scope) mayHave(now time.Time, c client, a netip.Addr) (why string) {
	if own, ok := s.own(now, c); ok && a != own {
		return fmt.Sprintf("host %s has the address %s", s.hosts[c.mac].Name, own)
	} else if ok {
		return ""
	}
	h := s.reserved[a]
	switch {
	case h != nil && h == s.hosts[c.mac]:
		return "it is the host's own, and another card or somebody of before has it"
	case h != nil:
		return "it is reserved for host " + h.Name
	case !s.lan.Address.Contains(a):
		return "it is of another network"
	case !s.inPool(a):
		return "it is not in the pool"
	case !s.free(now, a, c.id):
		return "somebody else has it"
	}
	return ""
}

// choose finds an address for a client that wants one, perhaps a particular one.
// known says that it needs no conflict check: the client has or had it.
func (s *scope) choose(now time.Time, c client, wants netip.Addr) (a netip.Addr, known, ok bool) {
	if own, ok := s.own(now, c); ok {
		b := s.bindings[own]
		return own, b != nil && b.lease.MAC == c.mac.String(), true
	}
	if a, ok := s.byClient[c.id]; ok && s.inPool(a) && s.free(now, a, c.id) {
		return a, true, true
	}
	if wants.IsValid() && s.inPool(wants) && s.free(now, wants, c.id) && !s.bindings[wants].active(now) {
		return wants, false, true
	}
	// The same device under another name (another system on it), whose lease ended.
	if a, ok := s.byClient[c.mac.String()]; ok && s.inPool(a) && s.free(now, a, c.id) && !s.bindings[a].active(now) {
		return a, false, true
	}
	return s.pick(now, c.id)
}

// pick takes an address that nobody ever had, starting at one that is always the
// same for the client; else the one whose lease ended first.
func (s *scope) pick(now time.Time, id string) (a netip.Addr, known, ok bool) {
	h := fnv.New32a()
	h.Write([]byte(id))
	start := 0
	if s.size > 0 {
		start = int(h.Sum32() % uint32(s.size))
	}
	var oldest *binding
	for n := range s.size {
		a := s.nth((start + n) % s.size)
		if !s.inPool(a) || !s.free(now, a, id) {
			continue
		}
		b := s.bindings[a]
		if b == nil {
			return a, false, true
		}
		if !b.active(now) && (oldest == nil || cmp.Compare(b.until.UnixNano(), oldest.until.UnixNano()) < 0) {
			oldest = b
		}
	}
	if oldest != nil {
		return oldest.lease.Addr, false, true
	}
	// Rather an address that seemed in use some minutes ago than none: it is
	// checked again.
	var soonest netip.Addr
	for a, until := range s.quarantine {
		if s.inPool(a) && !s.bindings[a].active(now) && (!soonest.IsValid() || until.Before(s.quarantine[soonest])) {
			if o, ok := s.offers[a]; !ok || !now.Before(o.until) {
				soonest = a
			}
		}
	}
	return soonest, false, soonest.IsValid() && s.quarantine[soonest].Sub(now) < quarantineFor-time.Minute
}

// nth is the nth address of the pool.
func (s *scope) nth(n int) netip.Addr {
	for _, r := range s.lan.Pool {
		if size := int(number(r.To)-number(r.From)) + 1; n >= size {
			n -= size
			continue
		}
		return address(number(r.From) + uint32(n))
	}
	return netip.Addr{}
}

// load takes a stored lease.
func (s *scope) load(now time.Time, l state.Lease, left time.Duration) {
	s.bindings[l.Addr] = &binding{lease: l, until: now.Add(left), kept: true}
	s.remember(l)
}

// remember notes which address a client had last.
func (s *scope) remember(l state.Lease) {
	for _, id := range []string{l.Client, l.MAC} {
		if old := s.bindings[s.byClient[id]]; old == nil || !old.lease.Granted.After(l.Granted) || id == l.Client && old.lease.Duration == 0 {
			s.byClient[id] = l.Addr
		}
	}
}

// forget drops what other clients remember of an address that is now another's.
func (s *scope) forget(l state.Lease) {
	for _, id := range []string{l.Client, l.MAC} {
		if s.byClient[id] == l.Addr {
			delete(s.byClient, id)
		}
	}
}

// status counts the addresses.
func (s *scope) status(now time.Time) Status {
	st := Status{LAN: s.lan.Name, Note: s.note}
	for n := range s.size {
		if a := s.nth(n); s.inPool(a) {
			st.Pool++
			if s.bindings[a].active(now) {
				st.Leased++
			}
		}
	}
	for _, until := range s.quarantine {
		if now.Before(until) {
			st.Quarantined++
		}
	}
	return st
}
