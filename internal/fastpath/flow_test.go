package fastpath_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"weir/internal/fastpath"
	"weir/internal/netns/netnstest"
)

// The hops of the rows; packets come in by lo, and so they leave.
const (
	byCable, byPort, byNone = 1, 2, 3
	hopMTU                  = 1400
)

func tuple(protocol uint8, src, dst string) fastpath.Tuple {
	return fastpath.Tuple{Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst), Protocol: protocol}
}

// both are the two ways of a flow that begins as in and goes on as out.
func both(protocol uint8, inSrc, inDst, outSrc, outDst string, hop, back uint16) []fastpath.Way {
	return []fastpath.Way{
		{From: 1, In: tuple(protocol, inSrc, inDst), Out: tuple(protocol, outSrc, outDst), Hop: hop},
		{From: 1, In: tuple(protocol, outDst, outSrc), Out: tuple(protocol, inDst, inSrc), Hop: back},
	}
}

const (
	routed6 = "2001:db8:f100:1::50" // delegated: not translated
	nas8080 = nas + ":8080"
)

// flowWays are the flows that are known in the rows.
var flowWays = slices.Concat(
	both(unix.IPPROTO_UDP, pc+":5000", peer+":443", own+":6000", peer+":443", byCable, byPort),
	both(unix.IPPROTO_TCP, pc+":5000", peer+":443", own+":5000", peer+":443", byCable, byPort),
	both(unix.IPPROTO_TCP, peer+":7000", own+":80", peer+":7000", nas8080, byPort, byCable), // a forward
	both(unix.IPPROTO_UDP, pc+":5001", peer+":443", own+":5001", peer+":443", byNone, byNone),
	both(unix.IPPROTO_UDP, "["+pc6+"]:5000", "["+peer6+"]:443", "["+own6+"]:6000", "["+peer6+"]:443", byCable, byPort),
	both(unix.IPPROTO_TCP, "["+pc6+"]:5000", "["+peer6+"]:443", "["+own6+"]:5000", "["+peer6+"]:443", byCable, byPort),
	both(unix.IPPROTO_UDP, "["+routed6+"]:5000", "["+peer6+"]:443", "["+routed6+"]:5000", "["+peer6+"]:443", byCable, byPort),
)

// An old flow is of an earlier generation, a strange one comes in by another link.
var (
	oldWay     = fastpath.Way{From: 1, In: tuple(unix.IPPROTO_UDP, pc+":5002", peer+":443"), Out: tuple(unix.IPPROTO_UDP, own+":5002", peer+":443"), Hop: byCable}
	strangeWay = fastpath.Way{From: 2, In: tuple(unix.IPPROTO_UDP, pc+":5003", peer+":443"), Out: tuple(unix.IPPROTO_UDP, own+":5003", peer+":443"), Hop: byCable}
)

type flowRow struct {
	name string
	packet
	why  fastpath.Reasons // the counter that is to go up
	none bool             // none is
}

var (
	fast    = fastpath.Reasons{Fast: 1}
	odd     = fastpath.Reasons{Odd: 1}
	unknown = fastpath.Reasons{Unknown: 1}
	long    = fastpath.Reasons{Long: 1}
	wrong   = fastpath.Reasons{Wrong: 1}
)

