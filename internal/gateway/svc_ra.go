package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/ra"
	"weir/internal/state"
	"weir/internal/worker"
)

// raLANs is what is advertised on the LANs, those whose link is there.
func raLANs(c *config.Config, w world) []ra.LAN {
	var out []ra.LAN
	st := w.state(c)
	home := desired.Home(c, st)
	granted, _ := desired.Granted(c, st)
	for _, l := range c.LANs {
		addrs := c.Address6(l.Name, st.ULA)
		if !l.Advertise.Enabled || len(addrs) == 0 || w.lans[l.Name].index == 0 {
			continue
		}
		v := l.Advertise
		a := ra.LAN{
			Name: l.Name, Router: w.use6 != "", Prefixes: v.Prefix, DNS: v.DNS, Search: v.Search,
			Lifetime: ra.Lifetime{Router: v.Router, Preferred: v.Preferred, Valid: v.Valid},
			Managed:  v.Managed, Other: v.Other, PREF64: v.PREF64, Portal: v.Portal,
			Routes: raRoutes(c, w, st, granted, l),
			Link:   ra.Link{MTU: l.MTU},
		}
		if a.Prefixes == nil {
			for _, p := range addrs {
				if p.Bits() == 64 {
					a.Prefixes = append(a.Prefixes, p.Masked())
				}
			}
			if home != "" {
				delegate(&a, *w.wans[home].lease6, granted[home], desired.Numbers(c, st.LANs)[l.Name])
			}
		}
		if a.DNS == nil {
			a.DNS = []netip.Addr{addrs[0].Addr()}
		}
		if a.Search == nil {
			a.Search = l.Domain
		}
		out = append(out, a)
	}
	return out
}

// raRoutes are the networks of the house that a LAN is led to by the gateway also
// where that is not the router of all the rest (RFC 7084, L-3): its ULA and what it
// was delegated as a whole, and networks by hand of LANs that this one may reach.
func raRoutes(c *config.Config, w world, st state.State, granted map[string][]netip.Prefix, l config.LAN) (out []ra.Route) {
	ula := c.Gateway.ULA
	if !ula.IsValid() {
		ula = st.ULA
	}
	used := false
	for _, o := range c.LANs {
		reach := slices.ContainsFunc(l.Reach, func(p config.Place) bool {
			return p.Ref.Kind == config.KindLAN && (p.Ref.Name == "" || p.Ref.Name == o.Name)
		})
		for _, p := range c.Address6(o.Name, st.ULA) {
			switch inULA := ula.IsValid() && ula.Overlaps(p); {
			case inULA && !used:
				used = true
				out = append(out, ra.Route{Prefix: ula})
			case !inULA && reach && o.Name != l.Name && !p.IsSingleIP():
				out = append(out, ra.Route{Prefix: p.Masked()})
			}
		}
	}
	for _, wan := range c.WANs {
		lease := w.wans[wan.Name].lease6
		for _, p := range granted[wan.Name] {
			i := slices.IndexFunc(lease.Prefix, func(l state.Leased6) bool { return l.Prefix == p })
			if i >= 0 && lease.Prefix[i].Valid > 0 && p.Bits() < 64 { // a /64 is on the link
				out = append(out, ra.Route{Prefix: p, Until: lease.Up + min(lease.Prefix[i].Valid, longest)})
			}
		}
	}
	return out
}

// longest stands for a lease without end.
const longest = 10 * 365 * 24 * time.Hour

// delegate adds a LAN's networks in what is taken of a line's lease, for as long as
// that has them.
func delegate(a *ra.LAN, l state.Lease6, granted []netip.Prefix, number uint16) {
	for _, p := range l.Prefix {
		net, ok := config.SubnetOf(p.Prefix, number)
		if !ok || p.Valid == 0 || !slices.Contains(granted, p.Prefix) {
			continue
		}
		a.Prefixes = append(a.Prefixes, net)
		a.Limits = append(a.Limits, ra.Limit{Prefix: net, Preferred: l.Up + min(p.Preferred, longest), Valid: l.Up + min(p.Valid, longest)})
	}
}

// toldFor is how long a prefix that nobody advertises any more is taken back at
// least: a host makes two hours of what it is told to forget (RFC 4862, 5.5.3).
const toldFor = 2 * time.Hour

