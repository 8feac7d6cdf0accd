package named

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Where things are within Config.Dir. What is in workDir is named's to write, and
// the directory of the anchors that it follows.
const (
	confFile      = "named.conf"
	keysFile      = "keys.conf" // with secrets, which named has to read
	emptyFile     = "empty.zone"
	localhostFile = "localhost.zone"
	toldFile      = "told.json"
	workDir       = "work"
)

// ownKey is the TSIG key that weir updates and reads zones with.
const ownKey = "weir"

// Conf is named.conf. It holds no secret, those are in the file of keys that it
// includes.
func Conf(c Config) (string, error) {
	zones, err := zonesOf(c)
	if err != nil {
		return "", err
	}
	w := &conf{}
	w.line("// weir makes this file, and makes it again whenever something changes.")
	w.line("include %q;", filepath.Join(c.Dir, keysFile))
	w.line("controls { inet %s port %d allow { %s; } keys { %q; }; };", control.Addr(), control.Port(), control.Addr(), ownKey)
	w.logging(c)
	w.line("acl house { %s};", terms(clients(c)))
	if err := w.options(c); err != nil {
		return "", err
	}
	for i, v := range views(c) {
		w.view(c, v, i == 0, zones)
	}
	return w.b.String(), nil
}

// empty are the zones that nobody is asked about and the house has nothing of.
func empty(c Config, zones []*zone) []string {
	return slices.DeleteFunc(nowhere(), func(name string) bool {
		return slices.ContainsFunc(zones, func(z *zone) bool { return within(name, z.name) }) ||
			slices.ContainsFunc(c.Zones, func(z Zone) bool {
				// A zone that is served hides what is forwarded below it.
				return len(z.Forward) > 0 && (within(absolute(z.Name), name) || within(name, absolute(z.Name)))
			})
	})
}

// conf is named.conf in the making.
type conf struct {
	b     strings.Builder
	depth int
}

func (w *conf) line(format string, a ...any) {
	w.b.WriteString(strings.Repeat("\t", w.depth))
	fmt.Fprintf(&w.b, format, a...)
	w.b.WriteByte('\n')
}

func (w *conf) open(format string, a ...any) {
	w.line(format+" {", a...)
	w.depth++
}

func (w *conf) close() {
	w.depth--
	w.line("};")
}

// logging has named tell what somebody wants to know, and how a reload went; not
// each name that could not be resolved.
func (w *conf) logging(c Config) {
	w.open("logging")
	for _, severity := range []string{"info", "notice"} {
		w.line("channel %s { stderr; severity %s; print-category yes; print-severity yes; };", severity, severity)
	}
	w.line("category general { info; };")
	w.line("category config { notice; };")
	w.line("category default { notice; };")
	if c.Log {
		w.line("category rpz { info; };")     // what the lists block
		w.line("category queries { info; };") // which turns it on at the start of named; later record does
	}
	quiet := []string{"query-errors", "edns-disabled", "unmatched", "rpz-passthru"}
	if len(forwarders(c)) > 0 {
		w.line("category lame-servers { info; };") // who gave no answer
		w.line("category serve-stale { info; };")  // and for which name nobody
	} else {
		quiet = append(quiet, "lame-servers")
	}
	for _, category := range quiet {
		w.line("category %s { null; };", category)
	}
	w.close()
}

