package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// The flows of a load: so many source ports, and destination ports as needed.
const (
	firstSource = 10000
	sources     = 50000
	firstDest   = 7000
	dests       = 10
)

// A generator sends frames of flows in turn: UDP over IPv4, as short as Ethernet has
// them, with a checksum. It is an XDP program that is run in the kernel with frames that
// are sent (BPF_F_TEST_XDP_LIVE_FRAMES, Documentation/bpf/bpf_prog_run.rst), so that
// little of the processor's time is the sender's.
type generator struct {
	frame []byte
	next  *ebpf.Map // how many were made so far
	prog  *ebpf.Program
}

// newGenerator makes one for frames between two stations and two addresses. Each frame
// is written as a whole: what comes back to the program may have been used.
func newGenerator(from, to net.HardwareAddr, src, dst netip.Addr, flows int) (*generator, error) {
	g := &generator{frame: frame(from, to, src, dst)}
	var err error
	if g.next, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}); err != nil {
		return nil, err
	}
	code := asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, bounds[xdp][0], asm.Word),
		asm.LoadMem(asm.R7, asm.R1, bounds[xdp][1], asm.Word),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, g.next.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "none"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, frameLength),
		asm.JGT.Reg(asm.R1, asm.R7, "none"),
		asm.LoadMem(asm.R8, asm.R0, 0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
	}
	for at := 0; at < frameLength; at += 4 {
		code = append(code, asm.StoreImm(asm.R6, int16(at), int64(int32(binary.NativeEndian.Uint32(g.frame[at:]))), asm.Word))
	}
	code = append(code,
		// R8: the source port, R9: the destination's.
		asm.Mod.Imm(asm.R8, int32(flows)),
		asm.Mov.Reg(asm.R9, asm.R8),
		asm.Mod.Imm(asm.R8, sources),
		asm.Add.Imm(asm.R8, firstSource),
		asm.Div.Imm(asm.R9, sources),
		asm.Add.Imm(asm.R9, firstDest),
		// R1: the checksum, to which both are added.
		asm.Mov.Imm(asm.R1, int32(sum(pseudo(g.frame)))),
		asm.Add.Reg(asm.R1, asm.R8),
		asm.Add.Reg(asm.R1, asm.R9),
	)
	for range 2 {
		code = append(code,
			asm.Mov.Reg(asm.R2, asm.R1),
			asm.RSh.Imm(asm.R2, 16),
			asm.And.Imm(asm.R1, 0xffff),
			asm.Add.Reg(asm.R1, asm.R2),
		)
	}
	code = append(code,
		asm.Xor.Imm(asm.R1, 0xffff),
		asm.JNE.Imm(asm.R1, 0, "some"),
		asm.Mov.Imm(asm.R1, 0xffff), // none is another thing (RFC 768)
		asm.HostTo(asm.BE, asm.R1, asm.Half).WithSymbol("some"),
		asm.StoreMem(asm.R6, 40, asm.R1, asm.Half),
		asm.HostTo(asm.BE, asm.R8, asm.Half),
		asm.StoreMem(asm.R6, 34, asm.R8, asm.Half),
		asm.HostTo(asm.BE, asm.R9, asm.Half),
		asm.StoreMem(asm.R6, 36, asm.R9, asm.Half),
		asm.Mov.Imm(asm.R0, 3), // XDP_TX
		asm.Return(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("none"), // XDP_DROP
		asm.Return(),
	)
	g.prog, err = program(xdp, "generator", code)
	return g, err
}

// send sends so many frames by a link of the thread's namespace, and all that their road
// does with them in soft interrupts is done on the thread too.
func (g *generator) send(dev string, frames int) error {
	i, err := net.InterfaceByName(dev)
	if err != nil {
		return err
	}
	// struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
	ctx := [6]uint32{1: uint32(len(g.frame)), 3: uint32(i.Index)}
	const live = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
	if _, err = g.prog.Run(&ebpf.RunOptions{Data: g.frame, Context: ctx, Repeat: uint32(frames), Flags: live}); err != nil {
		return fmt.Errorf("send frames by %s: %w", dev, err)
	}
	return nil
}

// sent is how many frames were made so far.
func (g *generator) sent() (n uint64, err error) {
	return n, g.next.Lookup(uint32(0), &n)
}

func (g *generator) close() {
	g.prog.Close()
	g.next.Close()
}

// frame is a frame without ports and without the transport's checksum.
func frame(from, to net.HardwareAddr, src, dst netip.Addr) []byte {
	f := make([]byte, frameLength)
	copy(f, to)
	copy(f[6:], from)
	binary.BigEndian.PutUint16(f[12:], unix.ETH_P_IP)
	ip := f[14:34]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], frameLength-14)
	a, b := src.As4(), dst.As4()
	copy(ip[12:], a[:])
	copy(ip[16:], b[:])
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum(ip)))
	binary.BigEndian.PutUint16(f[38:], frameLength-34)
	return f
}

// pseudo is what of a frame the transport's checksum is of (RFC 768).
func pseudo(f []byte) []byte {
	return append(append([]byte{0, unix.IPPROTO_UDP}, f[38:40]...), f[26:]...)
}

// sum is the sum of words in ones' complement (RFC 1071).
func sum(b []byte) (s uint32) {
	for k := 0; k < len(b); k += 2 {
		s += uint32(binary.BigEndian.Uint16(b[k:]))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return s
}
