package rehearse

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/config"
	"weir/internal/lab"
	"weir/internal/named"
)

// Variant is how a run's lab differs from the plain one.
type Variant struct {
	// TAP are WANs whose ports are TAPs.
	TAP []string `json:"tap,omitempty"`
	// Shaped are WANs whose lines can be given figures: TAPs, where the port allows.
	Shaped []string `json:"shaped,omitempty"`
	// Lease is how long the ISPs lease; 0 is an hour.
	Lease time.Duration `json:"lease_ns,omitempty"`
	// Same gives all ISPs the first one's network, router and customer address.
	Same bool `json:"same,omitempty"`
	// OnLAN gives this ISP the network of the first LAN.
	OnLAN string `json:"on_lan,omitempty"`
	// Delegate has ISPs delegate prefixes, where the file asks for one.
	Delegate bool `json:"delegate,omitempty"`
}

// Bench is a lab with the daemon under trial in it.
type Bench struct {
	*Site
	Lab     *lab.Lab
	ISPs    map[string]*lab.ISP
	Clients map[string]*lab.Client // by LAN
	Hosts   map[string]*lab.Client // by machine
	Daemon  *Daemon
	Joined  map[string]*joined // by LAN: how its client came in

	switches  map[string]*lab.Switch   // by LAN
	ports     map[string][]*lab.Switch // by LAN: at each port of its bridge but the first
	devices   int
	darkened  map[string]bool                  // by WAN, what drills left
	saboteurs []Saboteur                       // tests only
	serving   map[string]bool                  // "udp 5060": what the internets serve for rules and routes besides
	ula       netip.Prefix                     // the house's /48 if weir made it, as clients see it
	step      func(format string, args ...any) // tells how far a long act is
	measure   *measure                         // of the act under way; nil: it promises nothing
	first     time.Duration                    // from the daemon's start to the first packet forwarded
	log       *slog.Logger
}

// joined is how a client came into its LAN.
type joined struct {
	ack  *dhcpv4.DHCPv4 // nil: no lease
	auto netip.Prefix   // by SLAAC; invalid: none
}

// Limits of a bring-up. They only bound what hangs.
const (
	joinLimit = 45 * time.Second
	upLimit   = 60 * time.Second
)

// joins is how long a client has to come in: in a house that is up it takes
// milliseconds, and whom a saboteur keeps out is not waited for that long.
func (b *Bench) joins() time.Duration {
	if len(b.saboteurs) > 0 {
		return joinLimit / 3
	}
	return joinLimit
}

// build makes the machines around the gateway.
func build(ctx context.Context, site *Site, v Variant, log *slog.Logger) (*Bench, error) {
	l, err := lab.New(ctx, log)
	if err != nil {
		return nil, err
	}
	b := &Bench{
		Site: site, Lab: l, log: log,
		ISPs: map[string]*lab.ISP{}, Clients: map[string]*lab.Client{},
		Hosts: map[string]*lab.Client{}, Joined: map[string]*joined{}, darkened: map[string]bool{}, switches: map[string]*lab.Switch{}, ports: map[string][]*lab.Switch{},
		serving: map[string]bool{},
	}
	site.vary(v)
	for _, line := range site.Lines {
		if b.ISPs[line.Name], err = l.Connect(line); err != nil {
			return nil, err
		}
	}
	for i := range site.LANs {
		if err := b.populate(&site.LANs[i], i); err != nil {
			return nil, err
		}
	}
	return b, b.serve()
}

// serve opens the servers that rules speak of: on the gateway machine, and on the
// internet.
func (b *Bench) serve() error {
	own := gatewayPorts(b.Config)
	if err := b.Lab.Gateway().ServeEcho(own[config.TCP], own[config.UDP]); err != nil {
		return err
	}
	tcp, udp := b.portsOf(Host{})
	there := func(list ...uint16) func(uint16) bool {
		return func(p uint16) bool { return slices.Contains(list, p) }
	}
	tcp, udp = slices.DeleteFunc(tcp, there(7, 53, 80, 443)), slices.DeleteFunc(udp, there(7, 53, 123, 443))
	for _, isp := range b.ISPs {
		if err := isp.Inet.ServeEcho(tcp, udp); err != nil {
			return err
		}
	}
	for network, ports := range map[string][]uint16{"tcp": tcp, "udp": udp} {
		for _, p := range ports {
			b.serving[fmt.Sprintf("%s %d", network, p)] = true
		}
	}
	return b.serveSheets()
}

