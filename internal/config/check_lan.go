package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

func (c *checker) checkLAN(h *house, i int) {
	n, l := h.lans[i], &h.LANs[i]
	var v4 hcl.Range
	for _, it := range n.items("address") {
		p, _ := it.val.(netip.Prefix)
		if p.IsSingleIP() {
			c.err(it.at, "There is no room for a device in it.", "%s is a network of one address", p)
		}
		switch {
		case p.Addr().Is4() && v4.Filename != "":
			c.err(it.at, fmt.Sprintf("%s is the first. A second network is a LAN of its own.", l.Address4), "lan %q has two IPv4 addresses", l.Name)
		case p.Addr().Is4():
			v4 = it.at
		case p.Bits() != 64 && !p.IsSingleIP() && l.Advertise.Enabled && n.child("advertise").said("prefix") == nil:
			c.note(it.at, "Devices make their own addresses in a /64 only (RFC 4862).", "%s is not advertised", p.Masked())
		}
	}
	c.checkDHCP(h, i)
	c.checkDHCP6(h, i)
	c.checkAdvertise(n.child("advertise"), &l.Advertise)
}

func (c *checker) checkAdvertise(a *node, l *Advertise) {
	for _, it := range a.items("router_lifetime") {
		if l.Router > 0 && l.Router < 30*time.Second {
			c.err(it.at, "Advertisements would have to come every few seconds. 0s: the gateway is no router; else at least 30s.", "%v is too short", l.Router)
		}
	}
	if at := a.said("valid_lifetime"); l.Preferred > l.Valid && !a.bad("preferred_lifetime") && !a.bad("valid_lifetime") {
		if at == nil {
			at = a.said("preferred_lifetime")
		}
		c.err(at.value, fmt.Sprintf("preferred_lifetime is %s, valid_lifetime %s.", durationText(int64(l.Preferred)), durationText(int64(l.Valid))), "an address can't be preferred for longer than it is valid")
	}
	for _, it := range a.items("pref64") {
		p, _ := it.val.(netip.Prefix)
		switch {
		case !p.Addr().Is6():
			c.err(it.at, "It is the IPv6 network that stands for all of IPv4: \"64:ff9b::/96\".", "%s is no IPv6 network", p)
		case !slices.Contains([]int{96, 64, 56, 48, 40, 32}, p.Bits()):
			c.err(it.at, "RFC 6052 has /96, /64, /56, /48, /40 and /32.", "a NAT64 has no /%d", p.Bits())
		}
	}
	for _, it := range a.items("captive_portal") {
		s, _ := it.val.(string)
		if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" {
			c.err(it.at, `"https://portal.example/api" (RFC 8908, 4.1).`, "%q is no URL of a captive portal's API", s)
		}
	}
	for _, it := range a.items("prefix") {
		p, _ := it.val.(netip.Prefix)
		switch {
		case !p.Addr().Is6():
			c.err(it.at, "Router advertisements are IPv6's; IPv4 has dhcp.", "%s is no IPv6 network", p)
		case p.Bits() != 64:
			c.err(it.at, "Devices make their own addresses in a /64 only (RFC 4862).", "%s is no /64", p)
		case unfit(p.Addr()) != "":
			c.err(it.at, "It takes a network that the gateway routes.", "%s is %s", p.Addr(), unfit(p.Addr()))
		}
	}
	for _, it := range a.items("dns") {
		if ip, _ := it.val.(netip.Addr); !ip.Is6() {
			c.err(it.at, "Router advertisements are IPv6's. In IPv4: dhcp { option = { domain-name-servers = ... } }", "%s is no IPv6 address", ip)
		}
	}
}

// taken is who has a thing that only one can have.
type taken struct {
	at   hcl.Range
	host string
}

