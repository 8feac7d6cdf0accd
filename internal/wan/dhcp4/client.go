package dhcp4

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

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/ipv4"
	"golang.org/x/sync/errgroup"

	"weir/internal/ether"
	"weir/internal/state"
	"weir/internal/worker"
)

// Worker is the client of one WAN. It takes Config and sends Report.
var Worker = worker.Kind{Name: "dhcp4", Run: Run}

// Open opens the sockets that a client on port needs, in the order of names for
// Config.Sockets. Call it in the WAN's namespace (netns.Do); the files are the
// caller's to close once they are sent.
func Open(port string) (names []string, files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			names, files = nil, nil
		}
	}()
	for _, s := range []struct {
		name string
		open func() (*os.File, error)
	}{
		{SocketDHCP, func() (*os.File, error) { return ether.Open(port, ether.TypeIPv4, ether.ToUDP(dhcpv4.ClientPort)) }},
		{SocketARP, func() (*os.File, error) { return ether.Open(port, ether.TypeARP, ether.Nothing()) }},
		{SocketUDP, func() (*os.File, error) { return ether.OpenUDP(dhcpv4.ClientPort, "") }},
	} {
		f, err := s.open()
		if err != nil {
			return names, files, err
		}
		names, files = append(names, s.name), append(files, f)
	}
	return names, files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // sockets
	}
}

// client is a running Worker.
type client struct {
	parent *worker.Conn
	log    *slog.Logger
	engine *Engine

	// The sockets, of the last order that brought some.
	dhcp, arp *ether.Conn
	udp       *ipv4.PacketConn
	watching  bool // arp lets frames in
	stop      func()

	messages  chan received
	conflicts chan ether.ARP
	note      string // of the last lease, logged once
}

type received struct {
	packet *dhcpv4.DHCPv4
	from   ether.MAC
}

// Run is the worker's life: see worker.Kind.
func Run(ctx context.Context, parent *worker.Conn, log *slog.Logger) error {
	c := &client{
		parent: parent, log: log, stop: func() {},
		messages: make(chan received), conflicts: make(chan ether.ARP),
	}
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
			out = c.engine.Receive(time.Now(), m.packet, m.from)
		case a := <-c.conflicts:
			out = c.engine.Conflict(time.Now(), a)
		case <-timer.C:
			out = c.engine.Tick(time.Now())
		}
		if err := c.do(ctx, out); err != nil {
			return err
		}
		timer.Reset(time.Until(c.engine.Next()))
	}
}

// obey takes a configuration, and the sockets if some came.
func (c *client) obey(ctx context.Context, o worker.Order[Config]) (Out, error) {
	if len(o.Value.Sockets) > 0 {
		if err := c.take(ctx, o); err != nil {
			return Out{}, err
		}
	}
	if c.dhcp == nil || c.arp == nil || c.udp == nil {
		return Out{}, errors.New("the DHCP client's first message has no sockets")
	}
	if c.engine != nil {
		return c.engine.Configure(o.Value, time.Now())
	}
	c.log = c.log.With("wan", o.Value.WAN)
	var out Out
	clock, err := state.ReadClock()
	if err != nil {
		return out, err
	}
	c.engine, out, err = New(o.Value, time.Now(), clock, random)
	return out, err
}

// random is a number that nobody can guess.
func random() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return binary.NativeEndian.Uint32(b[:])
}

// take replaces the sockets, and what reads them.
func (c *client) take(ctx context.Context, o worker.Order[Config]) error {
	c.stop()
	if len(o.Value.Sockets) != len(o.Files) {
		closeAll(o.Files)
		return fmt.Errorf("%d files came for the sockets %q", len(o.Files), o.Value.Sockets)
	}
	c.dhcp, c.arp, c.udp, c.watching = nil, nil, nil, false
	var err error
	for i, name := range o.Value.Sockets {
		f := o.Files[i]
		switch name {
		case SocketDHCP:
			c.dhcp, err = ether.NewConn(f)
		case SocketARP:
			c.arp, err = ether.NewConn(f)
		case SocketUDP:
			var pc net.PacketConn
			if pc, err = net.FilePacketConn(f); err == nil {
				c.udp = ipv4.NewPacketConn(pc)
			}
			err = errors.Join(err, f.Close())
		default:
			err = fmt.Errorf("no socket is called %q here", name)
		}
		if err != nil {
			closeAll(o.Files[i:])
			return fmt.Errorf("take the sockets of WAN %s: %w", o.Value.WAN, err)
		}
	}
	if c.dhcp == nil || c.arp == nil || c.udp == nil {
		return fmt.Errorf("sockets %q came, and all of %s, %s, %s are needed", o.Value.Sockets, SocketDHCP, SocketARP, SocketUDP)
	}
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	dhcp, arp, udp := c.dhcp, c.arp, c.udp
	g.Go(func() error { return c.readDHCP(ctx, dhcp) })
	g.Go(func() error { return c.readARP(ctx, arp) })
	c.stop = func() {
		cancel()
		_ = g.Wait() // what they end with was logged
		_ = errors.Join(dhcp.Close(), arp.Close(), udp.Close())
		c.stop = func() {}
	}
	return nil
}

