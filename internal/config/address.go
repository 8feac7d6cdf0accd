package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// addr reads an address without zone and length.
func addr(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	return a, err == nil && a.Zone() == "" && !a.Is4In6()
}

// mapped is the IPv4 address that one mapped into IPv6 means (RFC 4291, 2.5.5.2),
// with a port or without.
func mapped(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		ap, _ := netip.ParseAddrPort(s)
		a = ap.Addr()
	}
	return a.Unmap(), a.Is4In6()
}

func (c *checker) ip(k *key, s string, at hcl.Range) (any, bool) {
	a, ok := addr(s)
	if !ok {
		detail := ""
		if a, ok := mapped(s); ok {
			detail = fmt.Sprintf("Write it as IPv4: %q", a)
		} else if p, err := netip.ParsePrefix(s); err == nil {
			detail = fmt.Sprintf("Without the length: %q", p.Addr())
		} else if strings.Contains(s, "%") {
			detail = "Without the interface: it is known from the block."
		}
		return c.wrong(k, at, strconv.Quote(s), detail)
	}
	return a, true
}

// ipLen reads an own address with its network.
func (c *checker) ipLen(k *key, s string, at hcl.Range) (any, bool) {
	if a, ok := addr(s); ok {
		detail := fmt.Sprintf("Write \"%s/24\" if it has 254 addresses (mask 255.255.255.0).", a)
		if a.Is6() {
			detail = fmt.Sprintf("Write \"%s/64\": networks with devices have 64 bits.", a)
		}
		c.err(at, detail, "the size of the network is missing")
		return nil, false
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		detail := ""
		if a, mask, ok := strings.Cut(s, "/"); ok {
			if m := net.ParseIP(mask).To4(); m != nil {
				if ones, bits := net.IPMask(m).Size(); bits == 32 {
					detail = fmt.Sprintf("Write \"%s/%d\"", a, ones)
				}
			}
		}
		return c.wrong(k, at, strconv.Quote(s), detail)
	}
	if why := unfit(p.Addr()); why != "" {
		c.err(at, "Something on a link needs an address that can be reached.", "%s is %s", p.Addr(), why)
		return nil, false
	}
	if p.Addr().Is4() && p.Bits() < 31 && (p.Addr() == p.Masked().Addr() || p.Addr() == lastAddr(p)) ||
		p.Addr().Is6() && p.Bits() < 127 && p.Addr() == p.Masked().Addr() {
		what := "this is the network, not an address in it"
		if p.Addr() != p.Masked().Addr() {
			what = "this is the network's broadcast address"
		}
		c.err(at, fmt.Sprintf("The gateway needs one of its own: \"%s/%d\"?", p.Masked().Addr().Next(), p.Bits()), "%s", what)
		return nil, false
	}
	return p, true
}

// unfit says why nobody can have an address; "" if somebody can.
func unfit(a netip.Addr) string {
	switch {
	case a.IsUnspecified() || a.Is4() && a.As4()[0] == 0:
		return "no address of anybody"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast():
		return "a multicast address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.Is4() && a.As4()[0] >= 240:
		return "no unicast address"
	}
	return ""
}

// lastAddr is the highest address of a network; in IPv4 its broadcast address.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		bits := p.Bits() - 8*i
		switch {
		case bits <= 0:
			b[i] = 0xff
		case bits < 8:
			b[i] |= 0xff >> bits
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func (c *checker) prefix(k *key, s string, at hcl.Range) (any, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		detail := ""
		if a, ok := addr(s); ok {
			detail = fmt.Sprintf("The size is missing: \"%s/24\"?", a)
			if a.Is6() {
				detail = fmt.Sprintf("The size is missing: \"%s/64\"?", a)
			}
		}
		return c.wrong(k, at, strconv.Quote(s), detail)
	}
	if p != p.Masked() {
		return c.wrong(k, at, strconv.Quote(s), fmt.Sprintf("It has bits beyond its length. The network is %q", p.Masked()))
	}
	return p, true
}

func (c *checker) mac(k *key, s string, at hcl.Range) (any, bool) {
	m, err := net.ParseMAC(s)
	switch {
	case err != nil || len(m) != 6:
		return c.wrong(k, at, strconv.Quote(s), `It has six bytes: "02:00:00:00:00:23".`)
	case m[0]&1 != 0:
		return c.wrong(k, at, m.String(), "It is a group address (the first byte is odd); no card has one.")
	case m.String() == "00:00:00:00:00:00":
		return c.wrong(k, at, m.String(), "No card has it.")
	}
	return m.String(), true
}

// ends are the addresses of "FROM-TO", or twice a single one, and what stands for the
// second; those that are none are invalid.
func ends(s string) (a, b netip.Addr, second string) {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	second = strings.TrimSpace(to)
	a, _ = addr(strings.TrimSpace(from))
	b, _ = addr(second)
	return a, b, second
}

// ipRange reads "FROM-TO", or a single address.
func (c *checker) ipRange(k *key, s string, at hcl.Range) (any, bool) {
	a, b, short := ends(s)
	switch {
	case !a.Is4() || !b.Is4():
		detail := `It looks like "10.0.10.100-10.0.10.200".`
		if a.Is4() && short != "" && strings.Trim(short, "0123456789") == "" {
			whole := a.String()
			detail = fmt.Sprintf("Both in full: \"%s-%s.%s\"", a, whole[:strings.LastIndexByte(whole, '.')], short)
		}
		return c.wrong(k, at, strconv.Quote(s), detail)
	case b.Less(a):
		return c.wrong(k, at, strconv.Quote(s), fmt.Sprintf("The lower one first: \"%s-%s\"", b, a))
	}
	return Range{a, b}, true
}

func (c *checker) server(k *key, s string, at hcl.Range) (any, bool) {
	rest, tls := strings.CutPrefix(s, "tls://")
	host, name, hasName := strings.Cut(rest, "#")
	port := uint16(53)
	if tls {
		port = 853 // RFC 7858, 3.1
	}
	srv := Server{TLS: tls, Name: name}
	if a, ok := addr(strings.Trim(host, "[]")); ok {
		srv.Addr = netip.AddrPortFrom(a, port)
	} else if ap, err := netip.ParseAddrPort(host); err == nil && ap.Addr().Zone() == "" && !ap.Addr().Is4In6() && ap.Port() != 0 {
		srv.Addr = ap
	} else {
		return c.wrong(k, at, strconv.Quote(s), `It is an address, "9.9.9.9", or "tls://9.9.9.9#dns.quad9.net": a name could not be looked up yet.`)
	}
	switch why := unfit(srv.Addr.Addr()); {
	case why != "" && !srv.Addr.Addr().IsLoopback():
		return c.wrong(k, at, strconv.Quote(s), fmt.Sprintf("%s is %s.", srv.Addr.Addr(), why))
	case tls && !validDomain(name):
		return c.wrong(k, at, strconv.Quote(s), `With tls:// the name that its certificate has to prove stands behind #: "tls://9.9.9.9#dns.quad9.net".`)
	case !tls && hasName:
		return c.wrong(k, at, strconv.Quote(s), "A name is proved by TLS only: tls://...")
	}
	return srv, true
}
