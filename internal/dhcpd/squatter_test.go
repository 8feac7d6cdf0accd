package dhcpd_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"

	"weir/internal/dhcpd"
	"weir/internal/ether"
	"weir/internal/netns"
)

// TestSquatter: a device has taken an address of the pool by hand. Its own kernel
// answers the server's ARP; whoever asks for that address is offered another in
// answer to its first DISCOVER, which it would repeat a second later, and who claims
// it without a lease is refused. Once the device is gone it is as any other.
func TestSquatter(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(lan *dhcpd.LAN) { lan.Pool = []dhcpd.Range{{From: ip("172.31.0.100"), To: ip("172.31.0.102")}} })
	taken := net.IPv4(172, 31, 0, 100)
	squatter, _ := l.client()
	has := func(change func(netlink.Link, *netlink.Addr) error) {
		t.Helper()
		if err := netns.Do(squatter, func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			a, err := netlink.ParseAddr(taken.String() + "/24")
			return errors.Join(err, change(link, a))
		}); err != nil {
			t.Fatal(err)
		}
	}
	has(netlink.AddrAdd)
	l.start()
	l.running()
	w := l.wire()
	mac := func(n byte) ether.MAC { return ether.MAC{2, 0, 0, 4, 0, n} }
	asked := func(p *dhcpv4.DHCPv4) { p.UpdateOption(dhcpv4.OptRequestedIPAddress(taken)) }
	const once = 950 * time.Millisecond // ask repeats after a second

	first := w.ask(once, mac(1), dhcpv4.MessageTypeDiscover, asked)
	if first == nil || first.YourIPAddr.Equal(taken) {
		t.Fatalf("asked for an address that a device has taken: %v", first)
	}
	if a := w.take(once, mac(1), first); a == nil || a.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("what was offered in its place: %v", a)
	}
	if a := w.ask(once, mac(2), dhcpv4.MessageTypeRequest, asked); a != nil && a.MessageType() != dhcpv4.MessageTypeNak {
		t.Errorf("a claim of it: %v", a)
	}
	second := w.ask(once, mac(2), dhcpv4.MessageTypeDiscover, nil)
	if second == nil || second.YourIPAddr.Equal(taken) || second.YourIPAddr.Equal(first.YourIPAddr) {
		t.Fatalf("the next is offered %v, after %s", second, first.YourIPAddr)
	}
	if a := w.take(once, mac(2), second); a == nil || a.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("the next takes it: %v", a)
	}
	// The pool is used up but for the one that is taken: nobody gets that.
	if o := w.ask(once, mac(3), dhcpv4.MessageTypeDiscover, nil); o != nil {
		t.Errorf("offered from a pool of which only a taken address is left: %v", o)
	}
	// It is the device that keeps it from them, and no mistake of the pool's end: a server
	// that finds nobody there gives it.
	has(netlink.AddrDel)
	l.kill()
	l.running()
	if o := w.ask(10*time.Second, mac(3), dhcpv4.MessageTypeDiscover, nil); o == nil || !o.YourIPAddr.Equal(taken) {
		t.Errorf("after the device is gone, and the server was started anew: %v", o)
	}
}
