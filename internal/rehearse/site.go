package rehearse

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

// Site is the surroundings that a file asks for: what each ISP sells, and who is
// on each LAN.
type Site struct {
	Config  *config.Config
	Machine Machine
	Lines   []lab.Line // in file order
	LANs    []LAN      // in file order
	// Omitted is what can't be rehearsed here, and why.
	Omitted []Omission

	probers   []prober // of the file's routes
	unhurried bool     // what takes minutes is made as well
}

// LAN is a LAN of the house with those on it.
type LAN struct {
	*config.LAN
	Client string // the name of its client's machine
	// Spare4 are addresses that nobody has, for a client that gets none, and for
	// a line on the LAN's own network.
	Spare4 [2]netip.Addr
	Hosts  []Host
}

// Host is a host of the file that is simulated.
type Host struct {
	Name string // of its machine
	MAC  string // "": any
	Addr []netip.Addr
	Of   *config.Host // nil: a forward names the bare address
}

// Omission is something that was not rehearsed.
type Omission struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Part says that a part of the user's file was left out, unlike a fault that
	// is imitated with less truth.
	Part bool `json:"part"`
}

// Machine is what of this machine decides what can be rehearsed: why something
// can't be had in a lab; "" is that it can.
type Machine struct {
	VLAN string `json:"vlan,omitempty"`
	TAP  string `json:"tap,omitempty"`
	Time string `json:"time,omitempty"`
}

// nets4 and nets6 are the networks that simulated ISPs have: RFC 5737's but the one
// of the internet's server, then RFC 2544's; and RFC 3849's.
var (
	nets4 = []string{"198.51.100.0/24", "203.0.113.0/24", "198.18.3.0/24", "198.18.4.0/24", "198.18.5.0/24", "198.18.6.0/24", "198.18.7.0/24", "198.18.8.0/24"}
	nets6 = []string{"2001:db8:1::/64", "2001:db8:2::/64", "2001:db8:3::/64", "2001:db8:4::/64", "2001:db8:5::/64", "2001:db8:6::/64", "2001:db8:7::/64", "2001:db8:8::/64"}
)

// nets are an ISP's networks that are left to be simulated.
type nets []netip.Prefix

// free is those of all that the file gives no use.
func free(all []string, taken []netip.Prefix) nets {
	var out nets
	for _, n := range all {
		if p := netip.MustParsePrefix(n); !slices.ContainsFunc(taken, p.Overlaps) {
			out = append(out, p)
		}
	}
	return out
}

// take is the next network, for a WAN.
func (n *nets) take(wan string) (netip.Prefix, error) {
	if len(*n) == 0 {
		return netip.Prefix{}, fmt.Errorf("no network is left to be the ISP's of wan %s: %d are simulated at most, and none that the file names", wan, len(nets4))
	}
	p := (*n)[0]
	*n = (*n)[1:]
	return p, nil
}

// NewSite works out the surroundings of a file on a machine.
func NewSite(cfg *config.Config, m Machine) (*Site, error) {
	s := &Site{Config: cfg, Machine: m}
	taken := s.taken()
	free4, free6 := free(nets4, taken), free(nets6, taken)
	for k := range cfg.WANs {
		w := &cfg.WANs[k]
		if w.VLAN != 0 && m.VLAN != "" {
			s.omit(true, "wan "+w.Name, "it is on VLAN %d: %s", w.VLAN, m.VLAN)
			continue
		}
		l, err := line(w, &free4, &free6)
		if err != nil {
			return nil, err
		}
		s.Lines = append(s.Lines, l)
	}
	for k := range cfg.LANs {
		l := &cfg.LANs[k]
		if l.VLAN != 0 && m.VLAN != "" {
			s.omit(true, "lan "+l.Name, "it is on VLAN %d: %s", l.VLAN, m.VLAN)
			continue
		}
		s.LANs = append(s.LANs, s.lan(l))
	}
	if m.TAP != "" && len(s.Lines) > 0 {
		s.omit(false, "a real port's carrier", "it is lost on a veth, of which the kernel tells faster than of a real port: %s", m.TAP)
		s.omit(false, "a bad line", "lines have no delay, loss and rate here: %s", m.TAP)
	}
	if len(s.Lines) > 0 && len(s.LANs) > 0 {
		if why := s.timeless(); why != "" && cfg.Time.Serve {
			s.omit(false, "the time", "%s", why)
		}
		s.probe()
		if !slices.ContainsFunc(s.LANs, func(l LAN) bool { return s.free(&l) }) {
			s.omit(true, "the house without routes, as lines are lost", "there is a route for what each LAN asks")
		}
	}
	return s, nil
}

func (s *Site) omit(part bool, what, why string, args ...any) {
	s.Omitted = append(s.Omitted, Omission{What: what, Why: fmt.Sprintf(why, args...), Part: part})
}

