package cases

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/lab"
)

// askers ask for one new name each 200 ms, whether the ones before were answered or
// not.
type askers struct {
	h    *house
	stop func()

	mu    sync.Mutex
	at    []time.Time // of answers
	lines map[string]int
}

// askOn asks until it is stopped. ask returns the line whose internet answered the
// n-th question; "" is none.
func (h *house) askOn(ask func(n int) string) *askers {
	a := &askers{h: h, lines: map[string]int{}}
	end := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			asking.Go(func() {
				if line := ask(n); line != "" {
					a.mu.Lock()
					defer a.mu.Unlock()
					a.at = append(a.at, time.Now())
					a.lines[line]++
				}
			})
		}
	})
	a.stop = sync.OnceFunc(func() { close(end); asking.Wait() })
	h.Cleanup(a.stop)
	return a
}

// by is how many were answered by a line's internet.
func (a *askers) by(line string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lines[line]
}

// heldUp ends the asking, and holds the longest time without an answer to that of
// the failover and a second.
func (a *askers) heldUp(failover time.Duration) {
	a.h.Helper()
	a.stop()
	longest := time.Duration(0)
	for i := 1; i < len(a.at); i++ {
		longest = max(longest, a.at[i].Sub(a.at[i-1]))
	}
	a.h.Logf("failover took %v, the longest time without a name was %v", failover, longest)
	if longest > failover+time.Second {
		a.h.Errorf("no name was answered for %v; failover took %v", longest, failover)
	}
}

// overAndBack has the line in use die and come back while names are asked for.
func (h *house) overAndBack(pc *lab.Client, fiber *lab.ISP, ask func(n int) string) {
	h.Helper()
	names := h.askOn(ask)
	h.until("some answers by fiber", 10*time.Second, func() bool { return names.by("fiber") > 10 })
	ping, err := pc.Ping(addr("9.9.9.9"), 20*time.Millisecond)
	h.must(err)
	h.must(fiber.Dark(true))
	h.until("answers by lte", 10*time.Second, func() bool { return names.by("lte") > 10 })
	h.must(fiber.Dark(false))
	n := names.by("fiber")
	h.until("answers by fiber again", 20*time.Second, func() bool { return names.by("fiber") > n+10 })
	names.heldUp(lab.Longest(ping.Stop()).Len())
}

// TestNamesFromTheRootGoOn (B32, c): BIND asks the root and those below it, a new
// name each time, while the line in use dies and comes back.
func TestNamesFromTheRootGoOn(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte, pc, _ := h.fromTheRoot()
		ask := h.txt(pc, func(n int) string { return fmt.Sprintf("n%d.lines.example", n) })
		h.until("names are had from the root on", 20*time.Second, func() bool { return ask(0) == "fiber" })
		h.overAndBack(pc, fiber, ask)
		h.strays(fiber, lte)
	})
}

// txt asks the gateway for the text of the n-th name.
func (h *house) txt(pc *lab.Client, name func(n int) string) func(n int) string {
	return func(n int) string {
		m, err := pc.Resolve(h.Context(), addr("172.31.0.1"), name(n), dns.TypeTXT, 3*time.Second)
		if err != nil || len(m.Answer) != 1 {
			return ""
		}
		txt, ok := m.Answer[0].(*dns.TXT)
		if !ok {
			return ""
		}
		return txt.Txt[0]
	}
}

// TestNamesOverTLSGoOn (B32, d): the upstream is asked over TLS, by a session that is
// kept open. It does not outlive its line: by the other one a new session is begun,
// and again when the line is back.
func TestNamesOverTLSGoOn(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft")
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		cert, authority := certificate(t, "dns.example")
		h.must(os.WriteFile(h.dir+"/authorities", authority, 0o644))
		h.sh(h.gw, "mount --bind "+h.dir+"/authorities /etc/ssl/certs/ca-certificates.crt")
		begun := map[string]*atomic.Int64{"fiber": h.serveTLS(fiber, cert), "lte": h.serveTLS(lte, cert)}
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(unsaidDNS + "\ndns {\n  engine   = \"forward\"\n  upstream = \"tls://9.9.9.9#dns.example\"\n}\n")
		h.untilOutBy(pc, "fiber", 20*time.Second)
		ask := h.txt(pc, func(n int) string { return fmt.Sprintf("n%d.example.net", n) })
		h.until("names are had over TLS", 20*time.Second, func() bool { return ask(0) == "fiber" })
		before := begun["fiber"].Load()
		h.overAndBack(pc, fiber, ask)
		// Some sixty questions: a session that is kept for all of a line's, and some
		// that were begun while nothing came back.
		f, l := begun["fiber"].Load()-before, begun["lte"].Load()
		t.Logf("%d sessions were begun by fiber and %d by lte", f, l)
		if f < 1 || f > 4 || l < 1 || l > 4 {
			h.Errorf("%d sessions were begun by fiber and %d by lte, want one or a few by each", f, l)
		}
		h.strays(fiber, lte)
	})
}

// serveTLS has a line's internet answer DNS over TLS by its name (RFC 7858), and
// counts the sessions.
func (h *house) serveTLS(isp *lab.ISP, cert tls.Certificate) *atomic.Int64 {
	h.Helper()
	var l net.Listener
	h.must(isp.Inet.Do(func() (err error) { l, err = net.Listen("tcp", "9.9.9.9:853"); return err }))
	var begun atomic.Int64
	config := &tls.Config{Certificates: []tls.Certificate{cert}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		begun.Add(1)
		return nil, nil
	}}
	s := &dns.Server{Listener: tls.NewListener(l, config), Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		if q.Question[0].Qtype == dns.TypeTXT {
			m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{isp.Name}}}
		}
		_ = w.WriteMsg(m) // who has gone hears nothing
	})}
	go func() { _ = s.ActivateAndServe() }()
	h.Cleanup(func() { _ = s.Shutdown() })
	return &begun
}

// certificate is one of a server, and the authority that signed it: itself.
func certificate(t *testing.T, name string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
