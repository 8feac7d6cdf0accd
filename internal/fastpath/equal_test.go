package fastpath_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// A row sends a packet, out of the house or into it. What comes of it depends on
// the rows before: they share the gateway's state.
type row struct {
	name string
	in   bool // from the line
	packet
	short bool // the shortcut is to carry it
}

const (
	pc, nas, peer    = "172.31.0.50", "172.31.0.23", "203.0.113.9"
	own, link        = "198.51.100.10", "198.51.100.77"
	pc6, own6, peer6 = "fd5e:7a11:c0de:1::50", "2001:db8:1::10", "2001:db8:f::9"
)

// nobody is an end for packets that are quoted.
var nobody = &end{mac: make([]byte, 6), gw: make([]byte, 6)}

// rows are the packets. The first of a flow makes its entry.
var rows = []row{
	{name: "UDP", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443}, short: true},
	{name: "UDP comes back", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000}, short: true},
	{name: "UDP, a service class", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, tos: 0x10}, short: true},
	{name: "UDP, congestion told", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, tos: 0x03}, short: true},
	{name: "UDP without a checksum", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: func(f []byte) []byte { f[40], f[41] = 0, 0; return f }}, short: true},
	{name: "to a neighbour on the line", packet: packet{src: pc, dst: link, sport: 5000, dport: 443}, short: true},
	{name: "a neighbour answers", in: true, packet: packet{src: link, dst: own, sport: 443, dport: 5000}, short: true},
	{name: "to the line's broadcast", packet: packet{src: pc, dst: "198.51.100.255", sport: 5000, dport: 443}},
	{name: "four hops left", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, ttl: 4}, short: true},
	{name: "three hops left", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, ttl: 3}, short: true},
	{name: "two hops left", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, ttl: 2}},
	{name: "one hop left", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, ttl: 1}},
	{name: "three hops left inward", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, ttl: 3}, short: true},
	{name: "two hops left inward", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, ttl: 2}, short: true},
	{name: "one hop left inward", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, ttl: 1}},
	{name: "no hop left inward", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: func(f []byte) []byte { f[22] = 0; return fixed4(f) }}},
	{name: "padded", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, size: 1, mangle: padded}, short: true},
	{name: "padded outward", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 1, mangle: padded}, short: true},
	{name: "longer than it says it could be", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: length4(900)}},
	{name: "shorter than its headers", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: length4(24)}},
	{name: "cut short", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: short}},
	{name: "IP's checksum is wrong", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: byteAt(24, 0x40)}, short: true},
	{name: "UDP's checksum is wrong", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: byteAt(50, 0x40)}, short: true},
	{name: "another version of IP", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: byteAt(14, 0x20)}},
	{name: "options", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, option: true}},
	{name: "options inward", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, option: true}},
	{name: "the first fragment", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, size: 64, more: true, mangle: first}},
	{name: "the last fragment", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, offset: 9}},
	{name: "the first fragment outward", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 64, more: true, mangle: first}},
	{name: "the last fragment outward", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, offset: 9}},
	{name: "as long as the line takes", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 1372, df: true}, short: true},
	{name: "longer than the line takes", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 1373, df: true}},
	{name: "longer, and may be cut", packet: packet{src: pc, dst: link, sport: 5000, dport: 443, size: 1440}},
	{name: "longer than the cable takes", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, size: 1450, df: true}},
	{name: "nobody asked", in: true, packet: packet{src: peer, dst: own, sport: 444, dport: 5000}, short: true},
	{name: "to the line's broadcast inward", in: true, packet: packet{src: peer, dst: "198.51.100.255", sport: 443, dport: 5000}},
	{name: "to another address of the line", in: true, packet: packet{src: peer, dst: "198.51.100.11", sport: 443, dport: 5000}},
	{name: "to the LAN", in: true, packet: packet{src: peer, dst: pc, sport: 443, dport: 5000}},
	{name: "to the cable", in: true, packet: packet{src: peer, dst: "172.31.255.1", sport: 443, dport: 5000}},
	{name: "from the line's own address", in: true, packet: packet{src: own, dst: own, sport: 443, dport: 5000}},
	{name: "from the line's broadcast", in: true, packet: packet{src: "198.51.100.255", dst: own, sport: 443, dport: 5000}},
	{name: "from the LAN's network", in: true, packet: packet{src: pc, dst: own, sport: 443, dport: 5000}, short: true},
	{name: "from loopback", in: true, packet: packet{src: "127.0.0.1", dst: own, sport: 443, dport: 5000}},
	{name: "from nowhere", in: true, packet: packet{src: "0.0.0.0", dst: own, sport: 443, dport: 5000}},
	{name: "from a group", in: true, packet: packet{src: "224.0.0.9", dst: own, sport: 443, dport: 5000}},
	{name: "from all", in: true, packet: packet{src: "255.255.255.255", dst: own, sport: 443, dport: 5000}},
	{name: "from a class that is not used", in: true, packet: packet{src: "240.0.0.9", dst: own, sport: 443, dport: 5000}},
	{name: "from an address that is not the LAN's", packet: packet{src: "10.9.9.9", dst: peer, sport: 5000, dport: 443}},
	{name: "for another station", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: toMAC("02:00:00:00:00:99")}},
	{name: "for all stations", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: toMAC("ff:ff:ff:ff:ff:ff")}},
	{name: "of a VLAN", in: true, packet: packet{src: peer, dst: own, sport: 443, dport: 5000, mangle: tagged(9)}},
	{name: "DNS", packet: packet{src: pc, dst: peer, sport: 5001, dport: 53}, short: true},
	{name: "DNS answers", in: true, packet: packet{src: peer, dst: own, sport: 53, dport: 5001}},
	{name: "DHCP", in: true, packet: packet{src: "198.51.100.1", dst: own, sport: 67, dport: 68}},
	{name: "SYN", packet: packet{tcp: "S", src: pc, dst: peer, sport: 6000, dport: 443, seq: 100}},
	{name: "its answer", in: true, packet: packet{tcp: "SA", src: peer, dst: own, sport: 443, dport: 6000, seq: 500, ack: 101}},
	{name: "ACK", packet: packet{tcp: "A", src: pc, dst: peer, sport: 6000, dport: 443, seq: 101, ack: 501}, short: true},
	{name: "data", in: true, packet: packet{tcp: "A", src: peer, dst: own, sport: 443, dport: 6000, seq: 501, ack: 121, size: 1300}, short: true},
	{name: "data too long", packet: packet{tcp: "A", src: pc, dst: peer, sport: 6000, dport: 443, seq: 121, ack: 1801, size: 1361, df: true}},
	{name: "TCP's checksum is wrong", in: true, packet: packet{tcp: "A", src: peer, dst: own, sport: 443, dport: 6000, seq: 1801, ack: 121, mangle: byteAt(60, 1)}, short: true},
	{name: "a header that has no room", in: true, packet: packet{tcp: "A", src: peer, dst: own, sport: 443, dport: 6000, seq: 1801, ack: 121, mangle: byteAt(46, 0x90)}},
	{name: "FIN", packet: packet{tcp: "FA", src: pc, dst: peer, sport: 6000, dport: 443, seq: 121, ack: 1801}, short: true},
	{name: "RST", in: true, packet: packet{tcp: "R", src: peer, dst: own, sport: 443, dport: 6000, seq: 1801}, short: true},
	{name: "of no connection", in: true, packet: packet{tcp: "A", src: peer, dst: own, sport: 443, dport: 6001, seq: 1, ack: 1}, short: true},
	{name: "of no connection outward", packet: packet{tcp: "A", src: pc, dst: peer, sport: 6002, dport: 443, seq: 1, ack: 1}},
	{name: "a forward", in: true, packet: packet{tcp: "S", src: peer, dst: own, sport: 7000, dport: 80, seq: 100}},
	{name: "a forward answers", packet: packet{tcp: "SA", src: nas, dst: peer, sport: 80, dport: 7000, seq: 500, ack: 101}},
	{name: "a forward's ACK", in: true, packet: packet{tcp: "A", src: peer, dst: own, sport: 7000, dport: 80, seq: 101, ack: 501}, short: true},
	{name: "a forward's data", packet: packet{tcp: "A", src: nas, dst: peer, sport: 80, dport: 7000, seq: 501, ack: 121, size: 1300}, short: true},
	{name: "ping", packet: packet{icmp: "echo", src: pc, dst: peer, sport: 77}},
	{name: "ping is answered", in: true, packet: packet{icmp: "reply", src: peer, dst: own, sport: 77}},
	{name: "ping from outside", in: true, packet: packet{icmp: "echo", src: peer, dst: own, sport: 78}},
	{name: "too big", in: true, packet: packet{icmp: "toobig", src: "198.51.100.1", dst: own, quotes: packet{src: own, dst: peer, sport: 5000, dport: 443}.frame(nobody)[14:]}},
	{name: "GRE", packet: packet{src: pc, dst: peer, proto: 47}},
	{name: "GRE comes back", in: true, packet: packet{src: peer, dst: own, proto: 47}},

	{name: "IPv6 UDP", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, tos: 0x10}, short: true},
	{name: "IPv6 UDP comes back", in: true, packet: packet{src: peer6, dst: own6, sport: 443, dport: 5000}, short: true},
	{name: "IPv6 three hops left", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, ttl: 3}, short: true},
	{name: "IPv6 two hops left", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, ttl: 2}},
	{name: "IPv6 two hops left inward", in: true, packet: packet{src: peer6, dst: own6, sport: 443, dport: 5000, ttl: 2}, short: true},
	{name: "IPv6 one hop left inward", in: true, packet: packet{src: peer6, dst: own6, sport: 443, dport: 5000, ttl: 1}},
	{name: "IPv6 options", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, option: true}},
	{name: "IPv6 options inward", in: true, packet: packet{src: peer6, dst: own6, sport: 443, dport: 5000, option: true}},
	{name: "IPv6 as long as the line takes", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, size: 1352}, short: true},
	{name: "IPv6 too long", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, size: 1353}},
	{name: "IPv6 UDP's checksum is wrong", in: true, packet: packet{src: peer6, dst: own6, sport: 443, dport: 5000, mangle: byteAt(60, 1)}, short: true},
	{name: "IPv6 nobody asked", in: true, packet: packet{src: peer6, dst: own6, sport: 444, dport: 5000}, short: true},
	{name: "IPv6 from the line's own address", in: true, packet: packet{src: own6, dst: own6, sport: 443, dport: 5000}},
	{name: "IPv6 from the link", in: true, packet: packet{src: "fe80::99", dst: own6, sport: 443, dport: 5000}},
	{name: "IPv6 from loopback", in: true, packet: packet{src: "::1", dst: own6, sport: 443, dport: 5000}},
	{name: "IPv6 to another address of the line", in: true, packet: packet{src: peer6, dst: "2001:db8:1::11", sport: 443, dport: 5000}},
	{name: "IPv6 SYN", packet: packet{tcp: "S", src: pc6, dst: peer6, sport: 6000, dport: 443, seq: 100}},
	{name: "IPv6 its answer", in: true, packet: packet{tcp: "SA", src: peer6, dst: own6, sport: 443, dport: 6000, seq: 500, ack: 101}},
	{name: "IPv6 ACK", packet: packet{tcp: "A", src: pc6, dst: peer6, sport: 6000, dport: 443, seq: 101, ack: 501}, short: true},
	{name: "IPv6 ping", packet: packet{icmp: "echo", src: pc6, dst: peer6, sport: 77}},
	{name: "IPv6 ping is answered", in: true, packet: packet{icmp: "reply", src: peer6, dst: own6, sport: 77}},
	{name: "IPv6 ping from outside", in: true, packet: packet{icmp: "echo", src: peer6, dst: own6, sport: 78}},
	{name: "IPv6 too big", in: true, packet: packet{icmp: "toobig", src: "2001:db8:1::1", dst: own6, quotes: packet{src: own6, dst: peer6, sport: 5000, dport: 443}.frame(nobody)[14:]}},
}

