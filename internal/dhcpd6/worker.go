package dhcpd6

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"golang.org/x/sys/unix"

	"weir/internal/ether"
	"weir/internal/worker"
)

// Open opens the server's sockets on a LAN's link, in the namespace of the calling
// thread: a packet socket, which says which Ethernet address a message is from, and
// UDP port 547, a member of what clients and relays send to (RFC 8415, 7.1), which
// holds the port. The files are the caller's.
func Open(link string) ([]*os.File, error) {
	ifi, err := net.InterfaceByName(link)
	if err != nil {
		return nil, fmt.Errorf("serve DHCPv6 on %s: %w", link, err)
	}
	raw, err := ether.Open(link, ether.TypeIPv6, ether.ToUDP6(dhcpv6.DefaultServerPort))
	if err != nil {
		return nil, fmt.Errorf("serve DHCPv6 on %s: %w", link, err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the DHCPv6 socket for %s: %w", link, err), raw.Close())
	}
	f := os.NewFile(uintptr(fd), "dhcpd6 "+link)
	join := func(group string) error {
		return unix.SetsockoptIPv6Mreq(fd, unix.SOL_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: netip.MustParseAddr(group).As16(), Interface: uint32(ifi.Index)})
	}
	err = errors.Join(
		unix.BindToDevice(fd, link),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet6{Port: dhcpv6.DefaultServerPort}),
		join("ff02::1:2"), join("ff05::1:3"),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the DHCPv6 socket for %s: %w", link, err), f.Close(), raw.Close())
	}
	return []*os.File{raw, f}, nil
}

// socketsPerLAN is how many files Open returns.
const socketsPerLAN = 2

// frame is a message that came in on a LAN.
type frame struct {
	lan     string
	from    netip.AddrPort
	mac     ether.MAC
	payload []byte
}

// port is a LAN's sockets and who reads them. The UDP socket's queue fills and is
// never read: what it holds is bounded by its buffer, and set to be small.
type port struct {
	link string
	raw  *ether.Conn
	udp  *net.UDPConn
	stop func()

	mac    ether.MAC  // of the link
	source netip.Addr // link-local address of the link; invalid: it has none yet
	looked time.Time
}

// sourceEvery is how long the link's own addresses are taken to be as they were.
const sourceEvery = 5 * time.Second

// Stop ends the reading and closes the sockets.
func (p *port) Stop() { p.stop() }

// take makes the served LANs those of a configuration.
func (s *server) take(ctx context.Context, cfg Config, files []*os.File) error {
	var lans []worker.Passed
	for _, l := range cfg.LANs {
		n := 0
		if l.Passed {
			n = socketsPerLAN
		}
		lans = append(lans, worker.Passed{LAN: l.Name, Files: n})
	}
	return s.ports.Take(lans, files, func(i int, files []*os.File) (*port, error) { return s.open(ctx, cfg.LANs[i], files) })
}

// open starts to read a LAN's sockets.
func (s *server) open(ctx context.Context, l LAN, files []*os.File) (*port, error) {
	raw, err := ether.NewConn(files[0])
	if err != nil {
		_ = files[1].Close() // a socket
		return nil, fmt.Errorf("take the sockets of LAN %s: %w", l.Name, err)
	}
	c, err := net.FilePacketConn(files[1])
	_ = files[1].Close() // the connection has its own
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the sockets of LAN %s: %w", l.Name, err), raw.Close())
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("take the sockets of LAN %s: %T is no UDP socket", l.Name, c), c.Close(), raw.Close())
	}
	_ = udp.SetReadBuffer(0) // the kernel's least
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.read(ctx, l.Name, raw)
	}()
	p := &port{link: l.Link, raw: raw, udp: udp}
	p.stop = func() {
		cancel()
		<-done
		_ = errors.Join(raw.Close(), udp.Close())
	}
	return p, nil
}

// read hands on what comes in on a LAN until ctx ends or its socket breaks.
func (s *server) read(ctx context.Context, lan string, conn *ether.Conn) {
	b := make([]byte, ether.MaxFrame)
	for {
		raw, partial, err := conn.Read(ctx, b)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Error("a socket of the DHCPv6 server broke", "lan", lan, "err", err)
			}
			return // the parent sends new ones when the link is there again
		}
		u, err := ether.ParseUDP(raw, partial)
		if err != nil {
			s.log.Debug("frame to the DHCPv6 server's port", "lan", lan, "err", err)
			continue
		}
		f := frame{lan: lan, from: u.Src, mac: u.SrcMAC, payload: append([]byte(nil), u.Payload...)}
		select {
		case s.frames <- f:
		case <-ctx.Done():
			return
		}
	}
}

// maxPayload is what fits into a frame of an Ethernet.
const maxPayload = 1500 - 40 - 8

// send answers whoever a frame came from, by a frame of our own: nobody is solicited
// for, so that who does not answer solicitations holds up nobody. What is too long
// for one is the kernel's to cut up.
func (s *server) send(lan string, to frame, b []byte) {
	p := s.ports[lan]
	if p == nil || b == nil {
		return
	}
	now := time.Now()
	if now.Sub(p.looked) > sourceEvery || !p.source.IsValid() {
		p.looked = now
		p.mac, p.source = linkLocal(p.link)
	}
	var err error
	if p.source.IsValid() && to.from.Addr().IsLinkLocalUnicast() && len(b) <= maxPayload {
		u := ether.UDP{SrcMAC: p.mac, DstMAC: to.mac, Src: netip.AddrPortFrom(p.source, dhcpv6.DefaultServerPort), Dst: to.from, Payload: b}
		err = p.raw.WriteNow(u.Frame())
	} else {
		dst := to.from
		if dst.Addr().IsLinkLocalUnicast() {
			dst = netip.AddrPortFrom(dst.Addr().WithZone(p.link), dst.Port())
		}
		_ = p.udp.SetWriteDeadline(now.Add(50 * time.Millisecond))
		_, err = p.udp.WriteToUDPAddrPort(b, dst)
	}
	if err != nil {
		s.log.Debug("a DHCPv6 reply was not sent", "lan", lan, "addr", to.from.String(), "err", err)
	}
}

// linkLocal is a link's Ethernet address and link-local address.
func linkLocal(link string) (mac ether.MAC, a netip.Addr) {
	ifi, err := net.InterfaceByName(link)
	if err != nil || len(ifi.HardwareAddr) != len(mac) {
		return mac, a
	}
	addrs, _ := ifi.Addrs()
	for _, x := range addrs {
		if n, ok := x.(*net.IPNet); ok && n.IP.To4() == nil && n.IP.IsLinkLocalUnicast() {
			a, _ = netip.AddrFromSlice(n.IP)
		}
	}
	return ether.MAC(ifi.HardwareAddr), a
}
