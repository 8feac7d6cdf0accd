package config

import (
	"net/netip"
)

// Kind is what a reference points at.
type Kind string

// The kinds of reference.
const (
	KindWAN   Kind = "wan"
	KindLAN   Kind = "lan"
	KindHost  Kind = "host"
	KindGroup Kind = "group"
	KindSelf  Kind = "self" // the gateway itself; has no name
)

// Ref points at a block by kind and name. An empty name is all of that kind.
type Ref struct {
	Kind Kind
	Name string
}

// Place is where a rule's traffic comes from or goes to: a reference, or a
// prefix (an address is a /32 or a /128). Exactly one of the two is set.
// Groups stay references: Config.Expand flattens them.
type Place struct {
	Ref    Ref
	Prefix netip.Prefix
}

// IsRef tells which of the two a Place is.
func (p Place) IsRef() bool { return p.Ref.Kind != "" }

// String is the place as the file has it, without quotes: host.nas, wan, 10.0.10.23.
func (p Place) String() string {
	switch {
	case p.Ref.Name != "":
		return string(p.Ref.Kind) + "." + p.Ref.Name
	case p.IsRef():
		return string(p.Ref.Kind)
	case p.Prefix.IsSingleIP():
		return p.Prefix.Addr().String()
	}
	return p.Prefix.String()
}

// Group is a name for several places.
type Group struct {
	Name   string
	Pos    Pos
	Member []Place
}

// Verb is what a rule does.
type Verb string

// The verbs: Block is silence, Reject says no.
const (
	Allow  Verb = "allow"
	Block  Verb = "block"
	Reject Verb = "reject"
)

// Protocol is an IANA protocol number; 0 in a rule is every protocol. ICMP (1)
// stands for both families in a rule: ICMPv6 (58) goes with it.
type Protocol uint8

// The protocols that have words in the language.
const (
	AnyProtocol Protocol = 0
	ICMP        Protocol = 1
	TCP         Protocol = 6
	UDP         Protocol = 17
)

// PortRange is an inclusive range of ports, 1 to 65535.
type PortRange struct{ From, To uint16 }

// Rule is an allow, block or reject; they are matched together in file order.
type Rule struct {
	Name     string
	Pos      Pos
	Verb     Verb
	From, To []Place    // nil: anywhere
	Protocol []Protocol // nil: all
	Port     []PortRange
	Slow     bool // fast = false: the fast path does not carry what an allow lets through
}

// Forward opens ports to the outside.
type Forward struct {
	Name     string
	Pos      Pos
	Protocol []Protocol  // TCP, UDP or both
	Port     []PortRange // in file order
	ToPort   []PortRange // same length as Port and the same widths; offsets are kept

	// To4 and To6 are the targets; an invalid one means that the forward does
	// not exist in that family. Token6 stands in for To6 where the target is ::23
	// in a /64 that the file does not know, because the house's ULA is made by
	// weir: Config.ForwardTo6 has the whole address. At least one of the three is
	// valid.
	To4, To6, Token6 netip.Addr
	LAN              string // the LAN that holds the target

	From    []Place  // nil: anywhere; prefixes and groups of them
	On      []string // names of WANs; every WAN is listed when the file leaves it out
	Hairpin bool
}

// Way is what a route asks of lines.
type Way string

// The ways.
const (
	Prefer Way = "prefer" // the first of these that works, else as failover says
	Only   Way = "only"   // the first of these that works, else refused
	Never  Way = "never"  // as failover says without these, else refused
)

// Route says by which lines connections to the outside leave. The first that
// matches decides; WANs that failover leaves out can be named.
type Route struct {
	Name     string
	Pos      Pos
	From     []Place // nil: anywhere, the gateway too; LANs, hosts, self, prefixes and groups of them
	To       []Place // nil: anywhere outside; prefixes and groups of them, or all WANs, which is the same
	Protocol []Protocol
	Port     []PortRange
	Way      Way
	WANs     []string // what Way speaks of, in the order said; never empty, each once
}
