package dhcpd

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

func TestOptions(t *testing.T) {
	l := home()
	l.MTU = 1492
	l.Options = []Option{{Code: 42, Data: []byte{172, 31, 0, 1}}, {Code: 15, Data: []byte("house.example")}, {Code: 3}, {Code: 54, Data: []byte{1, 2, 3, 4}}}
	h := newHouse(t, l)
	codes := func(r *Reply) (c []int) {
		for k := range r.Packet.Options {
			c = append(c, int(k))
		}
		slices.Sort(c)
		return c
	}
	r := h.send(mac(1), dhcpv4.MessageTypeDiscover, option(55, 15, 6, 3, 42, 249))
	if diff := cmp.Diff([]int{1, 6, 15, 42, 51, 53, 54}, codes(r)); diff != "" {
		t.Errorf("asked for 15, 6, 3, 42, 249: -want +got\n%s", diff)
	}
	if r.Packet.DomainName() != "house.example" || r.Packet.ServerIdentifier().String() != "172.31.0.1" {
		t.Errorf("options %v", r.Packet.Options)
	}
	r = h.send(mac(2), dhcpv4.MessageTypeDiscover)
	if diff := cmp.Diff([]int{1, 6, 15, 26, 28, 42, 51, 53, 54, 58, 59}, codes(r)); diff != "" {
		t.Errorf("asked for nothing in particular: -want +got\n%s", diff)
	}
	if got := fmt.Sprint(r.Packet.SubnetMask(), r.Packet.BroadcastAddress(), r.Packet.IPAddressLeaseTime(0), r.Packet.IPAddressRenewalTime(0)); got != "ffffff00 172.31.0.255 12h0m0s 6h0m0s" {
		t.Errorf("values %s", got)
	}
	r = h.send(mac(3), dhcpv4.MessageTypeDiscover, option(61, 1, 2, 3), option(82, 1, 2, 'x', 'y'), option(51, 0, 0, 1, 0), option(55, 1, 12))
	if !slices.Equal(r.Packet.Options.Get(dhcpv4.OptionClientIdentifier), []byte{1, 2, 3}) || !slices.Equal(r.Packet.Options[82], []byte{1, 2, 'x', 'y'}) {
		t.Errorf("61 and 82 don't come back: %v", r.Packet.Options)
	}
	if d := r.Packet.IPAddressLeaseTime(0); d != 256*time.Second {
		t.Errorf("asked for 256 s, offered %v", d)
	}
	if d := h.send(mac(3), dhcpv4.MessageTypeDiscover, option(51, 0, 0, 0, 1)).Packet.IPAddressLeaseTime(0); d != shortest {
		t.Errorf("asked for a second, offered %v", d)
	}
	if n := h.send(mac(0x23), dhcpv4.MessageTypeDiscover, option(55, 12)).Packet.HostName(); n != "store" {
		t.Errorf("nas is told that it is called %q", n)
	}
	// No room for all: what comes first in the client's list.
	l.Options = []Option{{Code: 200, Data: make([]byte, 500)}, {Code: 201, Data: make([]byte, 500)}}
	h = newHouse(t, l)
	r = h.send(mac(1), dhcpv4.MessageTypeDiscover, option(55, 200, 201, 3))
	if r.Packet.Options.Has(dhcpv4.GenericOptionCode(200)) || r.Packet.Options.Has(dhcpv4.GenericOptionCode(201)) || len(r.Packet.Router()) != 1 {
		t.Errorf("576 bytes and %v", codes(r))
	}
	r = h.send(mac(1), dhcpv4.MessageTypeDiscover, option(55, 200, 201, 3), option(57, 3, 0xe8))
	if !r.Packet.Options.Has(dhcpv4.GenericOptionCode(200)) || r.Packet.Options.Has(dhcpv4.GenericOptionCode(201)) || len(r.Packet.Router()) != 1 {
		t.Errorf("1000 bytes and %v", codes(r))
	}
}

func TestWhereRepliesGo(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change []func(*dhcpv4.DHCPv4)
		mac    ether.MAC
		dst    string
	}{
		{"to a client without an address", nil, mac(1), "172.31.0.102:68"},
		{"to one that wants broadcasts", []func(*dhcpv4.DHCPv4){func(p *dhcpv4.DHCPv4) { p.SetBroadcast() }}, ether.Broadcast, "255.255.255.255:68"},
		{"to a relay", []func(*dhcpv4.DHCPv4){func(p *dhcpv4.DHCPv4) { p.GatewayIPAddr = net.IP{172, 31, 0, 7} }}, mac(1), "172.31.0.7:67"},
	} {
		h := newHouse(t, home())
		r := h.send(mac(1), dhcpv4.MessageTypeDiscover, append(tt.change, wants("172.31.0.102"))...)
		if r == nil || r.MAC != tt.mac || r.Dst.String() != tt.dst {
			t.Errorf("%s: %+v, want %s at %s", tt.name, r, tt.dst, tt.mac)
		}
	}
	h := newHouse(t, home())
	for name, change := range map[string]func(*dhcpv4.DHCPv4){
		"a relay of another network":  func(p *dhcpv4.DHCPv4) { p.GatewayIPAddr = net.IP{10, 0, 0, 7} },
		"a reply":                     func(p *dhcpv4.DHCPv4) { p.OpCode = dhcpv4.OpcodeBootReply },
		"no Ethernet":                 func(p *dhcpv4.DHCPv4) { p.HWType = 6 },
		"a short address":             func(p *dhcpv4.DHCPv4) { p.ClientHWAddr = p.ClientHWAddr[:3] },
		"a group's address":           func(p *dhcpv4.DHCPv4) { p.ClientHWAddr = net.HardwareAddr{1, 0, 0, 0, 0, 1} },
		"nobody's address":            func(p *dhcpv4.DHCPv4) { p.ClientHWAddr = make(net.HardwareAddr, 6) },
		"BOOTP where it isn't wanted": func(p *dhcpv4.DHCPv4) { p.Options.Del(dhcpv4.OptionDHCPMessageType) },
		"an unknown type":             option(53, 77),
	} {
		h.want(name, words(h.send(mac(1), dhcpv4.MessageTypeDiscover, change)), "silence")
	}
}