// options is what holds for all zones.
func (w *conf) options(c Config) error {
	work := filepath.Join(c.Dir, workDir)
	anchors := c.Anchors
	if anchors == "" {
		anchors = Anchors
	}
	ds, err := ParseAnchors(anchors)
	if err != nil {
		return err
	}
	// Keys followed from other anchors (RFC 5011) say nothing about these.
	sum := sha256.Sum256([]byte(anchors))
	w.open("options")
	w.line("directory %q;", work)
	w.line("managed-keys-directory %q;", filepath.Join(c.Dir, "anchors-"+hex.EncodeToString(sum[:4])))
	w.line("pid-file none; lock-file none; session-keyfile none;")
	w.line("version none; hostname none; server-id none;")
	listen4, listen6 := []string{"127.0.0.1"}, []string{"::1"}
	for _, l := range c.LANs {
		for _, p := range l.Addrs {
			if a := p.Addr(); a.Is4() {
				listen4 = append(listen4, a.String())
			} else {
				listen6 = append(listen6, a.String())
			}
		}
	}
	w.line("listen-on port 53 { %s};", terms(listen4))
	w.line("listen-on-v6 port 53 { %s};", terms(listen6))
	w.line("allow-query { house; }; allow-query-cache { house; }; allow-recursion { house; };")
	w.line("allow-transfer { none; }; allow-update { none; }; notify no;")
	w.line("minimal-responses yes; empty-zones-enable no; max-cache-size 10%%;")
	w.line("recursion yes; qname-minimization relaxed; prefetch 2 9; synth-from-dnssec yes;")
	w.line("stale-cache-enable yes; stale-answer-enable yes; stale-answer-client-timeout off;")
	w.line("max-stale-ttl 86400; stale-answer-ttl 30; stale-refresh-time 30;")
	// Clients ask again after 5 s (resolv.conf(5)); an old answer has to be there by then.
	w.line("resolver-query-timeout 4000;")
	if len(c.Upstreams) > 0 {
		w.line("forward only; forwarders { %s};", servers(c.Upstreams))
	}
	if from := believed(c); !slices.Contains(from, ".") {
		w.line("deny-answer-addresses { %s} except-from { %s};", terms(inside()), quoted(from))
	}
	unsigned := []string{}
	for _, z := range c.Zones {
		if len(z.Forward) > 0 {
			unsigned = append(unsigned, z.Name)
		}
	}
	if c.Unchecked {
		w.line("dnssec-validation no;")
	} else {
		w.line("dnssec-validation yes;")
		if len(unsigned) > 0 {
			// Whoever serves them is believed: the world may know nothing of them, or something else.
			w.line("validate-except { %s};", quoted(unsigned))
		}
	}
	w.close()
	if !c.Unchecked {
		w.open("trust-anchors")
		for _, d := range ds {
			w.line(". initial-ds %d %d %d %q;", d.KeyTag, d.Algorithm, d.DigestType, strings.ToUpper(d.Digest))
		}
		w.close()
	}
	return nil
}

// served is a zone of ours.
func (w *conf) served(c Config, z *zone) {
	name := strings.TrimSuffix(z.name, ".")
	w.open("zone %q", name)
	w.line("type primary; file %q; allow-transfer { key %s; };", zoneFile(z.name), ownKey)
	w.open("update-policy")
	w.line("grant %s zonesub ANY;", ownKey)
	for _, k := range c.Keys {
		if slices.ContainsFunc(k.Zones, func(n string) bool { return absolute(n) == z.name }) {
			w.granted(c, z, k)
		}
	}
	w.close()
	w.close()
}

// zoneFile is a zone's file in workDir.
func zoneFile(name string) string {
	if name == "." {
		return "root.zone"
	}
	return name + "zone"
}

// clients are the networks that are answered.
func clients(c Config) []string {
	out := []string{"127.0.0.0/8", "::1"}
	for _, p := range c.Clients {
		out = append(out, p.String())
	}
	return out
}

func terms(of []string) string {
	var b strings.Builder
	for _, s := range of {
		b.WriteString(s + "; ")
	}
	return b.String()
}

func quoted(names []string) string {
	var b strings.Builder
	for _, s := range names {
		fmt.Fprintf(&b, "%q; ", strings.TrimSuffix(s, "."))
	}
	return b.String()
}

func servers(of []netip.AddrPort) string {
	var b strings.Builder
	for _, s := range of {
		if s.Port() == 53 {
			fmt.Fprintf(&b, "%s; ", s.Addr())
		} else {
			fmt.Fprintf(&b, "%s port %d; ", s.Addr(), s.Port())
		}
	}
	return b.String()
}

// keysConf is the file of keys.
func keysConf(keys []secretKey) string {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "key %q { algorithm %s; secret %q; };\n", k.Name, k.Algorithm, k.Secret)
	}
	return b.String()
}

// secretKey is a TSIG key with its secret in base64.
type secretKey struct{ Name, Algorithm, Secret string }

// algorithms are those that a key may have, and how long a secret of ours is for
// each: as long as the hash (RFC 2104, 3).
var algorithms = map[string]struct {
	tsig  string
	bytes int
}{
	"hmac-sha256": {dns.HmacSHA256, 32},
	"hmac-sha512": {dns.HmacSHA512, 64},
	"hmac-sha1":   {dns.HmacSHA1, 20},
	"hmac-md5":    {"hmac-md5.sig-alg.reg.int.", 16},
}
