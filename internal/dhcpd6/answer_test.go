package dhcpd6

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/ether"
	"weir/internal/state"
)

var (
	own    = &dhcpv6.DUIDUUID{UUID: [16]byte{1, 2, 3}}
	laptop = &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	home   = LAN{
		Name: "home", DNS: []netip.Addr{netip.MustParseAddr("fd00::1")}, Search: []string{"home.arpa"},
		NTP: []netip.Addr{netip.MustParseAddr("fd00::1")}, Portal: "https://portal.example/api",
	}
)

func ask(kind dhcpv6.MessageType, options ...dhcpv6.Option) *dhcpv6.Message {
	return &dhcpv6.Message{MessageType: kind, TransactionID: dhcpv6.TransactionID{1, 2, 3}, Options: dhcpv6.MessageOptions{Options: options}}
}

func behind(m dhcpv6.DHCPv6, relays int) dhcpv6.DHCPv6 {
	for i := range relays {
		m = &dhcpv6.RelayMessage{
			MessageType: dhcpv6.MessageTypeRelayForward, HopCount: uint8(i),
			LinkAddr: net.ParseIP("fd00::99"), PeerAddr: net.ParseIP(fmt.Sprintf("fe80::%d", i+1)),
			Options: dhcpv6.RelayOptions{Options: dhcpv6.Options{dhcpv6.OptInterfaceID([]byte{byte(i)}), dhcpv6.OptRelayMessage(m)}},
		}
	}
	return m
}

// engine is one that serves LANs.
func engine(t testing.TB, lans ...LAN) *Engine {
	t.Helper()
	e := New(start, state.Clock{Wall: start, Boot: "b", Up: time.Hour})
	if err := e.Configure(Config{DUID: fmt.Sprintf("%x", own.ToBytes()), LANs: lans}); err != nil {
		t.Fatal(err)
	}
	return e
}

var start = time.Date(2026, 12, 2, 7, 0, 0, 0, time.UTC)

// show writes a reply's options by their numbers, those of relays around it.
func show(t *testing.T, b []byte) string {
	t.Helper()
	if b == nil {
		return "nothing"
	}
	p, err := dhcpv6.FromBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := p.(*dhcpv6.RelayMessage); ok {
		return fmt.Sprintf("%s(%d %s %x %s)", r.MessageType, r.HopCount, r.PeerAddr, r.Options.InterfaceID(), show(t, r.Options.RelayMessage().ToBytes()))
	}
	m := p.(*dhcpv6.Message)
	var w []string
	for _, o := range m.Options.Options {
		w = append(w, fmt.Sprint(uint16(o.Code())))
	}
	return m.MessageType.String() + " " + strings.Join(w, " ")
}

var peer = netip.MustParseAddr("fe80::1234")

// TestStateless: what is told where nothing is leased.
func TestStateless(t *testing.T) {
	const inform, all = dhcpv6.MessageTypeInformationRequest, "REPLY 2 1 23 24 56 31 103 32"
	answer := func(l LAN, b []byte) []byte {
		return engine(t, l).Handle(start, l.Name, b, peer, ether.MAC{}).Reply
	}
	for what, c := range map[string]struct {
		in   dhcpv6.DHCPv6
		want string
	}{
		"says not what it wants":     {ask(inform, dhcpv6.OptClientID(laptop)), all},
		"does not say who it is":     {ask(inform), "REPLY 2 23 24 56 31 103 32"},
		"wants the resolver":         {ask(inform, dhcpv6.OptRequestedOption(dhcpv6.OptionDNSRecursiveNameServer)), "REPLY 2 23 32"},
		"wants the time":             {ask(inform, dhcpv6.OptRequestedOption(dhcpv6.OptionNTPServer)), "REPLY 2 56 32"},
		"asks this server":           {ask(inform, dhcpv6.OptClientID(laptop), dhcpv6.OptServerID(own)), all},
		"asks another server":        {ask(inform, dhcpv6.OptServerID(laptop)), "nothing"},
		"wants an address":           {ask(inform, &dhcpv6.OptIANA{}), "nothing"},
		"solicits":                   {ask(dhcpv6.MessageTypeSolicit, dhcpv6.OptClientID(laptop), &dhcpv6.OptIANA{}), "nothing"},
		"another server's answer":    {ask(dhcpv6.MessageTypeReply, dhcpv6.OptServerID(laptop)), "nothing"},
		"behind a relay":             {behind(ask(inform), 1), "RELAY-REPL(0 fe80::1 00 REPLY 2 23 24 56 31 103 32)"},
		"behind two":                 {behind(ask(inform), 2), "RELAY-REPL(1 fe80::2 01 RELAY-REPL(0 fe80::1 00 REPLY 2 23 24 56 31 103 32))"},
		"behind too many":            {behind(ask(inform), maxHops+1), "nothing"},
		"a solicit behind a relay":   {behind(ask(dhcpv6.MessageTypeSolicit), 1), "nothing"},
		"a relay with nothing in it": {&dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayForward, LinkAddr: net.IPv6zero, PeerAddr: net.IPv6zero}, "nothing"},
	} {
		if got := show(t, answer(home, c.in.ToBytes())); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	out, err := dhcpv6.FromBytes(answer(home, ask(inform).ToBytes()))
	if err != nil {
		t.Fatal(err)
	}
	m := out.(*dhcpv6.Message)
	if got, want := fmt.Sprint(m.TransactionID, m.Options.DNS(), m.Options.DomainSearchList().Labels, m.Options.NTPServers(), m.Options.SNTP(), m.Options.InformationRefreshTime(0)),
		"0x010203 [fd00::1] [home.arpa] [fd00::1] [fd00::1] 1h0m0s"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if got := show(t, answer(LAN{Name: "bare"}, ask(inform).ToBytes())); got != "REPLY 2 32" {
		t.Errorf("with nothing to tell: %s", got)
	}
}

// FuzzHandle: whatever a device sends, an answer is a message, and no larger than
// what it is an answer to and all there is to tell; and what is leased is in the pool.
func FuzzHandle(f *testing.F) {
	id, na := dhcpv6.OptClientID(laptop), &dhcpv6.OptIANA{IaId: [4]byte{1}}
	f.Add(ask(dhcpv6.MessageTypeInformationRequest, id).ToBytes())
	for _, k := range []dhcpv6.MessageType{dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind,
		dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline} {
		f.Add(ask(k, id, na, &dhcpv6.OptIAPD{IaId: [4]byte{2}}).ToBytes())
		f.Add(ask(k, id, dhcpv6.OptServerID(own), with("fd00::1005"), part("2001:db8:0:f0::/60")).ToBytes())
		f.Add(behind(ask(k, id, na), 1).ToBytes())
	}
	f.Add(behind(ask(dhcpv6.MessageTypeInformationRequest), 2*maxHops).ToBytes())
	f.Add([]byte{12})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e := engine(t, managed())
		out := e.Handle(start, "home", b, peer, ether.MAC{2, 0, 0, 0, 0, 9})
		for _, l := range out.Keep {
			if id := half(l.Addr); l.Part == 0 && (id < 0x1000 || id > 0x1fff) && id != 0x23 {
				t.Errorf("%x is leased %s", b, l.Addr)
			}
		}
		if out.Reply == nil {
			return
		}
		if _, err := dhcpv6.FromBytes(out.Reply); err != nil {
			t.Errorf("%x is answered by %x: %v", b, out.Reply, err)
		}
		if len(out.Reply) > len(b)+300+maxIAs*200 {
			t.Errorf("%d bytes are answered by %d", len(b), len(out.Reply))
		}
	})
}
