package lab

import (
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// rebindDomains are domains of somebody who has names point wherever he likes.
var rebindDomains = []string{"rebind.test.", "plex.direct."}

// rebind answers for a name whose first label is an address with - in the place of
// . and :, as an attacker's server would: 172-31-0-23.rebind.test has that address
// and is as a hint in its HTTPS record (RFC 9460), to-172-31-0-23.rebind.test is a
// CNAME to it, and dual-172-31-0-23.rebind.test has an IPv6 address of the internet
// besides. ok is false for all other names.
func rebind(q dns.Question, hdr dns.RR_Header) (rrs []dns.RR, ok bool) {
	label, domain, _ := strings.Cut(strings.ToLower(q.Name), ".")
	if domain != rebindDomains[0] && domain != rebindDomains[1] {
		return nil, false
	}
	target, alias := strings.CutPrefix(label, "to-")
	target, dual := strings.CutPrefix(target, "dual-")
	a, err := netip.ParseAddr(strings.ReplaceAll(target, "-", "."))
	if err != nil {
		if a, err = netip.ParseAddr(strings.ReplaceAll(target, "-", ":")); err != nil {
			return nil, true
		}
	}
	if alias {
		hdr.Rrtype = dns.TypeCNAME
		to := target + "." + domain
		rrs = append(rrs, &dns.CNAME{Hdr: hdr, Target: to})
		hdr.Name, hdr.Rrtype = to, q.Qtype
	}
	switch {
	case q.Qtype == dns.TypeA && a.Is4():
		rrs = append(rrs, &dns.A{Hdr: hdr, A: a.AsSlice()})
	case q.Qtype == dns.TypeAAAA && a.Is6():
		rrs = append(rrs, &dns.AAAA{Hdr: hdr, AAAA: a.AsSlice()})
	case q.Qtype == dns.TypeAAAA && dual:
		rrs = append(rrs, &dns.AAAA{Hdr: hdr, AAAA: net.ParseIP("2001:db8:80::80")})
	case q.Qtype == dns.TypeHTTPS && a.Is4():
		rrs = append(rrs, &dns.HTTPS{SVCB: dns.SVCB{Hdr: hdr, Priority: 1, Target: ".", Value: []dns.SVCBKeyValue{&dns.SVCBIPv4Hint{Hint: []net.IP{a.AsSlice()}}}}})
	}
	return rrs, true
}
