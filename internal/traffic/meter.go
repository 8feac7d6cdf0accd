package traffic

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Meter compares each reading with the one before. The zero Meter has none.
type Meter struct {
	at    time.Duration
	flows map[key]counts
	lines map[string]Line
}

// key is what a flow is known by. It is kept for each, so it is small: IPv4 as
// ::ffff:a.b.c.d.
type key struct {
	src, dst     [16]byte
	sport, dport uint16
	id           uint32
	protocol     uint8
}

func keyOf(src, dst netip.AddrPort, protocol uint8, id uint32) key {
	return key{src.Addr().As16(), dst.Addr().As16(), src.Port(), dst.Port(), id, protocol}
}

// counts are both directions of a flow, and what the fast path carried of them.
type counts struct{ forth, back, fastForth, fastBack Count }

// Take is a reading that is being taken: Add is called for each flow, then Done.
type Take struct {
	m       *Meter
	where   func(netip.Addr) Place
	carried map[key]Count // nil: nothing carries
	lines   []LineVolume
	marks   map[uint32]int // index in lines
	bits    Marks
	most    int

	now      map[key]counts
	nowLines map[string]Line
	hosts    map[hostKey]*Host
	r        Reading
}

type hostKey struct {
	device *Device
	addr   netip.Addr // where there is no device
	self   bool
}

// Start begins a reading at a time of a clock that only goes on. where tells where an
// address is. lines are all of them. carried is nil where the flows have no fast path.
// At most most flows and hosts are listed.
func (m *Meter) Start(at time.Duration, lines []Line, bits Marks, carried []Carried, where func(netip.Addr) Place, most int) *Take {
	t := &Take{
		m: m, where: where, bits: bits, most: most, marks: map[uint32]int{},
		now: make(map[key]counts, len(m.flows)), nowLines: map[string]Line{}, hosts: map[hostKey]*Host{},
		r: Reading{At: at, Carries: carried != nil},
	}
	if m.flows != nil {
		t.r.Over = at - m.at
	}
	for i, l := range lines {
		had, ok := m.lines[l.Name]
		t.lines = append(t.lines, l.since(had, ok))
		t.marks[l.Mark] = i
		t.nowLines[l.Name] = l
	}
	if carried != nil {
		t.carried = make(map[key]Count, len(carried))
		for _, c := range carried {
			t.carried[keyOf(c.Src, c.Dst, c.Protocol, 0)] = c.Count
		}
	}
	return t
}

// since is how much a line grew. A port whose counters went back is another one, and
// so are the programs.
func (l Line) since(had Line, ok bool) LineVolume {
	v := LineVolume{Name: l.Name, Down: Volume{All: l.In}, Up: Volume{All: l.Out}}
	for _, f := range l.Fates {
		v.Fates = append(v.Fates, FateVolume{Fate: f})
	}
	if !ok {
		return v
	}
	if l.In.before(had.In) || l.Out.before(had.Out) {
		had.In, had.Out = Count{}, Count{}
	}
	v.Down.Grew, v.Up.Grew = l.In.less(had.In), l.Out.less(had.Out)
	back := len(had.Fates) != len(l.Fates)
	for i, f := range l.Fates {
		back = back || f.Packets < had.Fates[i].Packets
	}
	for i := range v.Fates {
		v.Fates[i].Grew = v.Fates[i].Packets
		if !back {
			v.Fates[i].Grew -= had.Fates[i].Packets
		}
	}
	return v
}

// before says whether c was counted before o was, or anew.
func (c Count) before(o Count) bool { return c.Packets < o.Packets || c.Bytes < o.Bytes }

func (c Count) less(o Count) Count { return Count{c.Packets - o.Packets, c.Bytes - o.Bytes} }

