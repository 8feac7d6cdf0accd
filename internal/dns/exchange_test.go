package dns

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/netns/netnstest"
)

// upstreamAt serves UDP and TCP on one loopback port until the test ends. udp
// says what to send for a question, each a message; tcp the one answer.
func upstreamAt(t *testing.T, udp func(*dns.Msg) []*dns.Msg, tcp func(*dns.Msg) *dns.Msg) Server {
	t.Helper()
	netnstest.Need(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); u.Close(); wg.Wait() })
	wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := u.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			for _, r := range udp(q) {
				wire, _ := r.Pack()
				_, _ = u.WriteToUDPAddrPort(wire, from)
			}
		}
	})
	wg.Go(func() { serveStream(l, tcp) })
	return Server{Addr: at}
}

// serveStream answers each connection's questions; nil ends the connection.
func serveStream(l net.Listener, do func(*dns.Msg) *dns.Msg) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var n [2]byte
			for {
				if _, err := io.ReadFull(c, n[:]); err != nil {
					return
				}
				b := make([]byte, binary.BigEndian.Uint16(n[:]))
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				q := new(dns.Msg)
				if q.Unpack(b) != nil {
					return
				}
				r := do(q)
				if r == nil {
					return
				}
				wire, _ := r.Pack()
				_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...))
			}
		}()
	}
}

func with(q *dns.Msg, addr string) *dns.Msg {
	r := new(dns.Msg).SetReply(q)
	r.Answer = []dns.RR{addrRR(q.Question[0].Name, netip.MustParseAddr(addr))}
	return r
}

func ask(t *testing.T, x *exchanger, s Server, k key) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	m, err := x.exchange(ctx, Upstream{Server: s}, question(k))
	if err != nil {
		return "error: " + err.Error()
	}
	if len(m.Answer) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	if n := m.Answer[0].Header().Name; n != k.name {
		return "name " + n
	}
	return m.Answer[0].(*dns.A).A.String()
}

