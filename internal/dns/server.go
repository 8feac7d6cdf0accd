package dns

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// The bounds of what clients may have us do at once.
const (
	maxWaiting       = 1024 // questions that wait for an answer from outside
	maxWaitingClient = 128  // of them one client's
)

// service answers questions: the house's own by Zone, the rest by the forwarder.
type service struct {
	log   *slog.Logger
	fwd   *forwarder
	zone  atomic.Pointer[Zone]
	from  atomic.Pointer[[]netip.Prefix] // clients
	lists atomic.Pointer[lists]

	queries, fromCache, refused, dropped, rebinding, blocked atomic.Uint64

	waiting quota // questions
	conns   quota // TCP connections

	complaints complaints
	asked      *Recorder
}

func newService(ctx context.Context, log *slog.Logger) *service {
	s := &service{
		log:     log,
		fwd:     newForwarder(ctx, log),
		waiting: quota{max: maxWaiting, each: maxWaitingClient},
		conns:   quota{max: maxConns, each: maxConnsClient},
		asked:   NewRecorder(func([]Asked) {}),
	}
	s.fwd.pointsInside = s.pointsInside
	s.zone.Store(NewZone(Config{Gateway: "gw", Domain: "home.arpa"}, 1))
	s.from.Store(new([]netip.Prefix))
	s.lists.Store(new(lists))
	return s
}

// configure takes a configuration over.
func (s *service) configure(c Config, now time.Time) {
	z := NewZone(c, uint32(now.Unix()))
	if old := s.zone.Swap(z); !slices.Equal(old.private, z.private) {
		s.fwd.forget() // what is kept was judged by other domains
	}
	s.from.Store(&c.Clients)
	s.takeLists(c.Lists)
	s.asked.Record(c.Log)
	s.fwd.use(c.Upstreams, c.Via)
}

// allowed tells whether a client is served.
func (s *service) allowed(client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	if client.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(*s.from.Load(), func(p netip.Prefix) bool { return p.Contains(client) })
}

// request is a client's question on its way through.
type request struct {
	*dns.Msg
	client netip.Addr
	size   int // the largest answer it takes
}

// begin reads a message from a client. reply is the answer, if it can be given
// at once; else finish gives it. Both are nil for what deserves no answer.
func (s *service) begin(wire []byte, client netip.Addr, tcp bool) (reply []byte, finish func(context.Context) []byte) {
	if len(wire) < 12 || wire[2]&0x80 != 0 { // no header, or an answer: never answered (RFC 5358's loops)
		return nil, nil
	}
	s.queries.Add(1)
	r := request{Msg: new(dns.Msg), client: client, size: dns.MinMsgSize}
	if err := r.Unpack(wire); err != nil || len(r.Question) != 1 {
		head := new(dns.Msg)
		head.Id, head.Opcode, head.RecursionDesired = uint16(wire[0])<<8|uint16(wire[1]), int(wire[2]>>3&0xf), wire[2]&1 == 1
		r.Msg = head
		if !s.allowed(client) {
			return s.answer(r, answerCode(dns.RcodeRefused)), nil
		}
		return s.answer(r, answerCode(dns.RcodeFormatError)), nil
	}
	opt := r.IsEdns0()
	if opt != nil {
		r.size = min(max(int(opt.UDPSize()), dns.MinMsgSize), udpSize)
	}
	if tcp {
		r.size = dns.MaxMsgSize
	}
	q := r.Question[0]
	switch {
	case !s.allowed(client):
		s.refused.Add(1)
		return s.answer(r, outcome{msg: code(dns.RcodeRefused), ede: &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited}}), nil
	case opt != nil && opt.Version() != 0:
		return s.answer(r, answerCode(dns.RcodeBadVers)), nil
	case r.Opcode != dns.OpcodeQuery:
		return s.answer(r, answerCode(dns.RcodeNotImplemented)), nil
	case q.Qclass != dns.ClassINET, q.Qtype == dns.TypeAXFR, q.Qtype == dns.TypeIXFR, q.Qtype == dns.TypeOPT,
		q.Qtype == dns.TypeMAILA, q.Qtype == dns.TypeMAILB, q.Qtype == dns.TypeTKEY, q.Qtype == dns.TypeTSIG:
		return s.answer(r, answerCode(dns.RcodeRefused)), nil
	case q.Qtype == dns.TypeANY:
		m := code(dns.RcodeSuccess)
		m.Answer = []dns.RR{&dns.HINFO{Hdr: header(q.Name, dns.TypeHINFO, 3600), Cpu: "RFC8482"}}
		return s.answer(r, outcome{msg: m}), nil
	}
	if a, ok := s.zone.Load().Answer(q, client); ok {
		m := code(a.Rcode)
		m.Authoritative, m.Answer, m.Ns = true, a.Answer, a.Ns
		return s.answer(r, outcome{msg: m}), nil
	}
	if !r.RecursionDesired {
		return s.answer(r, answerCode(dns.RcodeRefused)), nil
	}
	if list, yes := s.lists.Load().blocking(client, q.Name); yes {
		s.blocked.Add(1)
		return s.answer(r, blocked(q.Name, list)), nil
	}
	k := key{name: dns.CanonicalName(q.Name), rrtype: q.Qtype, class: q.Qclass, do: opt != nil && opt.Do(), cd: r.CheckingDisabled}
	if out, ok := s.fwd.cached(k); ok {
		s.fromCache.Add(1)
		return s.answer(r, s.filtered(client, q.Name, out)), nil
	}
	if !s.waiting.enter(client) {
		s.dropped.Add(1)
		return nil, nil
	}
	return nil, func(ctx context.Context) []byte {
		defer s.waiting.leave(client)
		out, err := s.fwd.resolve(ctx, k)
		if err != nil {
			s.dropped.Add(1)
			return nil
		}
		out.msg = out.msg.Copy() // others wait for the same
		return s.answer(r, s.filtered(client, q.Name, out))
	}
}

