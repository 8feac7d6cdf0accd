package dhcpd_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/netns"
)

// wire is a client of our own: it sends what it likes, in anybody's name.
type wire struct {
	l    *lab
	conn *ether.Conn
	mac  ether.MAC // of its port: where unicast replies go
	b    []byte
}

func (l *lab) wire() *wire {
	l.t.Helper()
	ns, hw := l.client()
	mac, err := ether.ParseMAC(hw)
	if err != nil {
		l.t.Fatal(err)
	}
	var f *os.File
	if err := netns.Do(ns, func() (err error) {
		f, err = ether.Open("eth0", ether.TypeIPv4, ether.ToUDP(dhcpv4.ClientPort))
		return err
	}); err != nil {
		l.t.Fatal(err)
	}
	c, err := ether.NewConn(f)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return &wire{l, c, mac, make([]byte, ether.MaxFrame)}
}

// ask sends a message in the name of a MAC, every second, and waits for an
// answer; nil if none came within the time.
func (w *wire) ask(within time.Duration, mac ether.MAC, t dhcpv4.MessageType, change func(*dhcpv4.DHCPv4)) *dhcpv4.DHCPv4 {
	w.l.t.Helper()
	p, err := dhcpv4.New()
	if err != nil {
		w.l.t.Fatal(err)
	}
	p.ClientHWAddr = net.HardwareAddr(mac[:])
	p.SetBroadcast()
	p.UpdateOption(dhcpv4.OptMessageType(t))
	if change != nil {
		change(p)
	}
	u := ether.UDP{
		SrcMAC: w.mac, DstMAC: ether.Broadcast, Payload: p.ToBytes(),
		Src: netip.MustParseAddrPort("0.0.0.0:68"), Dst: netip.MustParseAddrPort("255.255.255.255:67"),
	}
	for end := time.Now().Add(within); time.Now().Before(end); {
		if err := w.conn.Write(w.l.t.Context(), u.Frame()); err != nil {
			w.l.t.Fatal(err)
		}
		if r := w.answer(min(time.Second, time.Until(end)), p.TransactionID); r != nil {
			return r
		}
	}
	return nil
}

func (w *wire) answer(within time.Duration, xid dhcpv4.TransactionID) *dhcpv4.DHCPv4 {
	ctx, cancel := context.WithTimeout(w.l.t.Context(), within)
	defer cancel()
	for {
		frame, partial, err := w.conn.Read(ctx, w.b)
		if err != nil {
			return nil
		}
		u, err := ether.ParseUDP(frame, partial)
		if err != nil {
			continue
		}
		if r, err := dhcpv4.FromBytes(u.Payload); err == nil && r.TransactionID == xid {
			return r
		}
	}
}

func (w *wire) take(within time.Duration, mac ether.MAC, o *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	w.l.t.Helper()
	return w.ask(within, mac, dhcpv4.MessageTypeRequest, func(p *dhcpv4.DHCPv4) {
		p.UpdateOption(dhcpv4.OptRequestedIPAddress(o.YourIPAddr))
		p.UpdateOption(dhcpv4.OptServerIdentifier(o.ServerIdentifier()))
	})
}
