package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"weir/internal/ether"
)

// Crowd is many DHCP clients behind one port. Each has an Ethernet address of its
// own, of its number: it stands in the messages only, and answers are broadcast.
type Crowd struct {
	// Named clients call themselves cNUMBER (option 12).
	Named bool
	// Again is after how long a client says again what was not answered.
	Again time.Duration

	conn *ether.Conn
	port ether.MAC
	xid  uint32 // the last
}

// Crowd makes the clients behind a machine's port. They last as long as the lab.
func (h *Host) Crowd(dev string) (*Crowd, error) {
	c := &Crowd{Again: time.Second}
	err := h.Do(func() error {
		ifi, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		c.port = ether.MAC(ifi.HardwareAddr)
		f, err := ether.Open(dev, ether.TypeIPv4, ether.ToUDP(dhcpv4.ClientPort))
		if err != nil {
			return err
		}
		c.conn, err = ether.NewConn(f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("a crowd at %s of %s: %w", dev, h, err)
	}
	return c, nil
}

// Card is the Ethernet address of a client.
func (c *Crowd) Card(client uint32) net.HardwareAddr {
	hw := net.HardwareAddr{2, 0xc, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(hw[2:], client)
	return hw
}

// Wish is what a client of a crowd wants.
type Wish uint8

// The wishes.
const (
	_         Wish = iota
	ToLease        // DISCOVER to ACK; from the start again after a NAK
	ToRenew        // what it has, as at T2: by broadcast
	ToReboot       // with what it had (INIT-REBOOT)
	ToRelease      // nobody answers
)

// Exchange is one of a client's, and how it went.
type Exchange struct {
	Client uint32
	Wish   Wish
	Addr   netip.Addr // that it has, or had; of ToLease: that it got

	OK   bool // an ACK, or sent
	NAKs int

	xid  uint32
	last []byte // what it said
	said time.Time
}

// Do has clients of the crowd carry out what next wants, together at a time, until
// it wants no more and all have ended; those that take longer than limit are not
// OK. done is told of each. A client has one exchange at a time.
func (c *Crowd) Do(ctx context.Context, together int, limit time.Duration, next func() (Exchange, bool), done func(Exchange)) error {
	under := map[uint32]*Exchange{} // by transaction ID
	began := map[uint32]time.Time{}
	var swept time.Time
	b := make([]byte, ether.MaxFrame)
	more := true
	for {
		for more && len(under) < together {
			var e Exchange
			if e, more = next(); !more {
				break
			}
			c.xid++
			e.xid = c.xid
			if err := c.begin(&e); err != nil {
				return err
			}
			if e.Wish == ToRelease {
				e.OK = true
				done(e)
				continue
			}
			under[e.xid], began[e.xid] = &e, e.said
		}
		if len(under) == 0 {
			return nil
		}
		if now := time.Now(); now.Sub(swept) > c.Again/10 {
			swept = now
			for id, e := range under {
				switch {
				case now.Sub(began[id]) > limit:
					delete(under, id)
					delete(began, id)
					done(*e)
				case now.Sub(e.said) > c.Again:
					if err := c.say(e, e.last); err != nil {
						return err
					}
				}
			}
			continue
		}
		frame, partial, err := c.read(ctx, b)
		if err != nil {
			return err
		}
		if frame == nil {
			continue
		}
		u, err := ether.ParseUDP(frame, partial)
		if err != nil {
			continue
		}
		p, err := dhcpv4.FromBytes(u.Payload)
		if err != nil {
			continue
		}
		e := under[binary.BigEndian.Uint32(p.TransactionID[:])]
		if e == nil {
			continue
		}
		if err := c.hear(e, p); err != nil {
			return err
		}
		if e.OK || e.NAKs > 0 && e.Wish != ToLease {
			delete(under, e.xid)
			delete(began, e.xid)
			done(*e)
		}
	}
}

// read waits a moment for a frame; nil is none.
func (c *Crowd) read(ctx context.Context, b []byte) (frame []byte, partial bool, err error) {
	wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	frame, partial, err = c.conn.Read(wait, b)
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)) {
		return nil, false, nil
	}
	return frame, partial, err
}

// begin says the first message of an exchange.
func (c *Crowd) begin(e *Exchange) error {
	var p *dhcpv4.DHCPv4
	switch e.Wish {
	case ToLease:
		p = c.message(e, dhcpv4.MessageTypeDiscover)
	case ToRenew:
		p = c.message(e, dhcpv4.MessageTypeRequest)
		p.ClientIPAddr = e.Addr.AsSlice()
	case ToReboot:
		p = c.message(e, dhcpv4.MessageTypeRequest)
		p.UpdateOption(dhcpv4.OptRequestedIPAddress(e.Addr.AsSlice()))
	case ToRelease:
		p = c.message(e, dhcpv4.MessageTypeRelease)
		p.ClientIPAddr = e.Addr.AsSlice()
	default:
		return fmt.Errorf("client %d of the crowd wants nothing", e.Client)
	}
	return c.say(e, p.ToBytes())
}

// hear takes an answer.
func (c *Crowd) hear(e *Exchange, p *dhcpv4.DHCPv4) error {
	switch t := p.MessageType(); {
	case t == dhcpv4.MessageTypeAck:
		a, _ := netip.AddrFromSlice(p.YourIPAddr.To4())
		e.Addr, e.OK = a, true
	case t == dhcpv4.MessageTypeOffer && e.Wish == ToLease:
		q := c.message(e, dhcpv4.MessageTypeRequest)
		q.UpdateOption(dhcpv4.OptRequestedIPAddress(p.YourIPAddr))
		q.UpdateOption(dhcpv4.OptServerIdentifier(p.ServerIdentifier()))
		return c.say(e, q.ToBytes())
	case t == dhcpv4.MessageTypeNak:
		if e.NAKs++; e.Wish == ToLease {
			return c.begin(e)
		}
	}
	return nil
}

func (c *Crowd) message(e *Exchange, t dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	p := &dhcpv4.DHCPv4{OpCode: dhcpv4.OpcodeBootRequest, HWType: 1, ClientHWAddr: c.Card(e.Client), Options: dhcpv4.Options{}}
	binary.BigEndian.PutUint32(p.TransactionID[:], e.xid)
	p.SetBroadcast()
	p.UpdateOption(dhcpv4.OptMessageType(t))
	if c.Named {
		p.UpdateOption(dhcpv4.OptHostName(fmt.Sprintf("c%d", e.Client)))
	}
	p.UpdateOption(dhcpv4.OptParameterRequestList(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName))
	return p
}

func (c *Crowd) say(e *Exchange, payload []byte) error {
	e.last, e.said = payload, time.Now()
	u := ether.UDP{
		SrcMAC: c.port, DstMAC: ether.Broadcast, Payload: payload,
		Src: netip.MustParseAddrPort("0.0.0.0:68"), Dst: netip.MustParseAddrPort("255.255.255.255:67"),
	}
	// Where there is no room it is lost, and said again.
	if err := c.conn.WriteNow(u.Frame()); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	return nil
}
