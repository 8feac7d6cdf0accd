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
		a := ra.LAN{Name: l.Name, Router: w.use6 != "", Prefixes: l.Advertise.Prefix, DNS: l.Advertise.DNS, Search: l.Advertise.Search}
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
			a.Search = []string{c.Gateway.Domain}
		}
		out = append(out, a)
	}
	return out
}

// delegate adds a LAN's networks in what is taken of a line's lease, for as long as
// that has them.
func delegate(a *ra.LAN, l state.Lease6, granted []netip.Prefix, number uint16) {
	for _, p := range l.Prefix {
		net, ok := config.SubnetOf(p.Prefix, number)
		if !ok || p.Valid == 0 || !slices.Contains(granted, p.Prefix) {
			continue
		}
		const longest = 10 * 365 * 24 * time.Hour // what is without end
		a.Prefixes = append(a.Prefixes, net)
		a.Limits = append(a.Limits, ra.Limit{Prefix: net, Preferred: l.Up + min(p.Preferred, longest), Valid: l.Up + min(p.Valid, longest)})
	}
}

// toldFor is how long hosts may remember a prefix that nobody advertises any more:
// longer than what we ever say it is valid for.
const toldFor = 2 * time.Hour

// advise books which delegated prefixes are advertised on each LAN, and tells of
// those that are no more but may still be remembered. What changed is to be stored:
// after a power cut it is all that is known of what hosts were told (RFC 9096, 3.5).
func advise(lans []ra.LAN, advised map[string][]state.Told, now time.Time) []state.Item {
	var items []state.Item
	for i := range lans {
		l := &lans[i]
		var told []state.Told
		for _, p := range l.Limits {
			told = append(told, state.Told{Prefix: p.Prefix})
		}
		for _, t := range advised[l.Name] {
			if slices.Contains(l.Prefixes, t.Prefix) {
				continue
			}
			if t.At.IsZero() {
				t.At = now.Round(time.Second)
			}
			if now.Sub(t.At) < toldFor && len(told) < maxTold {
				told = append(told, t)
				l.Old = append(l.Old, t.Prefix)
			}
		}
		if !slices.EqualFunc(told, advised[l.Name], func(a, b state.Told) bool { return a.Prefix == b.Prefix && a.At.Equal(b.At) }) {
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
	if items := advise(want, d.advised, time.Now()); len(items) > 0 {
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

// take takes the child's word. That the farewell is said is told at once: the
// loop waits for it.
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

// farewell takes the gateway back from the LANs as their router, and ends the
// child. A child that is not there just then says nothing: hosts find out by
// themselves.
func (d *daemon) farewell() {
	s := d.ra
	if s == nil {
		return
	}
	if err := s.child.Send(ra.Config{Farewell: true}); err == nil {
		select {
		case <-s.said:
		case <-time.After(time.Second):
		}
	}
	s.leave()
	for _, sock := range s.open {
		_ = sock.file.Close() // the link goes next
	}
	d.ra = nil // should the daemon go on after all, it starts another
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
		l.Link = sock.link
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
