package dns

import (
	"net/netip"

	"github.com/miekg/dns"
)

// unroutable are the networks whose addresses have no owner that the internet's
// servers could name: RFC 6303, 4, and RFC 7793 for the ISPs' shared space.
var unroutable = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.2.0/24", "192.168.0.0/16", "198.51.100.0/24",
	"203.0.113.0/24", "255.255.255.255/32",
	"::/128", "::1/128", "2001:db8::/32", "fc00::/7", "fe80::/10",
)

// Inside are the networks that no name of the outside may point at (DNS
// rebinding): what is reached there is the client itself, the house, or the ISP's
// own gear. A LAN's addresses that the internet routes are not among them: the
// house's name at a service of dynamic DNS has such, and its own LAN may ask for it.
var Inside = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.168.0.0/16",
	"::/128", "::1/128", "fc00::/7", "fe80::/10",
)

func prefixes(s ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(s))
	for i := range s {
		ps[i] = netip.MustParsePrefix(s[i])
	}
	return ps
}

// special answers for names that are not the DNS's to resolve:
//
//	invalid        RFC 6761, 6.4
//	local          RFC 6762, 22.1: mDNS's, where it is not the house's domain
//	onion          RFC 7686, 2
//	home.arpa      RFC 8375, 4, where it is not the house's domain
//	service.arpa   RFC 9665, 10.3
//	resolver.arpa  RFC 9462, 6.4: else clients would find our upstream and leave us
//
// "test" (RFC 6761, 6.2) is asked outside like any other: whoever runs a test
// network has a server for it.
func special(q dns.Question, name string) (Answer, bool) {
	for _, zone := range []string{"invalid.", "onion.", "resolver.arpa.", "local.", "home.arpa.", "service.arpa."} {
		if !dns.IsSubDomain(zone, name) {
			continue
		}
		nothing := Answer{Ns: []dns.RR{emptySOA(zone)}} // such a name, no such record
		none := Answer{Rcode: dns.RcodeNameError, Ns: nothing.Ns}
		switch {
		case zone == "invalid.", zone == "onion.":
			return none, true
		case zone == "resolver.arpa.":
			return nothing, true
		case name == "home.arpa." && q.Qtype == dns.TypeDS:
			return Answer{}, false // the parent's to deny (RFC 8375, 4)
		case name != zone:
			return none, true
		}
		if rrs := emptyApex(q, zone); len(rrs) > 0 {
			return Answer{Answer: rrs}, true
		}
		return nothing, true
	}
	return Answer{}, false
}

// emptyApex is the SOA or NS of a zone with nothing in it.
func emptyApex(q dns.Question, zone string) []dns.RR {
	switch q.Qtype {
	case dns.TypeSOA:
		return []dns.RR{emptySOA(zone)}
	case dns.TypeNS:
		return []dns.RR{&dns.NS{Hdr: header(zone, dns.TypeNS, 10800), Ns: zone}}
	}
	return nil
}

// emptySOA is the SOA of a zone with nothing in it, as RFC 6303, 3 has it.
func emptySOA(zone string) dns.RR {
	return &dns.SOA{
		Hdr: header(zone, dns.TypeSOA, 10800), Ns: zone, Mbox: "nobody.invalid.",
		Serial: 1, Refresh: 3600, Retry: 1200, Expire: 604800, Minttl: 10800,
	}
}
