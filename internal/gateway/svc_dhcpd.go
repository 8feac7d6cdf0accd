package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/rfc1035label"

	"weir/internal/api"
	"weir/internal/commit"
	"weir/internal/config"
	"weir/internal/dhcpd"
	"weir/internal/dns"
	"weir/internal/state"
	"weir/internal/worker"
)

// optionMTU is the interface MTU option (RFC 2132, 5.1).
const optionMTU = 26

// dhcpdLANs is what the DHCP server gives on the LANs, those whose link is there. ntp
// says that the gateway serves the time.
func dhcpdLANs(c *config.Config, w world, ntp bool) []dhcpd.LAN {
	var out []dhcpd.LAN
	for _, l := range c.LANs {
		k := w.lans[l.Name]
		if !l.DHCP.Enabled || !l.Address4.IsValid() || k.index == 0 {
			continue
		}
		own := l.Address4.Addr()
		d := dhcpd.LAN{
			Name: l.Name, Link: k.name, MAC: k.mac, Address: l.Address4, Lease: l.DHCP.Lease,
			Router: own, DNS: []netip.Addr{own}, Domain: l.Domain[0],
		}
		d.Pool, d.Options, d.Boot = dhcpRanges(l.DHCP.Pool), dhcpOptions(l.DHCP.Options), dhcpd.Boot(l.DHCP.Boot)
		d.BOOTP, d.KnownOnly = l.DHCP.BOOTP, l.DHCP.Known
		for _, k := range l.DHCP.Classes {
			d.Classes = append(d.Classes, dhcpd.Class{Vendor: k.Vendor, User: k.User, Arch: k.Arch, Options: dhcpOptions(k.Options), Boot: dhcpd.Boot(k.Boot)})
		}
		for _, s := range l.DHCP.Subnets {
			d.Subnets = append(d.Subnets, dhcpd.Subnet{Prefix: s.Prefix, Pool: dhcpRanges(s.Pool), Router: s.Router, Options: dhcpOptions(s.Options)})
		}
		if l.MTU != 0 && !slices.ContainsFunc(l.DHCP.Options, func(o config.Option) bool { return o.Code == optionMTU }) {
			d.Options = append(d.Options, dhcpd.Option{Code: optionMTU, Data: binary.BigEndian.AppendUint16(nil, uint16(l.MTU))})
		}
		if said := func(o config.Option) bool { return o.Code == optionSearch }; len(l.Domain) > 1 && !slices.ContainsFunc(l.DHCP.Options, said) {
			search := rfc1035label.Labels{Labels: l.Domain}
			d.Options = append(d.Options, dhcpd.Option{Code: optionSearch, Data: search.ToBytes()})
		}
		if said := func(o config.Option) bool { return o.Code == optionNTP }; ntp && !slices.ContainsFunc(l.DHCP.Options, said) {
			d.Options = append(d.Options, dhcpd.Option{Code: optionNTP, Data: own.AsSlice()})
		}
		for _, h := range l.Hosts {
			host := dhcpd.Host{Name: h.Name, DNSName: h.DNSName, MAC: h.MAC, ClientID: h.ID}
			for _, a := range h.Address {
				if a.Is4() && !host.Addr.IsValid() {
					host.Addr = a
				}
			}
			d.Hosts = append(d.Hosts, host)
		}
		out = append(out, d)
	}
	return out
}

func dhcpRanges(pool []config.Range) []dhcpd.Range {
	var out []dhcpd.Range
	for _, r := range pool {
		out = append(out, dhcpd.Range(r))
	}
	return out
}

func dhcpOptions(opts []config.Option) []dhcpd.Option {
	var out []dhcpd.Option
	for _, o := range opts {
		out = append(out, dhcpd.Option{Code: o.Code, Data: o.Data})
	}
	return out
}

// optionNTP has the time servers (RFC 2132, 8.3).
const optionNTP = 42

// optionSearch has the domains in which names are looked up (RFC 3397).
const optionSearch = 119

// syncDHCPD tells the DHCP server what to give.
func (d *daemon) syncDHCPD(ctx context.Context) {
	config := func(lans []dhcpd.LAN) dhcpd.Config { return dhcpd.Config{LANs: lans} }
	d.dhcpd = serveLANs(ctx, d, d.dhcpd, lanKind[dhcpd.LAN]{
		worker: dhcpd.Worker,
		name:   func(l dhcpd.LAN) string { return l.Name },
		open: func(l *dhcpd.LAN) (files []*os.File, err error) {
			l.Sockets, files, err = dhcpd.Open(l.Link)
			return files, err
		},
		quiet: func(l *dhcpd.LAN) { l.Sockets = nil },
		order: func(lans []dhcpd.LAN) any { c := config(lans); return dhcpd.Order{Config: &c} },
		setup: func(c *worker.Conn, leases []state.Lease, lans []dhcpd.LAN, files []*os.File) error {
			return dhcpd.Setup(c, leases, config(lans), files...)
		},
		take: d.takeLeases,
	}, dhcpdLANs(d.cfg, d.world, d.servesTime()))
}

