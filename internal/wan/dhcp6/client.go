package dhcp6

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/internal/state"
	"weir/internal/worker"
)

// Worker is the client of one WAN. It takes Config and sends Report.
var Worker = worker.Kind{Name: "dhcp6", Run: Run}

// Ports and the address of RFC 8415, 7.1 and 7.2.
const (
	ClientPort = 546
	ServerPort = 547
)

// allServers is All_DHCP_Relay_Agents_and_Servers: of the link.
func allServers() netip.Addr { return netip.MustParseAddr("ff02::1:2") }

// maxMessage is more than a UDP datagram on an Ethernet carries.
const maxMessage = 2048

// Open opens the client's socket: UDP port 546, bound to the link. Call it in the
// WAN's namespace (netns.Do); the file is the caller's to close once it is sent.
// The link need not have an address yet.
func Open(port string) (*os.File, error) {
	fail := func(err error) (*os.File, error) {
		return nil, fmt.Errorf("open UDP port %d on %s: %w", ClientPort, port, err)
	}
	ifi, err := net.InterfaceByName(port)
	if err != nil {
		return fail(err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 1),
		// The old child's socket may be there for a moment yet.
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.BindToDevice(fd, port),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_MULTICAST_IF, ifi.Index),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_MULTICAST_LOOP, 0),
		unix.Bind(fd, &unix.SockaddrInet6{Port: ClientPort}),
	)
	if err != nil {
		unix.Close(fd)
		return fail(err)
	}
	return os.NewFile(uintptr(fd), "dhcp6-"+port), nil
}

// client is a running Worker.
type client struct {
	parent *worker.Conn
	log    *slog.Logger
	engine *Engine

	conn net.PacketConn // of the last order that brought one
	port string
	stop func()

	messages chan received
	note     string // of the last lease, logged once
}

type received struct {
	m    *dhcpv6.Message
	from netip.Addr
}

// Run is the worker's life: see worker.Kind.
func Run(ctx context.Context, parent *worker.Conn, log *slog.Logger) error {
	c := &client{parent: parent, log: log, stop: func() {}, messages: make(chan received)}
	return worker.Obey(ctx, parent, c.loop)
}

func (c *client) loop(ctx context.Context, orders <-chan worker.Order[Config]) error {
	defer func() { c.stop() }()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var out Out
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-orders:
			var err error
			if out, err = c.obey(ctx, o); err != nil {
				return err
			}
		case m := <-c.messages:
			out = c.engine.Receive(time.Now(), m.m, m.from)
		case <-timer.C:
			out = c.engine.Tick(time.Now())
		}
		if err := c.do(out); err != nil {
			return err
		}
		timer.Reset(time.Until(c.engine.Next()))
	}
}

// obey takes a configuration, and the socket if one came.
func (c *client) obey(ctx context.Context, o worker.Order[Config]) (Out, error) {
	if o.Value.Passed {
		if err := c.take(ctx, o); err != nil {
			return Out{}, err
		}
	}
	if c.conn == nil {
		return Out{}, errors.New("the DHCPv6 client's first message has no socket")
	}
	if c.engine != nil {
		return c.engine.Configure(o.Value, time.Now())
	}
	c.log = c.log.With("wan", o.Value.WAN)
	clock, err := state.ReadClock()
	if err != nil {
		return Out{}, err
	}
	var out Out
	c.engine, out, err = New(o.Value, time.Now(), clock, random)
	return out, err
}

// random is a number that nobody can guess.
func random() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return binary.NativeEndian.Uint32(b[:])
}

// take replaces the socket, and what reads it.
func (c *client) take(ctx context.Context, o worker.Order[Config]) error {
	c.stop()
	c.conn = nil
	if len(o.Files) != 1 {
		for _, f := range o.Files {
			_ = f.Close() // sockets
		}
		return fmt.Errorf("%d files came for the one socket of WAN %s", len(o.Files), o.Value.WAN)
	}
	conn, err := net.FilePacketConn(o.Files[0])
	if err = errors.Join(err, o.Files[0].Close()); err != nil {
		return fmt.Errorf("take the socket of WAN %s: %w", o.Value.WAN, err)
	}
	c.conn, c.port = conn, o.Value.Port
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return c.read(ctx, conn) })
	c.stop = func() {
		cancel()
		_ = conn.Close() // wakes the reader
		_ = g.Wait()     // what it ends with was logged
		c.stop = func() {}
	}
	return nil
}

func (c *client) read(ctx context.Context, conn net.PacketConn) error {
	b := make([]byte, maxMessage)
	for {
		n, src, err := conn.ReadFrom(b)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENETDOWN):
			continue // told once, when the link went down
		case err != nil:
			// The client goes on: the parent sends a new socket when the port is
			// there again.
			c.log.Error("the DHCPv6 client's socket broke", "err", err)
			return err
		}
		udp, ok := src.(*net.UDPAddr)
		if !ok {
			continue
		}
		from := udp.AddrPort().Addr().WithZone("")
		m, err := decode(b[:n])
		if err != nil {
			c.log.Debug("message to the DHCPv6 client", "from", from, "err", err)
			continue
		}
		select {
		case c.messages <- received{m, from}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// do carries out what the engine wants. A message that could not be sent, because
// the link has no address yet, is logged: the engine sends another when nobody
// answers.
func (c *client) do(out Out) error {
	if out.Send != nil {
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(allServers().WithZone(c.port), ServerPort))
		if _, err := c.conn.WriteTo(out.Send.ToBytes(), to); err != nil {
			c.log.Debug("a message of the DHCPv6 client was not sent", "message", out.Send.MessageType.String(), "err", err)
		} else {
			c.log.Debug("sent", "message", out.Send.MessageType.String())
		}
	}
	if out.Report == nil {
		return nil
	}
	c.say(*out.Report)
	return c.parent.Send(*out.Report)
}

func (c *client) say(r Report) {
	if r.Tries <= 1 {
		c.log.Info("dhcpv6 client", "state", r.State.String(), "event", r.Event)
	}
	if r.Lease != nil && r.Lease.Note != c.note {
		if c.note = r.Lease.Note; c.note != "" {
			c.log.Warn("the lease is odd", "server", r.Lease.Server, "note", c.note)
		}
	}
}
