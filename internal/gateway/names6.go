package gateway

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/kernel"
	"weir/internal/state"
)

// called is a device that has leases, and what it is called.
type called struct {
	name    string // what it calls itself, or the file's name where that gives it no address
	lan     string
	host    string     // the file's; "": it does not know it
	addr    netip.Addr // of IPv4; invalid: none
	six     []netip.Addr
	client  string // by DHCPv4; "" if it has no lease of that
	duid    string // in hex; "" if it has no lease of DHCPv6
	mac     string
	granted time.Time
}

// seenSince is how long ago a device must have answered under an address that it made
// itself. Devices change such addresses once a day or so, and tell nobody.
const seenSince = time.Hour

// maxSix bounds what a name has: a device may make addresses as it likes.
const maxSix = 8

// devices are those that have leases, in the leases' order: a lease of DHCPv6 belongs to
// one of DHCPv4 if they have the same Ethernet address or the same DUID (RFC 4361),
// and so do the addresses that a device has made itself, as the gateway's neighbour.
func devices(c *config.Config, w world, leases []state.Lease, near []kernel.Neighbour) []called {
	var out []called
	for _, l := range leases {
		if l.Addr.Is4() {
			out = append(out, called{name: l.Hostname, lan: l.LAN, host: l.Host, addr: l.Addr, client: l.Client, mac: l.MAC, granted: l.Granted})
		}
	}
	for _, l := range leases {
		if l.Addr.Is4() || l.Part > 0 {
			continue
		}
		i := slices.IndexFunc(out, func(d called) bool {
			return d.lan == l.LAN && (d.mac != "" && d.mac == l.MAC || d.duid == l.Client || duidOf(d.client) == l.Client)
		})
		if i < 0 {
			i = len(out)
			out = append(out, called{lan: l.LAN, mac: l.MAC, granted: l.Granted})
		}
		d := &out[i]
		d.name, d.host, d.duid = cmp.Or(d.name, l.Hostname), cmp.Or(d.host, l.Host), l.Client
		for _, p := range leased6Now(c, w, l) {
			d.six = append(d.six, p.Addr())
		}
	}
	for i := range out {
		d := &out[i]
		d.six = append(d.six, made(c, w, near, d.lan, []string{d.mac})...)
		if d.six = unique(d.six); len(d.six) > maxSix {
			d.six = d.six[:maxSix]
		}
		if h := c.Host(d.host); h != nil && h.LAN == d.lan && len(h.Address)+len(h.Token) == 0 {
			d.name = h.DNSName // the file names it, and leaves its address to the pool
		}
	}
	return out
}

// duidOf is the DUID in a client identifier of DHCPv4 (RFC 4361, 6.1); "-" if there is
// none.
func duidOf(client string) string {
	const head = 2 + 8 // type 255, IAID
	if !strings.HasPrefix(client, "ff") || len(client) <= head {
		return "-"
	}
	return client[head:]
}

// made are the addresses that a device has made itself in a LAN's networks: those that
// say its Ethernet address first.
func made(c *config.Config, w world, near []kernel.Neighbour, lan string, macs []string) (out []netip.Addr) {
	l := c.LAN(lan)
	if l == nil || len(near) == 0 {
		return nil
	}
	nets := lanAddresses(c, *l, w.state(c))
	for _, n := range near {
		if n.Link != w.lans[lan].name || n.MAC == "" || !slices.Contains(macs, n.MAC) || n.Addr.IsLinkLocalUnicast() {
			continue
		}
		b := n.Addr.As16()
		eui64 := b[11] == 0xff && b[12] == 0xfe
		if !eui64 && n.Ago > seenSince || !slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Addr().Is6() && p.Contains(n.Addr) }) {
			continue
		}
		if eui64 {
			out = append([]netip.Addr{n.Addr}, out...)
		} else {
			out = append(out, n.Addr)
		}
	}
	return out
}

// unique is a list without what it has twice, in order.
func unique(as []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range as {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// hostMore are addresses that a host of the file has besides those that it says, if it
// says any: leased ones, and of IPv6, if it says none, what the device has made itself.
func hostMore(c *config.Config, w world, h *config.Host, leases []state.Lease, near []kernel.Neighbour) (out []netip.Addr) {
	if len(h.Address)+len(h.Token) == 0 {
		return nil // it is called as its leases say
	}
	for _, l := range leases {
		switch {
		case l.Host != h.Name || l.LAN != h.LAN || l.Part > 0:
		case l.Addr.Is4():
			if !slices.ContainsFunc(h.Address, netip.Addr.Is4) {
				out = append(out, l.Addr)
			}
		default:
			for _, p := range leased6Now(c, w, l) {
				out = append(out, p.Addr())
			}
		}
	}
	if hostID(h) == 0 {
		out = append(out, made(c, w, near, h.LAN, h.MAC)...)
	}
	out = unique(out)
	return out[:min(len(out), maxSix)]
}

// lookNear reads who is on the LANs, and says whether anything is different.
func (d *daemon) lookNear() bool {
	near, err := d.k.Neighbours(6)
	if err != nil {
		d.log.Debug("who is on the LANs is not known", "err", err)
		return false
	}
	same := slices.EqualFunc(near, d.near, func(a, b kernel.Neighbour) bool {
		return a.Link == b.Link && a.Addr == b.Addr && a.MAC == b.MAC && a.Ago > seenSince == (b.Ago > seenSince)
	})
	d.near = near
	return !same
}

// nearEvery is how often it is looked who is on the LANs.
const nearEvery = 5 * time.Second
