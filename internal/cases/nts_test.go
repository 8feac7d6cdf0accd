package cases

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

// serveNTS has chronyd serve the time of this machine's clock by a name of the internet, at an
// address, with Network Time Security (RFC 8915).
func (h *house) serveNTS(isp *lab.ISP, name, at string, cert tls.Certificate) {
	h.Helper()
	dir := filepath.Join(h.dir, name)
	h.must(os.Mkdir(dir, 0o755))
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	h.must(err)
	h.must(os.WriteFile(dir+"/key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	h.must(os.WriteFile(dir+"/cert", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o644))
	// What answers NTP at port 123 of the internet is an hour ahead, and not asked.
	h.must(os.WriteFile(dir+"/conf", []byte(strings.NewReplacer("DIR", dir, "AT", at).Replace(`local stratum 1
allow all
bindaddress AT
port 11123
ntsserverkey DIR/key
ntsservercert DIR/cert
cmdport 0
bindcmdaddress /
pidfile DIR/pid
`)), 0o644))
	h.Name(name, addr(at))
	h.serve(isp.Inet, "chronyd", "-d", "-x", "-u", "root", "-f", dir+"/conf")
}

// TestNTS: the time is had from a server that proves that it is the one the file names, and not
// from one that can't, nor by plain NTP in its place.
func TestNTS(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "chronyd")
		fiber := h.connect(fiberLine())
		right, authority := certificate(t, "right.example")
		wrong, _ := certificate(t, "wrong.example") // of an authority that nobody believes
		h.serveNTS(fiber, "right.example", "198.18.7.1", right)
		h.serveNTS(fiber, "wrong.example", "198.18.7.2", wrong)
		h.must(os.WriteFile(h.dir+"/authorities", authority, 0o644))
		h.sh(h.gw, "mount --bind "+h.dir+"/authorities /etc/ssl/certs/ca-certificates.crt")
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(unsaidDNS + "\ntime { server = [\"nts://right.example\", \"nts://wrong.example\"] }\n")
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("the time is served", 60*time.Second, func() bool {
			d, ok := h.ahead(pc.Host, "172.31.0.1")
			return ok && d.Abs() < exact
		})
		h.until("the one that proves nothing is left out", 60*time.Second, func() bool {
			for _, s := range h.status().Time.Sources {
				if s.Name == "wrong.example" {
					return s.State == "unreachable" && s.Reach == 0
				}
			}
			return false
		})
		for _, s := range h.status().Time.Sources {
			if good := s.State == "selected"; good != (s.Name == "right.example") {
				h.Errorf("source %+v", s)
			}
		}
		if n := h.Clock.Asked(fiber.Inet, addr("198.18.7.1")) + h.Clock.Asked(fiber.Inet, addr("198.18.7.2")); n > 0 {
			h.Errorf("plain NTP was asked %d times", n)
		}
		h.strays(fiber)
	})
}
