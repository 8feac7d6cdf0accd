package named

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"

	"weir/internal/netns/netnstest"
)

// The servers of the laboratory's internet, all of them one BIND with a view for
// each address: a root, the top-level domain lab, and what is below it.
const (
	rootServer  = "198.41.0.4" // a.root-servers.net, as resolvers have it built in
	tldServer   = "192.5.6.30"
	zonesServer = "192.33.14.30"
	byHand      = "127.0.0.9" // a resolver to compare with
)

// signed is a zone of the laboratory: how it is signed, and what is then done to it.
type signed struct {
	name      string
	algorithm string   // "": ECDSAP256SHA256
	nsec3     []string // dnssec-signzone's arguments for NSEC3; none: NSEC
	times     []string // its arguments for the signatures' times
	unsigned  bool
	spoil     func(text string) string // the signed zone; nil: it stays
	ds        func(ds string) string   // the DS records that the parent has; nil: the right ones
	records   string
}

// ordinary is what most zones hold: an address, aliases of all kinds, a wildcard,
// an empty non-terminal (a.ent), and a text that fills five datagrams.
var ordinary = `
www      A 192.0.2.80
alias    CNAME www
insecure CNAME www.insecure.lab.
bogus    CNAME www.tampered.lab.
nothing  CNAME not.there
*.wild   TXT "any"
a.ent    A 192.0.2.81
big      TXT ` + strings.Repeat(`"`+strings.Repeat("x", 250)+`" `, 24) + "\n"

// without drops the lines of a zone that match; a record is a line (signzone -O full).
func without(pattern string) func(string) string {
	re := regexp.MustCompile(`(?m)^` + pattern + `.*\n`)
	return func(text string) string { return re.ReplaceAllString(text, "") }
}

// laboratory is what is below lab: each zone is right or wrong in one way.
var laboratory = []signed{
	{name: "good"},
	{name: "good3", nsec3: []string{"-3", "ab12", "-H", "0"}},
	{name: "rsa", algorithm: "RSASHA256"},
	{name: "ed25519", algorithm: "ED25519"},
	{name: "insecure", unsigned: true},
	{name: "optout", nsec3: []string{"-3", "-", "-H", "0", "-A"}, records: "child NS ns.child\nns.child A " + zonesServer + "\n"},
	{name: "child.optout", unsigned: true},
	{name: "unknown", ds: func(ds string) string { return regexp.MustCompile(`DS\s+(\d+) 13 `).ReplaceAllString(ds, "DS $1 200 ") }},
	{name: "badds", ds: func(ds string) string {
		return regexp.MustCompile(`[0-9A-F]{8}\s*$`).ReplaceAllString(ds, "00000000\n")
	}},
	{name: "tampered", spoil: func(text string) string { return strings.ReplaceAll(text, "192.0.2.80", "192.0.2.66") }},
	{name: "expired", times: []string{"-s", "now-864000", "-e", "now-86400"}},
	{name: "future", times: []string{"-s", "now+86400", "-e", "now+864000"}},
	{name: "stripped", spoil: without(`\S+\s+\d+\s+IN\s+RRSIG\s+(A|NSEC)\s`)},
	{name: "nodenial", spoil: func(text string) string {
		text = without(`(\*\.wild|ent|nothing|insecure)\S*\s+\d+\s+IN\s+(NSEC|RRSIG\s+NSEC)\s`)(text)
		return regexp.MustCompile(`(?m)^(www.*\sNSEC\s.*) A RRSIG NSEC$`).ReplaceAllString(text, "$1 A MX RRSIG NSEC")
	}},
	{name: "nodenial3", nsec3: []string{"-3", "-", "-H", "0"}, spoil: without(`[0-9A-V]{32}\.\S+\s+\d+\s+IN\s+(NSEC3|RRSIG\s+NSEC3)\s`)},
}

// internet is the laboratory's, being built in a directory.
type internet struct {
	*testing.T
	dir string
}

func (i *internet) run(name string, args ...string) string {
	i.Helper()
	c := exec.Command(name, args...)
	c.Dir = i.dir
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		i.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}

func (i *internet) write(name, text string) {
	i.Helper()
	if err := os.WriteFile(filepath.Join(i.dir, name), []byte(text), 0o600); err != nil {
		i.Fatal(err)
	}
}

