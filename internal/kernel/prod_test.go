package kernel_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/netns/netnstest"
	"weir/internal/ruleset"
)

// A line is lost: all but TCP goes, and TCP that was never answered. After the
// grace what is left goes, and its clients are prodded: who may wait, in both
// families, twice each; and nobody else.
func TestConnectionsOfALineThatIsLost(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		told := make(chan kernel.FlowsEnded, 10)
		b.opt.FlowsEnded = func(e kernel.FlowsEnded) { told <- e }
		b.open()
		b.turn()
		ct := b.conntrack()
		const tcp = ruleset.MarkTCP
		for _, f := range []struct {
			client string
			proto  uint8
			status conntrack.Status
			state  uint8
			mark   uint32
		}{
			{"172.31.0.50", 17, conntrack.StatusSeenReply, 0, 1},
			{"172.31.0.51", 6, 0, 1, tcp | 1}, // SYN_SENT
			{"172.31.0.52", 6, conntrack.StatusSeenReply, 3, tcp | 1},
			{"fd00::53", 6, conntrack.StatusSeenReply, 4, tcp | 1},    // FIN_WAIT: has said all, and listens
			{"172.31.0.54", 6, conntrack.StatusSeenReply, 7, tcp | 1}, // TIME_WAIT
			{"172.31.0.55", 6, conntrack.StatusSeenReply, 3, ruleset.MarkIn | 1},
			{"172.31.0.56", 6, conntrack.StatusSeenReply, 3, tcp | 2},
			{"172.31.0.57", 6, conntrack.StatusSeenReply, 3, tcp | 0x100001}, // with a bit that is not ours
		} {
			b.must(ct.Create(entry(f.client, 4000, f.proto, f.status, f.state, f.mark)))
		}
		left := func() string {
			all, err := ct.Dump(nil)
			b.must(err)
			var out []string
			for _, f := range all {
				if s := f.TupleOrig.IP.SourceAddress.String(); f.TupleOrig.Proto.SourcePort == 4000 {
					out = append(out, s[len(s)-2:])
				}
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		heard := b.prods()

		main := &b.want.Namespaces[0]
		for i, r := range main.Rules {
			if r.Mark == 1 {
				main.Rules[i].IPProto = unix.IPPROTO_TCP
			}
		}
		b.turn()
		if got := left(); got != "52 53 54 55 56 57" {
			t.Errorf("in the grace, left: %s", got)
		}
		if a, c := <-told, <-told; a.Deleted != 1 || c.Deleted != 1 || a.Prod || c.Prod {
			t.Errorf("told %+v, %+v", a, c)
		}
		main.Rules = slices.DeleteFunc(main.Rules, func(r desired.Rule) bool { return r.Mark == 1 })
		b.turn()
		if got := left(); got != "55 56" {
			t.Errorf("after the grace, left: %s", got)
		}
		if e := <-told; !e.Prod || e.Deleted != 4 || e.Prodded != 3 || e.Beyond != 0 {
			t.Errorf("told %+v", e)
		}
		want := map[string]int{"172.31.0.52": 2, "fd00::53": 2, "172.31.0.57": 2}
		got := map[string]int{}
		for range 6 {
			select {
			case p := <-heard:
				got[p.client]++
				if p.flags != 0x10 || p.length != 0 || p.client != "fd00::53" && p.server != "192.0.2.80" {
					t.Errorf("prodded by %+v", p)
				}
			case <-time.After(2 * time.Second):
				t.Fatalf("heard %v, want %v", got, want)
			}
		}
		select {
		case p := <-heard:
			t.Errorf("and %+v", p)
		default:
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("heard %v, want %v", got, want)
		}
	})
}

