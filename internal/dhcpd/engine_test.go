package dhcpd

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

var gwMAC = ether.MAC{2, 0, 0, 0, 0, 0xff}

func TestPool(t *testing.T) {
	h := newHouse(t, home())
	got := map[string]bool{}
	for n := range byte(4) {
		a := h.get(mac(n + 1))
		if got[a] || a < "172.31.0.100" || a > "172.31.0.103" {
			t.Errorf("client %d has %s; so far: %v", n, a, got)
		}
		got[a] = true
	}
	h.want("a fifth client of four addresses", h.get(mac(5)), "nothing")
	st := h.e.Status(h.now)
	if len(st) != 1 || st[0].Pool != 4 || st[0].Leased != 4 || !strings.Contains(st[0].Note, "no address is free") {
		t.Errorf("status %+v", st)
	}
	// Static hosts have theirs all the same.
	h.want("nas", h.get(mac(0x23)), "172.31.0.23")
	// Each comes back to its own, also long after its lease ended.
	first := h.get(mac(1))
	h.wait(40 * time.Hour)
	if h.disk[ip(first)].Duration != 0 {
		t.Errorf("a lease that ended 28 h ago is on disk as %+v", h.disk[ip(first)])
	}
	h.want("client 1 after two days", h.get(mac(1)), first)
	// A newcomer takes the place of the one that is longest away, not client 1's.
	if a := h.get(mac(5)); a == first {
		t.Errorf("a newcomer has %s, which client 1 has", a)
	}
}

func TestSameAddressWithoutMemory(t *testing.T) {
	a, b := newHouse(t, home()), newHouse(t, home())
	first := a.get(mac(7))
	for n := range byte(2) {
		b.get(mac(n + 40))
	}
	if got := b.get(mac(7)); got != first && b.e.scopes["home"].bindings[ip(first)] == nil {
		t.Errorf("%s, and with an empty store %s", first, got)
	}
}

func TestRenewal(t *testing.T) {
	h := newHouse(t, home())
	a := h.get(mac(1))
	h.wait(6 * time.Hour)
	r := h.send(mac(1), dhcpv4.MessageTypeRequest, uses(a))
	h.want("renewal", words(r), "ACK "+a)
	if r.MAC != mac(1) || r.Dst.String() != a+":68" {
		t.Errorf("the ACK goes to %s at %s", r.Dst, r.MAC)
	}
	if left := h.disk[ip(a)].Remaining(h.e.at(h.now)); left != 12*time.Hour {
		t.Errorf("%v are left on disk", left)
	}
	// At once again: the same lease, and nothing to write.
	h.wait(10 * time.Second)
	delete(h.disk, ip(a))
	r = h.send(mac(1), dhcpv4.MessageTypeRequest, uses(a))
	h.want("renewal", words(r), "ACK "+a)
	if d := r.Packet.IPAddressLeaseTime(0); d != 12*time.Hour-10*time.Second {
		t.Errorf("lease for %v", d)
	}
	if len(h.disk) != 0 {
		t.Error("a repeated request was written to disk")
	}
	h.wait(20 * time.Hour)
	h.want("silent for too long, then renewing", words(h.send(mac(1), dhcpv4.MessageTypeRequest, uses(a))), "ACK "+a)
}

// Some clients say their name with the first request only.
func TestTheNameStays(t *testing.T) {
	h := newHouse(t, home())
	a := h.get(mac(1), option(12, []byte("anna")...))
	h.wait(6 * time.Hour)
	h.want("renewal", words(h.send(mac(1), dhcpv4.MessageTypeRequest, uses(a))), "ACK "+a)
	h.want("its name", h.disk[ip(a)].Hostname, "anna")
	h.wait(6 * time.Hour)
	h.send(mac(1), dhcpv4.MessageTypeRequest, uses(a), option(12, []byte("bert")...))
	h.want("another one", h.disk[ip(a)].Hostname, "bert")
}

// Not even a lost ACK is repeated before the lease in it is on disk.
func TestNoAckBeforeTheDisk(t *testing.T) {
	h := newHouse(t, home())
	h.full = true // as a parent that has not answered yet
	a := h.get(mac(1))
	r := h.send(mac(1), dhcpv4.MessageTypeRequest, wants(a), serverID("172.31.0.1"))
	if r == nil || r.Keep == nil {
		t.Errorf("the lease is not known to be kept, and the ACK doesn't wait: %+v", r)
	}
}

