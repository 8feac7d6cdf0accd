// Package ra advertises the gateway to the IPv6 hosts of the LANs (RFC 4861):
// itself as their router while a line carries IPv6, their prefixes, and the
// resolver (RFC 8106).
//
//	solicitation, time, configuration -> Engine (pure, one per LAN) -> advertisements
//
// What a host believes outlives who said it, so the package is careful with
// endings: a worker that ends, however it does, says nothing, and hosts go on
// with what they have; the gateway is taken back (router lifetime 0) only when no
// line carries IPv6 any more, when the LAN goes, and by Farewell. What was
// advertised once and is no more is taken back in so many words (RFC 9096).
package ra

import (
	"net/netip"
	"time"
)

// Config is all that the worker needs to know. It is sent whole at the start
// and again whenever something of it changed.
type Config struct {
	LANs []LAN

	// Farewell takes the gateway back from every LAN: one advertisement with
	// lifetime 0 goes out on each, and a Report says when they have. For `weir
	// down` only; a restart or an upgrade says nothing.
	Farewell bool
}

// LAN is a link to advertise on. One that is in a Config no more is taken
// leave of.
type LAN struct {
	Name string
	Link Link // as Open returned it

	// Passed says that the socket comes with this message. Files are in the
	// order of the LANs that have it set.
	Passed bool

	Router   bool           // some line that is up carries IPv6
	Prefixes []netip.Prefix // /64s, for SLAAC
	Limits   []Limit        // of those of them that are leased from an ISP
	Lifetime Lifetime

	// Managed and Other say that addresses, and the rest, are had by DHCPv6 (RFC
	// 4861, 4.2, M and O).
	Managed, Other bool

	// Routes are the house's networks, which the gateway leads to whether or not a
	// line carries IPv6 (RFC 4191; RFC 7084, L-3).
	Routes []Route

	PREF64 netip.Prefix // of a NAT64 of the house (RFC 8781); invalid: none
	Portal string       // URL of the captive portal's API (RFC 8910); "" is none

	// Old are prefixes that were advertised before this worker started, and are no
	// more: a power cut must not leave hosts with them. Looked at when the LAN's
	// first message comes.
	Old []netip.Prefix

	DNS    []netip.Addr
	Search []string // no trailing dots
}

// Lifetime is how long hosts believe an advertisement: in the gateway as their
// router (0: it is none), in new connections from a prefix, and in a prefix at all.
type Lifetime struct{ Router, Preferred, Valid time.Duration }

// Route is a network that the gateway leads to. Until is the end of the ISP's lease,
// as in a Limit; 0: there is none.
type Route struct {
	Prefix netip.Prefix
	Until  time.Duration
}

// Limit is how long a prefix may be advertised for at most: what is left of the
// ISP's lease. In a Config these are times of CLOCK_BOOTTIME, which are the same
// for every process and know nothing of the clock being set; an Engine is given
// what is left from now on.
type Limit struct {
	Prefix           netip.Prefix
	Preferred, Valid time.Duration
}

// Link is a link as Open found it.
type Link struct {
	Name  string
	Index int
	MAC   string // "" where the link has none
	MTU   int
}

// Report is what the worker tells, when it changes.
type Report struct {
	LANs []LANReport
	Said bool // the Farewell is said
}

// LANReport is what is known of a LAN.
type LANReport struct {
	Name    string
	Sent    time.Time     // of the last advertisement to all; zero: none yet
	Others  []OtherRouter // who else advertises there
	Trouble string        // why nothing can be sent; "" is well
}

// OtherRouter is another router on a LAN, as it last advertised itself.
type OtherRouter struct {
	Addr     netip.Addr // link-local
	Lifetime time.Duration
	Prefixes []netip.Prefix
	Seen     time.Time
}

// What is advertised beside what the file says.
const (
	dnsLifetime   = 30 * time.Minute // RFC 8106, 5.1: three times the longest interval
	routeLifetime = 30 * time.Minute // RFC 4191
	hopLimit      = 64               // RFC 1700's, and every system's own
)

// Times of RFC 4861, 6.2.1 and 10, and where we differ.
const (
	maxInterval = 10 * time.Minute
	maxDelay    = 500 * time.Millisecond // of an answer
	minBetween  = 3 * time.Second        // advertisements to all

	// initialCount advertisements after a start or a change come faster. RFC 4861
	// allows 16 s between them; hosts that sleep or miss a multicast over Wi-Fi
	// wait less so.
	initialCount    = 3
	initialInterval = 5 * time.Second

	// urgentBetween replaces minBetween when what is advertised has changed: hosts
	// that send to a router which leads nowhere wait for it. Of a line that comes
	// and goes they learn two times a second at most.
	urgentBetween = 500 * time.Millisecond

	retry = time.Second // when a message could not be sent
)

// Bounds of what hosts and other routers can make us remember.
const (
	maxPending = 32 // solicitations to answer one by one; more: all at once
	maxOthers  = 16
	maxRetired = 8 // of each kind
)
