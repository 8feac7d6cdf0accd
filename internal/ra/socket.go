package ra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// Open opens the worker's socket on a LAN's link, in the namespace of the
// calling thread: ICMPv6, bound to the link, a member of all-routers, deaf to
// everything but solicitations and advertisements. The file is the caller's, who
// keeps it open for as long as the link is there and passes it at each start of
// the worker.
//
// The link has to be there, and need not be up.
func Open(ifname string) (Link, *os.File, error) {
	ifi, err := net.InterfaceByName(ifname)
	if err != nil {
		return Link{}, nil, fmt.Errorf("advertise on %s: %w", ifname, err)
	}
	l := Link{Name: ifi.Name, Index: ifi.Index, MAC: ifi.HardwareAddr.String(), MTU: ifi.MTU}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMPV6)
	if err != nil {
		return Link{}, nil, fmt.Errorf("open the ICMPv6 socket for %s: %w", ifname, err)
	}
	f := os.NewFile(uintptr(fd), "ra "+ifname)
	allRouters := netip.IPv6LinkLocalAllRouters().As16()
	var filter unix.ICMPv6Filter // a set bit blocks (RFC 3542, 3.2)
	for i := range filter.Data {
		filter.Data[i] = ^uint32(0)
	}
	for _, t := range []ipv6.ICMPType{ipv6.ICMPTypeRouterSolicitation, ipv6.ICMPTypeRouterAdvertisement} {
		filter.Data[t/32] &^= 1 << (t % 32)
	}
	err = errors.Join(
		unix.BindToDevice(fd, ifname),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_MULTICAST_IF, ifi.Index),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_MULTICAST_HOPS, ndp.HopLimit),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS, ndp.HopLimit),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_MULTICAST_LOOP, 0),
		unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &filter),
		unix.SetsockoptIPv6Mreq(fd, unix.SOL_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: allRouters, Interface: uint32(ifi.Index)}),
	)
	if err != nil {
		return Link{}, nil, errors.Join(fmt.Errorf("set up the ICMPv6 socket for %s: %w", ifname, err), f.Close())
	}
	return l, f, nil
}

// errNoSource says that the link has no link-local address to advertise from,
// which is so until it has carrier and duplicate address detection is through.
var errNoSource = errors.New("the link has no link-local address (no carrier?)")

// conn is a socket of Open's, in the worker.
type conn struct {
	link Link
	ip   net.PacketConn
	pc   *ipv6.PacketConn
}

func newConn(l Link, f *os.File) (*conn, error) {
	ip, err := net.FilePacketConn(f)
	if err != nil {
		return nil, fmt.Errorf("take the ICMPv6 socket for %s: %w", l.Name, err)
	}
	pc := ipv6.NewPacketConn(ip)
	if err := pc.SetControlMessage(ipv6.FlagHopLimit, true); err != nil {
		return nil, errors.Join(fmt.Errorf("ask for hop limits on %s: %w", l.Name, err), ip.Close())
	}
	return &conn{link: l, ip: ip, pc: pc}, nil
}

// received is a message that came in.
type received struct {
	msg  ndp.Message
	from netip.Addr
}

// read hands what comes in to out until the connection is closed or ctx ends.
// What is too much is dropped: the kernel's queue is the bound.
func (c *conn) read(ctx context.Context, out chan<- received) error {
	buf := make([]byte, 2048)
	for {
		n, cm, src, err := c.pc.ReadFrom(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if errors.Is(err, unix.ENETDOWN) {
				continue // told once, when the link went down
			}
			return fmt.Errorf("read on %s: %w", c.link.Name, err)
		}
		from, ok := netip.AddrFromSlice(src.(*net.IPAddr).IP)
		if !ok || cm == nil {
			continue
		}
		m, ok := parse(buf[:n], cm.HopLimit, from)
		if !ok {
			continue
		}
		select {
		case out <- received{m, from}:
		case <-ctx.Done():
			return nil
		}
	}
}

// send sends an advertisement from the link's link-local address, as RFC 4861,
// 4.2 wants it; hosts ignore any other.
func (c *conn) send(s Send) error {
	src, err := c.source()
	if err != nil {
		return err
	}
	wire, err := ndp.MarshalMessage(s.Msg) // the kernel fills in the checksum (RFC 3542, 3.1)
	if err != nil {
		return fmt.Errorf("build the advertisement for %s: %w", c.link.Name, err)
	}
	_ = c.ip.SetWriteDeadline(time.Now().Add(time.Second))
	cm := &ipv6.ControlMessage{HopLimit: ndp.HopLimit, Src: src.AsSlice(), IfIndex: c.link.Index}
	if _, err := c.pc.WriteTo(wire, cm, &net.IPAddr{IP: s.To.AsSlice(), Zone: c.link.Name}); err != nil {
		return fmt.Errorf("advertise on %s: %w", c.link.Name, err)
	}
	return nil
}

// source asks the kernel which address it would talk to the link's hosts from:
// what a connected socket gets (RFC 6724). An address that is not yet through
// with duplicate address detection does not count there.
func (c *conn) source() (netip.Addr, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("ask for the address on %s: %w", c.link.Name, err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet6{Addr: allNodes().As16(), Port: 9, ZoneId: uint32(c.link.Index)}
	if err := unix.Connect(fd, to); err != nil {
		return netip.Addr{}, errNoSource
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("ask for the address on %s: %w", c.link.Name, err)
	}
	if in6, ok := sa.(*unix.SockaddrInet6); ok {
		if a := netip.AddrFrom16(in6.Addr); a.IsLinkLocalUnicast() {
			return a, nil
		}
	}
	return netip.Addr{}, errNoSource
}
