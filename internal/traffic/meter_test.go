package traffic_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/traffic"
)

var (
	at    = netip.MustParseAddrPort
	nas   = &traffic.Device{Name: "nas"}
	marks = traffic.Marks{Line: 0xff, In: 0x100}
)

// where is a house with a LAN 172.31.0.0/24 and fd00::/64.
func where(a netip.Addr) traffic.Place {
	switch a.String() {
	case "172.31.0.1", "fd00::1", "100.64.0.0", "127.0.0.1":
		return traffic.Place{Self: true}
	case "172.31.0.23", "fd00::23":
		return traffic.Place{LAN: "home", Device: nas}
	}
	for _, p := range []string{"172.31.0.0/24", "fd00::/64"} {
		if netip.MustParsePrefix(p).Contains(a) {
			return traffic.Place{LAN: "home"}
		}
	}
	return traffic.Place{}
}

// flow is an entry whose two counters say packets and bytes both ways. The words are
// client, dialled, and where they differ server and seen.
func flow(ends string, mark uint32, forth, back uint64) traffic.Flow {
	w := strings.Fields(ends)
	f := traffic.Flow{ID: 1, Protocol: 6, Mark: mark, Client: at(w[0]), Dialled: at(w[1]), Server: at(w[1]), Seen: at(w[0]), Counted: true,
		Forth: traffic.Count{Packets: forth, Bytes: 100 * forth}, Back: traffic.Count{Packets: back, Bytes: 100 * back}}
	if len(w) > 2 {
		f.Server, f.Seen = at(w[2]), at(w[3])
	}
	return f
}

// told is a reading in short: hosts, flows, flows of each line.
func told(r traffic.Reading) string {
	var b strings.Builder
	name := func(p traffic.Place, a netip.Addr) string {
		switch {
		case p.Device != nil:
			return p.Device.Name
		case p.Self:
			return "gateway"
		}
		return a.String()
	}
	for _, h := range r.Hosts {
		fmt.Fprintf(&b, "%s down %d up %d, %d flows\n", name(h.Place, h.Addrs[0]), h.Down.Grew.Packets, h.Up.Grew.Packets, h.Flows)
	}
	for _, f := range r.Flows {
		way := ">"
		if f.Inbound {
			way = "<"
		}
		fmt.Fprintf(&b, "%s %s %s by %q down %d up %d", f.Host, way, f.Peer, f.Line, f.Down.Grew.Packets, f.Up.Grew.Packets)
		if r.Carries {
			fmt.Fprintf(&b, " fast %d %d", f.Down.Fast, f.Up.Fast)
		}
		b.WriteString("\n")
	}
	for _, l := range r.Lines {
		if l.Flows > 0 {
			fmt.Fprintf(&b, "%s has %d\n", l.Name, l.Flows)
		}
	}
	return b.String()
}

const (
	out  = "172.31.0.50:4000 192.0.2.80:443 192.0.2.80:443 198.51.100.10:4000"
	in   = "192.0.2.9:5000 198.51.100.10:80 172.31.0.23:8080 192.0.2.9:5000"
	ours = "100.64.0.0:4000 1.1.1.1:53 1.1.1.1:53 198.51.100.10:4000"
)

