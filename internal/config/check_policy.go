package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

func (c *checker) checkGroups(h *house) {
	for i, n := range h.groups {
		for _, it := range n.items("member") {
			p, _ := it.val.(Place)
			if p.Ref.Kind != KindGroup {
				continue
			}
			if p.Ref.Name == n.label || h.reaches(p.Ref.Name, n.label, nil) {
				how := "It is the group itself."
				if p.Ref.Name != n.label {
					how = fmt.Sprintf("group.%s leads back to it.", p.Ref.Name)
				}
				c.err(it.at, how, "group %q is in itself", h.Groups[i].Name)
			}
		}
	}
}

// reaches tells whether group from holds group to, directly or not.
func (h *house) reaches(from, to string, seen []string) bool {
	g := h.Group(from)
	if g == nil || slices.Contains(seen, from) {
		return false
	}
	seen = append(seen, from)
	return slices.ContainsFunc(g.Member, func(p Place) bool {
		return p.Ref.Kind == KindGroup && (p.Ref.Name == to || h.reaches(p.Ref.Name, to, seen))
	})
}

func (c *checker) checkRules(h *house) {
	c.uniqueLabels(h.rules)
	for i, n := range h.rules {
		r := &h.Rules[i]
		if n.said("from") == nil && n.said("to") == nil {
			c.err(n.at(), "Say from, to or both: anywhere to anywhere would be everything.", "%s says nothing about whom", n.called())
		}
		c.checkPorts(n)
		c.checkFamilies(h, n, r)
		if r.Verb != Allow {
			c.checkDestinations(h, n)
			if r.Slow {
				c.note(n.items("fast")[0].at, "Say it in the allow whose connections are to pass main's rules.", "%s refuses, and what is refused is never carried: fast says nothing here", n.called())
			}
		}
		if r.Verb == Allow {
			c.checkAllowFromWAN(h, n, r)
		}
	}
}

// checkPorts reports a port beside a protocol that has none.
func (c *checker) checkPorts(n *node) {
	if len(n.items("port")) == 0 || n.bad("protocol") {
		return
	}
	for _, it := range n.items("protocol") {
		if p, _ := it.val.(Protocol); p != TCP && p != UDP {
			c.err(it.at, "Ports are those of tcp and udp.", "this protocol has no ports")
		}
	}
}

// uniqueLabels reports a name that two blocks of one type have.
func (c *checker) uniqueLabels(nodes []*node) {
	first := make(map[string]*node)
	for _, n := range nodes {
		if o := first[n.called()]; o != nil && n.label != "" {
			c.err(n.at(), fmt.Sprintf("The other is in %s.", line(o.at(), n.at())), "two of kind %s are called %q", n.def.name, n.label)
			continue
		}
		first[n.called()] = n
	}
}

// checkFamilies reports a rule between IPv4 and IPv6.
func (c *checker) checkFamilies(h *house, n *node, r *Rule) {
	only := func(ps []Place) (v4, v6 bool) {
		for _, p := range h.Expand(ps) {
			v4 = v4 || p.IsRef() || p.Prefix.Addr().Is4()
			v6 = v6 || p.IsRef() || p.Prefix.Addr().Is6()
		}
		return v4, v6
	}
	if n.bad("from") || n.bad("to") || len(r.From) == 0 || len(r.To) == 0 {
		return
	}
	from4, from6 := only(r.From)
	to4, to6 := only(r.To)
	if !(from4 && to4) && !(from6 && to6) {
		c.err(n.said("to").value, "One is IPv4, the other IPv6: no connection is both.", "%s never matches", n.called())
	}
}

// checkDestinations notes a refusal of connections to a host that has no fixed
// address: its addresses are those it was seen to use, by its MAC.
func (c *checker) checkDestinations(h *house, n *node) {
	for _, it := range n.items("to") {
		p, _ := it.val.(Place)
		for _, to := range h.Expand([]Place{p}) {
			host, hn := h.hostNode(to.Ref)
			if host == nil || hn.bad("address") || hn.said("address") != nil {
				continue
			}
			c.note(it.at, fmt.Sprintf("It has no fixed address, and others are known once it has used them. For certainty give it one in %s.", line(hn.at(), it.at)),
				"%s stops connections to host.%s as soon as it was seen", n.called(), host.Name)
			break
		}
	}
}

