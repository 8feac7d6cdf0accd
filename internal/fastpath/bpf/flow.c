// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The flows of main. An established flow has an entry for each of its directions:
// by what its packets are known, what they become, and where they go next. The
// program is at the ingress of each port of a LAN and of each cable's end in main,
// and does with such a packet what main would: it is translated, loses a hop, and
// leaves.
//
//	LAN === port [weir_flow] ----> over the cable, to the line's namespace
//	LAN <=== port <---- [weir_flow] cable === the line's namespace
//
// Left to main: what has no entry; what is not TCP or UDP; SYN, FIN and RST, and what
// follows the last two; fragments and options, the last hop, what is longer than the
// next link takes, what has a wrong checksum (conntrack refuses it); and each packet
// while the gate is shut or nobody has looked after the flows for a time.
//
// Flows without an entry that is of use are counted, and those that live are told of.

#include "packet.h"

// The same flow of a LAN that comes in by another port is not the same. IPv4 as
// ::ffff:a.b.c.d; ports are as on the wire.
struct key {
	__u8 src[16], dst[16];
	__be16 sport, dport;
	__u32 from; // the link it comes in by: its index
	__u32 protocol;
};

// 64 bytes: as long as a cache line.
struct flow {
	__u8 src[16], dst[16]; // what they become
	__be16 sport, dport;
	__u32 generation; // that it is of; 0 is none's
	__u16 hop;	  // an index of hops
	__u16 counter;	  // an index of came; 0 is none
	__u32 last; // when it was seen: seconds, CLOCK_MONOTONIC
	__u64 packets, bytes; // as conntrack counts: superframes once, from IP's header on
};

// A reader may hold an entry that is deleted in the meantime, and the kernel gives its
// place to the next one at once: who deletes has to let all readers go (membarrier)
// before it adds.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);		      // set by the loader
	__uint(map_flags, BPF_F_NO_PREALLOC); // there is room for all that conntrack may have
	__type(key, struct key);
	__type(value, struct flow);
} flows SEC(".maps");

// Where packets go next. Flows that go the same way share one: when it is gone, one
// write leaves all their packets to main. It changes in no other way while a flow
// may use it, for a reader could see half of the change.
enum { GONE, CABLE, PORT };

struct hop {
	__u32 kind;
	__u32 link; // its index
	__u32 mtu;
	__u8 to_mac[ETH_ALEN], from_mac[ETH_ALEN]; // over a cable
	__u32 routed; // by via, and not by the packet's own destination
	__u8 via[16];
};

#define HOPS 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HOPS);
	__type(key, __u32);
	__type(value, struct hop);
} hops SEC(".maps");

// Entries of another generation are void: one write stops all flows.
struct gate {
	__u32 generation; // 0: the gate is shut
	__u32 heard;	  // when the flows were last looked after: seconds, CLOCK_MONOTONIC
	__u8 build[8];	  // what program this is: for who finds it attached
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gate);
} gates SEC(".maps");

#define PATIENCE 30 // seconds without anybody who looks after the flows

// How many packets flows without an entry had: in a slot that their key hashes to, so
// that a short flow costs one cache line, and no number of flows has another one forgotten.
// Two that share a slot are told of sooner. They are told of at so many, and each time
// they have doubled, up to SELDOM: who was refused asks ever more seldom. A slot that is
// quiet for a time begins anew.
#define LIVES 16
#define SELDOM 4096
#define QUIET 10 // seconds
#define SLOT_BITS 17

struct slot {
	__u32 packets;
	__u32 last; // seconds, CLOCK_MONOTONIC
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << SLOT_BITS);
	__type(key, __u32);
	__type(value, struct slot);
} strangers SEC(".maps");

// A burst of flows that are told of at once; who finds it full is told of later.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 262144);
} living SEC(".maps");

// What came back by a line in a family, of flows that went out by it: packets. Its
// conversations go on, so the line is well (internal/ruleset, count.go).
#define CAME 512

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CAME);
	__type(key, __u32);
	__type(value, __u64);
} came SEC(".maps");