// Ten thousand connections: the turn that ends them is short, and the prods take
// their time beside it.
func TestManyConnectionsDoNotHoldTheLoop(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		told := make(chan kernel.FlowsEnded, 10)
		b.opt.FlowsEnded = func(e kernel.FlowsEnded) { told <- e }
		b.open()
		b.turn()
		ct := b.conntrack()
		heard := b.prods()
		go func() {
			for range heard { // so that the listener goes on
			}
		}()
		const many = 10000
		for i := range many {
			b.must(ct.Create(entry("172.31.0.50", 2000+uint16(i), unix.IPPROTO_TCP, conntrack.StatusSeenReply, 3, ruleset.MarkTCP|1)))
		}
		// One that has left the house takes no segment, and must not keep others from theirs.
		const gone = 3000
		for i := range gone {
			b.must(ct.Create(entry("172.31.0.20", 2000+uint16(i), unix.IPPROTO_TCP, conntrack.StatusSeenReply, 3, ruleset.MarkTCP|1)))
		}
		main := &b.want.Namespaces[0]
		main.Rules = slices.DeleteFunc(main.Rules, func(r desired.Rule) bool { return r.Mark == 1 })
		p := b.plan()
		begin := time.Now()
		b.must(b.k.Apply(t.Context(), p))
		turn := time.Since(begin)
		if len(told) > 0 {
			t.Error("the turn waited until all were prodded")
		}
		e := <-told
		all := time.Since(begin)
		t.Logf("the turn took %v, all prods %v: %+v", turn, all, e)
		if e.Prodded < many || e.Prodded+e.Beyond != many+gone || e.Beyond == 0 || e.Deleted < many+gone {
			t.Errorf("told %+v", e)
		}
		// 50 each 5 ms.
		if least := many / 50 * 4 * time.Millisecond; all < least {
			t.Errorf("all were prodded in %v, which no small LAN bears", all)
		}
	})
}

func (b *bench) conntrack() *conntrack.Conn {
	b.Helper()
	var ct *conntrack.Conn
	b.in("", func() (err error) { ct, err = conntrack.Dial(nil); return err })
	b.Cleanup(func() { ct.Close() })
	return ct
}

// entry is a conntrack entry of a client's.
func entry(client string, port uint16, proto uint8, status conntrack.Status, state uint8, mark uint32) conntrack.Flow {
	a := netip.MustParseAddr(client)
	dst := netip.MustParseAddr("192.0.2.80")
	if a.Is6() {
		dst = netip.MustParseAddr("2001:db8::80")
	}
	if status != 0 {
		status |= conntrack.StatusConfirmed // which the kernel has set by then, and lets nobody take away
	}
	f := conntrack.NewFlow(proto, status, a, dst, port, 443, 300, mark)
	if proto == unix.IPPROTO_TCP {
		f.ProtoInfo.TCP = &conntrack.ProtoInfoTCP{State: state}
	}
	return f
}

// prod is a segment that a LAN's client was sent.
type prod struct {
	client, server string
	flags          byte
	length         int
}

// prods has everybody on eth0's network at home, and tells of the segments they
// are sent.
func (b *bench) prods() <-chan prod {
	b.Helper()
	b.run("outside", "ip addr add 172.31.0.250/24 dev port0; ip addr add fd00::250/64 dev port0 nodad")
	mac := strings.Fields(b.run("outside", "cat /sys/class/net/port0/address 2>/dev/null || ip -o link show port0 | sed 's/.*ether //'"))[0]
	for n := 50; n < 60; n++ {
		b.run("", fmt.Sprintf("ip neigh replace 172.31.0.%d lladdr %s dev eth0; ip neigh replace fd00::%d lladdr %s dev eth0", n, mac, n, mac))
	}
	out := make(chan prod, 100)
	b.in("outside", func() error {
		ifi, err := net.InterfaceByName("port0")
		if err != nil {
			return err
		}
		c, err := packet.Listen(ifi, packet.Raw, unix.ETH_P_ALL, nil)
		if err != nil {
			return err
		}
		b.Cleanup(func() { c.Close() })
		go func() {
			buf := make([]byte, 2048)
			for {
				n, _, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				if p, ok := parseProd(buf[:n]); ok {
					out <- p
				}
			}
		}()
		return nil
	})
	return out
}

func parseProd(f []byte) (p prod, ok bool) {
	if len(f) < 14+40 {
		return p, false
	}
	ip := f[14:]
	var t []byte
	switch binary.BigEndian.Uint16(f[12:]) {
	case unix.ETH_P_IP:
		if ip[9] != unix.IPPROTO_TCP {
			return p, false
		}
		p.server, p.client, t = netip.AddrFrom4([4]byte(ip[12:16])).String(), netip.AddrFrom4([4]byte(ip[16:20])).String(), ip[20:binary.BigEndian.Uint16(ip[2:])]
	case unix.ETH_P_IPV6:
		if ip[6] != unix.IPPROTO_TCP {
			return p, false
		}
		p.server, p.client, t = netip.AddrFrom16([16]byte(ip[8:24])).String(), netip.AddrFrom16([16]byte(ip[24:40])).String(), ip[40:40+binary.BigEndian.Uint16(ip[4:])]
	default:
		return p, false
	}
	if len(t) < 20 || binary.BigEndian.Uint16(t) != 443 {
		return p, false
	}
	p.flags, p.length = t[13], len(t)-int(t[12]>>4)*4
	return p, true
}
