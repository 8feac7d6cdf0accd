// Package named has BIND 9 (named) answer the house's questions: from a
// configuration, zones and keys that are made here, with nothing of a
// distribution's defaults in play.
//
//	Config --text, zones (pure)--> DIR/named.conf, DIR/work/*.zone
//	                               named -f -c DIR/named.conf
//	Config --changes (pure)------> TSIG updates (RFC 2136) of the running zones
//
// A zone's file is written once, when there is none. From then on it is named's
// own, with its journal, and what changes in the house reaches it as an update:
// so serial numbers rise by named's rules, a kill at any instant loses nothing
// that was acknowledged, and what others put into a zone with keys of their own
// stays. What was put in from the file of the house is noted beside (told.json),
// so that it can be taken out again; what came from a lease carries a DHCID
// record (RFC 4701).
//
// named never has the right to do more than to open port 53: it is started as
// its user with that one capability and nothing else, so that it neither can
// change its user nor has to. In a user namespace it runs with the user there is.
package named

import (
	"net/netip"

	weirdns "weir/internal/dns"
)

// Config is all that the worker needs to know. It is sent whole at the start and
// again whenever something of it changed. named is told the difference by
// updates, or by a reload; it is never started again for it.
type Config struct {
	Program Program
	Dir     string // where all of it lives, absolute: named.conf, keys, zones

	Gateway string // the gateway's host name, a DNS label
	Domain  string // the house's domain; no trailing dot

	LANs    []LAN
	Clients []netip.Prefix // who is answered, beside the gateway itself
	Cables  []Cable
	Hosts   []Host
	Leases  []Lease // those running; of two with one name the first goes before

	// Upstreams are asked for what the house does not know; none: named asks from
	// the root on by itself.
	Upstreams []netip.AddrPort
	Unchecked bool   // no DNSSEC validation
	Anchors   string // DS records of the root, in master-file form; "": IANA's (Anchors)

	Zones []Zone // the file's
	Keys  []Key  // who else may update

	Private []string // domains that may point into the house; no trailing dot
	Lists   []List   // names that are not resolved

	Log bool // the questions are told (Report.Asked)
}

// List is names that are not resolved: a response policy zone.
type List struct {
	Name    string
	File    string   // absolute; anybody can read it
	Version string   // another one: the file is
	LANs    []string // whose questions it is for
}

// LAN is a network of the house: its devices are answered, on the gateway's
// addresses there.
type LAN struct {
	Name    string
	Addrs   []netip.Prefix // the gateway's addresses there, with their networks
	Domains []string       // that devices there are in; nil: the house's
}

// Cable is the cable to a WAN: the router's names on it are GATEWAY-WAN-in and
// GATEWAY-WAN-out.
type Cable struct {
	WAN       string
	Near, Far []netip.Addr   // in the house's namespace, in the WAN's
	Networks  []netip.Prefix // all cables'
}

// Host is a device of the file.
type Host struct {
	Name  string // a DNS label
	Addrs []netip.Addr
	Alias []string // further names, absolute without trailing dot

	Domains []string // it is in; an address is called by the first; nil: the house's
}

// Lease is a device that calls itself something.
type Lease struct {
	Name   string       // a DNS label; need not be valid
	Addr   netip.Addr   // of IPv4; invalid: none
	Six    []netip.Addr // of IPv6
	Client string       // option 61 in hex, or "mac:" and the Ethernet address; "": it has no lease of IPv4
	DUID   string       // in hex; of who has no Client
	MAC    string

	Domains []string // as a Host's
}

// any is one of its addresses; invalid: it has none.
func (l Lease) any() netip.Addr {
	if !l.Addr.IsValid() && len(l.Six) > 0 {
		return l.Six[0]
	}
	return l.Addr
}

// Zone is a zone block of the file.
type Zone struct {
	Name    string           // no trailing dot
	Forward []netip.AddrPort // whom to ask instead; then nothing else is set
	TTL     uint32           // of records without one, in seconds
	SOA     SOA
	Records []Record
}

// SOA is the times of a start of authority, in seconds (RFC 1035, 3.3.13). The
// zero value is DefaultSOA.
type SOA struct{ Refresh, Retry, Expire, Minimum uint32 }

// DefaultSOA and DefaultTTL are of zones that the file says nothing of. Minimum
// is how long clients may remember that there is no such name (RFC 2308).
var DefaultSOA = SOA{Refresh: 3600, Retry: 600, Expire: 604800, Minimum: 60}

// DefaultTTL is the TTL of records in zones that the file says nothing of.
const DefaultTTL = 3600

// Record is a record block of the file: some records of one name.
type Record struct {
	Name  string // "@", or relative to the zone
	TTL   uint32 // 0: the zone's
	Addrs []netip.Addr
	Texts []string // TXT
	Data  []Datum  // the rest
}

// Datum is a record's type and data in master-file form; names in it are
// relative to the zone unless they end in a dot.
type Datum struct{ Type, Data string }

// Key is who else may update zones, by TSIG (RFC 8945).
type Key struct {
	Name      string
	Algorithm string   // as in named.conf: hmac-sha256
	Zones     []string // no trailing dot
	Names     []string // what may be updated, relative to the zone; none: all but the gateway's and the file's
	Types     []string // none: all
	Secret    string   // the file that its secret is in; "": one is made, and kept
	Version   int64    // of that file: another one, and it is read again
}

// Report is what the worker tells: when named is there, and what is wrong.
type Report struct {
	Ready bool     // it answers by what it was told last
	PID   int      // of named
	Notes []string // names that could not be given, keys that nobody can use
	Err   string   // what of the last configuration could not be put in force; "": all is

	Silent []Silent // forwarders that give no answer

	Asked []weirdns.Asked // not empty: this alone is told
}