func TestTwoReadings(t *testing.T) {
	other := func(f traffic.Flow, id uint32) traffic.Flow { f.ID = id; return f }
	carried := func(src, dst string, line uint32, n uint64) traffic.Carried {
		return traffic.Carried{Src: at(src), Dst: at(dst), Protocol: 6, Line: line, Count: traffic.Count{Packets: n, Bytes: 100 * n}}
	}
	for _, c := range []struct {
		name         string
		before, now  []traffic.Flow
		fast1, fast2 []traffic.Carried
		want         string
	}{
		{
			name:   "out by a line, translated",
			before: []traffic.Flow{flow(out, 0x1001, 10, 20)}, now: []traffic.Flow{flow(out, 0x1001, 13, 27)},
			want: "172.31.0.50 down 7 up 3, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 7 up 3\nfiber has 1\n",
		}, {
			name:   "in by a line, forwarded: the host is the LAN's, and what it sends goes up",
			before: []traffic.Flow{flow(in, 0x102, 10, 20)}, now: []traffic.Flow{flow(in, 0x102, 13, 27)},
			want: "nas down 3 up 7, 1 flows\n172.31.0.23:8080 < 192.0.2.9:5000 by \"lte\" down 3 up 7\nlte has 1\n",
		}, {
			name: "new since",
			now:  []traffic.Flow{flow(out, 1, 3, 4)},
			want: "172.31.0.50 down 4 up 3, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 4 up 3\nfiber has 1\n",
		}, {
			name:   "nothing moved",
			before: []traffic.Flow{flow(out, 1, 3, 4)}, now: []traffic.Flow{flow(out, 1, 3, 4)},
			want: "172.31.0.50 down 0 up 0, 1 flows\nfiber has 1\n",
		}, {
			name:   "ended between the readings: it is gone, and nothing is taken from anybody",
			before: []traffic.Flow{flow(out, 1, 3000, 4000), flow(in, 0x102, 1, 1)}, now: []traffic.Flow{flow(in, 0x102, 2, 3)},
			want: "nas down 1 up 2, 1 flows\n172.31.0.23:8080 < 192.0.2.9:5000 by \"lte\" down 1 up 2\nlte has 1\n",
		}, {
			name:   "a counter went back: another flow in the same place",
			before: []traffic.Flow{flow(out, 1, 3000, 4000)}, now: []traffic.Flow{flow(out, 1, 5, 4001)},
			want: "172.31.0.50 down 4001 up 5, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 4001 up 5\nfiber has 1\n",
		}, {
			name:   "a port that is used again, by a flow that has outgrown the first",
			before: []traffic.Flow{flow(out, 1, 3, 4)}, now: []traffic.Flow{other(flow(out, 1, 5, 6), 2)},
			want: "172.31.0.50 down 6 up 5, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 6 up 5\nfiber has 1\n",
		}, {
			name:   "an entry that the dump met twice",
			before: []traffic.Flow{flow(out, 1, 3, 4)}, now: []traffic.Flow{flow(out, 1, 5, 6), flow(out, 1, 5, 6)},
			want: "172.31.0.50 down 2 up 2, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 2 up 2\nfiber has 1\n",
		}, {
			name: "IPv6 as it is, and a device with an address in each family",
			now:  []traffic.Flow{flow("[fd00::23]:4000 [2001:db8::80]:443", 1, 1, 2), flow("172.31.0.23:4000 192.0.2.80:443 192.0.2.80:443 198.51.100.10:4000", 1, 10, 20)},
			want: "nas down 22 up 11, 2 flows\n172.31.0.23:4000 > 192.0.2.80:443 by \"fiber\" down 20 up 10\n[fd00::23]:4000 > [2001:db8::80]:443 by \"fiber\" down 2 up 1\nfiber has 2\n",
		}, {
			name: "the gateway's own",
			now:  []traffic.Flow{flow(ours, 1, 1, 2)},
			want: "gateway down 2 up 1, 1 flows\n100.64.0.0:4000 > 1.1.1.1:53 by \"fiber\" down 2 up 1\nfiber has 1\n",
		}, {
			name: "a LAN's with the gateway",
			now:  []traffic.Flow{flow("172.31.0.50:4000 172.31.0.1:53", 0, 1, 2), flow("172.31.0.1:67 172.31.0.50:68", 0, 10, 0)},
			want: "gateway down 1 up 12, 2 flows\n172.31.0.50 down 12 up 1, 2 flows\n" +
				"172.31.0.50:68 < 172.31.0.1:67 by \"\" down 10 up 0\n172.31.0.50:4000 > 172.31.0.1:53 by \"\" down 2 up 1\n",
		}, {
			name: "the machine's with itself",
			now:  []traffic.Flow{flow("127.0.0.1:4000 127.0.0.1:53", 0, 1, 2)},
			want: "",
		}, {
			name: "LAN to LAN counts once for each host, and is one flow",
			now:  []traffic.Flow{flow("172.31.0.50:4000 172.31.0.23:445", 0, 1, 2)},
			want: "nas down 1 up 2, 1 flows\n172.31.0.50 down 2 up 1, 1 flows\n172.31.0.50:4000 > 172.31.0.23:445 by \"\" down 2 up 1\n",
		}, {
			name: "by hairpin: dialled is the line's address, the peer who answers",
			now:  []traffic.Flow{flow("172.31.0.50:4000 198.51.100.10:80 172.31.0.23:8080 172.31.0.1:4000", 0, 1, 2)},
			want: "nas down 1 up 2, 1 flows\n172.31.0.50 down 2 up 1, 1 flows\n172.31.0.50:4000 > 172.31.0.23:8080 by \"\" down 2 up 1\n",
		}, {
			name: "outside, with addresses of the LAN's: a line's subnet is the same",
			now:  []traffic.Flow{flow("172.31.0.99:5000 198.51.100.10:80 172.31.0.23:8080 172.31.0.1:5000", 0x102, 1, 2), flow("172.31.0.50:4000 172.31.0.98:80 172.31.0.98:80 198.51.100.10:4000", 1, 10, 20)},
			want: "172.31.0.50 down 20 up 10, 1 flows\nnas down 1 up 2, 1 flows\n172.31.0.50:4000 > 172.31.0.98:80 by \"fiber\" down 20 up 10\n" +
				"172.31.0.23:8080 < 172.31.0.99:5000 by \"lte\" down 1 up 2\nfiber has 1\nlte has 1\n",
		}, {
			name:   "carried fast: what conntrack saw and what it did not, each once",
			before: []traffic.Flow{flow(out, 1, 10, 20)}, now: []traffic.Flow{flow(out, 1, 11, 20)},
			fast1: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 100), carried("192.0.2.80:443", "198.51.100.10:4000", 1, 200)},
			fast2: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 103), carried("192.0.2.80:443", "198.51.100.10:4000", 1, 205)},
			want:  "172.31.0.50 down 5 up 4, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 5 up 4 fast 5 3\nfiber has 1\n",
		}, {
			name:   "carried anew: its counter begins again, conntrack's goes on",
			before: []traffic.Flow{flow(out, 1, 10, 20)}, now: []traffic.Flow{flow(out, 1, 11, 20)},
			fast1: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 100)},
			fast2: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 3)},
			want:  "172.31.0.50 down 0 up 4, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 0 up 4 fast 0 3\nfiber has 1\n",
		}, {
			name:   "carried in by a forward",
			before: []traffic.Flow{flow(in, 0x102, 10, 20)}, now: []traffic.Flow{flow(in, 0x102, 11, 20)},
			fast1: []traffic.Carried{carried("192.0.2.9:5000", "198.51.100.10:80", 2, 100), carried("172.31.0.23:8080", "192.0.2.9:5000", 0, 200)},
			fast2: []traffic.Carried{carried("192.0.2.9:5000", "198.51.100.10:80", 2, 103), carried("172.31.0.23:8080", "192.0.2.9:5000", 0, 205)},
			want:  "nas down 4 up 5, 1 flows\n172.31.0.23:8080 < 192.0.2.9:5000 by \"lte\" down 4 up 5 fast 3 5\nlte has 1\n",
		}, {
			name:   "carried in by another line with the same address: another's",
			before: []traffic.Flow{flow(out, 1, 10, 20)}, now: []traffic.Flow{flow(out, 1, 11, 20)},
			fast1: []traffic.Carried{carried("192.0.2.80:443", "198.51.100.10:4000", 1, 1)},
			fast2: []traffic.Carried{carried("192.0.2.80:443", "198.51.100.10:4000", 1, 2), {Src: at("192.0.2.80:443"), Dst: at("198.51.100.10:4000"), Protocol: 6, Line: 2, Count: traffic.Count{Packets: 1000}}},
			want:  "172.31.0.50 down 1 up 1, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 1 up 1 fast 1 0\nfiber has 1\n",
		}, {
			name:   "carried by two ports of a LAN: one after the other, both its",
			before: []traffic.Flow{flow(out, 1, 10, 20)}, now: []traffic.Flow{flow(out, 1, 10, 20)},
			fast1: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 5)},
			fast2: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 6), carried("172.31.0.50:4000", "192.0.2.80:443", 0, 7)},
			want:  "172.31.0.50 down 0 up 8, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 0 up 8 fast 0 8\nfiber has 1\n",
		}, {
			name:   "a port that is used again: what was carried before was another's",
			before: []traffic.Flow{flow(out, 1, 10, 20)}, now: []traffic.Flow{other(flow(out, 1, 30, 40), 2)},
			fast1: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 1000)},
			fast2: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 1003)},
			want:  "172.31.0.50 down 40 up 33, 1 flows\n172.31.0.50:4000 > 192.0.2.80:443 by \"fiber\" down 40 up 33 fast 0 3\nfiber has 1\n",
		}, {
			name:  "carried, and not in conntrack: nobody's",
			fast1: []traffic.Carried{}, fast2: []traffic.Carried{carried("172.31.0.50:4000", "192.0.2.80:443", 0, 3)},
			want: "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m traffic.Meter
			r := read(&m, time.Second, c.before, nil, c.fast1, 20)
			if r.Over != 0 || len(r.Flows) > 0 {
				t.Errorf("of the first reading: %+v", r)
			}
			r = read(&m, 3*time.Second, c.now, nil, c.fast2, 20)
			if d := cmp.Diff(c.want, told(r)); d != "" || r.Over != 2*time.Second {
				t.Errorf("over %v, -want +got\n%s", r.Over, d)
			}
		})
	}
}

