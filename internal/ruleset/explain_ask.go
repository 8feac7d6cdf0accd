package ruleset

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weir/internal/config"
)

// Ask is a question about a flow, in people's words.
type Ask struct {
	From, To string // names of the file, of leases, or addresses; To may end in :PORT
	Protocol string // "tcp", "udp", "icmp"; "": tcp with a port, else icmp
	Leases   []Known
}

// Known is a device that has an address by a lease.
type Known struct {
	Addr           netip.Addr
	MAC, Name, LAN string
}

// Flow reads a question. Its errors say what is known.
func (h House) Flow(a Ask) (Flow, error) {
	var f Flow
	to, port, err := cutPort(a.To)
	if err != nil {
		return f, err
	}
	f.Port = port
	switch {
	case a.Protocol != "":
		if f.Protocol, err = config.ParseProtocol(a.Protocol); err != nil {
			return f, err
		}
	case port != 0:
		f.Protocol = config.TCP
	default:
		f.Protocol = config.ICMP
	}
	switch {
	case f.Protocol == config.ICMP && port != 0:
		return f, fmt.Errorf("icmp has no ports, and %s names one", a.To)
	case f.Protocol != config.ICMP && port == 0:
		return f, fmt.Errorf("which port? Name it behind the destination: %s:443", to)
	}
	if f.From, err = h.spot(a.From, a.Leases); err != nil {
		return f, err
	}
	if f.From.LAN == "" && f.From.WAN == "" && !f.From.Self {
		return f, fmt.Errorf("%s is outside: say by which line it comes, %s@%s", a.From, a.From, h.anyWAN())
	}
	if f.To, err = h.spot(to, a.Leases); err != nil {
		return f, err
	}
	if s, d := f.From.Addr, f.To.Addr; s.IsValid() && d.IsValid() && s.Is4() != d.Is4() {
		return f, fmt.Errorf("%s and %s are of different families: no connection is both", s, d)
	}
	return f, nil
}

func (h House) anyWAN() string {
	if len(h.WANs) == 0 {
		return "WAN"
	}
	return h.WANs[0].Name
}

// Explanations explains a flow in the families that it can have.
func (h House) Explanations(f Flow) []Explanation {
	var out []Explanation
	for _, v6 := range []bool{false, true} {
		a := f.To.Addr
		if !a.IsValid() {
			a = f.From.Addr
		}
		if !a.IsValid() || a.Is6() == v6 {
			out = append(out, h.Explain(f, v6))
		}
	}
	return out
}

// cutPort takes the port off a destination: nas:443, 192.0.2.1:443, [2001:db8::1]:443.
func cutPort(s string) (string, uint16, error) {
	if _, err := netip.ParseAddr(s); err == nil || !strings.Contains(s, ":") {
		return s, 0, nil
	}
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, fmt.Errorf("%q is no destination: a name or an address, and behind it :PORT; IPv6 with a port as [2001:db8::1]:443", s)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return "", 0, fmt.Errorf("%q is no port: ports are 1 to 65535", text)
	}
	return host, uint16(port), nil
}

// spot reads one end of a question: a name, an address, or an address@NAME of
// the LAN or WAN that it is in.
func (h House) spot(s string, leases []Known) (Spot, error) {
	if text, in, ok := strings.Cut(s, "@"); ok {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return Spot{}, fmt.Errorf("%q is no address", text)
		}
		where, err := h.spot(in, nil)
		if err == nil && where.LAN == "" && where.WAN == "" || where.Host != "" {
			err = fmt.Errorf("%s is no LAN and no WAN", in)
		}
		where.Addr = a.Unmap()
		return h.known(where, leases), err
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return h.known(h.Locate(a.Unmap()), leases), nil
	}
	kind, name, dotted := strings.Cut(s, ".")
	if !dotted {
		kind, name = "", s
	}
	var found []Spot
	var words []string
	add := func(k config.Kind, spot Spot) {
		found, words = append(found, spot), append(words, string(k)+"."+name)
	}
	if kind == "" && name == string(config.KindSelf) {
		return Spot{Self: true}, nil
	}
	if d := h.Config.Host(name); d != nil && (kind == "" || kind == "host") {
		spot := Spot{Host: name, LAN: d.LAN}
		for _, k := range leases { // one without an address of its own
			if slices.Contains(d.MAC, k.MAC) && !slices.ContainsFunc(d.Address, netip.Addr.Is4) {
				spot.Addr = k.Addr
			}
		}
		add(config.KindHost, spot)
	}
	if h.lan(name) != nil && (kind == "" || kind == "lan") {
		add(config.KindLAN, Spot{LAN: name})
	}
	if h.wan(name) != nil && (kind == "" || kind == "wan") {
		add(config.KindWAN, Spot{WAN: name})
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Spot{}, fmt.Errorf("%s may be %s: say which", name, strings.Join(words, " or "))
	}
	for _, k := range leases {
		if kind == "" && k.Name == name {
			return Spot{Addr: k.Addr, LAN: k.LAN}, nil
		}
	}
	return Spot{}, h.unknown(s)
}

// Locate finds where an address is.
func (h House) Locate(a netip.Addr) Spot {
	for _, l := range h.LANs {
		switch {
		case l.self(a):
			return Spot{Self: true, Addr: a}
		case l.lives(a):
			return Spot{LAN: l.Name, Addr: a}
		}
	}
	for _, w := range h.WANs {
		switch {
		case a == w.Near4, a == w.Near6:
			return Spot{Self: true, Addr: a}
		case slices.ContainsFunc(w.Own, func(p netip.Prefix) bool { return p.Addr() == a }):
			return Spot{WAN: w.Name, Addr: a}
		}
	}
	return Spot{Addr: a}
}

// known adds which device has an address, as far as file and leases tell.
func (h House) known(s Spot, leases []Known) Spot {
	if s.LAN == "" || s.Host != "" {
		return s
	}
	mac := ""
	for _, k := range leases {
		if k.Addr == s.Addr {
			mac = k.MAC
		}
	}
	for _, l := range h.Config.LANs {
		for i, d := range l.Hosts {
			if l.Name == s.LAN && (slices.Contains(h.hostAddrs(&l.Hosts[i]), s.Addr) || mac != "" && slices.Contains(d.MAC, mac)) {
				s.Host = d.Name
			}
		}
	}
	return s
}

// unknown says what names there are.
func (h House) unknown(s string) error {
	var hosts, lans, wans []string
	for _, l := range h.Config.LANs {
		lans = append(lans, l.Name)
		for _, d := range l.Hosts {
			hosts = append(hosts, d.Name)
		}
	}
	for _, w := range h.Config.WANs {
		wans = append(wans, w.Name)
	}
	var known []string
	for _, k := range []struct {
		word  string
		names []string
	}{{"hosts", hosts}, {"LANs", lans}, {"WANs", wans}} {
		if n := len(k.names); n > 12 {
			k.names = append(k.names[:12:12], fmt.Sprintf("and %d more", n-12))
		}
		if len(k.names) > 0 {
			known = append(known, k.word+": "+strings.Join(k.names, ", "))
		}
	}
	return fmt.Errorf("nothing here is called %q; there are self, %s, and addresses", s, strings.Join(known, "; "))
}