// run sends the rows and returns what of each came to the ends, and how many packets
// the shortcut had.
func (l *lab) run(rows []row) (out [][]string, short []uint64) {
	l.Helper()
	defer l.ordered()()
	for n, r := range rows {
		from := l.inside
		if r.in {
			from = l.outside
		}
		had := l.counts().Short
		l.must(from.send(r.frame(from)))
		out = append(out, l.until(n))
		short = append(short, l.counts().Short-had)
		if l.after != nil {
			l.after(n)
		}
	}
	return out, short
}

// ordered has the calling goroutine run on one processor, so that no frame overtakes
// another, until what it returns is called.
func (l *lab) ordered() (end func()) {
	l.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	l.must(unix.SchedGetaffinity(0, &before))
	one.Set(0)
	l.must(unix.SchedSetaffinity(0, &one))
	return func() {
		l.must(unix.SchedSetaffinity(0, &before))
		runtime.UnlockOSThread()
	}
}

// until sends a marked packet each way, which the shortcut leaves alone, and
// returns what the ends heard before they came.
func (l *lab) until(n int) (heard []string) {
	l.Helper()
	mark := fmt.Sprintf("fence %d.", n)
	fence := func(p packet) packet {
		p.option, p.size = true, 40
		p.mangle = func(f []byte) []byte {
			copy(f[len(f)-len(mark):], mark)
			f[48], f[49] = 0, 0 // no checksum
			return f
		}
		return p
	}
	l.must(l.inside.send(fence(packet{src: pc, dst: peer, sport: 9, dport: 9}).frame(l.inside)))
	heard = l.before(l.outside, mark)
	l.must(l.outside.send(fence(packet{src: peer, dst: own, sport: 9, dport: 9}).frame(l.outside)))
	return append(heard, l.before(l.inside, mark)...)
}

