package dhcpd6

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"weir/internal/ether"
	"weir/internal/state"
)

// managed is a LAN with all there is: a network for good, a delegated one, a pool, a
// host, and prefixes for routers.
func managed() LAN {
	l := home
	l.Managed, l.Delegate = true, 60
	l.Networks = []Network{
		{Prefix: netip.MustParsePrefix("2001:db8::/64"), Preferred: 2 * time.Hour, Valid: 3 * time.Hour}, // of a boot an hour ago
		{Prefix: netip.MustParsePrefix("fd00::/64")},
	}
	l.Sources = []Network{{Prefix: netip.MustParsePrefix("2001:db8::/56"), Preferred: 2 * time.Hour, Valid: 3 * time.Hour}}
	l.Reserved = []netip.Prefix{netip.MustParsePrefix("2001:db8::/64"), netip.MustParsePrefix("fd00::/64"), netip.MustParsePrefix("fd00::1/128")}
	l.Pool = []Range{{netip.MustParseAddr("::1000"), netip.MustParseAddr("::1fff")}}
	l.Preferred, l.Valid = 45*time.Minute, 90*time.Minute
	l.Hosts = []Host{{Name: "nas", ID: 0x23, MAC: []string{"02:00:00:00:00:23"}, DUID: []string{"00030001020000000024"}}}
	return l
}

func with(addrs ...string) *dhcpv6.OptIANA {
	o := &dhcpv6.OptIANA{IaId: [4]byte{0, 0, 0, 1}}
	for _, a := range addrs {
		o.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(a)})
	}
	return o
}

func part(prefixes ...string) *dhcpv6.OptIAPD {
	o := &dhcpv6.OptIAPD{IaId: [4]byte{0, 0, 0, 1}}
	for _, p := range prefixes {
		_, n, err := net.ParseCIDR(p)
		if err != nil {
			panic(err)
		}
		o.Options.Add(&dhcpv6.OptIAPrefix{Prefix: n})
	}
	return o
}

// device is a client that is no program of anybody's: it says what it is told to.
type device struct {
	t   *testing.T
	e   *Engine
	now time.Time
	id  dhcpv6.DUID
	mac ether.MAC
	out Out
}

func (d *device) says(kind dhcpv6.MessageType, options ...dhcpv6.Option) string {
	d.t.Helper()
	m := ask(kind, append([]dhcpv6.Option{dhcpv6.OptClientID(d.id)}, options...)...)
	switch kind {
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline:
		m.AddOption(dhcpv6.OptServerID(own))
	}
	d.out = d.e.Handle(d.now, "home", m.ToBytes(), netip.MustParseAddr("fe80::1234"), d.mac)
	for _, l := range d.out.Keep {
		d.e.Kept(l)
	}
	return tellIAs(d.t, d.out.Reply)
}

// tellIAs writes what an answer gives: "ADVERTISE na fd00::1000 45m0s 1h30m0s".
func tellIAs(t *testing.T, b []byte) string {
	t.Helper()
	if b == nil {
		return "nothing"
	}
	p, err := dhcpv6.FromBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.GetInnerMessage()
	if err != nil {
		t.Fatal(err)
	}
	w := []string{m.MessageType.String()}
	says := func(s *dhcpv6.OptStatusCode) {
		if s != nil {
			w = append(w, s.StatusCode.String())
		}
	}
	for _, o := range m.Options.Options {
		switch o := o.(type) {
		case *dhcpv6.OptIANA:
			w = append(w, "na")
			for _, a := range o.Options.Addresses() {
				w = append(w, fmt.Sprint(a.IPv6Addr, " ", a.PreferredLifetime, "/", a.ValidLifetime))
			}
			says(o.Options.Status())
		case *dhcpv6.OptIAPD:
			w = append(w, "pd")
			for _, a := range o.Options.Prefixes() {
				w = append(w, fmt.Sprint(a.Prefix, " ", a.PreferredLifetime, "/", a.ValidLifetime))
			}
			says(o.Options.Status())
		}
	}
	says(m.Options.Status())
	return strings.Join(w, " ")
}

func newDevice(t *testing.T, lans ...LAN) *device {
	return &device{t: t, e: engine(t, lans...), now: start, id: laptop, mac: ether.MAC{2, 0, 0, 0, 0, 1}}
}

func (d *device) wants(what, got, want string) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("%s:\n  %s, want\n  %s", what, got, want)
	}
}

const (
	sol, req, ren, reb = dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind
	con, rel, dec      = dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline
)

var rapid = &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit}

