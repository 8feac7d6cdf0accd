package dhcpd6

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv6"
)

// TestRelays: a relay that asks for the LAN's own network gets addresses for its clients; one
// that asks for another gets none, and is told of once.
func TestRelays(t *testing.T) {
	d := newDevice(t, managed())
	through := func(link string) string {
		t.Helper()
		m := &dhcpv6.RelayMessage{
			MessageType: dhcpv6.MessageTypeRelayForward, LinkAddr: net.ParseIP(link), PeerAddr: net.ParseIP("fe80::7"),
			Options: dhcpv6.RelayOptions{Options: dhcpv6.Options{dhcpv6.OptRelayMessage(ask(sol, dhcpv6.OptClientID(d.id), with()))}},
		}
		d.out = d.e.Handle(d.now, "home", m.ToBytes(), netip.MustParseAddr("fd00::2"), d.mac)
		return tellIAs(t, d.out.Reply)
	}
	told := func(link string) bool {
		return slices.ContainsFunc(d.out.Events, func(ev Event) bool { return ev.What == link && ev.LAN == "home" })
	}
	own := d.says(sol, with())
	if got := through("fd00::99"); got != own || len(d.out.Events) > 0 {
		t.Errorf("in the LAN's network: %s, %v; without a relay it is %s", got, d.out.Events, own)
	}
	for i, link := range []string{"fd00:50::1", "fd00:50::1", "fd00:60::1"} {
		if got := through(link); got != "ADVERTISE na NoAddrsAvail" || told(link) != (i != 1) {
			t.Errorf("%d, for %s: %s, %v", i, link, got, d.out.Events)
		}
	}
}
