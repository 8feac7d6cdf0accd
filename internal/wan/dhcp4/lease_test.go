package dhcp4

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

var (
	mac    = ether.MAC{2, 0, 0, 0, 0, 1}
	ispMAC = ether.MAC{2, 0, 0, 0, 0, 0xfe}
)

func opt(code uint8, b ...byte) dhcpv4.Option {
	return dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(code), b)
}

// ack is an ordinary ACK with options put into it; one with no value is taken out.
func ack(options ...dhcpv4.Option) *dhcpv4.DHCPv4 {
	p := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootReply, HWType: 1, ClientHWAddr: net.HardwareAddr(mac[:]),
		YourIPAddr: net.IP{198, 51, 100, 10}, Options: dhcpv4.Options{},
	}
	for _, o := range append([]dhcpv4.Option{
		dhcpv4.OptMessageType(dhcpv4.MessageTypeAck),
		opt(1, 255, 255, 255, 0),
		opt(3, 198, 51, 100, 1),
		opt(6, 198, 51, 100, 53, 9, 9, 9, 9),
		opt(51, 0, 0, 0x0e, 0x10), // 1 h
		opt(54, 198, 51, 100, 1),
	}, options...) {
		p.UpdateOption(o)
		if len(o.Value.ToBytes()) == 0 {
			p.Options.Del(o.Code)
		}
	}
	return p
}

var compare = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func route(dst, gw string) state.Route {
	r := state.Route{Dst: netip.MustParsePrefix(dst)}
	if gw != "" {
		r.Gateway = netip.MustParseAddr(gw)
	}
	return r
}

func TestRoutes(t *testing.T) {
	byRouter := []state.Route{route("0.0.0.0/0", "198.51.100.1")}
	for _, tt := range []struct {
		name    string
		options []dhcpv4.Option
		ignore  bool
		want    []state.Route
		note    string // "" is none
	}{
		{name: "a: router only", want: byRouter},
		{name: "first of two routers", options: []dhcpv4.Option{opt(3, 198, 51, 100, 7, 198, 51, 100, 8)}, want: []state.Route{route("0.0.0.0/0", "198.51.100.7")}},
		{name: "router that is nobody", options: []dhcpv4.Option{opt(3, 0, 0, 0, 0, 198, 51, 100, 8)}, want: []state.Route{route("0.0.0.0/0", "198.51.100.8")}},
		{name: "router that is ourselves", options: []dhcpv4.Option{opt(3, 198, 51, 100, 10)}, want: []state.Route{route("0.0.0.0/0", "")}},
		{name: "router off the link", options: []dhcpv4.Option{opt(3, 10, 9, 8, 7)}, want: []state.Route{route("0.0.0.0/0", "10.9.8.7")}},
		{name: "no router", options: []dhcpv4.Option{opt(3)}, note: "no default route"},
		{
			name:    "b: default and a /16",
			options: []dhcpv4.Option{opt(121, 0, 198, 51, 100, 2, 16, 10, 1, 198, 51, 100, 3)},
			want:    []state.Route{route("10.1.0.0/16", "198.51.100.3"), route("0.0.0.0/0", "198.51.100.2")},
		},
		{
			name:    "c: no default in 121",
			options: []dhcpv4.Option{opt(121, 16, 10, 1, 198, 51, 100, 3)},
			want:    []state.Route{route("10.1.0.0/16", "198.51.100.3")},
			note:    "ignore_classless_routes = true",
		},
		{
			name:    "c, ignored",
			options: []dhcpv4.Option{opt(121, 16, 10, 1, 198, 51, 100, 3)},
			ignore:  true,
			want:    byRouter,
		},
		{
			name:    "d: on link, then by it",
			options: []dhcpv4.Option{opt(121, 32, 203, 0, 113, 1, 0, 0, 0, 0, 0, 203, 0, 113, 1)},
			want:    []state.Route{route("203.0.113.1/32", ""), route("0.0.0.0/0", "203.0.113.1")},
		},
		{
			name:    "d, the other way round",
			options: []dhcpv4.Option{opt(121, 0, 203, 0, 113, 1, 32, 203, 0, 113, 1, 0, 0, 0, 0)},
			want:    []state.Route{route("203.0.113.1/32", ""), route("0.0.0.0/0", "203.0.113.1")},
		},
		{name: "e: prefix length 33", options: []dhcpv4.Option{opt(121, 33, 10, 1, 1, 1, 1, 198, 51, 100, 3)}, want: byRouter, note: "malformed"},
		{name: "e: truncated", options: []dhcpv4.Option{opt(121, 16, 10, 1, 198, 51)}, want: byRouter, note: "malformed"},
		{name: "e: truncated after a good one", options: []dhcpv4.Option{opt(121, 0, 198, 51, 100, 2, 24, 10)}, want: byRouter, note: "malformed"},
		{name: "gateway is multicast", options: []dhcpv4.Option{opt(121, 0, 224, 0, 0, 1)}, want: byRouter, note: "malformed"},
		{
			name:    "f: 249 beside 121",
			options: []dhcpv4.Option{opt(121, 0, 198, 51, 100, 2), opt(249, 0, 198, 51, 100, 9)},
			want:    []state.Route{route("0.0.0.0/0", "198.51.100.2")},
		},
		{name: "249 alone", options: []dhcpv4.Option{opt(249, 0, 198, 51, 100, 9)}, want: []state.Route{route("0.0.0.0/0", "198.51.100.9")}},
		{
			name:    "249 where 121 is malformed",
			options: []dhcpv4.Option{opt(121, 33), opt(249, 0, 198, 51, 100, 9)},
			want:    []state.Route{route("0.0.0.0/0", "198.51.100.9")}, note: "option 121",
		},
		{
			name:    "host bits, and the same again",
			options: []dhcpv4.Option{opt(121, 0, 198, 51, 100, 2, 17, 10, 1, 200, 198, 51, 100, 3, 17, 10, 1, 255, 198, 51, 100, 4)},
			want:    []state.Route{route("10.1.128.0/17", "198.51.100.3"), route("0.0.0.0/0", "198.51.100.2")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := leaseOf(ack(tt.options...), ispMAC, time.Time{}, tt.ignore)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, l.Routes, compare); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if (tt.note == "") != (l.Note == "") || !strings.Contains(l.Note, tt.note) {
				t.Errorf("note %q, want %q in it", l.Note, tt.note)
			}
		})
	}
}

