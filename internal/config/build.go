package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// house is a Config in the making: the parts beside the blocks they come from,
// so that the checks that take two values to see can point at them.
type house struct {
	Config
	root   *node
	gw     *node
	wans   []*node
	lans   []*node
	hosts  [][]*node // by LAN
	groups []*node
	rules  []*node
	fwds   []*node
	routes []*node
}

// build turns checked blocks into a Config, fills in what they leave out and
// makes the checks that take two values to see.
func (c *checker) build(root *node) *Config {
	h := &house{root: root, gw: root.child("gateway"), wans: root.all("wan"), lans: root.all("lan"),
		groups: root.all("group"), fwds: root.all("forward"), routes: root.all("route")}
	h.Gateway = Gateway{
		Name:     h.gw.label,
		Domain:   one[string](h.gw, "domain"),
		Timezone: one[string](h.gw, "timezone"),
		ULA:      one[netip.Prefix](h.gw, "ula"),
		FastPath: FastPath(one[string](h.gw, "fast_path")),
	}
	if h.gw.label == "" {
		h.Gateway.Name = gatewayBlock.example
	}
	for _, p := range list[netip.Prefix](h.gw, "cable") {
		if p.Addr().Is4() {
			h.Gateway.Cable4 = p
		} else {
			h.Gateway.Cable6 = p
		}
	}
	for _, n := range h.wans {
		h.WANs = append(h.WANs, wan(n, h.Gateway.Name))
	}
	for _, n := range h.lans {
		l, hosts := lan(n, h.Gateway.Domain)
		h.LANs = append(h.LANs, l)
		h.hosts = append(h.hosts, hosts)
	}
	for _, n := range h.groups {
		h.Groups = append(h.Groups, Group{Name: n.label, Pos: n.pos(), Member: list[Place](n, "member")})
	}
	for _, n := range root.blocks {
		if verb := Verb(n.def.name); verb == Allow || verb == Block || verb == Reject {
			h.rules = append(h.rules, n)
			h.Rules = append(h.Rules, rule(n, verb))
		}
	}
	for _, n := range h.fwds {
		h.Forwards = append(h.Forwards, h.forward(n))
	}
	for _, n := range h.routes {
		h.Routes = append(h.Routes, h.route(n))
	}
	h.Failover = h.failover(root.child("failover"))
	for i, n := range h.wans {
		h.WANs[i].Probe = probe(n.child("probe"), h.Failover.Probe)
	}
	h.DNS = dnsOf(root.child("dns"))
	h.Time = Time{Server: list[TimeServer](root.child("time"), "server"), Serve: one[bool](root.child("time"), "serve")}
	h.API = API{Group: one[string](root.child("api"), "group")}

	if h.gw.said("cable") == nil || !h.gw.bad("cable") && !h.Gateway.Cable4.IsValid() {
		h.Gateway.Cable4 = h.clearCable4()
	}
	c.check(h)
	return &h.Config
}

func wan(n *node, gateway string) WAN {
	v4, v6 := n.child("ipv4"), n.child("ipv6")
	w := WAN{
		Name: n.label, Pos: n.pos(),
		Interface: one[string](n, "interface"),
		VLAN:      one[int](n, "vlan"),
		MAC:       one[string](n, "mac"),
		MTU:       one[int](n, "mtu"),
		Metered:   one[bool](n, "metered"),
		Move:      one[string](n, "on_return") == "move",
		IPv4: WANv4{
			Method:                method(v4),
			Address:               list[netip.Prefix](v4, "address"),
			Gateway:               one[netip.Addr](v4, "gateway"),
			Translate:             Translate(one[string](v4, "translate")),
			ClientID:              one[string](v4, "client_id"),
			Hostname:              gateway,
			VendorClass:           one[string](v4, "vendor_class"),
			IgnoreClasslessRoutes: one[bool](v4, "ignore_classless_routes"),
			DNS:                   list[netip.Addr](v4, "dns"),
		},
		IPv6: WANv6{
			Method:    method(v6),
			Address:   list[netip.Prefix](v6, "address"),
			Gateway:   one[netip.Addr](v6, "gateway"),
			Translate: Translate(one[string](v6, "translate")),
			Delegate:  one[int](v6, "delegate"),
			DNS:       list[netip.Addr](v6, "dns"),
		},
	}
	if v6.said("delegate") == nil && (w.IPv6.Method == MethodStatic || w.IPv6.Method == MethodNone || w.IPv6.Translate == NAT66) {
		w.IPv6.Delegate = 0
	}
	if v6.said("translate") == nil && w.IPv6.Delegate == 0 {
		w.IPv6.Translate = NAT66
	}
	if n.said("on_return") == nil {
		w.Move = w.Metered
	}
	if s := one[string](v4, "hostname"); s != "" {
		w.IPv4.Hostname = s
	}
	return w
}

