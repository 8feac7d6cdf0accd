package config

// What a device that boots over the network is told.
var (
	nextServer = &key{name: "next_server", typ: typeIP, unsaid: "none", example: `"10.0.10.9"`, source: "siaddr, RFC 2131, 2; option 66 for who asks",
		doc: "The server of boot_file."}
	bootFile = &key{name: "boot_file", typ: typeText, min: 1, max: 127, unsaid: "none", example: `"undionly.kpxe"`, source: "file, RFC 2131, 2; option 67 for who asks",
		doc: "What a device that boots over the network loads: a path on next_server, or a URL."}
)

var lanBlock = &block{
	name: "lan", kind: KindLAN, label: labelName, maxName: 15, example: "home",
	doc: "A network of the house. It is also a zone: reach says where it may open connections.",
	keys: append([]*key{
		{name: "interface", typ: typeInterface, list: true, required: true, example: `"eth0"`, source: "IFNAMSIZ",
			doc: "The LAN's port. Several are bridged."},
		{name: "vlan", typ: typeInt, min: 1, max: 4094, unsaid: "untagged", example: `20`, unit: "VID", source: "802.1Q VID",
			doc: "Several LANs on one cable are told apart by it."},
		{name: "address", typ: typeIPLen, list: true, required: true, example: `"10.0.10.1/24"`, source: "ip-address(8)",
			doc: "The gateway's own addresses there, each with its network, at most one of IPv4. Without an IPv6 one it is ::1 in a /64 of ula."},
		{name: "reach", typ: typePlace, list: true, empty: true, kinds: anywhere, text: true, unsaid: "everything", example: `wan`,
			doc: "What devices there may open connections to; [] is nothing. The gateway's DHCP, DNS, time and ping are always there."},
		{name: "mtu", typ: typeInt, min: 1280, max: 9216, unsaid: "the port's", example: `1500`, unit: "bytes", source: "IFLA_MTU; RA MTU, RFC 4861, 4.6.4; option 26",
			doc: "The largest packet there. The port is set to it, and devices are told."},
		{name: "domain", typ: typeDomain, list: true, unsaid: "the gateway's domain", example: `["lab.home.arpa", "corp.example"]`, source: "options 15 and 119; DNSSL, RFC 8106",
			doc: "The domains that devices there are in: each has its name in all of them, and is told to look names up in them; an address is called by the first. Domains of its own need BIND."},
	}, laterKeys("untagged", "isolated")...),
	blocks: []*block{
		{
			name: "dhcp", once: true, doc: "The DHCPv4 server.",
			keys: []*key{
				{name: "enabled", typ: typeFlag, def: `true`, doc: "Whether there is one."},
				{name: "pool", typ: typeRange, list: true, empty: true, unsaid: "the upper half of the LAN's network", example: `"10.0.10.128-10.0.10.254"`, source: "RFC 2131",
					doc: "Addresses for devices that have none of their own; [] serves known hosts only. Hosts may have fixed addresses inside it."},
				{name: "lease", typ: typeDuration, min: 2 * mnt, max: 30 * day, def: `"12h"`, source: "option 51",
					doc: "How long an address is promised."},
				{name: "option", typ: typeOptions, unsaid: "router, DNS and domain are the gateway's", example: `{ ntp-servers = "10.0.10.1" }`, source: "RFC 2132, names as in dhcp-options(5)",
					doc: "Further options, by name or by number; what has no name takes text, or bytes as \"hex:0a 00 0a 01\"."},
				{name: "bootp", typ: typeFlag, def: `true`, source: "RFC 951, 1534",
					doc: "Whether devices that speak BOOTP only are answered. Their leases have no end: those that are no host get a quarter of the pool (at most 256 addresses), and when that is used up, the one longest unseen that answers no ARP goes."},
				{name: "unknown", typ: typeWord, words: words("allow", "deny"), def: `"allow"`,
					doc: "Whether devices that are no host of this LAN are answered."},
				nextServer, bootFile,
			},
			blocks: []*block{
				{
					name: "class", label: labelName, maxName: 63, example: "uefi",
					doc: "Devices that say something of themselves: all that is said here must fit, and of a list one. The first class that a device is of goes before the LAN's option, next_server and boot_file.",
					keys: []*key{
						{name: "vendor", typ: typeText, list: true, min: 1, max: 255, shown: true, unsaid: "any", example: `"PXEClient"`, source: "option 60, RFC 2132, 9.13",
							doc: "What its vendor class begins with."},
						{name: "user", typ: typeText, list: true, min: 1, max: 254, unsaid: "any", example: `"iPXE"`, source: "option 77, RFC 3004",
							doc: "One of its user classes."},
						{name: "arch", typ: typeInt, list: true, max: 65535, unsaid: "any", example: `[7, 9]`, unit: "IANA's processor architecture type", source: "option 93, RFC 4578",
							doc: "What it boots on: 0 BIOS, 6 UEFI of 32 bits, 7 and 9 UEFI of 64 bits, 11 UEFI on ARM64, 16 UEFI by HTTP."},
						{name: "option", typ: typeOptions, unsaid: "the LAN's", example: `{ vendor-class-identifier = "HTTPClient" }`, source: "RFC 2132",
							doc: "Options for it."},
						{name: "next_server", typ: typeIP, unsaid: "the LAN's", example: nextServer.example, source: nextServer.source, doc: nextServer.doc},
						{name: "boot_file", typ: typeText, min: 1, max: 127, shown: true, unsaid: "the LAN's", example: `"ipxe.efi"`, source: bootFile.source, doc: bootFile.doc},
					},
				},
				{
					name: "subnet", label: labelName, maxName: 63, example: "upstairs",
					doc: "A network behind a relay in this LAN: devices are in it whose relay, or the link that it names (RFC 3527), is. They get its addresses; how their packets travel is the relay's router's business.",
					keys: []*key{
						{name: "prefix", typ: typePrefix, required: true, example: `"10.0.50.0/24"`, source: "giaddr, RFC 2131", doc: "The network."},
						{name: "pool", typ: typeRange, list: true, empty: true, unsaid: "the upper half of it", example: `"10.0.50.128-10.0.50.254"`, source: "RFC 2131",
							doc: "Addresses for its devices."},
						{name: "router", typ: typeIP, unsaid: "the relay's address, where it is in the network", example: `"10.0.50.1"`, source: "option 3", doc: "Their router."},
						{name: "option", typ: typeOptions, unsaid: "the LAN's", example: `{ domain-name = "upstairs.home.arpa" }`, source: "RFC 2132", doc: "Options for them."},
					},
				},
			},
		},
		{
			name: "advertise", once: true, doc: "Router advertisements: how devices get IPv6.",
			keys: []*key{
				{name: "enabled", typ: typeFlag, def: `true`, source: "RFC 4861", doc: "Whether there are any."},
				{name: "prefix", typ: typePrefix, list: true, empty: true, unsaid: "each /64 of the LAN's addresses", example: `"fd5e:7a11:c0de:1::/64"`, source: "PIO, RFC 4861, 4.6.2",
					doc: "Prefixes that devices make addresses in; each a /64 (RFC 4862)."},
				{name: "dns", typ: typeIP, list: true, empty: true, unsaid: "the gateway", example: `"fd5e:7a11:c0de:1::1"`, source: "RDNSS, RFC 8106",
					doc: "The resolvers that devices are told of."},
				{name: "search", typ: typeDomain, list: true, empty: true, unsaid: "the house's domain", example: `"home.arpa"`, source: "DNSSL, RFC 8106",
					doc: "Domains that devices add to short names."},
				{name: "router_lifetime", typ: typeDuration, min: 0, max: 65535 * sec, def: `"30m"`, source: "RFC 4861, 6.2.1; RFC 8319",
					doc: "How long devices take the gateway for their router. 0s: they never do. It is 0 too while no line carries IPv6."},
				{name: "preferred_lifetime", typ: typeDuration, min: mnt, max: 30 * day, def: `"45m"`, source: "AdvPreferredLifetime; RFC 9096, 3.4",
					doc: "How long devices open connections from an address. Less where the ISP's lease of the prefix has less left."},
				{name: "valid_lifetime", typ: typeDuration, min: mnt, max: 30 * day, def: `"90m"`, source: "AdvValidLifetime; RFC 9096, 3.4",
					doc: "How long devices keep an address; at least preferred_lifetime. Less where the ISP's lease of the prefix has less left."},
				{name: "managed", typ: typeFlag, def: `false`, unsaid: "true where dhcp6 has pool or delegate, else false", source: "M, RFC 4861, 4.2",
					doc: "Whether devices are told that DHCPv6 has addresses for them."},
				{name: "other", typ: typeFlag, def: `false`, unsaid: "true with dhcp6, else false", source: "O, RFC 4861, 4.2",
					doc: "Whether devices are told that DHCPv6 has the rest: resolvers, domains, time."},
				{name: "pref64", typ: typePrefix, unsaid: "none", example: `"64:ff9b::/96"`, source: "RFC 8781; RFC 6052, 2.2",
					doc: "The network in which a NAT64 of the house has the addresses of IPv4; a /96, /64, /56, /48, /40 or /32."},
				{name: "captive_portal", typ: typeText, min: 10, max: 255, unsaid: "none", example: `"https://portal.example/api"`, source: "RFC 8910, 2.3; RFC 8908",
					doc: "Where devices ask whether they have to sign in: the URL of the portal's API."},
			},
		},
		{
			name: "host", kind: KindHost, label: labelName, maxName: 63, example: "nas",
			doc: "A device that has a name, and perhaps a fixed address.",
			keys: []*key{
				{name: "mac", typ: typeMAC, list: true, shown: true, unsaid: "none", example: `"02:00:00:00:00:23"`, source: "chaddr, RFC 2131",
					doc: "How DHCP knows it; several for a device with several cards."},
				{name: "client_id", typ: typeText, min: 2, max: 255, unsaid: "none", example: `"hex:01020000000023"`, source: "option 61, RFC 2132, 9.14",
					doc: "How DHCP knows it if its MAC is no host's: text, with or without the type 0 before it on the wire, or hex:... for bytes."},
				{name: "duid", typ: typeText, list: true, min: 6, max: 400, unsaid: "none", example: `"00:03:00:01:02:00:00:00:00:23"`, source: "RFC 8415, 11",
					doc: "How DHCPv6 knows it if its MAC is no host's."},
				{name: "address", typ: typeIP, list: true, shown: true, unsaid: "from the pool", example: `["10.0.10.23", "::23"]`,
					doc: "Fixed addresses. ::23 is the lower half of an IPv6 address, in whatever /64 the LAN has; by DHCPv6 a device has one lower half: the first that stands so, else that of the first whole address."},
				{name: "name", typ: typeLabel, unsaid: "the label", example: `"nas"`, source: "RFC 1123", doc: "Its name in DNS."},
				{name: "alias", typ: typeDomain, list: true, unsaid: "none", example: `"files"`, source: "CNAME, RFC 1035, 3.3.1",
					doc: "Further names, by BIND (dns): in the house's domain if there is no dot in them, else in a zone that is served here."},
			},
		},
		{
			name: "dhcp6", once: true, doc: "The DHCPv6 server. Without pool and delegate it is stateless: devices make their addresses themselves, and ask it for resolvers, domains and time (RFC 8415, 6.1). Lifetimes are those of advertise.",
			keys: []*key{
				{name: "enabled", typ: typeFlag, def: `false`, unsaid: "true where this block is, else false", doc: "Whether there is one."},
				{name: "pool", typ: typeRange6, list: true, empty: true, unsaid: "no addresses", example: `"::1000-::1fff"`, source: "IA_NA, RFC 8415, 6.2",
					doc: "Addresses for devices that have none of their own: lower halves, in each /64 that the LAN has, so that a device keeps its own when the ISP's prefix changes; or addresses of one /64. [] serves known hosts only."},
				{name: "delegate", typ: typeInt, min: 49, max: 64, unsaid: "no prefixes", example: `60`, unit: "bits", source: "IA_PD, RFC 8415, 6.3",
					doc: "Routers in this LAN get prefixes of this length, out of what the lines are delegated and of ula, and are routed to. What has another LAN's /64 in it is left out."},
			},
		},
		laterBlock("network", []string{"prefix", "via"}),
	},
}