func (l *lab) before(e *end, mark string) (out []string) {
	l.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		f := e.hear(time.Until(end))
		if strings.Contains(string(f), mark) {
			return out
		}
		if f != nil && !linkTalk(f) {
			out = append(out, e.name+" "+said(f))
		}
	}
	l.Fatalf("the packet that follows did not reach %s", e.name)
	return nil
}

// linkTalk is what a gateway says of itself at any time: discovery of neighbours,
// reports of groups.
func linkTalk(f []byte) bool {
	p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
	for _, t := range []gopacket.LayerType{layers.LayerTypeARP, layers.LayerTypeICMPv6NeighborSolicitation, layers.LayerTypeICMPv6NeighborAdvertisement,
		layers.LayerTypeICMPv6RouterSolicitation, layers.LayerTypeMLDv2MulticastListenerReport} {
		if p.Layer(t) != nil {
			return true
		}
	}
	return false
}

// said is a frame as a person compares it, and its bytes. The IP ID of what the
// gateway makes itself is a matter of chance.
func said(f []byte) string {
	p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
	if ip, ok := p.NetworkLayer().(*layers.IPv4); ok && ip.Protocol == layers.IPProtocolICMPv4 {
		f = slices.Clone(f)
		f[18], f[19] = 0, 0
		f = fixed4(f)
	}
	var names []string
	for _, l := range p.Layers() {
		names = append(names, l.LayerType().String())
	}
	return strings.Join(names, " ") + " " + hex.EncodeToString(f)
}

