package dns

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// served is a service whose only upstream does do.
func served(t *testing.T, do func(context.Context, *dns.Msg) (*dns.Msg, error)) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := newService(ctx, slog.New(slog.DiscardHandler))
	s.fwd.exchange = func(ctx context.Context, _ Upstream, m *dns.Msg) (*dns.Msg, error) { return do(ctx, m) }
	c := house()
	c.Clients = prefixes("fe80::/10", "172.31.0.0/24", "fd00::/64")
	c.Upstreams = []Upstream{{Server: Server{Addr: netip.MustParseAddrPort("192.0.2.53:53")}}}
	s.configure(c, time.Unix(1e9, 0))
	t.Cleanup(func() { cancel(); s.fwd.wg.Wait() })
	return s
}

// serveOne is a message's whole way, as one call.
func (s *service) serveOne(wire []byte, client string, tcp bool) []byte {
	reply, finish := s.begin(wire, netip.MustParseAddr(client), tcp)
	if finish != nil {
		reply = finish(context.Background())
	}
	return reply
}

func packed(t *testing.T, m *dns.Msg) []byte {
	t.Helper()
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func unpacked(t *testing.T, wire []byte) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatalf("%v in %x", err, wire)
	}
	return m
}

func query(name string, rrtype uint16) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, rrtype)
	m.Id = 4711
	return m
}

func TestServe(t *testing.T) {
	s := served(t, func(_ context.Context, m *dns.Msg) (*dns.Msg, error) {
		r := new(dns.Msg).SetReply(m)
		r.AuthenticatedData, r.Authoritative, r.RecursionAvailable = true, true, true
		if strings.HasPrefix(m.Question[0].Name, "bad.") {
			r.Rcode = dns.RcodeServerFailure
			r.SetEdns0(1232, false)
			r.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeSignatureExpired, ExtraText: "x"}}
			return r, nil
		}
		r.Answer = []dns.RR{addrRR(m.Question[0].Name, netip.MustParseAddr("192.0.2.1"))}
		return r, nil
	})
	const lan, outside = "172.31.0.50", "198.51.100.7"
	for _, c := range []struct {
		what, from string
		q          *dns.Msg
		change     func(*dns.Msg)
		want       string // code, flags, answer, OPT
	}{
		{"a local name", lan, query("nas.local.", dns.TypeA), nil, "NOERROR aa ra nas.local.=172.31.0.23"},
		{"an outside name", lan, query("www.example.", dns.TypeA), nil, "NOERROR ra www.example.=192.0.2.1"},
		{"spelt its own way, also from the cache", lan, query("wWw.Example.", dns.TypeA), nil, "NOERROR ra wWw.Example.=192.0.2.1"},
		{"who asks for AD", lan, query("www.example.", dns.TypeA), func(m *dns.Msg) { m.AuthenticatedData = true }, "NOERROR ra ad www.example.=192.0.2.1"},
		{"DO, which also is AD", lan, query("do.example.", dns.TypeA), func(m *dns.Msg) { m.SetEdns0(4096, true) }, "NOERROR ra ad do.example.=192.0.2.1 opt(1232 do)"},
		{"EDNS in, EDNS out", lan, query("nas.local.", dns.TypeA), func(m *dns.Msg) { m.SetEdns0(512, false) }, "NOERROR aa ra nas.local.=172.31.0.23 opt(1232)"},
		{"a later EDNS", lan, query("nas.local.", dns.TypeA), func(m *dns.Msg) { m.SetEdns0(512, false); m.IsEdns0().SetVersion(1) }, "BADVERS ra opt(1232)"},
		{"an upstream's reason", lan, query("bad.example.", dns.TypeA), func(m *dns.Msg) { m.SetEdns0(1232, false) }, "SERVFAIL ra opt(1232 ede7)"},
		{"over loopback", "::1", query("www.example.", dns.TypeA), nil, "NOERROR ra www.example.=192.0.2.1"},
		{"from a link-local address", "fe80::1", query("nas.local.", dns.TypeA), nil, "NOERROR aa ra nas.local.=172.31.0.23"},
		{"from IPv4 in IPv6", "::ffff:172.31.0.9", query("nas.local.", dns.TypeA), nil, "NOERROR aa ra nas.local.=172.31.0.23"},
		{"from outside", outside, query("nas.local.", dns.TypeA), nil, "REFUSED ra"},
		{"from outside, cached", outside, query("www.example.", dns.TypeA), func(m *dns.Msg) { m.SetEdns0(1232, false) }, "REFUSED ra opt(1232 ede18)"},
		{"no recursion wanted", lan, query("www.other.example.", dns.TypeA), func(m *dns.Msg) { m.RecursionDesired = false }, "REFUSED ra"},
		{"a transfer", lan, query("local.", dns.TypeAXFR), nil, "REFUSED ra"},
		{"our version", lan, query("version.bind.", dns.TypeTXT), func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, "REFUSED ra"},
		{"everything", lan, query("nas.local.", dns.TypeANY), nil, "NOERROR ra nas.local.=HINFO"},
		{"an update", lan, query("nas.local.", dns.TypeSOA), func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, "NOTIMP ra"},
		{"two questions", lan, query("nas.local.", dns.TypeA), func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, "FORMERR ra"},
		{"an answer", lan, query("nas.local.", dns.TypeA), func(m *dns.Msg) { m.Response = true }, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.change != nil {
				c.change(c.q)
			}
			wire := s.serveOne(packed(t, c.q), c.from, false)
			if c.want == "" {
				if wire != nil {
					t.Errorf("answered: %v", unpacked(t, wire))
				}
				return
			}
			r := unpacked(t, wire)
			if r.Id != 4711 || !r.Response {
				t.Errorf("number %d, response %t", r.Id, r.Response)
			}
			if got := summary(r); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func summary(r *dns.Msg) string {
	w := []string{dns.RcodeToString[r.Rcode]}
	if r.Rcode == dns.RcodeBadVers {
		w[0] = "BADVERS"
	}
	if r.Authoritative {
		w = append(w, "aa")
	}
	if r.RecursionAvailable {
		w = append(w, "ra")
	}
	if r.AuthenticatedData {
		w = append(w, "ad")
	}
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			w = append(w, rr.Hdr.Name+"="+rr.A.String())
		default:
			w = append(w, rr.Header().Name+"="+dns.TypeToString[rr.Header().Rrtype])
		}
	}
	if o := r.IsEdns0(); o != nil {
		s := fmt.Sprintf("opt(%d", o.UDPSize())
		if o.Do() {
			s += " do"
		}
		for _, e := range o.Option {
			if e, ok := e.(*dns.EDNS0_EDE); ok {
				s += fmt.Sprintf(" ede%d", e.InfoCode)
			}
		}
		w = append(w, s+")")
	}
	return strings.Join(w, " ")
}

