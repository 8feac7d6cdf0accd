package state

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Forever is a lifetime without end (RFC 8415, 7.7).
const Forever = 0xffffffff * time.Second

// Lease6 is what the DHCPv6 server of a WAN leased, as the client reports it:
// prefixes for the LANs (IA_PD), addresses of the WAN itself (IA_NA), or both.
type Lease6 struct {
	Prefix []Leased6
	Addr   []Leased6 // each a /128

	Server   netip.Addr // link-local address that the answer came from
	ServerID string     // its DUID, in hex
	DNS      []netip.Addr
	Domain   []string

	Obtained time.Time     // wall clock; the lifetimes and T1, T2 count from then
	Boot     string        // Clock.Boot at the time of Obtained
	Up       time.Duration // Clock.Up at the time of Obtained
	T1, T2   time.Duration // Forever: never
	Note     string        // one line for status: what was odd about it
}

// Leased6 is one prefix or address of a Lease6.
type Leased6 struct {
	Prefix           netip.Prefix
	Preferred, Valid time.Duration // after Obtained; Forever is without end
}

// Age is how long ago a lease was got; never negative. known is false where nothing
// says so, as with Lease4.Age: then it may not be used before its server was asked.
func (l Lease6) Age(c Clock) (age time.Duration, known bool) {
	return c.since(l.Obtained, l.Boot, l.Up)
}

// After is what is left of a lease at an age; nil if nothing is. Those that may
// still be used for something new come first, in the server's order.
func After(what []Leased6, age time.Duration) []Leased6 {
	var out []Leased6
	for _, p := range what {
		if p.Valid > age || p.Valid == Forever {
			out = append(out, p)
		}
	}
	old := func(p Leased6) int {
		if p.Preferred > age {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Leased6) int { return cmp.Compare(old(a), old(b)) })
	return out
}
