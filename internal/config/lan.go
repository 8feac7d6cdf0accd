package config

import (
	"net/netip"
	"time"
)

// LAN is a network of the house; it is also a zone of the policy.
type LAN struct {
	Name      string // at most 15 bytes: names the bridge, or the VLAN's link
	Pos       Pos
	Interface []string       // one: no bridge. Several: bridged
	VLAN      int            // 0 is untagged
	MTU       int            // 0: the port's
	Address4  netip.Prefix   // the gateway's address with its network; invalid: none
	Address6  []netip.Prefix // empty: the gateway has ::1 in a /64 of the ULA; Config.Address6 says which
	Reach     []Place        // where it may open connections; unsaid it is wan, lan and self; empty is nowhere
	DHCP      DHCP
	Advertise Advertise
	DHCP6     DHCP6
	Domain    []string // at least one: the gateway's unsaid; lower case, no trailing dot
	Hosts     []Host
}

// DHCP is the DHCPv4 server of a LAN.
type DHCP struct {
	Enabled bool    // false too when the LAN has no IPv4
	Pool    []Range // never the gateway's own address; empty: known hosts only
	Lease   time.Duration
	Options []Option // in ascending code; what the file said: it takes the place of a built-in one of that code
	Boot    Boot
	BOOTP   bool // those that speak BOOTP only are answered
	Known   bool // hosts of the LAN only
	Classes []Class
	Subnets []Subnet
}

// DHCP6 is the DHCPv6 server of a LAN.
type DHCP6 struct {
	Enabled  bool
	Managed  bool    // it gives addresses: the file said pool
	Pool     []Range // of one /64 each; those of lower halves (::1000) are meant in every /64 of the LAN
	Delegate int     // length of the prefixes for routers there; 0: none
}

// Boot is what a device loads that boots over the network.
type Boot struct {
	Server netip.Addr // invalid: none
	File   string     // at most 127 bytes
}

// Class is devices that say something of themselves: at least one of Vendor,
// User and Arch is not nil; all that are must fit, and of each one.
type Class struct {
	Name    string
	Vendor  []string // what option 60 begins with
	User    []string // in option 77
	Arch    []uint16 // in option 93
	Options []Option
	Boot    Boot
}

// Subnet is a network behind a relay of a LAN.
type Subnet struct {
	Name    string
	Prefix  netip.Prefix
	Pool    []Range
	Router  netip.Addr // invalid: the relay
	Options []Option
}

// Option is a DHCPv4 option as it goes on the wire (RFC 2132).
type Option struct {
	Code uint8
	Name string // IANA's name
	Data []byte
}

// Range is an inclusive range of addresses of one family.
type Range struct{ From, To netip.Addr }

// Advertise is the router advertisements of a LAN (RFC 4861).
type Advertise struct {
	Enabled bool
	Prefix  []netip.Prefix // /64s; nil: those of the LAN's addresses; empty: none
	DNS     []netip.Addr   // nil: the gateway's first IPv6 address there; empty: none
	Search  []string       // nil: the gateway's domain; empty: none

	Router           time.Duration // how long the gateway is a router; 0: it is none
	Preferred, Valid time.Duration // of a prefix, where its own lease has no less; Preferred <= Valid
	Managed, Other   bool          // M and O
	PREF64           netip.Prefix  // invalid: none
	Portal           string        // URL of the captive portal's API; "" is none
}

// Host is a device of the house.
type Host struct {
	Name    string // unique in the house
	LAN     string
	Pos     Pos
	DNSName string   // a DNS label
	MAC     []string // lower case, colons
	ID      []string // what option 61 may be, in hex
	DUID    []string // in hex
	Address []netip.Addr
	Token   []netip.Addr // interface identifiers (::23) for every /64 of the LAN
	Alias   []string     // further names in DNS, whole, lower case, no trailing dot
}
