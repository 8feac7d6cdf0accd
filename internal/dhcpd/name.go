package dhcpd

import (
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// hostname is what a client calls itself (option 12, else 81), as a DNS label.
func hostname(p *dhcpv4.DHCPv4) string {
	if n := label(p.Options.Get(dhcpv4.OptionHostName)); n != "" {
		return n
	}
	return label(fqdn(p.Options.Get(dhcpv4.OptionFQDN)))
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

// label makes a DNS label of what a client says (RFC 1123, 2.1): the first part
// in lower case, what people put between words as a hyphen, at most 63 bytes;
// "" if nothing is left.
func label(b []byte) string {
	s, _, _ := strings.Cut(string(b), ".")
	var out strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c >= 'A' && c <= 'Z':
			out.WriteByte(c + 'a' - 'A')
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-':
			out.WriteByte(c)
		case c == ' ' || c == '_':
			out.WriteByte('-')
		}
	}
	s = strings.Trim(out.String(), "-")
	if len(s) > 63 {
		s = strings.Trim(s[:63], "-")
	}
	return s
}
