package dhcpd6

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"golang.org/x/sys/unix"

	"weir/internal/worker"
)

// Open opens the server's socket on a LAN's link, in the namespace of the calling
// thread: UDP port 547, bound to the link, a member of what clients and relays send
// to (RFC 8415, 7.1). The file is the caller's.
func Open(link string) (*os.File, error) {
	ifi, err := net.InterfaceByName(link)
	if err != nil {
		return nil, fmt.Errorf("serve DHCPv6 on %s: %w", link, err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the DHCPv6 socket for %s: %w", link, err)
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
		return nil, errors.Join(fmt.Errorf("open the DHCPv6 socket for %s: %w", link, err), f.Close())
	}
	return f, nil
}

// server is a running Worker.
type server struct {
	log *slog.Logger

	mu   sync.Mutex
	duid dhcpv6.DUID
	lans map[string]LAN

	ports map[string]*port // the loop's only
}

// port is a LAN's socket and who reads it.
type port struct {
	conn net.PacketConn
	done chan struct{}
}

func (p *port) stop() {
	_ = p.conn.Close() // its reader ends
	<-p.done
}

func run(ctx context.Context, parent *worker.Conn, log *slog.Logger) error {
	s := &server{log: log, ports: map[string]*port{}}
	return worker.Obey(ctx, parent, s.loop)
}

func (s *server) loop(ctx context.Context, orders <-chan worker.Order[Config]) error {
	defer func() {
		for _, p := range s.ports {
			p.stop()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-orders:
			if err := s.configure(o.Value, o.Files); err != nil {
				return err
			}
		}
	}
}

// configure takes over a configuration and its files.
func (s *server) configure(cfg Config, files []*os.File) error {
	defer func() { closeAll(files) }()
	b, err := hex.DecodeString(cfg.DUID)
	if err != nil {
		return fmt.Errorf("the server's DUID %q: %w", cfg.DUID, err)
	}
	duid, err := dhcpv6.DUIDFromBytes(b)
	if err != nil {
		return fmt.Errorf("the server's DUID %q: %w", cfg.DUID, err)
	}
	lans := map[string]LAN{}
	for _, l := range cfg.LANs {
		lans[l.Name] = l
	}
	s.mu.Lock()
	s.duid, s.lans = duid, lans
	s.mu.Unlock()
	for name, p := range s.ports {
		if _, ok := lans[name]; !ok {
			p.stop()
			delete(s.ports, name)
		}
	}
	for _, l := range cfg.LANs {
		if !l.Passed {
			if s.ports[l.Name] == nil {
				return fmt.Errorf("LAN %s: no socket came, and there is none", l.Name)
			}
			continue
		}
		if len(files) == 0 {
			return fmt.Errorf("LAN %s: its socket did not come with the message", l.Name)
		}
		conn, err := net.FilePacketConn(files[0])
		if err != nil {
			return fmt.Errorf("take the socket of LAN %s: %w", l.Name, err)
		}
		_ = files[0].Close() // the connection has its own
		files = files[1:]
		if old := s.ports[l.Name]; old != nil {
			old.stop()
		}
		p := &port{conn: conn, done: make(chan struct{})}
		s.ports[l.Name] = p
		go func() {
			defer close(p.done)
			s.serve(l.Name, conn)
		}()
	}
	return nil
}

// serve answers on a LAN until its socket is closed.
func (s *server) serve(lan string, conn net.PacketConn) {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := conn.ReadFrom(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, unix.ENETDOWN):
			continue // told once, when the link went down
		case err != nil:
			s.log.Error("the socket of the DHCPv6 server broke", "lan", lan, "err", err)
			return
		}
		s.mu.Lock()
		l, duid := s.lans[lan], s.duid
		s.mu.Unlock()
		out := answer(l, duid, buf[:n])
		if out == nil {
			continue
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := conn.WriteTo(out, from); err != nil {
			s.log.Debug("a DHCPv6 reply was not sent", "lan", lan, "addr", from, "err", err)
		}
	}
}