// hostNode finds the host that a reference points at, and its block.
func (h *house) hostNode(r Ref) (*Host, *node) {
	for i := range h.LANs {
		for j := range h.LANs[i].Hosts {
			if r.Kind == KindHost && h.LANs[i].Hosts[j].Name == r.Name {
				return &h.LANs[i].Hosts[j], h.hosts[i][j]
			}
		}
	}
	return nil, nil
}

// checkAllowFromWAN reports an allow that translation makes void: from outside,
// the house's addresses are not there to be connected to.
func (c *checker) checkAllowFromWAN(h *house, n *node, r *Rule) {
	i := slices.IndexFunc(h.Expand(r.From), func(p Place) bool { return p.Ref.Kind == KindWAN })
	if i < 0 || n.bad("to") {
		return
	}
	names := h.wanNames(h.Expand(r.From)[i : i+1])
	for _, it := range n.items("to") {
		p, _ := it.val.(Place)
		for _, to := range h.Expand([]Place{p}) {
			v4, v6 := true, true
			text := to.String()
			if !to.IsRef() {
				v4, v6 = to.Prefix.Addr().Is4(), to.Prefix.Addr().Is6()
			} else if host := h.Host(to.Ref.Name); to.Ref.Kind == KindHost && host != nil && len(host.Address)+len(host.Token) > 0 {
				v4 = slices.ContainsFunc(host.Address, netip.Addr.Is4)
				v6 = len(host.Token) > 0 || slices.ContainsFunc(host.Address, netip.Addr.Is6)
			}
			if to.Ref.Kind == KindSelf || to.Ref.Kind == KindWAN || !to.IsRef() && h.lanOf(to.Prefix.Addr()) == "" {
				continue
			}
			var by4, by6 bool
			for _, name := range names {
				w := h.WAN(name)
				by4 = by4 || w == nil || v4 && w.IPv4.Method != MethodNone && w.IPv4.Translate == NoTranslate
				by6 = by6 || w == nil || v6 && w.IPv6.Homes()
			}
			switch {
			case by4:
				continue
			case !by6:
				c.err(it.at, fmt.Sprintf("wan.%s translates: nobody outside knows that address. Write a forward.", names[0]), "an allow from a WAN cannot reach %s", text)
			case v4:
				c.note(it.at, fmt.Sprintf("wan.%s translates IPv4. What is to be reached by that too needs a forward.", names[0]), "an allow from a WAN reaches %s by IPv6 only, in what the ISP delegates", text)
			default:
				continue
			}
			break
		}
	}
}

func (c *checker) checkForwards(h *house) {
	c.uniqueLabels(h.fwds)
	for i, n := range h.fwds {
		f := &h.Forwards[i]
		c.checkTarget(h, n)
		c.checkToPort(n, f)
		for _, it := range n.items("from") {
			p, _ := it.val.(Place)
			for _, m := range h.Expand([]Place{p}) {
				if m.IsRef() {
					c.err(it.at, "A forward is for those outside: addresses, networks, or groups of them. By which line is said with on.", "group.%s holds more than addresses", p.Ref.Name)
					break
				}
			}
		}
		c.checkOwnPorts(n, f)
		c.checkPortClash(h, i)
	}
}

// checkTarget sees that a forward leads to one device that is there.
func (c *checker) checkTarget(h *house, n *node) {
	if n.bad("to") {
		return
	}
	var hosts, v4, v6 int
	for _, it := range n.items("to") {
		p, _ := it.val.(Place)
		if p.IsRef() {
			hosts++
			if host, hn := h.hostNode(p.Ref); host != nil && hn.said("address") == nil {
				c.err(it.at, fmt.Sprintf("Give it one in %s: address = \"...\".", line(hn.at(), it.at)), "host %q has no fixed address", host.Name)
			}
			continue
		}
		a := p.Prefix.Addr()
		if a.Is4() {
			v4++
		} else {
			v6++
		}
		switch own, _ := h.gatewayAddr(a); {
		case !p.Prefix.IsSingleIP():
			c.err(it.at, "A forward leads to one device.", "%s is a network", p.Prefix)
		case own != "":
			c.err(it.at, fmt.Sprintf("To open a port of the gateway: allow %q { ... to = self }", n.label), "%s is the gateway itself", a)
		case h.lanOf(a) == "" && !h.anyBad("address"):
			detail := "A forward leads into the house."
			if a.Is6() && !h.Gateway.ULA.IsValid() {
				detail = `Where a LAN's IPv6 network is weir's choice, forward to a host with address = "::23".`
			}
			c.err(it.at, detail, "%s is in no LAN", a)
		}
	}
	if hosts > 1 || hosts == 1 && v4+v6 > 0 || v4 > 1 || v6 > 1 {
		c.err(n.said("to").value, "It leads to one host, or to one address of each family.", "a forward leads to one device")
	}
}