func TestRefusals(t *testing.T) {
	h := newHouse(t, home())
	a := h.get(mac(1))
	other := "172.31.0.100"
	if a == other {
		other = "172.31.0.101"
	}
	for _, tt := range []struct {
		name   string
		mac    byte
		change []func(*dhcpv4.DHCPv4)
		want   string
	}{
		{"reboot with its own", 1, []func(*dhcpv4.DHCPv4){wants(a)}, "ACK " + a},
		{"reboot with another network's", 2, []func(*dhcpv4.DHCPv4){wants("192.168.1.5")}, "NAK"},
		{"reboot with somebody's", 2, []func(*dhcpv4.DHCPv4){wants(a)}, "NAK"},
		{"reboot with the gateway's", 2, []func(*dhcpv4.DHCPv4){wants("172.31.0.1")}, "NAK"},
		{"reboot with a host's", 2, []func(*dhcpv4.DHCPv4){wants("172.31.0.23")}, "NAK"},
		{"reboot outside the pool", 2, []func(*dhcpv4.DHCPv4){wants("172.31.0.99")}, "NAK"},
		{"rebinding another network's", 2, []func(*dhcpv4.DHCPv4){uses("10.0.0.5")}, "NAK"},
		{"rebinding somebody's", 2, []func(*dhcpv4.DHCPv4){uses(a)}, "NAK"},
		{"reboot of an address that we don't remember", 2, []func(*dhcpv4.DHCPv4){wants(other)}, "ACK " + other},
		{"another server's offer", 3, []func(*dhcpv4.DHCPv4){wants("172.31.0.102"), serverID("172.31.0.2")}, "silence"},
		{"nothing asked for", 3, nil, "silence"},
		{"a static host with a pool address", 0x23, []func(*dhcpv4.DHCPv4){wants("172.31.0.102")}, "NAK"},
	} {
		r := h.send(mac(tt.mac), dhcpv4.MessageTypeRequest, tt.change...)
		h.want(tt.name, words(r), tt.want)
		if r != nil && words(r) == "NAK" && (r.MAC != ether.Broadcast || r.Dst.String() != "255.255.255.255:68" || r.Packet.Message() == "") {
			t.Errorf("%s: NAK to %s at %s, saying %q", tt.name, r.Dst, r.MAC, r.Packet.Message())
		}
	}
}

func TestConflictCheck(t *testing.T) {
	h := newHouse(t, home())
	h.want("free", words(h.send(mac(1), dhcpv4.MessageTypeDiscover, wants("172.31.0.102"))), "OFFER 172.31.0.102")
	if h.took != probeTries*probeGap {
		t.Errorf("the offer took %v, want %v", h.took, probeTries*probeGap)
	}
	h.arp[ip("172.31.0.101")] = mac(0x99)
	r := h.send(mac(2), dhcpv4.MessageTypeDiscover, wants("172.31.0.101"))
	if words(r) == "silence" || words(r) == "OFFER 172.31.0.101" {
		t.Errorf("an address in use: %s", words(r))
	}
	if st := h.e.Status(h.now)[0]; st.Quarantined != 1 {
		t.Errorf("status %+v", st)
	}
	// The client itself may answer: it used the address before.
	h.arp[ip("172.31.0.103")] = mac(3)
	h.want("the client's own answer", words(h.send(mac(3), dhcpv4.MessageTypeDiscover, wants("172.31.0.103"))), "OFFER 172.31.0.103")
	// B28c: a client claims an address of which the store lost the record, and
	// somebody else answers for it.
	h = newHouse(t, home())
	h.arp[ip("172.31.0.101")] = mac(0x99)
	h.want("claim of an address in use", words(h.send(mac(4), dhcpv4.MessageTypeRequest, wants("172.31.0.101"))), "NAK")
	// It becomes free: after the quarantine it is given again.
	delete(h.arp, ip("172.31.0.101"))
	h.wait(quarantineFor + sweepEvery)
	h.want("after the quarantine", words(h.send(mac(4), dhcpv4.MessageTypeDiscover, wants("172.31.0.101"))), "OFFER 172.31.0.101")
	// A known address is offered at once.
	a := h.get(mac(5))
	h.send(mac(5), dhcpv4.MessageTypeDiscover)
	h.want("a known client", words(h.last), "OFFER "+a)
	if h.took != 0 {
		t.Errorf("a known address took %v", h.took)
	}
}