// TestServeSizes: no UDP answer is larger than the client takes, and none larger
// than passes everywhere; TCP has it all.
func TestServeSizes(t *testing.T) {
	s := served(t, func(_ context.Context, m *dns.Msg) (*dns.Msg, error) {
		r := new(dns.Msg).SetReply(m)
		for i := range 200 {
			r.Answer = append(r.Answer, addrRR(m.Question[0].Name, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})))
		}
		return r, nil
	})
	for _, c := range []struct {
		edns uint16
		tcp  bool
		most int
		tc   bool
	}{{0, false, 512, true}, {100, false, 512, true}, {900, false, 900, true}, {65535, false, 1232, true}, {0, true, 65535, false}, {512, true, 65535, false}} {
		q := query("many.example.", dns.TypeA)
		if c.edns > 0 {
			q.SetEdns0(c.edns, false)
		}
		wire := s.serveOne(packed(t, q), "172.31.0.50", c.tcp)
		r := unpacked(t, wire)
		if len(wire) > c.most || r.Truncated != c.tc || len(wire) < c.most*9/10 && c.tc || !c.tc && len(r.Answer) != 200 {
			t.Errorf("EDNS %d, TCP %t: %d bytes, TC %t, %d records", c.edns, c.tcp, len(wire), r.Truncated, len(r.Answer))
		}
	}
}

