package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"weir/internal/config"
	"weir/internal/lab"
)

// ruleAct asks for what a rule of the file speaks of, in the name of each that it
// names: the first rule that matches decides, which may be one before it.
//
// ok is false where nobody in a lab can ask: a rule between a line and a host is
// seen by forwards, and some protocols have no server here.
func ruleAct(s *Site, r *config.Rule) (act Act, ok bool) {
	drill := name("rule", r.Name)
	if len((&Bench{Site: s}).cases(r)) == 0 {
		return Act{}, false
	}
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("%s %q", r.Verb, r.Name)
		look := fmt.Sprintf("%s and the rules before it; `nft list table inet weir` on the gateway", place(r.Pos))
		cases := b.cases(r)
		if err := b.lease(ctx, cases); err != nil {
			return []Result{fail(drill, about, "those whom it names on their LAN", err.Error(), look)}
		}
		n, wrong := b.askAll(ctx, cases)
		if n == 0 {
			wrong = "there was nobody to ask, or nobody to be asked"
		}
		if wrong != "" {
			return []Result{fail(drill, about, "what the rules and reach of the file say", wrong, look)}
		}
		return []Result{pass(drill, about, packets("tried", n))}
	}}, true
}

// end is one end of what is asked for a rule: a party, and the machine that
// plays it. Its addresses are known when it is asked for.
type end struct {
	party   party
	machine string // of a client or host; "" is the gateway
	line    string // of the internet host that asks
	lan     *LAN   // of a client or host
	fixed   *netip.Addr
}

// ruleCase is something to be asked for a rule.
type ruleCase struct {
	from, to end
	proto    config.Protocol
	port     uint16
}

// cases are all pairs of ends that a rule names, with the first and last of its
// ports.
func (b *Bench) cases(r *config.Rule) []ruleCase {
	var out []ruleCase
	ports := []uint16{7}
	if r.Port != nil {
		ports = nil
		for _, p := range r.Port {
			ports = append(ports, slices.Compact([]uint16{p.From, p.To})...)
		}
	}
	protos := r.Protocol
	if protos == nil {
		protos = []config.Protocol{config.TCP, config.UDP, config.ICMP}
	}
	for _, from := range b.ends(r.From, false) {
		for _, to := range b.ends(r.To, true) {
			if !passes(from, to) {
				continue
			}
			for _, proto := range protos {
				switch proto {
				case config.TCP, config.UDP:
					for _, port := range ports {
						out = append(out, ruleCase{from, to, proto, port})
					}
				case config.ICMP:
					// Every line answers echo requests by itself.
					if from.line == "" {
						out = append(out, ruleCase{from, to, proto, 0})
					}
				}
			}
		}
	}
	return out
}

// passes says whether the gateway has a word in what goes from one end to another.
func passes(from, to end) bool {
	self := to.party.zone.Kind == config.KindSelf
	switch {
	case from.line != "":
		return self
	case from.lan == nil:
		return false
	}
	return self || to.lan == nil || to.lan.Name != from.lan.Name
}

// ends are those whom places name, nil being anywhere: a client stands for its
// LAN, an internet host for a line.
func (b *Bench) ends(places []config.Place, asked bool) []end {
	var out []end
	named := func(p party) bool { return places == nil || p.at(b.Config, places) }
	for i := range b.LANs {
		l := &b.LANs[i]
		client := end{party: party{zone: lanZone(l.Name)}, machine: l.Client, lan: l}
		if named(client.party) {
			out = append(out, client)
			continue
		}
		for _, h := range l.Hosts {
			if h.Of == nil {
				continue
			}
			e := end{party: party{zone: lanZone(l.Name), host: h.Of}, machine: h.Name, lan: l}
			if named(e.party) || slices.ContainsFunc(h.Addr, func(a netip.Addr) bool { e.party.addr = a; return named(e.party) }) {
				e.party.addr = netip.Addr{}
				out = append(out, e)
			}
		}
	}
	self := end{party: party{zone: config.Ref{Kind: config.KindSelf}}}
	if asked && named(self.party) {
		out = append(out, self)
	}
	for _, line := range b.Lines {
		e := end{party: party{zone: wanZone(line.Name)}, line: line.Name}
		if asked && b.Site.first(false) != line.Name && b.Site.first(true) != line.Name {
			continue // asked for by no new connection
		}
		if named(e.party) {
			out = append(out, e)
		}
	}
	// Addresses of the world.
	for _, p := range b.Config.Expand(places) {
		if p.IsRef() || slices.ContainsFunc(b.LANs, func(l LAN) bool { net, _ := l.network(p.Prefix.Addr()); return net.IsValid() }) {
			continue
		}
		a := p.Prefix.Masked().Addr()
		if !p.Prefix.IsSingleIP() {
			a = a.Next()
		}
		if a.IsUnspecified() || p.Prefix.Bits() == 0 {
			a = lab.Web(a.Is6())
		}
		for _, line := range b.Lines {
			if !asked || b.Site.first(a.Is6()) == line.Name {
				out = append(out, end{party: party{zone: wanZone(line.Name), addr: a}, line: line.Name, fixed: &a})
			}
		}
	}
	return out
}

