package fastpath_test

import (
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/ti-mo/conntrack"
	"github.com/vishvananda/netlink"

	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// flows has the program of the flows at the LAN's port and the cable's end in main,
// and returns it, with what makes entries of what conntrack has by now.
func (l *lab) flows(program func(*ebpf.CollectionSpec) error) (f *fastpath.Flows, learn func()) {
	l.Helper()
	f, err := fastpath.Spoilt(program)
	l.must(err)
	at := func(name string) (out fastpath.Link) {
		l.must(netns.Do("", func() error {
			k, err := netlink.LinkByName(name)
			if err == nil {
				out = fastpath.Link{Name: name, Index: k.Attrs().Index, MTU: k.Attrs().MTU, MAC: k.Attrs().HardwareAddr.String()}
			}
			return err
		}))
		return out
	}
	port, cable := at("eth0"), at("fiber")
	var far string
	for _, k := range l.links() {
		if k.Name == "lan" {
			far = k.MAC
		}
	}
	house, line := fastpath.Side{Link: port.Index, Hop: 1}, fastpath.Side{Link: cable.Index, Hop: 2}
	l.must(f.SetHop(house.Hop, fastpath.Hop{Link: port.Index, MTU: port.MTU}))
	l.must(f.SetHop(line.Hop, fastpath.Hop{Link: cable.Index, MTU: cable.MTU, Near: cable.MAC, Far: far}))
	l.must(f.Current(1, uptime()))
	for _, k := range []fastpath.Link{port, cable} {
		l.must(netns.Do("", func() error { return f.Attach(k) }))
	}
	var ct *conntrack.Conn
	l.must(netns.Do("", func() (err error) { ct, err = conntrack.Dial(nil); return err }))
	l.Cleanup(func() {
		for _, k := range []fastpath.Link{port, cable} {
			if err := netns.Do("", func() error { return f.Detach(k) }); err != nil {
				l.Error(err)
			}
		}
		ct.Close()
		f.Close()
	})
	known := map[fastpath.Way]bool{}
	return f, func() {
		l.Helper()
		all, err := ct.Dump(nil)
		l.must(err)
		for _, c := range all {
			near, there := line, house
			if a := c.TupleOrig.IP.SourceAddress.Unmap(); pre("172.31.0.0/24").Contains(a) || pre("fd5e:7a11:c0de::/48").Contains(a) {
				near, there = house, line
			}
			ways, why := fastpath.Ways(c, near, there)
			if p := c.ProtoInfo.TCP; why == "" && p != nil && !known[ways[0]] {
				l.must(netns.Do("", func() error { return fastpath.Hold(c, time.Hour) }))
			}
			for _, w := range ways {
				if why == "" && !known[w] {
					known[w] = true
					l.must(f.Put(w, 1))
				}
			}
		}
	}
}

// sameWithFlows runs the rows with the program of the flows, which gets an entry as
// soon as conntrack has one: the same comes out as without.
func (l *lab) sameWithFlows(slow [][]string) {
	l.Helper()
	outer := l.TB.(*testing.T)
	for _, s := range []struct {
		name    string
		program func(*ebpf.CollectionSpec) error
	}{
		{name: "flows"},
		{"flows, no checksum of the transport", fastpath.NoSum},
		{"flows, any checksum", fastpath.AnySum},
	} {
		outer.Run(s.name, func(t *testing.T) {
			l.TB = t
			l.fast(true)
			f, learn := l.flows(s.program)
			var carried []string
			var had fastpath.Reasons
			l.after = func(n int) {
				r, err := f.Why()
				l.must(err)
				if r.Fast > had.Fast {
					carried = append(carried, rows[n].name)
				}
				if r.Unknown > had.Unknown || r.Odd > had.Odd {
					learn()
				}
				had = r
			}
			fast, short := l.run(rows)
			l.after = nil
			diffs := differ(rows, slow, fast, short)
			if s.program != nil {
				if len(diffs) == 0 {
					t.Error("nobody noticed")
				} else {
					t.Logf("%d packets differ, the first of them %.300s", len(diffs), diffs[0])
				}
				return
			}
			for _, d := range diffs {
				t.Error(d)
			}
			r, err := f.Why()
			l.must(err)
			t.Logf("%+v; carried: %s", r, strings.Join(carried, ", "))
			if r.Fast < 19 {
				t.Errorf("only %d packets were carried", r.Fast)
			}
		})
	}
	l.TB = outer
}

// No MAC address of a host is kept: a new one gets the next packet. And one write has
// each flow go by main at once, whose packets come out the same.
func TestFlowsFollow(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		f, learn := l.flows(nil)
		defer l.ordered()()
		out, in := packet{src: pc, dst: peer, sport: 5000, dport: 443}, packet{src: peer, dst: own, sport: 443, dport: 5000}
		n := 0
		// arrives sends a packet in, and says what came out in the LAN, and whether it
		// was carried.
		arrives := func() (frame string, carried bool) {
			t.Helper()
			before, err := f.Why()
			l.must(err)
			l.must(l.outside.send(in.frame(l.outside)))
			heard := l.until(n)
			n++
			after, err := f.Why()
			l.must(err)
			if len(heard) != 1 {
				t.Fatalf("%q came out, want one packet", heard)
			}
			return heard[0], after.Fast > before.Fast
		}
		l.must(l.inside.send(out.frame(l.inside)))
		l.until(n)
		n++
		slow, carried := arrives()
		if carried {
			t.Error("carried without an entry")
		}
		learn()
		if got, carried := arrives(); !carried || got != slow {
			t.Errorf("carried: %v; %s came out, want %s", carried, got, slow)
		}
		other := net.HardwareAddr{2, 0, 0, 0, 0, 0x55}
		l.neighbour("", "eth0", pc, other)
		want := strings.Replace(slow, hex.EncodeToString(l.inside.mac), hex.EncodeToString(other), 1)
		if got, carried := arrives(); !carried || got != want {
			t.Errorf("after the host got another MAC address: carried: %v; %s came out, want %s", carried, got, want)
		}
		l.must(f.Current(2, uptime()))
		if got, carried := arrives(); carried || got != want {
			t.Errorf("in another generation: carried: %v; %s came out, want %s", carried, got, want)
		}
	})
}

const timeWait = 7 // TCP_CONNTRACK_TIME_WAIT

// tcpState is what conntrack has of the connection to a port; 0 is none.
func (l *lab) tcpState(port uint16) (state uint8) {
	l.Helper()
	for _, c := range l.tracked() {
		if p := c.ProtoInfo.TCP; p != nil && c.TupleOrig.Proto.DestinationPort == port {
			state = p.State
		}
	}
	return state
}
