package dhcp6

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/state"
)

// Bounds of what is taken from a message.
const (
	maxLeased = 8 // prefixes, and addresses
	maxDNS    = 8
	maxDomain = 8

	largest = 29 // a registry's allocation to an ISP without further ado (RIPE-738)
)

// decode reads a message as a client takes it. An option that can't be read is
// kept as bytes, which nobody looks at.
func decode(b []byte) (*dhcpv6.Message, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("%d bytes are no DHCPv6 message", len(b))
	}
	m := &dhcpv6.Message{MessageType: dhcpv6.MessageType(b[0])}
	copy(m.TransactionID[:], b[1:4])
	if m.MessageType != dhcpv6.MessageTypeAdvertise && m.MessageType != dhcpv6.MessageTypeReply {
		return nil, fmt.Errorf("a client takes no %s", m.MessageType)
	}
	err := m.Options.FromBytesWithParser(b[4:], func(code dhcpv6.OptionCode, data []byte) (dhcpv6.Option, error) {
		if o, err := dhcpv6.ParseOption(code, data); err == nil {
			return o, nil
		}
		return &dhcpv6.OptionGeneric{OptionCode: code, OptionData: slices.Clone(data)}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read a %s: %w", m.MessageType, err)
	}
	return m, nil
}

// options returns what is in an option list with a code, and was understood.
func options[T dhcpv6.Option](os dhcpv6.Options, code dhcpv6.OptionCode) []T {
	var out []T
	for _, o := range os.Get(code) {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// duid is the DUID in an option, in hex; "" if there is none. One sent twice is
// nobody's.
func duid(os dhcpv6.Options, code dhcpv6.OptionCode) string {
	found := os.Get(code)
	if len(found) != 1 {
		return ""
	}
	b := found[0].ToBytes()
	if len(b) < 3 || len(b) > 130 { // RFC 8415, 11.1
		return ""
	}
	return hex.EncodeToString(b)
}

// status is a status code and what the server says to it; Success if none is there.
func status(os dhcpv6.Options) (iana.StatusCode, string) {
	if s := options[*dhcpv6.OptStatusCode](os, dhcpv6.OptionStatusCode); len(s) > 0 {
		return s[0].StatusCode, printable(s[0].StatusMessage)
	}
	return iana.StatusSuccess, ""
}

// preference is option 7: 0 to 255.
func preference(m *dhcpv6.Message) int {
	if o := m.Options.GetOne(dhcpv6.OptionPreference); o != nil {
		if b := o.ToBytes(); len(b) == 1 {
			return int(b[0])
		}
	}
	return 0
}

// maxRT is option 82 or 83 where it is within its bounds.
func maxRT(m *dhcpv6.Message, code dhcpv6.OptionCode) (time.Duration, bool) {
	o := m.Options.GetOne(code)
	if o == nil {
		return 0, false
	}
	b := o.ToBytes()
	if len(b) != 4 {
		return 0, false
	}
	d := time.Duration(binary.BigEndian.Uint32(b)) * time.Second
	return d, d >= minMaxRT && d <= maxMaxRT
}

// ia is one identity association of a message: IA_PD or IA_NA.
type ia struct {
	there  bool
	code   iana.StatusCode
	says   string
	t1, t2 time.Duration
	leased []state.Leased6
	ended  []netip.Prefix // sent with a valid lifetime of 0: not to be used any more
}

// has says whether the server gives something.
func (a ia) has() bool { return a.there && a.code == iana.StatusSuccess && len(a.leased) > 0 }

// prefixes reads the IA_PD with our IAID.
func prefixes(m *dhcpv6.Message, iaid [4]byte, note func(string, ...any)) ia {
	for _, o := range options[*dhcpv6.OptIAPD](m.Options.Options, dhcpv6.OptionIAPD) {
		if o.IaId != iaid {
			continue
		}
		a := ia{there: true, t1: o.T1, t2: o.T2}
		a.code, a.says = status(o.Options.Options)
		for _, p := range options[*dhcpv6.OptIAPrefix](o.Options.Options, dhcpv6.OptionIAPrefix) {
			if code, _ := status(p.Options.Options); code != iana.StatusSuccess {
				continue
			}
			a.add(prefixOf(p.Prefix), p.PreferredLifetime, p.ValidLifetime, note)
		}
		return a.timed(note)
	}
	return ia{}
}

// addresses reads the IA_NA with our IAID.
func addresses(m *dhcpv6.Message, iaid [4]byte, note func(string, ...any)) ia {
	for _, o := range options[*dhcpv6.OptIANA](m.Options.Options, dhcpv6.OptionIANA) {
		if o.IaId != iaid {
			continue
		}
		a := ia{there: true, t1: o.T1, t2: o.T2}
		a.code, a.says = status(o.Options.Options)
		for _, p := range options[*dhcpv6.OptIAAddress](o.Options.Options, dhcpv6.OptionIAAddr) {
			if code, _ := status(p.Options.Options); code != iana.StatusSuccess {
				continue
			}
			ip, _ := netip.AddrFromSlice(p.IPv6Addr)
			a.add(netip.PrefixFrom(ip, 128), p.PreferredLifetime, p.ValidLifetime, note)
		}
		return a.timed(note)
	}
	return ia{}
}

// add takes a prefix or an address into a.
func (a *ia) add(p netip.Prefix, preferred, valid time.Duration, note func(string, ...any)) {
	switch {
	case !usable(p):
		note("%s is nothing that an ISP can lease: left out", p)
	case valid == 0:
		a.ended = append(a.ended, p)
	case preferred > valid: // RFC 8415, 21.6, 21.22
		note("%s would be preferred for longer than it is valid: left out", p)
	case len(a.leased) < maxLeased && !slices.ContainsFunc(a.leased, func(o state.Leased6) bool { return o.Prefix.Overlaps(p) }):
		a.leased = append(a.leased, state.Leased6{Prefix: p, Preferred: preferred, Valid: valid})
	}
}

// timed sees to T1 and T2 (RFC 8415, 21.21): where the server leaves them to us, or
// has them later than the first of them ends, they are a half and four fifths of the
// shortest preferred lifetime.
func (a ia) timed(note func(string, ...any)) ia {
	if a.t1 > a.t2 && a.t2 > 0 {
		note("T1 is after T2: what came with them is left out")
		a.leased = nil
		return a
	}
	shortest, end := state.Forever, state.Forever
	for _, p := range a.leased {
		shortest, end = min(shortest, cmp.Or(p.Preferred, p.Valid)), min(end, p.Valid)
	}
	if shortest == state.Forever {
		if a.t1 == 0 {
			a.t1 = state.Forever
		}
		if a.t2 == 0 {
			a.t2 = state.Forever
		}
		return a
	}
	if a.t2 == 0 || a.t2 >= end {
		a.t2 = shortest / 10 * 8
	}
	if a.t1 == 0 || a.t1 > a.t2 {
		a.t1 = min(shortest/2, a.t2)
	}
	a.t1 = max(a.t1, min(minT1, a.t2))
	return a
}

// usable says whether a prefix is one that an ISP can give to a house: global or
// unique local unicast, a whole network, and none that is larger than what ISPs
// have themselves: all of it would be the house's and nobody else's.
func usable(p netip.Prefix) bool {
	return p.IsValid() && p.Addr().Is6() && !p.Addr().Is4In6() && p.Bits() >= largest && p == p.Masked() &&
		p.Addr().IsGlobalUnicast() && !p.Addr().IsLinkLocalUnicast()
}

// prefixOf is n without its host bits; invalid if it is none.
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, size := n.Mask.Size()
	if !ok || size != 128 {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// other fills in what a lease holds beside its prefixes and addresses.
func other(l *state.Lease6, m *dhcpv6.Message) {
	l.ServerID = duid(m.Options.Options, dhcpv6.OptionServerID)
	for _, ip := range m.Options.DNS() {
		if a, ok := netip.AddrFromSlice(ip); ok && a.Is6() && !a.Is4In6() && a.IsGlobalUnicast() && len(l.DNS) < maxDNS && !slices.Contains(l.DNS, a) {
			l.DNS = append(l.DNS, a)
		}
	}
	if list := m.Options.DomainSearchList(); list != nil {
		for _, d := range list.Labels {
			if d = domainOf(d); d != "" && len(l.Domain) < maxDomain && !slices.Contains(l.Domain, d) {
				l.Domain = append(l.Domain, d)
			}
		}
	}
}

// domainOf takes a domain name that consists of what host names consist of (RFC
// 1123), and "" for anything else.
func domainOf(s string) string {
	s = strings.ToLower(strings.Trim(s, "."))
	if len(s) > 253 {
		return ""
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}) {
			return ""
		}
	}
	return s
}

// printable is a server's text, for a log line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, s[:min(len(s), 200)])
}

// parseDUID reads a DUID in hex.
func parseDUID(s string) (dhcpv6.DUID, error) {
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no DUID: %w", s, err)
	}
	d, err := dhcpv6.DUIDFromBytes(b)
	if err != nil || len(b) < 3 {
		return nil, errors.Join(fmt.Errorf("%q is no DUID", s), err)
	}
	return d, nil
}
