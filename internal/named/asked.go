package named

import (
	"net/netip"
	"regexp"
	"strings"
	"time"

	weirdns "weir/internal/dns"
)

// asked is how named tells of a question (lib/ns/query.c, log_query). What a name
// holds of spaces and parentheses it escapes.
var asked = regexp.MustCompile(`^client (?:@\S+ )?([0-9A-Fa-f.:]+)(?:%\S+)?#\d+ \(\S*\): (?:view \S+: )?query: (\S+) \S+ (\S+) `)

// asker is who asked for what was rewritten.
var asker = regexp.MustCompile(`^client (?:@\S+ )?([0-9A-Fa-f.:]+)(?:%\S+)?#\d+ `)

// rewritten is how named tells of an answer that it changed (lib/ns/query.c).
var rewritten = regexp.MustCompile(`rpz ([A-Z-]+) ([A-Z-]+) rewrite (\S+)/([A-Z0-9]+)/IN via (\S+)$`)

// question reads a question, or what a list made of one, from named's log.
func question(text string) (a weirdns.Asked, ok bool) {
	var client string
	if m := asked.FindStringSubmatch(text); m != nil {
		client, a.Name, a.Type = m[1], m[2], m[3]
	} else if m := rewritten.FindStringSubmatch(text); m != nil {
		list, of, _ := strings.Cut(m[5], spoken(listZone))
		who := asker.FindStringSubmatch(text)
		if of != "" || !strings.HasSuffix(m[5], spoken(listZone)) || who == nil {
			return a, false
		}
		client, a.Name, a.Type, a.Answer = who[1], m[3], m[4], "blocked by "+list[strings.LastIndexByte(list, '.')+1:]
	} else {
		return a, false
	}
	addr, err := netip.ParseAddr(client)
	a.At, a.Client = time.Now(), addr
	return a, err == nil
}
