package dns

import (
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// rule is what a list says of a name and of what is below it.
type rule uint8

const (
	blockName rule = 1 << iota
	blockBelow
	passName
	passBelow
)

// names is a list's rules by name, in lower case without trailing dot.
type names map[string]rule

// parseNames reads a file of names: see List.File.
func parseNames(text string) names {
	n := make(names, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		name, pass := strings.CutPrefix(strings.TrimRight(line, "\n"), "!")
		name, below := strings.CutPrefix(name, "*.")
		r := blockName
		if below {
			r <<= 1
		}
		if pass {
			r <<= 2
		}
		n[name] |= r
	}
	return n
}

// blocks tells whether a name is blocked: what stands for it itself decides, else
// the nearest name above that says something.
func (n names) blocks(name string) bool {
	if r := n[name]; r&(blockName|passName) != 0 {
		return r&blockName != 0
	}
	for {
		_, above, ok := strings.Cut(name, ".")
		if !ok {
			return false
		}
		if r := n[above]; r&(blockBelow|passBelow) != 0 {
			return r&blockBelow != 0
		}
		name = above
	}
}

// loaded is a list in force.
type loaded struct {
	List
	names
}

// lists are the lists in force.
type lists []loaded

// load reads the lists of a configuration. What is unchanged is kept, and what
// can't be read too.
func (ls lists) load(of []List, log *slog.Logger) lists {
	out := make(lists, 0, len(of))
	for _, l := range of {
		e := loaded{List: l}
		if i := slices.IndexFunc(ls, func(o loaded) bool { return o.Name == l.Name }); i >= 0 {
			e.names = ls[i].names
			if ls[i].Version == l.Version && ls[i].File == l.File {
				out = append(out, e)
				continue
			}
		}
		if b, err := os.ReadFile(l.File); err != nil {
			log.Error("a block list is not in force as it should be", "list", l.Name, "err", err)
		} else {
			e.names = parseNames(string(b))
		}
		out = append(out, e)
	}
	return out
}

// blocking returns the first list that blocks one of these names for a client.
func (ls lists) blocking(client netip.Addr, of ...string) (list string, yes bool) {
	client = client.Unmap().WithZone("")
	for _, l := range ls {
		if !slices.ContainsFunc(l.Clients, func(p netip.Prefix) bool { return p.Contains(client) }) {
			continue
		}
		for _, name := range of {
			if l.blocks(strings.TrimSuffix(strings.ToLower(name), ".")) {
				return l.Name, true
			}
		}
	}
	return "", false
}

// blockedTTL is how long clients may remember that a name is blocked, in seconds:
// whoever takes it off a list wants to see that.
const blockedTTL = 60

// listEDE is what an extended error says before a list's name.
const listEDE = "block_list "

// blocked is the answer for a name that a list blocks.
func blocked(name, list string) outcome {
	m := code(dns.RcodeNameError)
	m.Ns = []dns.RR{&dns.SOA{
		Hdr: header(name, dns.TypeSOA, blockedTTL), Ns: "localhost.", Mbox: "nobody.invalid.",
		Serial: 1, Refresh: 3600, Retry: 1200, Expire: 604800, Minttl: blockedTTL,
	}}
	return outcome{msg: m, ede: &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeBlocked, ExtraText: listEDE + list}}
}

// aliases are the names that an answer leads to: a blocked name is blocked behind
// another one too.
func aliases(m *dns.Msg) (out []string) {
	for _, rr := range m.Answer {
		if c, ok := rr.(*dns.CNAME); ok {
			out = append(out, c.Target)
		}
	}
	return out
}

// filtered is an answer from outside as a client may see it.
func (s *service) filtered(client netip.Addr, name string, out outcome) outcome {
	if ls := *s.lists.Load(); len(ls) > 0 {
		if list, yes := ls.blocking(client, aliases(out.msg)...); yes {
			s.blocked.Add(1)
			return blocked(name, list)
		}
	}
	return out
}

// takeLists puts lists in force. It takes a while where they are new.
func (s *service) takeLists(of []List) {
	begin := time.Now()
	next := s.lists.Load().load(of, s.log)
	s.lists.Store(&next)
	s.log.Debug("block lists are in force", "lists", len(next), "took", time.Since(begin))
}