// lease has hosts without a fixed address ask for one, once.
func (b *Bench) lease(ctx context.Context, cases []ruleCase) error {
	for _, c := range cases {
		for _, e := range []end{c.from, c.to} {
			m := b.Hosts[e.machine]
			if m == nil || !e.lan.DHCP.Enabled || m.Addr4.IsValid() {
				continue
			}
			short, cancel := context.WithTimeout(ctx, b.joins())
			ack, err := m.Lease(short)
			cancel()
			if err == nil {
				err = m.Use(ack)
			}
			if err != nil {
				return fmt.Errorf("a lease for %s: %w", e.machine, err)
			}
		}
	}
	return nil
}

// addr is an end's address in a family, if it has one.
func (b *Bench) addr(e end, of *LAN, v6 bool) netip.Addr {
	switch {
	case e.fixed != nil && e.fixed.Is6() == v6:
		return *e.fixed
	case e.fixed != nil:
		return netip.Addr{}
	case e.line != "" && len(b.Order(v6)) > 0:
		return lab.Web(v6)
	case e.line != "":
		return netip.Addr{}
	case e.party.zone.Kind == config.KindSelf:
		return b.ownAddr(of, v6)
	}
	c := b.Hosts[e.machine]
	if c == nil {
		c = b.Clients[e.lan.Name]
	}
	return addrOf(c, v6)
}

// ownAddr is the gateway's address on a LAN.
func (b *Bench) ownAddr(l *LAN, v6 bool) netip.Addr {
	if !v6 {
		return l.Address4.Addr()
	}
	for _, p := range b.Config.Address6(l.Name, b.ula) {
		return p.Addr()
	}
	return netip.Addr{}
}

// askAll asks, in both families, and tells how often it did and what first was
// otherwise.
func (b *Bench) askAll(ctx context.Context, cases []ruleCase) (n int, wrong string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8) // it mostly waits for silence
	for _, c := range cases {
		for _, v6 := range []bool{false, true} {
			q, ok := b.question(ctx, c, v6)
			if !ok {
				continue
			}
			n++
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				if said := q.ask(ctx); said != "" {
					mu.Lock()
					defer mu.Unlock()
					if wrong == "" {
						wrong = said
					}
				}
			})
		}
	}
	wg.Wait()
	return n, wrong
}

// ruleQuestion is a case with its addresses.
type ruleQuestion struct {
	from  *lab.Host
	src   netip.Addr // of the internet's; else any
	to    netip.AddrPort
	proto config.Protocol
	world bool // to is on the internet
	want  lab.Answer
}

// question gives a case its addresses; ok is false where an end has none in the
// family.
func (b *Bench) question(ctx context.Context, c ruleCase, v6 bool) (q ruleQuestion, ok bool) {
	q.proto = c.proto
	src := b.addr(c.from, nil, v6)
	if c.from.line != "" {
		if !has(b.Line(c.from.line), v6) || !src.IsValid() {
			return q, false
		}
		public, err := b.publicAddr(ctx, c.from.line, v6)
		if err != nil {
			return q, false
		}
		q.from, q.src, q.to = b.ISPs[c.from.line].Inet, src, netip.AddrPortFrom(public, c.port)
		in := b.fromOutside(c.from.line, src, c.proto, c.port)
		q.want = in.want
		// A forward has the port, or weir may be there itself: nothing to tell by.
		return q, in.by == nil && !(in.open && slices.Contains(ownPorts[c.proto], c.port))
	}
	dst := b.addr(c.to, c.from.lan, v6)
	if !src.IsValid() || !dst.IsValid() {
		return q, false
	}
	machine := b.Clients[c.from.lan.Name]
	if h := b.Hosts[c.from.machine]; h != nil {
		machine = h
	}
	from, to := c.from.party, c.to.party
	from.addr, to.addr = src, dst
	q.from, q.to, q.world = machine.Host, netip.AddrPortFrom(dst, c.port), c.to.line != ""
	q.want = verdict(b.Config, from, to, c.proto, c.port)
	// DHCP, DNS and ping of the gateway are always there.
	if to.zone.Kind == config.KindSelf && (c.proto == config.ICMP || slices.Contains(ownPorts[c.proto], c.port)) {
		if a, ok := ruled(b.Config, from, to, c.proto, c.port); ok {
			q.want = a
		} else {
			q.want = lab.Answered
		}
		return q, c.proto == config.ICMP
	}
	return q, true
}

