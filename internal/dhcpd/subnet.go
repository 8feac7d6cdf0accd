package dhcpd

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Bounds of the search for an address. A pool may have millions of them, and a
// flood asks thousands of times a second: one client's search is short, and the
// long look is shared.
const (
	maxLeases = 1 << 16     // of a LAN, those that ended included: what is kept of each takes some 400 bytes
	nearTries = 32          // addresses tried for a client by itself
	maxSpare  = 1024        // addresses that a look finds
	lookEvery = time.Second // at most
)

// subnet is a network with addresses for clients.
type subnet struct {
	Subnet
	size int // of the pool

	// What the last look found, to be tried in order; since when no other is due.
	spare  []netip.Addr
	looked time.Time
}

func newSubnet(n Subnet) (*subnet, error) {
	size := 0
	for _, r := range n.Pool {
		if !r.From.Is4() || !r.To.Is4() || r.To.Less(r.From) {
			return nil, fmt.Errorf("pool %s-%s", r.From, r.To)
		}
		size += int(number(r.To)-number(r.From)) + 1
	}
	if !n.Prefix.Addr().Is4() {
		return nil, fmt.Errorf("network %s", n.Prefix)
	}
	return &subnet{Subnet: n, size: size}, nil
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// nth is the nth address of the pool.
func (n *subnet) nth(i int) netip.Addr {
	for _, r := range n.Pool {
		if size := int(number(r.To)-number(r.From)) + 1; i >= size {
			i -= size
			continue
		}
		return address(number(r.From) + uint32(i))
	}
	return netip.Addr{}
}

// holds says whether an address is in the pool as the file has it.
func (n *subnet) holds(a netip.Addr) bool {
	return n.Prefix.Contains(a) && slices.ContainsFunc(n.Pool, func(r Range) bool { return !a.Less(r.From) && !r.To.Less(a) })
}

// inPool says whether a may be leased to whoever asks.
func (s *scope) inPool(n *subnet, a netip.Addr) bool {
	return n.holds(a) && a != s.lan.Address.Addr() && s.reserved[a] == nil
}

// room says whether a lease of a can be kept in mind.
func (s *scope) room(a netip.Addr) bool { return s.bindings[a] != nil || len(s.bindings) < maxLeases }

// netOf is the network that a message's sender is in; nil if it is none of ours.
// A relay says it (RFC 3527, then giaddr); a client behind one renews past it, by
// unicast (RFC 2131, 4.3.2).
func (s *scope) netOf(p *dhcpv4.DHCPv4, unicast bool) *subnet {
	find := func(a netip.Addr) *subnet {
		if i := slices.IndexFunc(s.nets, func(n *subnet) bool { return n.Prefix.Contains(a) }); i >= 0 {
			return s.nets[i]
		}
		return nil
	}
	if g := addrOf(p.GatewayIPAddr); !g.IsUnspecified() {
		if link := relayed(p, linkSelection); link.IsValid() {
			return find(link)
		}
		return find(g)
	}
	if u := addrOf(p.ClientIPAddr); unicast && !u.IsUnspecified() {
		if n := find(u); n != nil {
			return n
		}
	}
	return s.nets[0]
}

// Suboptions of option 82.
const (
	linkSelection    = 5  // RFC 3527
	serverIDOverride = 11 // RFC 5107
)

// relayed is the address in a suboption of what a relay added (RFC 3046);
// invalid if there is none, or no relay.
func relayed(p *dhcpv4.DHCPv4, sub uint8) netip.Addr {
	b := p.Options.Get(dhcpv4.OptionRelayAgentInformation)
	if addrOf(p.GatewayIPAddr).IsUnspecified() {
		return netip.Addr{}
	}
	for len(b) >= 2 && len(b) >= 2+int(b[1]) {
		code, v := b[0], b[2:2+int(b[1])]
		if code == sub && len(v) == 4 {
			return netip.AddrFrom4([4]byte(v))
		}
		b = b[2+len(v):]
	}
	return netip.Addr{}
}

// pick takes an address that nobody ever had, near one that is always the same
// for the client; else one that a look finds.
func (s *scope) pick(now time.Time, c client) (netip.Addr, bool) {
	n := c.net
	if n.size == 0 {
		return netip.Addr{}, false
	}
	h := fnv.New32a()
	h.Write([]byte(c.id))
	start := int(h.Sum32() % uint32(n.size))
	for i := range min(nearTries, n.size) {
		a := n.nth((start + i) % n.size)
		if s.bindings[a] == nil && s.room(a) && s.inPool(n, a) && s.free(now, a, c.id) {
			return a, true
		}
	}
	for {
		for len(n.spare) > 0 {
			a := n.spare[0]
			n.spare = n.spare[1:]
			if s.room(a) && s.inPool(n, a) && s.unheld(now, a, c.id) && !s.bindings[a].active(now) {
				return a, true
			}
		}
		if now.Sub(n.looked) < lookEvery {
			return netip.Addr{}, false
		}
		n.looked = now
		if n.spare = s.look(now, n, start); len(n.spare) == 0 {
			return netip.Addr{}, false
		}
	}
}

// look finds addresses that can be had: first those that nobody ever had, then
// those whose lease ended, the longest ago first. Rather one that seemed in use
// some minutes ago than none: it is checked again.
func (s *scope) look(now time.Time, n *subnet, start int) []netip.Addr {
	var fresh, ended, doubtful []netip.Addr
	steps := min(n.size, len(s.bindings)+len(s.offers)+len(s.quarantine)+len(s.reserved)+1+maxSpare)
	for i := range steps {
		a := n.nth((start + i) % n.size)
		if s.bindings[a] == nil && s.inPool(n, a) && s.free(now, a, "") {
			if fresh = append(fresh, a); len(fresh) == maxSpare {
				break
			}
		}
	}
	for a, b := range s.bindings {
		if !b.active(now) && s.inPool(n, a) && s.free(now, a, "") {
			ended = append(ended, a)
		}
	}
	slices.SortFunc(ended, func(a, b netip.Addr) int { return s.bindings[a].until.Compare(s.bindings[b].until) })
	if len(fresh)+len(ended) == 0 {
		for a, until := range s.quarantine {
			if until.Sub(now) < quarantineFor-time.Minute && s.inPool(n, a) && s.unheld(now, a, "") && !s.bindings[a].active(now) {
				doubtful = append(doubtful, a)
			}
		}
		slices.SortFunc(doubtful, func(a, b netip.Addr) int { return s.quarantine[a].Compare(s.quarantine[b]) })
	}
	found := slices.Concat(fresh, ended, doubtful)
	return slices.Clone(found[:min(len(found), maxSpare)])
}
