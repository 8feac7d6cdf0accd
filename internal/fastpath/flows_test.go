package fastpath_test

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/ti-mo/conntrack"
	"github.com/vishvananda/netlink"

	"weir/internal/fastpath"
	"weir/internal/netns"
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
			// UDP is a conversation after two seconds, which nobody waits for here.
			c.Status |= conntrack.StatusAssured
			ways, why := fastpath.Ways(c, near, there)
			if p := c.ProtoInfo.TCP; why == "" && p != nil && !known[ways[0]] {
				l.must(ct.Update(fastpath.Liberal(c)))
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

const timeWait = 7 // TCP_CONNTRACK_TIME_WAIT

// tcpState is what conntrack has of the connection to a port; 0 is none.
func (l *lab) tcpState(port uint16) (state uint8) {
	l.Helper()
	l.must(netns.Do("", func() error {
		ct, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer ct.Close()
		all, err := ct.Dump(nil)
		for _, c := range all {
			if p := c.ProtoInfo.TCP; p != nil && c.TupleOrig.Proto.DestinationPort == port {
				state = p.State
			}
		}
		return err
	}))
	return state
}
