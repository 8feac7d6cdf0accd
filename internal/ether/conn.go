package ether

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/mdlayher/socket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"weir/internal/bare"
)

// MaxFrame is the longest frame that a Conn reads: an Ethernet frame of 1500
// bytes, the header, and room. DHCP messages are smaller.
const MaxFrame = 2048

// recvBuffer is what waits to be read, with the kernel's own bytes.
const recvBuffer = 1 << 20

// Open opens a packet socket on port for frames of an EtherType that pass
// filter, which has to ask for the EtherType itself. Its network namespace is the calling thread's: call it in netns.Do.
// The file goes to whoever makes a Conn of it, in this process or another.
func Open(port string, etherType uint16, filter []bpf.Instruction) (*os.File, error) {
	fail := func(err error) (*os.File, error) {
		return nil, fmt.Errorf("open a packet socket on %s: %w", port, err)
	}
	ifi, err := net.InterfaceByName(port)
	if err != nil {
		return fail(err)
	}
	prog, err := assemble(filter)
	if err != nil {
		return fail(err)
	}
	// Protocol 0 receives nothing until bind: no frame gets in before the filter.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, prog)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)
	}
	if err == nil {
		// What the kernel sends is not for us.
		err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	}
	if err == nil {
		// The usual 208 kB are some 170 frames: 50 ms of a flood. Not vital, and
		// refused in a user namespace.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, recvBuffer)
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(heard(etherType)), Ifindex: ifi.Index})
	}
	if err != nil {
		unix.Close(fd)
		return fail(err)
	}
	return os.NewFile(uintptr(fd), "packet-"+port), nil
}

// heard is what a socket that wants an EtherType is bound to. One of IPv4 alone (or
// of IPv6) stands behind the kernel's own IPv4, which then gets every packet of the port
// shared: it clones each, and copies the head of each that it forwards
// (deliver_ptype_list_skb in net/core/dev.c, skb_share_check in ip_rcv_core).
// One of all types stands before, and has let go of the packet by then.
func heard(etherType uint16) uint16 {
	if etherType == TypeIPv4 || etherType == TypeIPv6 {
		return unix.ETH_P_ALL
	}
	return etherType
}

// OpenUDP opens a UDP socket that holds a port (and, with device, only for what
// comes in there), so that the kernel doesn't answer with "port unreachable"
// what a packet socket receives. It can send, and receives nothing. Its network
// namespace is the calling thread's.
func OpenUDP(port uint16, device string) (*os.File, error) {
	fail := func(err error) (*os.File, error) {
		return nil, fmt.Errorf("open UDP port %d: %w", port, err)
	}
	prog, err := assemble(Nothing())
	if err != nil {
		return fail(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, prog)
	if err == nil {
		// The old child's socket may be there for a moment yet.
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil && device != "" {
		err = unix.BindToDevice(fd, device)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(port)})
	}
	if err != nil {
		unix.Close(fd)
		return fail(err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("udp-%d", port)), nil
}

func htons(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

func assemble(filter []bpf.Instruction) (*unix.SockFprog, error) {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return nil, fmt.Errorf("assemble the filter: %w", err)
	}
	ins := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		ins[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return &unix.SockFprog{Len: uint16(len(ins)), Filter: &ins[0]}, nil
}

// Nothing is the filter that takes no frame.
func Nothing() []bpf.Instruction { return []bpf.Instruction{bpf.RetConstant{Val: 0}} }

// ToUDP is the filter for unfragmented UDP datagrams to port.
func ToUDP(port uint16) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: TypeIPv4, SkipTrue: 8},
		bpf.LoadAbsolute{Off: ethLen + 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoUDP, SkipTrue: 6},
		bpf.LoadAbsolute{Off: ethLen + 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x3fff, SkipTrue: 4},
		bpf.LoadMemShift{Off: ethLen}, // X: length of the IPv4 header
		bpf.LoadIndirect{Off: ethLen + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port), SkipTrue: 1},
		bpf.RetConstant{Val: MaxFrame},
		bpf.RetConstant{Val: 0},
	}
}

// ToUDP6 is ToUDP over IPv6, without extension headers.
func ToUDP6(port uint16) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: TypeIPv6, SkipTrue: 5},
		bpf.LoadAbsolute{Off: ethLen + 6, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoUDP, SkipTrue: 3},
		bpf.LoadAbsolute{Off: ethLen + ip6Len + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port), SkipTrue: 1},
		bpf.RetConstant{Val: MaxFrame},
		bpf.RetConstant{Val: 0},
	}
}

// ARPAbout is the filter for ARP packets that concern the use of addr: what
// comes from it, and others' probes for it.
func ARPAbout(addr netip.Addr) []bpf.Instruction {
	a := addr.As4()
	v := binary.BigEndian.Uint32(a[:])
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: TypeARP, SkipTrue: 7},
		bpf.LoadAbsolute{Off: ethLen + 14, Size: 4}, // sender's address
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 4}, // 0: a probe
		bpf.LoadAbsolute{Off: ethLen + 24, Size: 4},             // target's address
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 2},
		bpf.RetConstant{Val: MaxFrame},
		bpf.RetConstant{Val: MaxFrame},
		bpf.RetConstant{Val: 0},
	}
}

// ARPReplies is the filter for ARP replies and for announcements: who has an
// address, whichever it is.
func ARPReplies() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: TypeARP, SkipTrue: 3},
		bpf.LoadAbsolute{Off: ethLen + 14, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		bpf.RetConstant{Val: MaxFrame},
		bpf.RetConstant{Val: 0},
	}
}

