package probe

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Open opens a line's socket: raw ICMP, bound to the link dev, filtered to the
// line's identifier, non-blocking, in the network namespace of the calling
// thread. It needs CAP_NET_RAW there.
func Open(l Line, dev string) (*os.File, error) {
	f, err := open(l, dev)
	if err != nil {
		return nil, fmt.Errorf("open a socket for %s's probes on %s: %w", l.WAN, dev, err)
	}
	return f, nil
}

func open(l Line, dev string) (f *os.File, err error) {
	family, proto, prog := unix.AF_INET, unix.IPPROTO_ICMP, filter4(l.ID)
	if l.IPv6 {
		family, proto, prog = unix.AF_INET6, unix.IPPROTO_ICMPV6, filter6(l.ID)
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	// The filter comes first: until then every ICMP packet of the machine is queued.
	if err := attach(fd, prog); err != nil {
		return nil, fmt.Errorf("attach the filter: %w", err)
	}
	if err := unix.BindToDevice(fd, dev); err != nil {
		return nil, fmt.Errorf("bind to it: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return nil, fmt.Errorf("ask for time stamps: %w", err)
	}
	return os.NewFile(uintptr(fd), "probe "+dev), nil
}

func attach(fd int, prog []bpf.Instruction) error {
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return err
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
}

// filter4 sees a packet from the IPv4 header on (net/ipv4/raw.c, raw_rcv). Our
// own requests, quoted in errors, have no options.
func filter4(id uint16) []bpf.Instruction {
	const inner, icmp = 8, 8 + header4Len
	return []bpf.Instruction{
		bpf.LoadMemShift{Off: 0}, // X = length of the header
		bpf.LoadIndirect{Off: 0, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: echoReply4, SkipTrue: 9},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unreachable4, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: exceeded4, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: parameter4, SkipTrue: 10},
		bpf.LoadIndirect{Off: inner + 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoICMP4, SkipTrue: 8},
		bpf.LoadIndirect{Off: icmp, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: echoRequest4, SkipTrue: 6},
		bpf.LoadIndirect{Off: icmp + 4, Size: 2},
		bpf.Jump{Skip: 1},
		bpf.LoadIndirect{Off: 4, Size: 2},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffff &^ variant},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(id &^ variant), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	}
}

// filter6 sees a packet from the ICMPv6 header on (net/ipv6/raw.c, rawv6_rcv).
func filter6(id uint16) []bpf.Instruction {
	const inner, icmp = 8, 8 + header6Len
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: echoReply6, SkipTrue: 8},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: parameter6, SkipTrue: 11},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 10},
		bpf.LoadAbsolute{Off: inner + 6, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoICMP6, SkipTrue: 8},
		bpf.LoadAbsolute{Off: icmp, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: echoRequest6, SkipTrue: 6},
		bpf.LoadAbsolute{Off: icmp + 4, Size: 2},
		bpf.Jump{Skip: 1},
		bpf.LoadAbsolute{Off: 4, Size: 2},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xffff &^ variant},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(id &^ variant), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	}
}
