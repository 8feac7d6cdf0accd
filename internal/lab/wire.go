package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Frame is a frame that was seen on a wire.
type Frame struct {
	At       time.Time
	Len      int
	Type     uint16 // EtherType
	Src, Dst netip.Addr
	Proto    uint8  // of IPv4 or IPv6 (without extension headers)
	SPort    uint16 // TCP and UDP
	DPort    uint16
	Flags    uint8 // TCP
	ICMP     uint8 // type, ICMP and ICMPv6
	DHCP6    uint8 // message type, of what is sent to a DHCPv6 server
}

// String is the frame on a line.
func (f Frame) String() string {
	switch {
	case f.Type == unix.ETH_P_ARP:
		return fmt.Sprintf("ARP %s asks for %s", f.Src, f.Dst)
	case f.Proto == unix.IPPROTO_TCP || f.Proto == unix.IPPROTO_UDP:
		return fmt.Sprintf("%s > %s protocol %d", netip.AddrPortFrom(f.Src, f.SPort), netip.AddrPortFrom(f.Dst, f.DPort), f.Proto)
	case f.Src.IsValid():
		return fmt.Sprintf("%s > %s protocol %d", f.Src, f.Dst, f.Proto)
	}
	return fmt.Sprintf("EtherType %#04x", f.Type)
}

// parseFrame reads what a Frame holds; what is cut short stays zero.
func parseFrame(b []byte) Frame {
	f := Frame{Len: len(b)}
	if len(b) < 14 {
		return f
	}
	f.Type = binary.BigEndian.Uint16(b[12:])
	b = b[14:]
	var rest []byte
	switch {
	case f.Type == unix.ETH_P_ARP && len(b) >= 28:
		f.Src, _ = netip.AddrFromSlice(b[14:18])
		f.Dst, _ = netip.AddrFromSlice(b[24:28])
	case f.Type == unix.ETH_P_IP && len(b) >= 20:
		f.Src, _ = netip.AddrFromSlice(b[12:16])
		f.Dst, _ = netip.AddrFromSlice(b[16:20])
		f.Proto = b[9]
		if h := int(b[0]&15) * 4; h >= 20 && len(b) >= h {
			rest = b[h:]
		}
	case f.Type == unix.ETH_P_IPV6 && len(b) >= 40:
		f.Src, _ = netip.AddrFromSlice(b[8:24])
		f.Dst, _ = netip.AddrFromSlice(b[24:40])
		f.Proto = b[6]
		rest = b[40:]
	}
	switch f.Proto {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP:
		if len(rest) >= 4 {
			f.SPort, f.DPort = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
		}
		if f.Proto == unix.IPPROTO_TCP && len(rest) >= 14 {
			f.Flags = rest[13]
		}
		if f.Type == unix.ETH_P_IPV6 && f.Proto == unix.IPPROTO_UDP && f.DPort == 547 && len(rest) > 8 {
			f.DHCP6 = rest[8]
		}
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		if len(rest) > 0 {
			f.ICMP = rest[0]
		}
	}
	return f
}

// Wire hears all that comes in by a link.
type Wire struct {
	conn  *packet.Conn
	mu    sync.Mutex
	subs  map[int]func(Frame)
	next  int
	lost  uint32
	count int
}

// Listen hears what others send to the machine's link dev.
func (h *Host) Listen(dev string) (*Wire, error) {
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{Val: 160}, // headers; more is not looked at
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return nil, err
	}
	w := &Wire{subs: map[int]func(Frame){}}
	err = h.Do(func() error {
		ifi, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		w.conn, err = packet.Listen(ifi, packet.Raw, unix.ETH_P_ALL, &packet.Config{Filter: filter})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s of %s: %w", dev, h, err)
	}
	if rc, err := w.conn.SyscallConn(); err == nil {
		// As much as is allowed: a scan comes in bursts. What is lost is counted.
		_ = rc.Control(func(fd uintptr) {
			if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) != nil {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 16<<20)
			}
		})
	}
	h.lab.onClose(w.conn.Close)
	h.lab.run(w.read)
	return w, nil
}

func (w *Wire) read() {
	b := make([]byte, 256)
	for {
		n, _, err := w.conn.ReadFrom(b)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue
		}
		f := parseFrame(b[:n])
		f.At = time.Now()
		w.mu.Lock()
		w.count++
		for _, s := range w.subs {
			s(f)
		}
		w.mu.Unlock()
	}
}

// Watch has f called for every frame from now on, until stop. f must be quick.
func (w *Wire) Watch(f func(Frame)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.next
	w.next++
	w.subs[id] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subs, id)
	}
}

// Lost counts the frames that came too fast to be looked at.
func (w *Wire) Lost() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, err := w.conn.Stats(); err == nil {
		w.lost += s.Drops // the kernel forgets what it has told
	}
	return w.lost
}

// Count is how many frames were looked at.
func (w *Wire) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
