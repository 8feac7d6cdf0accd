package gateway

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/fastpath"
	"weir/internal/kernel"
	"weir/internal/ruleset"
	"weir/internal/state"
	"weir/internal/traffic"
)

// orders are what api.TrafficSorts mean.
var orders = map[string]traffic.Order{
	"rate": traffic.ByRate, "down": traffic.ByDown, "up": traffic.ByUp, "packets": traffic.ByPackets, "total": traffic.ByAll,
}

// idle is how many times as long as a reading took nothing is read after it: who looks
// takes at most a fifth of a processor, and waits longer than he asked for if need be.
const idle = 4

// Traffic tells who sends how much. Each who looks has readings of his own: conntrack's
// whole table and each line's counters, once in his interval. Nothing is read while
// nobody looks, and no event is subscribed to.
func (d *daemon) Traffic(ctx context.Context, q api.TrafficQuery, each func(api.Traffic) error) error {
	var m traffic.Meter
	var s sight
	for {
		began := time.Now()
		if began.Sub(s.at) >= nearEvery {
			var err error
			if s, err = d.sight(ctx); err != nil {
				return err
			}
		}
		r, err := s.read(d.k, &m, q)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if r.Over > 0 {
			if err := each(s.traffic(r, time.Now())); err != nil || !q.Watch {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause(q.Every, took, time.Since(began))):
		}
	}
}

// pause is how long to wait after a reading that took so long and was begun so long ago.
func pause(every, took, since time.Duration) time.Duration { return max(every-since, idle*took) }

// sight is what has to be known to tell traffic apart, as of a moment.
type sight struct {
	at      time.Time
	house   ruleset.House
	lines   []traffic.Line
	ports   []kernel.Port // of lines
	paths   []api.WAN     // their fast path
	main    api.MainTraffic
	devices map[netip.Addr]*traffic.Device
	places  map[netip.Addr]traffic.Place // that were asked for
}

// sight asks the loop for what it knows.
func (d *daemon) sight(ctx context.Context) (sight, error) {
	clock, err := state.ReadClock()
	if err != nil {
		return sight{}, err
	}
	s := sight{at: time.Now(), places: map[netip.Addr]traffic.Place{}}
	var c *config.Config
	var w world
	var leases []state.Lease
	var near []kernel.Neighbour
	if _, err := call(ctx, d, func() (struct{}, error) {
		c, w, near = d.cfg, d.world, d.near
		w = w.clone()
		leases, _ = held(d.leases, c, clock)
		s.house = desired.House(c, w.state(c))
		for _, l := range s.house.WANs {
			s.paths = append(s.paths, api.WAN{Name: l.Name, Present: w.wans[l.Name].present})
		}
		told := api.Status{WANs: s.paths}
		for _, l := range c.LANs {
			told.LANs = append(told.LANs, api.LAN{Name: l.Name, Link: w.lans[l.Name].name, Present: w.lans[l.Name].index != 0})
		}
		d.fastPaths(&told)
		s.main = mainPath(told.LANs)
		return struct{}{}, nil
	}); err != nil {
		return s, err
	}
	for _, l := range s.house.WANs {
		s.lines = append(s.lines, traffic.Line{Name: l.Name, Mark: uint32(l.Index)})
		s.ports = append(s.ports, kernel.Port{NS: desired.NSPrefix + l.Name, Link: w.wans[l.Name].port.name})
	}
	s.devices = owners(c, w, leases, near) // not on the loop: a house may have thousands of leases
	return s, nil
}

// mainPath is the fast path of main's flows: on any of the LANs, or why it is on none.
func mainPath(lans []api.LAN) (m api.MainTraffic) {
	m.FastPath = "off"
	for _, l := range lans {
		if l.FastPath != "off" {
			return api.MainTraffic{FastPath: l.FastPath}
		}
		m.FastPathWhy = cmp.Or(m.FastPathWhy, l.FastPathWhy)
	}
	return m
}

