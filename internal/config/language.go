package config

// language is the table: every block and key, what it takes, what leaving it
// out means, where the word comes from, and whether this release has it. Checks,
// suggestions, defaults, Help, Words and docs/reference.hcl are made from it.
var language = &block{
	name: "the file",
	blocks: []*block{
		gatewayBlock, wanBlock, failoverBlock, lanBlock,
		groupBlock, ruleBlock("allow"), ruleBlock("block"), ruleBlock("reject"), forwardBlock, routeBlock,
		dnsBlock, timeBlock, apiBlock,
		laterBlock("tunnel", []string{"on", "reach"}, ipsecBlock, wireguardBlock),
		laterBlock("tuning", []string{"sysctl"}, laterBlock("interface", []string{"queues", "rings", "backlog", "offload", "irq_cpus", "rps_cpus"})),
		laterBlock("metrics", []string{"from", "port"}),
		laterBlock("web", []string{"from", "port"}),
	},
}

var ipsecBlock = laterBlock("ipsec", []string{"peer", "version", "local", "remote", "local_id", "remote_id", "psk_file",
	"certificate_file", "key_file", "ca_file", "ike", "esp", "ike_lifetime", "esp_lifetime", "nat_traversal"},
	laterBlock("dpd", []string{"every", "tries"}))

var wireguardBlock = laterBlock("wireguard", []string{"address", "port", "mtu", "private_key_file"},
	laterBlock("peer", []string{"public_key", "address", "allowed_ips", "endpoint", "keepalive", "psk_file"}))

// What a place may be: in rules, groups and reach anything.
var anywhere = []Kind{KindWAN, KindLAN, KindHost, KindGroup, KindSelf}

var gatewayBlock = &block{
	name: "gateway", label: labelName, maxName: 63, once: true, example: "gw",
	doc: "The gateway itself. Its label is its host name; without the block that is gw.",
	keys: []*key{
		{name: "domain", typ: typeDomain, def: `"home.arpa"`, source: "RFC 8375; option 15, DNSSL",
			doc: "The house's domain: names of hosts end in it."},
		{name: "timezone", typ: typeZone, unsaid: "the machine's", example: `"Europe/Berlin"`, source: "tz database",
			doc: "The house's time."},
		{name: "cable", typ: typePrefix, list: true, example: `["172.31.255.0/24", "fd00:1::/64"]`,
			unsaid: "IPv4: a /24 clear of everything in the file; IPv6: the last /64 of ula",
			source: "veth addresses, /31 (RFC 3021) and /127 (RFC 6164)",
			doc:    "Networks of the patch cables between the house and its lines, at most one of each family; a pair of addresses for each WAN in file order."},
		{name: "ula", typ: typePrefix, unsaid: "a random one, made once and kept", example: `"fd5e:7a11:c0de::/48"`, source: "RFC 4193, 3.2",
			doc: "The house's own IPv6 network, a /48 in fd00::/8."},
		{name: "fast_path", typ: typeWord, words: []word{{text: "auto"}, {text: "tc"}, {text: "off"}, {text: "xdp", later: true}}, def: `"off"`, source: "tc-bpf(8), tcx",
			doc: "Programs in the kernel that carry packets past what would only pass them on. auto: by the best form there is on each port; off: none."},
	},
}

