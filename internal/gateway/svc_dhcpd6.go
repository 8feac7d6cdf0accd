package gateway

import (
	"context"
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"time"

	"weir/internal/commit"
	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/dhcpd6"
	"weir/internal/state"
	"weir/internal/worker"
)

// serves6 says whether a LAN has a DHCPv6 server.
func serves6(l config.LAN) bool { return l.DHCP6.Enabled }

// dhcpd6LANs is what the DHCPv6 server gives on the LANs, those whose link is there.
// ntp says that the gateway serves the time.
func dhcpd6LANs(c *config.Config, w world, ntp bool) []dhcpd6.LAN {
	var out []dhcpd6.LAN
	st := w.state(c)
	for _, l := range c.LANs {
		k := w.lans[l.Name]
		if !serves6(l) || k.index == 0 {
			continue
		}
		d := dhcpd6.LAN{
			Name: l.Name, Link: k.name, DNS: l.Advertise.DNS, Search: l.Advertise.Search, Portal: l.Advertise.Portal,
			Managed: l.DHCP6.Managed, Delegate: l.DHCP6.Delegate,
			Preferred: l.Advertise.Preferred, Valid: l.Advertise.Valid,
			Awaited: desired.Home(c, st) == "" && slices.ContainsFunc(c.WANs, func(w config.WAN) bool { return w.IPv6.Homes() && st.Use6 == w.Name || st.Use6 == "" && w.IPv6.Homes() }),
		}
		if d.Managed || d.Delegate > 0 {
			d.Reserved = desired.Reserved(c, st)
		}
		if d.Managed {
			d.Networks = networks6(c, w, st, l)
		}
		if d.Delegate > 0 {
			d.Sources = sources6(c, w, st)
		}
		for _, r := range l.DHCP6.Pool {
			d.Pool = append(d.Pool, dhcpd6.Range(r))
		}
		for _, h := range l.Hosts {
			if d.Managed && (len(h.MAC) > 0 || len(h.DUID) > 0) {
				d.Hosts = append(d.Hosts, dhcpd6.Host{Name: h.Name, ID: hostID(&h), MAC: h.MAC, DUID: h.DUID})
			}
		}
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

// hostID is the lower half of a host's IPv6 address in the file; 0: it has none.
func hostID(h *config.Host) uint64 {
	for _, a := range slices.Concat(h.Token, h.Address) {
		if a.Is6() {
			return lowerHalf(a)
		}
	}
	return 0
}

func lowerHalf(a netip.Addr) uint64 {
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}

// networks6 are the /64s of a LAN that devices have addresses in: those in what the
// lines are delegated, of which that of the line that devices are to use is for
// everybody, and those that do not change.
func networks6(c *config.Config, w world, st state.State, l config.LAN) []dhcpd6.Network {
	var out []dhcpd6.Network
	n := desired.Numbers(c, st.LANs)[l.Name]
	if l.Advertise.Prefix == nil {
		for _, s := range sources6(c, w, st) {
			if net, ok := config.SubnetOf(s.Prefix, n); ok && s.Valid != 0 { // one that ends is a line's
				s.Prefix = net
				out = append(out, s)
			}
		}
	}
	own := l.Advertise.Prefix
	if own == nil {
		own = c.Address6(l.Name, st.ULA)
	}
	for _, p := range own {
		if p.Bits() == 64 {
			out = append(out, dhcpd6.Network{Prefix: p.Masked()})
		}
	}
	return out
}

// sources6 are the prefixes that parts are delegated out of: that of the line that
// devices are to use first, those of others only for who has some of them.
func sources6(c *config.Config, w world, st state.State) []dhcpd6.Network {
	home := desired.Home(c, st)
	var first, rest []dhcpd6.Network
	for _, s := range desired.Sources(c, st) {
		n := dhcpd6.Network{Prefix: s.Prefix}
		if s.WAN == "" {
			rest = append(rest, n)
			continue
		}
		lease := w.wans[s.WAN].lease6
		i := slices.IndexFunc(lease.Prefix, func(p state.Leased6) bool { return p.Prefix == s.Prefix })
		if i < 0 {
			continue
		}
		n.Preferred, n.Valid = lease.Up+min(lease.Prefix[i].Preferred, longest), lease.Up+min(lease.Prefix[i].Valid, longest)
		if n.Old = s.WAN != home; n.Old {
			rest = append([]dhcpd6.Network{n}, rest...)
		} else {
			first = append(first, n)
		}
	}
	return append(first, rest...)
}

// leased6Now is what a lease of DHCPv6 is at the moment: addresses, or prefixes.
func leased6Now(c *config.Config, w world, l state.Lease) (out []netip.Prefix) {
	lan := c.LAN(l.LAN)
	if lan == nil {
		return nil
	}
	st := w.state(c)
	if l.Part > 0 {
		reserved := desired.Reserved(c, st)
		for _, s := range desired.Sources(c, st) {
			if p := state.PartOf(s.Prefix, lan.DHCP6.Delegate, l.Part, reserved); p.IsValid() {
				out = append(out, p)
			}
		}
		return out
	}
	for _, n := range networks6(c, w, st, *lan) {
		if a, ok := config.Join6(n.Prefix, l.Addr); ok && !n.Old && inPool6(lan, a, l) {
			out = append(out, netip.PrefixFrom(a, 128))
		}
	}
	return out
}

// inPool6 says whether a lease's lower half is given in a network: a pool of whole
// addresses is of one.
func inPool6(lan *config.LAN, a netip.Addr, l state.Lease) bool {
	return l.Host != "" || slices.ContainsFunc(lan.DHCP6.Pool, func(r config.Range) bool {
		return !a.Less(r.From) && !r.To.Less(a) || !l.Addr.Less(r.From) && !r.To.Less(l.Addr)
	})
}

// takeParts takes from the leases what is routed to routers in the LANs.
func (d *daemon) takeParts() {
	clock, err := state.ReadClock()
	if err != nil {
		return // as it was
	}
	leases, _ := held(d.leases, d.cfg, clock)
	d.world.parts = nil
	for _, l := range leases {
		if l.Part > 0 {
			d.world.parts = append(d.world.parts, state.Part{LAN: l.LAN, Number: l.Part, Via: l.Addr})
		}
	}
}

// syncDHCPD6 tells the DHCPv6 server what to give. Where no LAN has one it is ended:
// its port is another's then.
func (d *daemon) syncDHCPD6(ctx context.Context) {
	want, duid := dhcpd6LANs(d.cfg, d.world, d.servesTime()), d.world.house.DUID
	if len(want) == 0 && d.dhcpd6 != nil {
		d.dhcpd6.leave()
		d.dhcpd6 = nil
	}
	config := func(lans []dhcpd6.LAN) dhcpd6.Config { return dhcpd6.Config{DUID: duid, LANs: lans} } // the DUID never changes
	d.dhcpd6 = serveLANs(ctx, d, d.dhcpd6, lanKind[dhcpd6.LAN]{
		worker: dhcpd6.Worker,
		name:   func(l dhcpd6.LAN) string { return l.Name },
		open: func(l *dhcpd6.LAN) ([]*os.File, error) {
			l.Passed = true
			return dhcpd6.Open(l.Link)
		},
		quiet: func(l *dhcpd6.LAN) { l.Passed = false },
		order: func(lans []dhcpd6.LAN) any { c := config(lans); return dhcpd6.Order{Config: &c} },
		setup: func(c *worker.Conn, leases []state.Lease, lans []dhcpd6.LAN, files []*os.File) error {
			return dhcpd6.Setup(c, leases, config(lans), files...)
		},
		take: d.takeLeases6,
	}, want)
}

// takeLeases6 is takeLeases for DHCPv6. A part that is given or taken back is a
// route.
func (d *daemon) takeLeases6(child *worker.Child, m worker.Message) (func(), error) {
	defer m.Close()
	var r dhcpd6.Report
	if err := m.Decode(&r); err != nil {
		return nil, err
	}
	d.storeLeases(r.Keep, func(why string) {
		_ = child.Send(dhcpd6.Order{Kept: &commit.Kept{ID: r.ID, Err: why}}) // an error has ended the server: its clients ask again
	})
	return func() {
		d.leased(r.Keep)
		if slices.ContainsFunc(r.Keep, func(l state.Lease) bool { return l.Part > 0 }) {
			d.wantTurn(time.Millisecond)
		}
	}, nil
}