// taken are the networks and the addresses that the file gives a use. Who is asked
// whether a line works, for names or for the time is out in the internet: it must
// not become the ISP's router, which answers while the line behind it is dark.
func (s *Site) taken() []netip.Prefix {
	var out []netip.Prefix
	net := func(all ...netip.Prefix) {
		for _, p := range all {
			if p.IsValid() {
				out = append(out, p.Masked())
			}
		}
	}
	addr := func(all ...netip.Addr) {
		for _, a := range all {
			if a.IsValid() {
				out = append(out, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	asked := func(p config.Probe) {
		for _, t := range slices.Concat(p.Target4, p.Target6) {
			addr(t.Addr)
		}
	}
	servers := func(all []config.Server) {
		for _, r := range all {
			addr(r.Addr.Addr())
		}
	}
	for _, l := range s.Config.LANs {
		net(l.Address4)
		net(l.Address6...)
	}
	for _, w := range s.Config.WANs {
		net(w.IPv4.Address...)
		net(w.IPv6.Address...)
		addr(slices.Concat(w.IPv4.DNS, w.IPv6.DNS)...)
		asked(w.Probe)
	}
	asked(s.Config.Failover.Probe)
	servers(s.Config.DNS.Upstream)
	for _, z := range s.Config.DNS.Zones {
		servers(z.Forward)
	}
	for _, t := range s.Config.Time.Server {
		addr(t.Addr)
	}
	for _, r := range s.Config.Routes {
		for _, p := range s.Config.Expand(r.To) {
			if !p.IsRef() && (p.Prefix.Addr().Is4() && p.Prefix.Bits() >= 16 || p.Prefix.Bits() >= 48) {
				out = append(out, p.Prefix) // the internet has it, not an ISP
			}
		}
	}
	return append(out, s.Config.Gateway.Cable4)
}

func line(w *config.WAN, free4, free6 *nets) (lab.Line, error) {
	l := lab.Line{Name: w.Name, Port: w.Interface, VLAN: w.VLAN}
	switch w.IPv4.Method {
	case config.MethodDHCP:
		net, err := free4.take(w.Name)
		if err != nil {
			return l, err
		}
		l.DHCP, l.Lease = true, time.Hour
		l.Router4 = net.Addr().Next()
		l.Customer4 = []netip.Prefix{netip.PrefixFrom(plus(net.Addr(), 10), net.Bits())}
	case config.MethodStatic:
		l.Customer4, l.Router4 = w.IPv4.Address, w.IPv4.Gateway
	}
	switch w.IPv6.Method {
	case config.MethodAuto, config.MethodSLAAC:
		net, err := free6.take(w.Name)
		if err != nil {
			return l, err
		}
		l.Prefix6 = net
		l.Router6 = netip.MustParseAddr("fe80::1")
	case config.MethodStatic:
		l.Customer6, l.Router6 = w.IPv6.Address, w.IPv6.Gateway
	}
	return l, nil
}

func plus(a netip.Addr, n int) netip.Addr {
	for range n {
		a = a.Next()
	}
	return a
}

func (s *Site) lan(l *config.LAN) LAN {
	out := LAN{LAN: l, Client: "client-" + l.Name}
	for i := range l.Hosts {
		h := &l.Hosts[i]
		if len(h.MAC) == 0 && len(h.Address) == 0 {
			continue
		}
		sim := Host{Name: "host-" + h.Name, Of: h, Addr: h.Address}
		if len(h.MAC) > 0 {
			sim.MAC = h.MAC[0]
		}
		out.Hosts = append(out.Hosts, sim)
	}
	for _, f := range s.Config.Forwards {
		for _, a := range []netip.Addr{f.To4, f.To6} {
			if f.LAN != l.Name || !a.IsValid() || slices.ContainsFunc(out.Hosts, func(h Host) bool { return slices.Contains(h.Addr, a) }) {
				continue
			}
			out.Hosts = append(out.Hosts, Host{Name: "for-" + f.Name, Addr: []netip.Addr{a}})
		}
	}
	out.Spare4 = spare(l)
	return out
}

// spare finds IPv4 addresses of the LAN that nobody has.
func spare(l *config.LAN) (out [2]netip.Addr) {
	if !l.Address4.IsValid() {
		return out
	}
	used := func(a netip.Addr) bool {
		if a == l.Address4.Addr() {
			return true
		}
		for _, h := range l.Hosts {
			if slices.Contains(h.Address, a) {
				return true
			}
		}
		return slices.ContainsFunc(l.DHCP.Pool, func(r config.Range) bool {
			return r.From.Compare(a) <= 0 && a.Compare(r.To) <= 0
		})
	}
	net, n := l.Address4.Masked(), 0
	for a := net.Addr().Next(); n < len(out) && net.Contains(a.Next()); a = a.Next() {
		if !used(a) {
			out[n] = a
			n++
		}
	}
	return out
}

// Line returns the line of a WAN, or nil.
func (s *Site) Line(wan string) *lab.Line {
	for i := range s.Lines {
		if s.Lines[i].Name == wan {
			return &s.Lines[i]
		}
	}
	return nil
}

// has says whether a line carries the family.
func has(l *lab.Line, v6 bool) bool {
	if v6 {
		return l.Prefix6.IsValid() || len(l.Customer6) > 0
	}
	return len(l.Customer4) > 0
}

// Order is the lines that new connections of the family take, best first.
func (s *Site) Order(v6 bool) []string {
	var out []string
	for _, name := range s.Config.Failover.Prefer {
		if l := s.Line(name); l != nil && has(l, v6) {
			out = append(out, name)
		}
	}
	return out
}