// What became of packets, and why.
enum { FAST, ODD, UNKNOWN, SHUT, ASLEEP, STALE, NOWHERE, LONG, WRONG, REASONS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} reasons SEC(".maps");

static __always_inline int counted(__u32 why, int verdict)
{
	__u64 *n = bpf_map_lookup_elem(&reasons, &why);

	if (n)
		*n += 1;
	return verdict;
}

static __always_inline __u32 transport(__u8 protocol, void *at, void *end, int inward)
{
	if (protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = at;

		if ((void *)(tcp + 1) > end || tcp->syn || !(tcp->ack || tcp->rst) || tcp->doff < 5)
			return 0;
		return tcp->doff * 4;
	}
	if (protocol == IPPROTO_UDP) {
		struct udphdr *udp = at;

		if ((void *)(udp + 1) > end)
			return 0;
		return sizeof(*udp);
	}
	return 0;
}

static __always_inline __u32 seconds(void)
{
	return bpf_ktime_get_coarse_ns() / 1000000000;
}

// slot_of is the slot of a key: each step can be undone, so keys that differ in one
// word have different sums, and the upper bits depend on all.
static __always_inline __u32 slot_of(const struct key *key)
{
	const __u32 *word = (const void *)key;
	__u32 sum = 0;

	for (int i = 0; i < sizeof(*key) / sizeof(*word); i++)
		sum = (sum ^ word[i]) * 0x9e3779b1;
	return sum >> (32 - SLOT_BITS);
}

static __always_inline void stranger(const struct key *key, __u32 now)
{
	__u32 at = slot_of(key), n;
	struct slot *slot = bpf_map_lookup_elem(&strangers, &at);

	if (!slot)
		return;
	n = now - slot->last > QUIET ? 1 : slot->packets + 1;
	slot->last = now;
	slot->packets = n;
	if (n < LIVES || n & (n < SELDOM ? n - 1 : SELDOM - 1))
		return;
	if (bpf_ringbuf_output(&living, (void *)key, sizeof(*key), 0))
		slot->packets = n - 1; // the next packet tries again
}

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

// What of a packet is needed after its pointers are void.
struct seen {
	struct key key;
	__u32 headers, whole; // lengths, from IP's header on
	__u32 ip;	      // how long IP's header is
	__be16 check;	      // of the transport
	__u8 hops;
	__u8 closes; // FIN or RST
};

#define PIECE 128
#define PIECES 16

// right says whether the transport's checksum is, as conntrack would
// (nf_checksum). Where the port has seen to it, or a stack of this machine is still
// to compute it (CHECKSUM_PARTIAL: the field has the pseudo header's sum), that is
// enough.
static __always_inline int right(struct __sk_buff *skb, const struct seen *p)
{
	__u32 length = p->whole - p->ip, at = ETH_HLEN + p->ip, rest = length & (PIECE - 1);
	__u8 piece[PIECE];
	__u64 sum;

	if (p->key.protocol == IPPROTO_UDP && !p->check)
		return 1;
	if (skb->gso_size || bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0)
		return 1;
	// ::ffff: adds nothing to a sum in ones' complement.
	sum = bpf_csum_diff(0, 0, (void *)p->key.src, 32, 0);
	sum += bpf_htonl(length);
	sum += bpf_htonl(p->key.protocol);
	if (folded(sum) == p->check)
		return 1;
	if (length > PIECES * PIECE)
		return 0;
	sum = folded(sum);
	for (int i = 0; i < PIECES && (i + 1) * PIECE <= length; i++) {
		if (bpf_skb_load_bytes(skb, at + i * PIECE, piece, PIECE))
			return 0;
		sum += bpf_csum_diff(0, 0, (void *)piece, PIECE, 0);
	}
	if (rest) {
		__builtin_memset(piece, 0, PIECE);
		if (bpf_skb_load_bytes(skb, at + length - rest, piece, rest))
			return 0;
		sum += bpf_csum_diff(0, 0, (void *)piece, PIECE, 0);
	}
	return folded(sum) == 0xffff;
}

