package dhcpd

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

func mac(n byte) ether.MAC { return ether.MAC{2, 0, 0, 0, 0, n} }

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// home is a LAN with four addresses in its pool.
func home() LAN {
	return LAN{
		Name: "home", Link: "eth0", MAC: gwMAC.String(), Address: netip.MustParsePrefix("172.31.0.1/24"),
		Pool: []Range{{ip("172.31.0.100"), ip("172.31.0.103")}}, Lease: 12 * time.Hour,
		Router: ip("172.31.0.1"), DNS: []netip.Addr{ip("172.31.0.1")}, Domain: "local",
		Hosts: []Host{
			{Name: "nas", DNSName: "store", Addr: ip("172.31.0.23"), MAC: []string{mac(0x23).String()}},
			{Name: "laptop", DNSName: "laptop", Addr: ip("172.31.0.50"), MAC: []string{mac(0x51).String(), mac(0x52).String()}},
		},
	}
}

// house is an engine and the world around it.
type house struct {
	t     *testing.T
	e     *Engine
	now   time.Time
	clock state.Clock
	began time.Time
	disk  map[netip.Addr]state.Lease
	full  bool                     // the disk takes nothing
	arp   map[netip.Addr]ether.MAC // who answers for an address
	xid   byte
	said  []string // events
	last  *Reply
	took  time.Duration // the last exchange
}

func newHouse(t *testing.T, l LAN, leases ...state.Lease) *house {
	t.Helper()
	now := time.Now()
	h := &house{
		t: t, now: now, began: now, clock: state.Clock{Wall: now.Round(0), Boot: "this boot", Up: time.Hour},
		disk: map[netip.Addr]state.Lease{}, arp: map[netip.Addr]ether.MAC{},
	}
	h.start(l, leases)
	return h
}

func (h *house) start(l LAN, leases []state.Lease) {
	h.t.Helper()
	c := h.clock
	c.Up += h.now.Sub(h.began)
	c.Wall = c.Wall.Add(h.now.Sub(h.began))
	h.e = New(h.now, c)
	h.e.Load(h.now, leases)
	if err := h.e.Configure(h.now, Config{LANs: []LAN{l}}); err != nil {
		h.t.Fatal(err)
	}
}

// restart is a new child, which knows what is on disk.
func (h *house) restart(l LAN) {
	h.t.Helper()
	var leases []state.Lease
	for _, l := range h.disk {
		leases = append(leases, l)
	}
	slices.SortFunc(leases, func(a, b state.Lease) int { return a.Addr.Compare(b.Addr) })
	h.start(l, leases)
}

func (h *house) do(o Out) {
	h.t.Helper()
	for _, l := range o.Keep {
		h.keep(l)
	}
	for _, ev := range o.Events {
		h.said = append(h.said, fmt.Sprintf("%s %s %s: %s", ev.Text, ev.Addr, ev.MAC, ev.Why))
	}
	for _, r := range o.Replies {
		if r.Keep != nil {
			h.keep(*r.Keep)
		}
		b := r.Packet.ToBytes()
		if len(b) < 300 || len(b) > 1472 {
			h.t.Errorf("a reply of %d bytes", len(b))
		}
		p, err := dhcpv4.FromBytes(b)
		if err != nil {
			h.t.Fatal(err)
		}
		r.Packet = p
		h.last = &r
	}
	for _, p := range o.Probes {
		if m, ok := h.arp[p.Addr]; ok {
			h.do(h.e.ARP(h.now, p.LAN, ether.ARP{Op: ether.ARPReply, Sender: m, SenderIP: p.Addr, Target: gwMAC, TargetIP: netip.IPv4Unspecified()}))
		}
	}
}

func (h *house) keep(l state.Lease) {
	if !h.full {
		h.disk[l.Addr] = l
		h.e.Kept(l)
	}
}

// wait lets time go by.
func (h *house) wait(d time.Duration) {
	h.t.Helper()
	end := h.now.Add(d)
	for !h.e.Next().After(end) {
		h.now = h.e.Next()
		h.do(h.e.Tick(h.now))
	}
	h.now = end
}

// send sends a message and waits a second for the answer; nil is none.
func (h *house) send(m ether.MAC, t dhcpv4.MessageType, change ...func(*dhcpv4.DHCPv4)) *Reply {
	h.t.Helper()
	h.xid++
	p := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootRequest, HWType: 1, TransactionID: dhcpv4.TransactionID{0, 0, 0, h.xid},
		ClientHWAddr: net.HardwareAddr(m[:]), Options: dhcpv4.Options{},
	}
	p.UpdateOption(dhcpv4.OptMessageType(t))
	for _, c := range change {
		c(p)
	}
	p, err := dhcpv4.FromBytes(p.ToBytes())
	if err != nil {
		h.t.Fatal(err)
	}
	h.last = nil
	from := h.now
	h.do(h.e.Handle(h.now, "home", p, m, !addrOf(p.ClientIPAddr).IsUnspecified()))
	for h.last == nil && h.e.Next().Sub(from) < time.Second && h.e.Probing("home") {
		h.now = h.e.Next()
		h.do(h.e.Tick(h.now))
	}
	h.took = h.now.Sub(from)
	return h.last
}

func option(code uint8, b ...byte) func(*dhcpv4.DHCPv4) {
	return func(p *dhcpv4.DHCPv4) {
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(code), b))
	}
}

func wants(a string) func(*dhcpv4.DHCPv4) { return option(50, ip(a).AsSlice()...) }

func serverID(a string) func(*dhcpv4.DHCPv4) { return option(54, ip(a).AsSlice()...) }

func uses(a string) func(*dhcpv4.DHCPv4) {
	return func(p *dhcpv4.DHCPv4) { p.ClientIPAddr = ip(a).AsSlice() }
}

func words(r *Reply) string {
	if r == nil {
		return "silence"
	}
	switch t := r.Packet.MessageType(); t {
	case dhcpv4.MessageTypeNak:
		return "NAK"
	default:
		return t.String() + " " + r.Packet.YourIPAddr.String()
	}
}

// get is a whole exchange; it returns the address.
func (h *house) get(m ether.MAC, change ...func(*dhcpv4.DHCPv4)) string {
	h.t.Helper()
	r := h.send(m, dhcpv4.MessageTypeDiscover, change...)
	if r == nil {
		return "nothing"
	}
	a := r.Packet.YourIPAddr.String()
	if got := h.took; r.Packet.MessageType() != dhcpv4.MessageTypeOffer || got > 400*time.Millisecond {
		h.t.Errorf("%s after %v", words(r), got)
	}
	r = h.send(m, dhcpv4.MessageTypeRequest, append(change, wants(a), serverID("172.31.0.1"))...)
	if words(r) != "ACK "+a {
		h.t.Errorf("offered %s, then %s", a, words(r))
	}
	if !h.full && h.disk[ip(a)].Duration == 0 {
		h.t.Errorf("%s was given and is not on disk", a)
	}
	return a
}

func (h *house) want(what, got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Errorf("%s: %s, want %s; log:\n%s", what, got, want, strings.Join(h.said, "\n"))
	}
}
