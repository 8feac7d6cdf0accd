package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// target reads who is asked, and how: ADDRESS, tcp://ADDRESS:PORT, or
// dns://ADDRESS[:PORT][/NAME].
func (c *checker) target(k *key, s string, at hcl.Range) (any, bool) {
	wrong := func(detail string) (any, bool) { return c.wrong(k, at, strconv.Quote(s), detail) }
	scheme, rest, isURL := strings.Cut(s, "://")
	t := Target{Ask: AskEcho}
	switch {
	case !isURL:
		rest = s
	case scheme == "tcp" || scheme == "dns":
		t.Ask = Ask(scheme)
	case scheme == "https":
		c.later(at, "a https:// target")
		return nil, false
	default:
		if scheme == "icmp" || scheme == "ping" || scheme == "echo" {
			return wrong(fmt.Sprintf("An address alone is asked for an echo: %q", rest))
		}
		return wrong(`It is an address, "tcp://ADDRESS:PORT" or "dns://ADDRESS/NAME".`)
	}
	host, name, hasName := strings.Cut(rest, "/")
	if t.Ask != AskDNS && hasName {
		if t.Ask == AskTCP {
			return wrong(fmt.Sprintf("Nothing is asked for there: \"tcp://%s\"", host))
		}
		if p, err := netip.ParsePrefix(s); err == nil {
			return wrong(fmt.Sprintf("Without the length: %q", p.Addr()))
		}
		return wrong("")
	}
	if a, ok := mapped(host); ok {
		return wrong(fmt.Sprintf("Write it as IPv4: %q", a))
	}
	if a, ok := addr(host); ok && t.Ask != AskTCP {
		t.Addr = a
	} else if a, ok := addr(strings.Trim(host, "[]")); ok {
		if t.Ask == AskTCP {
			return wrong(fmt.Sprintf("The port is missing: \"tcp://%s\"", netip.AddrPortFrom(a, 443)))
		}
		t.Addr = a
	} else if ap, err := netip.ParseAddrPort(host); err == nil && ap.Addr().Zone() == "" && !ap.Addr().Is4In6() && ap.Port() != 0 {
		if t.Ask == AskEcho {
			return wrong(fmt.Sprintf("An echo has no port. For a connection: \"tcp://%s\"", host))
		}
		t.Addr, t.Port = ap.Addr(), ap.Port()
	} else if a, port, ok := lastColon(host); ok {
		n, err := strconv.Atoi(port)
		switch {
		case err != nil || n < 1 || n > 65535:
			return wrong("A port is 1 to 65535.")
		case a.Is6():
			return wrong(fmt.Sprintf("An IPv6 address with a port stands in brackets: \"%s://%s\"", t.Ask, netip.AddrPortFrom(a, uint16(n))))
		}
		return wrong("")
	} else {
		return wrong("A probe goes to an address: to look up a name it would need the line that is being tried.")
	}
	if why := unfit(t.Addr); why != "" {
		return c.wrong(k, at, t.Addr.String(), fmt.Sprintf("It is %s; nobody out there would answer.", why))
	}
	if t.Ask == AskDNS {
		if t.Port == 0 {
			t.Port = 53
		}
		t.Name = strings.ToLower(strings.TrimSuffix(name, "."))
		if t.Name != "" && !validDomain(t.Name) {
			return wrong(fmt.Sprintf("%q is no name that could be asked for. Without one the root is: \"dns://%s\"", name, host))
		}
	}
	return t, true
}

// lastColon splits an address and a port that can't be read as both.
func lastColon(s string) (a netip.Addr, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return a, "", false
	}
	a, ok = addr(strings.Trim(s[:i], "[]"))
	return a, s[i+1:], ok
}

// checkTargets checks who is asked by a probe block, and says what of it is of no use.
func (c *checker) checkTargets(h *house, probe *node) {
	for _, it := range probe.items("target") {
		t, _ := it.val.(Target)
		if own, at := h.gatewayAddr(t.Addr); own != "" {
			c.err(it.at, fmt.Sprintf("It answers whatever the line does (%s).", line(at, it.at)), "%s is the gateway itself", t.Addr)
		}
	}
}

// checkProbe checks the probe block of a WAN.
func (c *checker) checkProbe(h *house, n *node, w *WAN) {
	probe := n.child("probe")
	c.checkTargets(h, probe)
	lacks := map[bool]bool{false: w.IPv4.Method == MethodNone, true: w.IPv6.Method == MethodNone}
	for _, it := range probe.items("target") {
		if t, _ := it.val.(Target); lacks[t.Addr.Is6()] {
			c.note(it.at, fmt.Sprintf("wan %q has no %s.", w.Name, map[bool]string{false: "IPv4", true: "IPv6"}[t.Addr.Is6()]), "%s is never asked", t)
		}
	}
}
