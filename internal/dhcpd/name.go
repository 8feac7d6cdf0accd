package dhcpd

import (
	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/state"
)

// hostname is what a client calls itself (option 12, else 81), as a DNS label.
func hostname(p *dhcpv4.DHCPv4) string {
	if n := state.Label(p.Options.Get(dhcpv4.OptionHostName)); n != "" {
		return n
	}
	return state.Label(fqdn(p.Options.Get(dhcpv4.OptionFQDN)))
}

// fqdn is the name in option 81 (RFC 4702): flags, two bytes of history, and a
// name in ASCII or, with the E flag, in DNS's wire format.
func fqdn(b []byte) []byte {
	if len(b) < 4 {
		return nil
	}
	name := b[3:]
	if b[0]&4 == 0 {
		return name
	}
	if n := int(name[0]); n > 0 && n < len(name) {
		return name[1 : 1+n] // the first label is all that is wanted
	}
	return nil
}
