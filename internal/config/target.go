package config

import (
	"fmt"
	"net/netip"
	"slices"
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

// checkTargets checks who is asked by a probe block on the lines of wans, and says
// what of it is of no use. What is asked unsaid is told where the file gets into its
// way.
func (c *checker) checkTargets(h *house, probe *node, wans []int) {
	said := probe.said("target") != nil
	for _, it := range probe.items("target") {
		t, _ := it.val.(Target)
		if !t.Addr.IsValid() {
			continue
		}
		own, at := h.gatewayAddr(t.Addr)
		switch {
		case own != "" && said:
			c.err(it.at, fmt.Sprintf("It answers whatever the line does (%s).", line(at, it.at)), "%s is the gateway itself", t.Addr)
		case own != "":
			c.err(at, "Lines are tried by it, unless target in failover's probe says others; this gateway answers whatever they do.", "%s is somebody out in the internet", t.Addr)
		default:
			c.noteNear(h, it, t.Addr, said, wans)
		}
	}
}

// noteNear says of who is asked that it is not out in the internet: it tells of less
// than the line, or of nothing.
func (c *checker) noteNear(h *house, it item, a netip.Addr, said bool, wans []int) {
	const near = "It answers while all behind it is dark, and the house stays on a dead line. Ask somebody out in the internet."
	where := func(n *node) hcl.Range {
		if said {
			return it.at
		}
		return n.at()
	}
	for i, n := range h.lans {
		if slices.ContainsFunc(h.networks(i), func(p netip.Prefix) bool { return p.Contains(a) }) {
			c.note(where(n), fmt.Sprintf("It is asked over the line, and nobody out there has an address of lan %q (%s).", n.label, line(n.at(), where(n))),
				"%s never answers", a)
			return
		}
	}
	for _, i := range wans {
		n, w := h.wans[i], &h.WANs[i]
		if a == w.IPv4.Gateway || a == w.IPv6.Gateway {
			c.note(where(n), near, "%s is the ISP's own router of wan %q", a, w.Name)
			return
		}
		for _, own := range slices.Concat(n.child("ipv4").items("address"), n.child("ipv6").items("address")) {
			if p, ok := own.val.(netip.Prefix); ok && p.Masked().Contains(a) {
				c.note(where(n), near, "%s is in wan %q's own network", a, w.Name)
				return
			}
		}
	}
	if a.IsPrivate() || sharedSpace.Contains(a) {
		c.note(it.at, near, "%s is private: it can be the ISP's own router at the most", a)
	}
}

// sharedSpace is what ISPs use between them and their customers (RFC 6598).
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// checkProbe checks the probe block of a WAN.
func (c *checker) checkProbe(h *house, i int) {
	n, w := h.wans[i], &h.WANs[i]
	probe := n.child("probe")
	c.checkTargets(h, probe, []int{i})
	lacks := map[bool]bool{false: w.IPv4.Method == MethodNone, true: w.IPv6.Method == MethodNone}
	for _, it := range probe.items("target") {
		if t, _ := it.val.(Target); lacks[t.Addr.Is6()] {
			c.note(it.at, fmt.Sprintf("wan %q has no %s.", w.Name, map[bool]string{false: "IPv4", true: "IPv6"}[t.Addr.Is6()]), "%s is never asked", t)
		}
	}
}
