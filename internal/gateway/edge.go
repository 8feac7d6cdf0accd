package gateway

import (
	"context"
	"time"

	"weir/internal/desired"
	"weir/internal/kernel"
)

// sync tells each service what it has to know. Services that have nothing new to
// hear are not disturbed.
func (d *daemon) sync(ctx context.Context) {
	d.built = desired.Build(d.cfg, d.world.state(d.cfg))
	d.far = farEnds(d.built)
	d.syncDHCP4(ctx)
	d.syncDHCP6(ctx)
	d.syncProbe(ctx)
	d.syncDHCPD(ctx)
	d.syncDHCPD6(ctx)
	d.syncRA(ctx)
	d.syncLists(ctx)
	d.syncDNS(ctx)
	d.syncTime(ctx)
	d.syncRefused(ctx)
}

// services are all of them, in the order in which the status shows them.
func (d *daemon) services() []*service {
	var out []*service
	if d.prober != nil {
		out = append(out, d.prober.service)
	}
	for _, w := range d.cfg.WANs {
		if s := d.dhcp4[w.Name]; s != nil {
			out = append(out, s.service)
		}
		if s := d.dhcp6[w.Name]; s != nil {
			out = append(out, s.service)
		}
	}
	if d.dhcpd != nil {
		out = append(out, d.dhcpd.service)
	}
	if d.dhcpd6 != nil {
		out = append(out, d.dhcpd6.service)
	}
	if d.ra != nil {
		out = append(out, d.ra.service)
	}
	if d.dns != nil {
		out = append(out, d.dns.service)
	}
	if d.named != nil {
		out = append(out, d.named.service)
	}
	if d.time != nil {
		out = append(out, d.time.service)
	}
	if d.lists != nil {
		out = append(out, d.lists.service)
	}
	if d.reader != nil {
		out = append(out, d.reader)
	}
	return out
}

// pollCarrier asks for the carriers of the ports that are in their namespaces.
func (d *daemon) pollCarrier() {
	var names []string
	var ports []kernel.Port
	for _, w := range d.cfg.WANs {
		if k := d.world.wans[w.Name]; k.port.index != 0 {
			names = append(names, w.Name)
			ports = append(ports, kernel.Port{NS: desired.NSPrefix + w.Name, Link: k.port.name})
		}
	}
	if len(ports) == 0 {
		return
	}
	now := time.Now()
	cs, err := d.k.Carrier(ports...)
	if err != nil {
		d.log.Warn("carriers can't be read", "err", err)
		return
	}
	for i, name := range names {
		k, up := d.world.wans[name], cs[i].Present && cs[i].Carrier
		d.machine.Carrier(now, name, up, cs[i].Downs)
		now := k.polled(up, cs[i].Downs)
		d.world.wans[name] = now
		if now.confirm != k.confirm {
			// Before the line is asked: by then they are wanted.
			if n, err := d.k.Forget(ports[i]); err != nil {
				d.log.Warn("neighbours are looked for a second later than could be", "wan", name, "err", err)
			} else if n > 0 {
				d.log.Debug("neighbours are looked for anew", "wan", name, "lost", n)
			}
		}
		if now.carrier != k.carrier || now.confirm != k.confirm {
			d.news = true
			d.wantTurn(settleFor)
		}
	}
}
