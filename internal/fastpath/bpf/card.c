// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The shortcut of a line's namespace. Such a namespace keeps no state: it
// routes between the line's port and the patch cable, and its ruleset says
// what may pass (internal/ruleset, card.go). These two programs do the same for
// the packets that pass there unchanged but for their hop limit, and leave every
// other packet to the namespace, as if they were not there.
//
//	ISP === port [weir_port] ---------> the cable's end in main
//	ISP === port <--------- [weir_cable] cable === main
//
// Left to the namespace: what is not TCP or UDP (ICMP is answered, translated
// or made there), SYN (its MSS is clamped), fragments and options, the last hop,
// what is longer than the next link takes, DNS answers and DHCP, what was not
// sent to this station, sources and destinations that are not known to be ours
// or beyond, and whatever no next hop is known for.

#include "packet.h"

// What the links are. It stays while the programs are attached.
struct links {
	__u8 build[8];		 // of the programs: tells those of another release
	__u32 port, cable;	 // indexes in this namespace
	__u32 cable_mtu;
	__u8 main_mac[ETH_ALEN]; // of the cable's end in main
	__u8 cable_mac[ETH_ALEN];
};

const volatile struct links between = {};

// What an address is to the line, by the longest prefix; IPv4 as ::ffff:a.b.c.d.
enum {
	HOME = 1,   // a destination that is main's
	LEAVES = 2, // a source that may leave by the line
	HERE = 4,   // a source that nobody outside has
};

struct prefix {
	__u32 bits;
	__u8 addr[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, __u32);
} ours SEC(".maps");

// IP packets by what became of them: they took the shortcut, or were left to the
// namespace, and why.
enum {
	SHORT,
	FIRST,	  // SYN
	OTHER,	  // neither TCP nor UDP
	FRAGMENT,
	ODD,	  // options, the last hop, a length that is not so
	READ,	  // a DNS answer, which counts for the line, and DHCP
	LONG,	  // longer than the next link takes
	NOBODY,	  // an address is not known to be ours or beyond
	NOWHERE,  // no next hop is known
	COUNTERS
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline int counted(__u32 what, int verdict)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &what);

	if (n)
		*n += 1;
	return verdict;
}

// head is the reason for a packet whose headers are not plain. Only such a one pays
// for it.
static __noinline __u32 head(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	void *at = data + ETH_HLEN;
	struct tcphdr *tcp;
	struct udphdr *udp;
	__u8 protocol;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = at;

		if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->ttl <= 1)
			return ODD;
		if (ip->frag_off & bpf_htons(0x3fff))
			return FRAGMENT;
		protocol = ip->protocol;
		at = ip + 1;
	} else {
		struct ipv6hdr *ip = at;

		if ((void *)(ip + 1) > end || ip->version != 6 || ip->hop_limit <= 1)
			return ODD;
		protocol = ip->nexthdr;
		at = ip + 1;
	}
	switch (protocol) {
	case IPPROTO_TCP:
		tcp = at;
		if ((void *)(tcp + 1) > end)
			return ODD;
		if (tcp->syn)
			return FIRST;
		return tcp->source == bpf_htons(53) ? READ : ODD;
	case IPPROTO_UDP:
		udp = at;
		if ((void *)(udp + 1) > end)
			return ODD;
		return udp->source == bpf_htons(53) || udp->dest == bpf_htons(68) ? READ : ODD;
	case IPPROTO_FRAGMENT:
		return FRAGMENT;
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		return ODD;
	}
	return OTHER;
}

static __always_inline __u32 part4(__be32 addr)
{
	struct prefix key;
	__u32 *part;

	key.bits = 128;
	__builtin_memset(key.addr, 0, 10);
	key.addr[10] = key.addr[11] = 0xff;
	__builtin_memcpy(key.addr + 12, &addr, 4);
	part = bpf_map_lookup_elem(&ours, &key);
	return part ? *part : 0;
}

static __always_inline __u32 part6(const struct in6_addr *addr)
{
	struct prefix key;
	__u32 *part;

	key.bits = 128;
	__builtin_memcpy(key.addr, addr, 16);
	part = bpf_map_lookup_elem(&ours, &key);
	return part ? *part : 0;
}

// A source that the kernel lets in by any link (ip_route_input_slow).
static __always_inline int common4(__be32 addr)
{
	__u8 first = bpf_ntohl(addr) >> 24;

	return first != 0 && first != 127 && first < 224;
}

// 2000::/3 or fc00::/7. What else there is the namespace judges: addresses of
// links, groups, none.
static __always_inline int common6(const struct in6_addr *addr)
{
	__u8 first = addr->s6_addr[0];

	return (first & 0xe0) == 0x20 || (first & 0xfe) == 0xfc;
}

