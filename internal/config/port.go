package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// String is the range as the file has it.
func (r PortRange) String() string {
	if r.From == r.To {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

func (r PortRange) overlaps(q PortRange) bool { return r.From <= q.To && q.From <= r.To }

func (c *checker) port(k *key, e hclsyntax.Expression) (any, bool) {
	if s, ok := number(e); ok {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 {
			return c.wrong(k, e.Range(), s, "Ports are 1 to 65535.")
		}
		return PortRange{uint16(n), uint16(n)}, true
	}
	s, ok := c.text(k, e)
	if !ok {
		return nil, false
	}
	from, to, isRange := strings.Cut(s, "-")
	a, errA := strconv.ParseUint(strings.TrimSpace(from), 10, 16)
	b, errB := strconv.ParseUint(strings.TrimSpace(to), 10, 16)
	got := fmt.Sprintf("%q", s)
	switch {
	case !isRange && errA == nil && a > 0:
		return c.wrong(k, e.Range(), got, fmt.Sprintf("Write %d, without quotes.", a))
	case strings.Contains(s, ",") && allPorts(s):
		return c.wrong(k, e.Range(), got, fmt.Sprintf("A list: [%s]", strings.Join(splitTrim(s, ","), ", ")))
	case !isRange:
		return c.wrong(k, e.Range(), got, `Ports are numbers, 1 to 65535: 443, or "10000-20000".`)
	case errA != nil || errB != nil || a == 0 || b == 0:
		return c.wrong(k, e.Range(), got, "Ports are 1 to 65535.")
	case a > b:
		return c.wrong(k, e.Range(), got, fmt.Sprintf("The lower one first: \"%d-%d\"", b, a))
	case s != fmt.Sprintf("%d-%d", a, b):
		return c.wrong(k, e.Range(), got, fmt.Sprintf("Write \"%d-%d\"", a, b))
	}
	return PortRange{uint16(a), uint16(b)}, true
}

func allPorts(s string) bool {
	for _, p := range splitTrim(s, ",") {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	return true
}

func splitTrim(s, sep string) []string {
	parts := strings.Split(s, sep)
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// ParseProtocol reads the name of a protocol that has one in the language.
func ParseProtocol(name string) (Protocol, error) {
	switch name {
	case "tcp":
		return TCP, nil
	case "udp":
		return UDP, nil
	case "icmp":
		return ICMP, nil
	}
	return AnyProtocol, fmt.Errorf("%q is no protocol: it is tcp, udp or icmp", name)
}

func (c *checker) protocol(k *key, e hclsyntax.Expression) (any, bool) {
	if s, ok := number(e); ok && k.words == nil {
		n, err := strconv.ParseUint(s, 10, 8)
		if err != nil || n == 0 {
			return c.wrong(k, e.Range(), s, "IANA's protocol numbers are 1 to 255.")
		}
		return Protocol(n), true
	}
	s, ok := c.text(k, e)
	if !ok {
		return nil, false
	}
	if p, err := ParseProtocol(s); err == nil && (k.words == nil || p != ICMP) { // a forward's has words
		return p, true
	}
	detail := `It is "tcp" or "udp".`
	if k.words == nil {
		detail = `It is "tcp", "udp", "icmp" or one of IANA's numbers.`
	}
	return c.wrong(k, e.Range(), fmt.Sprintf("%q", s), detail)
}
