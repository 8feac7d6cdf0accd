package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
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

// scanPort is the port that a scan comes from, another for each: what a connection
// tracker or a server holds of an earlier one, whose answers were lost with the line,
// lets nothing of this one pass. Nobody else on the internet host uses these, and its
// kernel refuses what answers: no half-open connection is left.
func scanPort(seq uint32) uint16 { return uint16(20000 + seq%10000) }

// ScanTCP sends a SYN from the internet host to every port of the customer's
// address, and waits a little for the last answers.
func (i *ISP) ScanTCP(ctx context.Context, to netip.Addr, wait time.Duration) (Scan, error) {
	all := make([]uint16, 65535)
	for k := range all {
		all[k] = uint16(k + 1)
	}
	return i.ScanPorts(ctx, unix.IPPROTO_TCP, to, all, wait)
}

// ScanUDP sends a datagram to each of the ports, one that the port's usual service
// would answer.
func (i *ISP) ScanUDP(ctx context.Context, to netip.Addr, ports []uint16, wait time.Duration) (Scan, error) {
	return i.ScanPorts(ctx, unix.IPPROTO_UDP, to, ports, wait)
}

// few ports are scanned without giving way to others.
const few = 256

// ScanPorts does either with the ports given, by the protocol's number. One scan of a line at a time.
func (i *ISP) ScanPorts(ctx context.Context, proto int, to netip.Addr, ports []uint16, wait time.Duration) (Scan, error) {
	s := Scan{Ports: map[uint16]Answer{}}
	domain, icmpProto := unix.AF_INET, unix.IPPROTO_ICMP
	if to.Is6() {
		domain, icmpProto = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	raw, err := i.Inet.rawSocket(domain, proto, Web(to.Is6()))
	if err != nil {
		return s, err
	}
	defer unix.Close(raw)
	icmp, err := i.Inet.rawSocket(domain, icmpProto, Web(to.Is6()))
	if err != nil {
		return s, err
	}
	defer unix.Close(icmp)
	if to.Is6() {
		// The kernel fills in the checksum, with its pseudo header (RFC 3542, 3.1).
		if err := unix.SetsockoptInt(raw, unix.IPPROTO_IPV6, unix.IPV6_CHECKSUM, checksumAt(proto)); err != nil {
			return s, err
		}
	}
	// Of this scan alone: a server goes on answering an earlier one's SYN for a minute where nothing came back.
	seq := rand.Uint32()
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
				if f6, ok := from.(*unix.SockaddrInet6); ok && fd == raw && netip.AddrFrom16(f6.Addr) != to {
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
	readers.Go(func() { read(raw, func(b []byte) (uint16, Answer, bool) { return portAnswer(b, proto, to, seq) }) })
	readers.Go(func() { read(icmp, func(b []byte) (uint16, Answer, bool) { return icmpAnswer(b, proto, to, seq) }) })

	err = i.Inet.Do(func() error {
		// A packet's whole way is paid for by its sender. This thread, which ends
		// with the scan, lets others go first: they may be measuring. A few packets
		// are nobody's burden, and on a busy machine would wait for seconds.
		if len(ports) > few {
			if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 15); err != nil {
				return err
			}
		}
		for k, port := range ports {
			if k%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := sendRaw(raw, to, opening(proto, Web(to.Is6()), to, port, seq)); err != nil {
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

// checksumAt is where a protocol's header has its checksum.
func checksumAt(proto int) int {
	if proto == unix.IPPROTO_UDP {
		return 6
	}
	return 16
}

// opening is what a scan sends to a port, with its checksum for IPv4.
func opening(proto int, from, to netip.Addr, port uint16, seq uint32) []byte {
	b := syn(port, seq)
	if proto == unix.IPPROTO_UDP {
		b = question(port, seq)
	}
	if from.Is4() {
		binary.BigEndian.PutUint16(b[checksumAt(proto):], checksum4(from, to, uint8(proto), b))
	}
	return b
}

// question is a datagram to which whoever usually has the port has an answer.
func question(port uint16, seq uint32) []byte {
	data := []byte("hello")
	switch port {
	case 53, 5353, 5355: // what are the root's name servers?
		data = []byte{0x77, 0x65, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}
	case 123: // what time is it? (RFC 5905, 7.3: version 3, client)
		data = append([]byte{0x1b}, make([]byte, 47)...)
	}
	b := binary.BigEndian.AppendUint16(nil, scanPort(seq))
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(data)))
	return append(append(b, 0, 0), data...)
}

// syn is a TCP segment that opens a connection.
func syn(port uint16, seq uint32) []byte {
	b := make([]byte, 24)
	binary.BigEndian.PutUint16(b[0:], scanPort(seq))
	binary.BigEndian.PutUint16(b[2:], port)
	binary.BigEndian.PutUint32(b[4:], seq)
	b[12], b[13] = 6<<4, 2
	binary.BigEndian.PutUint16(b[14:], 64240)
	b[20], b[21] = 2, 4 // MSS
	binary.BigEndian.PutUint16(b[22:], 1220)
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

// portAnswer reads what came to the raw socket: with its IP header for IPv4,
// without it for IPv6.
func portAnswer(b []byte, proto int, of netip.Addr, seq uint32) (uint16, Answer, bool) {
	if of.Is4() {
		if len(b) < 20 || net.IP(b[12:16]).String() != of.String() {
			return 0, "", false
		}
		b = b[min(len(b), int(b[0]&15)*4):]
	}
	if len(b) < 8 || binary.BigEndian.Uint16(b[2:]) != scanPort(seq) {
		return 0, "", false
	}
	if proto == unix.IPPROTO_TCP && (len(b) < 14 || binary.BigEndian.Uint32(b[8:]) != seq+1) {
		return 0, "", false // of another scan
	}
	a := Answered
	if proto == unix.IPPROTO_TCP && len(b) >= 14 && b[13]&4 != 0 {
		a = Refused
	}
	return binary.BigEndian.Uint16(b), a, true
}

// icmpAnswer reads an ICMP error about something that the scan sent.
func icmpAnswer(b []byte, proto int, of netip.Addr, seq uint32) (uint16, Answer, bool) {
	if of.Is4() {
		if len(b) < 20 {
			return 0, "", false
		}
		b = b[min(len(b), int(b[0]&15)*4):]
		if len(b) < 8+20 || b[0] != 3 && b[0] != 11 {
			return 0, "", false
		}
		b = b[8:]
		if net.IP(b[16:20]).String() != of.String() || int(b[9]) != proto {
			return 0, "", false
		}
		b = b[min(len(b), int(b[0]&15)*4):]
	} else {
		if len(b) < 8+40 || b[0] != 1 && b[0] != 3 {
			return 0, "", false
		}
		b = b[8:]
		if net.IP(b[24:40]).String() != of.String() || int(b[6]) != proto {
			return 0, "", false
		}
		b = b[40:]
	}
	if len(b) < 4 || binary.BigEndian.Uint16(b) != scanPort(seq) {
		return 0, "", false
	}
	return binary.BigEndian.Uint16(b[2:]), Refused, true
}
