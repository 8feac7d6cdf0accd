package ether

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// MAC is an Ethernet address. Unlike net.HardwareAddr it can be compared.
type MAC [6]byte

// Broadcast is everybody on the link.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// ParseMAC reads six bytes in hex with colons or dashes.
func ParseMAC(s string) (MAC, error) {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return MAC{}, fmt.Errorf("%q is no Ethernet address: write it as 02:00:00:00:00:01", s)
	}
	return MAC(hw), nil
}

// String writes the address in lower case with colons.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// IsGroup says whether m is a multicast or broadcast address: nobody's own.
func (m MAC) IsGroup() bool { return m[0]&1 != 0 }

// The lengths of the headers, in bytes, and the EtherTypes.
const (
	ethLen, ipLen, ip6Len, udpLen, arpLen = 14, 20, 40, 8, 28

	TypeIPv4 = 0x0800
	TypeARP  = 0x0806
	TypeIPv6 = 0x86dd

	protoUDP = 17
)

// UDP is an unfragmented UDP datagram in an Ethernet frame.
type UDP struct {
	SrcMAC, DstMAC MAC
	Src, Dst       netip.AddrPort // both of one family, without zones
	Payload        []byte
}

// ErrNotUDP is the error of ParseUDP for a frame that is whole and something
// else, or a fragment.
var ErrNotUDP = errors.New("not a UDP datagram")

// Frame returns the frame to send: TTL 64, don't fragment, all checksums.
func (u UDP) Frame() []byte {
	if u.Dst.Addr().Is6() {
		return u.frame6()
	}
	b := make([]byte, ethLen+ipLen+udpLen, ethLen+ipLen+udpLen+len(u.Payload))
	copy(b[0:], u.DstMAC[:])
	copy(b[6:], u.SrcMAC[:])
	binary.BigEndian.PutUint16(b[12:], TypeIPv4)
	src, dst := u.Src.Addr().As4(), u.Dst.Addr().As4()

	ip := b[ethLen : ethLen+ipLen]
	ip[0] = 4<<4 | ipLen/4
	ip[1] = 0x10 // lowdelay, as ISC's and most others'
	binary.BigEndian.PutUint16(ip[2:], uint16(ipLen+udpLen+len(u.Payload)))
	ip[6] = 0x40 // don't fragment
	ip[8] = 64
	ip[9] = protoUDP
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	binary.BigEndian.PutUint16(ip[10:], ^sum(0, ip))

	udp := b[ethLen+ipLen:]
	binary.BigEndian.PutUint16(udp[0:], u.Src.Port())
	binary.BigEndian.PutUint16(udp[2:], u.Dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(udpLen+len(u.Payload)))
	b = append(b, u.Payload...)
	udp = b[ethLen+ipLen:]
	check := ^sum(pseudo(src, dst, len(udp)), udp)
	if check == 0 {
		check = 0xffff // 0 says that there is none (RFC 768)
	}
	binary.BigEndian.PutUint16(udp[6:], check)
	return b
}

// ParseUDP reads a frame. Bytes after the IP packet are padding (a frame has at
// least 60) and left out. The UDP checksum is not looked at if the kernel said
// that it is not there yet or good already (partial).
//
// The payload is part of frame. The error is ErrNotUDP, or says what is wrong.
func ParseUDP(frame []byte, partial bool) (UDP, error) {
	if len(frame) >= ethLen && binary.BigEndian.Uint16(frame[12:]) == TypeIPv6 {
		return parseUDP6(frame, partial)
	}
	if len(frame) < ethLen+ipLen || binary.BigEndian.Uint16(frame[12:]) != TypeIPv4 {
		return UDP{}, ErrNotUDP
	}
	ip := frame[ethLen:]
	header, total := int(ip[0]&0xf)*4, int(binary.BigEndian.Uint16(ip[2:]))
	switch {
	case ip[0]>>4 != 4 || header < ipLen:
		return UDP{}, fmt.Errorf("IPv4 header with first byte %#x", ip[0])
	case total < header || total > len(ip):
		return UDP{}, fmt.Errorf("IPv4 packet of %d bytes in %d", total, len(ip))
	case sum(0, ip[:header]) != 0xffff:
		return UDP{}, errors.New("IPv4 header checksum is wrong")
	case ip[9] != protoUDP || binary.BigEndian.Uint16(ip[6:])&0x3fff != 0: // offset and more-fragments
		return UDP{}, ErrNotUDP
	}
	udp := ip[header:total]
	if len(udp) < udpLen {
		return UDP{}, fmt.Errorf("UDP header of %d bytes", len(udp))
	}
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if length < udpLen || length > len(udp) {
		return UDP{}, fmt.Errorf("UDP datagram of %d bytes in %d", length, len(udp))
	}
	udp = udp[:length]
	src, dst := [4]byte(ip[12:16]), [4]byte(ip[16:20])
	if !partial && binary.BigEndian.Uint16(udp[6:]) != 0 && sum(pseudo(src, dst, len(udp)), udp) != 0xffff {
		return UDP{}, errors.New("UDP checksum is wrong")
	}
	return carried(frame, netip.AddrFrom4(src), netip.AddrFrom4(dst), udp), nil
}