// translate makes the packet what the flow says. The checksums are corrected by
// what changed, as nf_nat does, so that the port can go on with them.
static __always_inline int translate(struct __sk_buff *skb, const struct seen *p, const struct flow *f)
{
	int tcp = p->key.protocol == IPPROTO_TCP, v4 = p->ip == sizeof(struct iphdr);
	__u32 at = ETH_HLEN + p->ip;
	__u32 check = at + (tcp ? offsetof(struct tcphdr, check) : offsetof(struct udphdr, check));
	__u64 zero = tcp ? 0 : BPF_F_MARK_MANGLED_0;
	__s64 diff = bpf_csum_diff((void *)p->key.src, 32, (void *)f->src, 32, 0);
	int bad = 0;

	if (diff) {
		if (v4) {
			bad |= bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), 0, diff, 0);
			bad |= bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, saddr), f->src + 12, 4, 0);
			bad |= bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, daddr), f->dst + 12, 4, 0);
		} else {
			// IPv6's header has no checksum that makes up for the change.
			bad |= bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, saddr), f->src, 32, BPF_F_RECOMPUTE_CSUM);
		}
		bad |= bpf_l4_csum_replace(skb, check, 0, diff, zero | BPF_F_PSEUDO_HDR);
	}
	if (p->key.sport != f->sport) {
		bad |= bpf_l4_csum_replace(skb, check, p->key.sport, f->sport, zero | 2);
		bad |= bpf_skb_store_bytes(skb, at, &f->sport, 2, 0);
	}
	if (p->key.dport != f->dport) {
		bad |= bpf_l4_csum_replace(skb, check, p->key.dport, f->dport, zero | 2);
		bad |= bpf_skb_store_bytes(skb, at + 2, &f->dport, 2, 0);
	}
	return bad;
}

// onward sends the packet to its next hop. The neighbour on a port is the kernel's to
// know, and to ask for.
static __always_inline int onward(struct __sk_buff *skb, const struct hop *hop, const struct flow *f, int v4)
{
	struct bpf_redir_neigh next = {.nh_family = v4 ? AF_INET : AF_INET6};
	const __u8 *via = hop->routed ? hop->via : f->dst;

	skb->mark = 0;
	if (hop->kind == CABLE) {
		if (bpf_skb_store_bytes(skb, 0, hop->to_mac, 2 * ETH_ALEN, 0))
			return TC_ACT_SHOT;
		return counted(FAST, bpf_redirect_peer(hop->link, 0));
	}
	if (v4)
		__builtin_memcpy(&next.ipv4_nh, via + 12, 4);
	else
		__builtin_memcpy(next.ipv6_nh, via, 16);
	return counted(FAST, bpf_redirect_neigh(hop->link, &next, sizeof(next), 0));
}

static __always_inline int read4(struct __sk_buff *skb, struct seen *p)
{
	struct iphdr *ip = head4(skb, 0, &p->headers);

	if (!ip || folded(bpf_csum_diff(0, 0, (void *)ip, sizeof(*ip), 0)) != 0xffff)
		return 0;
	p->key.src[10] = p->key.src[11] = p->key.dst[10] = p->key.dst[11] = 0xff;
	__builtin_memcpy(p->key.src + 12, &ip->saddr, 4);
	__builtin_memcpy(p->key.dst + 12, &ip->daddr, 4);
	p->key.protocol = ip->protocol;
	p->whole = bpf_ntohs(ip->tot_len);
	p->ip = sizeof(*ip);
	p->hops = ip->ttl;
	return 1;
}

static __always_inline int read6(struct __sk_buff *skb, struct seen *p)
{
	struct ipv6hdr *ip = head6(skb, 0, &p->headers);

	if (!ip)
		return 0;
	__builtin_memcpy(p->key.src, &ip->saddr, 16);
	__builtin_memcpy(p->key.dst, &ip->daddr, 16);
	p->key.protocol = ip->nexthdr;
	p->whole = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	p->ip = sizeof(*ip);
	p->hops = ip->hop_limit;
	return 1;
}