// TestServeIsFairInAFlood: one client that floods gets its share and no more,
// while another is served.
func TestServeIsFairInAFlood(t *testing.T) {
	release := make(chan struct{})
	s := served(t, func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
		if strings.HasPrefix(m.Question[0].Name, "flood") {
			<-release
		}
		return with(m, "192.0.2.1"), nil
	})
	defer close(release)
	taken := 0
	for i := range 3 * maxWaitingClient {
		reply, finish := s.begin(packed(t, query(fmt.Sprintf("flood%d.example.", i), dns.TypeA)), netip.MustParseAddr("172.31.0.66"), false)
		if reply != nil {
			t.Fatal("answered")
		}
		if finish != nil {
			taken++
		}
	}
	if taken != maxWaitingClient || s.dropped.Load() != 2*maxWaitingClient {
		t.Errorf("%d taken, %d dropped", taken, s.dropped.Load())
	}
	if r := unpacked(t, s.serveOne(packed(t, query("www.example.", dns.TypeA)), "172.31.0.50", false)); len(r.Answer) != 1 {
		t.Errorf("the other client: %v", r)
	}
	if r := unpacked(t, s.serveOne(packed(t, query("nas.local.", dns.TypeA)), "172.31.0.66", false)); len(r.Answer) != 1 {
		t.Errorf("the flooding client, a local name: %v", r)
	}
}

// FuzzServe: whatever comes, the answer is small, well formed and to the sender.
func FuzzServe(f *testing.F) {
	for _, m := range []*dns.Msg{query("nas.local.", dns.TypeA), query("www.example.", dns.TypeHTTPS), query(".", dns.TypeNS), query("local.", dns.TypeAXFR)} {
		wire, _ := m.Pack()
		f.Add(wire)
		m.SetEdns0(4096, true)
		wire, _ = m.Pack()
		f.Add(wire)
		f.Add(wire[:len(wire)-3])
		wire[2] |= 0x80
		f.Add(wire)
	}
	f.Add([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01")) // a name that points at itself
	f.Add([]byte("\x12\x34\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		s := &service{asked: NewRecorder(func([]Asked) {}), log: slog.New(slog.DiscardHandler), fwd: newForwarder(context.Background(), slog.New(slog.DiscardHandler)), waiting: quota{max: 1, each: 1}}
		z := NewZone(house(), 1)
		s.zone.Store(z)
		s.lists.Store(new(lists))
		all := prefixes("0.0.0.0/0")
		s.from.Store(&all)
		reply := s.serveOne(wire, "192.0.2.1", false)
		if reply == nil {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(reply); err != nil {
			t.Fatalf("an answer that cannot be read: %v: %x", err, reply)
		}
		if len(reply) > udpSize || !m.Response || reply[0] != wire[0] || reply[1] != wire[1] {
			t.Errorf("%d bytes, response %t", len(reply), m.Response)
		}
	})
}

// FuzzUpstream: whatever an upstream's message holds, the client's answer can
// be packed, and never points into the house.
func FuzzUpstream(f *testing.F) {
	for _, rr := range []string{"x.test. 60 IN A 172.31.0.23", "x.test. 60 IN HTTPS 1 . ipv4hint=172.31.0.23", "x.test. 60 IN CNAME y.test.", "x.test. 5 IN TYPE65280 \\# 3 010203"} {
		m := new(dns.Msg).SetQuestion("x.test.", dns.TypeA)
		r, err := dns.NewRR(rr)
		if err != nil {
			f.Fatal(err)
		}
		m.Answer = []dns.RR{r}
		wire, _ := m.Pack()
		f.Add(wire)
	}
	z := NewZone(house(), 1)
	f.Fuzz(func(t *testing.T, wire []byte) {
		m := new(dns.Msg)
		if m.Unpack(wire) != nil || !sound(m) {
			return
		}
		if _, _, inside := z.pointsInside(m); inside {
			return
		}
		c := newCache(1 << 20)
		k := a("x.test.")
		c.put(time.Unix(0, 0), k, m, nil)
		s := &service{asked: NewRecorder(func([]Asked) {}), log: slog.New(slog.DiscardHandler)}
		m.Response = true
		reply := s.answer(request{Msg: query("x.test.", dns.TypeA), size: 512}, outcome{msg: m})
		r := new(dns.Msg)
		if err := r.Unpack(reply); err != nil {
			t.Fatalf("%v: %x", err, reply)
		}
		if _, a, inside := z.pointsInside(r); inside {
			t.Errorf("%s came through", a)
		}
	})
}