// fast turns the shortcut on or off, and forgets all flows.
func (l *lab) fast(on bool) {
	l.Helper()
	l.st.Machine.FastPath = on
	l.turn()
	l.must(netns.Do("", func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) }))
}

// unlimited has the namespaces answer each packet that wants an ICMP error.
func (l *lab) unlimited() {
	l.Helper()
	for _, ns := range []string{"", "wan-fiber"} {
		l.must(netns.Do(ns, func() error {
			for key, value := range map[string]string{"ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0"} {
				if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// differ compares what came of the rows, and says which differ, and which the
// shortcut should have had, or should not.
func differ(rows []row, slow, fast [][]string, short []uint64) (out []string) {
	for n, r := range rows {
		if d := cmp.Diff(slow[n], fast[n]); d != "" {
			out = append(out, fmt.Sprintf("%s: (-without +with)\n%s", r.name, d))
		}
		if got := short[n] > 0; got != r.short {
			out = append(out, fmt.Sprintf("%s: the shortcut had %d packets, want it to be taken: %v", r.name, short[n], r.short))
		}
	}
	return out
}

// With the shortcut and without it the same packets come out, byte for byte; and it
// carries what it is there for.
func TestSameWithAndWithout(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, false)
		l.unlimited()
		slow, _ := l.run(rows)
		l.fast(true)
		fast, short := l.run(rows)
		for _, d := range differ(rows, slow, fast, short) {
			t.Error(d)
		}
		carried, passed := 0, 0
		for n, r := range rows {
			if len(slow[n]) > 0 {
				passed++
			}
			if r.short {
				carried++
			}
		}
		t.Logf("%d packets, %d brought something out, %d took the shortcut", len(rows), passed, carried)
		if passed < len(rows)/2 {
			t.Errorf("only %d of %d packets brought anything out: the table says little", passed, len(rows))
		}
		// Each kind of mistake in what the programs are or know is seen.
		for _, s := range saboteurs {
			t.Run(s.name, func(t *testing.T) {
				l.TB = t
				l.fast(true)
				l.must(netns.Do("wan-fiber", func() error { return fastpath.Sabotage(l.links(), s.program, s.parts) }))
				fast, short := l.run(rows)
				if d := differ(rows, slow, fast, short); len(d) == 0 {
					t.Error("nobody noticed")
				} else {
					t.Logf("%d packets differ, the first of them %.300s", len(d), d[0])
				}
				l.must(netns.Do("wan-fiber", func() error { return fastpath.Remove(l.links()) }))
			})
		}
		l.TB = t
		l.sameWithFlows(slow)
	})
}

// saboteurs change the programs, before they are attached, or their addresses.
var saboteurs = []struct {
	name    string
	program func(*ebpf.CollectionSpec) error
	parts   []desired.Part
}{
	{name: "a wrong checksum", program: fastpath.WrongChecksum},
	{name: "hops for nothing", program: fastpath.NoHop},
	{name: "no limit of length", program: fastpath.NoLimit},
	{name: "all of the line's network is ours", parts: []desired.Part{{Prefix: pre("198.51.100.0/24"), Role: desired.RoleHome | desired.RoleLeaves}}},
	{name: "our own source is let in", parts: []desired.Part{{Prefix: pre("198.51.100.10/32"), Role: desired.RoleHome | desired.RoleLeaves}, {Prefix: pre("2001:db8:1::10/128"), Role: desired.RoleHome | desired.RoleLeaves}}},
}
