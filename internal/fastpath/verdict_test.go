package fastpath_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"weir/internal/desired"
	"weir/internal/fastpath"
	"weir/internal/netns/netnstest"
)

// Each verdict of the port's program, by itself: what it takes, what it leaves and why,
// and what it makes of what it takes.
func TestVerdicts(t *testing.T) {
	netnstest.Need(t)
	parts := []desired.Part{
		{Prefix: pre("198.51.100.10/32"), Role: desired.RoleHome | desired.RoleLeaves | desired.RoleHere},
		{Prefix: pre("198.51.100.255/32"), Role: desired.RoleHere},
		{Prefix: pre("2001:db8:f100::/56"), Role: desired.RoleHome | desired.RoleLeaves},
		{Prefix: pre("2001:db8:f100::1/128"), Role: desired.RoleHere},
	}
	for _, c := range []struct {
		name string
		packet
		takes bool
		why   fastpath.Counts // of what it leaves
	}{
		{name: "UDP", packet: packet{src: peer, dst: own, sport: 443, dport: 5000}, takes: true},
		{name: "TCP", packet: packet{tcp: "A", src: peer, dst: own, sport: 443, dport: 5000}, takes: true},
		{name: "FIN", packet: packet{tcp: "FA", src: peer, dst: own, sport: 443, dport: 5000}, takes: true},
		{name: "SYN", packet: packet{tcp: "S", src: peer, dst: own, sport: 443, dport: 5000}, why: fastpath.Counts{First: 1}},
		{name: "SYN and ACK", packet: packet{tcp: "SA", src: peer, dst: own, sport: 443, dport: 5000}, why: fastpath.Counts{First: 1}},
		{name: "two hops", packet: packet{src: peer, dst: own, sport: 443, dport: 5000, ttl: 2}, takes: true},
		{name: "one hop", packet: packet{src: peer, dst: own, sport: 443, dport: 5000, ttl: 1}, why: fastpath.Counts{Odd: 1}},
		{name: "as long as the cable takes", packet: packet{src: peer, dst: own, sport: 443, dport: 5000, size: 1372}, takes: true},
		{name: "a byte longer", packet: packet{src: peer, dst: own, sport: 443, dport: 5000, size: 1373}, why: fastpath.Counts{Long: 1}},
		{name: "a fragment", packet: packet{src: peer, dst: own, sport: 443, dport: 5000, size: 64, more: true}, why: fastpath.Counts{Fragment: 1}},
		{name: "a later fragment", packet: packet{src: peer, dst: own, offset: 9}, why: fastpath.Counts{Fragment: 1}},
		{name: "options", packet: packet{src: peer, dst: own, sport: 443, dport: 5000, option: true}, why: fastpath.Counts{Odd: 1}},
		{name: "ICMP", packet: packet{icmp: "reply", src: peer, dst: own, sport: 7}, why: fastpath.Counts{Other: 1}},
		{name: "GRE", packet: packet{src: peer, dst: own, proto: 47}, why: fastpath.Counts{Other: 1}},
		{name: "a DNS answer", packet: packet{src: peer, dst: own, sport: 53, dport: 5000}, why: fastpath.Counts{Read: 1}},
		{name: "DHCP", packet: packet{src: peer, dst: own, sport: 67, dport: 68}, why: fastpath.Counts{Read: 1}},
		{name: "not ours", packet: packet{src: peer, dst: "198.51.100.11", sport: 443, dport: 5000}, why: fastpath.Counts{Nobody: 1}},
		{name: "the broadcast", packet: packet{src: peer, dst: "198.51.100.255", sport: 443, dport: 5000}, why: fastpath.Counts{Nobody: 1}},
		{name: "from ourselves", packet: packet{src: own, dst: own, sport: 443, dport: 5000}, why: fastpath.Counts{Nobody: 1}},
		{name: "from the broadcast", packet: packet{src: "198.51.100.255", dst: own, sport: 443, dport: 5000}, why: fastpath.Counts{Nobody: 1}},
		{name: "IPv6 to a delegated prefix", packet: packet{src: peer6, dst: "2001:db8:f100:1::50", sport: 443, dport: 5000}, takes: true},
		{name: "IPv6 to what is the namespace's in it", packet: packet{src: peer6, dst: "2001:db8:f100::1", sport: 443, dport: 5000}, why: fastpath.Counts{Nobody: 1}},
		{name: "IPv6 from the link", packet: packet{src: "fe80::9", dst: "2001:db8:f100:1::50", sport: 443, dport: 5000}, why: fastpath.Counts{Nobody: 1}},
		{name: "IPv6 with options", packet: packet{src: peer6, dst: "2001:db8:f100:1::50", sport: 443, dport: 5000, option: true}, why: fastpath.Counts{Odd: 1}},
		{name: "IPv6 SYN", packet: packet{tcp: "S", src: peer6, dst: "2001:db8:f100:1::50", sport: 443, dport: 5000}, why: fastpath.Counts{First: 1}},
		{name: "IPv6 ICMP", packet: packet{icmp: "reply", src: peer6, dst: "2001:db8:f100:1::50", sport: 7}, why: fastpath.Counts{Other: 1}},
		{name: "IPv6 a DNS answer", packet: packet{src: peer6, dst: "2001:db8:f100:1::50", sport: 53, dport: 5000}, why: fastpath.Counts{Read: 1}},
		{name: "IPv6 a byte longer", packet: packet{src: peer6, dst: "2001:db8:f100:1::50", sport: 443, dport: 5000, size: 1353}, why: fastpath.Counts{Long: 1}},
		{name: "IPv6 one hop", packet: packet{src: peer6, dst: "2001:db8:f100:1::50", sport: 443, dport: 5000, ttl: 1}, why: fastpath.Counts{Odd: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := c.frame(nobody)
			took, out, counts, err := fastpath.Run(frame, 1400, parts)
			if err != nil {
				netnstest.Missing(t, "bpf", err)
			}
			if took != c.takes {
				t.Fatalf("taken: %v, want %v", took, c.takes)
			}
			if c.takes {
				c.why = fastpath.Counts{Short: 1}
			}
			if counts != c.why {
				t.Errorf("counted %+v, want %+v", counts, c.why)
			}
			want := bytes.Clone(frame)
			if c.takes {
				want = hopOn(want)
			}
			if !bytes.Equal(out, want) {
				t.Errorf("it became\n%x, want\n%x", out, want)
			}
		})
	}
}

// hopOn is a frame as it goes over the cable: other stations, and a hop less.
func hopOn(f []byte) []byte {
	to, _ := net.ParseMAC("02:00:00:00:00:01")
	from, _ := net.ParseMAC("02:00:00:00:00:02")
	copy(f, to)
	copy(f[6:], from)
	if binary.BigEndian.Uint16(f[12:]) == 0x0800 {
		f[22]--
		return fixed4(f)
	}
	f[21]--
	return f
}