var wanBlock = &block{
	name: "wan", kind: KindWAN, label: labelName, maxName: 15, example: "fiber",
	doc: "A line to an ISP. Its name is also the cable's and, as wan-NAME, its network namespace's.",
	keys: append([]*key{
		{name: "interface", typ: typeInterface, required: true, example: `"eth1"`, source: "IFNAMSIZ",
			doc: "The port that the modem is plugged into. A port belongs to one WAN or one LAN, VLANs apart."},
		{name: "vlan", typ: typeInt, min: 1, max: 4094, unsaid: "untagged", example: `7`, unit: "VID", source: "802.1Q VID",
			doc: "The VLAN that the ISP wants on the port."},
		{name: "mac", typ: typeMAC, unsaid: "the port's own", example: `"02:00:00:00:00:01"`, source: "IFLA_ADDRESS",
			doc: "What the ISP sees."},
		{name: "mtu", typ: typeInt, min: 68, max: 9216, unsaid: "from DHCP, RA or the port", example: `1500`, unit: "bytes", source: "IFLA_MTU, option 26",
			doc: "The largest packet of the line; at least 1280 unless IPv6 is off."},
		{name: "metered", typ: typeFlag, def: `false`,
			doc: "The line is paid by volume: its own traffic stands in for most probes, and it is last in prefer."},
		{name: "on_return", typ: typeWord, words: words("stay", "move"), def: `"stay"`, unsaid: "stay; move if metered",
			doc: "What becomes of this line's connections when a preferred line is used again: they stay until they end, or they move: TCP is reset, all else goes on by the other line at once."},
	}, laterKeys("on", "weight", "modem")...),
	blocks: []*block{
		{
			name: "ipv4", once: true, doc: "How the line gets IPv4.",
			keys: []*key{
				{name: "method", typ: typeWord, words: words("dhcp", "static", "none"), def: `"dhcp"`, unsaid: "static if address is said, else dhcp", source: "RFC 2131",
					doc: "Where the line's address comes from."},
				{name: "address", typ: typeIPLen, list: true, unsaid: "none", example: `"198.51.100.10/24"`, source: "ip-address(8)",
					doc: "With static: the line's own addresses, each with its network; the first is the one that the house appears as."},
				{name: "gateway", typ: typeIP, unsaid: "none; static needs it", example: `"198.51.100.1"`, source: "ip-route(8) via",
					doc: "With static: the ISP's router. It may be off the link."},
				{name: "translate", typ: typeWord, words: words("nat44", "none"), def: `"nat44"`, source: "RFC 3022",
					doc: "What becomes of the house's addresses on their way out."},
				{name: "client_id", typ: typeText, min: 2, max: 255, unsaid: "made of the MAC", example: `"hex:01020000000001"`, source: "option 61, RFC 2132, 9.14",
					doc: "With dhcp: who we say we are; hex:... for bytes."},
				{name: "hostname", typ: typeText, min: 1, max: 255, unsaid: "the gateway's name", example: `"gw"`, source: "option 12",
					doc: "With dhcp: the name that is sent."},
				{name: "vendor_class", typ: typeText, min: 1, max: 255, unsaid: "none", example: `"dslforum.org"`, source: "option 60, RFC 2132, 9.13",
					doc: "With dhcp: what the ISP wants its customers' routers to say they are; hex:... for bytes."},
				{name: "ignore_classless_routes", typ: typeFlag, def: `false`, source: "option 121, RFC 3442",
					doc: "For ISPs whose option 121 lacks the default route: do without it and use the router option."},
				{name: "dns", typ: typeIP, list: true, unsaid: "what DHCP says; with static none", example: `"198.51.100.53"`, source: "option 6",
					doc: "The line's own resolvers, in place of those that the ISP names. They are asked over this line alone, and only where a dns block wants the line's own."},
			},
		},
		{
			name: "ipv6", once: true, doc: "How the line gets IPv6.",
			keys: []*key{
				{name: "method", typ: typeWord, words: words("auto", "slaac", "dhcp", "static", "none"), def: `"auto"`, unsaid: "static if address is said, else auto", source: "RFC 4862, 8415",
					doc: "Where the line's own address comes from: the ISP's router advertisements (slaac), DHCPv6 (dhcp), or both where the advertisements say that there is one by DHCPv6, the M flag (auto). With auto the O flag has DHCPv6 asked for a resolver, if no lease brings one. The default route is always the advertisements', but with static."},
				{name: "address", typ: typeIPLen, list: true, unsaid: "none", example: `"2001:db8:1::10/64"`, source: "ip-address(8)",
					doc: "With static: the line's own addresses, each with its network."},
				{name: "gateway", typ: typeIP, unsaid: "none; static needs it", example: `"fe80::1"`, source: "ip-route(8) via",
					doc: "With static: the ISP's router. A link-local address is right."},
				{name: "delegate", typ: typeInt, min: 0, max: 64, def: `56`, unsaid: "56; 0 with static or none, or if translate is nat66", unit: "bits", source: "IA_PD, RFC 8415, 18.2.1",
					doc: "Ask the ISP for a prefix of this length, 48 to 64: a /64 of it for each LAN. The ISP may give another length, or none. 0 asks for none."},
				{name: "dns", typ: typeIP, list: true, unsaid: "what DHCPv6 says, then the router's advertisements; with static none", example: `"2001:db8:1::53"`, source: "option 23, RFC 3646; RDNSS, RFC 8106",
					doc: "As in ipv4."},
				{name: "translate", typ: typeWord, words: words("nat66", "npt", "none"), def: `"npt"`, unsaid: "npt; nat66 where no prefix is asked for", source: "netfilter snat; RFC 6296 for npt",
					doc: "What becomes of the house's addresses on their way out. With npt addresses in the line's delegated prefix stay as they are, and all others are put into it one to one; as long as the ISP delegates nothing it is nat66. With none whatever is not in that prefix is refused."},
			},
		},
		laterBlock("pppoe", []string{"user", "password_file", "service"}),
		laterBlock("shape", []string{"down", "up"}),
		{
			name: "probe", once: true, doc: "How this line is tried, where it needs something else than the others.",
			keys: []*key{
				{name: "target", typ: typeTarget, list: true, unsaid: "a family without a target has those of failover's probe", example: `["tcp://198.51.100.7:443", "dns://192.0.2.53/name.example"]`, source: "as there",
					doc: "Who is asked, as in failover's probe."},
				{name: "every", typ: typeDuration, min: 50 * ms, max: mnt, unsaid: "as failover's probe", example: `"1s"`,
					doc: "The time between two probes while the line is in use."},
				{name: "timeout", typ: typeDuration, min: 10 * ms, max: 10 * sec, unsaid: "as failover's probe", example: `"2s"`, source: "RFC 6298",
					doc: "How long an answer is waited for."},
			},
		},
		wireguardBlock,
	},
}

