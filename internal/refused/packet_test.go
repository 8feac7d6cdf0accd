package refused

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

func ip4(proto byte, fragment uint16, options int, body ...byte) []byte {
	b := make([]byte, 20+options)
	b[0], b[9] = 0x40|byte(len(b)/4), proto
	binary.BigEndian.PutUint16(b[6:], fragment)
	copy(b[12:], []byte{192, 0, 2, 7})
	copy(b[16:], []byte{172, 31, 0, 23})
	return append(b, body...)
}

func ip6(next byte, body ...byte) []byte {
	b := make([]byte, 40)
	b[0], b[6] = 0x60, next
	copy(b[8:], netip.MustParseAddr("2001:db8::7").AsSlice())
	copy(b[24:], netip.MustParseAddr("fd00::23").AsSlice())
	return append(b, body...)
}

func TestHeaders(t *testing.T) {
	ports := []byte{0x9c, 0x40, 0x00, 0x16} // 40000 -> 22
	hop := []byte{protoDestOpts, 0, 1, 4, 0, 0, 0, 0}
	opts := []byte{protoTCP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		name            string
		b               []byte
		from, to, proto string
	}{
		{"tcp", ip4(6, 0, 0, ports...), "192.0.2.7:40000", "172.31.0.23:22", "tcp"},
		{"udp behind options", ip4(17, 0, 8, ports...), "192.0.2.7:40000", "172.31.0.23:22", "udp"},
		{"first fragment", ip4(17, 0x2000, 0, ports...), "192.0.2.7:40000", "172.31.0.23:22", "udp"},
		{"later fragment", ip4(17, 0x2001, 0, ports...), "192.0.2.7", "172.31.0.23", "udp"},
		{"ports cut off", ip4(6, 0, 0, ports[:3]...), "192.0.2.7", "172.31.0.23", "tcp"},
		{"options cut off", ip4(6, 0, 40)[:30], "192.0.2.7", "172.31.0.23", "tcp"},
		{"echo request", ip4(1, 0, 0, 8, 0), "192.0.2.7", "172.31.0.23", "icmp type 8"},
		{"gre", ip4(47, 0, 0, ports...), "192.0.2.7", "172.31.0.23", "protocol 47"},
		{"header too short", []byte{0x44, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "", "", ""},
		{"half a header", ip4(6, 0, 0)[:19], "", "", ""},
		{"nothing", nil, "", "", ""},
		{"another protocol", []byte{0x50}, "", "", ""},
		{"tcp", ip6(6, ports...), "[2001:db8::7]:40000", "[fd00::23]:22", "tcp"},
		{"icmpv6", ip6(58, 128, 0), "2001:db8::7", "fd00::23", "icmpv6 type 128"},
		{"behind extension headers", ip6(protoHopByHop, append(append(append([]byte{}, hop...), opts...), ports...)...), "[2001:db8::7]:40000", "[fd00::23]:22", "tcp"},
		{"behind AH", ip6(protoAH, append([]byte{17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, ports...)...), "[2001:db8::7]:40000", "[fd00::23]:22", "udp"},
		{"first fragment", ip6(protoFragment, append([]byte{17, 0, 0, 1, 0, 0, 0, 9}, ports...)...), "[2001:db8::7]:40000", "[fd00::23]:22", "udp"},
		{"later fragment", ip6(protoFragment, append([]byte{17, 0, 0, 9, 0, 0, 0, 9}, ports...)...), "2001:db8::7", "fd00::23", "udp"},
		{"extension cut off", ip6(protoHopByHop, protoTCP), "2001:db8::7", "fd00::23", "protocol 0"},
		{"extension longer than all", ip6(protoRouting, 6, 255, 0, 0, 0, 0, 0, 0), "2001:db8::7", "fd00::23", "protocol 43"},
		{"no next header", ip6(59, ports...), "2001:db8::7", "fd00::23", "protocol 59"},
		{"half a header", ip6(6)[:39], "", "", ""},
	} {
		var p Packet
		p.headers(c.b)
		if p.From() != c.from || p.To() != c.to || p.Proto() != c.proto {
			t.Errorf("%s: %q to %q, %q; want %q to %q, %q", c.name, p.From(), p.To(), p.Proto(), c.from, c.to, c.proto)
		}
	}
}

// message is a packet as nflog tells of it.
func message(prefix string, packet []byte) []byte {
	ae := netlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	ae.Bytes(1, []byte{0x08, 0, 1, 0}) // NFULA_PACKET_HDR
	ae.String(attrPrefix, prefix)
	ae.Uint32(attrIn, 3)
	ae.Bytes(attrPayload, packet)
	attrs, err := ae.Encode()
	if err != nil {
		panic(err)
	}
	b := make([]byte, 20, 20+len(attrs))
	binary.NativeEndian.PutUint32(b, uint32(20+len(attrs)))
	binary.NativeEndian.PutUint16(b[4:], msgPacket)
	b[16], b[19] = unix.AF_INET, 87
	return append(b, attrs...)
}

func TestParse(t *testing.T) {
	now := time.Unix(1, 0)
	b := append(message("weir block.tv", ip4(1, 0, 0, 8, 0)), message("other ", ip4(6, 0, 0))...)
	b = append(b, message("weir a\x1b[31m", nil)...)
	got, err := parse(b, "weir ", now)
	want := []Packet{
		{At: now, Rule: "block.tv", InIndex: 3, Src: netip.MustParseAddr("192.0.2.7"), Dst: netip.MustParseAddr("172.31.0.23"), Protocol: 1, HasUpper: true, Type: 8},
		{At: now, Rule: "a[31m", InIndex: 3},
	}
	if err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
	if _, err := parse(b[:30], "weir ", now); err == nil {
		t.Error("half a message is read without an error")
	}
}

// FuzzParse: no bytes panic, whether the message or the packet in it is bad.
func FuzzParse(f *testing.F) {
	f.Add(message("weir block.tv", ip4(6, 0, 0, 1, 2, 3, 4)), ip6(protoHopByHop, 0, 0))
	f.Add([]byte{}, ip4(6, 0, 40))
	f.Add([]byte{16, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, ip6(protoFragment, 17, 0, 0, 9, 0, 0, 0, 9))
	f.Add(message("", ip6(protoAH, 44, 0, 0, 0, 0, 0, 0, 0))[:60], []byte{0x60})
	f.Fuzz(func(t *testing.T, msg, packet []byte) {
		if _, err := parse(msg, "weir ", time.Time{}); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		var p Packet
		p.headers(packet)
		if p.HasUpper && !p.Src.IsValid() {
			t.Errorf("ports of a packet without addresses: %+v", p)
		}
		_ = p.From() + p.To() + p.Proto()
	})
}
