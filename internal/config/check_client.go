package config

import (
	"net/netip"
)

// notPublic are the networks that nobody on the internet has: private ones (RFC
// 1918, RFC 4193), shared ones (RFC 6598), loopback and link-local ones.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("::1/128"),
}

// checkClient refuses networks of strangers: a resolver that answers them is used
// against others (RFC 5358).
func (c *checker) checkClient(h *house, it item) {
	p, ok := it.val.(netip.Prefix)
	if !ok {
		return
	}
	within := func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) }
	for _, o := range notPublic {
		if within(o) {
			return
		}
	}
	for _, l := range h.LANs {
		for _, a := range append([]netip.Prefix{l.Address4}, l.Address6...) {
			if a.IsValid() && within(a.Masked()) {
				return
			}
		}
	}
	c.err(it.at, "A resolver that answers strangers is used for attacks on others (RFC 5358). Networks of the house are private ones, or a LAN's.", "%s is public", p)
}
