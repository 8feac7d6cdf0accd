package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/net/ipv6"
)

// delegator is an ISP's DHCPv6 server: it delegates a prefix to its one customer,
// and routes it to whoever was given it (RFC 8415, 14.1).
type delegator struct {
	isp  *ISP
	conn *net.UDPConn
	duid dhcpv6.DUID

	mu     sync.Mutex
	prefix netip.Prefix // what is delegated; invalid: nothing is left
	gone   netip.Prefix // what was before: valid no more
	to     netip.Addr   // whom it is routed to
	forgot bool         // knows of no lease until it is asked anew
	heard  []dhcpv6.MessageType
}

func (i *ISP) delegate() error {
	hw, err := i.Router.MAC("cust0")
	if err != nil {
		return err
	}
	d := &delegator{isp: i, prefix: i.Delegate6, duid: &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: hw}}
	err = i.Router.Do(func() error {
		ifi, err := net.InterfaceByName("cust0")
		if err != nil {
			return err
		}
		if d.conn, err = net.ListenUDP("udp6", &net.UDPAddr{Port: dhcpv6.DefaultServerPort}); err != nil {
			return err
		}
		return ipv6.NewPacketConn(d.conn).JoinGroup(ifi, &net.UDPAddr{IP: dhcpv6.AllDHCPRelayAgentsAndServers})
	})
	if err != nil {
		return fmt.Errorf("DHCPv6 server of isp-%s: %w", i.Name, err)
	}
	i.pd = d
	i.lab.onClose(d.conn.Close)
	i.lab.run(d.serve)
	return nil
}

func (d *delegator) serve() {
	b := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		q, err := dhcpv6.MessageFromBytes(b[:n])
		if err != nil {
			continue
		}
		r, err := d.handle(q, from.Addr())
		if err != nil {
			d.isp.lab.Log.Warn("isp can't answer dhcpv6", "wan", d.isp.Name, "err", err)
		}
		if r == nil {
			continue
		}
		if _, err := d.conn.WriteToUDPAddrPort(r.ToBytes(), from); err != nil {
			d.isp.lab.Log.Debug("isp can't answer dhcpv6", "wan", d.isp.Name, "addr", from, "err", err)
		}
	}
}

// handle answers a message, or doesn't: nil.
func (d *delegator) handle(q *dhcpv6.Message, from netip.Addr) (*dhcpv6.Message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = append(d.heard, q.MessageType)
	asked := q.Options.OneIAPD()
	if asked == nil || q.Options.ClientID() == nil {
		return nil, nil
	}
	answer := dhcpv6.MessageTypeReply
	rapid := q.GetOneOption(dhcpv6.OptionRapidCommit) != nil && !d.isp.FourMessages
	switch q.MessageType {
	case dhcpv6.MessageTypeSolicit:
		d.forgot = false
		if !rapid {
			answer = dhcpv6.MessageTypeAdvertise
		}
	case dhcpv6.MessageTypeRequest:
		d.forgot = false
	case dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind, dhcpv6.MessageTypeRelease:
	default:
		return nil, nil
	}
	r := &dhcpv6.Message{MessageType: answer, TransactionID: q.TransactionID}
	r.AddOption(dhcpv6.OptClientID(q.Options.ClientID()))
	r.AddOption(dhcpv6.OptServerID(d.duid))
	if rapid && q.MessageType == dhcpv6.MessageTypeSolicit {
		r.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
	}
	ia := &dhcpv6.OptIAPD{IaId: asked.IaId}
	r.AddOption(ia)
	switch {
	case q.MessageType == dhcpv6.MessageTypeRelease:
		return r, nil
	case d.forgot:
		ia.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoBinding})
		return r, nil
	case !d.prefix.IsValid():
		ia.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoPrefixAvail})
	default:
		ia.Options.Add(&dhcpv6.OptIAPrefix{Prefix: ipNet(d.prefix), PreferredLifetime: d.isp.Lease, ValidLifetime: 2 * d.isp.Lease})
	}
	for _, p := range asked.Options.Prefixes() {
		if d.gone.IsValid() && p.Prefix.String() == d.gone.String() {
			ia.Options.Add(&dhcpv6.OptIAPrefix{Prefix: p.Prefix})
		}
	}
	if answer == dhcpv6.MessageTypeReply && d.prefix.IsValid() {
		from = from.WithZone("")
		if d.to != from {
			d.to = from
			return r, d.route(d.prefix)
		}
	}
	return r, nil
}

// route leads a prefix to the customer. mu is held.
func (d *delegator) route(p netip.Prefix) error {
	d.isp.mu.Lock()
	d.isp.given6 = append(d.isp.given6, p)
	d.isp.mu.Unlock()
	return first(d.isp.Router.Route(p, d.to, "cust0"), d.isp.Inet.localRoute(p, upLink, "eth0"))
}

// Redelegate has the ISP delegate another prefix in place of the present one,
// which leads nowhere from now on; an invalid one: none at all. The customer hears
// of it when it asks.
func (i *ISP) Redelegate(to netip.Prefix) error {
	d := i.pd
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.to.IsValid() && d.prefix.IsValid() {
		err = i.noRouteTo(d.prefix)
	}
	d.gone, d.prefix, d.to = d.prefix, to, netip.Addr{}
	return err
}

// Forget has the DHCPv6 server say NoBinding until it is asked anew.
func (i *ISP) Forget() {
	i.pd.mu.Lock()
	defer i.pd.mu.Unlock()
	i.pd.forgot = true
}

// Heard6 is what the ISP's DHCPv6 server was sent so far.
func (i *ISP) Heard6() []dhcpv6.MessageType {
	i.pd.mu.Lock()
	defer i.pd.mu.Unlock()
	return append([]dhcpv6.MessageType(nil), i.pd.heard...)
}

// Delegated is what the ISP delegates now.
func (i *ISP) Delegated() netip.Prefix {
	if i.pd == nil {
		return netip.Prefix{}
	}
	i.pd.mu.Lock()
	defer i.pd.mu.Unlock()
	return i.pd.prefix
}
