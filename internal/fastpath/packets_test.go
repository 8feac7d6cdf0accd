package fastpath_test

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"
)

// A packet is what a row sends. The zero value of a field is the ordinary one.
type packet struct {
	src, dst     string
	tcp          string // flags: "S", "SA", "A", "R", "FA"; "" is UDP
	sport, dport uint16
	ttl          uint8 // 0 is 64
	tos          uint8
	size         int // of the payload; 0 is 20
	df           bool
	offset       uint16 // of the fragment, in 8 bytes
	more         bool
	option       bool   // a record of the route, or a hop-by-hop header
	icmp         string // "echo", "reply", "toobig": in the place of UDP
	quotes       []byte // by an ICMP error: a packet from IP's header on
	proto        uint8  // another protocol, without more
	seq, ack     uint32

	mangle func(frame []byte) []byte // what no honest stack sends
}

// frame makes the frame that carries the packet from an end to the gateway.
func (p packet) frame(e *end) []byte {
	src, dst := netip.MustParseAddr(p.src), netip.MustParseAddr(p.dst)
	eth := &layers.Ethernet{SrcMAC: e.mac, DstMAC: e.gw, EthernetType: layers.EthernetTypeIPv4}
	ttl, size := p.ttl, p.size
	if ttl == 0 {
		ttl = 64
	}
	if size == 0 {
		size = 20
	}
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(i*7 + int(p.sport))
	}
	proto := layers.IPProtocolUDP
	switch {
	case p.tcp != "":
		proto = layers.IPProtocolTCP
	case p.icmp != "" && src.Is4():
		proto = layers.IPProtocolICMPv4
	case p.icmp != "":
		proto = layers.IPProtocolICMPv6
	case p.proto != 0:
		proto = layers.IPProtocol(p.proto)
	}
	var network gopacket.NetworkLayer
	stack := []gopacket.SerializableLayer{eth}
	if src.Is4() {
		ip := &layers.IPv4{Version: 4, IHL: 5, TTL: ttl, TOS: p.tos, Id: 0x1234 + p.sport, Protocol: proto, SrcIP: net.IP(src.AsSlice()), DstIP: net.IP(dst.AsSlice()), FragOffset: p.offset}
		if p.df {
			ip.Flags |= layers.IPv4DontFragment
		}
		if p.more {
			ip.Flags |= layers.IPv4MoreFragments
		}
		if p.option {
			ip.Options = []layers.IPv4Option{{OptionType: 7, OptionLength: 7, OptionData: []byte{4, 0, 0, 0, 0}}, {OptionType: 0}}
		}
		network, stack = ip, append(stack, ip)
	} else {
		eth.EthernetType = layers.EthernetTypeIPv6
		ip := &layers.IPv6{Version: 6, HopLimit: ttl, TrafficClass: p.tos, NextHeader: proto, SrcIP: net.IP(src.AsSlice()), DstIP: net.IP(dst.AsSlice())}
		network, stack = ip, append(stack, ip)
		if p.option {
			ip.NextHeader = layers.IPProtocolIPv6Destination
			d := &layers.IPv6Destination{}
			d.NextHeader = proto
			d.Options = []*layers.IPv6DestinationOption{{OptionType: 1, OptionData: []byte{0, 0, 0, 0}}}
			stack = append(stack, d)
		}
	}
	switch {
	case p.offset > 0 || p.proto != 0:
	case p.tcp != "":
		t := &layers.TCP{SrcPort: layers.TCPPort(p.sport), DstPort: layers.TCPPort(p.dport), Seq: p.seq, Ack: p.ack, Window: 65000}
		for _, f := range p.tcp {
			switch f {
			case 'S':
				t.SYN = true
				t.Options = []layers.TCPOption{{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{0x05, 0xb4}}}
				payload = nil
			case 'A':
				t.ACK = true
			case 'R':
				t.RST = true
			case 'F':
				t.FIN = true
			}
		}
		_ = t.SetNetworkLayerForChecksum(network)
		stack = append(stack, t)
	case p.icmp != "" && src.Is4():
		i := &layers.ICMPv4{Id: p.sport, Seq: 1}
		switch p.icmp {
		case "echo":
			i.TypeCode = layers.CreateICMPv4TypeCode(8, 0)
		case "reply":
			i.TypeCode = layers.CreateICMPv4TypeCode(0, 0)
		case "toobig":
			i.TypeCode, i.Id, i.Seq, payload = layers.CreateICMPv4TypeCode(3, 4), 0, 1300, p.quotes
		}
		stack = append(stack, i)
	case p.icmp != "":
		i := &layers.ICMPv6{}
		switch p.icmp {
		case "echo":
			i.TypeCode = layers.CreateICMPv6TypeCode(128, 0)
			payload = binary.BigEndian.AppendUint32(nil, uint32(p.sport)<<16|1)
		case "reply":
			i.TypeCode = layers.CreateICMPv6TypeCode(129, 0)
			payload = binary.BigEndian.AppendUint32(nil, uint32(p.sport)<<16|1)
		case "toobig":
			i.TypeCode = layers.CreateICMPv6TypeCode(2, 0)
			payload = append(binary.BigEndian.AppendUint32(nil, 1300), p.quotes...)
		}
		_ = i.SetNetworkLayerForChecksum(network)
		stack = append(stack, i)
	default:
		u := &layers.UDP{SrcPort: layers.UDPPort(p.sport), DstPort: layers.UDPPort(p.dport)}
		_ = u.SetNetworkLayerForChecksum(network)
		stack = append(stack, u)
	}
	stack = append(stack, gopacket.Payload(payload))
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, stack...); err != nil {
		panic(err) // a row of the table is wrong
	}
	frame := buf.Bytes()
	if p.mangle != nil {
		frame = p.mangle(frame)
	}
	return frame
}

// The ways to mangle a frame.

func padded(f []byte) []byte { return append(f, make([]byte, 18)...) }

func byteAt(i int, xor byte) func([]byte) []byte {
	return func(f []byte) []byte { f[i] ^= xor; return f }
}

// length4 puts another total length into IPv4's header, whose checksum stays right.
func length4(n uint16) func([]byte) []byte {
	return func(f []byte) []byte {
		binary.BigEndian.PutUint16(f[16:], n)
		return fixed4(f)
	}
}

// fixed4 sums up IPv4's header.
func fixed4(f []byte) []byte {
	f[24], f[25] = 0, 0
	sum := uint32(0)
	for i := 14; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(f[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(f[24:], ^uint16(sum))
	return f
}

func toMAC(mac string) func([]byte) []byte {
	return func(f []byte) []byte {
		hw, err := net.ParseMAC(mac)
		if err != nil {
			panic(err)
		}
		copy(f, hw)
		return f
	}
}

func tagged(vid uint16) func([]byte) []byte {
	return func(f []byte) []byte {
		tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_8021Q), vid)
		return append(append(append([]byte{}, f[:12]...), tag...), f[12:]...)
	}
}

// first is of a datagram that is 20 bytes longer than this fragment of it, without a
// checksum.
func first(f []byte) []byte {
	binary.BigEndian.PutUint16(f[38:], binary.BigEndian.Uint16(f[38:])+20)
	f[40], f[41] = 0, 0
	return f
}

// short cuts the frame within the transport's header.
func short(f []byte) []byte { return f[:38] }
