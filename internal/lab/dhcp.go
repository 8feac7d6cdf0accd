package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
)

// dhcpServer is an ISP's DHCP server for its one customer.
type dhcpServer struct {
	isp  *ISP
	conn *net.UDPConn

	mu     sync.Mutex
	deaf   bool
	refuse bool // NAK until the customer asks anew
	log    []DHCPEvent
}

// DHCPEvent is a message that the ISP's server got.
type DHCPEvent struct {
	At     time.Time
	Type   dhcpv4.MessageType
	Answer dhcpv4.MessageType // MessageTypeNone: none
	Addr   netip.Addr         // the address it is about, if it names one
}

func (i *ISP) serveDHCP() error {
	s := &dhcpServer{isp: i}
	err := i.Router.Do(func() (err error) {
		s.conn, err = server4.NewIPv4UDPConn("cust0", &net.UDPAddr{Port: dhcpv4.ServerPort})
		return err
	})
	if err != nil {
		return fmt.Errorf("DHCP server of isp-%s: %w", i.Name, err)
	}
	i.dhcp = s
	i.lab.onClose(s.conn.Close)
	i.lab.run(s.serve)
	return nil
}

func (s *dhcpServer) serve() {
	b := make([]byte, 1500)
	for {
		n, _, err := s.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		q, err := dhcpv4.FromBytes(b[:n])
		if err != nil || q.OpCode != dhcpv4.OpcodeBootRequest {
			continue
		}
		r, err := s.handle(q)
		if err != nil || r == nil {
			continue
		}
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), dhcpv4.ClientPort)
		if ci, ok := netip.AddrFromSlice(q.ClientIPAddr.To4()); ok && !ci.IsUnspecified() && r.MessageType() == dhcpv4.MessageTypeAck {
			to = netip.AddrPortFrom(ci, dhcpv4.ClientPort)
		}
		if _, err := s.conn.WriteToUDPAddrPort(r.ToBytes(), to); err != nil {
			s.isp.lab.Log.Debug("isp can't answer dhcp", "wan", s.isp.Name, "addr", to, "err", err)
		}
	}
}

// handle answers a message, or doesn't: nil.
func (s *dhcpServer) handle(q *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isp.mu.Lock()
	mine, router := s.isp.Customer4[0], s.isp.Router4
	s.isp.mu.Unlock()

	asked, _ := netip.AddrFromSlice(q.RequestedIPAddress().To4())
	if ci, ok := netip.AddrFromSlice(q.ClientIPAddr.To4()); ok && !ci.IsUnspecified() {
		asked = ci
	}
	ev := DHCPEvent{At: time.Now(), Type: q.MessageType(), Addr: asked}
	defer func() { s.log = append(s.log, ev) }()
	if s.deaf {
		return nil, nil
	}
	answer := dhcpv4.MessageTypeNone
	switch q.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		s.refuse = false
		answer = dhcpv4.MessageTypeOffer
	case dhcpv4.MessageTypeRequest:
		if id := q.ServerIdentifier(); id != nil && !id.Equal(router.AsSlice()) {
			return nil, nil
		}
		answer = dhcpv4.MessageTypeAck
		if s.refuse || asked != mine.Addr() {
			answer = dhcpv4.MessageTypeNak
		}
	case dhcpv4.MessageTypeInform:
		answer = dhcpv4.MessageTypeAck
	}
	if answer == dhcpv4.MessageTypeNone {
		return nil, nil
	}
	ev.Answer = answer
	opts := []dhcpv4.Modifier{
		dhcpv4.WithMessageType(answer),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(router.AsSlice())),
	}
	if answer != dhcpv4.MessageTypeNak {
		opts = append(opts,
			dhcpv4.WithYourIP(mine.Addr().AsSlice()),
			dhcpv4.WithNetmask(net.CIDRMask(mine.Bits(), 32)),
			dhcpv4.WithRouter(router.AsSlice()),
			dhcpv4.WithDNS(router.AsSlice()),
			dhcpv4.WithLeaseTime(uint32(s.isp.Lease/time.Second)),
		)
	}
	return dhcpv4.NewReplyFromRequest(q, opts...)
}

// Deaf has the DHCP server hear nothing any more, or listen again.
func (i *ISP) Deaf(on bool) {
	i.dhcp.mu.Lock()
	defer i.dhcp.mu.Unlock()
	i.dhcp.deaf = on
}

// Refuse has the DHCP server answer requests with NAK until the customer begins
// anew with a DISCOVER.
func (i *ISP) Refuse() {
	i.dhcp.mu.Lock()
	defer i.dhcp.mu.Unlock()
	i.dhcp.refuse = true
}

// DHCPLog is what the ISP's DHCP server has got so far.
func (i *ISP) DHCPLog() []DHCPEvent {
	i.dhcp.mu.Lock()
	defer i.dhcp.mu.Unlock()
	return append([]DHCPEvent(nil), i.dhcp.log...)
}

// Renumber4 gives the customer another address: the old one is refused when it
// is asked for and leads nowhere from now on.
func (i *ISP) Renumber4(to netip.Prefix, router netip.Addr) error {
	i.mu.Lock()
	old := i.Customer4
	i.Customer4, i.Router4 = []netip.Prefix{to}, router
	i.given4 = append(i.given4, to.Addr())
	i.routers4 = append(i.routers4, router)
	i.mu.Unlock()
	for _, p := range old {
		if p.Masked() == to.Masked() {
			return nil
		}
		if err := i.noRouteTo(p); err != nil {
			return err
		}
	}
	return first(i.Router.AddAddr("cust0", netip.PrefixFrom(router, 32)), i.routeTo(to))
}

// Expire forgets the way to the customer's IPv4 address, as at its lease's end,
// or finds it again.
func (i *ISP) Expire(on bool) error {
	i.mu.Lock()
	p := i.Customer4[0]
	i.mu.Unlock()
	if on {
		return i.noRouteTo(p)
	}
	return i.routeTo(p)
}
