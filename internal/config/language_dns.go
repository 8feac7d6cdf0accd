package config

var dnsBlock = &block{
	name: "dns", once: true, doc: "The resolver for the house.",
	keys: []*key{
		{name: "engine", typ: typeWord, words: words("auto", "forward", "bind"), def: `"auto"`,
			doc: "Who answers. forward is weir itself: local names from here, all others from upstream. bind is BIND 9, run by weir: it also asks from the root on, validates DNSSEC, and has zones of its own that others can update. auto is bind where it is installed (Debian: bind9) and no upstream is tls://, and wherever the file has what only BIND can do: zone, key, alias. Without BIND forward answers; weir says so where the file needs it."},
		{name: "upstream", typ: typeServer, list: true, kinds: []Kind{KindWAN}, unsaid: "forward: wan; bind: none, from the root on", example: `["9.9.9.9", "2620:fe::fe"]`, source: "RFC 1035; RFC 7858 for tls://",
			doc: "Resolvers that are asked; tls://ADDRESS#NAME is asked encrypted, and has to prove that name (not with bind). wan.NAME is that line's own resolver, whatever the ISP says it is now, asked over that line; wan is that of the line in use. With bind an ISP's resolver that does not pass signatures on needs validate = false."},
		{name: "validate", typ: typeFlag, def: `true`, source: "RFC 4035",
			doc: "With bind: answers whose DNSSEC signatures are wrong are withheld. The root's keys are built in and followed (RFC 5011); a file root-anchors with DS records in the state directory takes their place."},
		{name: "client", typ: typePrefix, list: true, unsaid: "the LANs' networks, and link-local addresses", example: `["10.0.10.0/24", "10.8.0.0/24"]`, source: "allow-query",
			doc: "Who may ask; whoever else does is refused. The gateway itself always may. Networks of the public internet are not taken, but a LAN's own."},
		{name: "private_domain", typ: typeDomain, list: true, unsaid: "none", example: `"plex.direct"`, source: "rebinding protection, as unbound's private-domain",
			doc: "Domains whose names may point into the house. What else the internet says of addresses in here is withheld, so that no web page reaches the house's devices by a name of its own (DNS rebinding): private, link-local, loopback and shared (100.64.0.0/10) addresses, and IPv6 ones that hold such. What counts is the name that has the address; with engine = \"forward\" also the one that was asked for, which may be an alias. Zones that are forwarded are believed unsaid."},
		{name: "log", typ: typeFlag, def: `false`,
			doc: "The questions of the house can be looked at: weir log --dns. The last 1,000 are kept, in memory alone."},
	},
	blocks: []*block{
		zoneBlock,
		{
			name: "key", label: labelDomain, example: "acme", doc: "Who else may update zones, by TSIG (RFC 2136, RFC 8945). Its secret is made once and kept in the state directory, as named/NAME.key: for nsupdate -k; or it is that of a file.",
			keys: []*key{
				{name: "algorithm", typ: typeWord, words: words("hmac-sha256", "hmac-sha512", "hmac-sha1", "hmac-md5"), def: `"hmac-sha256"`, source: "RFC 8945, 6",
					doc: "The last two are for old programs."},
				{name: "zone", typ: typeDomain, list: true, required: true, example: `"home.arpa"`, source: "update-policy",
					doc: "What it may update: zones that are served here."},
				{name: "name", typ: typeText, min: 1, max: 253, list: true, unsaid: "all names but those that the gateway and the file have", example: `"_acme-challenge"`,
					doc: "Names in these zones, relative to them; @ is the zone itself, *.NAME all below a name."},
				{name: "type", typ: typeText, min: 1, max: 10, list: true, unsaid: "all", example: `"TXT"`, source: "IANA's record types",
					doc: "Types of records."},
				{name: "secret_file", typ: typeFile, unsaid: "made once, as named/NAME.key in the state directory", example: `"/etc/weir/acme.key"`, source: "RFC 8945; tsig-keygen(8)",
					doc: "A secret that somebody has already: a file of tsig-keygen, for this name and algorithm, or the bare secret in base64. A path that does not begin with / begins at the folder of this file. Its mode is 0600. It is read when this file is put in force. A rehearsal has another secret in its place."},
			},
		},
		blockListBlock,
	},
}

