package dhcpd

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// large is home with all that a file can say.
func large() LAN {
	l := home()
	l.BOOTP = true
	l.Options = []Option{{Code: 42, Data: []byte{172, 31, 0, 1}}}
	l.Boot = Boot{Server: ip("172.31.0.9"), File: "undionly.kpxe"}
	l.Classes = []Class{
		{User: []string{"iPXE"}, Boot: Boot{File: "http://172.31.0.9/menu"}},
		{Vendor: []string{"PXEClient"}, Arch: []uint16{7, 9}, Boot: Boot{File: "ipxe.efi"}},
		{Vendor: []string{"HTTPClient"}, Arch: []uint16{16}, Boot: Boot{Server: ip("172.31.0.10"), File: "http://172.31.0.10/x"}, Options: []Option{{Code: 60, Data: []byte("HTTPClient")}}},
		{Vendor: []string{"phone-"}, Options: []Option{{Code: 150, Data: []byte{172, 31, 0, 8}}, {Code: 42, Data: []byte{172, 31, 0, 8}}}},
	}
	l.Subnets = []Subnet{
		{Prefix: netip.MustParsePrefix("10.0.50.0/24"), Pool: []Range{{ip("10.0.50.100"), ip("10.0.50.101")}}},
		{Prefix: netip.MustParsePrefix("10.0.60.0/24"), Pool: []Range{{ip("10.0.60.100"), ip("10.0.60.101")}}, Router: ip("10.0.60.9"), Options: []Option{{Code: 15, Data: []byte("sixty")}}},
	}
	l.Hosts = append(l.Hosts,
		Host{Name: "desk", DNSName: "desk", Addr: ip("172.31.0.60"), ClientID: []string{"6465736b", "006465736b"}},
		Host{Name: "floor", DNSName: "floor", Addr: ip("10.0.50.23"), MAC: []string{mac(0x61).String()}})
	return l
}

// A file by architecture, and iPXE that was loaded that way gets its script.
func TestWhatToBoot(t *testing.T) {
	for _, tt := range []struct {
		name         string
		change       []func(*dhcpv4.DHCPv4)
		siaddr, file string
		opt66, opt67 string
		other        uint8
		otherValue   string
	}{
		{name: "BIOS", change: []func(*dhcpv4.DHCPv4){option(60, []byte("PXEClient:Arch:00000:UNDI:002001")...), option(93, 0, 0), option(55, 1, 66, 67)},
			siaddr: "172.31.0.9", file: "undionly.kpxe", opt66: "172.31.0.9", opt67: "undionly.kpxe"},
		{name: "UEFI", change: []func(*dhcpv4.DHCPv4){option(60, []byte("PXEClient:Arch:00007:UNDI:003016")...), option(93, 0, 7), option(55, 1, 67)},
			siaddr: "172.31.0.9", file: "ipxe.efi", opt67: "ipxe.efi"},
		{name: "UEFI as a second choice", change: []func(*dhcpv4.DHCPv4){option(60, []byte("PXEClient")...), option(93, 0, 2, 0, 9), option(55, 1)},
			siaddr: "172.31.0.9", file: "ipxe.efi"},
		{name: "iPXE", change: []func(*dhcpv4.DHCPv4){option(60, []byte("PXEClient:Arch:00007")...), option(93, 0, 7), option(77, []byte("iPXE")...), option(55, 1)},
			siaddr: "172.31.0.9", file: "http://172.31.0.9/menu"},
		{name: "iPXE as RFC 3004 has it", change: []func(*dhcpv4.DHCPv4){option(77, 1, 'x', 4, 'i', 'P', 'X', 'E'), option(55, 1)},
			siaddr: "172.31.0.9", file: "http://172.31.0.9/menu"},
		{name: "HTTP boot", change: []func(*dhcpv4.DHCPv4){option(60, []byte("HTTPClient:Arch:00016")...), option(93, 0, 16), option(55, 1, 60)},
			siaddr: "172.31.0.10", file: "http://172.31.0.10/x", other: 60, otherValue: "HTTPClient"},
		{name: "a phone", change: []func(*dhcpv4.DHCPv4){option(60, []byte("phone-7")...), option(55, 1, 42)},
			siaddr: "172.31.0.9", file: "undionly.kpxe", other: 42, otherValue: "\xac\x1f\x00\x08"},
		{name: "a laptop", change: []func(*dhcpv4.DHCPv4){option(60, []byte("MSFT 5.0")...), option(77, 200, 1), option(93, 7), option(55, 1, 42)},
			siaddr: "172.31.0.9", file: "undionly.kpxe", other: 42, otherValue: "\xac\x1f\x00\x01"},
	} {
		h := newHouse(t, large())
		r := h.send(mac(1), dhcpv4.MessageTypeDiscover, tt.change...)
		p := r.Packet
		got := fmt.Sprint(p.ServerIPAddr, p.BootFileName, string(p.Options[66]), string(p.Options[67]))
		if want := fmt.Sprint(tt.siaddr, tt.file, tt.opt66, tt.opt67); got != want {
			t.Errorf("%s: %s, want %s", tt.name, got, want)
		}
		if tt.other != 0 && string(p.Options[tt.other]) != tt.otherValue {
			t.Errorf("%s: option %d is %q", tt.name, tt.other, p.Options[tt.other])
		}
	}
}

