// Package config is the file: what a person says about their house.
//
// Parse reads it, checks all of it and fills in every default that the file
// alone decides, so that whoever holds a Config never asks whether a value was
// said. What the file leaves to the machine or to chance (the house's ULA, the
// machine's time zone) stays at its zero value and is state's to fill.
//
// The package is pure: no file system, no kernel, no clock.
package config

import (
	"net/netip"
	"time"
)

// Config is a checked file. Slices are in file order, which is also the order
// of preference and of first match where the language says that order counts.
type Config struct {
	Gateway  Gateway
	WANs     []WAN
	Failover Failover
	LANs     []LAN
	Groups   []Group
	Rules    []Rule
	Forwards []Forward
	Routes   []Route
	DNS      DNS
	Time     Time
	API      API
}

// Gateway is what concerns the whole house.
type Gateway struct {
	Name     string // host name of the gateway, a DNS label
	Domain   string // without a trailing dot, lower case
	Timezone string // tz database name; "" is the machine's

	// Cable4 and Cable6 are the networks of the patch cables: a /31 and a /127
	// for each WAN in file order (RFC 3021, 6164), the lower address in main.
	// Cable4 is always set (chosen clear of the file when unsaid). Cable6 is
	// invalid when unsaid: then it is the last /64 of the house's ULA.
	Cable4, Cable6 netip.Prefix

	ULA netip.Prefix // a /48 in fd00::/8; invalid: made once and kept in state

	FastPath FastPath
}

// FastPath says by which form of eBPF program packets are carried past what would
// only pass them on.
type FastPath string

// The forms. FastPathAuto is the best that a port has.
const (
	FastPathAuto FastPath = "auto"
	FastPathTC   FastPath = "tc"
	FastPathOff  FastPath = "off"
)

// Pos is a place in the file, for messages that are made after parsing.
type Pos struct {
	File      string
	Line, Col int
}

// WAN is a line to an ISP.
type WAN struct {
	Name      string // at most 15 bytes: names the cable; wan-NAME names the namespace
	Pos       Pos
	Interface string
	VLAN      int    // 802.1Q VID; 0 is untagged
	MAC       string // "" is the port's own
	MTU       int    // 0: from DHCP, the RA or the port
	Metered   bool
	Move      bool // on_return: flows that failover put on this line leave it when a line before it in Prefer is used again
	IPv4      WANv4
	IPv6      WANv6
	Probe     Probe // how this line is tried: the house's Probe where the WAN says nothing else
}

// Method says how a WAN gets its addresses in one family.
type Method string

// The methods. MethodAuto is IPv6 only: SLAAC, and DHCPv6 besides where the RA has the M flag.
const (
	MethodDHCP   Method = "dhcp"
	MethodStatic Method = "static"
	MethodNone   Method = "none"
	MethodAuto   Method = "auto"
	MethodSLAAC  Method = "slaac"
)

// Translate says what becomes of inside addresses on their way out.
type Translate string

// The translations.
const (
	NAT44       Translate = "nat44"
	NAT66       Translate = "nat66"
	NPT         Translate = "npt" // IPv6: its delegated prefix as it is, all else one to one into that; nat66 while there is none
	NoTranslate Translate = "none"
)

// WANv4 is the ipv4 block of a WAN.
type WANv4 struct {
	Method    Method         // dhcp, static or none
	Address   []netip.Prefix // own addresses with their networks; static only
	Gateway   netip.Addr     // static only; may be off the link
	Translate Translate      // nat44 or none

	ClientID              string // option 61; "hex:..." for bytes; "" is the MAC
	Hostname              string // option 12
	VendorClass           string // option 60; "hex:..." for bytes; "" is none
	IgnoreClasslessRoutes bool   // do without option 121, use option 3

	DNS []netip.Addr // the line's resolvers; nil: what DHCP says
}

// WANv6 is the ipv6 block of a WAN.
type WANv6 struct {
	Method    Method // auto, slaac, dhcp, static or none
	Address   []netip.Prefix
	Gateway   netip.Addr   // static only; may be link-local
	Translate Translate    // nat66, npt or none: what is not nat66 has Delegate
	Delegate  int          // length of the prefix to ask for, 48 to 64; 0: none
	DNS       []netip.Addr // the line's resolvers; nil: what the ISP says
}

// Homes says whether the LANs have addresses in what the line is delegated.
func (w WANv6) Homes() bool { return w.Delegate > 0 && w.Translate != NAT66 }

// Asks says whether the line has a DHCPv6 client, be it that the ISP's routers say so.
func (w WANv6) Asks() bool {
	return w.Delegate > 0 || w.Method == MethodDHCP || w.Method == MethodAuto
}

