package gateway

import (
	"cmp"
	"context"
	"reflect"
	"sync"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/netns"
	"weir/internal/state"
	"weir/internal/wan/dhcp4"
)

// dhcp4Config is what the DHCPv4 client of a WAN is told, but for its sockets.
// The host name that it gives is the file's, else the gateway's.
func dhcp4Config(c *config.Config, w config.WAN, k wan) dhcp4.Config {
	host := w.IPv4.Hostname
	if host == "" {
		host = c.Gateway.Name
	}
	return dhcp4.Config{
		WAN: w.Name, Port: k.port.name, MAC: k.port.mac,
		ClientID: w.IPv4.ClientID, Hostname: host, VendorClass: w.IPv4.VendorClass, IgnoreClasslessRoutes: w.IPv4.IgnoreClasslessRoutes,
		Last: cmp.Or(k.lease, k.last), Confirm: k.confirm,
	}
}

// dhcp4Client is the DHCPv4 client of one WAN.
type dhcp4Client struct {
	*service
	state    dhcp4.Report // the loop's
	released chan struct{}

	mu   sync.Mutex
	want dhcp4.Config
	port link // where its sockets have to be
	have link // where they are
	told dhcp4.Config
}

// syncDHCP4 has a client for each WAN that gets its address by DHCP and whose
// port is in its namespace.
func (d *daemon) syncDHCP4(ctx context.Context) {
	for name, s := range d.dhcp4 {
		if w := d.cfg.WAN(name); w == nil || w.IPv4.Method != config.MethodDHCP {
			s.leave()
			delete(d.dhcp4, name)
		}
	}
	for _, w := range d.cfg.WANs {
		k := d.world.wans[w.Name]
		if w.IPv4.Method != config.MethodDHCP || k.port.index == 0 {
			continue
		}
		s := d.dhcp4[w.Name]
		if s == nil {
			s = &dhcp4Client{want: dhcp4Config(d.cfg, w, k), port: k.port, released: make(chan struct{}, 1)}
			d.dhcp4[w.Name] = s
			s.service = d.serve(ctx, duty{
				kind: dhcp4.Worker, name: w.Name, prepare: s.prepare,
				take: reportTo(func(r dhcp4.Report) {
					if r.State == dhcp4.Released {
						wake(s.released)
					}
				}, func(r dhcp4.Report) {
					if d.dhcp4[w.Name] == s {
						d.takeLease(w.Name, r)
					}
				}),
			})
			continue
		}
		s.mu.Lock()
		s.want, s.port = dhcp4Config(d.cfg, w, k), k.port
		s.mu.Unlock()
		s.wake()
	}
}

func (s *dhcp4Client) prepare(_ context.Context, fresh bool) (told, error) {
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
	if fresh || s.have != port {
		err := netns.Do(desired.NSPrefix+want.WAN, func() (err error) {
			want.Sockets, t.files, err = dhcp4.Open(port.name)
			return err
		})
		if err != nil {
			s.have = link{} // the child can do nothing until it has some
			return told{}, err
		}
		s.have = port
	}
	t.msg = want
	want.Sockets = nil
	s.told = want
	return t, nil
}

// takeLease takes what a client says of its line.
func (d *daemon) takeLease(name string, r dhcp4.Report) {
	s, k := d.dhcp4[name], d.world.wans[name]
	s.state = r
	if reflect.DeepEqual(k.lease, r.Lease) {
		return
	}
	switch {
	case r.Lease == nil:
		d.log.Warn("lease is gone", "wan", name, "why", r.Event)
	case k.lease == nil || k.lease.Addr != r.Lease.Addr:
		d.log.Info("lease", "wan", name, "addr", r.Lease.Addr, "server", r.Lease.Server, "for", r.Lease.Duration, "note", r.Lease.Note)
	default:
		d.log.Debug("lease renewed", "wan", name, "addr", r.Lease.Addr)
	}
	k.lease, k.last = r.Lease, nil
	d.world.wans[name] = k
	d.wantTurn(0)
	d.items <- []state.Item{state.KeepWAN(name, r.Lease)}
}

// release4 has given back what the lines were leased that wants says is wanted no more,
// as release6 does, and returns who does it.
func (d *daemon) release4(wants func(wan string) bool) map[string]*dhcp4Client {
	asked := map[string]*dhcp4Client{}
	for name, s := range d.dhcp4 {
		if d.world.wans[name].lease == nil || wants(name) {
			continue
		}
		s.mu.Lock()
		cfg := s.want
		s.mu.Unlock()
		cfg.Release = true
		if err := s.child.Send(cfg); err == nil {
			asked[name] = s
		}
	}
	return asked
}

// end4 ends the DHCPv4 clients of lines that were given back. A line that asks for an
// address gets another.
func (d *daemon) end4(gone map[string]*dhcp4Client) {
	for name, s := range gone {
		if d.dhcp4[name] != s {
			continue
		}
		s.leave()
		d.takeLease(name, dhcp4.Report{State: dhcp4.Released, Event: "given back"})
		delete(d.dhcp4, name)
	}
}