func view(most int) traffic.View {
	return traffic.View{Where: where, Marks: marks, By: traffic.ByRate, Most: most}
}

func read(m *traffic.Meter, when time.Duration, flows []traffic.Flow, lines []traffic.Line, carried []traffic.Carried, most int) traffic.Reading {
	if lines == nil {
		lines = []traffic.Line{{Name: "fiber", Mark: 1}, {Name: "lte", Mark: 2}}
	}
	t := m.Start(when, lines, carried, nil, view(most))
	for _, f := range flows {
		t.Add(f)
	}
	return t.Done()
}

// A line's own counters: what grew, a port that is another one, programs that are.
func TestLines(t *testing.T) {
	line := func(in, out uint64, fates ...uint64) traffic.Line {
		l := traffic.Line{Name: "fiber", In: traffic.Count{Packets: in, Bytes: 1000 * in}, Out: traffic.Count{Packets: out, Bytes: 1000 * out}}
		for i, n := range fates {
			l.Fates = append(l.Fates, traffic.Fate{Why: []string{"", "first"}[i], Packets: n})
		}
		return l
	}
	for _, c := range []struct {
		name         string
		before, now  traffic.Line
		down, up     uint64
		fast, reason uint64
	}{
		{"both ways", line(10, 20, 5, 6), line(13, 27, 8, 7), 3, 7, 3, 1},
		{"another port", line(1000, 20, 5, 6), line(13, 27, 8, 7), 13, 27, 3, 1},
		{"other programs", line(10, 20, 500, 6), line(13, 27, 8, 7), 3, 7, 8, 7},
		{"programs that were not there", line(10, 20), line(13, 27, 8, 7), 3, 7, 8, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m traffic.Meter
			read(&m, 0, nil, []traffic.Line{c.before}, nil, 20)
			l := read(&m, time.Second, nil, []traffic.Line{c.now}, nil, 20).Lines[0]
			if l.Down.Grew != (traffic.Count{Packets: c.down, Bytes: 1000 * c.down}) || l.Up.Grew != (traffic.Count{Packets: c.up, Bytes: 1000 * c.up}) {
				t.Errorf("down %+v, up %+v", l.Down, l.Up)
			}
			if l.Fates[0].Grew != c.fast || l.Fates[1].Grew != c.reason {
				t.Errorf("%+v", l.Fates)
			}
		})
	}
}