// Add takes in a flow. What the machine says to itself is nobody's traffic.
func (t *Take) Add(f Flow) {
	client, server := t.where(f.Client.Addr()), t.where(f.Server.Addr())
	line, by := t.marks[f.Mark&t.bits.Line]
	switch {
	case !by:
	case f.Mark&t.bits.In != 0: // outside, and if its address is one of a LAN's
		client = Place{}
	default:
		server = Place{}
	}
	if client.Self && server.Self {
		return
	}
	k := keyOf(f.Client, f.Dialled, f.Protocol, f.ID)
	if _, twice := t.now[k]; twice {
		return // the table moved under the dump
	}
	c := counts{forth: f.Forth, back: f.Back}
	if t.carried != nil {
		c.fastForth = t.carried[keyOf(f.Client, f.Dialled, f.Protocol, 0)]
		c.fastBack = t.carried[keyOf(f.Server, f.Seen, f.Protocol, 0)]
	}
	t.now[k] = c
	forth, back := t.since(k, c)

	t.r.FlowCount++
	if !f.Counted {
		t.r.Uncounted++
	}
	name := ""
	if by {
		name = t.lines[line].Name
		t.lines[line].Flows++
	}
	t.host(client, f.Client.Addr(), back, forth)
	t.host(server, f.Server.Addr(), forth, back)
	if forth.Grew == (Count{}) && back.Grew == (Count{}) {
		return
	}
	v := FlowVolume{Flow: f, Host: f.Client, Peer: f.Server, HostPlace: client, PeerPlace: server, Line: name, Down: back, Up: forth}
	if rank(server) > rank(client) {
		v.Host, v.Peer, v.HostPlace, v.PeerPlace = f.Server, f.Client, server, client
		v.Down, v.Up, v.Inbound = forth, back, true
	}
	if t.r.Flows = append(t.r.Flows, v); len(t.r.Flows) >= 4*max(t.most, 64) {
		t.r.Flows = busiestFlows(t.r.Flows, t.most)
	}
}

// rank is whose view of a flow is told.
func rank(p Place) int {
	switch {
	case p.LAN != "":
		return 2
	case p.Self:
		return 1
	}
	return 0
}

// since is how much a flow's directions have grown: all that they have where it is
// new, which it also is if its counters went back. What the fast path counts begins
// anew whenever a direction is put into its map.
func (t *Take) since(k key, c counts) (forth, back Volume) {
	all := func(slow, fast Count) Volume { slow.add(fast); return Volume{All: slow} }
	forth, back = all(c.forth, c.fastForth), all(c.back, c.fastBack)
	if t.r.Over == 0 {
		return forth, back
	}
	had := t.m.flows[k]
	if c.forth.before(had.forth) || c.back.before(had.back) {
		had = counts{}
	}
	for _, d := range []struct {
		v                        *Volume
		slow, hadSlow, fast, had Count
	}{{&forth, c.forth, had.forth, c.fastForth, had.fastForth}, {&back, c.back, had.back, c.fastBack, had.fastBack}} {
		if d.fast.before(d.had) {
			d.had = Count{}
		}
		fast := d.fast.less(d.had)
		d.v.Grew, d.v.Fast = d.slow.less(d.hadSlow), fast.Packets
		d.v.Grew.add(fast)
	}
	return forth, back
}

// host adds to a host of the house.
func (t *Take) host(p Place, a netip.Addr, down, up Volume) {
	if p.LAN == "" && !p.Self {
		return
	}
	k := hostKey{p.Device, a, p.Self}
	if p.Device != nil || p.Self {
		k.addr = netip.Addr{}
	}
	h := t.hosts[k]
	if h == nil {
		h = &Host{Place: p}
		t.hosts[k] = h
	}
	h.Down.add(down)
	h.Up.add(up)
	h.Flows++
	if !slices.Contains(h.Addrs, a) {
		h.Addrs = append(h.Addrs, a)
	}
}

// Done ends the reading; the next one is compared with it. One that is given up is not
// ended, and leaves the one before in place.
func (t *Take) Done() Reading {
	r := t.r
	r.Lines, r.HostCount = t.lines, len(t.hosts)
	for _, h := range t.hosts {
		slices.SortFunc(h.Addrs, netip.Addr.Compare)
		r.Hosts = append(r.Hosts, *h)
	}
	slices.SortFunc(r.Hosts, func(a, b Host) int {
		return cmp.Or(busier(a.Down, a.Up, b.Down, b.Up), a.Addrs[0].Compare(b.Addrs[0]))
	})
	r.Hosts = r.Hosts[:min(len(r.Hosts), t.most)]
	r.Flows = busiestFlows(r.Flows, t.most)
	t.m.flows, t.m.lines, t.m.at = t.now, t.nowLines, r.At
	return r
}

// busiestFlows are the first so many, in order.
func busiestFlows(all []FlowVolume, most int) []FlowVolume {
	slices.SortFunc(all, func(a, b FlowVolume) int {
		return cmp.Or(busier(a.Down, a.Up, b.Down, b.Up), a.Client.Compare(b.Client), a.Dialled.Compare(b.Dialled), cmp.Compare(a.Protocol, b.Protocol))
	})
	return all[:min(len(all), most)]
}

// busier orders by what went both ways since the reading before, then by all that did.
func busier(down1, up1, down2, up2 Volume) int {
	return cmp.Or(
		cmp.Compare(down2.Grew.Bytes+up2.Grew.Bytes, down1.Grew.Bytes+up1.Grew.Bytes),
		cmp.Compare(down2.All.Bytes+up2.All.Bytes, down1.All.Bytes+up1.All.Bytes),
	)
}
