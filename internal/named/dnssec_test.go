package named

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/netns/netnstest"
)

// Verdicts, as RFC 4035, 4.3 has them. A verdict on an answer is that of its worst part.
const (
	secure   = "secure"
	insecure = "insecure"
	bogus    = "bogus"
)

// TestDNSSEC: what is signed rightly, wrongly and not at all is judged as unbound
// and delv judge it, by the configuration that weir makes.
func TestDNSSEC(t *testing.T) {
	cases := []struct{ about, name, rrtype, want string }{
		{"an address", "www.good", "A", "secure NOERROR"},
		{"an address, NSEC3", "www.good3", "A", "secure NOERROR"},
		{"RSA", "www.rsa", "A", "secure NOERROR"},
		{"Ed25519", "www.ed25519", "A", "secure NOERROR"},
		{"an alias within the zone", "alias.good", "A", "secure NOERROR"},
		{"an alias of what is not signed", "insecure.good", "A", "insecure NOERROR"},
		{"an alias of what is tampered with", "bogus.good", "A", "bogus"},
		{"an alias of nothing", "nothing.good", "A", "secure NXDOMAIN"},
		{"an alias of nothing, NSEC3", "nothing.good3", "A", "secure NXDOMAIN"},
		{"a wildcard", "x.wild.good", "TXT", "secure NOERROR"},
		{"a wildcard, NSEC3", "x.wild.good3", "TXT", "secure NOERROR"},
		{"a wildcard without that type", "x.wild.good", "A", "secure NODATA"},
		{"a wildcard without that type, NSEC3", "x.wild.good3", "A", "secure NODATA"},
		{"no such type", "www.good", "MX", "secure NODATA"},
		{"no such type, NSEC3", "www.good3", "MX", "secure NODATA"},
		{"no such name", "not.good", "A", "secure NXDOMAIN"},
		{"no such name, NSEC3", "not.good3", "A", "secure NXDOMAIN"},
		{"nothing but what is below", "ent.good", "A", "secure NODATA"},
		{"nothing but what is below, NSEC3", "ent.good3", "A", "secure NODATA"},
		{"6 KB, by TCP", "big.good", "TXT", "secure NOERROR"},
		{"a zone without signatures", "www.insecure", "A", "insecure NOERROR"},
		{"no such name there", "not.insecure", "A", "insecure NXDOMAIN"},
		{"a zone opted out", "www.child.optout", "A", "insecure NOERROR"},
		{"an algorithm that nobody knows", "www.unknown", "A", "insecure NOERROR"},
		{"a DS of another key", "www.badds", "A", "bogus"},
		{"tampered with", "www.tampered", "A", "bogus"},
		{"expired", "www.expired", "A", "bogus"},
		{"not valid yet", "www.future", "A", "bogus"},
		{"signatures stripped", "www.stripped", "A", "bogus"},
		{"no proof of a missing name", "zzz.nodenial", "A", "bogus"},
		{"no proof of a missing type", "www.nodenial", "MX", "bogus"},
		{"no proof of a wildcard", "x.wild.nodenial", "TXT", "bogus"},
		{"no proof of a missing name, NSEC3", "zzz.nodenial3", "A", "bogus"},
		{"no proof of a missing type, NSEC3", "www.nodenial3", "MX", "bogus"},
		{"no proof of a wildcard, NSEC3", "x.wild.nodenial3", "TXT", "bogus"},
	}
	alone(t, func(tr *trial) {
		dir := "/run/internet"
		if err := os.Mkdir(dir, 0o700); err != nil {
			tr.Fatal(err)
		}
		tr.c.Anchors = internetOf(tr.T, dir)
		other := unbound(tr.T, dir, tr.c.Anchors)
		tr.start()
		for _, c := range cases {
			name := c.name + ".lab."
			want := judge(tr.T, other, name, c.rrtype)
			if third := delv(tr.T, dir, name, c.rrtype); third != want {
				tr.Errorf("%s (%s %s): unbound says %s, delv %s", c.about, name, c.rrtype, want, third)
			}
			if want != c.want {
				tr.Errorf("%s (%s %s): unbound says %s, the case %s", c.about, name, c.rrtype, want, c.want)
			}
			if got := judge(tr.T, "172.31.0.1:53", name, c.rrtype); got != want {
				tr.Errorf("%s (%s %s): %s, and by unbound %s", c.about, name, c.rrtype, got, want)
			}
		}

		// Believed blindly, all of it is answered: what was withheld was so for its signatures.
		// Another named, for this one remembers what it withheld.
		if err := tr.end(); err == nil {
			tr.Error("it ended by itself")
		}
		tr.c.Unchecked = true
		tr.start()
		for _, c := range cases {
			if got := judge(tr.T, "172.31.0.1:53", c.name+".lab.", c.rrtype); !strings.HasPrefix(got, insecure) {
				tr.Errorf("%s: %s, though nothing is validated", c.about, got)
			}
		}
	})
}