// A host by its client identifier, as text with the type 0 before it or without;
// one that is a host by its MAC is that.
func TestHostByClientID(t *testing.T) {
	h := newHouse(t, large())
	h.want("by client-id", h.get(mac(1), option(61, []byte("desk")...)), "172.31.0.60")
	h.want("another card, the same identifier", h.get(mac(2), option(61, []byte("desk")...)), "172.31.0.60")
	h.send(mac(2), dhcpv4.MessageTypeRelease, uses("172.31.0.60"), option(61, []byte("desk")...))
	h.want("with a type", h.get(mac(3), option(61, []byte("\x00desk")...)), "172.31.0.60")
	h.want("the MAC goes before", h.get(mac(0x23), option(61, []byte("desk")...)), "172.31.0.23")
	h.want("its name", h.send(mac(3), dhcpv4.MessageTypeDiscover, option(61, []byte("\x00desk")...), option(55, 12)).Packet.HostName(), "desk")
	if l := h.disk[ip("172.31.0.60")]; l.Host != "desk" {
		t.Errorf("on disk: %+v", l)
	}
	h.want("without", words(h.send(mac(4), dhcpv4.MessageTypeRequest, wants("172.31.0.60"))), "NAK")
}

// A host's address in the file is another: its client hears so when it is switched
// on, and then has the new one.
func TestReservationMoved(t *testing.T) {
	h := newHouse(t, home())
	h.want("before", h.get(mac(0x23)), "172.31.0.23")
	l := home()
	l.Hosts[0].Addr = ip("172.31.0.24")
	if err := h.e.Configure(h.now, Config{LANs: []LAN{l}}); err != nil {
		t.Fatal(err)
	}
	h.want("INIT-REBOOT", words(h.send(mac(0x23), dhcpv4.MessageTypeRequest, wants("172.31.0.23"))), "NAK")
	h.want("then", h.get(mac(0x23)), "172.31.0.24")
	if d := h.disk[ip("172.31.0.23")].Duration; d != 0 {
		t.Errorf("the old lease is on disk for %v", d)
	}
}

func TestKnownOnly(t *testing.T) {
	h := newHouse(t, home())
	guest := h.get(mac(1))
	l := home()
	l.KnownOnly, l.BOOTP = true, true
	if err := h.e.Configure(h.now, Config{LANs: []LAN{l}}); err != nil {
		t.Fatal(err)
	}
	h.want("a host", h.get(mac(0x23)), "172.31.0.23")
	h.want("a host's second card", h.get(mac(0x51)), "172.31.0.50")
	h.want("a stranger", words(h.send(mac(2), dhcpv4.MessageTypeDiscover)), "silence")
	h.want("a stranger's claim", words(h.send(mac(2), dhcpv4.MessageTypeRequest, wants("172.31.0.100"))), "silence")
	if h.bootp(mac(2), true) != nil {
		t.Error("a stranger has an address by BOOTP")
	}
	h.want("one of before", words(h.send(mac(1), dhcpv4.MessageTypeRequest, uses(guest))), "NAK")
	if d := h.disk[ip(guest)].Duration; d != 0 {
		t.Errorf("its lease is on disk for %v", d)
	}
	h.want("once more", words(h.send(mac(1), dhcpv4.MessageTypeRequest, uses(guest))), "silence")
}

func relay(a string) func(*dhcpv4.DHCPv4) {
	return func(p *dhcpv4.DHCPv4) { p.GatewayIPAddr = ip(a).AsSlice() }
}

