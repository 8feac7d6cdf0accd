package ether

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
)

var (
	macA, macB = MAC{2, 0, 0, 0, 0, 0xa}, MAC{2, 0, 0, 0, 0, 0xb}

	offer = UDP{
		SrcMAC: macA, DstMAC: macB,
		Src:     netip.MustParseAddrPort("192.0.2.1:67"),
		Dst:     netip.MustParseAddrPort("192.0.2.10:68"),
		Payload: []byte("odd"),
	}
)

var solicit = UDP{
	SrcMAC: macA, DstMAC: MAC{0x33, 0x33, 0, 1, 0, 2},
	Src:     netip.MustParseAddrPort("[fe80::a]:546"),
	Dst:     netip.MustParseAddrPort("[ff02::1:2]:547"),
	Payload: []byte("odd"),
}

func comparePorts(a, b netip.AddrPort) bool { return a == b }
func compareAddrs(a, b netip.Addr) bool     { return a == b }

func TestUDPComesBack(t *testing.T) {
	for _, payload := range []string{"", "o", "even", strings.Repeat("x", 1452), "6", "6 even", "6" + strings.Repeat("x", 1451)} {
		want := offer
		if strings.HasPrefix(payload, "6") {
			want = solicit
		}
		want.Payload = []byte(payload)
		padded := append(want.Frame(), make([]byte, 20)...) // as a short frame is on the wire
		got, err := ParseUDP(padded, false)
		if err != nil {
			t.Errorf("%d bytes: %v", len(payload), err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(comparePorts)); diff != "" {
			t.Errorf("%d bytes: -want +got\n%s", len(payload), diff)
		}
	}
}

// Every single bit that matters is covered by a check: flip each.
func TestParseUDPSeesEveryFlip(t *testing.T) {
	good := offer.Frame()
	for i := ethLen; i < len(good); i++ {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if u, err := ParseUDP(b, false); err == nil {
				t.Errorf("byte %d bit %d flipped and taken: %+v", i, bit, u)
			}
		}
	}
	for n := range good {
		if _, err := ParseUDP(good[:n], false); err == nil {
			t.Errorf("cut to %d bytes and taken", n)
		}
	}
}

// What the checksum covers of IPv6 is seen: all but class, label and hop limit.
func TestParseUDPSeesEveryFlip6(t *testing.T) {
	good := solicit.Frame()
	for i := ethLen; i < len(good); i++ {
		if n := i - ethLen; n >= 1 && n < 4 || n == 7 {
			continue
		}
		for bit := range 8 {
			if i == ethLen && bit < 4 {
				continue // class
			}
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if u, err := ParseUDP(b, false); err == nil {
				t.Errorf("byte %d bit %d flipped and taken: %+v", i, bit, u)
			}
		}
	}
	for n := range good {
		if _, err := ParseUDP(good[:n], false); err == nil {
			t.Errorf("cut to %d bytes and taken", n)
		}
	}
}