// judge asks a validating resolver, who withholds what is bogus.
func judge(t *testing.T, server, name, rrtype string) string {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(name, dns.StringToType[rrtype])
	m.SetEdns0(1232, true)
	c := &dns.Client{Net: "tcp", Timeout: 10 * time.Second}
	r, _, err := c.Exchange(m, server)
	if err != nil {
		t.Fatalf("%s %s at %s: %v", name, rrtype, server, err)
	}
	verdict := insecure
	switch {
	case r.Rcode == dns.RcodeServerFailure:
		return bogus
	case r.AuthenticatedData:
		verdict = secure
	}
	has := false
	for _, rr := range r.Answer {
		has = has || rr.Header().Rrtype == dns.StringToType[rrtype]
	}
	if r.Rcode == dns.RcodeSuccess && !has {
		return verdict + " NODATA"
	}
	return verdict + " " + dns.RcodeToString[r.Rcode]
}

// unbound runs unbound on the laboratory's internet and returns its address.
func unbound(t *testing.T, dir, anchors string) (addr string) {
	t.Helper()
	if _, err := exec.LookPath("unbound"); err != nil {
		netnstest.Missing(t, "unbound", err)
	}
	conf := fmt.Sprintf(`server:
	interface: 127.0.0.1@5301
	do-daemonize: no
	use-syslog: no
	username: ""
	chroot: ""
	pidfile: ""
	num-threads: 1
	do-ip6: no
	do-not-query-localhost: no
	root-hints: %[1]q
	trust-anchor-file: %[2]q
remote-control:
	control-enable: no
`, filepath.Join(dir, "hints"), filepath.Join(dir, "anchors"))
	i := &internet{t, dir}
	i.write("hints", ". 3600 NS a.root-servers.net.\na.root-servers.net. 3600 A "+rootServer+"\n")
	i.write("anchors", anchors)
	ds, err := ParseAnchors(anchors)
	if err != nil {
		t.Fatal(err)
	}
	i.write("delv.keys", fmt.Sprintf("trust-anchors { . static-ds %d %d %d %q; };\n", ds[0].KeyTag, ds[0].Algorithm, ds[0].DigestType, ds[0].Digest))
	i.write("unbound.conf", conf)
	serveBy(t, dir, "127.0.0.1:5301", "unbound", "-d", "-c", filepath.Join(dir, "unbound.conf"))
	return "127.0.0.1:5301"
}

// delv has BIND's own validator for people judge, by what unbound gives to those
// who want nothing checked.
func delv(t *testing.T, dir, name, rrtype string) string {
	t.Helper()
	if _, err := exec.LookPath("delv"); err != nil {
		netnstest.Missing(t, "delv", err)
	}
	b, _ := exec.Command("delv", "@127.0.0.1", "-p", "5301", "-a", filepath.Join(dir, "delv.keys"), "+root=.", "+cdflag", "+nomultiline", name, rrtype).CombinedOutput()
	out := string(b)
	verdict := secure
	switch {
	case strings.Contains(out, "resolution failed: ncache nxdomain"), strings.Contains(out, "resolution failed: ncache nxrrset"):
	case strings.Contains(out, "resolution failed"):
		return bogus
	}
	if strings.Contains(out, "unsigned answer") {
		verdict = insecure
	} else if !strings.Contains(out, "fully validated") {
		t.Fatalf("delv %s %s says: %s", name, rrtype, out)
	}
	switch {
	case strings.Contains(out, "ncache nxdomain"):
		return verdict + " NXDOMAIN"
	case strings.Contains(out, "ncache nxrrset"):
		return verdict + " NODATA"
	}
	return verdict + " NOERROR"
}
