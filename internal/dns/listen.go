package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxConns       = 128 // TCP connections of all clients
	maxConnsClient = 16
	maxPipelined   = 16 // questions of one connection under way
	tcpIdle        = 10 * time.Second
	tcpMessage     = 3 * time.Second // for a message once begun
)

// Open opens the worker's sockets for an address of the gateway, UDP and TCP
// port 53, in the namespace of the calling thread. The address need not be there
// yet (IP_FREEBIND): a LAN whose port is unplugged does not stop the resolver.
//
// The files are in the order of the sockets and the caller's to close. It keeps
// them open for as long as the address is to be served, and passes them at each
// start of the worker: questions that come while one worker is gone and the next
// not yet there wait in the sockets, and no client sees a port refused.
func Open(ctx context.Context, addr netip.Addr) ([]Socket, []*os.File, error) {
	at := netip.AddrPortFrom(addr, 53)
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			if addr.Is4() {
				err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
			} else {
				err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
			}
		}), err)
	}}
	u, err := lc.ListenPacket(ctx, "udp", at.String())
	if err != nil {
		return nil, nil, fmt.Errorf("open the resolver's UDP socket on %s: %w%s", at, err, taken(err))
	}
	defer u.Close()
	t, err := lc.Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, nil, fmt.Errorf("open the resolver's TCP socket on %s: %w%s", at, err, taken(err))
	}
	defer t.Close()
	uf, err := u.(*net.UDPConn).File()
	if err != nil {
		return nil, nil, fmt.Errorf("take the resolver's UDP socket on %s: %w", at, err)
	}
	tf, err := t.(*net.TCPListener).File()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("take the resolver's TCP socket on %s: %w", at, err), uf.Close())
	}
	return []Socket{{Network: "udp", Addr: at, Passed: true}, {Network: "tcp", Addr: at, Passed: true}}, []*os.File{uf, tf}, nil
}

// taken is what to do when another program has the port.
func taken(err error) string {
	if errors.Is(err, syscall.EADDRINUSE) {
		return "; another resolver runs here: stop it (ss -lptn 'sport = :53' tells which)"
	}
	return ""
}

// serveUDP answers the questions of one socket until it is closed. What needs no
// asking outside is answered on the spot.
func (s *service) serveUDP(ctx context.Context, c *net.UDPConn) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	buf := make([]byte, 4096) // a question is far smaller; a larger one is cut, and refused as broken
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if isTransient(err) {
				continue
			}
			return fmt.Errorf("read from the UDP socket on %s: %w", c.LocalAddr(), err)
		}
		reply, finish := s.begin(buf[:n], from.Addr().Unmap(), false)
		if reply != nil {
			s.writeUDP(c, reply, from)
		}
		if finish != nil {
			wg.Go(func() {
				if reply := finish(ctx); reply != nil {
					s.writeUDP(c, reply, from)
				}
			})
		}
	}
}

func (s *service) writeUDP(c *net.UDPConn, reply []byte, to netip.AddrPort) {
	if _, err := c.WriteToUDPAddrPort(reply, to); err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Debug("answer not sent", "addr", to, "err", err)
	}
}

// isTransient tells errors that a UDP socket reports for an earlier packet.
func isTransient(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.EMSGSIZE)
}

// serveTCP takes connections until the listener is closed (RFC 7766).
func (s *service) serveTCP(ctx context.Context, l *net.TCPListener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond): // until another connection has ended
				}
				continue
			}
			return fmt.Errorf("take a connection on %s: %w", l.Addr(), err)
		}
		client := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if !s.allowed(client) || !s.conns.enter(client) {
			s.refused.Add(1)
			c.Close()
			continue
		}
		wg.Go(func() {
			defer s.conns.leave(client)
			defer c.Close()
			s.serveConn(ctx, c, client)
		})
	}
}

// serveConn answers the questions of one connection, each as soon as its answer
// is there, until the client is silent for too long or ends it.
func (s *service) serveConn(ctx context.Context, c net.Conn, client netip.Addr) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	room := make(chan struct{}, maxPipelined)
	var mu sync.Mutex // one answer at a time
	write := func(reply []byte) {
		mu.Lock()
		defer mu.Unlock()
		_ = c.SetWriteDeadline(time.Now().Add(tcpMessage))
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			c.Close() // part of it may have gone: nothing more can follow
		}
	}
	var length [2]byte
	for {
		_ = c.SetReadDeadline(time.Now().Add(tcpIdle))
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		wire := make([]byte, binary.BigEndian.Uint16(length[:]))
		_ = c.SetReadDeadline(time.Now().Add(tcpMessage))
		if _, err := io.ReadFull(c, wire); err != nil {
			return
		}
		reply, finish := s.begin(wire, client, true)
		switch {
		case reply != nil:
			write(reply)
		case finish == nil:
			return
		default:
			room <- struct{}{} // not read on while too much is under way
			wg.Go(func() {
				defer func() { <-room }()
				if reply := finish(ctx); reply != nil {
					write(reply)
				}
			})
		}
	}
}
