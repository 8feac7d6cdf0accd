package main

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weir/internal/lab"
	"weir/internal/lab/labtest"
	"weir/internal/netns/netnstest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

var (
	macA, macB = net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	srcA, dstB = netip.MustParseAddr("172.31.0.50"), netip.MustParseAddr("192.0.2.80")
)

// needs skips a test for want of bpf(), and fails it for anything else that is wrong.
func needs(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, net.ErrClosed) {
		netnstest.Missing(t, "bpf", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each frame is a whole one, of the flow whose turn it is, whatever was there before.
func TestGenerator(t *testing.T) {
	labtest.In(t, func(t *testing.T, _ *lab.Lab) {
		const flows = sources + 2 // the last two have another destination
		g, err := newGenerator(macA, macB, srcA, dstB, flows)
		needs(t, err)
		defer g.close()
		for _, n := range []uint64{0, 1, 4242, sources - 1, sources, sources + 1, flows, 3*flows + 7} {
			if err := g.next.Put(uint32(0), n); err != nil {
				t.Fatal(err)
			}
			used := bytes.Repeat([]byte{0xa5}, frameLength)
			out := make([]byte, 256)
			opt := ebpf.RunOptions{Data: used, DataOut: out}
			verdict, err := g.prog.Run(&opt)
			if err != nil || verdict != 3 {
				t.Fatalf("frame %d: verdict %d, %v", n, verdict, err)
			}
			p := gopacket.NewPacket(opt.DataOut, layers.LayerTypeEthernet, gopacket.Default)
			eth, _ := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
			ip, _ := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
			udp, _ := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
			if p.ErrorLayer() != nil || udp == nil {
				t.Fatalf("frame %d is none:\n%s", n, p.Dump())
			}
			if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
				t.Fatal(err)
			}
			if err, bad := p.VerifyChecksums(); err != nil || len(bad) > 0 {
				t.Errorf("frame %d: checksums: %v %v\n%s", n, bad, err, p.Dump())
			}
			src, dst := int(firstSource+n%flows%sources), int(firstDest+n%flows/sources)
			if int(udp.SrcPort) != src || int(udp.DstPort) != dst || udp.Checksum == 0 || len(opt.DataOut) != frameLength || !bytes.Equal(eth.DstMAC, macB) ||
				!bytes.Equal(eth.SrcMAC, macA) || ip.SrcIP.String() != srcA.String() || ip.DstIP.String() != dstB.String() {
				t.Errorf("frame %d, wanted ports %d, %d:\n%s", n, src, dst, p.Dump())
			}
		}
	})
}

// What is sent by a cable is counted at its other end in both forms, by its addresses,
// and comes back from there.
func TestSink(t *testing.T) {
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		w, err := newRoad(t.Context(), l, "wire", "")
		needs(t, err)
		g, err := w.generator(7)
		needs(t, err)
		defer g.close()
		for _, s := range []string{"tc", "xdp", "back"} {
			for _, right := range []bool{true, false} {
				if !right {
					w.src = netip.MustParseAddr("172.31.0.51")
				}
				if err := w.newSink(); err != nil {
					t.Fatal(err)
				}
				if err := w.use(s); err != nil {
					t.Fatal(err)
				}
				f, err := w.packets(g, 1000, 0)
				if err != nil {
					t.Fatal(err)
				}
				want := figure{Count: 1000, Sent: 1000}
				if !right {
					want.Count, want.Wrong = 0, 1000
				}
				if s == "back" {
					want.Back = 1000
				}
				if f.Count != want.Count || f.Wrong != want.Wrong || f.Sent != want.Sent || f.Back != want.Back || f.Per <= 0 {
					t.Errorf("%s, right %v: %+v", s, right, f)
				}
				w.src = srcA
			}
		}
	})
}
