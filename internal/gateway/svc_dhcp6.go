package gateway

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"reflect"
	"sync"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/netns"
	"weir/internal/state"
	"weir/internal/wan/dhcp6"
)

// wants6 says whether something is asked for by DHCPv6 on a WAN.
func wants6(w config.WAN, k wan) bool {
	return w.IPv6.Delegate > 0 || wantsAddr6(w, k) || wantsInfo6(w, k)
}

// wantsInfo6 says whether a WAN is asked for what there is without a lease: the file
// leaves it to the ISP's routers (RFC 4861, 4.2: the O flag, which M makes redundant).
func wantsInfo6(w config.WAN, k wan) bool {
	return w.IPv6.Method == config.MethodAuto && k.other && !k.managed
}

// wantsAddr6 says whether an address of the line is asked for by DHCPv6: the file says
// so, or leaves it to the ISP's routers (RFC 4861, 4.2: the M flag).
func wantsAddr6(w config.WAN, k wan) bool {
	return w.IPv6.Method == config.MethodDHCP || w.IPv6.Method == config.MethodAuto && k.managed
}

// dhcp6Config is what the DHCPv6 client of a WAN is told, but for its socket.
func dhcp6Config(w config.WAN, k wan, h house) dhcp6.Config {
	return dhcp6.Config{
		WAN: w.Name, Port: k.port.name, DUID: h.DUID, IAID: uint32(h.Index[w.Name]),
		Address: wantsAddr6(w, k), Prefix: w.IPv6.Delegate, Info: wantsInfo6(w, k),
		Last: cmp.Or(k.lease6, k.last6), Confirm: k.confirm,
	}
}

// restore6 takes in what is stored of DHCPv6. From now on the time since the boot
// counts, whatever is done to the clock.
func (d *daemon) restore6(k state.Kept) {
	clock, err := state.ReadClock()
	if err != nil {
		clock.Wall = d.started
	}
	for name, l := range k.WANs6 {
		age, known := l.Age(clock)
		if known {
			l.Boot, l.Up = clock.Boot, clock.Up-age
		}
		w := d.world.wans[name]
		w.last6 = &l
		if now := l; known && len(state.After(l.Prefix, age))+len(state.After(l.Addr, age)) > 0 {
			now.Prefix, now.Addr = state.After(l.Prefix, age), state.After(l.Addr, age)
			w.lease6, w.last6 = &now, nil
		}
		d.world.wans[name] = w
	}
	for lan, told := range k.Told {
		d.advised[lan] = told
	}
}

// leased6 are the addresses that a WAN itself is leased.
func leased6(k wan) []netip.Prefix {
	var out []netip.Prefix
	if k.lease6 != nil {
		for _, a := range k.lease6.Addr {
			out = append(out, a.Prefix)
		}
	}
	return out
}

// dhcp6Client is the DHCPv6 client of one WAN.
type dhcp6Client struct {
	*service
	state    dhcp6.Report // the loop's
	released chan struct{}

	mu   sync.Mutex
	want dhcp6.Config
	port link // where its socket has to be
	have link // where it is
	told dhcp6.Config
}

// syncDHCP6 has a client for each WAN that something is asked for by DHCPv6 and
// whose port is in its namespace.
func (d *daemon) syncDHCP6(ctx context.Context) {
	for name, s := range d.dhcp6 {
		if w := d.cfg.WAN(name); w == nil || !wants6(*w, d.world.wans[name]) {
			d.end6(map[string]*dhcp6Client{name: s}, "the file asks for nothing any more")
		}
	}
	for _, w := range d.cfg.WANs {
		k := d.world.wans[w.Name]
		if !wants6(w, k) || k.port.index == 0 {
			continue
		}
		s := d.dhcp6[w.Name]
		if s == nil {
			s = &dhcp6Client{want: dhcp6Config(w, k, d.world.house), port: k.port, released: make(chan struct{}, 1)}
			d.dhcp6[w.Name] = s
			s.service = d.serve(ctx, duty{
				kind: dhcp6.Worker, name: w.Name, prepare: s.prepare,
				take: reportTo(func(r dhcp6.Report) {
					if r.Released {
						wake(s.released)
					}
				}, func(r dhcp6.Report) {
					if d.dhcp6[w.Name] == s {
						s.state = r
						d.takeLease6(w.Name, r.Lease, r.Event)
						d.takeInfo6(w.Name, r.Info)
					}
				}),
			})
			continue
		}
		s.mu.Lock()
		s.want, s.port = dhcp6Config(w, k, d.world.house), k.port
		s.mu.Unlock()
		s.wake()
	}
}

