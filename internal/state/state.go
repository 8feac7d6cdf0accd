// Package state is what the world has told weir: which ports there are, what
// the ISPs lease, which lines work. It is the second argument of desired.Build,
// beside the file.
//
// State is a value. Reducers return a new one; nobody shares a map with it.
package state

import (
	"net/netip"
	"time"
)

// State is everything that Build needs and the file does not say.
type State struct {
	ULA netip.Prefix // the house's own /48 (RFC 4193, 3.2), made once and kept

	// Index numbers each WAN that the house has ever had, 1 to 255. It stands in
	// the low byte of the conntrack mark, so it is stored: a line added to the
	// file must not give a running flow's number to another line.
	Index map[string]uint8

	// LANs numbers each LAN that the house has ever had, from 0 on: which /64 of a
	// delegated prefix is its. Stored, so that a LAN added to the file leaves the
	// others their networks.
	LANs map[string]uint16

	WANs map[string]WAN

	Parts []Part // in force, by LAN and number

	// Use4 and Use6 name the WAN that new connections take; "" is none.
	Use4, Use6 string

	Machine Machine
}

// Machine is what the machine was found to be able to do. A step that cannot
// work here is known from it before anything is applied.
type Machine struct {
	VLAN         bool // 802.1Q links can be made
	Bridge       bool
	TAP          bool
	ConntrackMax bool // nf_conntrack_max may be written: only in the first network namespace
	Userns       bool // runs in a user namespace: one uid, no clock, no BPF

	FastPath   bool   // programs can be attached to links (tcx)
	NoFastPath string // why not
}

// WAN is what is known of one line.
type WAN struct {
	V4, V6 Line

	// Delegated are the prefixes that the ISP delegated (DHCPv6), the one for new
	// connections first.
	Delegated []netip.Prefix

	MTU int // from DHCP option 26 or the RA; 0 is unknown
}

// Line is one family of a WAN.
type Line struct {
	// Addr are the line's own addresses with their networks, the one used for
	// translation first. From DHCP, SLAAC (read back from the kernel) or the file.
	Addr []netip.Prefix

	// Leased are those of Addr that DHCPv6 leased where the others are the kernel's:
	// with auto.
	Leased []netip.Prefix

	// Routes are what the lease says (options 121 and 3). A default route has
	// 0.0.0.0/0. For SLAAC they are the kernel's and are not listed here.
	Routes []Route

	DNS []netip.Addr // the line's own resolvers

	// Up says that new connections may use the line: it has an address, a
	// default route, carrier, and its probes come back.
	Up bool

	// Wary says that it is up but still has to prove itself, or is not good: a
	// route takes another of its lines where one is up.
	Wary bool

	// Hollow says that nothing but echoes passes: flows that are on it follow as soon
	// as failover uses another line.
	Hollow bool

	// Grace says that the line was Up until a moment ago: its TCP connections wait
	// for it to come back. Whoever keeps the time ends it. It means nothing while
	// Up, or without an address.
	Grace bool
}

// Route is a route that a lease brings (RFC 3442).
type Route struct {
	Dst     netip.Prefix
	Gateway netip.Addr // invalid: on link
}

// Lease4 is a DHCPv4 lease that a WAN holds, as the client reports it.
type Lease4 struct {
	Addr      netip.Prefix
	Server    netip.Addr // option 54
	Routes    []Route    // option 121 before option 3 (RFC 3442)
	DNS       []netip.Addr
	Domain    string
	MTU       int
	Obtained  time.Time     // of the ACK; wall clock
	Boot      string        // Clock.Boot at the time of Obtained
	Up        time.Duration // Clock.Up at the time of Obtained
	Duration  time.Duration // option 51; 0 is without end
	T1, T2    time.Duration // after Obtained
	Note      string        // one line for status: what was odd about it
	ServerMAC string
}
