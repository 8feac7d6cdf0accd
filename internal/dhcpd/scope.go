package dhcpd

import (
	"fmt"
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
	seen  time.Time // of a lease without end: when ARP last showed its holder
}

func (b *binding) active(now time.Time) bool {
	return b != nil && b.lease.Duration > 0 && now.Before(b.until)
}

// offer is an address that a client was told it could have.
type offer struct {
	client string
	until  time.Time
}

// scope is a LAN with its addresses, those behind its relays too. The maps are
// keyed by address, and so bounded by what the LAN has, and by maxLeases.
type scope struct {
	lan    LAN
	mac    ether.MAC
	served bool
	nets   []*subnet // the LAN's own first

	bindings   map[netip.Addr]*binding
	offers     map[netip.Addr]offer
	quarantine map[netip.Addr]time.Time // until when
	byClient   map[string]netip.Addr    // the address that a client had last
	bootp      map[netip.Addr]*binding  // those of the bindings that are without end

	hosts    map[ether.MAC]*Host
	byID     map[string]*Host // by client identifier in hex
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
		bootp:      map[netip.Addr]*binding{},
	}
}

// configure takes a LAN's configuration; leases stay.
func (s *scope) configure(l LAN) error {
	fail := func(err error) error { return fmt.Errorf("serve DHCP on LAN %s: %w", l.Name, err) }
	mac, err := ether.ParseMAC(l.MAC)
	if err != nil {
		return fail(fmt.Errorf("its link %s: %w", l.Link, err))
	}
	if !l.Address.Addr().Is4() || l.Lease <= 0 {
		return fail(fmt.Errorf("address %s and leases of %v", l.Address, l.Lease))
	}
	hosts, byID, reserved := map[ether.MAC]*Host{}, map[string]*Host{}, map[netip.Addr]*Host{}
	for i := range l.Hosts {
		h := &l.Hosts[i]
		for _, m := range h.MAC {
			mac, err := ether.ParseMAC(m)
			if err != nil {
				return fail(fmt.Errorf("host %s: %w", h.Name, err))
			}
			hosts[mac] = h
		}
		for _, id := range h.ClientID {
			byID[id] = h
		}
		if h.Addr.IsValid() {
			reserved[h.Addr] = h
		}
	}
	var nets []*subnet
	for _, n := range append([]Subnet{{Prefix: l.Address, Pool: l.Pool, Router: l.Router}}, l.Subnets...) {
		n, err := newSubnet(n)
		if err != nil {
			return fail(err)
		}
		nets = append(nets, n)
	}
	s.lan, s.mac, s.hosts, s.byID, s.reserved, s.nets, s.served = l, mac, hosts, byID, reserved, nets, true
	return nil
}

// host is the file's host that a client is: by its MAC, else by its identifier.
func (s *scope) host(c client) *Host {
	if h := s.hosts[c.mac]; h != nil {
		return h
	}
	return s.byID[c.id]
}

// free says whether nobody but client has a, is about to have it, or uses it.
func (s *scope) free(now time.Time, a netip.Addr, client string) bool {
	return s.unheld(now, a, client) && !now.Before(s.quarantine[a])
}

// unheld says whether nobody but client has a, or is about to.
func (s *scope) unheld(now time.Time, a netip.Addr, client string) bool {
	if b := s.bindings[a]; b.active(now) && b.lease.Client != client {
		return false
	}
	o, ok := s.offers[a]
	return !ok || o.client == client || !now.Before(o.until)
}

// own is the address that the file reserves for a device, if it can have it now
// and here: not while another of the host's cards has it, or somebody from
// before it was reserved.
func (s *scope) own(now time.Time, c client) (netip.Addr, bool) {
	h := s.host(c)
	if h == nil || !h.Addr.IsValid() || !c.net.Prefix.Contains(h.Addr) {
		return netip.Addr{}, false
	}
	if b := s.bindings[h.Addr]; b.active(now) && b.lease.MAC == c.hw {
		return h.Addr, true // the same card under another client identifier
	}
	return h.Addr, s.free(now, h.Addr, c.id)
}

// mayHave says whether a client that asks for an address, or uses it, may have
// it. why says why not.
func (s *scope) mayHave(now time.Time, c client, a netip.Addr) (why string) {
	own, ok := s.own(now, c)
	if ok && a != own {
		return fmt.Sprintf("host %s has the address %s", s.host(c).Name, own)
	} else if ok {
		return ""
	}
	h := s.reserved[a]
	switch {
	case h != nil && h == s.host(c):
		return "it is the host's own, and another card or somebody of before has it"
	case h != nil:
		return "it is reserved for host " + h.Name
	case !c.net.Prefix.Contains(a):
		return "it is of another network"
	case !s.inPool(c.net, a):
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
		return own, b != nil && b.lease.MAC == c.hw, true
	}
	if a, ok := s.byClient[c.id]; ok && s.inPool(c.net, a) && s.free(now, a, c.id) {
		return a, true, true
	}
	if wants.IsValid() && s.inPool(c.net, wants) && s.free(now, wants, c.id) && !s.bindings[wants].active(now) && s.room(wants) {
		return wants, false, true
	}
	// The same device under another name (another system on it), whose lease ended.
	if a, ok := s.byClient[c.hw]; ok && s.inPool(c.net, a) && s.free(now, a, c.id) && !s.bindings[a].active(now) {
		return a, false, true
	}
	a, ok = s.pick(now, c)
	return a, false, ok
}

// load takes a stored lease.
func (s *scope) load(now time.Time, l state.Lease, left time.Duration) {
	s.bind(&binding{lease: l, until: now.Add(left), kept: true})
	s.remember(l)
}

// bind gives an address, in the place of what it was before.
func (s *scope) bind(b *binding) {
	s.bindings[b.lease.Addr] = b
	delete(s.bootp, b.lease.Addr)
	if b.endless() {
		s.bootp[b.lease.Addr] = b
	}
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
	for _, n := range s.nets {
		st.Pool += n.size
		for a := range s.reserved {
			if n.holds(a) {
				st.Pool--
			}
		}
		if n.holds(s.lan.Address.Addr()) {
			st.Pool--
		}
	}
	for a, b := range s.bindings {
		if b.active(now) && slices.ContainsFunc(s.nets, func(n *subnet) bool { return s.inPool(n, a) }) {
			st.Leased++
		}
	}
	for _, until := range s.quarantine {
		if now.Before(until) {
			st.Quarantined++
		}
	}
	return st
}
