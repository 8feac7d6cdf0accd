package config

var routeBlock = &block{
	name: "route", label: labelName, maxName: 63, example: "calls",
	doc: "By which lines connections leave the house. The first route that matches decides, in file order; what none matches leaves as failover says. It counts for connections that begin from then on: a running one stays where it is.",
	keys: append([]*key{
		{name: "from", typ: typePlace, list: true, kinds: []Kind{KindLAN, KindHost, KindGroup, KindSelf}, text: true, unsaid: "anywhere", example: `lan.home`, source: "nft saddr, iif, ether saddr",
			doc: "Who opens the connection. A host is also known by its MAC, whatever address it uses. The gateway's own questions to resolvers are self's."},
		{name: "to", typ: typePlace, list: true, kinds: []Kind{KindWAN, KindGroup}, text: true, unsaid: "anywhere outside", example: `"203.0.113.0/24"`, source: "nft daddr",
			doc: "Whom it is opened to: addresses and networks outside; wan is all of them."},
		{name: "protocol", typ: typeProtocol, list: true, unsaid: "tcp with a port, else all", example: `"tcp"`, source: "IANA protocol numbers",
			doc: "icmp is that of both families."},
		{name: "port", typ: typePort, list: true, unsaid: "all", example: `[5060, "10000-20000"]`, source: "nft dport",
			doc: "The port at the far end."},
		{name: "prefer", typ: typeRef, list: true, shown: true, kinds: []Kind{KindWAN}, unsaid: "only or never says it", example: `wan.fiber`, source: "ip-rule(8) fwmark",
			doc: "The first of these that works; one that has come back only after its hold-down, where another works. If none does, the others as failover says. One of prefer, only and never is said."},
		{name: "only", typ: typeRef, list: true, kinds: []Kind{KindWAN}, unsaid: "prefer or never says it", example: `wan.fiber`, source: "ip-rule(8) fwmark",
			doc: "A kill-switch: the first of these that works, or the connection is refused. In a family that none of them has it is refused, too."},
		{name: "never", typ: typeRef, list: true, kinds: []Kind{KindWAN}, unsaid: "prefer or only says it", example: `wan.fiber`, source: "ip-rule(8) fwmark",
			doc: "The line that failover says, or the next one of its prefer, but none of these; if no other works, the connection is refused."},
	}, laterKeys("share")...),
}
