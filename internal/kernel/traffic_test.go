package kernel_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"weir/internal/kernel"
	"weir/internal/netns/netnstest"
	"weir/internal/traffic"
)

// onPort are the flows that were begun from a port of 127.0.0.1.
func onPort(t *testing.T, port uint16) (out []traffic.Flow) {
	t.Helper()
	if err := kernel.Flows(func(c traffic.Flow) {
		if c.Client == netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port) {
			out = append(out, c)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// talk sends n datagrams of 100 bytes to a port of lo, and has one come back.
func talk(t *testing.T, from string, n int) {
	t.Helper()
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := net.ListenPacket("udp4", from)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	buf := make([]byte, 200)
	for range n {
		if _, err := client.WriteTo(buf[:100], server.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := server.ReadFrom(buf); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.WriteTo(buf[:50], client.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.ReadFrom(buf); err != nil {
		t.Fatal(err)
	}
}

// What a flow's ends sent is told of each that was begun with counting on, and of no
// other.
func TestFlowsOfMain(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.run("", "nft 'table inet t { chain o { type filter hook output priority 0; ct state new ct mark set 0x1101; }; }'")
		const acct = "/proc/sys/net/netfilter/nf_conntrack_acct"
		for _, c := range []struct {
			on   string
			from uint16
			want traffic.Flow
		}{
			{"0", 4001, traffic.Flow{}},
			{"1", 4002, traffic.Flow{Counted: true, Forth: traffic.Count{Packets: 3, Bytes: 3 * (20 + 8 + 100)}, Back: traffic.Count{Packets: 1, Bytes: 20 + 8 + 50}}},
		} {
			if err := os.WriteFile(acct, []byte(c.on), 0); err != nil {
				t.Fatal(err)
			}
			from := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), c.from)
			talk(t, from.String(), 3)
			got := onPort(t, c.from)
			if len(got) != 1 {
				t.Fatalf("acct %s: %d entries", c.on, len(got))
			}
			g := got[0]
			if g.Counted != c.want.Counted || g.Forth != c.want.Forth || g.Back != c.want.Back {
				t.Errorf("acct %s: %+v", c.on, g)
			}
			if g.Client != from || g.Seen != from || g.Dialled != g.Server || g.Protocol != 17 || g.Mark != 0x1101 || g.ID == 0 {
				t.Errorf("acct %s: %+v", c.on, g)
			}
		}
		if n := len(onPort(t, 4003)); n != 0 {
			t.Errorf("%d entries of a flow that never was", n)
		}
	})
}

// A port's counters are those of its namespace; one that is not there is no error.
func TestPortTraffic(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.turn()
		before, ok, err := b.k.PortTraffic(kernel.Port{NS: "wan-fiber", Link: "eth1"})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		b.run("outside", "ip addr add 198.51.100.1/24 dev port1; ping -c 2 -s 472 -i 0.01 -W 1 198.51.100.10 || true")
		after, _, err := b.k.PortTraffic(kernel.Port{NS: "wan-fiber", Link: "eth1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("in %+v to %+v, fast path %+v", before.In, after.In, after.Fast)
		if after.In.Packets == before.In.Packets || after.In.Bytes == before.In.Bytes {
			t.Errorf("pings came in by the port, and it counted from %+v to %+v", before, after)
		}
		for _, p := range []kernel.Port{{NS: "wan-none", Link: "eth1"}, {NS: "wan-fiber", Link: "none"}} {
			if got, ok, err := b.k.PortTraffic(p); ok || err != nil || got != (kernel.PortTraffic{}) {
				t.Errorf("%+v: %+v, %v, %v", p, got, ok, err)
			}
		}
	})
}

// BenchmarkFlows reads fifty thousand flows, and turns them into who sends how much:
// what `weir top` costs in each interval.
func BenchmarkFlows(b *testing.B) {
	netnstest.Need(b)
	ct, err := conntrack.Dial(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer ct.Close()
	if err := os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_acct", []byte("1"), 0); err != nil {
		b.Fatal(err)
	}
	const flows = 50000
	for i := range flows {
		client := fmt.Sprintf("172.31.0.%d", 2+i%200)
		if err := ct.Create(entry(client, uint16(5000+i/200), 17, conntrack.StatusSeenReply, 0, 1)); err != nil && !errors.Is(err, os.ErrExist) {
			b.Fatal(err)
		}
	}
	var m traffic.Meter
	at := time.Duration(0)
	home := netip.MustParsePrefix("172.31.0.0/24")
	view := traffic.View{Marks: traffic.Marks{Line: 0xff}, By: traffic.ByRate, Most: 20, Where: func(a netip.Addr) (p traffic.Place) {
		if home.Contains(a) {
			p.LAN = "home"
		}
		return p
	}}
	for _, c := range []struct {
		name string
		each func() int
	}{
		{"dump", func() (n int) {
			if err := kernel.Flows(func(traffic.Flow) { n++ }); err != nil {
				b.Fatal(err)
			}
			return n
		}},
		{"reading", func() int {
			at += time.Second
			t := m.Start(at, []traffic.Line{{Name: "fiber", Mark: 1}}, nil, nil, view)
			if err := kernel.Flows(t.Add); err != nil {
				b.Fatal(err)
			}
			return t.Done().FlowCount
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var n int
			for b.Loop() {
				if n = c.each(); n < flows {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/reading")
		})
	}
}
