package gateway

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/dns"
	"weir/internal/named"
	"weir/internal/state"
)

// dnsConfig is what the resolver is told, but for its sockets. far has the far
// ends of the cables, under which the lines' own servers are asked.
func dnsConfig(c *config.Config, w world, far map[string][]netip.Addr, leased []dns.Name, more func(*config.Host) []netip.Addr) dns.Config {
	st := w.state(c)
	out := dns.Config{Gateway: c.Gateway.Name, Domain: c.Gateway.Domain, Leases: leased, Via: "IPv4 " + w.use4 + ", IPv6 " + w.use6, Log: c.DNS.Log}
	for _, l := range c.LANs {
		addrs := lanAddresses(c, l, st)
		out.LANs = append(out.LANs, dns.LAN{Name: l.Name, Addrs: addrs})
		for _, h := range l.Hosts {
			n := dns.Name{Name: h.DNSName, Addrs: slices.Clone(h.Address)}
			for _, t := range h.Token {
				for _, p := range addrs {
					if p.Addr().Is6() && p.Bits() == 64 {
						n.Addrs = append(n.Addrs, tokenIn(p, t))
					}
				}
			}
			n.Addrs = unique(append(n.Addrs, more(&h)...))
			if len(n.Addrs) > 0 {
				out.Hosts = append(out.Hosts, n)
			}
		}
	}
	out.Clients, out.Private = dnsClients(c, st), c.DNS.PrivateDomain
	out.Upstreams = upstreams(c, w, far)
	return out
}

// dnsClients are the networks that are answered, beside the gateway itself: the
// file's, or the LANs', where somebody may have but a link-local address.
func dnsClients(c *config.Config, st state.State) []netip.Prefix {
	if len(c.DNS.Client) > 0 {
		return c.DNS.Client
	}
	out := []netip.Prefix{netip.MustParsePrefix("fe80::/10")}
	for _, l := range c.LANs {
		for _, p := range lanAddresses(c, l, st) {
			out = append(out, p.Masked())
		}
	}
	return out
}

// tokenIn is the address with the network of p and the interface identifier of token.
func tokenIn(p netip.Prefix, token netip.Addr) netip.Addr {
	n, t := p.Addr().As16(), token.As16()
	copy(n[8:], t[8:])
	return netip.AddrFrom16(n)
}

// dnsAddrs are the addresses that the resolver answers on.
func dnsAddrs(c *config.Config, st state.State) []netip.Addr {
	out := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, l := range c.LANs {
		for _, p := range lanAddresses(c, l, st) {
			out = append(out, p.Addr())
		}
	}
	return out
}

// dnsServer is the resolver. Its sockets stay open here and are passed at each start.
type dnsServer struct {
	*service
	state dns.Report // the loop's

	mu    sync.Mutex
	want  dns.Config
	addrs []netip.Addr

	opening sync.Mutex // held by prepare
	open    map[netip.Addr]dnsSockets
	told    dns.Config
}

type dnsSockets struct {
	sockets []dns.Socket
	files   []*os.File
}

// syncDNS tells the resolver what it has to know.
func (d *daemon) syncDNS(ctx context.Context) {
	began := time.Now()
	// All leases are gone through: a storm of them is taken in together, and has
	// a tenth of the loop's time at most.
	defer func() { d.namesAgain = time.Now().Add(9 * time.Since(began)) }()
	clock, err := state.ReadClock()
	if err != nil {
		d.log.Error("leases' names are left out", "err", err)
	}
	leases, next := held(d.leases, d.cfg, clock)
	if d.nextEnd = (time.Time{}); next > 0 {
		d.nextEnd = time.Now().Add(next)
	}
	if d.changing {
		return // the port is not free yet; it comes again
	}
	if d.useBIND() {
		bind, notes, err := d.wholeNamed(d.cfg, d.world, d.built, leases, d.near)
		switch {
		case err == nil && d.dns != nil:
			d.changeEngine(ctx)
			return
		case err == nil:
			bind.Lists = d.namedLists(d.cfg)
			d.syncNamed(ctx, bind, notes)
			return
		case !errors.Is(err, named.ErrMissing):
			d.log.Error("BIND can't be used: weir's own forwarder answers", "err", err)
		}
	}
	if d.named != nil {
		d.changeEngine(ctx)
		return
	}
	first := d.dns == nil
	if first {
		d.dns = &dnsServer{open: map[netip.Addr]dnsSockets{}}
	}
	s := d.dns
	s.mu.Lock()
	s.want = dnsConfig(d.cfg, d.world, d.far, leasedNames(devices(d.cfg, d.world, leases, d.near)),
		func(h *config.Host) []netip.Addr { return hostMore(d.cfg, d.world, h, leases, d.near) })
	s.want.Lists = d.dnsLists(d.cfg, d.world.state(d.cfg))
	s.addrs = dnsAddrs(d.cfg, d.world.state(d.cfg))
	s.mu.Unlock()
	if !first {
		s.wake()
		return
	}
	s.service = d.serve(ctx, duty{kind: dns.Worker, prepare: s.prepare, take: answers(d.questions, func(r dns.Report) []dns.Asked { return r.Asked }, func(r dns.Report) {
		d.news = d.news || !slices.Equal(failing(s.state), failing(r))
		s.state = r
	})})
}

// failing are the resolvers that give no answer, and why.
func failing(r dns.Report) (out [][2]string) {
	for _, u := range r.Upstreams {
		if !u.Up {
			out = append(out, [2]string{u.WAN + " " + u.Server, u.Err})
		}
	}
	return out
}

func (s *dnsServer) prepare(ctx context.Context, fresh bool) (told, error) {
	s.mu.Lock()
	want, addrs := s.want, s.addrs
	s.mu.Unlock()
	s.opening.Lock()
	defer s.opening.Unlock()
	if ctx.Err() != nil {
		return told{}, nil // it leaves
	}
	t := told{keep: true}
	var trouble error
	for _, a := range addrs {
		sock, ok := s.open[a]
		if !ok {
			var err error
			if sock.sockets, sock.files, err = dns.Open(ctx, a); err != nil {
				trouble = errors.Join(trouble, err)
				continue
			}
			s.open[a] = sock
		}
		for i, k := range sock.sockets {
			if k.Passed = fresh || !ok; k.Passed {
				t.files = append(t.files, sock.files[i])
			}
			want.Sockets = append(want.Sockets, k)
		}
	}
	for a, sock := range s.open {
		if !slices.Contains(addrs, a) {
			closeAll(sock.files)
			delete(s.open, a)
		}
	}
	quiet := want
	quiet.Sockets = slices.Clone(want.Sockets)
	for i := range quiet.Sockets {
		quiet.Sockets[i].Passed = false
	}
	if !fresh && len(t.files) == 0 && reflect.DeepEqual(quiet, s.told) {
		return told{}, trouble
	}
	s.told, t.msg = quiet, want
	return t, trouble
}

// shut closes the sockets, once the child has left.
func (s *dnsServer) shut() {
	s.opening.Lock()
	defer s.opening.Unlock()
	for a, sock := range s.open {
		closeAll(sock.files)
		delete(s.open, a)
	}
}