func method(n *node) Method {
	if n.said("method") == nil && n.said("address") != nil {
		return MethodStatic
	}
	return Method(one[string](n, "method"))
}

func lan(n *node, domain string) (LAN, []*node) {
	l := LAN{
		Name: n.label, Pos: n.pos(),
		Interface: list[string](n, "interface"),
		VLAN:      one[int](n, "vlan"),
		MTU:       one[int](n, "mtu"),
		Reach:     list[Place](n, "reach"),
	}
	if n.said("reach") == nil {
		l.Reach = []Place{{Ref: Ref{Kind: KindWAN}}, {Ref: Ref{Kind: KindLAN}}, {Ref: Ref{Kind: KindSelf}}}
	}
	for _, p := range list[netip.Prefix](n, "address") {
		switch {
		case p.Addr().Is6():
			l.Address6 = append(l.Address6, p)
		case !l.Address4.IsValid():
			l.Address4 = p
		}
	}
	l.DHCP = dhcpOf(n.child("dhcp"), l.Address4)
	a := n.child("advertise")
	l.Advertise = Advertise{
		Enabled: one[bool](a, "enabled"),
		Prefix:  saidList[netip.Prefix](a, "prefix"),
		DNS:     saidList[netip.Addr](a, "dns"),
		Search:  saidList[string](a, "search"),

		Router:    one[time.Duration](a, "router_lifetime"),
		Preferred: one[time.Duration](a, "preferred_lifetime"),
		Valid:     one[time.Duration](a, "valid_lifetime"),
		Managed:   one[bool](a, "managed"),
		Other:     one[bool](a, "other"),
		PREF64:    one[netip.Prefix](a, "pref64"),
		Portal:    one[string](a, "captive_portal"),
	}
	if six := n.all("dhcp6"); len(six) > 0 {
		d := six[0]
		l.DHCP6.Enabled = d.said("enabled") == nil || one[bool](d, "enabled")
		if l.DHCP6.Enabled {
			l.DHCP6.Managed, l.DHCP6.Pool, l.DHCP6.Delegate = d.said("pool") != nil, list[Range](d, "pool"), one[int](d, "delegate")
		}
	}
	if a.said("managed") == nil {
		l.Advertise.Managed = l.DHCP6.Managed || l.DHCP6.Delegate > 0
	}
	if a.said("other") == nil {
		l.Advertise.Other = l.DHCP6.Enabled
	}
	if l.Domain = list[string](n, "domain"); len(l.Domain) == 0 {
		l.Domain = []string{domain}
	}
	hosts := n.all("host")
	for _, hn := range hosts {
		l.Hosts = append(l.Hosts, host(hn, n.label, l.Domain[0]))
	}
	return l, hosts
}

// saidList is nil where the file says nothing, and not nil where it says [].
func saidList[T any](n *node, key string) []T {
	if n.said(key) == nil {
		return nil
	}
	return append([]T{}, list[T](n, key)...)
}

func host(n *node, lan, domain string) Host {
	h := Host{Name: n.label, LAN: lan, Pos: n.pos(), DNSName: n.label, MAC: list[string](n, "mac")}
	if s := one[string](n, "name"); s != "" {
		h.DNSName = s
	}
	if s := one[string](n, "client_id"); s != "" {
		h.ID = clientIDs(s)
	}
	for _, s := range list[string](n, "duid") {
		h.DUID = append(h.DUID, plainDUID(s))
	}
	for _, a := range list[string](n, "alias") {
		if !strings.Contains(a, ".") {
			a += "." + domain
		}
		h.Alias = append(h.Alias, a)
	}
	for _, a := range list[netip.Addr](n, "address") {
		if isToken(a) {
			h.Token = append(h.Token, a)
		} else {
			h.Address = append(h.Address, a)
		}
	}
	return h
}

// isToken tells whether a is an interface identifier: ::23, the upper half empty.
func isToken(a netip.Addr) bool {
	if !a.Is6() {
		return false
	}
	b := a.As16()
	return [8]byte(b[:8]) == [8]byte{}
}

