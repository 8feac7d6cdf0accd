package gateway

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"sync"

	"weir/internal/config"
	"weir/internal/dhcpd6"
)

// serves6 says whether a LAN has a DHCPv6 server.
func serves6(l config.LAN) bool { return l.DHCP6 }

// dhcpd6LANs is what the DHCPv6 server tells on the LANs, those whose link is there.
// ntp says that the gateway serves the time.
func dhcpd6LANs(c *config.Config, w world, ntp bool) []dhcpd6.LAN {
	var out []dhcpd6.LAN
	for _, l := range c.LANs {
		k := w.lans[l.Name]
		if !serves6(l) || k.index == 0 {
			continue
		}
		d := dhcpd6.LAN{Name: l.Name, Link: k.name, DNS: l.Advertise.DNS, Search: l.Advertise.Search, Portal: l.Advertise.Portal}
		if addrs := c.Address6(l.Name, w.house.ULA); len(addrs) > 0 {
			own := []netip.Addr{addrs[0].Addr()}
			if d.DNS == nil {
				d.DNS = own
			}
			if ntp {
				d.NTP = own
			}
		}
		if d.Search == nil {
			d.Search = l.Domain
		}
		out = append(out, d)
	}
	return out
}

// dhcp6Server is the DHCPv6 server of all LANs.
type dhcp6Server struct {
	*service

	mu    sync.Mutex
	want  dhcpd6.Config
	links map[string]link

	have map[string]link // where its sockets are
	told dhcpd6.Config
}

// syncDHCPD6 tells the DHCPv6 server what to tell.
func (d *daemon) syncDHCPD6(ctx context.Context) {
	want := dhcpd6.Config{DUID: d.world.house.DUID, LANs: dhcpd6LANs(d.cfg, d.world, d.servesTime())}
	if len(want.LANs) == 0 {
		if d.dhcpd6 != nil {
			d.dhcpd6.leave()
			d.dhcpd6 = nil
		}
		return
	}
	first := d.dhcpd6 == nil
	if first {
		d.dhcpd6 = &dhcp6Server{}
	}
	s := d.dhcpd6
	s.mu.Lock()
	s.want, s.links = want, d.world.lans
	s.mu.Unlock()
	if !first {
		s.wake()
		return
	}
	s.service = d.serve(ctx, duty{kind: dhcpd6.Worker, prepare: s.prepare, take: report(func(dhcpd6.Report) {})})
}

func (s *dhcp6Server) prepare(_ context.Context, fresh bool) (told, error) {
	s.mu.Lock()
	want, links := s.want, s.links
	s.mu.Unlock()
	if fresh {
		s.have = map[string]link{}
	}
	cfg := dhcpd6.Config{DUID: want.DUID}
	var t told
	var trouble error
	have := map[string]link{}
	for _, l := range want.LANs {
		if s.have[l.Name] != links[l.Name] {
			f, err := dhcpd6.Open(l.Link)
			if err != nil {
				trouble = errors.Join(trouble, err)
				continue
			}
			l.Passed, t.files = true, append(t.files, f)
		}
		have[l.Name] = links[l.Name]
		cfg.LANs = append(cfg.LANs, l)
	}
	quiet := dhcpd6.Config{DUID: cfg.DUID, LANs: slices.Clone(cfg.LANs)}
	for i := range quiet.LANs {
		quiet.LANs[i].Passed = false
	}
	if !fresh && len(t.files) == 0 && reflect.DeepEqual(quiet, s.told) {
		return told{}, trouble
	}
	s.have, s.told = have, quiet
	t.msg = cfg
	return t, trouble
}