// ask asks, and says what is otherwise than it should be.
func (q ruleQuestion) ask(ctx context.Context) string {
	limit := askLimit
	if q.want == lab.Silence {
		limit = silenceLimit
	}
	var got lab.Answer
	var err error
	word := "tcp"
	switch {
	case q.proto == config.ICMP:
		word = "icmp"
		got, err = q.ping(ctx, limit)
	case q.world && q.to.Port() == 53:
		if q.proto == config.UDP {
			word = "udp"
		}
		got, err = q.resolve(ctx, word, limit)
	case q.world && q.to.Port() == 123 && q.proto == config.UDP:
		word, got = "udp", lab.Answered
		if _, _, err = q.from.AskTime(q.src, q.to.Addr(), limit); err != nil {
			got = lab.Silence
			if errors.Is(err, unix.ECONNREFUSED) {
				got = lab.Refused
			}
		}
	case q.proto == config.UDP:
		word = "udp"
		_, got, err = q.from.Ask(ctx, "udp", q.src, q.to, limit)
	default:
		_, got, err = q.from.Ask(ctx, "tcp", q.src, q.to, limit)
	}
	if got == q.want {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s asks %s %s: expected %s, got %s (%v)", q.from, word, q.to, q.want, got, err))
}

// ping asks by an echo; a refusal is as good as silence.
func (q ruleQuestion) ping(ctx context.Context, limit time.Duration) (lab.Answer, error) {
	p, err := q.from.Ping(q.to.Addr(), 100*time.Millisecond)
	if err != nil {
		return "", err
	}
	defer p.Stop()
	if _, ok := p.Answered(ctx, time.Time{}, limit); ok {
		return lab.Answered, nil
	}
	if q.want == lab.Answered {
		return lab.Silence, nil
	}
	return q.want, nil
}

// resolve asks a DNS server, which is no echo server.
func (q ruleQuestion) resolve(ctx context.Context, network string, limit time.Duration) (lab.Answer, error) {
	if network == "tcp" {
		c, err := q.from.Dial(ctx, network, q.src, q.to, limit)
		if err != nil {
			return lab.AnswerOf(err), err
		}
		return lab.Answered, c.Close()
	}
	_, err := q.from.Resolve(ctx, q.to.Addr(), "www.example.com", dns.TypeA, limit)
	switch {
	case err == nil:
		return lab.Answered, nil
	case errors.Is(err, context.DeadlineExceeded):
		return lab.Silence, err
	}
	return lab.AnswerOf(err), err
}

// selfAct asks the gateway itself from a LAN.
func selfAct(l *LAN) Act {
	drill := name("policy", l.Name, "self")
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		about := fmt.Sprintf("what %s may open on the gateway", l.Name)
		self := end{party: party{zone: config.Ref{Kind: config.KindSelf}}}
		from := end{party: party{zone: lanZone(l.Name)}, machine: l.Client, lan: l}
		var cases []ruleCase
		for _, proto := range []config.Protocol{config.TCP, config.UDP} {
			for _, port := range gatewayPorts(b.Config)[proto] {
				cases = append(cases, ruleCase{from, self, proto, port})
			}
		}
		n, wrong := b.askAll(ctx, cases)
		if wrong != "" {
			return []Result{fail(drill, about, "what reach and the rules of the file say", wrong,
				fmt.Sprintf("%s and the rules of the file; `nft list chain inet weir here` on the gateway", place(l.Pos)))}
		}
		return []Result{pass(drill, about, packets("tried", n))}
	}}
}
