package traffic

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Meter compares each reading with the one before. The zero Meter has none.
type Meter struct {
	at      time.Duration
	flows   map[key]counts
	lines   map[string]Line
	carried map[key]Count
	main    []Fate
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

// counts are both directions of a flow.
type counts struct{ forth, back direction }

// direction is what conntrack has counted of one, what the fast path has carried that
// looks so, and what of that was another flow's.
type direction struct{ slow, fast, others Count }

// Take is a reading that is being taken: Add is called for each flow, then Done.
type Take struct {
	m       *Meter
	view    View
	carried map[key]Count // nil: nothing carries
	lines   []LineVolume
	marks   map[uint32]int // index in lines

	now      map[key]counts
	nowLines map[string]Line
	nowMain  []Fate
	hosts    map[hostKey]*Host
	r        Reading
}

type hostKey struct {
	device *Device
	addr   netip.Addr // where there is no device
	self   bool
}

// Start begins a reading at a time of a clock that only goes on. lines are all of them.
// carried is nil where the flows have no fast path; main is what became of the packets
// that it met.
func (m *Meter) Start(at time.Duration, lines []Line, carried []Carried, main []Fate, v View) *Take {
	t := &Take{
		m: m, view: v, marks: map[uint32]int{},
		now: make(map[key]counts, len(m.flows)), nowLines: map[string]Line{}, nowMain: main, hosts: map[hostKey]*Host{},
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
	t.r.Main = grown(main, m.main, m.flows != nil)
	if carried != nil {
		t.carried = make(map[key]Count, len(carried))
		for _, c := range carried {
			k := keyOf(c.Src, c.Dst, c.Protocol, c.Line)
			n := t.carried[k]
			n.add(c.Count) // by two ports of a LAN
			t.carried[k] = n
		}
	}
	return t
}

// since is how much a line grew. A port whose counters went back is another one, and
// so are the programs.
func (l Line) since(had Line, ok bool) LineVolume {
	v := LineVolume{Name: l.Name, Down: Volume{All: l.In}, Up: Volume{All: l.Out}, Fates: grown(l.Fates, had.Fates, ok)}
	if !ok {
		return v
	}
	if l.In.before(had.In) || l.Out.before(had.Out) {
		had.In, had.Out = Count{}, Count{}
	}
	v.Down.Grew, v.Up.Grew = l.In.less(had.In), l.Out.less(had.Out)
	return v
}

// grown is how much fates grew since those before, if there are any: programs whose
// counters went back are others.
func grown(now, had []Fate, ok bool) (out []FateVolume) {
	back := len(had) != len(now)
	for i, f := range now {
		back = back || f.Packets < had[i].Packets
	}
	for i, f := range now {
		v := FateVolume{Fate: f}
		if ok {
			v.Grew = f.Packets
			if !back {
				v.Grew -= had[i].Packets
			}
		}
		out = append(out, v)
	}
	return out
}

// before says whether c was counted before o was, or anew.
func (c Count) before(o Count) bool { return c.Packets < o.Packets || c.Bytes < o.Bytes }

func (c Count) less(o Count) Count { return Count{c.Packets - o.Packets, c.Bytes - o.Bytes} }

// Add takes in a flow. What the machine says to itself is nobody's traffic.
func (t *Take) Add(f Flow) {
	client, server := t.view.Where(f.Client.Addr()), t.view.Where(f.Server.Addr())
	number := f.Mark & t.view.Marks.Line
	line, by := t.marks[number]
	var clients, servers uint32 // the line that each sends by
	switch {
	case !by:
	case f.Mark&t.view.Marks.In != 0: // outside, and if its address is one of a LAN's
		client, clients = Place{}, number
	default:
		server, servers = Place{}, number
	}
	if client.Self && server.Self {
		return
	}
	k := keyOf(f.Client, f.Dialled, f.Protocol, f.ID)
	if _, twice := t.now[k]; twice {
		return // the table moved under the dump
	}
	forth, back := t.since(k, keyOf(f.Client, f.Dialled, f.Protocol, clients), keyOf(f.Server, f.Seen, f.Protocol, servers), f)

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
	if t.r.Flows = append(t.r.Flows, v); len(t.r.Flows) >= 4*max(t.view.Most, 64) {
		t.r.Flows = t.view.busiest(t.r.Flows)
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

// since is how much a flow's directions have grown, by which its packets are known as
// they come in: all that they have where it is new, which it also is if conntrack's
// counters went back. What the fast path has carried of such packets so far was
// another flow's then.
func (t *Take) since(k, forthKey, backKey key, f Flow) (forth, back Volume) {
	had, ok := t.m.flows[k]
	if !ok || f.Forth.before(had.forth.slow) || f.Back.before(had.back.slow) {
		others := func(k key) direction { n := t.m.carried[k]; return direction{fast: n, others: n} }
		had = counts{others(forthKey), others(backKey)}
	}
	now := counts{had.forth.next(f.Forth, t.carried[forthKey]), had.back.next(f.Back, t.carried[backKey])}
	t.now[k] = now
	return now.forth.since(had.forth, t.r.Over > 0), now.back.since(had.back, t.r.Over > 0)
}

// next is what stands in a direction's place in the next reading.
func (d direction) next(slow, fast Count) direction {
	if fast.before(d.fast) {
		d.others = Count{} // the fast path counts anew
	}
	return direction{slow, fast, d.others}
}

// since is how much a direction has, and has grown where something was read before.
func (d direction) since(had direction, grew bool) Volume {
	v := Volume{All: d.slow}
	v.All.add(d.fast.less(d.others))
	if !grew {
		return v
	}
	if d.fast.before(had.fast) {
		had.fast = Count{}
	}
	fast := d.fast.less(had.fast)
	v.Grew, v.Fast = d.slow.less(had.slow), fast.Packets
	v.Grew.add(fast)
	return v
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
		return cmp.Or(t.view.busier(a.Down, a.Up, b.Down, b.Up), a.Addrs[0].Compare(b.Addrs[0]))
	})
	r.Hosts = r.Hosts[:min(len(r.Hosts), t.view.Most)]
	r.Flows = t.view.busiest(r.Flows)
	t.m.flows, t.m.lines, t.m.at = t.now, t.nowLines, r.At
	t.m.carried, t.m.main = t.carried, t.nowMain
	return r
}

// busiest are the first so many, in order.
func (v View) busiest(all []FlowVolume) []FlowVolume {
	slices.SortFunc(all, func(a, b FlowVolume) int {
		return cmp.Or(v.busier(a.Down, a.Up, b.Down, b.Up), a.Client.Compare(b.Client), a.Dialled.Compare(b.Dialled), cmp.Compare(a.Protocol, b.Protocol))
	})
	return all[:min(len(all), v.Most)]
}

// busier orders two flows or hosts.
func (v View) busier(down1, up1, down2, up2 Volume) int {
	return cmp.Or(cmp.Compare(v.By(down2, up2), v.By(down1, up1)), cmp.Compare(ByAll(down2, up2), ByAll(down1, up1)))
}