func (s *dhcp6Client) prepare(_ context.Context, fresh bool) (told, error) {
	s.mu.Lock()
	want, port := s.want, s.port
	s.mu.Unlock()
	if !fresh && s.have == port {
		quiet := want
		quiet.Last = s.told.Last // looked at in the first message only
		if reflect.DeepEqual(quiet, s.told) {
			return told{}, nil
		}
	}
	t := told{}
	s.told = want
	if fresh || s.have != port {
		var f *os.File
		err := netns.Do(desired.NSPrefix+want.WAN, func() (err error) {
			f, err = dhcp6.Open(port.name)
			return err
		})
		if err != nil {
			s.have = link{} // the child can do nothing until it has some
			return told{}, err
		}
		s.have, t.files, want.Passed = port, []*os.File{f}, true
	}
	t.msg = want
	return t, nil
}

// takeLease6 takes what a client says of its line.
func (d *daemon) takeLease6(name string, l *state.Lease6, why string) {
	k := d.world.wans[name]
	if reflect.DeepEqual(k.lease6, l) {
		return
	}
	switch {
	case l == nil:
		d.log.Warn("DHCPv6 lease is gone", "wan", name, "why", why)
	case k.lease6 == nil || !sameLeased(*k.lease6, *l):
		for _, p := range append(l.Prefix, l.Addr...) {
			d.log.Info("DHCPv6 lease", "wan", name, "prefix", p.Prefix, "server", l.Server, "preferred", p.Preferred, "valid", p.Valid, "note", l.Note)
		}
	default:
		d.log.Debug("DHCPv6 lease renewed", "wan", name)
	}
	k.lease6, k.last6 = l, nil
	d.world.wans[name] = k
	d.wantTurn(0)
	d.items <- []state.Item{state.KeepWAN6(name, l)}
}

// takeInfo6 takes what a line's server tells without a lease. It is not stored: it is
// asked for in the first second.
func (d *daemon) takeInfo6(name string, i *dhcp6.Info) {
	k := d.world.wans[name]
	if reflect.DeepEqual(k.info6, i) {
		return
	}
	if i != nil {
		d.log.Info("DHCPv6 without a lease", "wan", name, "server", i.Server, "dns", i.DNS, "domain", i.Domain)
	}
	k.info6 = i
	d.world.wans[name] = k
	d.wantTurn(0)
}

// sameLeased says whether two leases are of the same things.
func sameLeased(a, b state.Lease6) bool {
	names := func(l state.Lease6) (out []netip.Prefix) {
		for _, p := range append(l.Prefix[:len(l.Prefix):len(l.Prefix)], l.Addr...) {
			out = append(out, p.Prefix)
		}
		return out
	}
	return reflect.DeepEqual(names(a), names(b))
}

// release6 has given back what the lines were leased that is wanted no more, of whichever
// kind, and returns who does it: all by `weir down`, and what a file that is there to
// stay asks for no more. A restart keeps all. wants says what is asked for from now on.
func (d *daemon) release6(wants func(wan string) (address bool, prefix int)) map[string]*dhcp6Client {
	asked := map[string]*dhcp6Client{}
	for name, s := range d.dhcp6 {
		l := d.world.wans[name].lease6
		if l == nil {
			continue
		}
		s.mu.Lock()
		cfg := s.want
		s.mu.Unlock()
		cfg.Address, cfg.Prefix = wants(name)
		if (cfg.Address || len(l.Addr) == 0) && (cfg.Prefix > 0 || len(l.Prefix) == 0) {
			continue
		}
		cfg.Release = true
		select {
		case <-s.released: // of another time, that was not waited for
		default:
		}
		if err := s.child.Send(cfg); err == nil {
			asked[name] = s
		}
	}
	return asked
}

// end6 ends DHCPv6 clients of lines. A line that asks for something gets another.
func (d *daemon) end6(gone map[string]*dhcp6Client, why string) {
	for name, s := range gone {
		if d.dhcp6[name] != s {
			continue
		}
		s.leave()
		delete(d.dhcp6, name)
		d.takeLease6(name, nil, why)
		d.takeInfo6(name, nil)
	}
}