func TestDeclineReleaseInform(t *testing.T) {
	h := newHouse(t, home())
	a := h.get(mac(1))
	h.send(mac(2), dhcpv4.MessageTypeDecline, wants(a), serverID("172.31.0.1"))
	if h.disk[ip(a)].Duration == 0 {
		t.Error("a stranger declined somebody's lease")
	}
	h.send(mac(1), dhcpv4.MessageTypeDecline, wants(a), serverID("172.31.0.1"))
	if st := h.e.Status(h.now)[0]; h.disk[ip(a)].Duration != 0 || st.Quarantined != 1 || st.Leased != 0 {
		t.Errorf("after DECLINE: %+v, %+v", h.disk[ip(a)], st)
	}
	b := h.get(mac(1))
	if b == a {
		t.Error("the declined address was given again")
	}
	h.send(mac(2), dhcpv4.MessageTypeRelease, uses(b), serverID("172.31.0.1"))
	if h.disk[ip(b)].Duration == 0 {
		t.Error("a stranger released somebody's lease")
	}
	h.send(mac(1), dhcpv4.MessageTypeRelease, uses(b), serverID("172.31.0.1"))
	if h.disk[ip(b)].Duration != 0 {
		t.Error("a released lease is on disk as if it were not")
	}
	h.want("after RELEASE", h.get(mac(1)), b)

	r := h.send(mac(9), dhcpv4.MessageTypeInform, uses("172.31.0.9"), option(55, 6, 51, 15))
	h.want("INFORM", words(r), "ACK 0.0.0.0")
	if r.Packet.Options.Has(dhcpv4.OptionIPAddressLeaseTime) || len(r.Packet.DNS()) != 1 || r.Dst.String() != "172.31.0.9:68" {
		t.Errorf("INFORM's ACK to %s: %v", r.Dst, r.Packet.Options)
	}
	h.want("INFORM from elsewhere", words(h.send(mac(9), dhcpv4.MessageTypeInform, uses("10.0.0.9"))), "silence")
}

// B26c: a host's address was another's before it was reserved.
func TestAddressReservedWhileLeased(t *testing.T) {
	l := home()
	h := newHouse(t, l)
	h.want("holder", h.get(mac(1), wants("172.31.0.100")), "172.31.0.100")
	l.Hosts = append(l.Hosts, Host{Name: "tv", Addr: ip("172.31.0.100"), MAC: []string{mac(0x77).String()}})
	if err := h.e.Configure(h.now, Config{LANs: []LAN{l}}); err != nil {
		t.Fatal(err)
	}
	pool := h.get(mac(0x77))
	if pool == "172.31.0.100" || pool == "nothing" {
		t.Errorf("tv has %s while another has its address", pool)
	}
	h.wait(6 * time.Hour)
	h.want("holder renews", words(h.send(mac(1), dhcpv4.MessageTypeRequest, uses("172.31.0.100"))), "NAK")
	if a := h.get(mac(1)); a == "172.31.0.100" {
		t.Error("the holder has tv's address again")
	}
	h.wait(7 * time.Hour) // the old lease ends
	h.want("tv renews", words(h.send(mac(0x77), dhcpv4.MessageTypeRequest, uses(pool))), "NAK")
	h.want("tv", h.get(mac(0x77)), "172.31.0.100")
	if h.disk[ip("172.31.0.100")].Host != "tv" {
		t.Errorf("on disk: %+v", h.disk[ip("172.31.0.100")])
	}
}

// B26e: one host, two cards, both alive.
func TestTwoCards(t *testing.T) {
	h := newHouse(t, home())
	h.want("first card", h.get(mac(0x51)), "172.31.0.50")
	pool := h.get(mac(0x52))
	if pool == "172.31.0.50" || pool == "nothing" {
		t.Errorf("second card: %s", pool)
	}
	h.want("second card renews", words(h.send(mac(0x52), dhcpv4.MessageTypeRequest, uses(pool))), "ACK "+pool)
	h.want("first card renews", words(h.send(mac(0x51), dhcpv4.MessageTypeRequest, uses("172.31.0.50"))), "ACK 172.31.0.50")
	h.send(mac(0x51), dhcpv4.MessageTypeRelease, uses("172.31.0.50"))
	h.want("second card, the first gone", h.get(mac(0x52)), "172.31.0.50")
	if h.disk[ip(pool)].Duration != 0 {
		t.Error("the second card has two leases")
	}
	// The same card under another client identifier: another system on it.
	h.want("another system", h.get(mac(0x52), option(61, 0xff, 1, 2, 3)), "172.31.0.50")
}