// Conn reads and writes frames on a packet socket.
type Conn struct {
	c    *socket.Conn
	raw  syscall.RawConn // of c
	port int             // its index
	oob  []byte
}

// NewConn makes a Conn of a socket of Open, and closes f.
func NewConn(f *os.File) (*Conn, error) {
	c, err := socket.FileConn(f, "packet")
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("take the packet socket %s: %w", f.Name(), err)
	}
	addr, err := c.Getsockname()
	ll, ok := addr.(*unix.SockaddrLinklayer)
	if err == nil && !ok {
		err = errors.New("it is none")
	}
	if err != nil {
		return nil, fmt.Errorf("take the packet socket %s: %w", f.Name(), errors.Join(err, c.Close()))
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("take the packet socket %s: %w", f.Name(), errors.Join(err, c.Close()))
	}
	return &Conn{c: c, raw: raw, port: ll.Ifindex, oob: make([]byte, 256)}, nil
}

// Close closes the socket; a Read that waits returns.
func (c *Conn) Close() error { return c.c.Close() }

// SetFilter replaces the filter. Frames that passed the old one may be waiting.
func (c *Conn) SetFilter(filter []bpf.Instruction) error {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return fmt.Errorf("assemble a packet socket's filter: %w", err)
	}
	if err := c.c.SetBPF(raw); err != nil {
		return fmt.Errorf("set a packet socket's filter: %w", err)
	}
	return nil
}

// downPause is how long Read waits for a port that is down before it looks
// again: the kernel says so once per turn of the port, not once per read.
const downPause = 50 * time.Millisecond

// Read waits for the next frame addressed to this port (or to everybody) and
// untagged there, and puts it into b, which has room for MaxFrame bytes.
// partial says that the UDP checksum in it must not be looked at. A port that
// is down is waited for. One goroutine at a time, this or ReadNow.
func (c *Conn) Read(ctx context.Context, b []byte) (frame []byte, partial bool, err error) {
	for {
		// A frame that is there already is had without having ctx watched, which
		// takes a goroutine each time.
		frame, partial, err = c.ReadNow(b)
		if !errors.Is(err, unix.EAGAIN) {
			if ctx.Err() != nil {
				return nil, false, ctx.Err()
			}
			return frame, partial, err
		}
		n, oobn, flags, from, err := c.c.Recvmsg(ctx, b, c.oob, 0)
		switch {
		case errors.Is(err, unix.ENETDOWN):
			select {
			case <-ctx.Done():
				return nil, false, ctx.Err()
			case <-time.After(downPause):
			}
		case err != nil:
			return nil, false, fmt.Errorf("read a packet socket: %w", err)
		default:
			var kind uint8
			if ll, ok := from.(*unix.SockaddrLinklayer); ok {
				kind = ll.Pkttype
			}
			if partial, ok := ours(c.oob[:oobn], flags, kind); ok {
				return b[:n], partial, nil
			}
		}
	}
}

// ReadNow is Read of a frame that is there. The error is EAGAIN if none is.
func (c *Conn) ReadNow(b []byte) (frame []byte, partial bool, err error) {
	for {
		var m bare.Msg
		var recvErr error
		err := c.raw.Read(func(fd uintptr) bool {
			m, recvErr = bare.Recvmsg(int(fd), b, c.oob, 0)
			return true
		})
		switch {
		case errors.Is(recvErr, unix.ENETDOWN):
			return nil, false, unix.EAGAIN // for as long as it is
		case err != nil || recvErr != nil:
			return nil, false, fmt.Errorf("read a packet socket: %w", errors.Join(err, recvErr))
		}
		if partial, ok := ours(c.oob[:m.OOBN], m.Flags, m.Type); ok {
			return b[:m.N], partial, nil
		}
	}
}

// ours says whether a frame is for us, by what recvmsg(2) tells of it.
func ours(oob []byte, flags int, kind uint8) (partial, ok bool) {
	if flags&unix.MSG_TRUNC != 0 {
		return false, false // longer than any message of ours
	}
	if kind == unix.PACKET_OTHERHOST || kind == unix.PACKET_OUTGOING {
		return false, false
	}
	status, vlan := aux(oob)
	if status&unix.TP_STATUS_VLAN_VALID != 0 && vlan&0xfff != 0 {
		return false, false // tagged with a VLAN that nobody took (802.1Q; VID 0 is a priority only)
	}
	return status&(unix.TP_STATUS_CSUMNOTREADY|unix.TP_STATUS_CSUM_VALID) != 0, true
}

// aux finds what PACKET_AUXDATA says (struct tpacket_auxdata, linux/if_packet.h).
func aux(oob []byte) (status uint32, vlan uint16) {
	for len(oob) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0, 0
		}
		if header.Level == unix.SOL_PACKET && header.Type == unix.PACKET_AUXDATA &&
			len(data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})) {
			return binary.NativeEndian.Uint32(data[0:]), binary.NativeEndian.Uint16(data[16:])
		}
		oob = rest
	}
	return 0, 0
}

// Write sends a whole frame.
func (c *Conn) Write(ctx context.Context, frame []byte) error {
	to := &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(frame[ethLen-2:]), Ifindex: c.port}
	if err := c.c.Sendto(ctx, frame, 0, to); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}

// WriteNow sends a whole frame, or says at once that there is no room for it on
// its way (EAGAIN, ENOBUFS): for who has others to serve than those at a port
// that is stuck.
func (c *Conn) WriteNow(frame []byte) error {
	var sendErr error
	err := c.raw.Write(func(fd uintptr) bool {
		_, sendErr = bare.Write(int(fd), frame) // it is bound to the port, and does not block
		return true
	})
	if err = errors.Join(err, sendErr); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}
