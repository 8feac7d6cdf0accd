package rehearse

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/config"
	"weir/internal/lab"
)

// exit is where the file says that connections of a route go in a family: the
// WAN, or "" for refused. It is read anew from the language's own words.
func (s *Site) exit(r *config.Route, v6 bool, lost string) string {
	works := func(wan string) bool {
		l := s.Line(wan)
		return l != nil && wan != lost && has(l, v6)
	}
	named := slices.DeleteFunc(slices.Clone(r.WANs), func(w string) bool { return !works(w) })
	others := slices.DeleteFunc(s.Order(v6), func(w string) bool { return !works(w) || r.Way == config.Never && slices.Contains(r.WANs, w) })
	switch {
	case r.Way == config.Only && len(named) > 0, r.Way == config.Prefer && len(named) > 0:
		return named[0]
	case r.Way == config.Only || len(others) == 0:
		return ""
	}
	return others[0]
}

// prober is a machine that tries a route, and what it asks.
type prober struct {
	route   *config.Route
	lan     *LAN   // nil: the gateway
	machine string // a host's; "": the LAN's client
	v6      bool
	to      netip.AddrPort
	network string // "tcp" or "udp"
}

// probe works out who tries the routes: for each, in each family that it is about,
// one machine and one destination of which it is the first that matches and
// that the policy lets out. What nobody can try is left out, aloud.
func (s *Site) probe() {
	for i := range s.Config.Routes {
		r := &s.Config.Routes[i]
		found := false
		for _, v6 := range []bool{false, true} {
			if len(s.Order(v6)) == 0 && s.exit(r, v6, "") == "" {
				continue
			}
			if p, ok := s.prober(i, v6); ok {
				s.probers, found = append(s.probers, p), true
			}
		}
		if !found {
			s.omit(true, "route "+r.Name, "no machine of the lab sends what it matches and gets out")
		}
	}
}

// taken says whether the lab's internet serves something else than echoes there.
func taken(port uint16) bool { return port == 53 || port == 123 }

func (s *Site) prober(n int, v6 bool) (prober, bool) {
	r := &s.Config.Routes[n]
	for _, src := range s.senders(r, v6) {
		if !src.addr.IsValid() && src.lan != nil && s.byAddress(n, src.lan) {
			continue // which address it gets, and so which route it has, is not known yet
		}
		for _, to := range destinations(s.Config, r, v6) {
			for _, ask := range asked(r, n) {
				proto := config.TCP
				if ask.network == "udp" {
					proto = config.UDP
				}
				dst := party{zone: wanZone(s.Lines[0].Name), addr: to}
				if first := firstRoute(s.Config, src.party, dst, proto, ask.port); first != r {
					continue
				}
				if src.lan != nil && verdict(s.Config, src.party, dst, proto, ask.port) != lab.Answered {
					continue
				}
				return prober{r, src.lan, src.machine, v6, netip.AddrPortFrom(to, ask.port), ask.network}, true
			}
		}
	}
	return prober{}, false
}

// byAddress says whether one of the first routes is about addresses of a LAN.
func (s *Site) byAddress(n int, l *LAN) bool {
	nets := append([]netip.Prefix{l.Address4}, l.Address6...)
	for i := range n + 1 {
		for _, p := range s.Config.Expand(s.Config.Routes[i].From) {
			if !p.IsRef() && slices.ContainsFunc(nets, func(net netip.Prefix) bool { return net.IsValid() && p.Prefix.Overlaps(net.Masked()) }) {
				return true
			}
		}
	}
	return false
}

// firstRoute is the route that decides about a connection to the outside.
func firstRoute(c *config.Config, from, to party, proto config.Protocol, port uint16) *config.Route {
	for i := range c.Routes {
		r := &c.Routes[i]
		if r.From != nil && !from.at(c, r.From) || r.To != nil && !to.at(c, r.To) ||
			r.Protocol != nil && !slices.Contains(r.Protocol, proto) ||
			r.Port != nil && !slices.ContainsFunc(r.Port, func(p config.PortRange) bool { return p.From <= port && port <= p.To }) {
			continue
		}
		return r
	}
	return nil
}

