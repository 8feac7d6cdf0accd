package ruleset

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/config"
)

// perZone is a verdict map from link to chain: TO.lan.NAME and TO.wan.NAME,
// where to is a verdict and the start of a name. What is at the gateway itself
// is closed to a line.
func (m *mainTable) perZone(to string) string {
	var out []string
	for _, l := range m.LANs {
		out = append(out, fmt.Sprintf("%q : %s.lan.%s", l.Link, to, l.Name))
	}
	for _, w := range m.WANs {
		out = append(out, fmt.Sprintf("%q : %s.wan.%s", w.Name, strings.ReplaceAll(to, "jump at", "jump closed"), w.Name))
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

// zones writes what each LAN may do, and how little each line.
func (m *mainTable) zones() {
	for _, l := range m.LANs {
		name := "lan." + l.Name
		m.spoofed(l)
		to := m.chain("through."+name, "")
		to.add(name+".source", "jump from."+name)
		to.add(name+".rules", "jump judged_inside")
		reach := m.ends(l.Reach)
		for i, d := range reach.destinations() {
			to.add(name+".reach"+nth(i), d.text, "accept")
		}
		at := m.chain("at."+name, "")
		for i, d := range reach.here(l.Addr) {
			at.add(name+".reach.self"+nth(i), d.text, "accept")
		}
		m.refuse(to, name+".refused")
		if !reach.self {
			// Talk to everyone on the link, of which nothing is said to anyone.
			at.add(name+".chatter", "meta pkttype { broadcast, multicast } drop")
			m.refuse(at, name+".refused.self")
		}
	}
	for _, w := range m.WANs {
		name := "wan." + w.Name
		from := m.chain("from."+name, "")
		for _, f := range families() {
			id := name + ".spoofed" + f.digit
			from.add(id+".from", fmt.Sprintf("%s saddr @spoof%s.%s", f.word, f.digit, w.Name), "goto "+id)
			m.drop(m.chain(id, ""), id)
		}
		through := m.chain("through."+name, "")
		through.add(name+".source", "jump from."+name)
		through.add(name+".rules", "jump judged")
		through.add(name+".reach", "goto closed."+name)
		m.drop(m.chain("closed."+name, ""), name+".closed")
	}
	c := m.chain("refuse", "")
	c.add("refuse.tcp", "meta l4proto 6 reject with tcp reset")
	c.add("refuse.other", "reject with icmpx type admin-prohibited")
}

// spoofed drops what comes from a LAN with a source that does not live there.
// An address of the LAN's own IPv4 network needs no look-up: what is the
// gateway's own or a broadcast among them the kernel drops (fib_validate_source).
func (m *mainTable) spoofed(l LAN) {
	from, name := m.chain("from.lan."+l.Name, ""), "lan."+l.Name+".spoofed"
	if nets := v4.of(l.Addr); len(nets) > 0 {
		from.add(name+".from4", "ip saddr !=", anyOf(nets), "fib saddr . iif oif 0 goto", name)
		from.add(name+".from6", v6.nfproto, "fib saddr . iif oif 0 goto", name)
	} else {
		from.add(name+".from", "fib saddr . iif oif 0 goto", name)
	}
	m.drop(m.chain(name, ""), name)
}

// ruleName is how a rule of the user is called in comments, counters and the
// log. A dot cannot be in a name of the file, so ours never meet the user's.
func ruleName(r config.Rule) string { return string(r.Verb) + "." + r.Name }

// judge writes a rule of the user.
func (m *mainTable) judge(c *chain, r config.Rule, where string, i int, p match) {
	name := ruleName(r)
	text := strings.TrimSpace(p.text + " " + protocols(r.Protocol, r.Port))
	id := name + where + nth(i)
	verdict := "accept"
	switch r.Verb {
	case config.Block:
		verdict = "drop"
	case config.Reject:
		verdict = "goto refuse"
	}
	if r.Verb != config.Allow {
		c.add(id+".log", text, logged(name))
	}
	if r.Slow && r.Verb == config.Allow {
		verdict = fmt.Sprintf("ct mark set ct mark or 0x%05x accept", MarkSlow)
	}
	c.add(id, text, m.counter(name), verdict)
}

// logged is the statement that tells of a refusal: to nflog group 87, so many
// of one rule that a person can read them.
func logged(name string) string {
	return fmt.Sprintf("limit rate 5/second burst 10 packets log prefix %q group %d", LogPrefix+name, LogGroup)
}

// refuse says no, politely: for the inside.
func (m *mainTable) refuse(c *chain, name string) {
	c.add(name+".log", logged(name))
	c.add(name, m.counter(name), "goto refuse")
}

// drop says nothing.
func (m *mainTable) drop(c *chain, name string) {
	c.add(name+".log", logged(name))
	c.add(name, m.counter(name), "drop")
}

// nth tells the parts of one rule apart: "", ".2", ".3"...
func nth(i int) string {
	if i == 0 {
		return ""
	}
	return "." + strconv.Itoa(i+1)
}