// vary changes the lines as a variant says.
func (s *Site) vary(v Variant) {
	var same *lab.Line
	for i := range s.Lines {
		l := &s.Lines[i]
		for _, t := range v.TAP {
			l.TAP = l.TAP || t == l.Name
		}
		if slices.Contains(v.Shaped, l.Name) {
			l.Shaped, l.TAP = true, l.TAP || l.VLAN == 0 && !s.shared(l.Port)
		}
		if v.Lease != 0 {
			l.Lease = v.Lease
		}
		if v.Delegate && s.delegates(l.Name) {
			l.Delegate6 = prefixOf(i, 0, s.Config.WAN(l.Name).IPv6.Delegate)
		}
		if v.Same && l.DHCP {
			if same == nil {
				same = l
			}
			l.Customer4, l.Router4 = same.Customer4, same.Router4
		}
		if v.OnLAN == l.Name {
			net := s.LANs[0].Address4.Masked()
			l.Router4 = s.LANs[0].Address4.Addr() // the LAN's gateway has the ISP router's address
			l.Customer4 = []netip.Prefix{netip.PrefixFrom(s.LANs[0].Spare4[1], net.Bits())}
		}
	}
}

// populate makes a LAN with its client and hosts.
func (b *Bench) populate(l *LAN, n int) error {
	sw, err := b.Lab.Switch(fmt.Sprintf("lan%d", n))
	if err != nil {
		return err
	}
	// All sit at the first of several ports: the gateway's bridge joins the others,
	// at which nobody is yet.
	if err := sw.Serve(l.Interface[0], l.VLAN); err != nil {
		return err
	}
	for k, port := range l.Interface[1:] {
		other, err := b.Lab.Switch(fmt.Sprintf("lan%dp%d", n, k+1))
		if err != nil {
			return err
		}
		if err := other.Serve(port, l.VLAN); err != nil {
			return err
		}
		b.ports[l.Name] = append(b.ports[l.Name], other)
	}
	b.switches[l.Name] = sw
	c, err := b.Lab.Join(sw, l.Client, "")
	if err != nil {
		return err
	}
	b.Clients[l.Name] = c
	if err := c.ServeEcho([]uint16{7}, []uint16{7}); err != nil {
		return err
	}
	for _, h := range l.Hosts {
		m, err := b.Lab.Join(sw, h.Name, h.MAC)
		if err != nil {
			return err
		}
		b.Hosts[h.Name] = m
		if err := b.settle(l, h, m); err != nil {
			return err
		}
	}
	return nil
}

// settle gives a host its fixed addresses and the servers that the file's
// forwards and rules look for.
func (b *Bench) settle(l *LAN, h Host, m *lab.Client) error {
	for _, a := range h.Addr {
		p, gw := l.network(a)
		if !p.IsValid() {
			continue
		}
		if err := m.Static(netip.PrefixFrom(a, p.Bits()), gw); err != nil {
			return err
		}
	}
	tcp, udp := b.portsOf(h)
	return m.ServeEcho(tcp, udp)
}

// network is the network of the LAN that holds an address, and the gateway's own
// address in it. Without one in the file IPv6 has the gateway's advertisements.
func (l *LAN) network(a netip.Addr) (netip.Prefix, netip.Addr) {
	if l.Address4.IsValid() && l.Address4.Contains(a) {
		return l.Address4.Masked(), l.Address4.Addr()
	}
	for _, p := range l.Address6 {
		if p.Contains(a) {
			return p.Masked(), p.Addr()
		}
	}
	return netip.Prefix{}, netip.Addr{}
}