// ends reads the ports and the checksum, which head4 and head6 have seen to be there.
static __always_inline int ends(struct __sk_buff *skb, struct seen *p, __u32 ip)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct udphdr *udp = data + ETH_HLEN + ip;
	struct tcphdr *tcp = (void *)udp;

	if ((void *)(udp + 1) > end)
		return 0;
	p->key.sport = udp->source;
	p->key.dport = udp->dest;
	p->check = udp->check;
	if (p->key.protocol == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > end)
			return 0;
		p->check = tcp->check;
		p->closes = tcp->fin || tcp->rst;
	}
	return 1;
}

static __always_inline int carry(struct __sk_buff *skb, struct seen *p, int v4)
{
	__u32 zero = 0, now, id;
	struct gate *gate;
	struct flow *f;
	struct hop *hop;

	p->key.from = skb->ifindex;
	gate = bpf_map_lookup_elem(&gates, &zero);
	if (!gate || !gate->generation)
		return counted(SHUT, SLOWLY);
	now = seconds();
	if ((__s32)(now - gate->heard) > PATIENCE)
		return counted(ASLEEP, SLOWLY);
	f = bpf_map_lookup_elem(&flows, &p->key);
	if (p->closes) {
		// What follows it this way, conntrack is to see: the last ACK too.
		if (f)
			f->generation = 0;
		return counted(ODD, SLOWLY);
	}
	if (!f) {
		stranger(&p->key, now);
		return counted(UNKNOWN, SLOWLY);
	}
	if (f->generation != gate->generation) {
		stranger(&p->key, now);
		return counted(STALE, SLOWLY);
	}
	id = f->hop;
	hop = bpf_map_lookup_elem(&hops, &id);
	if (!hop || hop->kind == GONE) {
		stranger(&p->key, now);
		return counted(NOWHERE, SLOWLY);
	}
	if (longest(skb, p->whole, p->headers) > hop->mtu)
		return counted(LONG, SLOWLY);
	if (!right(skb, p))
		return counted(WRONG, SLOWLY);
	// What fills up a short frame does not leave with the packet (ip_rcv_core).
	if (skb->len > ETH_HLEN + p->whole && bpf_skb_change_tail(skb, ETH_HLEN + p->whole, 0))
		return counted(ODD, SLOWLY);

	// From here on it is not the packet that came any more.
	f->last = now;
	__sync_fetch_and_add(&f->packets, 1);
	__sync_fetch_and_add(&f->bytes, p->whole);
	id = f->counter;
	if (id) {
		__u64 *n = bpf_map_lookup_elem(&came, &id);

		if (n)
			*n += 1;
	}
	if (v4) {
		void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
		struct iphdr *ip = data + ETH_HLEN;

		if ((void *)(ip + 1) > end)
			return TC_ACT_SHOT; // it was there a moment ago
		// As ip_forward does (rt_tos2priority): 0, 2, 6, 4.
		skb->priority = 0x4620 >> ((ip->tos >> 3 & 3) * 4) & 0xf;
		hop4(ip);
	} else {
		hop6(skb, p->hops);
	}
	if (translate(skb, p, f))
		return TC_ACT_SHOT;
	return onward(skb, hop, f, v4);
}

SEC("tc")
int weir_flow(struct __sk_buff *skb)
{
	struct seen p = {};

	if (!plain(skb))
		return SLOWLY;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!read4(skb, &p) || !ends(skb, &p, sizeof(struct iphdr)))
			return counted(ODD, SLOWLY);
		return carry(skb, &p, 1);
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (!read6(skb, &p) || !ends(skb, &p, sizeof(struct ipv6hdr)))
			return counted(ODD, SLOWLY);
		return carry(skb, &p, 0);
	}
	return SLOWLY;
}

char _license[] SEC("license") = "Dual BSD/GPL";
