package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/dns"
	"weir/internal/foreign"
	"weir/internal/kernel"
	"weir/internal/named"
	"weir/internal/state"
)

// namedConfig is what BIND is told. cables has the addresses of their ends.
func namedConfig(c *config.Config, w world, cables desired.Desired, leases []state.Lease, seen []kernel.Neighbour) named.Config {
	st := w.state(c)
	out := named.Config{Gateway: c.Gateway.Name, Domain: c.Gateway.Domain, Unchecked: !c.DNS.Validate, Log: c.DNS.Log}
	for _, l := range c.LANs {
		out.LANs = append(out.LANs, named.LAN{Name: l.Name, Addrs: lanAddresses(c, l, st), Domains: l.Domain})
		for _, h := range l.Hosts {
			out.Hosts = append(out.Hosts, named.Host{Name: h.DNSName, Addrs: unique(append(c.HostAddrs(&h, st.ULA), hostMore(c, w, &h, leases, seen)...)), Alias: h.Alias, Domains: l.Domain})
		}
	}
	out.Clients, out.Private = dnsClients(c, st), c.DNS.PrivateDomain
	near, far := nearEnds(cables), farEnds(cables)
	nets := []netip.Prefix{c.Gateway.Cable4}
	if p := c.Cables6(st.ULA); p.IsValid() {
		nets = append(nets, p)
	}
	for _, l := range c.WANs {
		out.Cables = append(out.Cables, named.Cable{WAN: l.Name, Near: near[l.Name], Far: far[l.Name], Networks: nets})
	}
	out.Upstreams = forwarders(c, w, far, c.DNS.Upstream)
	for _, z := range c.DNS.Zones {
		nz := named.Zone{Name: z.Name, Forward: forwarders(c, w, far, z.Forward)}
		if len(nz.Forward) == 0 {
			nz.TTL = uint32(z.TTL.Seconds())
			nz.SOA = named.SOA{
				Refresh: uint32(z.SOA.Refresh.Seconds()), Retry: uint32(z.SOA.Retry.Seconds()),
				Expire: uint32(z.SOA.Expire.Seconds()), Minimum: uint32(z.SOA.Minimum.Seconds()),
			}
		}
		for _, r := range z.Records {
			nr := named.Record{Name: r.Name, TTL: uint32(r.TTL.Seconds()), Addrs: c.Addrs(r.Address, st.ULA), Texts: r.TXT}
			for _, d := range r.Data {
				nr.Data = append(nr.Data, named.Datum{Type: d.Type, Data: d.Data})
			}
			nz.Records = append(nz.Records, nr)
		}
		out.Zones = append(out.Zones, nz)
	}
	for _, k := range c.DNS.Keys {
		out.Keys = append(out.Keys, named.Key{Name: k.Name, Algorithm: k.Algorithm, Zones: k.Zone, Names: k.Names, Types: k.Types, Secret: k.Secret})
	}
	for _, d := range devices(c, w, leases, seen) {
		if lan := c.LAN(d.lan); lan != nil && d.name != "" {
			out.Leases = append(out.Leases, named.Lease{Name: d.name, Addr: d.addr, Six: d.six, Client: d.client, DUID: d.duid, MAC: d.mac, Domains: lan.Domain})
		}
	}
	return out
}

// nearEnds are the addresses of the cables' ends in the house's namespace.
func nearEnds(d desired.Desired) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, ns := range d.Namespaces {
		if ns.WAN != "" {
			continue
		}
		for _, l := range ns.Links {
			if l.Kind != desired.Veth {
				continue
			}
			for _, a := range ns.Addrs {
				if a.Link == l.Name && !a.Prefix.Addr().IsLinkLocalUnicast() {
					out[l.Name] = append(out[l.Name], a.Prefix.Addr())
				}
			}
		}
	}
	return out
}

