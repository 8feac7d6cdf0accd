package named

import (
	"net/netip"
)

// nowhere are the zones that are empty here, for nobody else is to be asked:
//
//	invalid        RFC 6761, 6.4
//	localhost      RFC 6761, 6.3: has the loopback addresses
//	local          RFC 6762, 22.1: mDNS's, where it is not the house's domain
//	onion          RFC 7686, 2
//	home.arpa      RFC 8375, 4, where it is not the house's domain
//	service.arpa   RFC 9665, 10.3
//	resolver.arpa  RFC 9462, 6.4: else clients would find our upstream and leave us
//
// and the reverse names of addresses that have no owner (RFC 6303; RFC 7793).
// named has such zones built in, but not while it forwards; these are the same
// whatever it does.
func nowhere() []string {
	out := []string{"invalid.", "localhost.", "local.", "onion.", "home.arpa.", "service.arpa.", "resolver.arpa."}
	for _, n := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.2.0/24", "192.168.0.0/16", "198.51.100.0/24", "203.0.113.0/24", "255.255.255.255/32",
		"::/128", "::1/128", "2001:db8::/32", "fc00::/7", "fe80::/10",
	} {
		out = append(out, split(netip.MustParsePrefix(n))...)
	}
	return out
}

// The zone files of nowhere, shared by all its zones. Nobody is told to remember
// for long that something is not there (RFC 6303, 3).
const (
	emptyZone     = "$TTL 10800\n@ IN SOA localhost. nobody.invalid. 1 3600 1200 604800 10800\n@ IN NS localhost.\n"
	localhostZone = emptyZone + "@ IN A 127.0.0.1\n@ IN AAAA ::1\n* IN A 127.0.0.1\n* IN AAAA ::1\n"
)
