package ruleset

import (
	"fmt"
	"net/netip"
	"strings"

	"weir/internal/config"
)

// asked is protocol and port as people say them.
func (x *explain) asked() string {
	name := map[config.Protocol]string{config.TCP: "tcp", config.UDP: "udp", config.ICMP: "icmp"}[x.Protocol]
	if name == "" {
		name = fmt.Sprintf("protocol %d", x.Protocol)
	}
	if x.Port == 0 {
		return name
	}
	return fmt.Sprintf("%s %d", name, x.Port)
}

func wayText(r *config.Route) string {
	lines := make([]string, len(r.WANs))
	for i, w := range r.WANs {
		lines[i] = "wan." + w
	}
	if len(lines) == 1 {
		return fmt.Sprintf("%s = %s", r.Way, lines[0])
	}
	return fmt.Sprintf("%s = [%s]", r.Way, strings.Join(lines, ", "))
}

func placeTexts(ps []config.Place) string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func prefixTexts(ps []netip.Prefix) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.Masked().String()
	}
	return out
}

func addrTexts(as []netip.Addr) string {
	if len(as) == 0 {
		return "it has none"
	}
	out := make([]string, len(as))
	for i, a := range as {
		out[i] = a.String()
	}
	return strings.Join(out, ", ")
}

// holds says whether a prefix as text, or an address, holds a.
func holds(text string, a netip.Addr) bool {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Contains(a)
	}
	b, err := netip.ParseAddr(text)
	return err == nil && a == b
}