static __always_inline __u32 transport(__u8 protocol, void *at, void *end, int inward)
{
	if (protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = at;

		if ((void *)(tcp + 1) > end || tcp->syn || tcp->doff < 5)
			return 0;
		if (inward && tcp->source == bpf_htons(53))
			return 0;
		return tcp->doff * 4;
	}
	if (protocol == IPPROTO_UDP) {
		struct udphdr *udp = at;

		if ((void *)(udp + 1) > end)
			return 0;
		if (inward && (udp->source == bpf_htons(53) || udp->dest == bpf_htons(68)))
			return 0;
		return sizeof(*udp);
	}
	return 0;
}

// over_cable hands the packet to the cable's end in main, as if it came out there.
static __always_inline int over_cable(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end)
		return TC_ACT_SHOT; // it was there a moment ago
	// Byte by byte: a copy as a whole would forget that it is volatile, and be of zeros.
	for (int i = 0; i < ETH_ALEN; i++) {
		eth->h_dest[i] = between.main_mac[i];
		eth->h_source[i] = between.cable_mac[i];
	}
	skb->mark = 0;
	return counted(SHORT, bpf_redirect_peer(between.cable, 0));
}

SEC("tc")
int weir_port(struct __sk_buff *skb)
{
	__u32 headers = 0;

	if (!plain(skb))
		return SLOWLY;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = head4(skb, 1, &headers);

		if (!ip)
			return counted(head(skb), SLOWLY);
		if (longest(skb, bpf_ntohs(ip->tot_len), headers) > between.cable_mtu)
			return counted(LONG, SLOWLY);
		if (!(part4(ip->daddr) & HOME) || !common4(ip->saddr) || part4(ip->saddr) & HERE)
			return counted(NOBODY, SLOWLY);
		hop4(ip);
		return over_cable(skb);
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = head6(skb, 1, &headers);

		if (!ip)
			return counted(head(skb), SLOWLY);
		if (longest(skb, bpf_ntohs(ip->payload_len) + sizeof(*ip), headers) > between.cable_mtu)
			return counted(LONG, SLOWLY);
		if (!(part6(&ip->daddr) & HOME) || !common6(&ip->saddr) || part6(&ip->saddr) & HERE)
			return counted(NOBODY, SLOWLY);
		hop6(skb, ip->hop_limit);
		return over_cable(skb);
	}
	return SLOWLY;
}

// to_line sends the packet to the next hop that was found. The neighbour's
// address is the kernel's to fill in, and to ask for again when it is old.
static __always_inline int to_line(struct bpf_fib_lookup *fib)
{
	struct bpf_redir_neigh hop = {.nh_family = fib->family};

	if (fib->family == AF_INET)
		hop.ipv4_nh = fib->ipv4_dst;
	else
		__builtin_memcpy(hop.ipv6_nh, fib->ipv6_dst, 16);
	return counted(SHORT, bpf_redirect_neigh(between.port, &hop, sizeof(hop), 0));
}

SEC("tc")
int weir_cable(struct __sk_buff *skb)
{
	struct bpf_fib_lookup fib = {.ifindex = between.cable};
	__u32 headers = 0;
	long looked;

	if (!plain(skb))
		return SLOWLY;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = head4(skb, 0, &headers);

		if (!ip)
			return counted(head(skb), SLOWLY);
		if (!(part4(ip->saddr) & LEAVES))
			return counted(NOBODY, SLOWLY);
		fib.family = AF_INET;
		fib.tos = ip->tos;
		fib.l4_protocol = ip->protocol;
		fib.tot_len = longest(skb, bpf_ntohs(ip->tot_len), headers);
		fib.ipv4_src = ip->saddr;
		fib.ipv4_dst = ip->daddr;
		looked = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
		if (looked == BPF_FIB_LKUP_RET_FRAG_NEEDED)
			return counted(LONG, SLOWLY);
		if (looked != BPF_FIB_LKUP_RET_SUCCESS || fib.ifindex != between.port)
			return counted(NOWHERE, SLOWLY);
		// As ip_forward does (rt_tos2priority): 0, 2, 6, 4.
		skb->priority = 0x4620 >> ((ip->tos >> 3 & 3) * 4) & 0xf;
		hop4(ip);
		return to_line(&fib);
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = head6(skb, 0, &headers);

		if (!ip)
			return counted(head(skb), SLOWLY);
		if (!(part6(&ip->saddr) & LEAVES) || !common6(&ip->daddr))
			return counted(NOBODY, SLOWLY);
		fib.family = AF_INET6;
		fib.flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
		fib.l4_protocol = ip->nexthdr;
		fib.tot_len = longest(skb, bpf_ntohs(ip->payload_len) + sizeof(*ip), headers);
		__builtin_memcpy(fib.ipv6_src, &ip->saddr, 16);
		__builtin_memcpy(fib.ipv6_dst, &ip->daddr, 16);
		looked = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
		if (looked == BPF_FIB_LKUP_RET_FRAG_NEEDED)
			return counted(LONG, SLOWLY);
		if (looked != BPF_FIB_LKUP_RET_SUCCESS || fib.ifindex != between.port)
			return counted(NOWHERE, SLOWLY);
		hop6(skb, ip->hop_limit);
		return to_line(&fib);
	}
	return SLOWLY;
}

char _license[] SEC("license") = "Dual BSD/GPL";