var flowRows = []flowRow{
	{name: "UDP out", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443}, why: fast},
	{name: "UDP back", packet: packet{src: peer, dst: own, sport: 443, dport: 6000}, why: fast},
	{name: "UDP, a service class", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, tos: 0x13}, why: fast},
	{name: "UDP without a checksum", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: noSum}, why: fast},
	{name: "UDP, an odd length", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 251}, why: fast},
	{name: "UDP, whole pieces", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 248}, why: fast},
	{name: "UDP, no payload", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: empty}, why: fast},
	{name: "two hops left", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, ttl: 2}, why: fast},
	{name: "one hop left", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, ttl: 1}, why: odd},
	{name: "no hop left", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: func(f []byte) []byte { f[22] = 0; return fixed4(f) }}, why: odd},
	{name: "padded", packet: packet{src: peer, dst: own, sport: 443, dport: 6000, size: 1, mangle: padded}, why: fast},
	{name: "as long as the link takes", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 1372, df: true}, why: fast},
	{name: "a byte longer", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 1373, df: true}, why: long},
	{name: "longer than it says it could be", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: length4(900)}, why: odd},
	{name: "shorter than its headers", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: length4(24)}, why: odd},
	{name: "IP's checksum is wrong", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: byteAt(24, 0x40)}, why: odd},
	{name: "UDP's checksum is wrong", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: byteAt(50, 0x40)}, why: wrong},
	{name: "the last byte is wrong", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 251, mangle: func(f []byte) []byte { f[len(f)-1] ^= 1; return f }}, why: wrong},
	{name: "another version of IP", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: byteAt(14, 0x20)}, why: odd},
	{name: "options", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, option: true}, why: odd},
	{name: "the first fragment", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, size: 64, more: true}, why: odd},
	{name: "the last fragment", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, offset: 9}, why: odd},
	{name: "ICMP", packet: packet{icmp: "echo", src: pc, dst: peer, sport: 5000}, why: odd},
	{name: "GRE", packet: packet{src: pc, dst: peer, proto: 47}, why: odd},
	{name: "for another station", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: toMAC("02:00:00:00:00:99")}, none: true},
	{name: "for all stations", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: toMAC("ff:ff:ff:ff:ff:ff")}, none: true},
	{name: "of a VLAN", packet: packet{src: pc, dst: peer, sport: 5000, dport: 443, mangle: tagged(9)}, none: true},
	{name: "another port", packet: packet{src: pc, dst: peer, sport: 5000, dport: 444}, why: unknown},
	{name: "another source", packet: packet{src: "172.31.0.51", dst: peer, sport: 5000, dport: 443}, why: unknown},
	{name: "another link", packet: packet{src: pc, dst: peer, sport: 5003, dport: 443}, why: unknown},
	{name: "to the LAN's own address from outside", packet: packet{src: peer, dst: pc, sport: 443, dport: 5000}, why: unknown},
	{name: "an old generation", packet: packet{src: pc, dst: peer, sport: 5002, dport: 443}, why: fastpath.Reasons{Stale: 1}},
	{name: "the hop is gone", packet: packet{src: pc, dst: peer, sport: 5001, dport: 443}, why: fastpath.Reasons{Nowhere: 1}},

	{name: "TCP out", packet: packet{tcp: "A", src: pc, dst: peer, sport: 5000, dport: 443, seq: 9, ack: 8}, why: fast},
	{name: "TCP back", packet: packet{tcp: "A", src: peer, dst: own, sport: 443, dport: 5000, size: 1300}, why: fast},
	{name: "TCP's checksum is wrong", packet: packet{tcp: "A", src: peer, dst: own, sport: 443, dport: 5000, mangle: byteAt(60, 1)}, why: wrong},
	{name: "a forward", packet: packet{tcp: "A", src: peer, dst: own, sport: 7000, dport: 80}, why: fast},
	{name: "a forward answers", packet: packet{tcp: "A", src: nas, dst: peer, sport: 8080, dport: 7000}, why: fast},
	{name: "SYN", packet: packet{tcp: "S", src: pc, dst: peer, sport: 5000, dport: 443}, why: odd},
	{name: "SYN and ACK", packet: packet{tcp: "SA", src: peer, dst: own, sport: 443, dport: 5000}, why: odd},
	{name: "FIN", packet: packet{tcp: "FA", src: pc, dst: peer, sport: 5000, dport: 443}, why: odd},
	{name: "what follows FIN", packet: packet{tcp: "A", src: pc, dst: peer, sport: 5000, dport: 443}, why: fastpath.Reasons{Stale: 1}},
	{name: "what goes the other way after FIN", packet: packet{tcp: "A", src: peer, dst: own, sport: 443, dport: 5000}, why: fast},
	{name: "RST", packet: packet{tcp: "R", src: pc, dst: peer, sport: 5000, dport: 443}, why: odd},
	{name: "RST and ACK", packet: packet{tcp: "RA", src: pc, dst: peer, sport: 5000, dport: 443}, why: odd},
	{name: "no flag", packet: packet{tcp: "-", src: pc, dst: peer, sport: 5000, dport: 443}, why: odd},
	{name: "a header that has no room", packet: packet{tcp: "A", src: pc, dst: peer, sport: 5000, dport: 443, mangle: byteAt(46, 0xf0^0x50)}, why: odd},

	{name: "IPv6 UDP out", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, tos: 0x13}, why: fast},
	{name: "IPv6 UDP back", packet: packet{src: peer6, dst: own6, sport: 443, dport: 6000}, why: fast},
	{name: "IPv6 TCP out", packet: packet{tcp: "A", src: pc6, dst: peer6, sport: 5000, dport: 443}, why: fast},
	{name: "IPv6 TCP back", packet: packet{tcp: "A", src: peer6, dst: own6, sport: 443, dport: 5000, size: 1300}, why: fast},
	{name: "IPv6 routed out", packet: packet{src: routed6, dst: peer6, sport: 5000, dport: 443}, why: fast},
	{name: "IPv6 routed back", packet: packet{src: peer6, dst: routed6, sport: 443, dport: 5000}, why: fast},
	{name: "IPv6 padded", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, size: 1, mangle: padded}, why: fast},
	{name: "IPv6 without a checksum", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, mangle: func(f []byte) []byte { f[60], f[61] = 0, 0; return f }}, why: fast},
	{name: "IPv6 UDP's checksum is wrong", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, mangle: byteAt(60, 1)}, why: wrong},
	{name: "IPv6 one hop left", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, ttl: 1}, why: odd},
	{name: "IPv6 options", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, option: true}, why: odd},
	{name: "IPv6 as long as the link takes", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, size: 1352}, why: fast},
	{name: "IPv6 a byte longer", packet: packet{src: pc6, dst: peer6, sport: 5000, dport: 443, size: 1353}, why: long},
	{name: "IPv6 nobody asked", packet: packet{src: peer6, dst: own6, sport: 444, dport: 6000}, why: unknown},
}