// Networks behind relays: each client has an address of its own network, and
// what goes with that.
func TestRelays(t *testing.T) {
	h := newHouse(t, large())
	opt := option(55, 1, 3, 15, 28)
	r := h.send(mac(1), dhcpv4.MessageTypeDiscover, relay("10.0.50.1"), opt, option(82, 1, 2, 'x', 'y'))
	a := r.Packet.YourIPAddr.String()
	got := fmt.Sprintf("%s %v %v %v %v %s %v %v", a[:9], r.Packet.SubnetMask(), r.Packet.Router(), r.Packet.BroadcastAddress(), r.Packet.ServerIdentifier(), r.Packet.DomainName(), r.Dst, r.Packet.Options[82])
	h.want("by giaddr", got, "10.0.50.1 ffffff00 [10.0.50.1] 10.0.50.255 172.31.0.1 local 10.0.50.1:67 [1 2 120 121]")
	h.want("taken", words(h.send(mac(1), dhcpv4.MessageTypeRequest, relay("10.0.50.1"), wants(a), serverID("172.31.0.1"))), "ACK "+a)
	h.want("renewed by unicast", words(h.send(mac(1), dhcpv4.MessageTypeRequest, uses(a))), "ACK "+a)
	h.want("rebound by the relay", words(h.send(mac(1), dhcpv4.MessageTypeRequest, relay("10.0.50.1"), uses(a))), "ACK "+a)
	h.want("switched on elsewhere", words(h.send(mac(1), dhcpv4.MessageTypeRequest, wants(a))), "NAK")
	// RFC 3527: the relay's address is not the clients' network.
	r = h.send(mac(2), dhcpv4.MessageTypeDiscover, relay("172.31.0.7"), opt, option(82, 5, 4, 10, 0, 60, 0))
	got = fmt.Sprintf("%s %v %s %v", r.Packet.YourIPAddr.String()[:7], r.Packet.Router(), r.Packet.DomainName(), r.Dst)
	h.want("by link selection", got, "10.0.60 [10.0.60.9] sixty 172.31.0.7:67")
	h.want("a link that is none of ours", words(h.send(mac(3), dhcpv4.MessageTypeDiscover, relay("172.31.0.7"), option(82, 5, 4, 10, 0, 70, 0))), "silence")
	// RFC 5107: the relay wants to be taken for the server.
	over := option(82, 5, 4, 10, 0, 60, 0, 11, 4, 10, 0, 60, 1)
	r = h.send(mac(4), dhcpv4.MessageTypeDiscover, relay("172.31.0.7"), over)
	h.want("server identifier", r.Packet.ServerIdentifier().String(), "10.0.60.1")
	h.want("taken of it", words(h.send(mac(4), dhcpv4.MessageTypeRequest, relay("172.31.0.7"), over, wants(r.Packet.YourIPAddr.String()), serverID("10.0.60.1"))), "ACK "+r.Packet.YourIPAddr.String())
	// Hosts: there, and elsewhere.
	r = h.send(mac(0x61), dhcpv4.MessageTypeDiscover, relay("10.0.50.1"))
	h.want("a host's own", words(r), "OFFER 10.0.50.23")
	if a := h.get(mac(0x61)); a[:7] != "172.31." {
		t.Errorf("the host at home has %s", a)
	}
	// The pool there is its own.
	h.send(mac(5), dhcpv4.MessageTypeDiscover, relay("10.0.50.1"))
	h.send(mac(6), dhcpv4.MessageTypeDiscover, relay("10.0.50.1"))
	h.want("a pool of two, and a third", words(h.send(mac(7), dhcpv4.MessageTypeDiscover, relay("10.0.50.1"))), "silence")
	if st := h.e.Status(h.now)[0]; st.Pool != 8 {
		t.Errorf("status %+v", st)
	}
}

// processor is the processors' time that this process has had: what others do on the
// machine is no part of it.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A pool of millions is not walked for each client, nor for the status; and what
// is kept in mind is bounded.
func TestLargePool(t *testing.T) {
	l := home()
	l.Address = netip.MustParsePrefix("10.0.0.1/8")
	l.Pool = []Range{{ip("10.128.0.0"), ip("10.255.255.254")}}
	h := newHouse(t, l)
	s := h.e.scopes["home"]
	p := &dhcpv4.DHCPv4{OpCode: dhcpv4.OpcodeBootRequest, HWType: 1, Options: dhcpv4.Options{}}
	p.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeDiscover))
	p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionRapidCommit, nil))
	began := processor(t)
	const clients = maxLeases + 5000
	for n := range clients {
		p.ClientHWAddr = net.HardwareAddr{2, 1, 0, byte(n >> 16), byte(n >> 8), byte(n)}
		for _, r := range h.e.Handle(h.now, "home", p, mac(9), false).Replies {
			h.e.Kept(*r.Keep)
		}
		if n%1000 == 0 {
			h.e.Status(h.now)
			h.e.Tick(h.now)
			h.now = h.now.Add(time.Second)
		}
	}
	if took := processor(t) - began; took > 20*time.Second {
		t.Errorf("%d clients took %v of the processor", clients, took)
	}
	if n := len(s.bindings); n < maxLeases || n > maxLeases+maxProbes || len(s.byClient) > 2*n {
		t.Errorf("%d leases and %d clients in mind, want %d", n, len(s.byClient), maxLeases)
	}
	if st := h.e.Status(h.now)[0]; st.Pool != 128<<16-1 || st.Leased != len(s.bindings) {
		t.Errorf("status %+v", st)
	}
}