// free says whether no route is about what a LAN's client asks of the internet's
// servers: it shows what the house does without.
func (s *Site) free(l *LAN) bool {
	if n := len(s.Config.Routes); n > 0 && s.byAddress(n-1, l) {
		return false
	}
	for _, v6 := range []bool{false, true} {
		for _, proto := range []config.Protocol{config.ICMP, config.TCP, config.UDP} {
			if firstRoute(s.Config, party{zone: lanZone(l.Name)}, party{zone: wanZone(s.Lines[0].Name), addr: lab.Web(v6)}, proto, 7) != nil {
				return false
			}
		}
	}
	return true
}

// sender is a machine that a route may be about.
type sender struct {
	party
	lan     *LAN
	machine string
}

// senders are the gateway, the hosts that the file names and clients that it does not.
func (s *Site) senders(r *config.Route, v6 bool) []sender {
	var out []sender
	for i := range s.LANs {
		l := &s.LANs[i]
		if v6 && !l.Advertise.Enabled && len(l.Address6) == 0 || !v6 && !l.Address4.IsValid() {
			continue
		}
		var hosts []sender
		for _, h := range l.Hosts {
			p := party{zone: lanZone(l.Name), host: h.Of}
			for _, a := range h.Addr {
				if a.Is6() == v6 {
					p.addr = a
				}
			}
			if p.addr.IsValid() || h.MAC != "" && (v6 && l.Advertise.Enabled || !v6 && l.DHCP.Enabled) {
				hosts = append(hosts, sender{p, l, h.Name})
			}
		}
		client := sender{party{zone: lanZone(l.Name)}, l, ""}
		if r.From == nil { // anybody: not one that other routes are about
			out = append(append(out, client), hosts...)
		} else {
			out = append(append(out, hosts...), client)
		}
	}
	return append(out, sender{party: party{zone: config.Ref{Kind: config.KindSelf}}})
}

// destinations are addresses outside that a route is about.
func destinations(c *config.Config, r *config.Route, v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, p := range c.Expand(r.To) {
		switch a := p.Prefix.Addr(); {
		case p.IsRef():
			out = append(out, lab.Web(v6))
		case a.Is6() != v6:
		case p.Prefix.IsSingleIP():
			out = append(out, a)
		default:
			out = append(out, a.Next())
		}
	}
	if r.To == nil {
		out = append(out, lab.Web(v6))
	}
	return out
}

// try is a port asked by a protocol.
type try struct {
	network string
	port    uint16
}

// asked are ports that a route is about. Where it says none, each route has one
// of its own, so that what is seen of it on a line is its own.
func asked(r *config.Route, n int) []try {
	var out []try
	for _, network := range []string{"tcp", "udp"} {
		proto := map[string]config.Protocol{"tcp": config.TCP, "udp": config.UDP}[network]
		if r.Protocol != nil && !slices.Contains(r.Protocol, proto) {
			continue
		}
		if r.Port == nil {
			out = append(out, try{network, uint16(28000 + n)})
		}
		for _, p := range r.Port {
			for _, port := range slices.Compact([]uint16{p.From, p.To}) {
				if !taken(port) {
					out = append(out, try{network, port})
				}
			}
		}
	}
	return out
}

func (p prober) drill(what ...string) string {
	return name(append(append([]string{"route", p.route.Name}, what...), familyName(p.v6))...)
}

func (p prober) String() string {
	who := "the gateway"
	switch {
	case p.machine != "":
		who = p.machine
	case p.lan != nil:
		who = p.lan.Client
	}
	return fmt.Sprintf("%s asks %s %s", who, p.network, p.to)
}