// portsOf are the ports that are asked for at a host.
func (b *Bench) portsOf(h Host) (tcp, udp []uint16) {
	seen := map[[2]int]bool{}
	add := func(proto config.Protocol, port uint16) {
		if k := [2]int{int(proto), int(port)}; !seen[k] {
			seen[k] = true
			if proto == config.TCP {
				tcp = append(tcp, port)
			} else {
				udp = append(udp, port)
			}
		}
	}
	add(config.TCP, 7)
	add(config.UDP, 7)
	for i := range b.Config.Forwards {
		f := &b.Config.Forwards[i]
		for _, a := range h.Addr {
			if a != f.To4 && a != f.To6 {
				continue
			}
			for _, proto := range f.Protocol {
				for k := range f.ToPort {
					add(proto, f.ToPort[k].From)
					add(proto, f.ToPort[k].To)
				}
			}
		}
	}
	for _, r := range b.Config.Rules {
		for _, p := range r.Port {
			for _, proto := range r.Protocol {
				if proto == config.TCP || proto == config.UDP {
					add(proto, p.From)
					add(proto, p.To)
				}
			}
		}
	}
	return tcp, udp
}

// up writes the user's files, starts the daemon and waits until the house works
// as far as it does: clients have come in, a packet went out, each line is seen.
func (b *Bench) up(ctx context.Context, files []config.File, dir bool) error {
	// Its own user's BIND passes through it.
	if err := os.MkdirAll(filepath.Dir(stateDir), 0o711); err != nil {
		return err
	}
	for _, d := range []string{fileDir, stateDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	files, err := ownSecrets(files, b.Config.DNS.Keys)
	if err != nil {
		return err
	}
	path := fileDir
	for _, f := range files {
		p := filepath.Join(fileDir, filepath.Base(f.Name))
		if err := os.WriteFile(p, f.Src, 0o600); err != nil {
			return err
		}
		if !dir {
			path = p
		}
	}
	// BIND on the gateway validates from the lab's root on.
	if err := os.WriteFile(filepath.Join(stateDir, named.AnchorsFile), []byte(b.Lab.RootAnchors()), 0o600); err != nil {
		return err
	}
	for host, a := range b.timeNames() {
		b.Lab.Name(host, a)
	}
	b.Daemon = newDaemon(b.Lab.Gateway(), path)
	start := time.Now()
	if err := b.Daemon.Start(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { b.awaitFirst(ctx, start) })
	for i := range b.LANs {
		l := &b.LANs[i]
		wg.Go(func() { b.join(ctx, l, start) })
	}
	wg.Wait()
	if err := b.tokens(); err != nil {
		return err
	}
	b.await(ctx)
	if err := b.Daemon.Gone(); err != nil {
		return fmt.Errorf("weir run ended: %w\n%s", err, b.Daemon.Log(12))
	}
	return ctx.Err()
}

// tokens gives hosts the addresses that the file says in part: the lower half, in
// the network that weir made for the house.
func (b *Bench) tokens() error {
	for i := range b.LANs {
		l := &b.LANs[i]
		if auto := b.Joined[l.Name].auto; len(l.Address6) == 0 && auto.IsValid() {
			b.ula = netip.PrefixFrom(auto.Addr(), 48).Masked()
		}
		for k := range l.Hosts {
			h := &l.Hosts[k]
			if h.Of == nil || len(h.Of.Token) == 0 {
				continue
			}
			for _, a := range b.Config.HostAddrs(h.Of, b.ula) {
				if slices.Contains(h.Addr, a) {
					continue
				}
				h.Addr = append(slices.Clip(h.Addr), a)
				if err := b.Hosts[h.Name].Static(netip.PrefixFrom(a, 64), netip.Addr{}); err != nil {
					return err
				}
			}
		}
	}
	for i := range b.Config.Forwards {
		f := &b.Config.Forwards[i]
		f.To6 = b.Config.ForwardTo6(f, b.ula)
	}
	return nil
}