// TestExchanges goes through a device's life, message by message.
func TestExchanges(t *testing.T) {
	d := newDevice(t, managed())
	// The place of a client in the pool is always the same.
	const both = "na 2001:db8::1a53 45m0s/1h30m0s fd00::1a53 45m0s/1h30m0s"
	both2 := strings.ReplaceAll(both, "1a53", fmt.Sprintf("%x", d.place()))
	d.wants("Solicit", d.says(sol, with()), "ADVERTISE "+both2)
	if len(d.out.Keep) > 0 {
		t.Errorf("a Solicit is written down: %v", d.out.Keep)
	}
	d.wants("Renew of nothing", d.says(ren, with()), "REPLY na NoBinding")
	d.wants("Request", d.says(req, with()), "REPLY "+both2)
	if len(d.out.Keep) != 1 || d.out.Keep[0].Client != fmt.Sprintf("%x", laptop.ToBytes()) || d.out.Keep[0].MAC != "02:00:00:00:00:01" || d.out.Keep[0].IAID != 1 {
		t.Errorf("kept %+v", d.out.Keep)
	}
	d.wants("Request, again", d.says(req, with()), "REPLY "+both2)
	if len(d.out.Keep) > 0 {
		t.Errorf("what is on disk is written again: %v", d.out.Keep)
	}
	d.wants("Request with another server's address", d.says(req, with("2001:db8:9::5")), "REPLY na NotOnLink")
	d.wants("Confirm", d.says(con, with("fd00::5")), "REPLY Success")
	d.wants("Confirm elsewhere", d.says(con, with("fd00::5", "2001:db8:9::5")), "REPLY NotOnLink")
	d.wants("Confirm of nothing", d.says(con, with()), "nothing")

	d.now = d.now.Add(30 * time.Minute) // of the hour that the ISP still prefers its prefix
	d.wants("Renew", d.says(ren, with("fd00::99")), strings.Replace("REPLY "+both2, "45m0s/1h30m0s", "30m0s/1h30m0s", 1)+" fd00::99 0s/0s")
	d.now = d.now.Add(30*time.Minute + time.Second)
	got := d.says(reb, with())
	d.wants("Rebind when it is not preferred any more", got, strings.Replace("REPLY "+both2, "45m0s/1h30m0s", "0s/59m59s", 1))

	d.wants("Release", d.says(rel, with()), "REPLY Success")
	if len(d.out.Keep) != 1 || d.out.Keep[0].Duration != 0 {
		t.Errorf("kept %+v", d.out.Keep)
	}
	d.wants("Release, again", d.says(rel, with()), "REPLY na NoBinding Success")
	d.wants("rapid commit", d.says(sol, rapid, with()), strings.Replace("REPLY "+both2, "45m0s/1h30m0s", "0s/59m59s", 1))
	if d.out.Keep == nil {
		t.Error("rapid commit is not kept")
	}
	mine := fmt.Sprintf("fd00::%x", d.place())
	d.wants("Decline by another", (&device{t: t, e: d.e, now: d.now, id: own}).says(dec, with(mine)), "REPLY na NoBinding Success")
	d.wants("Decline", d.says(dec, with(mine)), "REPLY Success")
	if got := d.says(req, with()); strings.Contains(got, mine+" ") || !strings.Contains(got, "fd00::1") {
		t.Errorf("after a Decline it is given %s", got)
	}
	m := ask(req, dhcpv6.OptClientID(laptop), dhcpv6.OptServerID(laptop), with())
	d.wants("to another server", tellIAs(t, d.e.Handle(d.now, "home", m.ToBytes(), peer, d.mac).Reply), "nothing")
	d.wants("Solicit with a server", d.says(sol, dhcpv6.OptServerID(own), with()), "nothing")
}

// place is where the device's own lower half is looked for first.
func (d *device) place() uint64 {
	st := store{pools: []pool{{from: 0x1000, to: 0x1fff}}}
	s := newScope("x", nil)
	_ = s.configure(managed())
	t, _ := st.pick(d.now, s, client{duid: fmt.Sprintf("%x", d.id.ToBytes()), mac: d.mac.String(), iaid: 1})
	return t.id
}