func (c *checker) checkHosts(h *house) {
	macs := make(map[string]taken)
	addrs := make(map[netip.Addr]taken)
	names := make(map[string]taken)
	ids := make(map[string]taken)
	duids := make(map[string]taken)
	for i := range h.LANs {
		tokens := make(map[netip.Addr]taken)
		for j, n := range h.hosts[i] {
			host := &h.LANs[i].Hosts[j]
			if n.said("mac") == nil && n.said("address") == nil && n.said("client_id") == nil && n.said("duid") == nil {
				c.err(n.at(), `Say mac = "...", and DHCP knows it, or address = "..." if it has a fixed one.`, "nobody can tell which device host %q is", n.label)
			}
			c.checkHostName(h, n, host, names)
			for _, it := range n.items("mac") {
				m, _ := it.val.(string)
				first, ok := macs[m]
				if ok {
					c.err(it.at, fmt.Sprintf(`%s has it too. One host with several cards: mac = ["...", "..."].`, sentence(line(first.at, it.at))), "%s belongs to another host", m)
					continue
				}
				macs[m] = taken{it.at, n.label}
			}
			for _, it := range n.items("client_id") {
				c.checkClientID(it, host, ids)
			}
			for _, it := range n.items("duid") {
				c.checkDUID(it, host, duids)
			}
			for _, it := range n.items("address") {
				a, _ := it.val.(netip.Addr)
				if isToken(a) {
					c.checkToken(h, i, it, a, tokens)
				} else {
					c.checkHostAddr(h, i, it, a)
				}
				for _, full := range h.HostAddrs(&Host{LAN: host.LAN, Address: pick(a, false), Token: pick(a, true)}, h.Gateway.ULA) {
					if first, ok := addrs[full]; ok {
						c.err(it.at, fmt.Sprintf("%s has it.", sentence(line(first.at, it.at))), "%s is taken", full)
						break
					}
					addrs[full] = taken{it.at, n.label}
				}
			}
		}
	}
}

// pick returns a in a list if it is a token as asked for.
func pick(a netip.Addr, token bool) []netip.Addr {
	if isToken(a) == token {
		return []netip.Addr{a}
	}
	return nil
}

func (c *checker) checkHostName(h *house, n *node, host *Host, names map[string]taken) {
	at := n.at()
	if a := n.said("name"); a != nil {
		at = a.value
	}
	switch first, ok := names[host.DNSName]; {
	case n.bad("name"):
	case host.DNSName == h.Gateway.Name:
		c.err(at, "The gateway is called so. The device can have another name in DNS: name = \"...\"", "%q is the gateway's own name", host.DNSName)
	case notHostNames[host.DNSName] != "":
		c.err(at, notHostNames[host.DNSName], "no host can be called %q", host.DNSName)
	case ok && first.host != n.label:
		c.err(at, fmt.Sprintf("%s has it.", sentence(line(first.at, at))), "the name %q is taken", host.DNSName)
	default:
		names[host.DNSName] = taken{at, n.label}
	}
}

func (c *checker) checkToken(h *house, lan int, it item, a netip.Addr, tokens map[netip.Addr]taken) {
	l := &h.LANs[lan]
	if a.IsUnspecified() {
		c.err(it.at, `It is each router's (RFC 4291, 2.6.1). Write "::23".`, ":: is no address of a device")
		return
	}
	own := []netip.Addr{netip.MustParseAddr("::1")}
	if len(l.Address6) > 0 {
		own = nil
	}
	for _, p := range l.Address6 {
		end, _ := Join6(netip.MustParsePrefix("::/64"), p.Addr())
		own = append(own, end)
	}
	if slices.Contains(own, a) {
		c.err(it.at, fmt.Sprintf("The gateway ends so in lan %q.", l.Name), "%s is taken", a)
		return
	}
	if first, ok := tokens[a]; ok {
		c.err(it.at, fmt.Sprintf("%s has it.", sentence(line(first.at, it.at))), "%s is taken", a)
		return
	}
	tokens[a] = taken{at: it.at}
}

func (c *checker) checkHostAddr(h *house, lan int, it item, a netip.Addr) {
	l, n := &h.LANs[lan], h.lans[lan]
	if n.bad("address") {
		return
	}
	if own, at := h.gatewayAddr(a); own != "" {
		c.err(it.at, fmt.Sprintf("It is the gateway's own, in %s.", line(at, it.at)), "%s is taken", a)
		return
	}
	nets := h.networks(lan)
	var texts []string
	for _, p := range nets {
		if p.Addr().Is4() == a.Is4() {
			texts = append(texts, p.String())
		}
	}
	switch {
	case len(texts) == 0 && a.Is4():
		c.err(it.at, "The LAN has IPv6 only.", "%s is outside lan %q", a, l.Name)
	case len(texts) == 0:
		c.err(it.at, `Its IPv6 network is weir's choice, so write the lower half, "::23"; or give the LAN an address of IPv6.`, "%s is outside lan %q", a, l.Name)
	case !slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(a) }):
		c.err(it.at, fmt.Sprintf("Its networks: %s.", strings.Join(texts, ", ")), "%s is outside lan %q", a, l.Name)
	case a.Is4() && l.Address4.Bits() < 31 && a == l.Address4.Masked().Addr():
		c.err(it.at, "That is the network itself.", "%s is no address of a device", a)
	case a.Is4() && l.Address4.Bits() < 31 && a == lastAddr(l.Address4):
		c.err(it.at, "That is the network's broadcast address.", "%s is no address of a device", a)
	}
}
