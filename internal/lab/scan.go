package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Scan is what a port scan found: how ports answered that were not silent.
type Scan struct {
	Sent  int
	Ports map[uint16]Answer
	// Lost counts probes that never got as far as the customer's link.
	Lost uint64
}

// List is the ports that gave an answer, ascending.
func (s Scan) List(a Answer) []uint16 {
	var out []uint16
	for p, got := range s.Ports {
		if got == a {
			out = append(out, p)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// scanPort is the port that SYNs come from. Nobody else on the internet host
// uses it, and its kernel resets what answers: no half-open connection is left.
const scanPort = 39

// ScanTCP sends a SYN from the internet host to every port of the customer's
// address, and waits a little for the last answers.
func (i *ISP) ScanTCP(ctx context.Context, to netip.Addr, wait time.Duration) (Scan, error) {
	s := Scan{Ports: map[uint16]Answer{}}
	domain, icmpProto := unix.AF_INET, unix.IPPROTO_ICMP
	if to.Is6() {
		domain, icmpProto = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	tcp, err := i.Inet.rawSocket(domain, unix.IPPROTO_TCP, Web(to.Is6()))
	if err != nil {
		return s, err
	}
	defer unix.Close(tcp)
	icmp, err := i.Inet.rawSocket(domain, icmpProto, Web(to.Is6()))
	if err != nil {
		return s, err
	}
	defer unix.Close(icmp)
	if to.Is6() {
		// The kernel fills in the checksum, with its pseudo header (RFC 3542, 3.1).
		if err := unix.SetsockoptInt(tcp, unix.IPPROTO_IPV6, unix.IPV6_CHECKSUM, 16); err != nil {
			return s, err
		}
	}
	before, err := i.dropped()
	if err != nil {
		return s, err
	}
	var mu sync.Mutex
	var readers sync.WaitGroup
	done := make(chan struct{})
	read := func(fd int, f func([]byte) (uint16, Answer, bool)) {
		b := make([]byte, 2048)
		for {
			n, from, err := unix.Recvfrom(fd, b, 0)
			if err == nil {
				// An IPv6 header is not in what is read.
				if f6, ok := from.(*unix.SockaddrInet6); ok && fd == tcp && netip.AddrFrom16(f6.Addr) != to {
					continue
				}
				if port, a, ok := f(b[:n]); ok {
					mu.Lock()
					s.Ports[port] = a
					mu.Unlock()
				}
				continue
			}
			select {
			case <-done:
				return
			default:
			}
			if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}
	readers.Go(func() { read(tcp, func(b []byte) (uint16, Answer, bool) { return tcpAnswer(b, to) }) })
	readers.Go(func() { read(icmp, func(b []byte) (uint16, Answer, bool) { return icmpAnswer(b, to) }) })

	err = i.Inet.Do(func() error {
		// A packet's whole way is paid for by its sender. This thread, which ends
		// with the scan, lets others go first: they may be measuring.
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 15); err != nil {
			return err
		}
		for port := 1; port <= 65535; port++ {
			if port%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := sendRaw(tcp, to, syn(Web(to.Is6()), to, uint16(port))); err != nil {
				return fmt.Errorf("scan %s port %d: %w", to, port, err)
			}
			s.Sent++
		}
		return nil
	})
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	close(done)
	readers.Wait()
	after, derr := i.dropped()
	s.Lost = after - before
	return s, errors.Join(err, derr)
}

// dropped counts what the last link refused to carry.
func (i *ISP) dropped() (uint64, error) {
	link, err := i.Router.nl.LinkByName("cust0")
	if err != nil {
		return 0, err
	}
	if st := link.Attrs().Statistics; st != nil {
		return st.TxDropped, nil
	}
	return 0, nil
}

// rawSocket opens a raw socket bound to an own address; reads end after a while.
func (h *Host) rawSocket(domain, proto int, from netip.Addr) (int, error) {
	fd := -1
	err := h.Do(func() (err error) {
		if fd, err = unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto); err != nil {
			return err
		}
		if err := unix.Bind(fd, sockaddr(from)); err != nil {
			return err
		}
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000})
	})
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return -1, fmt.Errorf("raw socket on %s: %w", h, err)
	}
	return fd, nil
}

func sockaddr(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: a.As16()}
}

func sendRaw(fd int, to netip.Addr, b []byte) error {
	for {
		err := unix.Sendto(fd, b, 0, sockaddr(to))
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EAGAIN):
			time.Sleep(time.Millisecond) // the queue is full: its owner needs the processor
		default:
			return err
		}
	}
}

// syn is a TCP segment that opens a connection.
func syn(from, to netip.Addr, port uint16) []byte {
	b := make([]byte, 24)
	binary.BigEndian.PutUint16(b[0:], scanPort)
	binary.BigEndian.PutUint16(b[2:], port)
	binary.BigEndian.PutUint32(b[4:], 0x77656972)
	b[12], b[13] = 6<<4, 2
	binary.BigEndian.PutUint16(b[14:], 64240)
	b[20], b[21] = 2, 4 // MSS
	binary.BigEndian.PutUint16(b[22:], 1220)
	if from.Is4() {
		binary.BigEndian.PutUint16(b[16:], checksum4(from, to, unix.IPPROTO_TCP, b))
	}
	return b
}

// checksum4 is the checksum of RFC 9293, 3.1, over IPv4's pseudo header and b.
func checksum4(from, to netip.Addr, proto uint8, b []byte) uint16 {
	var sum uint32
	add := func(p []byte) {
		for i := 0; i+1 < len(p); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		if len(p)%2 == 1 {
			sum += uint32(p[len(p)-1]) << 8
		}
	}
	f, t := from.As4(), to.As4()
	add(f[:])
	add(t[:])
	sum += uint32(proto) + uint32(len(b))
	add(b)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// tcpAnswer reads a segment that came to the raw socket: with its IP header for
// IPv4, without it for IPv6.
func tcpAnswer(b []byte, of netip.Addr) (uint16, Answer, bool) {
	if of.Is4() {
		if len(b) < 20 || net.IP(b[12:16]).String() != of.String() {
			return 0, "", false
		}
		b = b[min(len(b), int(b[0]&15)*4):]
	}
	if len(b) < 14 || binary.BigEndian.Uint16(b[2:]) != scanPort {
		return 0, "", false
	}
	a := Answered
	if b[13]&4 != 0 {
		a = Refused
	}
	return binary.BigEndian.Uint16(b), a, true
}

// icmpAnswer reads an ICMP error about one of the scan's segments.
func icmpAnswer(b []byte, of netip.Addr) (uint16, Answer, bool) {
	if of.Is4() {
		if len(b) < 20 {
			return 0, "", false
		}
		b = b[min(len(b), int(b[0]&15)*4):]
		if len(b) < 8+20 || b[0] != 3 && b[0] != 11 {
			return 0, "", false
		}
		b = b[8:]
		if net.IP(b[16:20]).String() != of.String() || b[9] != unix.IPPROTO_TCP {
			return 0, "", false
		}
		b = b[min(len(b), int(b[0]&15)*4):]
	} else {
		if len(b) < 8+40 || b[0] != 1 && b[0] != 3 {
			return 0, "", false
		}
		b = b[8:]
		if net.IP(b[24:40]).String() != of.String() || b[6] != unix.IPPROTO_TCP {
			return 0, "", false
		}
		b = b[40:]
	}
	if len(b) < 4 || binary.BigEndian.Uint16(b) != scanPort {
		return 0, "", false
	}
	return binary.BigEndian.Uint16(b[2:]), Refused, true
}