// TestRenumbered: another prefix comes; the device keeps its lower half, and is told
// to forget the old address.
func TestRenumbered(t *testing.T) {
	l := managed()
	d := newDevice(t, l)
	d.says(req, with())
	id := d.place()
	l.Networks = []Network{{Prefix: netip.MustParsePrefix("2001:db8:5::/64")}, {Prefix: netip.MustParsePrefix("2001:db8::/64"), Old: true, Valid: 3 * time.Hour}}
	if err := d.e.Configure(Config{DUID: fmt.Sprintf("%x", own.ToBytes()), LANs: []LAN{l}}); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(20 * time.Minute)
	d.wants("while the old line is there yet", d.says(ren, with(fmt.Sprintf("2001:db8::%x", id), fmt.Sprintf("fd00::%x", id))),
		fmt.Sprintf("REPLY na 2001:db8:5::%x 45m0s/1h30m0s 2001:db8::%x 0s/1h30m0s fd00::%x 0s/0s", id, id, id))
	d.wants("who never had an old address", d.says(ren, with()), fmt.Sprintf("REPLY na 2001:db8:5::%x 45m0s/1h30m0s", id))
	l.Awaited = true
	if err := d.e.Configure(Config{DUID: fmt.Sprintf("%x", own.ToBytes()), LANs: []LAN{l}}); err != nil {
		t.Fatal(err)
	}
	d.says(ren, with())
	if p, err := dhcpv6.FromBytes(d.out.Reply); err != nil || p.(*dhcpv6.Message).Options.OneIANA().T1 != 30*time.Second {
		t.Errorf("while a prefix is awaited, T1 is not 30s: %v %v", p, err)
	}
	l.Networks = nil
	if err := d.e.Configure(Config{DUID: fmt.Sprintf("%x", own.ToBytes()), LANs: []LAN{l}}); err != nil {
		t.Fatal(err)
	}
	d.wants("nothing is left", d.says(ren, with(fmt.Sprintf("2001:db8::%x", id))), fmt.Sprintf("REPLY na 2001:db8::%x 0s/0s NoAddrsAvail", id))
}

// TestFull: who named what another has, and gets nothing, hears that there is nothing,
// without an address; only who may still use it is told that it is over (RFC 8415,
// 18.3.2, 18.3.5, 18.3.9).
func TestFull(t *testing.T) {
	l := managed()
	l.Networks = []Network{{Prefix: netip.MustParsePrefix("fd00::/64")}}
	l.Pool = []Range{{netip.MustParseAddr("::1000"), netip.MustParseAddr("::1000")}}
	d := newDevice(t, l)
	d.wants("the first", d.says(req, with()), "REPLY na fd00::1000 45m0s/1h30m0s")
	d.id, d.mac = &dhcpv6.DUIDLL{HWType: 1, LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}, ether.MAC{2, 0, 0, 0, 0, 9}
	d.wants("asks around", d.says(sol, with("fd00::1000")), "ADVERTISE na NoAddrsAvail")
	d.wants("asks for it", d.says(req, with("fd00::1000")), "REPLY na NoAddrsAvail")
	d.wants("had it of another server", d.says(reb, with("fd00::1000")), "REPLY na fd00::1000 0s/0s NoAddrsAvail")
}

// TestHosts: by MAC, by DUID, and what others hear who want such an address.
func TestHosts(t *testing.T) {
	d := newDevice(t, managed())
	d.wants("a stranger that wants it", strings.ReplaceAll(d.says(req, with("fd00::23")), fmt.Sprintf("%x", d.place()), "ID"), "REPLY na 2001:db8::ID 45m0s/1h30m0s fd00::ID 45m0s/1h30m0s")
	d.mac = ether.MAC{2, 0, 0, 0, 0, 0x23}
	const its = "na 2001:db8::23 45m0s/1h30m0s fd00::23 45m0s/1h30m0s"
	d.wants("by MAC, from a lease of the pool", d.says(ren, with()), "REPLY "+its)
	if len(d.out.Keep) != 2 || d.out.Keep[0].Duration != 0 || d.out.Keep[1].Host != "nas" {
		t.Errorf("kept %+v", d.out.Keep)
	}
	other := *d
	other.id = &dhcpv6.DUIDLL{HWType: 1, LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 0x24}}
	other.mac = ether.MAC{2, 0, 0, 0, 0, 0x99}
	if got := other.says(req, with()); strings.Contains(got, "::23 ") {
		t.Errorf("its other card is given what the first has: %s", got)
	}
	d.says(rel, with())
	d.now, other.now = d.now.Add(time.Second), d.now.Add(time.Second)
	other.says(rel, with())
	other.wants("by DUID", other.says(sol, with()), "ADVERTISE "+its)
	d.says(req, with())
	d.id = own // another system on the device, of whom the first system said nothing
	d.wants("the same card under another DUID", d.says(req, with()), "REPLY "+its)
}

