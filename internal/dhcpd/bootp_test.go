package dhcpd

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

func bootpHome() LAN {
	l := home()
	l.BOOTP = true
	l.Pool = []Range{{ip("172.31.0.101"), ip("172.31.0.200")}}
	return l
}

// bootp sends a BOOTREQUEST as it goes on the wire; nil is no answer.
func (h *house) bootp(m ether.MAC, cookie bool, giaddr ...byte) *Reply {
	h.t.Helper()
	b := make([]byte, 300)
	h.xid++
	b[0], b[1], b[2], b[7] = 1, 1, 6, h.xid
	copy(b[24:28], giaddr)
	copy(b[28:], m[:])
	if cookie {
		copy(b[236:], []byte{99, 130, 83, 99, 255})
	}
	p, err := parse(b)
	if err != nil {
		h.t.Fatal(err)
	}
	h.last = nil
	h.do(h.e.Handle(h.now, "home", p, m, false))
	for end := h.now.Add(time.Second); h.last == nil && h.e.Next().Before(end) && h.e.Probing("home"); {
		h.now = h.e.Next()
		h.do(h.e.Tick(h.now))
	}
	return h.last
}

// B29: an old device that speaks BOOTP, with the magic cookie or zeroes.
func TestBOOTP(t *testing.T) {
	for _, cookie := range []bool{true, false} {
		h := newHouse(t, bootpHome())
		r := h.bootp(mac(1), cookie)
		if r == nil {
			t.Fatalf("cookie %v: silence", cookie)
		}
		p := r.Packet
		a := p.YourIPAddr.String()
		if p.OpCode != dhcpv4.OpcodeBootReply || !inRange(a) || r.MAC != mac(1) || r.Dst.String() != a+":68" {
			t.Errorf("%s to %s at %s", p.Summary(), r.Dst, r.MAC)
		}
		for code := range p.Options {
			if code >= 50 && code <= 61 {
				t.Errorf("option %d is DHCP's", code)
			}
		}
		if got := fmt.Sprint(p.SubnetMask(), p.Router(), p.DNS(), p.DomainName()); got != "ffffff00 [172.31.0.1] [172.31.0.1]local" {
			t.Errorf("options %s", got)
		}
		if n := len(p.ToBytes()); n != 300 {
			t.Errorf("%d bytes; old devices have room for 300", n)
		}
		if h.disk[ip(a)].Duration != state.Forever {
			t.Errorf("on disk: %+v", h.disk[ip(a)])
		}
		// It stays, also over a restart and a year.
		h.wait(24 * time.Hour)
		h.now = h.now.AddDate(1, 0, 0)
		h.restart(bootpHome())
		h.want("a year later", h.bootp(mac(1), cookie).Packet.YourIPAddr.String(), a)
	}
}

func inRange(a string) bool {
	return len(a) == len("172.31.0.1xx") && a > "172.31.0.100" && a <= "172.31.0.200"
}

func TestBOOTPKnownAndRelayed(t *testing.T) {
	h := newHouse(t, bootpHome())
	r := h.bootp(mac(0x23), true)
	h.want("known device", r.Packet.YourIPAddr.String(), "172.31.0.23")
	h.want("its name", r.Packet.HostName(), "store")
	r = h.bootp(mac(2), true, 172, 31, 0, 7)
	if r == nil || r.Dst.String() != "172.31.0.7:67" || !bytes.Equal(r.Packet.GatewayIPAddr.To4(), []byte{172, 31, 0, 7}) {
		t.Errorf("through a relay: %+v", r)
	}
	l := bootpHome()
	l.BOOTP = false
	h = newHouse(t, l)
	if r := h.bootp(mac(1), true); r != nil {
		t.Errorf("not wanted, and %v", r.Packet)
	}
}

// B29d: 150 unknown devices and a pool of 100: they have their quarter, and DHCP
// the rest. Who isn't there any more goes when another comes.
func TestBOOTPHasItsShare(t *testing.T) {
	h := newHouse(t, bootpHome())
	had := map[string]ether.MAC{}
	old := func(n byte) ether.MAC { return ether.MAC{2, 0, 0, 8, 0, n} }
	for n := range byte(150) {
		if r := h.bootp(old(n), n%2 == 0); r != nil {
			a := r.Packet.YourIPAddr.String()
			if m, twice := had[a]; twice {
				t.Fatalf("%s and %s both have %s", m, old(n), a)
			}
			had[a] = old(n)
			h.arp[ip(a)] = old(n)
		}
		h.wait(time.Second)
	}
	if len(had) != 25 {
		t.Errorf("%d of 100 addresses went to BOOTP, want 25", len(had))
	}
	for n := range byte(75) {
		if a := h.get(ether.MAC{2, 0, 0, 9, 0, n}); a == "nothing" {
			t.Fatalf("client %d of DHCP has nothing", n)
		}
	}
	h.wait(2 * bootpRest)
	if r := h.bootp(mac(200), true); r != nil {
		t.Errorf("all are there, and a newcomer has %s", r.Packet.YourIPAddr)
	}
	// One is gone. Four are looked for each time that a newcomer asks.
	h.wait(2 * bootpRest)
	var gone string
	for a, m := range had {
		if m == old(3) {
			gone = a
			delete(h.arp, ip(a))
		}
	}
	var r *Reply
	for n := 0; r == nil && n < 7; n++ {
		r = h.bootp(mac(201), true)
	}
	if r == nil {
		t.Fatal("one is gone, and a newcomer gets nothing")
	}
	h.want("a newcomer", r.Packet.YourIPAddr.String(), gone)
	if l := h.disk[ip(gone)]; l.MAC != mac(201).String() {
		t.Errorf("on disk: %+v", l)
	}
	if r := h.bootp(mac(202), true); r != nil {
		t.Errorf("all are there, and another newcomer has %s", r.Packet.YourIPAddr)
	}
	// A lease of DHCP does not become one without end beyond the share.
	if r := h.bootp(ether.MAC{2, 0, 0, 9, 0, 1}, true); r != nil {
		t.Errorf("the share is full, and a client of DHCP has %s for ever", r.Packet.YourIPAddr)
	}
}

// The device that holds an address asks while it is looked for.
func TestBOOTPAsksWhileLookedFor(t *testing.T) {
	l := bootpHome()
	l.Pool = []Range{{ip("172.31.0.101"), ip("172.31.0.104")}}
	h := newHouse(t, l)
	a := h.bootp(mac(1), true).Packet.YourIPAddr.String()
	h.wait(2 * bootpRest)
	p, err := parse(append(append(append([]byte{1, 1, 6, 0}, make([]byte, 24)...), 2, 0, 0, 0, 0, 2), make([]byte, 266)...))
	if err != nil {
		t.Fatal(err)
	}
	h.do(h.e.Handle(h.now, "home", p, mac(2), false)) // looks for the holder
	h.want("the holder", h.bootp(mac(1), true).Packet.YourIPAddr.String(), a)
	h.last = nil
	h.wait(time.Second)
	if h.last != nil && h.last.Packet.YourIPAddr.Equal(net.ParseIP(a)) {
		t.Errorf("%s went to another while its holder asked for it", a)
	}
	if h.disk[ip(a)].MAC != mac(1).String() {
		t.Errorf("on disk: %+v", h.disk[ip(a)])
	}
}