// owners are the devices that addresses belong to: as the names say, and what else the
// same Ethernet address has, be it called by a name or not.
func owners(c *config.Config, w world, leases []state.Lease, near []kernel.Neighbour) map[netip.Addr]*traffic.Device {
	out := map[netip.Addr]*traffic.Device{}
	hosts := map[string]*traffic.Device{} // by the file's name
	type port struct{ link, mac string }
	ports := map[port]*traffic.Device{}
	st := w.state(c)
	for _, l := range c.LANs {
		nets := lanAddresses(c, l, st)
		for i, h := range l.Hosts {
			dev := &traffic.Device{Name: h.DNSName}
			hosts[h.Name] = dev
			for _, mac := range h.MAC {
				ports[port{w.lans[l.Name].name, mac}] = dev
			}
			for _, a := range hostMore(c, w, &l.Hosts[i], leases, near) {
				out[a] = dev
			}
			for _, a := range h.Address {
				out[a] = dev
			}
			for _, t := range h.Token {
				for _, p := range nets {
					if p.Addr().Is6() && p.Bits() == 64 {
						out[tokenIn(p, t)] = dev
					}
				}
			}
		}
	}
	for _, l := range devices(c, w, leases, near) {
		dev := hosts[l.host]
		if dev == nil {
			dev = &traffic.Device{Name: l.name}
		}
		if at := (port{w.lans[l.lan].name, l.mac}); l.mac != "" && ports[at] == nil {
			ports[at] = dev
		}
		for _, a := range append(slices.Clone(l.six), l.addr) {
			if a.IsValid() && out[a] == nil {
				out[a] = dev
			}
		}
	}
	for _, n := range near {
		at := port{n.Link, n.MAC}
		if n.MAC == "" || out[n.Addr] != nil {
			continue
		}
		if ports[at] == nil {
			ports[at] = &traffic.Device{}
		}
		out[n.Addr] = ports[at]
	}
	return out
}

// where is an address. Tens of thousands of flows are between a few addresses.
func (s sight) where(a netip.Addr) traffic.Place {
	p, ok := s.places[a]
	if !ok {
		at := s.house.Locate(a.Unmap())
		p = traffic.Place{LAN: at.LAN, Self: at.Self || at.WAN != "" || a.IsLoopback(), Device: s.devices[a.Unmap()]}
		s.places[a] = p
	}
	return p
}

// view is how what is asked for is looked at.
func (s sight) view(q api.TrafficQuery) traffic.View {
	return traffic.View{Where: s.where, Marks: traffic.Marks{Line: ruleset.MarkIndex, In: ruleset.MarkIn}, By: orders[q.Sort], Most: q.Most}
}

// read takes a reading: the lines' counters, then the flows'.
func (s sight) read(k *kernel.Kernel, m *traffic.Meter, q api.TrafficQuery) (traffic.Reading, error) {
	lines := slices.Clone(s.lines)
	for i, p := range s.ports {
		t, ok, err := k.PortTraffic(p)
		if err != nil {
			return traffic.Reading{}, err
		}
		if ok {
			lines[i].In, lines[i].Out = t.In, t.Out
		}
		if t.Fast != nil {
			lines[i].Fates = lineFates(*t.Fast)
		}
	}
	carried, met, carries, err := k.Carried()
	if err != nil {
		return traffic.Reading{}, err
	}
	var main []traffic.Fate
	if carries {
		main = mainFates(met)
	}
	now, err := monotonic()
	if err != nil {
		return traffic.Reading{}, err
	}
	t := m.Start(now, lines, carried, main, s.view(q))
	if err := kernel.Flows(t.Add); err != nil {
		return traffic.Reading{}, err
	}
	return t.Done(), nil
}

// lineFates are the shortcut's counters as the API calls them.
func lineFates(c fastpath.Counts) []traffic.Fate {
	return []traffic.Fate{
		{Packets: c.Short}, {Why: api.SlowFirst, Packets: c.First}, {Why: api.SlowProtocol, Packets: c.Other},
		{Why: api.SlowFragment, Packets: c.Fragment}, {Why: api.SlowOdd, Packets: c.Odd}, {Why: api.SlowRead, Packets: c.Read},
		{Why: api.SlowLong, Packets: c.Long}, {Why: api.SlowAddress, Packets: c.Nobody}, {Why: api.SlowNoHop, Packets: c.Nowhere},
	}
}