var groupBlock = &block{
	name: "group", kind: KindGroup, label: labelName, maxName: 63, example: "children",
	doc: "A name for several places.",
	keys: []*key{
		{name: "member", typ: typePlace, list: true, required: true, kinds: anywhere, text: true, example: `[host.nas, "10.0.10.64/26"]`,
			doc: "What it stands for. A group may hold groups, but not itself."},
	},
}

func ruleBlock(verb string) *block {
	doc := map[string]string{
		"allow":  "Lets connections through. allow, block and reject count together, in file order; the first that matches decides.",
		"block":  "Drops connections in silence.",
		"reject": "Refuses connections politely (TCP reset, ICMP).",
	}
	to := map[string]string{"allow": `host.nas`, "block": `wan`, "reject": `self`}
	return &block{
		name: verb, label: labelName, maxName: 63, doc: doc[verb], like: map[bool]string{true: "allow"}[verb != "allow"],
		example: map[string]string{"allow": "guests-print", "block": "no-mail", "reject": "no-ssh"}[verb],
		keys: append([]*key{
			{name: "from", typ: typePlace, list: true, kinds: anywhere, text: true, unsaid: "anywhere", example: `lan.home`, source: "nft saddr, iif",
				doc: "Who opens the connection. At least one of from and to is said."},
			{name: "to", typ: typePlace, list: true, kinds: anywhere, text: true, shown: true, unsaid: "anywhere", example: to[verb], source: "nft daddr, oif",
				doc: "Whom it is opened to."},
			{name: "protocol", typ: typeProtocol, list: true, unsaid: "tcp with a port, else all", example: `"tcp"`, source: "IANA protocol numbers",
				doc: "icmp is that of both families. Of what comes in by a WAN it is pings of the line's own address, which the line answers itself: no rule against it is counted or logged."},
			{name: "port", typ: typePort, list: true, unsaid: "all", example: `[22, "8000-8080"]`, source: "nft dport",
				doc: "The port at the far end."},
			{name: "fast", typ: typeFlag, def: `true`, source: "ct mark 0x10000",
				doc: "Whether the fast path may carry the connections that an allow lets through (gateway's fast_path). Not where each packet is to pass main's rules, as where other programs mark, limit or log it there. It counts for connections that begin from then on; what a rule refuses is never carried."},
		}, laterKeys("when", "limit", "log")...),
	}
}

