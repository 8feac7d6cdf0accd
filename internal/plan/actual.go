package plan

import (
	"net/netip"
	"strings"

	"weir/internal/desired"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// Actual is what the kernel holds, as far as it concerns weir, and what weir
// remembers of its own earlier turns. internal/kernel fills it in.
type Actual struct {
	Namespaces []Namespace // main first, then the WANs' by name; one that is absent is not listed
	Machine    state.Machine

	// Last is what the last turn left. Something that is not as Last and the
	// file both have it was touched by somebody else. Nil: not known.
	Last *desired.Desired

	Found Found // how things were before weir came

	Due []DeleteFlows // what earlier turns could not end
}

// Namespace is one network namespace: main, or one called wan-NAME.
type Namespace struct {
	Name string // "" is main

	// Ours says that the namespace carries weir's mark (a table or a link of
	// ours): one that the file no longer wants is then deleted. False is a
	// namespace somebody else calls wan-NAME.
	Ours bool

	Links   []Link
	Addrs   []Addr
	Routes  []Route // without the kernel's own (rtm_protocol kernel, table local)
	Rules   []Rule
	Sysctls map[string]string // those that were asked for and exist
	Table   Table

	// Shortcut is what of the fast path is attached; nil: nothing. In main nothing
	// is wanted: there it is what a port brought along.
	Shortcut *Shortcut

	// Flows is the fast path's program of the flows, wherever it is; nil: on no link. In
	// the WANs' namespaces nothing is wanted.
	Flows *Flows
}

// Flows is the program of the flows as it is attached.
type Flows struct {
	On    []string // the links that carry it
	Wrong string   // in what it is not one that this release attached; "" is nothing
}

// Shortcut is the fast path of a namespace as it is.
type Shortcut struct {
	On    []string // the links that carry a program
	Parts []desired.Part
	Wrong string // in what the programs are not those for these links; "" is nothing
}

// Link is a link as it is. Kind is the kernel's word: "veth", "bridge",
// "vlan", "tun", "" for hardware.
type Link struct {
	Name    string
	Kind    string
	Index   int
	Ours    bool // made by weir: carries Alias
	Up      bool // IFF_UP
	Carrier bool
	MTU     int
	MAC     string
	PermMAC string // the port's own, where it has one burnt in; else ""
	Master  string // "": none
	AddrGen uint8  // IFLA_INET6_ADDR_GEN_MODE
	MTU6    int    // IPv6's own, which a router advertisement may lower (RFC 4861, 4.6.4)
	Heard   bool   // a router advertisement came since the link is up
	Managed bool   // the last one has the M flag: addresses are to be had by DHCPv6
	OtherRA bool   // the last one has the O flag: other things are, a resolver above all

	Peer, PeerNS string // veth: the other end, if it is in a namespace listed here. PeerNS is "?" if not
	Parent       string // vlan: the port it sits on, if that is in a namespace listed here
	VID          int    // vlan
}

// Alias is the IFLA_IFALIAS that marks a link as made by weir.
const Alias = "weir"

// Unfinished is the name of a link until it carries Alias: who dies in between leaves
// nothing under its name that looks like somebody else's.
const Unfinished = "weir-new"

// Addr is an address as it is.
type Addr struct {
	desired.Addr
	Broadcast  netip.Addr // IPv4; invalid: none
	Peer       netip.Addr // the other end of a point-to-point link; invalid: none
	Kernel     bool       // link-local, or made from a router advertisement by the kernel: never removed
	Tentative  bool       // duplicate address detection is still going on
	DADFailed  bool       // somebody else has it (RFC 4862, 5.4.5)
	Deprecated bool       // not for new connections (RFC 4862, 5.5.4)
	Temporary  bool       // RFC 8981
	Fresh      bool       // made within the last second: the kernel may not have made its routes yet

	NoPrefixRoute bool // the kernel makes no route to its network
	Bare          bool // the routes that the kernel made for it are gone
}

// Route is a route as it is.
type Route struct {
	desired.Route
	Proto int // rtm_protocol

	// Hops are the next hops of a route that has several, as ip-route(8) says
	// them: "nexthop via 192.0.2.1 dev eth0 weight 1 nexthop ...".
	Hops string `json:",omitempty"`

	// Other is what else a desired.Route cannot say about it ("tos 0x10"). Raw
	// is then the kernel's message in hex, by which it is removed and put back.
	Other, Raw string `json:",omitempty"`
}

// Rule is an ip rule as it is.
type Rule struct {
	desired.Rule
	Proto int // FRA_PROTOCOL

	// Other is what a desired.Rule cannot say about it ("from some sources"). Raw
	// is then the kernel's message in hex, by which it is removed and put back.
	Other, Raw string
}

// Table is the nft table inet weir as it is, beside what we loaded.
type Table struct {
	Exists  bool
	Text    string        // what we loaded last; "" if nobody kept it
	Sets    []ruleset.Set // the elements we loaded last
	Touched []Touch       // how the kernel's table differs from the one right after our load
}

// Touch is one thing in our table that somebody else changed.
type Touch struct {
	Op   Op     // what was done to it
	What string // as the reader finds it: `rule "forward web"`, `chain through`, `element of set own4`
	Set  string // the set's name if only elements of it were touched
}

// plain says that a desired.Route says all about it.
func (r Route) plain() bool { return r.Other == "" && r.Hops == "" }

// uses says whether the route leads out by a link.
func (r Route) uses(link string) bool {
	return r.Link == link || strings.Contains(r.Hops+" ", " dev "+link+" ")
}

// Found is how the machine was before weir first changed it, kept so that
// everything can be given back.
type Found struct {
	Sysctls map[string]string `json:"sysctls,omitempty"` // main's
	Ports   map[string]Port   `json:"ports,omitempty"`
	Routes  []Route           `json:"routes,omitempty"` // of others in main that weir took out
}

// Port is how a port of the machine was found. Everything in it belongs to main.
type Port struct {
	Up      bool    `json:"up"`
	MTU     int     `json:"mtu,omitempty"`
	MAC     string  `json:"mac,omitempty"`
	Master  string  `json:"master,omitempty"`
	AddrGen uint8   `json:"addrgen,omitempty"`
	Addrs   []Addr  `json:"addrs,omitempty"`
	Routes  []Route `json:"routes,omitempty"`
}

// Advertised is what the kernel made of router advertisements on a link.
type Advertised struct {
	Addrs  []netip.Prefix // global, for new connections, in the kernel's order; no temporary ones
	Router bool           // a router offers itself as the default
	MTU    int            // as advertised; 0: not below the link's
}

// Advertised returns what the kernel made of router advertisements on a link.
func (n *Namespace) Advertised(link string) Advertised {
	var out Advertised
	if n == nil {
		return out
	}
	for _, a := range n.Addrs {
		ip := a.Prefix.Addr()
		if a.Link == link && a.Kernel && ip.Is6() && ip.IsGlobalUnicast() && !a.Tentative && !a.DADFailed && !a.Deprecated && !a.Temporary {
			out.Addrs = append(out.Addrs, a.Prefix)
		}
	}
	for _, r := range n.Routes {
		if r.Link == link && r.Proto == protoRA && r.Dst.Addr().Is6() && isDefault(r.Dst) {
			out.Router = true
		}
	}
	if l := n.link(link); l != nil && l.MTU6 != 0 && l.MTU6 < l.MTU {
		out.MTU = l.MTU6
	}
	return out
}

const protoRA = 9 // RTPROT_RA

// namespace returns the namespace called name, or nil.
func (a *Actual) namespace(name string) *Namespace {
	for i := range a.Namespaces {
		if a.Namespaces[i].Name == name {
			return &a.Namespaces[i]
		}
	}
	return nil
}

// ours says whether the link is there and weir's.
func (l *Link) ours() bool { return l != nil && l.Ours }

// link returns the link called name, or nil.
func (n *Namespace) link(name string) *Link {
	if n == nil {
		return nil
	}
	for i := range n.Links {
		if n.Links[i].Name == name {
			return &n.Links[i]
		}
	}
	return nil
}
