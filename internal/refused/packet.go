package refused

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// IANA protocol numbers that parse knows more about.
const (
	protoHopByHop = 0
	protoICMP     = 1
	protoTCP      = 6
	protoUDP      = 17
	protoRouting  = 43
	protoFragment = 44
	protoAH       = 51
	protoICMPv6   = 58
	protoDestOpts = 60
	protoSCTP     = 132
	protoUDPLite  = 136
)

// Packet is one that was refused.
type Packet struct {
	At   time.Time `json:"at"`   // when it was read
	Rule string    `json:"rule"` // the log prefix without what all have in common

	InIndex  int `json:"in,omitempty"` // interface indexes in main; 0: none
	OutIndex int `json:"out,omitempty"`

	// What its header says. Src is invalid if that could not be read.
	Src, Dst netip.Addr
	Protocol uint8 // the upper-layer protocol, behind IPv6's extension headers

	// Ports of TCP, UDP, UDP-Lite and SCTP; ICMP's type and code. HasUpper is
	// false where they could not be read: a later fragment, a cut-off packet.
	HasUpper         bool
	SrcPort, DstPort uint16
	Type, Code       uint8
}

// headers reads src, dst, protocol and ports from the head of an IP packet. It
// leaves zero what is not there.
func (p *Packet) headers(b []byte) {
	if len(b) == 0 {
		return
	}
	switch b[0] >> 4 {
	case 4:
		p.header4(b)
	case 6:
		p.header6(b)
	}
}

// header4 is RFC 791, 3.1.
func (p *Packet) header4(b []byte) {
	if len(b) < 20 {
		return
	}
	length := 4 * int(b[0]&0xf)
	if length < 20 {
		return
	}
	p.Src, p.Dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	p.Protocol = b[9]
	if binary.BigEndian.Uint16(b[6:])&0x1fff != 0 || len(b) < length {
		return // a later fragment
	}
	p.upper(b[length:])
}

// header6 is RFC 8200, 3 and 4.
func (p *Packet) header6(b []byte) {
	if len(b) < 40 {
		return
	}
	p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	p.Protocol = b[6]
	b = b[40:]
	for {
		length := 0
		switch p.Protocol {
		case protoHopByHop, protoRouting, protoDestOpts:
			if len(b) >= 2 {
				length = 8 * (int(b[1]) + 1)
			}
		case protoAH: // RFC 4302, 2.2
			if len(b) >= 2 {
				length = 4 * (int(b[1]) + 2)
			}
		case protoFragment:
			if len(b) < 8 {
				return
			}
			length = 8
			if binary.BigEndian.Uint16(b[2:])&0xfff8 != 0 {
				p.Protocol = b[0]
				return // a later fragment
			}
		default:
			p.upper(b)
			return
		}
		if length == 0 || len(b) < length {
			return
		}
		p.Protocol = b[0]
		b = b[length:]
	}
}

func (p *Packet) upper(b []byte) {
	switch p.Protocol {
	case protoTCP, protoUDP, protoUDPLite, protoSCTP:
		if len(b) >= 4 {
			p.HasUpper = true
			p.SrcPort, p.DstPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		}
	case protoICMP, protoICMPv6:
		if len(b) >= 2 {
			p.HasUpper = true
			p.Type, p.Code = b[0], b[1]
		}
	}
}

func (p Packet) ports() bool {
	return p.HasUpper && p.Protocol != protoICMP && p.Protocol != protoICMPv6
}

// From is the packet's source as people write it: with its port, if it has one.
// "" is not known.
func (p Packet) From() string { return place(p.Src, p.SrcPort, p.ports()) }

// To is the packet's destination, likewise.
func (p Packet) To() string { return place(p.Dst, p.DstPort, p.ports()) }

func place(a netip.Addr, port uint16, has bool) string {
	switch {
	case !a.IsValid():
		return ""
	case has:
		return netip.AddrPortFrom(a, port).String()
	}
	return a.String()
}

// Proto is the packet's protocol: "tcp", "udp", "icmp type 8", "protocol 47".
func (p Packet) Proto() string {
	switch p.Protocol {
	case protoTCP:
		return "tcp"
	case protoUDP:
		return "udp"
	case protoUDPLite:
		return "udplite"
	case protoSCTP:
		return "sctp"
	case protoICMP, protoICMPv6:
		name := "icmp"
		if p.Protocol == protoICMPv6 {
			name = "icmpv6"
		}
		if p.HasUpper {
			name += fmt.Sprintf(" type %d", p.Type)
		}
		return name
	}
	if !p.Src.IsValid() {
		return ""
	}
	return fmt.Sprintf("protocol %d", p.Protocol)
}
