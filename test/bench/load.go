package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vishvananda/netlink"

	"weir/internal/lab"
)

const (
	echoPort    = 7
	established = 256   // flows of the "small" load
	fresh       = 60000 // packets of the "flows" load, a flow each
	batch       = 64    // frames a system call
	firstPort   = 10000 // of the established flows
)

// A load sends frames from the client, as its kernel would have, and counts
// those that reach the ISP's port, where they are dropped: what is measured
// is the road between.
type load struct {
	h      *house
	fd     int // AF_PACKET, the client's e0
	client net.HardwareAddr
	router net.HardwareAddr
	conns  []*net.UDPConn
}

// newLoad opens the established flows and closes the sink behind them.
func newLoad(ctx context.Context, h *house, kind string) (*load, error) {
	l := &load{h: h}
	if err := h.isp.ServeEcho(nil, []uint16{echoPort}); err != nil {
		return nil, err
	}
	server := net.UDPAddrFromAddrPort(netip.AddrPortFrom(lab.Web(false), echoPort))
	for k := range established {
		var c *net.UDPConn
		err := h.client.Do(func() (err error) {
			c, err = net.DialUDP("udp4", &net.UDPAddr{Port: firstPort + k}, server)
			return err
		})
		if err != nil {
			return nil, err
		}
		l.conns = append(l.conns, c)
		// Asked and answered three times: conntrack takes it for a stream.
		for range 3 {
			if _, err := c.Write([]byte("x")); err != nil {
				return nil, err
			}
			if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
				return nil, err
			}
			if _, err := c.Read(make([]byte, 512)); err != nil {
				return nil, fmt.Errorf("flow %d of %d got no answer: %w", k+1, established, err)
			}
		}
	}
	var err error
	if l.client, err = h.client.MAC("e0"); err != nil {
		return nil, err
	}
	from := h.lab.Gateway()
	port := "eth0"
	if kind == "wire" {
		from, port = h.isp, "cust0"
	}
	if l.router, err = from.MAC(port); err != nil {
		return nil, err
	}
	if _, err := h.isp.Run(ctx, "nft", "add table netdev sink; add chain netdev sink drops { type filter hook ingress device cust0 priority 0 ; }; add rule netdev sink drops udp dport 7 drop"); err != nil {
		return nil, err
	}
	return l, h.client.Do(func() error {
		link, err := net.InterfaceByName("e0")
		if err != nil {
			return err
		}
		l.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0) // protocol 0: it hears nothing
		if err != nil {
			return err
		}
		return unix.Bind(l.fd, &unix.SockaddrLinklayer{Ifindex: link.Index})
	})
}

func (l *load) do(_ context.Context, o order) (figure, error) {
	// Entries of the round before would be found, and would fill the table.
	if o.Do == "flows" {
		if err := l.h.lab.Gateway().Netlink().ConntrackTableFlush(netlink.ConntrackTable); err != nil && !errors.Is(err, unix.ENOENT) {
			return figure{}, err
		}
	}
	before, err := l.arrived()
	if err != nil {
		return figure{}, err
	}
	var took time.Duration
	done := make(chan error)
	go func() {
		// One processor sends, routes and receives: softirqs run where a frame is sent,
		// and stay there, not put off to ksoftirqd, while nobody else wants the
		// processor. The thread ends with the measurement.
		runtime.LockOSThread()
		var cpus unix.CPUSet
		cpus.Set(0)
		err := unix.SchedSetaffinity(0, &cpus)
		if err == nil {
			err = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}, 0)
		}
		from := time.Now()
		if err == nil && o.Do == "small" {
			err = l.send(time.Now().Add(o.Lasts), -1, func(n int) uint16 { return uint16(firstPort + n%established) })
		} else if err == nil {
			err = l.send(time.Time{}, fresh, func(n int) uint16 { return uint16(2000 + n) })
		}
		took = time.Since(from)
		done <- err
	}()
	if err := <-done; err != nil {
		return figure{}, err
	}
	after := before
	for prev := after - 1; prev != after; time.Sleep(5 * time.Millisecond) { // until the last has arrived
		prev = after
		if after, err = l.arrived(); err != nil {
			return figure{}, err
		}
	}
	if o.Do == "flows" && float64(after-before) < 0.98*fresh {
		return figure{}, fmt.Errorf("%d of %d packets arrived: see nf_conntrack_max", after-before, fresh)
	}
	// The established flows were flushed too: the next small load wants them back.
	if o.Do == "flows" {
		for _, c := range l.conns {
			if _, err := c.Write([]byte("x")); err != nil {
				return figure{}, err
			}
		}
	}
	return figure{Count: float64(after - before), Per: took.Seconds()}, nil
}

// arrived is the count of frames that came in at the ISP's port.
func (l *load) arrived() (uint64, error) {
	link, err := l.h.isp.Netlink().LinkByName("cust0")
	if err != nil {
		return 0, err
	}
	return link.Attrs().Statistics.RxPackets, nil
}

// mmsghdr is the kernel's struct mmsghdr (sendmmsg(2)).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// send sends frames until a time, or a number of them; port says the source port of each.
func (l *load) send(until time.Time, count int, port func(n int) uint16) error {
	frames := make([][]byte, batch)
	msgs := make([]mmsghdr, batch)
	iov := make([]unix.Iovec, batch)
	for k := range frames {
		frames[k] = l.frame()
		iov[k].Base = &frames[k][0]
		iov[k].SetLen(len(frames[k]))
		msgs[k].hdr.Iov = &iov[k]
		msgs[k].hdr.SetIovlen(1)
	}
	for n := 0; count < 0 || n < count; {
		if count < 0 && !time.Now().Before(until) {
			break
		}
		for k := range frames {
			binary.BigEndian.PutUint16(frames[k][34:], port(n+k)) // no UDP checksum: zero, as IPv4 may
		}
		sent, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&msgs[0])), batch, 0, 0, 0)
		if errno != 0 && errno != unix.ENOBUFS && errno != unix.EAGAIN {
			return fmt.Errorf("sendmmsg: %w", errno)
		}
		if errno == 0 {
			n += int(sent)
		}
	}
	runtime.KeepAlive(frames)
	return nil
}

// frame is an Ethernet frame of 64 bytes (its check sequence counted) from the client to the internet's server.
func (l *load) frame() []byte {
	f := make([]byte, 60)
	copy(f, l.router)
	copy(f[6:], l.client)
	binary.BigEndian.PutUint16(f[12:], unix.ETH_P_IP)
	ip := f[14:34]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], 46)
	src, dst := netip.MustParseAddr("172.31.0.50").As4(), lab.Web(false).As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	sum := uint32(0)
	for k := 0; k < 20; k += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[k:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	binary.BigEndian.PutUint16(f[36:], echoPort)
	binary.BigEndian.PutUint16(f[38:], 26)
	return f
}