func (h *house) anyBad(key string) bool {
	return slices.ContainsFunc(h.lans, func(n *node) bool { return n.bad(key) })
}

func (c *checker) checkToPort(n *node, f *Forward) {
	a := n.said("to_port")
	if a == nil || a.bad || n.bad("port") || n.said("port") == nil {
		return
	}
	if len(f.ToPort) != len(f.Port) {
		c.err(a.value, "Each port has its own there, in order.", "port has %d, to_port has %d", len(f.Port), len(f.ToPort))
		return
	}
	for i, to := range f.ToPort {
		if p := f.Port[i]; p.To-p.From != to.To-to.From {
			c.err(a.items[i].at, fmt.Sprintf("Offsets are kept, so it is %d ports long: \"%d-%d\"?", int(p.To-p.From)+1, to.From, int(to.From)+int(p.To-p.From)),
				"%s is not as wide as %s", to, p)
		}
	}
}

// ownPorts are what the clients of a line listen on in its namespace (UDP).
var ownPorts = map[uint16]string{68: "DHCP client", 546: "DHCPv6 client"}

func (c *checker) checkOwnPorts(n *node, f *Forward) {
	if !slices.Contains(f.Protocol, UDP) {
		return
	}
	for _, it := range n.items("port") {
		r, _ := it.val.(PortRange)
		for _, port := range []uint16{68, 546} {
			switch {
			case port < r.From || port > r.To:
			case r.From == r.To:
				c.err(it.at, fmt.Sprintf("Each line's %s listens there. A forward would take it away.", ownPorts[port]), "port %d is the gateway's own", port)
			default:
				c.note(it.at, fmt.Sprintf("Each line's %s listens there, and keeps it.", ownPorts[port]), "udp %d is not forwarded", port)
			}
		}
	}
}

// checkPortClash compares a forward with those before it.
func (c *checker) checkPortClash(h *house, i int) {
	for _, it := range h.fwds[i].items("port") {
		r, _ := it.val.(PortRange)
		for k := range h.Forwards[:i] {
			if c.clash(h, k, i, it, r) {
				break
			}
		}
	}
}

// clash reports a port that an earlier forward has on the same line.
func (c *checker) clash(h *house, k, i int, it item, r PortRange) bool {
	a, b := &h.Forwards[k], &h.Forwards[i]
	if !slices.ContainsFunc(a.On, func(w string) bool { return slices.Contains(b.On, w) }) {
		return false
	}
	six := func(f *Forward) bool { return f.To6.IsValid() || f.Token6.IsValid() }
	if !(a.To4.IsValid() && b.To4.IsValid()) && !(six(a) && six(b)) {
		return false
	}
	var both []string
	for _, p := range []Protocol{TCP, UDP} {
		if slices.Contains(a.Protocol, p) && slices.Contains(b.Protocol, p) {
			both = append(both, map[Protocol]string{TCP: "tcp", UDP: "udp"}[p])
		}
	}
	if len(both) == 0 {
		return false
	}
	for _, o := range h.fwds[k].items("port") {
		if p, _ := o.val.(PortRange); p.overlaps(r) {
			shared := PortRange{max(p.From, r.From), min(p.To, r.To)}
			c.err(it.at, fmt.Sprintf("By %q in %s. Two forwards of a port need different WANs: on = wan.NAME.", a.Name, line(h.fwds[k].at(), it.at)),
				"%s %s is forwarded already", strings.Join(both, " and "), shared)
			return true
		}
	}
	return false
}
