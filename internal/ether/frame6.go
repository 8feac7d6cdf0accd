package ether

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// frame6 is Frame for IPv6: hop limit 64.
func (u UDP) frame6() []byte {
	b := make([]byte, ethLen+ip6Len+udpLen, ethLen+ip6Len+udpLen+len(u.Payload))
	copy(b[0:], u.DstMAC[:])
	copy(b[6:], u.SrcMAC[:])
	binary.BigEndian.PutUint16(b[12:], TypeIPv6)
	src, dst := u.Src.Addr().As16(), u.Dst.Addr().As16()

	ip := b[ethLen : ethLen+ip6Len]
	ip[0] = 6 << 4
	binary.BigEndian.PutUint16(ip[4:], uint16(udpLen+len(u.Payload)))
	ip[6] = protoUDP
	ip[7] = 64
	copy(ip[8:], src[:])
	copy(ip[24:], dst[:])

	udp := b[ethLen+ip6Len:]
	binary.BigEndian.PutUint16(udp[0:], u.Src.Port())
	binary.BigEndian.PutUint16(udp[2:], u.Dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(udpLen+len(u.Payload)))
	b = append(b, u.Payload...)
	udp = b[ethLen+ip6Len:]
	check := ^sum(pseudo6(src, dst, len(udp)), udp)
	if check == 0 {
		check = 0xffff // 0 is not allowed (RFC 8200, 8.1)
	}
	binary.BigEndian.PutUint16(udp[6:], check)
	return b
}

// parseUDP6 is ParseUDP for IPv6. A datagram behind extension headers, fragments too,
// is none that DHCP has: ErrNotUDP.
func parseUDP6(frame []byte, partial bool) (UDP, error) {
	if len(frame) < ethLen+ip6Len {
		return UDP{}, ErrNotUDP
	}
	ip := frame[ethLen:]
	length := int(binary.BigEndian.Uint16(ip[4:]))
	switch {
	case ip[0]>>4 != 6:
		return UDP{}, fmt.Errorf("IPv6 header with first byte %#x", ip[0])
	case length > len(ip)-ip6Len:
		return UDP{}, fmt.Errorf("IPv6 packet of %d bytes in %d", ip6Len+length, len(ip))
	case ip[6] != protoUDP:
		return UDP{}, ErrNotUDP
	case length < udpLen:
		return UDP{}, fmt.Errorf("UDP header of %d bytes", length)
	}
	udp := ip[ip6Len : ip6Len+length]
	if n := int(binary.BigEndian.Uint16(udp[4:])); n != length {
		return UDP{}, fmt.Errorf("UDP datagram of %d bytes in %d", n, length)
	}
	src, dst := [16]byte(ip[8:24]), [16]byte(ip[24:40])
	if !partial && sum(pseudo6(src, dst, len(udp)), udp) != 0xffff {
		return UDP{}, errors.New("UDP checksum is wrong")
	}
	return carried(frame, netip.AddrFrom16(src), netip.AddrFrom16(dst), udp), nil
}

// pseudo6 is the sum over the pseudo header of RFC 8200, 8.1.
func pseudo6(src, dst [16]byte, length int) uint32 {
	var h [40]byte
	copy(h[0:], src[:])
	copy(h[16:], dst[:])
	binary.BigEndian.PutUint32(h[32:], uint32(length))
	h[39] = protoUDP
	return uint32(sum(0, h[:]))
}
