package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/lab"
)

// What is at a port, and in which form.
type form int

const (
	tc form = iota
	xdp
)

// Offsets of data and data_end in struct __sk_buff and struct xdp_md (linux/bpf.h).
var bounds = map[form][2]int16{tc: {76, 80}, xdp: {0, 4}}

// attach puts a program at a port's ingress for as long as the returned link is open.
func attach(h *lab.Host, dev string, f form, p *ebpf.Program) (l link.Link, err error) {
	err = h.Do(func() error {
		i, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		if f == xdp {
			l, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: i.Index, Flags: link.XDPDriverMode})
			return err
		}
		l, err = link.AttachTCX(link.TCXOptions{Program: p, Interface: i.Index, Attach: ebpf.AttachTCXIngress})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("attach a program to %s of %s: %w", dev, h, err)
	}
	return l, nil
}

func program(f form, name string, code asm.Instructions) (*ebpf.Program, error) {
	kind := ebpf.SchedCLS
	if f == xdp {
		kind = ebpf.XDP
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: kind, License: "Dual BSD/GPL", Instructions: code})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	return p, nil
}

// frameLength is that of the smallest Ethernet frame, its check sequence left out.
const frameLength = 60

// udp is code that goes on only with UDP over IPv4; all else passes. R6 has the packet.
func udp(f form) asm.Instructions {
	pass := int32(0) // TC_ACT_OK
	if f == xdp {
		pass = 2
	}
	return asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, bounds[f][0], asm.Word),
		asm.LoadMem(asm.R2, asm.R1, bounds[f][1], asm.Word),
		asm.Mov.Imm(asm.R0, pass),
		asm.Mov.Reg(asm.R3, asm.R6),
		asm.Add.Imm(asm.R3, frameLength-18), // 42: up to the end of UDP's header
		asm.JGT.Reg(asm.R3, asm.R2, "pass"),
		asm.LoadMem(asm.R3, asm.R6, 12, asm.Half),
		asm.JNE.Imm(asm.R3, int32(wire16(unix.ETH_P_IP)), "pass"),
		asm.LoadMem(asm.R3, asm.R6, 23, asm.Byte),
		asm.JNE.Imm(asm.R3, unix.IPPROTO_UDP, "pass"),
		asm.Ja.Label("udp"),
		asm.Return().WithSymbol("pass"),
	}
}

func wire16(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// A sink is at a port. It counts what comes in there of the loads' UDP, told apart by
// its addresses: those that it should have, and any others. Then it drops it, or sends
// it back.
type sink struct {
	count *ebpf.Map // 0: as it should be, 1: not
	drop  map[form]*ebpf.Program
	back  *ebpf.Program // XDP
}

// newSink makes one for packets between two addresses; port is where in a frame the
// port is that is a load's destination.
func newSink(src, dst netip.Addr, port int16) (s *sink, err error) {
	s = &sink{drop: map[form]*ebpf.Program{}}
	if s.count, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 2}); err != nil {
		return nil, err
	}
	for f, drop := range map[form]int32{tc: 2, xdp: 1} { // TC_ACT_SHOT, XDP_DROP
		code := append(counted(f, s.count, src, dst, port), asm.Mov.Imm(asm.R0, drop).WithSymbol("end"), asm.Return())
		if s.drop[f], err = program(f, "sink", code); err != nil {
			return nil, err
		}
	}
	// By redirecting: XDP_TX wakes up a veth's other end only if that has a program of its own.
	code := append(asm.Instructions{asm.LoadMem(asm.R7, asm.R1, 12, asm.Word)}, counted(xdp, s.count, src, dst, port)...) // ingress_ifindex
	code = append(code, asm.Mov.Imm(asm.R1, 0).WithSymbol("end"))
	for _, x := range []struct {
		a, b int16
		size asm.Size
	}{{0, 6, asm.Half}, {2, 8, asm.Word}, {26, 30, asm.Word}, {34, 36, asm.Half}} { // stations, addresses, ports: the sums stay
		code = append(code,
			asm.LoadMem(asm.R1, asm.R6, x.a, x.size), asm.LoadMem(asm.R2, asm.R6, x.b, x.size),
			asm.StoreMem(asm.R6, x.a, asm.R2, x.size), asm.StoreMem(asm.R6, x.b, asm.R1, x.size))
	}
	code = append(code, asm.Mov.Reg(asm.R1, asm.R7), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return())
	s.back, err = program(xdp, "reflector", code)
	return s, err
}

// counted is code that counts a load's UDP by its addresses and goes on at "end".
func counted(f form, m *ebpf.Map, src, dst netip.Addr, port int16) asm.Instructions {
	return append(udp(f),
		asm.LoadMem(asm.R1, asm.R6, port, asm.Half).WithSymbol("udp"),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.Sub.Imm(asm.R1, firstDest),
		asm.JGE.Imm(asm.R1, dests, "pass"),
		asm.StoreImm(asm.RFP, -4, 1, asm.Word),
		asm.LoadMem(asm.R1, asm.R6, 26, asm.Word),
		asm.JNE.Imm32(asm.R1, wire32(src), "count"),
		asm.LoadMem(asm.R1, asm.R6, 30, asm.Word),
		asm.JNE.Imm32(asm.R1, wire32(dst), "count"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()).WithSymbol("count"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
	)
}

func wire32(a netip.Addr) int32 {
	b := a.As4()
	return int32(binary.NativeEndian.Uint32(b[:]))
}

// packets are those counted: as they should be, and not.
func (s *sink) packets() (n [2]uint64, err error) {
	for i := range n {
		var each []uint64
		if err := s.count.Lookup(uint32(i), &each); err != nil {
			return n, fmt.Errorf("read what the sink counted: %w", err)
		}
		for _, c := range each {
			n[i] += c
		}
	}
	return n, nil
}

// bareRedirect sends whatever comes in out by another port, as cheaply as the kernel can.
func bareRedirect(f form, helper asm.BuiltinFunc, to int) (*ebpf.Program, error) {
	return program(f, "bare", asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(to)),
		asm.Mov.Imm(asm.R2, 0),
		helper.Call(),
		asm.Return(),
	})
}

// bareDevmap is the same by a devmap, whose port is one of the namespace of out.
func bareDevmap(out *lab.Host, dev string) (*ebpf.Program, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, err
	}
	err = out.Do(func() error {
		i, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		return m.Put(uint32(0), uint32(i.Index))
	})
	if err != nil {
		return nil, fmt.Errorf("put %s of %s into a devmap: %w", dev, out, err)
	}
	return program(xdp, "bare", asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRedirectMap.Call(),
		asm.Return(),
	})
}
