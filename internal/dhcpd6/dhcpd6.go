// Package dhcpd6 is the DHCPv6 server of the LANs (RFC 8415), a worker.
//
//	frame --> parse --> Engine.Handle --> reply -------------------> socket
//	                       |                ^
//	                       |  a lease that changed is kept first
//	                       +--> Report.Keep --> parent's store --> Order.Kept
//
// Engine is pure: messages and the time go in, replies and leases come out. No
// Reply leaves before the leases in it are on disk, as in package dhcpd.
//
// What is leased is a number, not an address: the lower half of an address
// (IA_NA), or which part of a prefix (IA_PD). The addresses are made of it anew in
// each message, one in each network that the LAN has at the moment. So a device
// keeps its number when the ISP renumbers; at its next Renew it is given the
// address in the new network, and that in the old one with no time left.
//
// A LAN without a pool and without anything to delegate is served statelessly (RFC
// 8415, 6.1): nothing is remembered of who asked. A Solicit costs no memory in
// either case; leases are bounded by the pool, and by maxLeases.
package dhcpd6

import (
	"net/netip"
	"os"
	"time"

	"weir/internal/commit"
	"weir/internal/state"
	"weir/internal/worker"
)

// Order is a message of the parent: one of its fields is set. At the start Leases
// come first, in as many messages as they need, and then Config; Setup does both.
type Order struct {
	Leases []state.Lease // stored ones; those of IPv4 are another's
	Config *Config
	Kept   *commit.Kept // answers a Report
}

// Config is all that the server needs to know, sent whole whenever something
// changed.
type Config struct {
	DUID string // who the server is, in hex
	LANs []LAN  // those with a server; one that is missing is served no more
}

// LAN is a network that is served.
type LAN struct {
	Name string
	Link string // that the sockets are bound to

	// Passed says that the sockets come with this message, as Open returns them. Files
	// are in the order of the LANs that have it set.
	Passed bool

	DNS    []netip.Addr // option 23 (RFC 3646)
	Search []string     // option 24; no trailing dots
	NTP    []netip.Addr // options 56 (RFC 5908) and 31 (RFC 4075)
	Portal string       // option 103 (RFC 8910); "" is none

	Networks []Network // /64s that devices have addresses in, the best first
	Pool     []Range   // of devices without an address of their own; none: no addresses but hosts'
	Hosts    []Host
	Managed  bool // addresses are given at all

	Delegate int       // how long a prefix for a router there is; 0: there are none
	Sources  []Network // that those are cut from, the best first
	Reserved []netip.Prefix

	Preferred, Valid time.Duration // the longest lifetimes; Preferred <= Valid

	// Awaited says that a line's prefix is still to come: who has a lease by then asks
	// again soon.
	Awaited bool
}

// Network is a prefix and how long the gateway has it yet.
type Network struct {
	Prefix netip.Prefix

	// Preferred and Valid are Clock.Up when it ends; 0: never.
	Preferred, Valid time.Duration

	// Old is a network that nobody is to begin to use: who has an address in it
	// keeps it for what runs.
	Old bool
}

// Range is an inclusive range of addresses. Those below ::1:0:0:0:0, the lower
// halves of addresses, are meant in each network of the LAN; others in theirs.
type Range struct{ From, To netip.Addr }

// Host is a device that the file knows.
type Host struct {
	Name string
	ID   uint64   // lower half of its address; 0: from the pool
	MAC  []string // lower case, colons
	DUID []string // in hex
}

// Report is what the worker tells: leases that changed, to be stored and answered
// with Kept. A Duration of 0 says that the lease ended.
type Report struct {
	ID   uint64
	Keep []state.Lease
}

// Worker is the server of all LANs. It takes Order and sends Report.
var Worker = worker.Kind{Name: "dhcpd6", Run: run}

// Setup sends a fresh child what it needs: for worker.Options.Setup. The files are
// those of cfg's LANs.
func Setup(c *worker.Conn, leases []state.Lease, cfg Config, files ...*os.File) error {
	var mine []state.Lease
	for _, l := range leases {
		if l.Addr.Is6() {
			mine = append(mine, l)
		}
	}
	for len(mine) > 0 {
		n := min(len(mine), commit.MaxLeases)
		if err := c.Send(Order{Leases: mine[:n]}); err != nil {
			return err
		}
		mine = mine[n:]
	}
	return c.Send(Order{Config: &cfg}, files...)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // sockets
	}
}
