// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the programs of the fast path share: which packets are plain enough to be
// carried, and what a hop does to one.

#include <stddef.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2
#define AF_INET6 10

// On to the next program, and then to the kernel: TCX_NEXT.
#define SLOWLY TC_ACT_UNSPEC

// transport returns how long the header beyond IP's is; 0 if the protocol, a flag
// or a port is not for the program. Each program has its own.
static __always_inline __u32 transport(__u8 protocol, void *at, void *end, int inward);

// longest is the length of the packet on the next link, from IP's header on: of
// one segment, where several travel as one (GSO).
static __always_inline __u32 longest(struct __sk_buff *skb, __u32 whole, __u32 headers)
{
	return skb->gso_size ? skb->gso_size + headers : whole;
}

// head4 returns IPv4's header if nothing about the packet is odd. headers is how
// long it is with the next one.
static __always_inline struct iphdr *head4(struct __sk_buff *skb, int inward, __u32 *headers)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + ETH_HLEN;
	__u32 next;

	if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->ttl <= 1)
		return 0;
	if (ip->frag_off & bpf_htons(0x3fff)) // more, or an offset
		return 0;
	next = transport(ip->protocol, ip + 1, end, inward);
	*headers = sizeof(*ip) + next;
	if (!next || bpf_ntohs(ip->tot_len) < *headers || bpf_ntohs(ip->tot_len) > skb->len - ETH_HLEN)
		return 0;
	return ip;
}

static __always_inline struct ipv6hdr *head6(struct __sk_buff *skb, int inward, __u32 *headers)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ipv6hdr *ip = data + ETH_HLEN;
	__u32 next;

	if ((void *)(ip + 1) > end || ip->version != 6 || ip->hop_limit <= 1)
		return 0;
	next = transport(ip->nexthdr, ip + 1, end, inward);
	*headers = sizeof(*ip) + next;
	if (!next || bpf_ntohs(ip->payload_len) < next || bpf_ntohs(ip->payload_len) + sizeof(*ip) > skb->len - ETH_HLEN)
		return 0;
	return ip;
}

static __always_inline void hop4(struct iphdr *ip)
{
	__u32 check = ip->check;

	check += bpf_htons(0x0100);
	ip->check = check + (check >= 0xffff);
	ip->ttl--;
}

// hop6 goes by a helper, for the port may have summed up the packet with its hop
// limit (CHECKSUM_COMPLETE). What pointed into the packet is void then.
static __always_inline void hop6(struct __sk_buff *skb, __u8 left)
{
	left--;
	bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, hop_limit), &left, 1, BPF_F_RECOMPUTE_CSUM);
}

// plain says whether the frame is for this station, and of no VLAN.
static __always_inline int plain(struct __sk_buff *skb)
{
	return skb->pkt_type == PACKET_HOST && !skb->vlan_present;
}