// mainFates are the counters of main's program.
func mainFates(c fastpath.Reasons) []traffic.Fate {
	return []traffic.Fate{
		{Packets: c.Fast}, {Why: api.SlowKind, Packets: c.Odd}, {Why: api.SlowNoFlow, Packets: c.Unknown}, {Why: api.SlowShut, Packets: c.Shut},
		{Why: api.SlowAsleep, Packets: c.Asleep}, {Why: api.SlowStale, Packets: c.Stale}, {Why: api.SlowNoHop, Packets: c.Nowhere},
		{Why: api.SlowLong, Packets: c.Long}, {Why: api.SlowChecksum, Packets: c.Wrong},
	}
}

// monotonic is CLOCK_MONOTONIC.
func monotonic() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// traffic is a reading as the API tells it.
func (s sight) traffic(r traffic.Reading, now time.Time) api.Traffic {
	out := api.Traffic{
		At: now, MonotonicS: r.At.Seconds(), IntervalS: r.Over.Seconds(), HostCount: r.HostCount, FlowCount: r.FlowCount, Uncounted: r.Uncounted,
		WANs: []api.WANTraffic{}, Hosts: []api.HostTraffic{}, Flows: []api.FlowTraffic{},
	}
	per := func(n uint64, digits float64) float64 { return math.Round(float64(n)/r.Over.Seconds()*digits) / digits }
	volume := func(v traffic.Volume) api.Volume {
		return api.Volume{Bytes: v.All.Bytes, Packets: v.All.Packets, BitsPerS: per(8*v.Grew.Bytes, 1), PacketsPerS: per(v.Grew.Packets, 10)}
	}
	fast := func(down, up traffic.Volume) *float64 {
		if !r.Carries {
			return nil
		}
		return percent(down.Fast+up.Fast, down.Grew.Packets+up.Grew.Packets)
	}
	fates := func(all []traffic.FateVolume) (share *float64, slow []api.SlowTraffic) {
		var short, sum uint64
		for _, f := range all {
			sum += f.Grew
			if f.Why == "" {
				short = f.Grew
			} else if f.Packets > 0 {
				slow = append(slow, api.SlowTraffic{Why: f.Why, Packets: f.Packets, PacketsPerS: per(f.Grew, 10)})
			}
		}
		return percent(short, sum), slow
	}
	out.Main = s.main
	out.Main.FastPercent, out.Main.Slow = fates(r.Main)
	for i, l := range r.Lines {
		w := api.WANTraffic{
			Name: l.Name, Down: volume(l.Down), Up: volume(l.Up), Flows: l.Flows, FastPath: s.paths[i].FastPath, FastPathWhy: s.paths[i].FastPathWhy,
		}
		w.FastPercent, w.Slow = fates(l.Fates)
		out.WANs = append(out.WANs, w)
	}
	for _, h := range r.Hosts {
		out.Hosts = append(out.Hosts, api.HostTraffic{
			Name: nameOf(h.Place), LAN: h.LAN, Addresses: texts(h.Addrs), Down: volume(h.Down), Up: volume(h.Up), Flows: h.Flows, FastPercent: fast(h.Down, h.Up),
		})
	}
	for _, f := range r.Flows {
		a := api.FlowTraffic{
			Protocol: protocolText(f.Protocol), Host: endText(f.Host), Name: nameOf(f.HostPlace), LAN: f.HostPlace.LAN, Peer: endText(f.Peer), PeerName: nameOf(f.PeerPlace),
			WAN: f.Line, Inbound: f.Inbound, Down: volume(f.Down), Up: volume(f.Up), FastPercent: fast(f.Down, f.Up),
		}
		if f.Dialled != f.Server {
			a.Dialled = endText(f.Dialled)
		}
		if f.Seen != f.Client {
			a.Seen = endText(f.Seen)
		}
		out.Flows = append(out.Flows, a)
	}
	return out
}

// percent is the share of n in all, to a tenth; nil of nothing.
func percent(n, all uint64) *float64 {
	if all == 0 {
		return nil
	}
	v := math.Round(1000*float64(n)/float64(all)) / 10
	return &v
}

// nameOf is what a device is called, as the names that are answered; "": by none.
func nameOf(p traffic.Place) string {
	switch {
	case p.Self:
		return string(config.KindSelf)
	case p.Device != nil:
		return p.Device.Name
	}
	return ""
}

func endText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}
