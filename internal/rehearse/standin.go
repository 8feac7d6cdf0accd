package rehearse

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"weir/internal/config"
)

// What of the user's is elsewhere, and has no place in a lab or can't be had there: lists that
// are fetched from the internet, and the secrets of keys. Something of the lab's
// stands in for it, and the report says so.

// A sheet is what stands in for a list at a URL: one name.
type sheet struct {
	url  *url.URL
	name string
}

// sheets stand in for all sources of the file's lists that are URLs, by these.
func sheets(lists []config.BlockList) map[string]sheet {
	out := map[string]sheet{}
	for _, l := range lists {
		for _, s := range l.Source {
			u, err := url.Parse(s)
			if _, is := out[s]; is || err != nil || u.Host == "" {
				continue
			}
			out[s] = sheet{u, fmt.Sprintf("name-%d.rehearsed.example", len(out)+1)}
		}
	}
	return out
}

// port is the server's.
func (s sheet) port() uint16 {
	if p, err := strconv.ParseUint(s.url.Port(), 10, 16); err == nil {
		return uint16(p)
	}
	if s.url.Scheme == "https" {
		return 443
	}
	return 80
}

// caFile has the authority that the lab's web servers are known by, for the gateway.
const caFile = "/run/lab/authority.pem"

// serveSheets has the internet serve what stands in for lists, each where the file
// says that it is, known by an authority of the lab's own where it is https.
func (b *Bench) serveSheets() error {
	all := sheets(b.Config.DNS.BlockLists)
	if len(all) == 0 {
		return nil
	}
	pages := map[string]string{}         // by URL
	servers := map[netip.AddrPort]bool{} // and whether by TLS
	addrs := map[string][]netip.Addr{}   // of the servers, by name
	var ports []uint16
	for _, s := range all {
		host := s.url.Hostname()
		if a, err := netip.ParseAddr(host); err == nil {
			addrs[host] = []netip.Addr{a}
		} else if addrs[host] == nil {
			n := byte(len(addrs) + 1)
			addrs[host] = []netip.Addr{netip.AddrFrom4([4]byte{198, 18, 80, n}), netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0x80, 15: n})}
			b.Lab.Name(host, addrs[host]...)
		}
		p := s.port()
		for _, a := range addrs[host] {
			servers[netip.AddrPortFrom(a, p)] = s.url.Scheme == "https"
		}
		pages[s.url.Scheme+"://"+s.url.Host+s.url.RequestURI()] = s.name
		if p != 80 && p != 443 && !b.serving[fmt.Sprintf("tcp %d", p)] && !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	for _, isp := range b.ISPs {
		if err := isp.Inet.ServeEcho(ports, nil); err != nil {
			return err
		}
	}
	cert, authority, err := certificate(addrs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(caFile), 0o711); err != nil {
		return err
	}
	if err := os.WriteFile(caFile, authority, 0o644); err != nil {
		return err
	}
	for at, byTLS := range servers {
		scheme, own := "http", (*tls.Certificate)(nil)
		if byTLS {
			scheme, own = "https", &cert
		}
		b.Lab.Website(at, own, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, ok := pages[scheme+"://"+r.Host+r.URL.RequestURI()]
			if !ok {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, "0.0.0.0 "+name+"\n") // who has gone hears nothing
		}))
	}
	return nil
}

// certificate is one of servers with these names, and the authority that signed it: itself.
func certificate(servers map[string][]netip.Addr) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(72 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for name := range servers {
		if a, err := netip.ParseAddr(name); err == nil {
			c.IPAddresses = append(c.IPAddresses, a.AsSlice())
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// secretDir has the secrets that stand in for the user's.
const secretDir = "/run/lab/secrets"

// ownSecrets are the user's files with keys whose secrets are the lab's own.
func ownSecrets(files []config.File, keys []config.Key) ([]config.File, error) {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k config.Key) bool { return k.Secret == "" })
	if len(keys) == 0 {
		return files, nil
	}
	if err := os.MkdirAll(secretDir, 0o700); err != nil {
		return nil, err
	}
	out := slices.Clone(files)
	for i, f := range out {
		w, diags := hclwrite.ParseConfig(f.Src, f.Name, hcl.InitialPos)
		if diags.HasErrors() {
			return nil, diags
		}
		for _, dns := range w.Body().Blocks() {
			for _, b := range dns.Body().Blocks() {
				k := slices.IndexFunc(keys, func(k config.Key) bool { return b.Type() == "key" && slices.Equal(b.Labels(), []string{k.Name}) })
				if dns.Type() != "dns" || k < 0 {
					continue
				}
				path := filepath.Join(secretDir, keys[k].Name)
				b.Body().SetAttributeValue("secret_file", cty.StringVal(path))
				if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString([]byte(rand.Text()))), 0o600); err != nil {
					return nil, err
				}
			}
		}
		out[i].Src = w.Bytes()
	}
	return out, nil
}

// standIns says in the report what something of the lab's stands in for.
func (s *Site) standIns() {
	for _, l := range s.Config.DNS.BlockLists {
		for _, of := range l.Source {
			if strings.Contains(of, "://") {
				s.omit(false, "block_list "+l.Name, "what is at %s: a list of one name stands in for it, which a server of the lab has there", of)
			}
		}
	}
	for _, k := range s.Config.DNS.Keys {
		if k.Secret != "" {
			s.omit(false, "key "+k.Name, "its secret: another stands in for it, and %s is not read", k.Secret)
		}
	}
}
