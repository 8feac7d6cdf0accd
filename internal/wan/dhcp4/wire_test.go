package dhcp4

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

// What isn't an answer to us is not taken: nothing is sent and nothing told.
func TestStrangers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*dhcpv4.DHCPv4)
	}{
		{"another's transaction", func(p *dhcpv4.DHCPv4) { p.TransactionID[3]++ }},
		{"another's address", func(p *dhcpv4.DHCPv4) { p.ClientHWAddr = net.HardwareAddr(ispMAC[:]) }},
		{"no hardware address", func(p *dhcpv4.DHCPv4) { p.ClientHWAddr = nil }},
		{"a request", func(p *dhcpv4.DHCPv4) { p.OpCode = dhcpv4.OpcodeBootRequest }},
		{"no type", func(p *dhcpv4.DHCPv4) { p.Options.Del(dhcpv4.OptionDHCPMessageType) }},
		{"an ACK before any offer", func(p *dhcpv4.DHCPv4) { p.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeAck)) }},
		{"a NAK before any offer", func(p *dhcpv4.DHCPv4) { p.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak)) }},
		{"an offer of nobody's address", func(p *dhcpv4.DHCPv4) { p.YourIPAddr = net.IP{0, 0, 0, 0} }},
		{"an offer without a server", func(p *dhcpv4.DHCPv4) { p.Options.Del(dhcpv4.OptionServerIdentifier) }},
		{"an offer for a second", func(p *dhcpv4.DHCPv4) { p.UpdateOption(opt(51, 0, 0, 0, 1)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := begin(t, Config{}, isp{silent: true})
			p := isp{}.answer(s.wire(s.e.discover(s.now)), false)
			tt.change(p)
			if out := s.e.Receive(s.now, p, ispMAC); out != (Out{}) {
				t.Errorf("%+v", out)
			}
		})
	}
	t.Run("another server's NAK", func(t *testing.T) {
		s := begin(t, Config{}, isp{silent: true})
		s.isp.silent = false
		p := s.isp.answer(s.wire(s.e.discover(s.now)), false)
		s.isp.silent = true
		s.do(s.e.Receive(s.now, p, ispMAC))
		p.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
		p.UpdateOption(dhcpv4.OptServerIdentifier(net.IP{198, 51, 100, 2}))
		if out := s.e.Receive(s.now, p, ispMAC); out != (Out{}) || s.e.State() != Requesting {
			t.Errorf("%+v, %v", out, s.e.State())
		}
	})
}

// The fields of RFC 2131, table 5.
func TestMessages(t *testing.T) {
	s := begin(t, Config{Hostname: "gw", VendorClass: "dslforum.org"}, isp{})
	s.until(time.Second)
	p := s.e.discover(s.now)
	if got := p.Options.Get(dhcpv4.OptionClientIdentifier); !slices.Equal(got, append([]byte{1}, mac[:]...)) {
		t.Errorf("client identifier %x", got)
	}
	if p.HostName() != "gw" {
		t.Errorf("host name %q", p.HostName())
	}
	if got := p.ClassIdentifier(); got != "dslforum.org" {
		t.Errorf("vendor class %q", got)
	}
	s.e.cfg.VendorClass = "hex:00:ff"
	if got := s.e.discover(s.now).Options.Get(dhcpv4.OptionClassIdentifier); !slices.Equal(got, []byte{0, 0xff}) {
		t.Errorf("vendor class of bytes %x", got)
	}
	list := p.ParameterRequestList()
	at := func(code uint8) int {
		return slices.IndexFunc(list, func(c dhcpv4.OptionCode) bool { return c.Code() == code })
	}
	if at(121) < 0 || at(121) > at(3) {
		t.Errorf("121 must be asked for before 3 (RFC 3442): %v", list)
	}
	s.e.cfg.IgnoreClasslessRoutes = true
	list = s.e.discover(s.now).ParameterRequestList()
	if at(121) >= 0 || at(249) >= 0 {
		t.Errorf("classless routes are asked for and not wanted: %v", list)
	}
	d := s.e.decline(s.now, netip.MustParseAddr("198.51.100.10"), netip.MustParseAddr("198.51.100.1"))
	if d.Options.Has(dhcpv4.OptionParameterRequestList) || d.Options.Has(dhcpv4.OptionHostName) || d.Options.Has(dhcpv4.OptionClassIdentifier) {
		t.Errorf("a DECLINE has options it must not: %v", d.Options)
	}
	for id, want := range map[string]string{
		"":                  "\x01\x02\x00\x00\x00\x00\x01",
		"customer":          "\x00customer",
		"hex:01:aa:bb":      "\x01\xaa\xbb",
		"hex:FFee":          "\xff\xee",
		"hex:no hex at all": "\x00hex:no hex at all",
	} {
		if got := string(identity(id, mac)); got != want {
			t.Errorf("client_id %q is %q, want %q", id, got, want)
		}
	}
}

// Whatever comes, in whatever state, at whatever time: no panic, and time goes on.
func FuzzEngine(f *testing.F) {
	f.Add(ack().ToBytes(), []byte{0, 1, 2, 3, 4, 5})
	f.Add(ack(opt(53, 2)).ToBytes(), []byte{1, 9, 1, 200, 1, 9})
	f.Add(ack(opt(53, 6)).ToBytes(), []byte{1, 0, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte, script []byte) {
		p, err := decode(b)
		if err != nil {
			return
		}
		now := time.Now()
		e, _, err := New(Config{MAC: mac.String(), Last: last(0)}, now, state.Clock{Wall: now}, func() uint32 { return 7 })
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range script[:min(len(script), 200)] {
			now = now.Add(time.Duration(step) * time.Second)
			p.OpCode, p.TransactionID, p.ClientHWAddr = dhcpv4.OpcodeBootReply, e.xid, net.HardwareAddr(mac[:])
			switch step % 4 {
			case 0:
				e.Tick(now)
			case 1:
				e.Receive(now, p, ispMAC)
			case 2:
				p.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageType(step / 4 % 9)))
				e.Receive(now, p, ispMAC)
			case 3:
				e.Conflict(now, ether.ARP{Op: ether.ARPReply, SenderIP: netip.MustParseAddr("198.51.100.10")})
			}
			e.Tick(now)
			if next := e.Next(); !next.After(now) {
				if e.Tick(now); !e.Next().After(now) {
					t.Fatalf("in %v next is %v ago", e.State(), now.Sub(next))
				}
			}
		}
	})
}
