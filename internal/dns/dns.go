// Package dns is the house's resolver: it answers for the house's own names and
// hands every other question to somebody on the internet.
//
//	question -> Zone.Answer (pure) -> ours: the answer
//	                               -> not ours: cache, else the upstreams
//
// What is the house's own is never asked outside, known or not: the domain of
// the gateway, the reverse of the LANs and of every private range (RFC 6303),
// and the names that RFC 6761 and its like set apart.
//
// It is a forwarder with a small cache. It passes DNSSEC on (DO, AD, CD and the
// records), and does not validate: whether an answer's signatures were checked
// is the upstream's word, as far as the road to it can be trusted (tls://).
//
// The trap of the package: a name has no case but keeps its spelling. Keys are
// lower case everywhere; what a client reads is spelt as it asked (RFC 4343).
package dns

import (
	"net/netip"
	"strings"
	"time"
)

// Config is all that the worker needs to know. It is sent whole at the start
// and again whenever something of it changed; the worker takes the difference
// over without a restart and without losing a question.
type Config struct {
	Gateway string // the gateway's host name, a DNS label
	Domain  string // the house's domain; no trailing dot

	LANs   []LAN
	Hosts  []Name // from the file
	Leases []Name // from the DHCP server, the newest first; a host's name wins over a lease's

	// Clients are the networks that are served. Loopback addresses always are;
	// everybody else is refused.
	Clients []netip.Prefix

	// Private are the domains that may point into the house; no trailing dot.
	Private []string

	// Lists are names that are not resolved.
	Lists []List

	// Log has the questions told (Report.Asked).
	Log bool

	// Upstreams are asked for what the house does not know, the first one first.
	Upstreams []Upstream

	// Via says by which lines upstreams are reached now. When it changes, kept
	// sessions are closed, failures forgotten, and what is asked at that
	// moment is asked anew.
	Via string

	// Sockets are all that are served. Their files come with the message, in
	// this order, for those that are Passed; the others the worker has already.
	Sockets []Socket
}

// List is names that are not resolved for some clients.
type List struct {
	Name    string
	File    string // a name a line; "*.": what is below it, "!": it is let through
	Version string // another one: the file is
	Clients []netip.Prefix
}

// LAN is a network of the house, as far as names are concerned.
type LAN struct {
	Name  string
	Addrs []netip.Prefix // the gateway's addresses there, with their networks
}

// Name is a device's name and addresses. The name is one label; it need not be
// valid (a lease's is what the client said): see Label.
type Name struct {
	Name  string
	Addrs []netip.Addr
}

// Server is an upstream resolver.
type Server struct {
	Addr netip.AddrPort
	TLS  bool   // DNS over TLS (RFC 7858)
	Name string // what the certificate must be for; "": the address
}

// String returns the server as the file would have it.
func (s Server) String() string {
	port := uint16(53)
	if s.TLS {
		port = 853
	}
	a := s.Addr.Addr().String()
	if s.Addr.Port() != port {
		a = s.Addr.String()
	}
	if !s.TLS {
		return a
	}
	if s.Name == "" {
		return "tls://" + a
	}
	return "tls://" + a + "#" + s.Name
}

// Upstream is a server, and the WAN whose own it is ("": the file's). A line's own
// has the address of the far end of its cable, which the ruleset turns into the
// server that the ISP named.
type Upstream struct {
	Server
	WAN string
}

// Socket is one of the worker's listening sockets.
type Socket struct {
	Network string // udp or tcp
	Addr    netip.AddrPort
	Passed  bool // its file comes with this message
}

// Report is what the worker tells: about once a second while something changes.
type Report struct {
	Queries   uint64 // since the worker started
	Cached    uint64 // answered from the cache
	Refused   uint64 // from outside the clients' networks
	Dropped   uint64 // too many at once
	Rebinding uint64 // answers that pointed into the house
	Blocked   uint64 // by lists
	Upstreams []UpstreamReport

	Asked []Asked // not empty: this alone is told
}

// UpstreamReport is how an upstream does.
type UpstreamReport struct {
	Server  string // as the file would have it
	WAN     string // whose own it is; "" for the file's
	Up      bool   // answers, or has not been asked yet
	RTT     time.Duration
	Err     string // the last failure, while it is down
	Answers uint64
}

// Label makes a DNS label of what a client calls itself: the first label of it,
// lower case, with spaces and underscores as hyphens and without what a host
// name cannot hold (RFC 1123, 2.1). ok is false if nothing is left, and for
// names that mean something else to clients: router, localhost, wpad (web proxies) and
// isatap (tunnels) are not a device's to take.
func Label(s string) (label string, ok bool) {
	s, _, _ = strings.Cut(s, ".")
	var b strings.Builder
	for _, c := range []byte(strings.ToLower(s)) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		case c == ' ', c == '_':
			b.WriteByte('-')
		}
	}
	label = b.String()
	if len(label) > 63 {
		label = label[:63]
	}
	label = strings.Trim(label, "-")
	switch label {
	case "", "router", "localhost", "wpad", "isatap":
		return "", false
	}
	return label, true
}