// B28 a, b: a restart; B16: a clock that was wrong.
func TestRestart(t *testing.T) {
	h := newHouse(t, home())
	had := map[byte]string{}
	for n := range byte(4) {
		had[n] = h.get(mac(n))
	}
	h.wait(time.Hour)
	h.restart(home())
	for n, a := range had {
		h.want("renewal after a restart", words(h.send(mac(n), dhcpv4.MessageTypeRequest, uses(a))), "ACK "+a)
	}
	h.want("reboot after a restart", words(h.send(mac(2), dhcpv4.MessageTypeRequest, wants(had[2]))), "ACK "+had[2])
	h.want("a newcomer after a restart", h.get(mac(9)), "nothing")

	for name, clock := range map[string]state.Clock{
		"another boot, in 1970":        {Wall: time.Unix(60, 0), Boot: "another", Up: time.Minute},
		"another boot, in 2096":        {Wall: h.clock.Wall.AddDate(70, 0, 0), Boot: "another", Up: time.Minute},
		"this boot, the clock at 1970": {Wall: time.Unix(60, 0), Boot: "this boot", Up: h.clock.Up + h.now.Sub(h.began)},
	} {
		t.Run(name, func(t *testing.T) {
			g := newHouse(t, home())
			g.clock = clock
			g.disk = map[netip.Addr]state.Lease{}
			for a, l := range h.disk {
				g.disk[a] = l
			}
			g.restart(home())
			for n, a := range had {
				g.want("renewal", words(g.send(mac(n), dhcpv4.MessageTypeRequest, uses(a))), "ACK "+a)
			}
		})
	}
	// A store that was lost: what clients claim is honoured.
	g := newHouse(t, home())
	for n, a := range had {
		g.want("renewal with an empty store", words(g.send(mac(n), dhcpv4.MessageTypeRequest, uses(a))), "ACK "+a)
	}
}

func TestOneLeasePerClient(t *testing.T) {
	h := newHouse(t, home())
	a := h.get(mac(1))
	l := home()
	l.Pool = []Range{{ip("172.31.0.200"), ip("172.31.0.210")}}
	if err := h.e.Configure(h.now, Config{LANs: []LAN{l}}); err != nil {
		t.Fatal(err)
	}
	h.want("renewal out of the new pool", words(h.send(mac(1), dhcpv4.MessageTypeRequest, uses(a))), "NAK")
	b := h.get(mac(1))
	if !strings.HasPrefix(b, "172.31.0.2") || h.disk[ip(a)].Duration != 0 {
		t.Errorf("has %s; before: %+v", b, h.disk[ip(a)])
	}
}

// Whoever asks how often: memory is bounded, and who has a lease keeps it.
func TestFlood(t *testing.T) {
	h := newHouse(t, home())
	a := h.get(mac(1))
	p := &dhcpv4.DHCPv4{OpCode: dhcpv4.OpcodeBootRequest, HWType: 1, Options: dhcpv4.Options{}}
	for n := range 20_000 {
		p.ClientHWAddr = net.HardwareAddr{2, 1, 0, byte(n >> 16), byte(n >> 8), byte(n)}
		p.UpdateOption(dhcpv4.OptMessageType([]dhcpv4.MessageType{1, 3, 4, 7}[n%4]))
		option(50, 172, 31, 0, byte(n))(p)
		option(54, 172, 31, 0, 1)(p)
		option(61, make([]byte, 200)...)(p)
		p.ClientIPAddr = net.IP{172, 31, 0, byte(n)}
		h.do(h.e.Handle(h.now, "home", p, mac(9), false))
		if n%100 == 0 {
			h.wait(time.Second)
		}
	}
	s := h.e.scopes["home"]
	if len(h.e.probes) > maxProbes || len(s.offers) > 6 || len(s.bindings) > 6 || len(s.quarantine) > 6 || len(s.byClient) > 20 {
		t.Errorf("%d probes, %d offers, %d bindings, %d in quarantine, %d clients", len(h.e.probes), len(s.offers), len(s.bindings), len(s.quarantine), len(s.byClient))
	}
	h.want("renewal", words(h.send(mac(1), dhcpv4.MessageTypeRequest, uses(a))), "ACK "+a)
}