// zone makes a zone's file, signed by a key of its own, and returns its DS record.
func (i *internet) zone(origin, server string, z signed) string {
	i.Helper()
	file := strings.TrimSuffix(origin, ".") + ".zone"
	ns := "ns"
	if origin == "." {
		ns = "a.root-servers.net"
	}
	i.write(file, fmt.Sprintf("$ORIGIN %[1]s\n$TTL 300\n@ SOA %[2]s nobody.invalid. 1 3600 600 604800 60\n@ NS %[2]s\n%[2]s A %[3]s\n%[4]s", origin, ns, server, z.records))
	if z.unsigned {
		return ""
	}
	algorithm := z.algorithm
	if algorithm == "" {
		algorithm = "ECDSAP256SHA256"
	}
	args := []string{"-q", "-f", "KSK", "-a", algorithm}
	if strings.HasPrefix(algorithm, "RSA") {
		args = append(args, "-b", "2048")
	}
	key := strings.TrimSpace(i.run("dnssec-keygen", append(args, origin)...))
	args = append([]string{"-q", "-z", "-x", "-P", "-O", "full", "-o", origin, "-S", "-f", file + ".signed"}, z.nsec3...)
	i.run("dnssec-signzone", append(append(args, z.times...), file, key)...)
	b, err := os.ReadFile(filepath.Join(i.dir, file+".signed"))
	if err != nil {
		i.Fatal(err)
	}
	text := string(b)
	if z.spoil != nil {
		if text = z.spoil(text); text == string(b) {
			i.Fatalf("zone %s is as right as it was", origin)
		}
	}
	i.write(file, text)
	ds := i.run("dnssec-dsfromkey", "-2", key)
	if z.ds != nil {
		right := ds
		if ds = z.ds(ds); ds == right {
			i.Fatalf("the DS of %s is as right as it was", origin)
		}
	}
	return ds
}

// internetOf builds the laboratory's internet in dir, serves it, and returns the
// DS record of its root.
func internetOf(t *testing.T, dir string) (anchors string) {
	t.Helper()
	for _, tool := range []string{"dnssec-keygen", "dnssec-signzone", "dnssec-dsfromkey"} {
		if _, err := exec.LookPath(tool); err != nil {
			netnstest.Missing(t, "dnssec-signzone", err)
		}
	}
	i := &internet{t, dir}
	tld := signed{}
	views := ""
	for _, z := range laboratory {
		if z.records == "" {
			z.records = ordinary
		}
		origin := z.name + ".lab."
		ds := i.zone(origin, zonesServer, z)
		views += fmt.Sprintf("zone %q { type primary; file %q; };\n", origin, origin[:len(origin)-1]+".zone")
		if !strings.Contains(z.name, ".") { // else its parent's records have it
			tld.records += fmt.Sprintf("%[1]s NS ns.%[1]s\nns.%[1]s A %[2]s\n%[3]s", origin, zonesServer, ds)
		}
	}
	top := signed{records: fmt.Sprintf("lab NS ns.lab\nns.lab A %s\n%s", tldServer, i.zone("lab.", tldServer, tld))}
	anchors = i.zone(".", rootServer, top)
	i.write("named.conf", fmt.Sprintf(`controls { };
options {
	directory %[1]q; pid-file none; lock-file none; session-keyfile none; recursion no; dnssec-validation no; check-names primary ignore;
	listen-on { %[2]s; %[3]s; %[4]s; }; listen-on-v6 { none; }; allow-query { any; }; notify no; minimal-responses no;
};
view root { match-destinations { %[2]s; }; zone "." { type primary; file ".zone"; }; };
view tld { match-destinations { %[3]s; }; zone "lab" { type primary; file "lab.zone"; }; };
view zones { match-destinations { %[4]s; };
%[5]s};
`, dir, rootServer, tldServer, zonesServer, views))
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{rootServer, tldServer, zonesServer, byHand} {
		p := net.IPNet{IP: netip.MustParseAddr(a).AsSlice(), Mask: net.CIDRMask(32, 32)}
		if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: &p}); err != nil {
			t.Fatal(err)
		}
	}
	serveBy(t, dir, rootServer+":53", "named", "-g", "-n", "1", "-c", filepath.Join(dir, "named.conf"))
	return anchors
}

// serveBy runs a name server until the test ends or stop is called, and waits until it answers.
func serveBy(t *testing.T, dir, addr, name string, args ...string) (stop func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, log, log
	// It is to die with us, which the kernel takes for the thread that starts it: one is kept for it.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		began <- c.Start()
		_ = c.Wait() // killed
		close(ended)
	}()
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = c.Process.Kill()
		<-ended
	}
	t.Cleanup(func() {
		stop()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s says: %s", name, b[max(0, len(b)-4000):])
		}
	})
	m := new(dns.Msg)
	m.SetQuestion(".", dns.TypeNS)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		r, err := dns.Exchange(m, addr)
		if err == nil && r.Rcode == dns.RcodeSuccess {
			return stop
		}
	}
	t.Fatalf("%s does not answer at %s", name, addr)
	return nil
}