var blockListBlock = &block{
	name: "block_list", label: labelName, maxName: 40, example: "ads",
	doc: "Names that are not resolved: whoever asks is told that there is no such name (NXDOMAIN; from weir's own resolver with EDE 15, Blocked). Names of the house are never blocked.",
	keys: []*key{
		{name: "source", typ: typeText, min: 1, max: 2000, list: true, required: true, example: `"https://lists.example.org/hosts"`, source: "hosts(5), names, Adblock Plus, RPZ",
			doc: "Where they come from: URLs, and files by their whole path, which are looked at every ten seconds. A line is ADDRESS NAME as in hosts, a name, *.NAME with all below it, ||NAME^ likewise, @@||NAME^ for what is let through, or NAME CNAME . as in a response policy zone. At most 64 MB and two million names."},
		{name: "refresh", typ: typeDuration, min: hour, max: 30 * day, def: `"1d"`, source: "RFC 9110, 13",
			doc: "How often URLs are asked for something newer; a little sooner, so that not all houses ask at once. What was had last stays in the state directory and in force until there is something better."},
		{name: "allow", typ: typeDomain, list: true, unsaid: "none", example: `"cdn.example.com"`, source: "rpz-passthru",
			doc: "Domains that this list does not block, with all below them."},
		{name: "lan", typ: typeRef, list: true, kinds: []Kind{KindLAN}, unsaid: "every LAN", example: `lan.home`,
			doc: "Whose questions it is for. The gateway's own are never blocked."},
	},
}

var zoneBlock = &block{
	name: "zone", label: labelDomain, example: "home.arpa",
	doc: "A zone that is served here, or forwarded, by BIND. The house's domain and the LANs' reverse zones are there unsaid; naming them adds to them.",
	keys: []*key{
		{name: "forward", typ: typeServer, list: true, kinds: []Kind{KindWAN}, unsaid: "served here", example: `"10.9.0.1"`, source: "type forward",
			doc: "Who is asked for what is in this zone, and believed: addresses, or a line's own resolver as in upstream (wan.fiber, for names that only this ISP knows). Nothing else stands beside it."},
		{name: "ttl", typ: typeDuration, min: sec, max: 7 * day, def: `"1h"`, source: "RFC 1035, $TTL",
			doc: "How long its records may be remembered."},
	},
	blocks: []*block{
		{
			name: "soa", once: true, doc: "The times in its start of authority, for secondaries.",
			keys: []*key{
				{name: "refresh", typ: typeDuration, min: sec, max: 30 * day, def: `"1h"`, source: "RFC 1035, 3.3.13", doc: "How often they look."},
				{name: "retry", typ: typeDuration, min: sec, max: 30 * day, def: `"10m"`, source: "RFC 1035, 3.3.13", doc: "How soon again if that failed."},
				{name: "expire", typ: typeDuration, min: sec, max: 365 * day, def: `"7d"`, source: "RFC 1035, 3.3.13", doc: "How long they answer without us."},
				{name: "minimum", typ: typeDuration, min: 0, max: day, def: `"1m"`, source: "RFC 2308, 4", doc: "How long it may be remembered that a name is not there."},
			},
		},
		{
			name: "record", label: labelRecord, example: "printer",
			doc: "Records of a name in the zone; @ is the zone itself, *.NAME whatever is below a name and not there. Names in the data are relative to the zone unless they end in a dot.",
			keys: []*key{
				{name: "address", typ: typePlace, list: true, shown: true, kinds: []Kind{KindHost}, text: true, unsaid: "none", example: `"10.0.10.9"`, source: "A, AAAA and PTR",
					doc: "Its addresses, or a host that has some."},
				{name: "cname", typ: typeText, min: 1, max: 253, unsaid: "none", example: `"nas"`, source: "RFC 1035, 3.3.1", doc: "The name that it stands for; then nothing is beside it."},
				{name: "ns", typ: typeText, min: 1, max: 253, list: true, unsaid: "none; of the zone itself the gateway", example: `"ns.branch"`, source: "RFC 1035, 3.3.11", doc: "Who serves what is below it."},
				{name: "txt", typ: typeText, min: 1, max: 4000, list: true, unsaid: "none", example: `"v=spf1 -all"`, source: "RFC 1035, 3.3.14", doc: "Text."},
				{name: "mx", typ: typeText, min: 1, max: 260, list: true, unsaid: "none", example: `"10 mail"`, source: "RFC 1035, 3.3.9", doc: "Preference and name of a mail server."},
				{name: "srv", typ: typeText, min: 1, max: 275, list: true, unsaid: "none", example: `"0 5 5060 sip"`, source: "RFC 2782", doc: "Priority, weight, port and name of a server."},
				{name: "caa", typ: typeText, min: 1, max: 1000, list: true, unsaid: "none", example: `"0 issue ca.example"`, source: "RFC 8659", doc: "Flags, tag and value: who may issue certificates."},
				{name: "ttl", typ: typeDuration, min: sec, max: 7 * day, unsaid: "the zone's", example: `"5m"`, source: "RFC 1035", doc: "How long they may be remembered."},
			},
		},
	},
}