var forwardBlock = &block{
	name: "forward", label: labelName, maxName: 63, example: "web",
	doc: "Opens a port of the house to the outside.",
	keys: []*key{
		{name: "protocol", typ: typeProtocol, list: true, words: words("tcp", "udp"), def: `"tcp"`, source: "nft dnat", doc: "tcp, udp or both."},
		{name: "port", typ: typePort, list: true, required: true, example: `[80, 443]`, source: "nft dport",
			doc: "Where it is asked for outside. No other forward has it on that WAN."},
		{name: "to", typ: typePlace, list: true, required: true, kinds: []Kind{KindHost}, text: true, example: `host.nas`, source: "nft dnat to",
			doc: "A host with a fixed address, or up to one address of each family."},
		{name: "to_port", typ: typePort, list: true, unsaid: "the same", example: `[8080, 8443]`, source: "nft dnat to",
			doc: "Where it goes inside; as many as port, ranges as wide."},
		{name: "from", typ: typePlace, list: true, kinds: []Kind{KindGroup}, text: true, unsaid: "anywhere", example: `"198.51.100.0/24"`, source: "nft saddr",
			doc: "Who may: addresses, networks, groups of them. It counts for hairpin too: a LAN that it doesn't cover is refused."},
		{name: "on", typ: typeRef, list: true, kinds: []Kind{KindWAN}, unsaid: "every WAN, used or in reserve", example: `wan.fiber`, source: "nft iif",
			doc: "By which lines."},
		{name: "hairpin", typ: typeFlag, def: `true`, source: "RFC 4787, REQ-9",
			doc: "Whether the house itself reaches it by the outside address too. By IPv4 it can't where the ISP's network is the LAN's own: clients look for that address among themselves."},
	},
}