func TestRapidCommit(t *testing.T) {
	h := newHouse(t, home())
	r := h.send(mac(1), dhcpv4.MessageTypeDiscover, option(80))
	if r == nil || r.Packet.MessageType() != dhcpv4.MessageTypeAck || r.Keep == nil || !r.Packet.Options.Has(dhcpv4.OptionRapidCommit) {
		t.Fatalf("%s, want an ACK that is kept and has option 80", words(r))
	}
}

func TestConfigureRefuses(t *testing.T) {
	for name, change := range map[string]func(*LAN){
		"no MAC":           func(l *LAN) { l.MAC = "" },
		"IPv6":             func(l *LAN) { l.Address = netip.MustParsePrefix("fd00::1/64") },
		"no lease time":    func(l *LAN) { l.Lease = 0 },
		"pool wrong round": func(l *LAN) { l.Pool[0].From, l.Pool[0].To = l.Pool[0].To, l.Pool[0].From },
		"pool of nothing":  func(l *LAN) { l.Pool[0] = Range{} },
		"a host's MAC":     func(l *LAN) { l.Hosts[0].MAC = []string{"nas"} },
	} {
		l := home()
		change(&l)
		e := New(time.Now(), state.Clock{})
		if err := e.Configure(time.Now(), Config{LANs: []LAN{l}}); err == nil || !strings.Contains(err.Error(), "LAN home") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostname(t *testing.T) {
	for in, want := range map[string]string{
		"nas": "nas", "NAS.local": "nas", "Anna's iPhone": "annas-iphone", "under_score": "under-score", "-x-": "x", "...": "", "": "",
		"\x00\xff\n": "", "a\nb": "ab", "büro": "bro", strings.Repeat("a", 70): strings.Repeat("a", 63), strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62),
	} {
		if got := state.Label([]byte(in)); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	p := &dhcpv4.DHCPv4{Options: dhcpv4.Options{}}
	for _, tt := range []struct{ in, want string }{
		{"\x00\x00\x00pc.example", "pc"},
		{"\x04\x00\x00\x02pc\x07example\x00", "pc"},
		{"\x04\x00\x00\x20pc", ""},
		{"\x04\x00\x00", ""},
		{"\x04", ""},
	} {
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionFQDN, []byte(tt.in)))
		if got := hostname(p); got != tt.want {
			t.Errorf("option 81 %q became %q, want %q", tt.in, got, tt.want)
		}
	}
}

// Whatever comes, whenever: no panic, nothing given twice, and replies that
// parse.
func FuzzHandle(f *testing.F) {
	seed := func(t dhcpv4.MessageType, change ...func(*dhcpv4.DHCPv4)) {
		m := mac(1)
		p := &dhcpv4.DHCPv4{OpCode: dhcpv4.OpcodeBootRequest, HWType: 1, ClientHWAddr: m[:], Options: dhcpv4.Options{}}
		p.UpdateOption(dhcpv4.OptMessageType(t))
		for _, c := range change {
			c(p)
		}
		f.Add(p.ToBytes(), byte(3))
	}
	seed(1, option(55, 1, 3, 6), option(57, 2, 0), option(61, 1, 2, 3), option(81, 4, 0, 0, 2, 'p', 'c'))
	seed(1, option(80), option(82, 1, 2, 3, 4))
	seed(3, wants("172.31.0.100"))
	seed(3, uses("172.31.0.100"), option(51, 0xff, 0xff, 0xff, 0xff))
	seed(4, wants("172.31.0.100"))
	seed(7, uses("172.31.0.100"))
	seed(8, uses("172.31.0.9"))
	seed(1, option(60, []byte("PXEClient:Arch:00007")...), option(77, 4, 'i', 'P', 'X', 'E'), option(93, 0, 7))
	seed(1, option(82, 5, 4, 10, 0, 50, 1, 11, 4, 10, 0, 50, 1), func(p *dhcpv4.DHCPv4) { p.GatewayIPAddr = net.IP{10, 0, 50, 1} })
	seed(0, func(p *dhcpv4.DHCPv4) { p.Options = dhcpv4.Options{} })
	f.Fuzz(func(t *testing.T, b []byte, gap byte) {
		p, err := parse(b)
		if err != nil {
			return
		}
		h := newHouse(t, large())
		had := h.get(mac(0x40))
		for n := range 6 {
			h.do(h.e.Handle(h.now, "home", p, mac(1), gap%2 == 0))
			h.wait(time.Duration(gap) * time.Duration(n) * 10 * time.Millisecond)
			if n == 2 && len(p.ClientHWAddr) > 0 {
				p.ClientHWAddr[len(p.ClientHWAddr)-1]++
			}
		}
		if len(p.ClientHWAddr) == 6 && ether.MAC(p.ClientHWAddr) != mac(0x40) && p.Options.Get(dhcpv4.OptionClientIdentifier) == nil && p.MessageType() != dhcpv4.MessageTypeRelease {
			if b := h.e.scopes["home"].bindings[ip(had)]; b.lease.MAC != mac(0x40).String() {
				t.Errorf("%s went from a client that has it to %s", had, b.lease.MAC)
			}
		}
	})
}
