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

	// Old are prefixes that were advertised before this worker started, and are no
	// more: a power cut must not leave hosts with them. Looked at when the LAN's
	// first message comes.
	Old []netip.Prefix

	DNS    []netip.Addr
	Search []string // no trailing dots
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

// What is advertised, and for how long. Preferred and valid lifetimes are RFC
// 9096's idea of short: half an hour's router lifetime, one and a half of it and
// twice that, so that what has changed is forgotten within hours and not weeks.
const (
	routerLifetime    = 30 * time.Minute
	preferredLifetime = 45 * time.Minute
	validLifetime     = 90 * time.Minute
	dnsLifetime       = 30 * time.Minute // RFC 8106, 5.1: three times the longest interval
	hopLimit          = 64               // RFC 1700's, and every system's own
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