// carried is the datagram udp, sound and whole, in a frame.
func carried(frame []byte, src, dst netip.Addr, udp []byte) UDP {
	return UDP{
		DstMAC:  MAC(frame[0:6]),
		SrcMAC:  MAC(frame[6:12]),
		Src:     netip.AddrPortFrom(src, binary.BigEndian.Uint16(udp[0:])),
		Dst:     netip.AddrPortFrom(dst, binary.BigEndian.Uint16(udp[2:])),
		Payload: udp[udpLen:],
	}
}

// pseudo is the sum over the pseudo header of RFC 768.
func pseudo(src, dst [4]byte, length int) uint32 {
	var h [12]byte
	copy(h[0:], src[:])
	copy(h[4:], dst[:])
	h[9] = protoUDP
	binary.BigEndian.PutUint16(h[10:], uint16(length))
	return uint32(sum(0, h[:]))
}

// sum is the one's complement sum of RFC 1071, not yet inverted.
func sum(initial uint32, b []byte) uint16 {
	s := initial
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// ARP operations (RFC 826).
const (
	ARPRequest = 1
	ARPReply   = 2
)

// ARP is an ARP packet for IPv4 over Ethernet (RFC 826).
type ARP struct {
	Op             uint16
	Sender, Target MAC
	SenderIP       netip.Addr // 0.0.0.0 in a probe
	TargetIP       netip.Addr
}

// Probe asks who has addr, in nobody's name (RFC 5227, 1.1).
func Probe(from MAC, addr netip.Addr) ARP {
	return ARP{Op: ARPRequest, Sender: from, SenderIP: netip.IPv4Unspecified(), TargetIP: addr}
}

// Frame returns the frame to send, to everybody if it is a request.
func (a ARP) Frame() []byte {
	b := make([]byte, ethLen+arpLen)
	dst := a.Target
	if a.Op == ARPRequest {
		dst = Broadcast
	}
	copy(b[0:], dst[:])
	copy(b[6:], a.Sender[:])
	binary.BigEndian.PutUint16(b[12:], TypeARP)
	p := b[ethLen:]
	binary.BigEndian.PutUint16(p[0:], 1) // Ethernet
	binary.BigEndian.PutUint16(p[2:], TypeIPv4)
	p[4], p[5] = 6, 4
	binary.BigEndian.PutUint16(p[6:], a.Op)
	sip, tip := a.SenderIP.As4(), a.TargetIP.As4()
	copy(p[8:], a.Sender[:])
	copy(p[14:], sip[:])
	copy(p[18:], a.Target[:])
	copy(p[24:], tip[:])
	return b
}

// ParseARP reads a frame.
func ParseARP(frame []byte) (ARP, error) {
	if len(frame) < ethLen+arpLen {
		return ARP{}, fmt.Errorf("ARP frame of %d bytes", len(frame))
	}
	p := frame[ethLen:]
	if binary.BigEndian.Uint16(frame[12:]) != TypeARP || binary.BigEndian.Uint16(p[0:]) != 1 ||
		binary.BigEndian.Uint16(p[2:]) != TypeIPv4 || p[4] != 6 || p[5] != 4 {
		return ARP{}, errors.New("not ARP for IPv4 over Ethernet")
	}
	return ARP{
		Op:       binary.BigEndian.Uint16(p[6:]),
		Sender:   MAC(p[8:14]),
		SenderIP: netip.AddrFrom4([4]byte(p[14:18])),
		Target:   MAC(p[18:24]),
		TargetIP: netip.AddrFrom4([4]byte(p[24:28])),
	}, nil
}