// code is an empty answer.
func code(rcode int) *dns.Msg {
	m := new(dns.Msg)
	m.Rcode = rcode
	return m
}

func answerCode(rcode int) outcome { return outcome{msg: code(rcode)} }

// answer packs an answer for its client: with the client's number, spelling and
// flags, an OPT record if the client sent one (RFC 6891, 6.1.1), and cut to what
// it takes. It changes out.msg. nil if the answer cannot be packed, which only an
// upstream's nonsense can bring about.
func (s *service) answer(r request, out outcome) []byte {
	m := out.msg
	opt := r.IsEdns0()
	if len(r.Question) == 1 {
		s.asked.Add(Asked{
			At: time.Now(), Client: r.client.Unmap().WithZone(""), Name: r.Question[0].Name,
			Type: dns.TypeToString[r.Question[0].Qtype], Answer: out.said(),
		})
	}
	do := opt != nil && opt.Do()
	ad := m.AuthenticatedData && (r.AuthenticatedData || do) // RFC 6840, 5.8
	aa := m.Authoritative && !m.Response                     // ours; an upstream's is not passed on
	rcode := m.Rcode
	m.MsgHdr = dns.MsgHdr{
		Id: r.Id, Response: true, Opcode: r.Opcode, Authoritative: aa, RecursionDesired: r.RecursionDesired,
		RecursionAvailable: true, AuthenticatedData: ad, CheckingDisabled: r.CheckingDisabled, Rcode: rcode,
	}
	m.Question = r.Question
	m.Extra = withoutOPT(m.Extra)
	if len(r.Question) == 1 {
		lowerQuestion(m, r.Question[0].Name)
	}
	if opt != nil {
		o := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		o.SetUDPSize(udpSize)
		if do {
			o.SetDo()
		}
		if out.ede != nil {
			o.Option = append(o.Option, &dns.EDNS0_EDE{InfoCode: out.ede.InfoCode, ExtraText: out.ede.ExtraText})
		}
		m.Extra = append(m.Extra, o)
	}
	m.Truncate(r.size)
	wire, err := m.Pack()
	if err != nil {
		s.log.Debug("answer cannot be packed", "err", err)
		m.Answer, m.Ns, m.Extra, m.Rcode = nil, nil, nil, dns.RcodeServerFailure
		if wire, err = m.Pack(); err != nil {
			return nil
		}
	}
	return wire
}

// pointsInside judges an answer from outside, and tells the owner of a bad one.
func (s *service) pointsInside(m *dns.Msg) (reason string, yes bool) {
	name, addr, yes := s.zone.Load().pointsInside(m)
	if !yes {
		return "", false
	}
	s.rebinding.Add(1)
	if s.complaints.worth(name, time.Now()) {
		s.log.Warn("dns answer dropped: a name from outside points into the house", "name", m.Question[0].Name, "addr", addr,
			"rule", "rebinding protection", "remedy", fmt.Sprintf("if that is meant so: dns { private_domain = %q }", owner(name)))
	}
	return "rebinding protection: " + addr.String() + " is an inside address", true
}

// quota bounds what clients have at once, all together and each.
type quota struct {
	max, each int

	mu    sync.Mutex
	has   map[netip.Addr]int
	total int
}

func (q *quota) enter(client netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total >= q.max || q.has[client] >= q.each {
		return false
	}
	if q.has == nil {
		q.has = map[netip.Addr]int{}
	}
	q.total++
	q.has[client]++
	return true
}

func (q *quota) leave(client netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.has[client]--; q.has[client] == 0 {
		delete(q.has, client)
	}
}

// complaints says which names were complained of lately: each once in ten
// minutes, and all together not more than thirty.
type complaints struct {
	mu   sync.Mutex
	told map[string]time.Time
}

func (c *complaints) worth(name string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, t := range c.told {
		if now.Sub(t) > 10*time.Minute {
			delete(c.told, n)
		}
	}
	if _, ok := c.told[name]; ok || len(c.told) >= 30 {
		return false
	}
	if c.told == nil {
		c.told = map[string]time.Time{}
	}
	c.told[name] = now
	return true
}