func rule(n *node, verb Verb) Rule {
	r := Rule{
		Name: n.label, Pos: n.pos(), Verb: verb,
		From: list[Place](n, "from"), To: list[Place](n, "to"),
		Protocol: list[Protocol](n, "protocol"), Port: list[PortRange](n, "port"),
	}
	if len(r.Port) > 0 && n.said("protocol") == nil {
		r.Protocol = []Protocol{TCP}
	}
	r.Slow = !one[bool](n, "fast")
	return r
}

func (h *house) forward(n *node) Forward {
	f := Forward{
		Name: n.label, Pos: n.pos(),
		Protocol: list[Protocol](n, "protocol"),
		Port:     list[PortRange](n, "port"),
		ToPort:   list[PortRange](n, "to_port"),
		From:     list[Place](n, "from"),
		On:       h.wanNames(list[Place](n, "on")),
		Hairpin:  one[bool](n, "hairpin"),
	}
	if n.said("to_port") == nil {
		f.ToPort = slices.Clone(f.Port)
	}
	if n.said("on") == nil {
		f.On = h.wanNames([]Place{{Ref: Ref{Kind: KindWAN}}})
	}
	for _, p := range list[Place](n, "to") {
		if !p.IsRef() {
			h.forwardTo(&f, p.Prefix.Addr())
			continue
		}
		host := h.Host(p.Ref.Name)
		if host == nil {
			continue
		}
		f.LAN = host.LAN
		for _, a := range host.Address {
			h.forwardTo(&f, a)
		}
		if f.To6.IsValid() || len(host.Token) == 0 {
			continue
		}
		f.Token6 = host.Token[0]
		if to := h.ForwardTo6(&f, h.Gateway.ULA); to.IsValid() {
			f.To6, f.Token6 = to, netip.Addr{}
		}
	}
	return f
}

// forwardTo sets the first target of each family, and the LAN that has it.
func (h *house) forwardTo(f *Forward, a netip.Addr) {
	if f.LAN == "" {
		f.LAN = h.lanOf(a)
	}
	switch {
	case a.Is4() && !f.To4.IsValid():
		f.To4 = a
	case a.Is6() && !f.To6.IsValid():
		f.To6 = a
	}
}

// lanOf names the LAN whose networks hold a, as far as the file tells; "" if none.
func (h *house) lanOf(a netip.Addr) string {
	for i := range h.LANs {
		if slices.ContainsFunc(h.networks(i), func(p netip.Prefix) bool { return p.Contains(a) }) {
			return h.LANs[i].Name
		}
	}
	return ""
}

// networks are the networks of a LAN, as far as the file tells.
func (h *house) networks(lan int) []netip.Prefix {
	l := &h.LANs[lan]
	var nets []netip.Prefix
	if l.Address4.IsValid() {
		nets = append(nets, l.Address4.Masked())
	}
	for _, p := range h.Address6(l.Name, h.Gateway.ULA) {
		nets = append(nets, p.Masked())
	}
	return append(nets, l.Advertise.Prefix...)
}

// wanNames names the WANs that references stand for, each once.
func (h *house) wanNames(ps []Place) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, p := range ps {
		if p.Ref.Name != "" {
			add(p.Ref.Name)
			continue
		}
		for i := range h.WANs {
			add(h.WANs[i].Name)
		}
	}
	return names
}

func (h *house) failover(n *node) Failover {
	f := Failover{Prefer: h.wanNames(list[Place](n, "prefer")), HoldDown: one[time.Duration](n, "hold_down")}
	if n.said("prefer") == nil {
		for _, metered := range []bool{false, true} {
			for i := range h.WANs {
				if h.WANs[i].Metered == metered {
					f.Prefer = append(f.Prefer, h.WANs[i].Name)
				}
			}
		}
	}
	g := n.child("degraded")
	f.Degraded = Degraded{Loss: one[int](g, "loss"), Latency: one[time.Duration](g, "latency")}
	p := n.child("probe")
	f.Probe = probe(p, probe(&node{def: p.def}, Probe{}))
	return f
}

// probe is what a probe block says, and what else says where it says nothing.
func probe(n *node, unsaid Probe) Probe {
	p := unsaid
	if n.said("every") != nil || p.Every == 0 {
		p.Every = one[time.Duration](n, "every")
	}
	if n.said("timeout") != nil {
		p.Timeout = one[time.Duration](n, "timeout")
	}
	var t4, t6 []Target
	for _, t := range list[Target](n, "target") {
		if t.Addr.Is4() {
			t4 = append(t4, t)
		} else {
			t6 = append(t6, t)
		}
	}
	if t4 != nil {
		p.Target4 = t4
	}
	if t6 != nil {
		p.Target6 = t6
	}
	return p
}
