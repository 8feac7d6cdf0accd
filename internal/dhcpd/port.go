package dhcpd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sync/errgroup"

	"weir/internal/ether"
	"weir/internal/worker"
)

// port is what a LAN is served by.
type port struct {
	dhcp, arp *ether.Conn
	udp       *os.File
	probing   bool // arp lets frames in
	stop      func()
}

// frame is what came in on a LAN: one of the two.
type frame struct {
	lan    string
	packet *dhcpv4.DHCPv4
	from   ether.MAC
	ucast  bool
	arp    *ether.ARP
}

// Stop ends the reading and closes the sockets.
func (p *port) Stop() { p.stop() }

// take makes the served LANs those of the configuration.
func (s *server) take(ctx context.Context, cfg Config, files []*os.File) error {
	var lans []worker.Passed
	for _, l := range cfg.LANs {
		lans = append(lans, worker.Passed{LAN: l.Name, Files: len(l.Sockets)})
	}
	return s.ports.Take(lans, files, func(i int, files []*os.File) (*port, error) { return s.open(ctx, cfg.LANs[i], files) })
}

// open starts to read a LAN's sockets.
func (s *server) open(ctx context.Context, l LAN, files []*os.File) (*port, error) {
	p := &port{}
	var err error
	for i, name := range l.Sockets {
		switch name {
		case SocketDHCP:
			p.dhcp, err = ether.NewConn(files[i])
		case SocketARP:
			p.arp, err = ether.NewConn(files[i])
		case SocketUDP:
			p.udp = files[i]
		default:
			err = fmt.Errorf("no socket is called %q here", name)
		}
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("take the sockets of LAN %s: %w", l.Name, err)
		}
	}
	if p.dhcp == nil || p.arp == nil || p.udp == nil {
		closeAll(files)
		return nil, fmt.Errorf("LAN %s: sockets %q came, and all of %s, %s, %s are needed", l.Name, l.Sockets, SocketDHCP, SocketARP, SocketUDP)
	}
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return s.readDHCP(ctx, l.Name, p.dhcp) })
	g.Go(func() error { return s.readARP(ctx, l.Name, p.arp) })
	p.stop = func() {
		cancel()
		_ = g.Wait() // what they end with was logged
		_ = errors.Join(p.dhcp.Close(), p.arp.Close(), p.udp.Close())
	}
	return p, nil
}

// framesAtOnce is how many messages are handed to the loop together, where as
// many wait to be read.
const framesAtOnce = 64

func (s *server) readDHCP(ctx context.Context, lan string, conn *ether.Conn) error {
	b := make([]byte, ether.MaxFrame)
	for {
		raw, partial, err := conn.Read(ctx, b)
		if err != nil {
			return s.ended(ctx, lan, err)
		}
		var frames []frame
		for err == nil {
			if f, ok := s.message(lan, raw, partial); ok {
				frames = append(frames, f)
			}
			if len(frames) == framesAtOnce {
				break
			}
			raw, partial, err = conn.ReadNow(b) // what else is wrong than EAGAIN, Read says, too
		}
		if len(frames) == 0 {
			continue
		}
		select {
		case s.frames <- frames:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// message reads a frame; false if it is none of a client's or relay's.
func (s *server) message(lan string, raw []byte, partial bool) (frame, bool) {
	u, err := ether.ParseUDP(raw, partial)
	if err != nil {
		s.log.Debug("frame to the DHCP server's port", "lan", lan, "err", err)
		return frame{}, false
	}
	p, err := parse(u.Payload)
	if err != nil {
		s.log.Debug("message to the DHCP server", "lan", lan, "mac", u.SrcMAC.String(), "err", err)
		return frame{}, false
	}
	return frame{lan: lan, packet: p, from: u.SrcMAC, ucast: !u.DstMAC.IsGroup()}, true
}

func (s *server) readARP(ctx context.Context, lan string, conn *ether.Conn) error {
	b := make([]byte, ether.MaxFrame)
	for {
		raw, _, err := conn.Read(ctx, b)
		if err != nil {
			return s.ended(ctx, lan, err)
		}
		a, err := ether.ParseARP(raw)
		if err != nil {
			continue
		}
		select {
		case s.frames <- []frame{{lan: lan, arp: &a}}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ended says why a socket is read no more. The others go on; the parent sends
// new ones when the link is there again.
func (s *server) ended(ctx context.Context, lan string, err error) error {
	if ctx.Err() == nil {
		s.log.Error("a socket of the DHCP server broke", "lan", lan, "err", err)
	}
	return err
}