func TestParseUDPRefuses(t *testing.T) {
	change := func(f func(ip, udp []byte)) []byte {
		b := offer.Frame()
		f(b[ethLen:], b[ethLen+ipLen:])
		b[ethLen+10], b[ethLen+11] = 0, 0
		binary.BigEndian.PutUint16(b[ethLen+10:], ^sum(0, b[ethLen:ethLen+ipLen]))
		return b
	}
	for _, tt := range []struct {
		name    string
		frame   []byte
		partial bool
		want    string // "" is taken
	}{
		{"no checksum (RFC 768)", change(func(_, udp []byte) { udp[6], udp[7] = 0, 0 }), false, ""},
		{"partial checksum", change(func(_, udp []byte) { udp[6], udp[7] = 0x12, 0x34 }), true, ""},
		{"partial checksum, and the kernel didn't say so", change(func(_, udp []byte) { udp[6], udp[7] = 0x12, 0x34 }), false, "UDP checksum"},
		{"first fragment", change(func(ip, _ []byte) { ip[6] = 0x20 }), false, "not a UDP"},
		{"later fragment", change(func(ip, _ []byte) { ip[7] = 1 }), false, "not a UDP"},
		{"TCP", change(func(ip, _ []byte) { ip[9] = 6 }), false, "not a UDP"},
		{"IPv6", change(func(ip, _ []byte) { ip[0] = 0x65 }), false, "first byte"},
		{"header of 16 bytes", change(func(ip, _ []byte) { ip[0] = 0x44 }), false, "first byte"},
		{"longer than the frame", change(func(ip, _ []byte) { ip[3] += 20 }), false, "bytes in"},
		{"shorter than its header", change(func(ip, _ []byte) { ip[2], ip[3] = 0, 19 }), false, "bytes in"},
		{"no room for UDP", change(func(ip, _ []byte) { ip[3] = ipLen + 7 }), false, "UDP header of 7"},
		{"UDP longer than IP", change(func(_, udp []byte) { udp[5]++ }), true, "UDP datagram of"},
		{"UDP shorter than its header", change(func(_, udp []byte) { udp[5] = 7 }), true, "UDP datagram of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseUDP(tt.frame, tt.partial)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestARPComesBack(t *testing.T) {
	want := Probe(macA, netip.MustParseAddr("192.0.2.10"))
	got, err := ParseARP(append(want.Frame(), make([]byte, 18)...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(compareAddrs)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for n := range ethLen + arpLen {
		if _, err := ParseARP(want.Frame()[:n]); err == nil {
			t.Errorf("cut to %d bytes and taken", n)
		}
	}
}

// TestFilters runs the filters over frames as the kernel does.
func TestFilters(t *testing.T) {
	addr, other := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.11")
	reply := func(from netip.Addr) []byte {
		return ARP{Op: ARPReply, Sender: macB, SenderIP: from, Target: macA, TargetIP: netip.IPv4Unspecified()}.Frame()
	}
	request := ARP{Op: ARPRequest, Sender: macB, SenderIP: other, TargetIP: addr}.Frame()
	options := func() []byte { // an IPv4 header with options: UDP lies 4 bytes on
		b := offer.Frame()
		b = append(b[:ethLen+ipLen:ethLen+ipLen], append(make([]byte, 4), b[ethLen+ipLen:]...)...)
		b[ethLen] = 0x46
		return b
	}()
	fragment := offer.Frame()
	fragment[ethLen+6] = 0x20
	for _, tt := range []struct {
		name   string
		filter []bpf.Instruction
		frame  []byte
		want   bool
	}{
		{"offer to 68", ToUDP(68), offer.Frame(), true},
		{"offer to 67", ToUDP(67), offer.Frame(), false},
		{"IPv4 options", ToUDP(68), options, true},
		{"fragment", ToUDP(68), fragment, false},
		{"ARP is no UDP", ToUDP(68), request, false},
		{"cut", ToUDP(68), offer.Frame()[:ethLen+ipLen+1], false},
		{"nothing", Nothing(), offer.Frame(), false},
		{"solicit to 547", ToUDP6(547), solicit.Frame(), true},
		{"solicit to 546", ToUDP6(546), solicit.Frame(), false},
		{"offer to 547 of IPv6", ToUDP6(547), offer.Frame(), false},
		{"reply about it", ARPAbout(addr), reply(addr), true},
		{"reply about another", ARPAbout(addr), reply(other), false},
		{"probe for it", ARPAbout(addr), Probe(macB, addr).Frame(), true},
		{"probe for another", ARPAbout(addr), Probe(macB, other).Frame(), false},
		{"somebody asks for it", ARPAbout(addr), request, false},
		{"UDP is no ARP", ARPAbout(addr), offer.Frame(), false},
		{"any reply", ARPReplies(), reply(other), true},
		{"a probe is no reply", ARPReplies(), Probe(macB, addr).Frame(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			vm, err := bpf.NewVM(tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			n, err := vm.Run(tt.frame)
			if err != nil {
				t.Fatal(err)
			}
			if (n > 0) != tt.want {
				t.Errorf("takes %d bytes, want some: %v", n, tt.want)
			}
		})
	}
}

func FuzzParseUDP(f *testing.F) {
	f.Add(offer.Frame(), false)
	f.Add(offer.Frame()[:40], true)
	f.Add(solicit.Frame(), false)
	f.Add(solicit.Frame()[:60], true)
	f.Fuzz(func(t *testing.T, b []byte, partial bool) {
		u, err := ParseUDP(b, partial)
		if err != nil {
			if errors.Is(err, ErrNotUDP) != (err == ErrNotUDP) { //nolint:errorlint // it is returned as it is
				t.Errorf("ErrNotUDP is wrapped: %v", err)
			}
			return
		}
		if again, err := ParseUDP(u.Frame(), false); err != nil || again.Src != u.Src || !bytes.Equal(again.Payload, u.Payload) {
			t.Errorf("%+v does not come back: %+v, %v", u, again, err)
		}
	})
}

func FuzzParseARP(f *testing.F) {
	f.Add(Probe(macA, netip.MustParseAddr("192.0.2.10")).Frame())
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := ParseARP(b); err == nil {
			if again, err := ParseARP(a.Frame()); err != nil || again != a {
				t.Errorf("%+v does not come back: %+v, %v", a, again, err)
			}
		}
	})
}