func TestLease(t *testing.T) {
	sent := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := func(change func(*state.Lease4)) state.Lease4 {
		l := state.Lease4{
			Addr: netip.MustParsePrefix("198.51.100.10/24"), Server: netip.MustParseAddr("198.51.100.1"),
			Routes:   []state.Route{route("0.0.0.0/0", "198.51.100.1")},
			DNS:      []netip.Addr{netip.MustParseAddr("198.51.100.53"), netip.MustParseAddr("9.9.9.9")},
			Obtained: sent, Duration: time.Hour, T1: 30 * time.Minute, T2: 52*time.Minute + 30*time.Second,
			ServerMAC: "02:00:00:00:00:fe",
		}
		change(&l)
		return l
	}
	for _, tt := range []struct {
		name   string
		option []dhcpv4.Option
		want   func(*state.Lease4)
		note   string
	}{
		{"ordinary", nil, func(*state.Lease4) {}, ""},
		{"/32", []dhcpv4.Option{opt(1, 255, 255, 255, 255)}, func(l *state.Lease4) { l.Addr = netip.MustParsePrefix("198.51.100.10/32") }, ""},
		{"no mask", []dhcpv4.Option{opt(1)}, func(*state.Lease4) {}, "subnet mask"},
		{"mask with holes", []dhcpv4.Option{opt(1, 255, 0, 255, 0)}, func(*state.Lease4) {}, "subnet mask"},
		{"T1 and T2", []dhcpv4.Option{opt(58, 0, 0, 0, 60), opt(59, 0, 0, 0, 90)}, func(l *state.Lease4) { l.T1, l.T2 = time.Minute, 90*time.Second }, ""},
		{"T2 after the end", []dhcpv4.Option{opt(59, 0, 1, 0, 0)}, func(*state.Lease4) {}, ""},
		{"T1 after T2", []dhcpv4.Option{opt(58, 0, 0, 1, 0), opt(59, 0, 0, 0, 90)}, func(l *state.Lease4) { l.T1, l.T2 = 90*time.Second, 90*time.Second }, ""},
		{"T1 is 0", []dhcpv4.Option{opt(58, 0, 0, 0, 0)}, func(*state.Lease4) {}, ""},
		{"without end", []dhcpv4.Option{opt(51, 255, 255, 255, 255)}, func(l *state.Lease4) { l.Duration, l.T1, l.T2 = 0, 0, 0 }, ""},
		{"no lease time", []dhcpv4.Option{opt(51)}, func(*state.Lease4) {}, "no lease time"},
		{"MTU 1492", []dhcpv4.Option{opt(26, 5, 0xd4)}, func(l *state.Lease4) { l.MTU = 1492 }, ""},
		{"MTU 576", []dhcpv4.Option{opt(26, 2, 0x40)}, func(*state.Lease4) {}, "MTU 576"},
		{"MTU of one byte", []dhcpv4.Option{opt(26, 2)}, func(*state.Lease4) {}, "MTU 0"},
		{"domain", []dhcpv4.Option{dhcpv4.OptDomainName("Example.NET.\x00")}, func(l *state.Lease4) { l.Domain = "example.net" }, ""},
		{"domain with a newline", []dhcpv4.Option{dhcpv4.OptDomainName("a\nb")}, func(*state.Lease4) {}, ""},
		{"options sent twice", []dhcpv4.Option{opt(1, 255, 255, 255, 0, 255, 0, 0, 0), opt(54, 198, 51, 100, 1, 9, 9, 9, 9), opt(51, 0, 0, 14, 16, 0, 0, 0, 9)}, func(*state.Lease4) {}, ""},
		{"DNS that is nobody's", []dhcpv4.Option{opt(6, 0, 0, 0, 0, 127, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9)}, func(l *state.Lease4) { l.DNS = l.DNS[1:] }, ""},
		{"DNS of five bytes", []dhcpv4.Option{opt(6, 9, 9, 9, 9, 9)}, func(l *state.Lease4) { l.DNS = nil }, ""},
		{"private server off the link", []dhcpv4.Option{opt(54, 10, 1, 2, 3)}, func(l *state.Lease4) { l.Server = netip.MustParseAddr("10.1.2.3") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := leaseOf(ack(tt.option...), ispMAC, sent, false)
			if err != nil {
				t.Fatal(err)
			}
			if (tt.note == "") != (got.Note == "") || !strings.Contains(got.Note, tt.note) {
				t.Errorf("note %q, want %q in it", got.Note, tt.note)
			}
			got.Note = ""
			if diff := cmp.Diff(want(tt.want), got, compare); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	for _, a := range []net.IP{nil, {0, 0, 0, 0}, {0, 1, 2, 3}, {127, 0, 0, 1}, {224, 0, 0, 1}, {255, 255, 255, 255}} {
		p := ack()
		p.YourIPAddr = a
		if l, err := leaseOf(p, ispMAC, sent, false); err == nil {
			t.Errorf("a lease of %v was taken: %+v", a, l)
		}
	}
	if l, err := leaseOf(ack(opt(51, 0, 0, 0, 1)), ispMAC, sent, false); err == nil {
		t.Errorf("a lease of 1 s was taken: %+v", l)
	}
}

func TestDecode(t *testing.T) {
	whole := ack().ToBytes()
	noEnd := whole[:len(whole)-1]
	for noEnd[len(noEnd)-1] == 0 || noEnd[len(noEnd)-1] == 255 {
		noEnd = noEnd[:len(noEnd)-1]
	}
	p, err := decode(noEnd)
	if err != nil || p.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("without an end option: %v", err)
	}
	// Domain in file, routers in sname (option 52: 3).
	over := ack(opt(3), opt(52, 3)).ToBytes()
	copy(over[fileAt:], "\x0f\x03lab\xff")
	copy(over[snameAt:], "\x03\x04\xc6\x33\x64\x09\xff")
	p, err = decode(over)
	if err != nil {
		t.Fatal(err)
	}
	l, err := leaseOf(p, ispMAC, time.Time{}, false)
	if err != nil || l.Domain != "lab" || len(l.Routes) != 1 || l.Routes[0].Gateway.String() != "198.51.100.9" {
		t.Errorf("overflowing options: %+v, %v", l, err)
	}
	for n := range len(noEnd) {
		_, _ = decode(whole[:n]) // may be taken or not: must not panic
	}
}

func FuzzLease(f *testing.F) {
	f.Add(ack().ToBytes(), false)
	f.Add(ack(opt(121, 32, 203, 0, 113, 1, 0, 0, 0, 0, 0, 203, 0, 113, 1), opt(26, 5, 0xd4), opt(52, 3)).ToBytes(), false)
	f.Add(ack(opt(249, 33, 1), opt(15, 'a', 0), opt(51, 255, 255, 255, 255)).ToBytes(), true)
	f.Fuzz(func(t *testing.T, b []byte, ignore bool) {
		p, err := decode(b)
		if err != nil {
			return
		}
		l, err := leaseOf(p, ispMAC, time.Time{}, ignore)
		if err != nil {
			return
		}
		if !usable(l.Addr.Addr()) || l.Addr.Bits() < 1 {
			t.Errorf("lease of %s", l.Addr)
		}
		if l.Duration > 0 && !(0 < l.T1 && l.T1 <= l.T2 && l.T2 < l.Duration) {
			t.Errorf("T1 %v, T2 %v, end %v", l.T1, l.T2, l.Duration)
		}
		for _, r := range l.Routes {
			if r.Dst != r.Dst.Masked() || r.Gateway.IsValid() && !usable(r.Gateway) {
				t.Errorf("route %v", r)
			}
		}
	})
}