func noSum(f []byte) []byte { f[40], f[41] = 0, 0; return f }

// empty is a datagram without payload, and without a checksum.
func empty(f []byte) []byte {
	f[38], f[39] = 0, 8
	return length4(28)(noSum(f))[:42]
}

// flowsFor loads the program and has it know the rows' flows.
func flowsFor(t *testing.T, program func(*ebpf.CollectionSpec) error) *fastpath.Flows {
	t.Helper()
	f, err := fastpath.Spoilt(program)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		netnstest.Missing(t, "bpf", err)
	}
	if err != nil {
		t.Fatalf("%+v", err) // the verifier's, for one
	}
	t.Cleanup(func() { f.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.SetHop(byCable, fastpath.Hop{Link: 1, MTU: hopMTU, Near: "02:00:00:00:00:02", Far: "02:00:00:00:00:01"}))
	must(f.SetHop(byPort, fastpath.Hop{Link: 1, MTU: hopMTU}))
	must(f.SetHop(byNone, fastpath.Hop{Link: 1, MTU: hopMTU}))
	must(f.SetHop(byNone, fastpath.Hop{}))
	for _, w := range append(slices.Clone(flowWays), strangeWay) {
		must(f.Put(w, 7))
	}
	must(f.Put(oldWay, 6))
	must(f.Current(7, uptime()))
	return f
}

func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // never: the clock is there
	}
	return time.Duration(ts.Nano())
}

// judge runs a row, and says what is not as it should be.
func judge(f *fastpath.Flows, r flowRow) error {
	frame := r.frame(nobody)
	before, err := f.Why()
	if err != nil {
		return err
	}
	took, out, err := f.Run(bytes.Clone(frame))
	if err != nil {
		return err
	}
	after, err := f.Why()
	if err != nil {
		return err
	}
	want := before
	want.Fast += r.why.Fast
	want.Odd += r.why.Odd
	want.Unknown += r.why.Unknown
	want.Shut += r.why.Shut
	want.Asleep += r.why.Asleep
	want.Stale += r.why.Stale
	want.Nowhere += r.why.Nowhere
	want.Long += r.why.Long
	want.Wrong += r.why.Wrong
	if after != want {
		return fmt.Errorf("counted %+v after %+v, want one more of %+v", after, before, r.why)
	}
	if took != (r.why.Fast == 1) {
		return fmt.Errorf("taken: %v", took)
	}
	if took {
		frame = became(frame)
	}
	if !bytes.Equal(out, frame) {
		return fmt.Errorf("it became\n%x, want\n%x", out, frame)
	}
	return nil
}

