package ruleset

import "fmt"

// TrafficCounter and AnswerCounter name the counters of main that say what came
// back by a line, in a family: packets of flows that went out by it. A packet
// that answers something new is counted by the second, every other by the first.
// Never counted are packets of flows that came in by a line, what belongs to no
// flow, ICMP errors, the answers to our own probes, and those of a line's own
// resolver: it stands in the ISP's network, and answers from its cache when
// nothing else does.
func TrafficCounter(wan string, ipv6 bool) string { return "traffic" + digit(ipv6) + "." + wan }

// AnswerCounter counts the first packet that comes back of a flow, each DNS
// response and each echo reply: what nobody sends who hears nothing from us.
func AnswerCounter(wan string, ipv6 bool) string { return "answers" + digit(ipv6) + "." + wan }

// BegunCounter counts the flows that go out by a metered line, our own probes not
// among them: if what is begun brings nothing, the line is asked at once.
func BegunCounter(wan string, ipv6 bool) string { return "begun" + digit(ipv6) + "." + wan }

// begun writes the rules that count the flows that begin by a metered line.
func (m *mainTable) begun(out *chain, w WAN) {
	c := m.Config.WAN(w.Name)
	if c == nil || !c.Metered {
		return
	}
	for _, f := range families() {
		name := BegunCounter(w.Name, f == v6)
		out.add(name, fmt.Sprintf("ct mark and 0x%04x == 0", MarkIn|MarkProbe), f.nfproto, m.counter(name))
	}
}

func digit(ipv6 bool) string {
	if ipv6 {
		return v6.digit
	}
	return v4.digit
}

// count writes the rule that counts what comes by a cable. A packet of a flow
// that was answered before, as nearly all are, passes it and one counter.
func (m *mainTable) count(by *chain, w WAN) {
	by.add("count."+w.Name, fmt.Sprintf("ct state established ct direction reply ct mark and 0x%04x vmap { 0x0000 : goto answers.%s, 0x%04x : goto traffic.%s }",
		MarkIn|MarkAnswered|MarkProbe, w.Name, MarkAnswered, w.Name))
	answers, traffic := m.chain("answers."+w.Name, ""), m.chain("traffic."+w.Name, "")
	answers.add("answered."+w.Name, "jump answered")
	for _, f := range families() {
		name := AnswerCounter(w.Name, f == v6)
		answers.add(name, f.nfproto, m.counter(name))
		name = TrafficCounter(w.Name, f == v6)
		traffic.add(name, f.nfproto, m.counter(name))
	}
}

// answered notes that a flow has its answer, unless each packet that comes back
// is one of its own. What is established and ICMP are echo replies.
func (m *mainTable) answered() {
	c := m.chain("answered", "")
	c.add("answered.echo", "meta l4proto { 1, 58 } return")
	c.add("answered.dns", "udp sport 53 return")
	c.add("answered", fmt.Sprintf("ct mark set ct mark or 0x%04x", MarkAnswered))
}

// probes marks the flows of our own probes, and what asks a line's resolver: they
// have the cable's own address, which nothing else has that leaves by it.
func (m *mainTable) probes(out *chain, w WAN) {
	for _, f := range families() {
		if near := w.near(f); near.IsValid() {
			out.add("probe"+f.digit+"."+w.Name, fmt.Sprintf("%s saddr %s", f.word, near),
				fmt.Sprintf("ct mark set ct mark or 0x%04x", MarkProbe))
		}
	}
}