// A flow's whole volume is conntrack's and the fast path's, without another flow's.
func TestWhole(t *testing.T) {
	var m traffic.Meter
	n := func(n uint64) []traffic.Carried {
		return []traffic.Carried{{Src: at("172.31.0.50:4000"), Dst: at("192.0.2.80:443"), Protocol: 6, Count: traffic.Count{Packets: n, Bytes: 100 * n}}}
	}
	whole := func(when time.Duration, id uint32, slow, fast, want uint64) {
		t.Helper()
		f := flow(out, 1, slow, 0)
		f.ID = id
		r := read(&m, when, []traffic.Flow{f}, nil, n(fast), 20)
		if got := r.Hosts[0].Up.All; got != (traffic.Count{Packets: want, Bytes: 100 * want}) {
			t.Errorf("at %v %+v, want %d", when, got, want)
		}
	}
	whole(1*time.Second, 1, 10, 100, 110)
	whole(2*time.Second, 1, 11, 150, 161)
	whole(3*time.Second, 2, 2, 150, 2) // another flow, from the same port
	whole(4*time.Second, 2, 2, 170, 22)
	whole(5*time.Second, 2, 3, 5, 8) // what was carried before is forgotten
}

// What became of main's packets is told as that of a line's.
func TestMainsPackets(t *testing.T) {
	var m traffic.Meter
	take := func(fast, slow uint64) []traffic.FateVolume {
		return m.Start(0, nil, []traffic.Carried{}, []traffic.Fate{{Packets: fast}, {Why: "kind", Packets: slow}}, view(20)).Done().Main
	}
	want := func(got []traffic.FateVolume, fast, slow uint64) {
		t.Helper()
		if got[0].Grew != fast || got[1].Grew != slow || got[1].Why != "kind" {
			t.Errorf("%+v, want %d and %d", got, fast, slow)
		}
	}
	want(take(100, 50), 0, 0)
	want(take(107, 53), 7, 3)
	want(take(4, 60), 4, 60) // another program
}