// became is what main makes of the frame of a known flow, summed up anew.
func became(frame []byte) []byte {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	var src, dst net.IP
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		src, dst = ip.SrcIP, ip.DstIP
	case *layers.IPv6:
		src, dst = ip.SrcIP, ip.DstIP
	}
	at := func(ip net.IP, port uint16) netip.AddrPort {
		a, _ := netip.AddrFromSlice(ip)
		return netip.AddrPortFrom(a, port)
	}
	var in fastpath.Tuple
	switch t := p.TransportLayer().(type) {
	case *layers.UDP:
		in = fastpath.Tuple{Src: at(src, uint16(t.SrcPort)), Dst: at(dst, uint16(t.DstPort)), Protocol: unix.IPPROTO_UDP}
	case *layers.TCP:
		in = fastpath.Tuple{Src: at(src, uint16(t.SrcPort)), Dst: at(dst, uint16(t.DstPort)), Protocol: unix.IPPROTO_TCP}
	}
	w := flowWays[slices.IndexFunc(flowWays, func(w fastpath.Way) bool { return w.In == in })]
	if w.Hop == byCable {
		eth := p.LinkLayer().(*layers.Ethernet)
		eth.DstMAC, eth.SrcMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	}
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		ip.SrcIP, ip.DstIP, ip.TTL = w.Out.Src.Addr().AsSlice(), w.Out.Dst.Addr().AsSlice(), ip.TTL-1
	case *layers.IPv6:
		ip.SrcIP, ip.DstIP, ip.HopLimit = w.Out.Src.Addr().AsSlice(), w.Out.Dst.Addr().AsSlice(), ip.HopLimit-1
	}
	unsummed := false
	switch t := p.TransportLayer().(type) {
	case *layers.UDP:
		unsummed = t.Checksum == 0
		t.SrcPort, t.DstPort = layers.UDPPort(w.Out.Src.Port()), layers.UDPPort(w.Out.Dst.Port())
		_ = t.SetNetworkLayerForChecksum(p.NetworkLayer())
	case *layers.TCP:
		t.SrcPort, t.DstPort = layers.TCPPort(w.Out.Src.Port()), layers.TCPPort(w.Out.Dst.Port())
		_ = t.SetNetworkLayerForChecksum(p.NetworkLayer())
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializePacket(buf, gopacket.SerializeOptions{ComputeChecksums: true}, p); err != nil {
		panic(err) // a row of the table is wrong
	}
	// Without what fills up a short frame.
	out := buf.Bytes()
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		out = out[:14+ip.Length]
	case *layers.IPv6:
		out = out[:54+ip.Length]
	}
	if unsummed && out[12] == 0x08 {
		out[40], out[41] = 0, 0
	} else if unsummed {
		out[60], out[61] = 0, 0
	}
	return out
}

