package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// check makes the checks that take two values to see. Each leaves alone what
// was reported before: a mistake is told once. None is made that what could not be
// read may have an answer to.
func (c *checker) check(h *house) {
	if len(h.wans) == 0 && len(h.lans) > 0 && !c.hidden("wan") {
		c.note(c.whole(), "Nothing leaves the house.", "there is no WAN")
	}
	if len(h.lans) == 0 && !c.hidden("lan") {
		c.err(c.whole(), "Without one nobody could reach this gateway again. See `weir help lan`.", "there is no LAN")
	}
	places := c.hidden("gateway", "wan", "lan", "group") // what others point at
	networks := c.hidden("gateway", "wan", "lan")
	if !networks {
		c.checkGateway(h)
	}
	c.checkLinks(h)
	for i := range h.wans {
		c.checkWAN(h, i)
	}
	if !networks {
		c.checkNetworks(h)
		for i := range h.lans {
			c.checkLAN(h, i)
		}
		c.checkHosts(h)
	}
	c.checkGroups(h)
	if places {
		c.uniqueLabels(h.rules)
		c.uniqueLabels(h.fwds)
		c.uniqueLabels(h.routes)
		for i, n := range h.fwds {
			c.checkToPort(n, &h.Forwards[i])
		}
		for _, n := range h.routes {
			c.saidWays(n)
		}
	} else {
		c.checkRules(h)
		c.checkForwards(h)
		if !c.hidden("failover") {
			c.checkRoutes(h)
			c.checkFailover(h)
		}
		if !c.hidden("dns") {
			c.checkDNS(h)
		}
	}
	c.checkTime(h)
}

// notHostNames are names that must not lead to a device of the house.
var notHostNames = map[string]string{
	"localhost": "It is each machine itself (RFC 6761, 6.3).",
	"wpad":      "Browsers would take their proxy from it.",
	"isatap":    "Windows would tunnel its IPv6 to it.",
}

func (c *checker) checkGateway(h *house) {
	g := h.gw
	if why := notHostNames[h.Gateway.Name]; why != "" && g.syntax != nil {
		c.err(g.at(), why, "no gateway can be called %q", h.Gateway.Name)
	}
	for _, it := range g.items("domain") {
		d, _ := it.val.(string)
		if d == "local" || strings.HasSuffix(d, ".local") {
			c.note(it.at, "Some clients won't ask DNS for it. home.arpa is meant for homes (RFC 8375).", "local is mDNS's own domain (RFC 6762)")
		}
	}
	for _, it := range g.items("ula") {
		p, _ := it.val.(netip.Prefix)
		if p.Bits() != 48 || !netip.MustParsePrefix("fd00::/8").Contains(p.Addr()) {
			c.err(it.at, `It has 48 bits and starts with fd (RFC 4193, 3.1): "fd5e:7a11:c0de::/48"; leave it out, and one is made.`, "%s is no ULA prefix", p)
		}
	}
	if !h.Gateway.Cable4.IsValid() && !g.bad("cable") {
		c.err(c.whole(), "The LANs have all of it. Say where the cables may be: cable = ...", "there is no private IPv4 space left for the cables")
	}
	var v4, v6 bool
	for _, it := range g.items("cable") {
		p, _ := it.val.(netip.Prefix)
		had := &v6
		if p.Addr().Is4() {
			had = &v4
		}
		if *had {
			c.err(it.at, "One of IPv4 and one of IPv6: they are cut up for all cables.", "cables have one network of each family")
		}
		*had = true
		if why := unfit(p.Addr()); why != "" {
			c.err(it.at, `It takes private space, like "172.31.255.0/24" and "fd00:1::/64".`, "%s is %s", p.Addr(), why)
		}
		if room := p.Addr().BitLen() - p.Bits(); room < 1 || room < 10 && 1<<room < 2*len(h.WANs) {
			c.err(it.at, "Each cable takes two addresses, one for each end.", "%s has no room for %s", p, plural(len(h.WANs), "cable"))
		}
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func (c *checker) checkFailover(h *house) {
	n := h.root.child("failover")
	for _, it := range n.items("prefer") {
		if p, _ := it.val.(Place); p.Ref.Name == "" && len(n.items("prefer")) > 1 {
			c.err(it.at, "wan is all of them; name them one by one, or leave prefer out.", "wan can't stand beside others")
		}
	}
	var asked []int // WANs that say no targets of their own
	for i := range h.wans {
		if c.checkProbe(h, i); h.wans[i].child("probe").said("target") == nil {
			asked = append(asked, i)
		}
	}
	c.checkTargets(h, n.child("probe"), asked)
}

// gatewayAddr tells whether a is an address of the gateway in a LAN, which one's
// and where that is said.
func (h *house) gatewayAddr(a netip.Addr) (lan string, at hcl.Range) {
	for i, n := range h.lans {
		for _, it := range n.items("address") {
			if p, ok := it.val.(netip.Prefix); ok && p.Addr() == a {
				return h.LANs[i].Name, it.at
			}
		}
		for _, p := range h.Address6(h.LANs[i].Name, h.Gateway.ULA) {
			if p.Addr() == a {
				return h.LANs[i].Name, n.at()
			}
		}
	}
	return "", hcl.Range{}
}

// before tells whether a stands before b in the files.
func (c *checker) before(a, b hcl.Range) bool {
	if a.Filename != b.Filename {
		fileOf := func(name string) int {
			return slices.IndexFunc(c.files, func(f File) bool { return f.Name == name })
		}
		return fileOf(a.Filename) < fileOf(b.Filename)
	}
	return a.Start.Byte < b.Start.Byte
}