// rootAnchors are the root's keys that the owner put into the state directory, ""
// if none did. note says why they can't be used.
func rootAnchors(stateDir string) (text, note string) {
	b, err := os.ReadFile(filepath.Join(stateDir, named.AnchorsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", ""
	}
	if err == nil {
		_, err = named.ParseAnchors(string(b))
	}
	if err != nil {
		return "", "the root's keys in the state directory are not used, but those that are built in: " + err.Error()
	}
	return string(b), ""
}

// wholeNamed is namedConfig with what this machine has.
func (d *daemon) wholeNamed(c *config.Config, w world, cables desired.Desired, leases []state.Lease, near []kernel.Neighbour) (_ named.Config, notes []string, err error) {
	p, err := named.Find()
	if err != nil {
		return named.Config{}, nil, err
	}
	out := namedConfig(c, w, cables, leases, near)
	out.Program, out.Dir = p, d.namedDir()
	for i, k := range out.Keys {
		if fi, err := os.Stat(k.Secret); k.Secret != "" && err == nil { // else the worker says what is wrong
			out.Keys[i].Version = fi.ModTime().UnixNano()
		}
	}
	var note string
	if out.Anchors, note = rootAnchors(d.o.StateDir); note != "" {
		notes = append(notes, note)
	}
	return out, notes, nil
}

// dnsNotes is what is to be known about BIND on this machine by a file.
func (d *daemon) dnsNotes(c *config.Config) []string {
	_, notes := d.chooseEngine(c)
	return notes
}

// namedDir is where BIND's files are: a whole path, for it stands in them.
func (d *daemon) namedDir() string {
	dir := filepath.Join(d.o.StateDir, "named")
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// otherNamed is a named in this network that is not run on a file in dir; 0: there
// is none.
func otherNamed(root fs.FS, dir string) int {
	for p := range foreign.Here(root) {
		if filepath.Base(p.Args[0]) == "named" && !slices.Contains(p.Args, filepath.Join(dir, "named.conf")) {
			return p.PID
		}
	}
	return 0
}

// checkNames has BIND's own checker judge what would be made of c, on the caller's
// goroutine: it takes a while.
func (d *daemon) checkNames(ctx context.Context, c *config.Config, w world) error {
	if bind, _ := d.chooseEngine(c); !bind {
		return nil
	}
	nc, _, err := d.wholeNamed(c, w, desired.Build(c, w.state(c)), nil, nil)
	if errors.Is(err, named.ErrMissing) {
		return nil // a note says so
	}
	if err == nil {
		err = errors.Join(named.CheckSecrets(nc), named.CheckConf(ctx, nc))
	}
	if err != nil {
		return &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: err.Error()}}
	}
	return nil
}

// foreseeNames is checkNames for the house as it is now.
func (d *daemon) foreseeNames(ctx context.Context, c *config.Config) error {
	if bind, _ := d.chooseEngine(c); !bind {
		return nil
	}
	w, err := call(ctx, d, func() (world, error) {
		w := d.world
		w.wans = maps.Clone(w.wans) // the loop goes on with its own
		h, err := settle(w.house, c, rand.Reader)
		w.house = h
		return w, err
	})
	if err != nil {
		return err
	}
	return d.checkNames(ctx, c, w)
}

// namedServer is BIND and who looks after it.
type namedServer struct {
	*service
	// The loop's:
	state  named.Report
	notes  []string // of the last configuration
	starts int      // of the child
	worked bool     // it has answered once

	mu     sync.Mutex
	want   named.Config
	failed string // what the child could not put in force

	told named.Config
}

// syncNamed tells BIND what it has to know.
func (d *daemon) syncNamed(ctx context.Context, want named.Config, notes []string) {
	first := d.named == nil
	if first {
		d.named = &namedServer{}
	}
	s := d.named
	s.notes = notes
	s.mu.Lock()
	s.want = want
	s.mu.Unlock()
	if !first {
		s.wake()
		return
	}
	s.service = d.serve(ctx, duty{
		kind: named.Worker, prepare: s.prepare,
		take: answers(d.questions, func(r named.Report) []dns.Asked { return r.Asked }, func(r named.Report) { s.take(r) }),
		started: func() {
			s.take(named.Report{})
			d.startedNamed(ctx, s)
		},
	})
}

// take takes the child's word.
func (s *namedServer) take(r named.Report) {
	s.state, s.worked = r, s.worked || r.Ready
	s.mu.Lock()
	s.failed = r.Err
	s.mu.Unlock()
	var trouble error
	if r.Err != "" {
		trouble = errors.New(r.Err)
	}
	s.setTrouble(trouble)
}

func (s *namedServer) prepare(_ context.Context, fresh bool) (told, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fresh && reflect.DeepEqual(s.want, s.told) {
		if s.failed != "" {
			return told{}, errors.New(s.failed)
		}
		return told{}, nil
	}
	s.told = s.want
	return told{msg: s.want}, nil
}

// answers says whether the house's names are answered.
func (d *daemon) answers() bool {
	if d.named != nil {
		return d.named.state.Ready
	}
	return d.dns != nil && d.dns.status().State == "running"
}

// changeEngine ends the engine that answers now, for the other to take its port
// over. The loop does not wait: a turn comes when it is gone.
func (d *daemon) changeEngine(ctx context.Context) {
	old, forwarder, bind := time.Now(), d.dns, d.named
	d.dns, d.named, d.changing = nil, nil, true
	go func() {
		if forwarder != nil {
			forwarder.leave()
			forwarder.shut()
		}
		if bind != nil {
			bind.leave()
		}
		d.post(ctx, func() {
			d.changing, d.news = false, true
			d.log.Info("another engine answers names", "took", time.Since(old).Round(time.Millisecond))
			d.syncDNS(ctx)
		})
	}()
}