// takeLeases puts leases on the disk and tells the server so. Neither the loop nor
// the server's next message waits for that.
func (d *daemon) takeLeases(child *worker.Child, m worker.Message) (func(), error) {
	defer m.Close()
	var r dhcpd.Report
	if err := m.Decode(&r); err != nil {
		return nil, err
	}
	d.storeLeases(r.Keep, func(why string) {
		if r.ID != 0 {
			_ = child.Send(dhcpd.Order{Kept: &commit.Kept{ID: r.ID, Err: why}}) // an error has ended the server: its clients ask again
		}
	})
	return func() {
		d.leased(r.Keep)
		if r.LANs != nil {
			d.lanStatus = r.LANs
		}
	}, nil
}

// storeLeases begins to put leases on the disk, in the order of the calls; then is
// called when they are there. why says why they are not.
func (d *daemon) storeLeases(leases []state.Lease, then func(why string)) {
	if len(leases) == 0 {
		return
	}
	items := make([]state.Item, len(leases))
	for i, l := range leases {
		items[i] = state.KeepLease(l)
	}
	stored := d.store.Begin(items...)
	go func() { // ends with the write, and that with the store
		why := ""
		if err := stored(); err != nil {
			why = err.Error()
			if !errors.Is(err, state.ErrHeld) { // that they are held, storeAll tells
				d.log.Error("leases are not stored, and would not survive a power cut", "err", err)
			}
		}
		then(why)
	}()
}

// leased takes in leases that changed.
func (d *daemon) leased(leases []state.Lease) {
	clock, err := state.ReadClock()
	for _, l := range leases {
		k := keyOf(l)
		if err != nil || !sameName(d.leases[k], l, clock) {
			d.nextEnd = time.Now() // names come and go with leases
			if d.nextEnd.Before(d.namesAgain) {
				d.nextEnd = d.namesAgain
			}
		}
		d.leases[k] = l
	}
}

// sameName says that a lease, in the place of another of its address, changes no
// name: most are renewed.
func sameName(old, l state.Lease, at state.Clock) bool {
	if old.Host == "" && old.Hostname == "" && l.Host == "" && l.Hostname == "" {
		return true
	}
	return l.Duration > 0 && old.Remaining(at) > 0 &&
		old.Host == l.Host && old.Hostname == l.Hostname && old.Client == l.Client && old.MAC == l.MAC
}

// leaseKey is what is leased.
type leaseKey struct {
	lan  string
	addr netip.Addr // invalid: a part
	part uint32
}

func keyOf(l state.Lease) leaseKey {
	if l.Part > 0 {
		return leaseKey{lan: l.LAN, part: l.Part}
	}
	return leaseKey{lan: l.LAN, addr: l.Addr}
}

// held are the leases of the file's LANs that have not ended at clock, and when
// the next of them does; zero if none will.
func held(leases map[leaseKey]state.Lease, c *config.Config, clock state.Clock) (out []state.Lease, next time.Duration) {
	for k, l := range leases {
		left := l.Remaining(clock)
		if left <= 0 || c.LAN(k.lan) == nil {
			continue
		}
		out = append(out, l)
		if next == 0 || left < next {
			next = left
		}
	}
	slices.SortFunc(out, func(a, b state.Lease) int {
		return cmp.Or(cmp.Compare(a.LAN, b.LAN), cmp.Compare(a.Part, b.Part), a.Addr.Compare(b.Addr))
	})
	return out, next
}

// leasedNames are what devices with leases are called, newest first.
func leasedNames(all []called) []dns.Name {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b called) int { return b.granted.Compare(a.granted) })
	var out []dns.Name
	for _, d := range all {
		addrs := d.six
		if d.addr.IsValid() {
			addrs = append([]netip.Addr{d.addr}, d.six...)
		}
		if d.name != "" {
			out = append(out, dns.Name{Name: d.name, Addrs: addrs})
		}
	}
	return out
}

// Leases lists what the LANs' clients hold.
func (d *daemon) Leases(ctx context.Context) ([]api.Lease, error) {
	clock, err := state.ReadClock()
	if err != nil {
		return nil, err
	}
	return call(ctx, d, func() ([]api.Lease, error) {
		now, _ := held(d.leases, d.cfg, clock)
		return apiLeases(now, d.cfg, d.world, clock), nil
	})
}

// apiLeases lists leases; those of DHCPv6 with each address or prefix that they are
// at the moment.
func apiLeases(leases []state.Lease, c *config.Config, w world, clock state.Clock) []api.Lease {
	out := []api.Lease{}
	for _, l := range leases {
		a := api.Lease{LAN: l.LAN, Address: l.Addr.String(), MAC: l.MAC, Name: cmp.Or(l.Host, l.Hostname), Since: l.Granted}
		if l.Duration != state.Forever {
			a.Expires = clock.Wall.Add(l.Remaining(clock)).Truncate(time.Second)
		}
		if h := c.Host(l.Host); h != nil && h.LAN == l.LAN {
			a.Name, a.Static = h.DNSName, slices.Contains(h.Address, l.Addr)
			if l.Part == 0 && l.Addr.Is6() {
				a.Static = hostID(h) == lowerHalf(l.Addr)
			}
		}
		if l.Addr.Is4() {
			out = append(out, a)
			continue
		}
		a.DUID = l.Client
		for _, what := range leased6Now(c, w, l) {
			if a.Address = what.String(); what.IsSingleIP() {
				a.Address = what.Addr().String()
			} else {
				a.Router = l.Addr.String()
			}
			out = append(out, a)
		}
	}
	return out
}