// Failover says which line is used.
type Failover struct {
	Prefer   []string // names of WANs, best first; a WAN left out carries only what names it
	HoldDown time.Duration
	Degraded Degraded
	Probe    Probe
}

// Degraded says from when on a line that works is bad.
type Degraded struct {
	Loss    int // percent of the probes
	Latency time.Duration
}

// Probe says how lines are tried.
type Probe struct {
	Target4, Target6 []Target      // never empty: defaults fill a family that the file left out
	Every            time.Duration // the line in use; eight times that in reserve
	Timeout          time.Duration // 0: from measured round trips (RFC 6298), at most 1 s
}

// Ask is the way in which a target is asked.
type Ask string

// The ways.
const (
	AskEcho Ask = "echo" // ICMP echo request (RFC 792, 4443)
	AskTCP  Ask = "tcp"  // a connection, closed as soon as it is accepted or refused
	AskDNS  Ask = "dns"  // a question over UDP
)

// Target is who is asked whether a line works, and how. It is comparable.
type Target struct {
	Ask  Ask
	Addr netip.Addr
	Port uint16 // TCP and DNS
	Name string // DNS: what is asked for, lower case, no trailing dot; "" is the root
}

// String is the target as the file has it, in its shortest spelling.
func (t Target) String() string {
	port := t.Port
	if t.Ask == AskDNS && port == 53 {
		port = 0
	}
	host := t.Addr.String()
	switch {
	case port != 0:
		host = netip.AddrPortFrom(t.Addr, port).String()
	case t.Ask != AskEcho && t.Addr.Is6():
		host = "[" + host + "]"
	}
	switch {
	case t.Ask == AskEcho:
		return host
	case t.Name != "":
		return string(t.Ask) + "://" + host + "/" + t.Name
	}
	return string(t.Ask) + "://" + host
}

// DNS is the resolver.
type DNS struct {
	Engine   string   // "auto", "forward" or "bind"; see Config.BIND
	Upstream []Server // nil: the line's own, or with BIND from the root on
	Log      bool     // questions are told
	Validate bool     // DNSSEC; BIND only
	Zones    []Zone   // served or forwarded by BIND, beside those that are there unsaid
	Keys     []Key

	Client        []netip.Prefix // who may ask; nil: the LANs
	PrivateDomain []string       // may point into the house; lower case, no trailing dot
	BlockLists    []BlockList
}

// BlockList is names that are not resolved.
type BlockList struct {
	Name    string
	Pos     Pos
	Source  []string // URLs, and whole paths
	Refresh time.Duration
	Allow   []string // lower case, no trailing dot
	LAN     []string // nil: every LAN
}

// Zone is a zone of BIND's.
type Zone struct {
	Name    string // lower case, no trailing dot
	Pos     Pos
	Forward []Server // not empty: whom to ask; then there are no records
	TTL     time.Duration
	SOA     SOA
	Records []Record
}

// SOA is the times of a start of authority (RFC 1035, 3.3.13; RFC 2308, 4).
type SOA struct{ Refresh, Retry, Expire, Minimum time.Duration }

// Record is some records of one name.
type Record struct {
	Name    string // "@", or relative to the zone
	Pos     Pos
	Address []Place       // hosts, and prefixes of single addresses
	TXT     []string      // as said, without quotes and escapes
	Data    []Datum       // the rest, in the order of the language
	TTL     time.Duration // 0: the zone's
}

// Datum is a record's type and its data in master-file form.
type Datum struct{ Type, Data string }

// Key is who else may update zones by TSIG (RFC 8945).
type Key struct {
	Name      string
	Pos       Pos
	Algorithm string
	Zone      []string // lower case, no trailing dot
	Names     []string // nil: all but the gateway's own
	Types     []string // nil: all
	Secret    string   // the absolute path of the file with its secret; "": weir makes one
}

// Server is an upstream resolver: an address, or a line's own.
type Server struct {
	Addr netip.AddrPort
	TLS  bool
	Name string // the certificate's name with TLS
	Line Ref    // a WAN whose own is asked, all of them without a name; then nothing else is set
}

// Time is the clock, and who is served by it.
type Time struct {
	Server []TimeServer // nil: those that are built in
	Serve  bool         // to the LANs
}

// TimeServer is an NTP server, by its address or by its name.
type TimeServer struct {
	Addr netip.Addr // invalid: by Name
	Name string     // lower case, no trailing dot
	NTS  bool       // asked with network time security (RFC 8915); then it has a Name
}

// API is the local socket.
type API struct{ Group string }