// TestDelegation: parts for routers.
func TestDelegation(t *testing.T) {
	l, guests := managed(), managed()
	guests.Name, guests.Delegate, guests.Hosts = "guests", 58, nil
	d := newDevice(t, l, guests)
	const says = "45m0s/1h30m0s"
	seen := map[string]bool{}
	var first string
	for i := range byte(20) {
		c := *d
		c.id = &dhcpv6.DUIDUUID{UUID: [16]byte{9, i}}
		got := strings.TrimSuffix(strings.TrimPrefix(c.says(req, part()), "REPLY pd "), " "+says)
		if i < 15 { // of 16 the lowest is the LANs'
			p, err := netip.ParsePrefix(got)
			if err != nil || p.Bits() != 60 || seen[got] || !l.Sources[0].Prefix.Overlaps(p) || p.Contains(netip.MustParseAddr("2001:db8::")) {
				t.Errorf("router %d is given %s", i, got)
			}
			if len(c.out.Keep) != 1 || c.out.Keep[0].Part == 0 || c.out.Keep[0].Addr != netip.MustParseAddr("fe80::1234") {
				t.Errorf("kept %+v", c.out.Keep)
			}
			first = map[bool]string{true: got, false: first}[i == 0]
			seen[got] = true
			continue
		}
		if got != "NoPrefixAvail" {
			t.Errorf("router %d is given %s, and nothing is left", i, got)
		}
	}
	m := ask(req, dhcpv6.OptClientID(laptop), dhcpv6.OptServerID(own), part())
	d.wants("on another LAN, where all is in use here", tellIAs(t, d.e.Handle(d.now, "guests", m.ToBytes(), peer, d.mac).Reply), "REPLY pd NoPrefixAvail")
	c := *d
	c.id = &dhcpv6.DUIDUUID{UUID: [16]byte{9, 0}}
	c.says(rel, part())
	if len(c.out.Keep) != 1 || c.out.Keep[0].Duration != 0 {
		t.Errorf("kept %+v", c.out.Keep)
	}
	d.wants("what was given back", d.says(req, part()), "REPLY pd "+first+" "+says)
	d.wants("address and prefix", strings.ReplaceAll(d.says(ren, with(), part()), "na NoBinding ", ""), "REPLY pd "+first+" "+says)
}

// TestLeasesSurvive: what was stored is in force again, also by another boot's clock.
func TestLeasesSurvive(t *testing.T) {
	d := newDevice(t, managed())
	fqdn := &dhcpv6.OptFQDN{DomainName: &rfc1035label.Labels{Labels: []string{"My Laptop"}}}
	d.says(req, with(), part(), fqdn)
	stored := append([]state.Lease(nil), d.out.Keep...)
	if len(stored) != 2 || stored[0].Hostname != "my-laptop" {
		t.Fatalf("stored %+v", stored)
	}
	want := d.says(ren, with(), part())
	again := newDevice(t)
	again.e.Load(start, stored)
	if err := again.e.Configure(Config{DUID: fmt.Sprintf("%x", own.ToBytes()), LANs: []LAN{managed()}}); err != nil {
		t.Fatal(err)
	}
	again.wants("after a restart", again.says(ren, with(), part()), want)
	again.now = again.now.Add(2 * time.Hour)
	out := again.e.Tick(again.now)
	if len(out.Keep) != 2 || out.Keep[0].Duration != 0 || out.Keep[1].Duration != 0 {
		t.Errorf("when they are over, kept %+v", out.Keep)
	}
}

// TestFlood: thousands of strangers, by Solicit and by Request, take
// neither what known devices have nor more memory than there are leases.
func TestFlood(t *testing.T) {
	l := managed()
	d := newDevice(t, l)
	d.says(req, with())
	want := d.says(ren, with())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const strangers = 20000
	began := time.Now()
	for i := range strangers {
		c := *d
		c.now = d.now.Add(time.Duration(i) * time.Second / 3000)
		c.id = &dhcpv6.DUIDUUID{UUID: [16]byte{7, byte(i >> 16), byte(i >> 8), byte(i)}}
		c.says([]dhcpv6.MessageType{sol, req}[i%2], with(), part())
	}
	took := time.Since(began)
	s := d.e.scopes["home"]
	if len(s.bindings) > 0x1000+16 || len(s.byClient) > len(s.bindings) {
		t.Errorf("%d leases, %d clients in mind; there are %d addresses", len(s.bindings), len(s.byClient), 0x1000)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("%d MB more", grown>>20)
	}
	d.wants("a known device, after it", d.says(ren, with()), want)
	t.Logf("%d strangers in %v: %.0f a second", strangers, took, strangers/took.Seconds())
}