// A reading that is given up halfway spoils none: the next covers the time of both.
func TestGivenUp(t *testing.T) {
	var m traffic.Meter
	lines := func(n uint64) []traffic.Line {
		return []traffic.Line{{Name: "fiber", Mark: 1, In: traffic.Count{Packets: n, Bytes: n}}}
	}
	read(&m, 0, []traffic.Flow{flow(out, 1, 1, 1)}, lines(1), nil, 20)
	m.Start(time.Second, lines(5), nil, nil, view(20)).Add(flow(out, 1, 5, 5))
	r := read(&m, 2*time.Second, []traffic.Flow{flow(out, 1, 9, 9)}, lines(9), nil, 20)
	if r.Over != 2*time.Second || r.Lines[0].Down.Grew.Packets != 8 || r.Flows[0].Up.Grew.Packets != 8 {
		t.Errorf("%+v", r)
	}
}

// However many there are, the busiest are listed and all are counted.
func TestTheBusiest(t *testing.T) {
	var m traffic.Meter
	read(&m, 0, nil, nil, nil, 3)
	var flows []traffic.Flow
	for i := range 5000 {
		n := uint64(i*7919%5000) + 1 // each of 1 to 5000 once
		flows = append(flows, flow(fmt.Sprintf("172.31.0.%d:%d 192.0.2.80:443", 2+i%200, 10000+i), 1, n, 0))
	}
	r := read(&m, time.Second, flows, nil, nil, 3)
	if r.FlowCount != 5000 || r.HostCount != 200 || r.Lines[0].Flows != 5000 || len(r.Hosts) != 3 {
		t.Errorf("%d flows, %d hosts (%d listed), %d of the line", r.FlowCount, r.HostCount, len(r.Hosts), r.Lines[0].Flows)
	}
	for i, want := range []uint64{5000, 4999, 4998} {
		if got := r.Flows[i].Up.Grew.Packets; got != want || len(r.Flows) != 3 {
			t.Errorf("of %d flows number %d has %d packets, want %d", len(r.Flows), i, got, want)
		}
	}
}