func (c *client) readDHCP(ctx context.Context, conn *ether.Conn) error {
	b := make([]byte, ether.MaxFrame)
	for {
		frame, partial, err := conn.Read(ctx, b)
		if err != nil {
			return c.ended(ctx, err)
		}
		u, err := ether.ParseUDP(frame, partial)
		if err != nil {
			c.log.Debug("frame to the DHCP client's port", "err", err)
			continue
		}
		p, err := decode(u.Payload)
		if err != nil {
			c.log.Debug("message to the DHCP client", "from", u.Src, "mac", u.SrcMAC, "err", err)
			continue
		}
		select {
		case c.messages <- received{p, u.SrcMAC}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *client) readARP(ctx context.Context, conn *ether.Conn) error {
	b := make([]byte, ether.MaxFrame)
	for {
		frame, _, err := conn.Read(ctx, b)
		if err != nil {
			return c.ended(ctx, err)
		}
		a, err := ether.ParseARP(frame)
		if err != nil {
			continue
		}
		select {
		case c.conflicts <- a:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ended says why a socket is read no more. The client goes on: the parent sends
// new sockets when the port is there again.
func (c *client) ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		c.log.Error("the DHCP client's socket broke", "err", err)
	}
	return err
}

// do carries out what the engine wants. A packet that could not be sent is
// logged: the engine sends another when nobody answers.
func (c *client) do(ctx context.Context, out Out) error {
	if out.Watch {
		if err := c.arp.SetFilter(ether.ARPAbout(out.Probe)); err != nil {
			c.log.Warn("the offered address is taken without a check", "addr", out.Probe, "err", err)
		}
		c.watching = true
	}
	if out.Probe.IsValid() {
		c.sent("ARP probe", c.arp.Write(ctx, ether.Probe(c.engine.mac, out.Probe).Frame()))
	}
	if c.watching && c.engine.State() != Probing {
		if err := c.arp.SetFilter(ether.Nothing()); err != nil {
			c.log.Warn("ARP is still read", "err", err)
		}
		c.watching = false
	}
	if out.Broadcast != nil {
		src := out.Source
		if !src.IsValid() {
			src = netip.IPv4Unspecified()
		}
		c.frame(ctx, ether.Broadcast, src, netip.AddrFrom4([4]byte{255, 255, 255, 255}), out.Broadcast)
	}
	if out.Release != nil {
		c.frame(ctx, out.Via, out.From, out.Server, out.Release)
	}
	if out.Unicast != nil {
		_, err := c.udp.WriteTo(out.Unicast.ToBytes(), &ipv4.ControlMessage{Src: out.From.AsSlice()},
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(out.Server, dhcpv4.ServerPort)))
		c.sent("renewal to "+out.Server.String(), err)
	}
	if out.Report == nil {
		return nil
	}
	c.say(*out.Report)
	return c.parent.Send(*out.Report)
}

// frame sends a message by the packet socket, which needs neither addresses nor routes.
func (c *client) frame(ctx context.Context, to ether.MAC, src, dst netip.Addr, p *dhcpv4.DHCPv4) {
	u := ether.UDP{
		SrcMAC: c.engine.mac, DstMAC: to,
		Src: netip.AddrPortFrom(src, dhcpv4.ClientPort), Dst: netip.AddrPortFrom(dst, dhcpv4.ServerPort),
		Payload: p.ToBytes(),
	}
	c.sent(p.MessageType().String(), c.dhcp.Write(ctx, u.Frame()))
}

func (c *client) sent(what string, err error) {
	if err != nil {
		c.log.Warn("a message of the DHCP client was not sent", "message", what, "err", err)
		return
	}
	c.log.Debug("sent", "message", what)
}

func (c *client) say(r Report) {
	if r.Tries <= 1 {
		c.log.Info("dhcp client", "state", r.State.String(), "event", r.Event)
	}
	if r.Lease != nil && r.Lease.Note != c.note {
		if c.note = r.Lease.Note; c.note != "" {
			c.log.Warn("the lease is odd", "addr", r.Lease.Addr, "server", r.Lease.Server, "note", c.note)
		}
	}
}