const targetDoc = "Who is asked, and how: an address for an echo, tcp://ADDRESS:PORT for a connection, which is closed at once (accepted or refused: both are answers), " +
	"dns://ADDRESS/NAME for a question over UDP (without /NAME for the root; any response is an answer but SERVFAIL). " +
	"Any one that answers shows that the line works. New connections leave a line that answers echoes alone, if another line answers the rest."

var failoverBlock = &block{
	name: "failover", once: true, doc: "Which line is used, and how lines are tried.",
	keys: []*key{
		{name: "prefer", typ: typeRef, list: true, kinds: []Kind{KindWAN}, unsaid: "every WAN in file order, metered ones last", example: `[wan.fiber]`,
			doc: "The lines, best first. One that is left out carries only what names it."},
		{name: "hold_down", typ: typeDuration, min: 0, max: hour, def: `"30s"`,
			doc: "How long a line has to be good before it is used again. Doubles with every relapse, up to 1h; a good hour forgives one. With 0s the house follows a line that flaps, each time."},
	},
	blocks: []*block{
		{
			name: "probe", once: true, doc: "How lines are tried.",
			keys: []*key{
				{name: "target", typ: typeTarget, list: true, def: `["1.1.1.1", "9.9.9.9", "tcp://1.1.1.1:443", "tcp://8.8.8.8:443", "2606:4700:4700::1111", "2620:fe::fe", "tcp://[2606:4700:4700::1111]:443", "tcp://[2001:4860:4860::8888]:443"]`, source: "ICMP echo, RFC 792, 4443; TCP, RFC 9293; DNS, RFC 1035",
					doc: targetDoc + " A family without a target has its defaults."},
				{name: "every", typ: typeDuration, min: 50 * ms, max: mnt, def: `"250ms"`,
					doc: "The line in use, and one that a route may lead to: one target in turn. A line in reserve is tried an eighth as often. A metered one each 30s, and at once when its traffic stops."},
				{name: "timeout", typ: typeDuration, min: 10 * ms, max: 10 * sec, unsaid: "from measured round trips, at most 1s", example: `"500ms"`, source: "RFC 6298",
					doc: "How long an answer is waited for."},
			},
		},
		{
			name: "degraded", once: true, doc: "From when on a line that works is bad. New connections leave it if another line is clearly better.",
			keys: []*key{
				{name: "loss", typ: typeInt, min: 1, max: 100, def: `20`, unit: "percent of the last 64 probes",
					doc: "Past it the line is degraded, until it loses half of it. 100 is never."},
				{name: "latency", typ: typeDuration, min: 10 * ms, max: mnt, def: `"400ms"`,
					doc: "Past it, by the median of the last 16 round trips, the line is degraded, until three quarters of it. What the house's own transfers do to a line moves nothing."},
			},
		},
	},
}

var apiBlock = &block{
	name: "api", once: true, doc: "The local socket that the weir command talks to.",
	keys: []*key{
		{name: "group", typ: typeText, min: 1, max: 32, def: `"weir"`, unsaid: "weir, where it exists and can be given", source: "group(5); the socket's mode is 0660",
			doc: "Who may use it, beside root."},
	},
}
