package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

var timeBlock = &block{
	name: "time", once: true,
	doc: "The time, by chrony, which weir runs. Without it (Debian: chrony) on the machine weir says so, and keeps no time.",
	keys: []*key{
		{name: "server", typ: typeTimeServer, list: true, example: `["nts://time.cloudflare.com", "nts://nts.netnod.se", "ntp.example.org"]`,
			unsaid: "time.cloudflare.com, ntp.se and any.time.nl, by addresses that are built in", source: "RFC 5905; RFC 8915 for nts://",
			doc: "Who is asked: addresses, names, or nts://NAME for a server that proves by a certificate who it is. Names are looked up once a day, and what was found is kept for the next start, so that time needs no names. Of three or more servers one that is wrong moves nothing."},
		{name: "serve", typ: typeFlag, def: `true`, source: "option 42",
			doc: "The LANs can have the time from the gateway, and DHCP tells them so. Nobody on a WAN can."},
	},
}

// timeServer reads an address, a name, or nts://NAME.
func (c *checker) timeServer(k *key, s string, at hcl.Range) (any, bool) {
	wrong := func(detail string) (any, bool) { return c.wrong(k, at, strconv.Quote(s), detail) }
	scheme, rest, isURL := strings.Cut(s, "://")
	nts := isURL && scheme == "nts"
	if !isURL {
		rest = s
	}
	a, isAddr := addr(strings.Trim(rest, "[]"))
	name := strings.ToLower(rest)
	switch {
	case isURL && !nts:
		if scheme == "ntp" && (isAddr || validDomain(name)) {
			return wrong(fmt.Sprintf("Without ntp://: %q", rest))
		}
		return wrong("")
	case isAddr && nts:
		return wrong("Its certificate proves a name, not an address.")
	case isAddr:
		if why := unfit(a); why != "" {
			return wrong(fmt.Sprintf("%s is %s.", a, why))
		}
		return TimeServer{Addr: a}, true
	case strings.HasSuffix(name, ".") && validDomain(strings.TrimSuffix(name, ".")):
		return wrong(fmt.Sprintf("Without the last dot: %q", strings.TrimSuffix(s, ".")))
	case !validDomain(name) || !strings.ContainsFunc(name, func(r rune) bool { return r >= 'a' && r <= 'z' }):
		return wrong("")
	}
	return TimeServer{Name: name, NTS: nts}, true
}

func (c *checker) checkTime(h *house) {
	n := h.root.child("time")
	for _, it := range n.items("server") {
		s, _ := it.val.(TimeServer)
		if own, at := h.gatewayAddr(s.Addr); s.Addr.IsValid() && own != "" {
			c.err(it.at, fmt.Sprintf("It would set its clock by itself (%s).", line(at, it.at)), "%s is the gateway itself", s.Addr)
		}
	}
	if a := n.said("server"); a != nil && !n.bad("server") && len(h.Time.Server) == 2 {
		c.note(a.value, "Where they differ neither is believed. With three the wrong one is found out.", "there are two time servers")
	}
}
