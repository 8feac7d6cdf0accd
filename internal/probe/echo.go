package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// ICMP types (RFC 792, RFC 4443).
const (
	echoReply4, unreachable4, echoRequest4, exceeded4, parameter4          = 0, 3, 8, 11, 12
	unreachable6, tooBig6, exceeded6, parameter6, echoRequest6, echoReply6 = 1, 2, 3, 4, 128, 129
)

const (
	nonceLen   = 16
	requestLen = 8 + nonceLen
	header4Len = 20 // of our own requests, which have no options
	header6Len = 40
	protoICMP4 = 1
	protoICMP6 = 58
)

type nonce [nonceLen]byte

// request is an echo request as it is written to a raw socket. The kernel fills
// in ICMPv6's checksum, but not ICMP's (RFC 3542, 3.1).
func request(ipv6 bool, id, seq uint16, n nonce) []byte {
	p := make([]byte, requestLen)
	p[0] = echoRequest4
	if ipv6 {
		p[0] = echoRequest6
	}
	binary.BigEndian.PutUint16(p[4:], id)
	binary.BigEndian.PutUint16(p[6:], seq)
	copy(p[8:], n[:])
	if !ipv6 {
		binary.BigEndian.PutUint16(p[2:], checksum(p))
	}
	return p
}

// checksum is RFC 1071's, of an even number of bytes.
func checksum(p []byte) uint16 {
	var sum uint32
	for ; len(p) >= 2; p = p[2:] {
		sum += uint32(p[0])<<8 | uint32(p[1])
	}
	sum = sum>>16 + sum&0xffff
	sum += sum >> 16
	return ^uint16(sum)
}

// answer is what a packet says about one of our requests.
type answer struct {
	id, seq uint16
	nonce   nonce
	whole   bool // nonce is there: always in a reply, seldom in an error

	failed bool
	target netip.Addr // failed: whom the request was for
	why    string     // failed: what the error says
}

// parse reads what a raw socket got: from the IPv4 header on, or for ICMPv6
// without a header. ok is false for what is no answer to an echo request. The
// checksum is not looked at: the nonce is right or it is not.
func parse(ipv6 bool, p []byte) (a answer, ok bool) {
	if !ipv6 {
		if len(p) < header4Len || p[0]>>4 != 4 {
			return answer{}, false
		}
		header := 4 * int(p[0]&0xf)
		if header < header4Len || len(p) < header || p[9] != protoICMP4 {
			return answer{}, false
		}
		p = p[header:]
	}
	if len(p) < 8 {
		return answer{}, false
	}
	kind, code := p[0], p[1]
	if !ipv6 && kind == echoReply4 || ipv6 && kind == echoReply6 {
		if code != 0 || len(p) != requestLen {
			return answer{}, false
		}
		return echo(p), true
	}
	why := errorText(ipv6, kind, code)
	if why == "" {
		return answer{}, false
	}
	target, inner, ok := embedded(ipv6, p[8:])
	if !ok {
		return answer{}, false
	}
	a = echo(inner)
	a.failed, a.target, a.why = true, target, why
	return a, true
}

// echo reads the fields that request and reply have in common; p has 8 bytes.
func echo(p []byte) (a answer) {
	a.id, a.seq = binary.BigEndian.Uint16(p[4:]), binary.BigEndian.Uint16(p[6:])
	if len(p) >= requestLen {
		a.nonce, a.whole = nonce(p[8:requestLen]), true
	}
	return a
}

// embedded finds our request in an ICMP error, which holds at least its header
// and 8 bytes (RFC 792), and for whom it was.
func embedded(ipv6 bool, p []byte) (target netip.Addr, icmp []byte, ok bool) {
	kind := byte(echoRequest4)
	if ipv6 {
		if len(p) < header6Len+8 || p[0]>>4 != 6 || p[6] != protoICMP6 {
			return netip.Addr{}, nil, false
		}
		target, icmp, kind = netip.AddrFrom16([16]byte(p[24:40])), p[header6Len:], echoRequest6
	} else {
		if len(p) < header4Len+8 || p[0] != 0x45 || p[9] != protoICMP4 {
			return netip.Addr{}, nil, false
		}
		target, icmp = netip.AddrFrom4([4]byte(p[16:20])), p[header4Len:]
	}
	return target, icmp, icmp[0] == kind && icmp[1] == 0
}

// errorText says what an ICMP error says; "" is not an error that we know.
func errorText(ipv6 bool, kind, code byte) string {
	words := map[byte]string{
		0: "network unreachable", 1: "host unreachable", 2: "protocol unreachable", 3: "port unreachable",
		4: "packet too big", 5: "source route failed", 6: "network unknown", 7: "host unknown",
		9: "network prohibited", 10: "host prohibited", 11: "network unreachable for this service",
		12: "host unreachable for this service", 13: "prohibited by an administrator",
	}
	unreachable, exceeded, parameter := byte(unreachable4), byte(exceeded4), byte(parameter4)
	if ipv6 {
		unreachable, exceeded, parameter = unreachable6, exceeded6, parameter6
		words = map[byte]string{
			0: "no route", 1: "prohibited by an administrator", 2: "beyond the scope of our address",
			3: "address unreachable", 4: "port unreachable", 5: "our address is refused", 6: "rejected by a route",
		}
	}
	switch {
	case kind == unreachable:
		if s, ok := words[code]; ok {
			return s
		}
		return fmt.Sprintf("unreachable (code %d)", code)
	case kind == exceeded:
		return "time exceeded: a routing loop?"
	case kind == parameter:
		return fmt.Sprintf("parameter problem (code %d)", code)
	case ipv6 && kind == tooBig6:
		return "packet too big"
	}
	return ""
}