// advise books which delegated prefixes are advertised on each LAN, and tells of
// those that are no more but may still be remembered. What changed is to be stored:
// after a power cut it is all that is known of what hosts were told (RFC 9096, 3.5).
func advise(lans []ra.LAN, advised map[string][]state.Told, now state.Clock) []state.Item {
	var items []state.Item
	for i := range lans {
		l := &lans[i]
		var told []state.Told
		for _, p := range l.Limits {
			told = append(told, state.Told{Prefix: p.Prefix, For: l.Lifetime.Valid})
		}
		for _, t := range advised[l.Name] {
			if slices.Contains(l.Prefixes, t.Prefix) {
				continue
			}
			if t.At.IsZero() {
				t.At, t.Boot, t.Up = now.Wall.Round(time.Second), now.Boot, now.Up
			}
			if t.Age(now) < max(toldFor, t.For) && len(told) < maxTold {
				told = append(told, t)
				l.Old = append(l.Old, t.Prefix)
			}
		}
		if !slices.EqualFunc(told, advised[l.Name], func(a, b state.Told) bool { return a.Prefix == b.Prefix && a.For == b.For && a.At.Equal(b.At) }) {
			advised[l.Name] = told
			items = append(items, state.KeepTold(l.Name, told))
		}
	}
	return items
}

// maxTold bounds what is remembered of an ISP that renumbers all the time.
const maxTold = 16

// advertiser is the child that advertises on all LANs. Its sockets stay open
// here and are passed at each start.
type advertiser struct {
	*service
	state ra.Report // the loop's

	mu    sync.Mutex
	want  []ra.LAN
	links map[string]link

	open map[string]raSocket // by LAN
	told []ra.LAN

	said chan struct{} // the farewell
}

type raSocket struct {
	on   link
	link ra.Link
	file *os.File
}

// syncRA tells the advertiser what to advertise.
func (d *daemon) syncRA(ctx context.Context) {
	want := raLANs(d.cfg, d.world)
	clock, err := state.ReadClock()
	if err != nil {
		clock.Wall = time.Now()
	}
	if items := advise(want, d.advised, clock); len(items) > 0 {
		d.items <- items
	}
	if d.ra == nil && len(want) == 0 {
		return
	}
	first := d.ra == nil
	if first {
		d.ra = &advertiser{open: map[string]raSocket{}, said: make(chan struct{}, 1)}
	}
	s := d.ra
	s.mu.Lock()
	s.want, s.links = want, d.world.lans
	s.mu.Unlock()
	if !first {
		s.wake()
		return
	}
	s.service = d.serve(ctx, duty{kind: ra.Worker, prepare: s.prepare, take: s.take})
}

// take takes the child's word. That the farewell is said is told at once:
// who takes weir down waits for it.
func (s *advertiser) take(_ *worker.Child, m worker.Message) (func(), error) {
	defer m.Close()
	var r ra.Report
	if err := m.Decode(&r); err != nil {
		return nil, err
	}
	if r.Said {
		select {
		case s.said <- struct{}{}:
		default:
		}
	}
	return func() { s.state = r }, nil
}

// farewell has the child take the gateway back from the LANs as their router. A child
// that is not there just then says nothing: hosts find out by themselves.
func (s *advertiser) farewell() bool {
	return s != nil && s.child.Send(ra.Config{Farewell: true}) == nil
}

// wait waits until the farewell is said. The loop does not: it may take a while.
func (s *advertiser) wait() {
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case <-s.said:
	case <-limit.C:
	}
}

// close ends the child and gives its sockets back: their links go next.
func (s *advertiser) close() {
	s.leave()
	for _, sock := range s.open {
		_ = sock.file.Close()
	}
}

func (s *advertiser) prepare(_ context.Context, fresh bool) (told, error) {
	s.mu.Lock()
	want, links := s.want, s.links
	s.mu.Unlock()
	cfg, t := ra.Config{}, told{keep: true}
	var trouble error
	keep := map[string]bool{}
	for _, l := range want {
		sock, ok := s.open[l.Name]
		if ok && sock.on != links[l.Name] {
			_ = sock.file.Close() // its link is gone
			delete(s.open, l.Name)
			ok = false
		}
		if !ok {
			var err error
			sock.on = links[l.Name]
			if sock.link, sock.file, err = ra.Open(sock.on.name); err != nil {
				trouble = errors.Join(trouble, err)
				continue
			}
			s.open[l.Name] = sock
		}
		keep[l.Name] = true
		mtu := cmp.Or(l.Link.MTU, sock.link.MTU) // the file's, also before the port has it
		l.Link = sock.link
		l.Link.MTU = mtu
		if l.Passed = fresh || !ok; l.Passed {
			t.files = append(t.files, sock.file)
		}
		cfg.LANs = append(cfg.LANs, l)
	}
	for name, sock := range s.open {
		if !keep[name] {
			_ = sock.file.Close() // not advertised on any more
			delete(s.open, name)
		}
	}
	if !fresh && len(t.files) == 0 && reflect.DeepEqual(cfg.LANs, s.told) {
		return told{}, trouble
	}
	s.told = nil
	for _, l := range cfg.LANs {
		l.Passed = false
		s.told = append(s.told, l)
	}
	t.msg = cfg
	return t, trouble
}