// Each verdict of the flows' program by itself, why, and what it makes of what it
// takes; and each kind of mistake in the program is seen by a row.
func TestFlowVerdicts(t *testing.T) {
	netnstest.Need(t)
	f := flowsFor(t, nil)
	for _, r := range flowRows {
		if err := judge(f, r); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	for _, s := range []struct {
		name    string
		program func(*ebpf.CollectionSpec) error
	}{
		{"no checksum of IP", fastpath.NoIPSum},
		{"no checksum of the transport", fastpath.NoSum},
		{"hops for nothing", fastpath.NoHop},
		{"any generation", fastpath.AnyGeneration},
		{"any length", fastpath.AnyLength},
		{"any checksum", fastpath.AnySum},
	} {
		t.Run(s.name, func(t *testing.T) {
			f := flowsFor(t, s.program)
			for _, r := range flowRows {
				if err := judge(f, r); err != nil {
					t.Logf("seen by %q: %.120v", r.name, err)
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}

// One write stops all flows; so does nobody's looking after them for 30 s, or a hop
// that goes.
func TestFlowsStop(t *testing.T) {
	netnstest.Need(t)
	f := flowsFor(t, nil)
	now := uptime()
	out := packet{src: pc, dst: peer, sport: 5000, dport: 443}
	for _, c := range []struct {
		name       string
		generation uint32
		ago        time.Duration
		gone       bool
		want       fastpath.Reasons
	}{
		{name: "as they were put", generation: 7, want: fast},
		{name: "another generation", generation: 8, want: fastpath.Reasons{Stale: 1}},
		{name: "no generation", generation: 0, want: fastpath.Reasons{Shut: 1}},
		{name: "looked after a while ago", generation: 7, ago: 25 * time.Second, want: fast},
		{name: "looked after long ago", generation: 7, ago: 40 * time.Second, want: fastpath.Reasons{Asleep: 1}},
		{name: "the hop went", generation: 7, gone: true, want: fastpath.Reasons{Nowhere: 1}},
	} {
		err := f.Current(c.generation, now-c.ago)
		if err == nil && c.gone {
			err = f.SetHop(byCable, fastpath.Hop{})
		}
		if err == nil {
			err = judge(f, flowRow{packet: out, why: c.want})
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Flows are told of when they live, and then ever more seldom; what is carried is
// counted, and what is dropped is a stranger again.
func TestFlowsAreToldOf(t *testing.T) {
	netnstest.Need(t)
	f := flowsFor(t, nil)
	send := func(sport uint16, times int) {
		t.Helper()
		for range times {
			if _, _, err := f.Run(packet{src: pc, dst: peer, sport: sport, dport: 443}.frame(nobody)); err != nil {
				t.Fatal(err)
			}
		}
	}
	told := func(want ...string) {
		t.Helper()
		if got, err := f.Strangers(); err != nil || !slices.Equal(got, want) {
			t.Errorf("told of %v, %v; want %v", got, err, want)
		}
	}
	send(5010, 15)
	send(5011, 15)
	told()
	send(5010, 1)
	told("1 5010 443")
	send(5010, 15)
	told()
	send(5010, 1+32)
	told("1 5010 443", "1 5010 443")
	send(5002, 16) // of an old generation
	told("1 5002 443")

	way := flowWays[0]
	send(5000, 20)
	told()
	got, known, err := f.Look(way)
	if err != nil || !known || got.Packets != 20 || got.Bytes != 20*48 || uptime()-got.Last > 5*time.Second {
		t.Errorf("carried %+v, %v, %v; want 20 packets of 48 bytes, just now (%s)", got, known, err, uptime())
	}
	if err := f.Drop([]fastpath.Way{way}); err != nil {
		t.Fatal(err)
	}
	if _, known, err := f.Look(way); known || err != nil {
		t.Errorf("after it was dropped: %v, %v", known, err)
	}
	// What it carried is told all the same, and what takes its place goes on from there.
	sum := func() (n, ways uint64) {
		if err := f.Sums(func(s fastpath.Sum) {
			if s.In == way.In && s.From == way.From {
				n, ways = n+s.Packets, ways+1
			}
		}); err != nil {
			t.Fatal(err)
		}
		return n, ways
	}
	for _, dropped := range []bool{false, true} {
		if n, ways := sum(); n != 20 || ways != 1 {
			t.Errorf("%d packets are told of %d ways, want 20 of one", n, ways)
		}
		if dropped {
			break
		}
		if err := f.Put(way, 8); err != nil {
			t.Fatal(err)
		}
		if n, ways := sum(); n != 20 || ways != 1 {
			t.Errorf("put again, %d packets are told of %d ways, want 20 of one", n, ways)
		}
		if err := f.Drop([]fastpath.Way{way}); err != nil {
			t.Fatal(err)
		}
	}
	send(5000, 16)
	told("1 5000 443")
}

// Flows for which there is no room among those told of are told of by their next packet,
// and not when they have lived twice as long.
func TestNoFlowIsForgotten(t *testing.T) {
	netnstest.Need(t)
	f := flowsFor(t, func(spec *ebpf.CollectionSpec) error {
		spec.Maps["living"].MaxEntries = 4096 // 73 of them
		return nil
	})
	const flows = 200
	send := func(times int) {
		t.Helper()
		for sport := range uint16(flows) {
			for range times {
				if _, _, err := f.Run(packet{src: pc, dst: peer, sport: 20000 + sport, dport: 443}.frame(nobody)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	told := map[string]bool{}
	send(15)
	for rounds := 0; len(told) < flows; rounds++ {
		send(1)
		all, err := f.Strangers()
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range all {
			if told[k] {
				t.Fatalf("%s is told of twice", k)
			}
			told[k] = true
		}
		if rounds == 5 {
			t.Fatalf("told of %d of %d flows after their packet number %d", len(told), flows, 15+rounds)
		}
	}
}