// What the busiest are is who looks's to say, of hosts and of flows.
func TestOrder(t *testing.T) {
	counted := func(a string, n0, n1 [2]uint64) (before, now traffic.Flow) {
		f := flow(a+":4000 192.0.2.80:443", 1, 0, 0)
		f.Back, f.Forth = traffic.Count{Packets: n0[0], Bytes: n0[1]}, traffic.Count{}
		before = f
		f.Back = traffic.Count{Packets: n0[0] + n1[0], Bytes: n0[1] + n1[1]}
		return before, f
	}
	swap := func(f traffic.Flow) traffic.Flow { f.Forth, f.Back = f.Back, f.Forth; return f }
	down0, down1 := counted("172.31.0.2", [2]uint64{1, 100}, [2]uint64{2, 3000})
	up0, up1 := counted("172.31.0.3", [2]uint64{1, 100}, [2]uint64{1, 2000})
	up0, up1 = swap(up0), swap(up1)
	small0, small1 := counted("172.31.0.4", [2]uint64{1, 100}, [2]uint64{20, 1000})
	old0, old1 := counted("172.31.0.5", [2]uint64{1, 90000}, [2]uint64{1, 10})
	for _, c := range []struct {
		name string
		by   traffic.Order
		want string
	}{
		{"rate", traffic.ByRate, "2 3 4 5"},
		{"down", traffic.ByDown, "2 4 5 3"},
		{"up", traffic.ByUp, "3 5 2 4"}, // of those that sent nothing: who had most
		{"packets", traffic.ByPackets, "4 2 5 3"},
		{"all", traffic.ByAll, "5 2 3 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m traffic.Meter
			v := view(20)
			v.By = c.by
			take := func(at time.Duration, flows ...traffic.Flow) traffic.Reading {
				k := m.Start(at, nil, nil, nil, v)
				for _, f := range flows {
					k.Add(f)
				}
				return k.Done()
			}
			take(0, down0, up0, small0, old0)
			r := take(time.Second, down1, up1, small1, old1)
			var hosts, flows []string
			for _, h := range r.Hosts {
				hosts = append(hosts, strings.TrimPrefix(h.Addrs[0].String(), "172.31.0."))
			}
			for _, f := range r.Flows {
				flows = append(flows, strings.TrimPrefix(f.Host.Addr().String(), "172.31.0."))
			}
			if got := strings.Join(hosts, " "); got != c.want {
				t.Errorf("hosts %s, want %s", got, c.want)
			}
			if got := strings.Join(flows, " "); got != c.want {
				t.Errorf("flows %s, want %s", got, c.want)
			}
		})
	}
}

// A flow that conntrack did not count from its beginning on is told as such.
func TestUncounted(t *testing.T) {
	var m traffic.Meter
	f := flow(out, 1, 0, 0)
	f.Counted = false
	if r := read(&m, 0, []traffic.Flow{f}, nil, nil, 3); r.Uncounted != 1 || r.FlowCount != 1 {
		t.Errorf("%+v", r)
	}
}

// BenchmarkReading compares ten thousand flows with those of a second before.
func BenchmarkReading(b *testing.B) {
	flows := make([]traffic.Flow, 10000)
	for i := range flows {
		flows[i] = flow(fmt.Sprintf("172.31.0.%d:%d 192.0.2.80:443 192.0.2.80:443 198.51.100.10:%d", 2+i%200, 10000+i, 10000+i), 1, uint64(i), 1)
	}
	var m traffic.Meter
	at := time.Duration(0)
	for b.Loop() {
		for i := range flows {
			flows[i].Forth.Packets++
		}
		at += time.Second
		read(&m, at, flows, nil, nil, 20)
	}
}
