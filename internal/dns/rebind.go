package dns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	"golang.org/x/net/publicsuffix"
)

// pointsInside returns the first address in an answer from outside that a page
// on the internet could use to have a browser talk to the house: one of Inside, also
// wrapped into IPv6 or told as a hint of an HTTPS or SVCB record (RFC 9460). The name that has it comes along.
// Whoever is asked for, or has it, in a private domain may have it.
func (z *Zone) pointsInside(m *dns.Msg) (name string, a netip.Addr, found bool) {
	for _, q := range m.Question {
		if z.isPrivate(q.Name) {
			return "", netip.Addr{}, false
		}
	}
	bad := func(name string, ip []byte) bool {
		addr, ok := netip.AddrFromSlice(ip)
		if ok && isInside(addr) && !z.isPrivate(name) {
			a = addr
			return true
		}
		return false
	}
	for _, section := range [][]dns.RR{m.Answer, m.Extra} {
		for _, rr := range section {
			name = rr.Header().Name
			switch rr := rr.(type) {
			case *dns.A:
				if bad(name, rr.A) {
					return name, a, true
				}
			case *dns.AAAA:
				if bad(name, rr.AAAA) {
					return name, a, true
				}
			case *dns.HTTPS:
				if hintsInside(&rr.SVCB, bad) {
					return name, a, true
				}
			case *dns.SVCB:
				if hintsInside(rr, bad) {
					return name, a, true
				}
			}
		}
	}
	return "", netip.Addr{}, false
}

// isPrivate tells whether a name is in a domain that may point into the house.
func (z *Zone) isPrivate(name string) bool {
	return slices.ContainsFunc(z.private, func(d string) bool { return dns.IsSubDomain(d, name) })
}

// owner is the domain that a name was registered as, as far as that is known.
func owner(name string) string {
	name = strings.TrimSuffix(name, ".")
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

func hintsInside(rr *dns.SVCB, bad func(string, []byte) bool) bool {
	for _, kv := range rr.Value {
		switch kv := kv.(type) {
		case *dns.SVCBIPv4Hint:
			for _, ip := range kv.Hint {
				if bad(rr.Hdr.Name, ip) {
					return true
				}
			}
		case *dns.SVCBIPv6Hint:
			for _, ip := range kv.Hint {
				if bad(rr.Hdr.Name, ip) {
					return true
				}
			}
		}
	}
	return false
}

// isInside tells whether an address is the house's or the client's own. An IPv4
// address inside an IPv6 one counts as itself: mapped (RFC 4291, 2.5.5.2) and
// NAT64 (RFC 6052).
func isInside(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if nat64 := netip.MustParsePrefix("64:ff9b::/96"); nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return slices.ContainsFunc(Inside, func(p netip.Prefix) bool { return p.Contains(a) })
}
