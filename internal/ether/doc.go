// Package ether has the frames that DHCP and its conflict checks are made of,
// and the packet sockets that carry them: UDP over IPv4 to and from hosts that
// have no address yet, and ARP probes (RFC 5227).
//
// A packet socket (packet(7)) sees a frame before the kernel's own IPv4 does,
// and so before any filter of ours. Three traps come with it. The checksum of a
// frame from this very machine (veth, virtio) is not there yet, and the frame
// says so only in PACKET_AUXDATA. The VLAN tag of a frame is taken out before
// the socket sees it: a frame of a VLAN nobody serves looks like an untagged
// one, but for the same auxiliary data. And frames for other hosts come in
// when the port is promiscuous.
package ether