func TestExchangeTakesOnlyItsAnswer(t *testing.T) {
	k := a("www.example.")
	tcp := func(q *dns.Msg) *dns.Msg { return with(q, "192.0.2.99") }
	change := func(r *dns.Msg, f func(*dns.Msg)) *dns.Msg { f(r); return r }
	for _, c := range []struct {
		what, want string
		udp        func(*dns.Msg) []*dns.Msg
	}{
		{"the plain case", "192.0.2.1", func(q *dns.Msg) []*dns.Msg { return []*dns.Msg{with(q, "192.0.2.1")} }},
		{"forged ones before it", "192.0.2.1", func(q *dns.Msg) []*dns.Msg {
			return []*dns.Msg{
				change(with(q, "192.0.2.6"), func(m *dns.Msg) { m.Id++ }),
				change(with(q, "192.0.2.6"), func(m *dns.Msg) { m.Response = false }),
				change(with(q, "192.0.2.6"), func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }),
				change(with(q, "192.0.2.6"), func(m *dns.Msg) { m.Question[0].Name = "evil.example." }),
				change(with(q, "192.0.2.6"), func(m *dns.Msg) { m.Question = nil }),
				with(q, "192.0.2.1"),
			}
		}},
		{"a flood of guesses: by TCP", "192.0.2.99", func(q *dns.Msg) (ms []*dns.Msg) {
			for i := range maxStray {
				ms = append(ms, change(with(q, "192.0.2.6"), func(m *dns.Msg) { m.Id += uint16(i + 1) }))
			}
			return ms
		}},
		{"the spelling is not kept: by TCP", "192.0.2.99", func(q *dns.Msg) []*dns.Msg {
			r := with(q, "192.0.2.1")
			r.Question[0].Name = strings.Map(func(c rune) rune { // each letter the other way round
				if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
					return c ^ 0x20
				}
				return c
			}, r.Question[0].Name)
			return []*dns.Msg{r}
		}},
		{"truncated: by TCP", "192.0.2.99", func(q *dns.Msg) []*dns.Msg {
			return []*dns.Msg{change(new(dns.Msg).SetReply(q), func(m *dns.Msg) { m.Truncated = true })}
		}},
		{"a server from before EDNS", "192.0.2.1", func(q *dns.Msg) []*dns.Msg {
			if q.IsEdns0() != nil {
				r := new(dns.Msg).SetRcode(q, dns.RcodeFormatError)
				return []*dns.Msg{r}
			}
			return []*dns.Msg{with(q, "192.0.2.1")}
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := upstreamAt(t, c.udp, tcp)
			x := &exchanger{sessions: newSessions(nil)}
			defer x.sessions.closeAll()
			if got := ask(t, x, s, k); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestExchangeIsHardToGuess: port, number and spelling differ from question to
// question.
func TestExchangeIsHardToGuess(t *testing.T) {
	var mu sync.Mutex
	ids, names := map[uint16]bool{}, map[string]bool{}
	s := upstreamAt(t, func(q *dns.Msg) []*dns.Msg {
		mu.Lock()
		defer mu.Unlock()
		ids[q.Id], names[q.Question[0].Name] = true, true
		return []*dns.Msg{with(q, "192.0.2.1")}
	}, func(*dns.Msg) *dns.Msg { return nil })
	x := &exchanger{sessions: newSessions(nil)}
	for range 50 {
		if got := ask(t, x, s, a("a-rather-long-name.example.")); got != "192.0.2.1" {
			t.Fatal(got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) < 45 || len(names) < 45 {
		t.Errorf("%d numbers and %d spellings in 50 questions", len(ids), len(names))
	}
}

// TestSessionIsSharedAndReplaced: questions share a connection, do not wait for
// each other, and a connection that the server ended meanwhile costs nothing.
func TestSessionIsSharedAndReplaced(t *testing.T) {
	netnstest.Need(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	counted := &counter{Listener: l}
	go serveStream(counted, func(q *dns.Msg) *dns.Msg {
		if strings.HasPrefix(q.Question[0].Name, "end.") {
			return nil
		}
		return with(q, "192.0.2.1")
	})
	ss := newSessions(nil)
	defer ss.closeAll()
	s := Server{Addr: l.Addr().(*net.TCPAddr).AddrPort()}
	do := func(name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := ss.exchange(ctx, s, question(a(name)))
		return err
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := do("www.example."); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := counted.n.Load(); n != 1 {
		t.Errorf("%d connections for 50 questions", n)
	}
	if err := do("end.example."); err == nil {
		t.Error("a question whose connection ends, twice, has an answer")
	}
	if err := do("www.example."); err != nil {
		t.Errorf("after the server's end: %v", err)
	}
}

type counter struct {
	net.Listener
	n atomic.Int32
}

func (c *counter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

// TestTLS: the certificate must be for the name in the file, the question is
// padded, and there is no way around TLS.
func TestTLS(t *testing.T) {
	netnstest.Need(t)
	cert, roots := certificate(t, "dns.example")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go serveStream(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"dot"}}), func(q *dns.Msg) *dns.Msg {
		if q.Len()%128 != 0 {
			return new(dns.Msg).SetRcode(q, dns.RcodeRefused)
		}
		return with(q, "192.0.2.1")
	})
	s := Server{Addr: l.Addr().(*net.TCPAddr).AddrPort(), TLS: true, Name: "dns.example"}
	x := &exchanger{sessions: newSessions(roots)}
	defer x.sessions.closeAll()
	for range 2 {
		if got := ask(t, x, s, a("www.example.")); got != "192.0.2.1" {
			t.Error(got)
		}
	}
	s.Name = "other.example"
	if got := ask(t, x, s, a("www.example.")); !strings.Contains(got, "not other.example") {
		t.Errorf("a certificate for another name: %s", got)
	}
	strict := &exchanger{sessions: newSessions(x509.NewCertPool())}
	s.Name = "dns.example"
	if got := ask(t, strict, s, a("www.example.")); !strings.Contains(got, "unknown authority") {
		t.Errorf("a certificate that nobody signed: %s", got)
	}
}

func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	pub, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &pub.PublicKey, pub)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: pub}, roots
}

// TestSessionThatIsSilentEnds: a peer that is gone without a word is found out
// by the first question's time, and the next question starts anew.
func TestSessionThatIsSilentEnds(t *testing.T) {
	netnstest.Need(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ss := newSessions(nil)
	s := Server{Addr: l.Addr().(*net.TCPAddr).AddrPort()}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := ss.exchange(ctx, s, question(a("www.example."))); err == nil {
		t.Fatal("an answer from nobody")
	}
	go serveStream(l, func(q *dns.Msg) *dns.Msg { // the old connection is first in the queue, and closed
		return with(q, "192.0.2.1")
	})
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := ss.exchange(ctx, s, question(a("www.example."))); err != nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("the next question: %v", err)
	}
	ss.closeAll()
}

// TestAnswerCutShort: a record whose data ends before its type's does can be read, and what is written
// of it no client could read: such an answer is none.
func TestAnswerCutShort(t *testing.T) {
	q := new(dns.Msg).SetQuestion("x.test.", dns.TypeNSEC3)
	r := new(dns.Msg).SetReply(q)
	r.Answer = []dns.RR{&dns.RFC3597{Hdr: dns.RR_Header{Name: "x.test.", Rrtype: dns.TypeNSEC3, Class: dns.ClassINET, Ttl: 60}, Rdata: "0100000a30"}} // a salt of 48 bytes, and none of them
	wire, err := r.Pack()
	if err != nil {
		t.Fatal(err)
	}
	got := new(dns.Msg)
	if err := got.Unpack(wire); err != nil {
		t.Fatal(err)
	}
	if belongs(got, q) {
		t.Errorf("taken: %v", got)
	}
	if r.Answer = nil; !belongs(r, q) {
		t.Error("an empty answer is not taken")
	}
}
