package gateway

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"weir/internal/api"
	"weir/internal/blocklist"
	"weir/internal/config"
	"weir/internal/dns"
	"weir/internal/named"
	"weir/internal/state"
)

// listKeeper is who keeps the lists of names that are not resolved.
type listKeeper struct {
	*service
	state []blocklist.State // the loop's

	mu   sync.Mutex
	want blocklist.Config

	told blocklist.Config
}

// listsDir is where lists are kept: among BIND's files, which it reads.
func (d *daemon) listsDir() string { return filepath.Join(d.namedDir(), "lists") }

// listsConfig is what the keeper of lists is told.
func listsConfig(c *config.Config, w world, dir string) blocklist.Config {
	out := blocklist.Config{Dir: dir, Via: "IPv4 " + w.use4 + ", IPv6 " + w.use6}
	for _, l := range c.DNS.BlockLists {
		out.Lists = append(out.Lists, blocklist.List{Name: l.Name, Sources: l.Source, Refresh: l.Refresh, Allow: l.Allow})
	}
	return out
}

// syncLists has lists kept where the file has some.
func (d *daemon) syncLists(ctx context.Context) {
	want := listsConfig(d.cfg, d.world, d.listsDir())
	if len(want.Lists) == 0 {
		if d.lists != nil {
			go d.lists.leave()
			d.lists = nil
		}
		return
	}
	first := d.lists == nil
	if first {
		d.lists = &listKeeper{state: keptLists(want)}
	}
	s := d.lists
	s.mu.Lock()
	s.want = want
	s.mu.Unlock()
	if !first {
		s.wake()
		return
	}
	s.service = d.serve(ctx, duty{kind: blocklist.Worker, prepare: s.prepare, take: report(func(r blocklist.Report) {
		if d.lists != s {
			return // the file has none any more
		}
		s.state = r.Lists
		d.syncDNS(ctx)
	})})
}

// keptLists are the lists that were made before this start. They are in force until
// it is known how they stand, so that no name gets through at a boot.
func keptLists(c blocklist.Config) (out []blocklist.State) {
	for _, l := range c.Lists {
		for _, f := range []string{blocklist.NamesFile(l.Name), blocklist.PolicyFile(l.Name)} {
			if _, err := os.Stat(filepath.Join(c.Dir, f)); err == nil {
				out = append(out, blocklist.State{Name: l.Name, Version: "kept"})
				break
			}
		}
	}
	return out
}

func (s *listKeeper) prepare(_ context.Context, fresh bool) (told, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fresh && reflect.DeepEqual(s.want, s.told) {
		return told{}, nil
	}
	s.told = s.want
	return told{msg: s.want}, nil
}

// listState is how a list stands; the zero State if nothing is known of it.
func (d *daemon) listState(name string) blocklist.State {
	if d.lists != nil {
		for _, s := range d.lists.state {
			if s.Name == name {
				return s
			}
		}
	}
	return blocklist.State{}
}

// listLANs are the LANs that a list is for.
func listLANs(c *config.Config, l config.BlockList) (out []config.LAN) {
	for _, lan := range c.LANs {
		if len(l.LAN) == 0 || slices.Contains(l.LAN, lan.Name) {
			out = append(out, lan)
		}
	}
	return out
}

// namedLists are the lists that there are, for BIND.
func (d *daemon) namedLists(c *config.Config) (out []named.List) {
	for _, l := range c.DNS.BlockLists {
		s := d.listState(l.Name)
		if s.Version == "" {
			continue
		}
		n := named.List{Name: l.Name, File: filepath.Join(d.listsDir(), blocklist.PolicyFile(l.Name)), Version: s.Version}
		for _, lan := range listLANs(c, l) {
			n.LANs = append(n.LANs, lan.Name)
		}
		out = append(out, n)
	}
	return out
}

// dnsLists are the lists that there are, for weir's own resolver. Nobody knows from
// which LAN a link-local address asks: it gets around no list.
func (d *daemon) dnsLists(c *config.Config, st state.State) (out []dns.List) {
	for _, l := range c.DNS.BlockLists {
		s := d.listState(l.Name)
		if s.Version == "" {
			continue
		}
		n := dns.List{
			Name: l.Name, File: filepath.Join(d.listsDir(), blocklist.NamesFile(l.Name)), Version: s.Version,
			Clients: []netip.Prefix{netip.MustParsePrefix("fe80::/10")},
		}
		for _, lan := range listLANs(c, l) {
			for _, p := range lanAddresses(c, lan, st) {
				n.Clients = append(n.Clients, p.Masked())
			}
		}
		out = append(out, n)
	}
	return out
}

// blockLists adds how the lists stand.
func (d *daemon) blockLists(s *api.Status) {
	for _, l := range d.cfg.DNS.BlockLists {
		b := api.BlockList{Name: l.Name}
		for _, lan := range listLANs(d.cfg, l) {
			b.LANs = append(b.LANs, lan.Name)
		}
		st := d.listState(l.Name)
		b.Names, b.Skipped, b.Updated, b.Error = st.Names, st.Skipped, st.Updated, st.Err
		s.BlockLists = append(s.BlockLists, b)
	}
}
