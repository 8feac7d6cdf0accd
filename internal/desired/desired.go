// Package desired says what the kernel should hold.
//
//	desired = Build(config, state)
//
// Build is pure: no I/O, no clock, no kernel. Everything weir has the kernel do
// is in a Desired; internal/plan compares one with what the kernel holds, and
// internal/kernel makes it so.
package desired

import (
	"net/netip"

	"weir/internal/ruleset"
)

// Names and numbers that weir owns in a kernel. What does not carry one of them
// is not weir's, and is left alone.
const (
	NSPrefix   = "wan-"             // wan-NAME is the namespace of WAN NAME
	CableInner = ruleset.CableInner // the cable's end inside a WAN's namespace
	RouteProto = 87                 // rtm_protocol of our routes and rules (rtnetlink(7)); free in iproute2's rt_protos
	TableBase  = 87000              // routing table of the WAN with index k is TableBase + k
	RulePref   = 8700               // first ip rule priority of ours in main; the last is RulePref + 1023
)

// Desired is the wanted content of every namespace of ours, main first, then
// the WANs' in file order.
type Desired struct {
	Namespaces []Namespace
	Notes      []string // what is worth saying and stops nothing: an overlap, a missing feature

	// Moves are the lines whose flows follow when main's default route leaves them
	// for the one wanted here: a preferred line is back, or this one carries nothing.
	Moves []Move
}

// Move is a line, in a family, whose flows move when failover leaves it.
type Move struct {
	Cable string
	V6    bool
	Mark  uint32 // the WAN's index
}

// Namespace is one network namespace. Name is "" for main, else "wan-NAME".
type Namespace struct {
	Name    string
	WAN     string // the WAN's name; "" in main
	Links   []Link
	Addrs   []Addr
	Routes  []Route
	Rules   []Rule
	Sysctls []Sysctl
	Table   ruleset.Table

	Shortcut *Shortcut `json:",omitempty"` // nil: none
	Flows    *Flows    `json:",omitempty"` // nil: none; of main only
}

// LinkKind is what a link is. The zero value is invalid.
type LinkKind uint8

// The kinds of link.
const (
	_      LinkKind = iota
	Port            // there already (or not yet): never made, never deleted, moved into its namespace
	Veth            // one end of a cable; the end in main makes both
	Bridge          // a LAN of several ports
	VLAN            // 802.1Q on Parent
)

// Link is a link in the namespace that lists it.
type Link struct {
	Name   string
	Kind   LinkKind
	Up     bool
	MTU    int    // 0: leave it
	MAC    string // "": leave it
	Master string // name of the bridge in the same namespace; "": none

	// Veth: the other end.
	Peer   string
	PeerNS string // namespace name, "" is main

	// VLAN: the port it sits on. The parent stays in main, also when the VLAN
	// is a WAN's and lives in the WAN's namespace.
	Parent string
	VID    int

	// AddrGen is IFLA_INET6_ADDR_GEN_MODE: 0 EUI-64, 1 none. Cables have 1.
	AddrGen uint8

	// OwnAddrs says that addresses on the link that Build did not list, and
	// that the kernel did not make itself (link-local, SLAAC), are removed.
	OwnAddrs bool
}

// Addr is an address on a link. NoDAD sets IFA_F_NODAD.
type Addr struct {
	Link   string
	Prefix netip.Prefix // host bits kept: the address and its network
	NoDAD  bool
}

// RouteType is rtm_type. The zero value is unicast.
type RouteType uint8

// The route types in use.
const (
	Unicast RouteType = iota
	Unreachable
	Blackhole
)

// Route is a route of ours (rtm_protocol RouteProto).
type Route struct {
	Dst     netip.Prefix // 0.0.0.0/0 or ::/0 is the default
	Gateway netip.Addr   // invalid: on link
	OnLink  bool         // RTNH_F_ONLINK: the gateway need not be in a connected network
	Link    string
	Table   int // 0 is main (254)
	Metric  int // 0 is the family's own default
	Src     netip.Addr
	Type    RouteType
}

// Rule is an ip rule of ours.
type Rule struct {
	V6      bool
	Pref    int
	Mark    uint32 // with Mask; both 0: any
	Mask    uint32
	OIF     string
	IPProto uint8     // IP protocol, of IPv6 the upper layer's; 0: any
	Table   int       // 255 is local
	Action  RouteType // Unicast: look up Table
}

// Sysctl is a value under /proc/sys in the namespace, Key with slashes:
// "net/ipv4/conf/eth1/rp_filter".
type Sysctl struct {
	Key, Value string
	// Global values exist once in a machine: they are written in the first
	// network namespace only, and only raised.
	Global bool
	// Of a module that may not be loaded, or may be by somebody else at any time:
	// without the key there is nothing to want.
	IfThere bool
}
