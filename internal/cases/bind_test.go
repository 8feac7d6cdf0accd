package cases

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/api"
	"weir/internal/lab"
)

// withBIND is a house whose names are BIND's.
const withBIND = unsaidDNS + `
dns {
  engine = "bind"
  zone "local" {
    record "@" { mx = "10 mail" }
    record "mail" { address = host.nas }
    record "_ldap._tcp" { srv = "0 5 389 nas" }
    record "*.apps" { address = host.nas }
    record "www" { cname = "nas" }
  }
  key "acme" {
    zone = "local"
    name = "_acme-challenge"
    type = "TXT"
  }
}
`

// root has another named play the internet's name servers, all of them: a signed
// root, and below it a zone that is signed, one that is signed by a key that its
// parent does not know, and one that is not. line.example says which internet it
// is. All lines have the same keys. It prints the root's DS record.
const root = `
mkdir -p /run/keys /run/root-LINE; cd /run/root-LINE; exec 3>&1 >log 2>&1
[ -n "$(ls /run/keys)" ] || for z in . example bad; do
  dnssec-keygen -q -K /run/keys -a ECDSAP256SHA256 -f KSK $z; dnssec-keygen -q -K /run/keys -a ECDSAP256SHA256 $z
done
soa='3600 IN SOA a.root. nobody.invalid. 1 3600 600 604800 60'
for z in example bad insecure; do
  printf '%s\n' "@ $soa" '@ 3600 IN NS ns' 'ns 3600 IN A 192.5.6.30' 'www 3600 IN A 192.0.2.80' 'inside 3600 IN A 172.31.0.23' > $z.zone
done
printf "%s 0 IN TXT LINE\n" line "*.lines" >> example.zone
dnssec-signzone -S -K /run/keys -o example -f example.signed example.zone
dnssec-signzone -S -K /run/keys -o bad -f bad.signed bad.zone
sed 's/F$/X/; s/[0-9A-E]$/F/; s/X$/E/' dsset-bad. > dsset-bad.wrong
{ echo ". $soa"; echo '. 3600 IN NS a.root.'; echo 'a.root. 3600 IN A 198.41.0.4'
  for z in example bad insecure; do echo "$z. 3600 IN NS ns.$z."; echo "ns.$z. 3600 IN A 192.5.6.30"; done
  cat dsset-example. dsset-bad.wrong; } > root.zone
dnssec-signzone -S -K /run/keys -o . -f root.signed root.zone
cat > named.conf <<'EOF'
controls { };
options { directory "."; listen-on port 5353 { any; }; listen-on-v6 port 5353 { any; }; pid-file none; session-keyfile none; recursion no; dnssec-validation no; allow-query { any; }; };
zone "." { type primary; file "root.signed"; };
zone "example" { type primary; file "example.signed"; };
zone "bad" { type primary; file "bad.signed"; };
zone "insecure" { type primary; file "insecure.zone"; };
EOF
named-checkconf -z named.conf
named -g -c $PWD/named.conf >named.log 2>&1 3>&- &
nft -f - <<'EOF'
table inet dns {
  chain in {
    type nat hook prerouting priority -100;
    meta l4proto { tcp, udp } th dport 53 redirect to :5353;
  }
}
EOF
until dig @127.0.0.1 -p 5353 +short +tries=1 . SOA | grep -q root; do :; done
cat dsset-. >&3
`

// ownRoot gives an ISP's internet a DNS of its own, and returns the DS of its root.
func (h *house) ownRoot(isp *lab.ISP) string {
	h.Helper()
	return h.sh(isp.Inet, strings.ReplaceAll(root, "LINE", isp.Name))
}

// fromTheRoot is a house with two lines whose names are BIND's, and a client in it.
// anchors are of the root that both lines' internets have.
func (h *house) fromTheRoot() (fiber, lte *lab.ISP, pc *lab.Client, anchors string) {
	h.Helper()
	h.need("nft", "named", "dig", "dnssec-signzone")
	fiber, lte = h.connect(fiberLine()), h.connect(lteLine())
	anchors = h.ownRoot(fiber)
	h.ownRoot(lte)
	h.must(os.MkdirAll(h.dir+"/state", 0o700))
	h.must(os.WriteFile(h.dir+"/state/root-anchors", []byte(anchors), 0o600))
	pc = h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
	h.start(withBIND)
	h.untilOutBy(pc, "fiber", 20*time.Second)
	return fiber, lte, pc, anchors
}

// dig is what dig on a machine prints.
func (h *house) dig(m *lab.Host, args string) string {
	h.Helper()
	return strings.TrimSpace(h.sh(m, "dig +tries=1 +time=5 "+args+" || :"))
}

// TestBIND: BIND answers the house, by a configuration and zones that nobody
// wrote: its own names; the world's from the root on, validated; leases become
// names at once. Changes reach it without a restart, a dead line or a kill cost
// moments, and the way back to the forwarder is an apply.
func TestBIND(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "named", "dig", "delv", "dnssec-signzone", "nsupdate")
		fiber, lte, pc, anchors := h.fromTheRoot()
		h.until("BIND answers", 20*time.Second, func() bool { return h.dig(pc.Host, "@172.31.0.1 gw.local +short") == "172.31.0.1" })

		for q, want := range map[string]string{
			"@fd00::1 nas.local AAAA":          "fd00::23",
			"@172.31.0.1 local MX":             "10 mail.local.",
			"@172.31.0.1 _ldap._tcp.local SRV": "0 5 389 nas.local.",
			"@172.31.0.1 any.apps.local":       "172.31.0.23",
			"@172.31.0.1 www.local":            "nas.local.\n172.31.0.23",
			"@172.31.0.1 -x 172.31.0.23":       "nas.local.",
			"@172.31.0.1 gw-fiber-out.local":   strings.TrimSpace(h.sh(h.gw, "ip netns exec wan-fiber ip -4 -o addr show dev lan | awk '{print $4}' | cut -d/ -f1")),
			"@172.31.0.1 version.bind CH TXT":  "",
			"@172.31.0.1 www.example":          "192.0.2.80",
			"@172.31.0.1 line.example TXT":     `"fiber"`,
		} {
			if got := h.dig(pc.Host, q+" +short"); got != want {
				h.Errorf("%s: %q, want %q", q, got, want)
			}
		}
		for q, want := range map[string][]string{
			"www.example":           {"status: NOERROR", " ad;"},
			"no.example":            {"status: NXDOMAIN", " ad;"},
			"www.insecure":          {"status: NOERROR", "192.0.2.80"},
			"www.bad":               {"status: SERVFAIL"},
			"inside.example":        {"status: SERVFAIL", "ANSWER: 0"}, // rebinding
			"5.4.3.10.in-addr.arpa": {"status: NXDOMAIN"},
		} {
			got := h.dig(pc.Host, "@172.31.0.1 "+q)
			for _, w := range want {
				if !strings.Contains(got, w) {
					h.Errorf("%s has no %q:\n%s", q, w, got)
				}
			}
			if q == "www.insecure" && strings.Contains(got, " ad;") {
				h.Errorf("%s is not signed, and said to be right", q)
			}
		}
		// A validator of its own, behind BIND, comes to the same.
		h.must(os.WriteFile("/run/delv.conf", []byte(delvAnchors(anchors)), 0o644))
		if got := h.sh(pc.Host, "delv @172.31.0.1 -a /run/delv.conf +root=. www.example 2>&1 || :"); !strings.Contains(got, "fully validated") {
			h.Errorf("delv: %s", got)
		}
		// Nobody on a WAN is answered.
		if got := h.sh(fiber.Inet, "dig +tries=1 +time=1 @198.51.100.10 gw.local 2>&1 || :"); !strings.Contains(got, "no servers could be reached") && !strings.Contains(got, "timed out") {
			h.Errorf("on the WAN: %s", got)
		}

		// A lease is a name 50 ms after the ACK, forward and reverse.
		// One that is late is taken twice more, and the median counts.
		named := func(name string) (netip.Addr, time.Duration) {
			h.Helper()
			c := h.join(name, "")
			ack, err := c.Lease(h.Context())
			h.must(err)
			begin := time.Now()
			for {
				m, err := pc.Resolve(h.Context(), addr("172.31.0.1"), name+".local", dns.TypeA, time.Second)
				if err == nil && len(m.Answer) == 1 {
					break
				}
				if time.Since(begin) > 5*time.Second {
					h.Fatalf("%s.local: %v %v", name, m, err)
				}
			}
			took := time.Since(begin)
			t.Logf("the name of %s's lease %v after the ACK", name, took)
			a, _ := netip.AddrFromSlice(ack.YourIPAddr.To4())
			return a, took
		}
		leased, took := named("phone")
		if took > 50*time.Millisecond {
			_, second := named("tablet")
			_, third := named("watch")
			all := []time.Duration{took, second, third}
			slices.Sort(all)
			took = all[1]
		}
		if took > 50*time.Millisecond {
			h.Errorf("a lease's name came %v after the ACK", took)
		}
		h.until("the address's name", time.Second, func() bool {
			return h.dig(pc.Host, "@172.31.0.1 +short -x "+leased.String()) == "phone.local."
		})

		// Others update by their key, and no more than it says.
		update := func(name, rr string) string {
			return h.sh(h.gw, fmt.Sprintf("printf 'server 172.31.0.1\\nupdate add %s.local 60 %s\\nsend\\n' | nsupdate -k %s/state/named/acme.key 2>&1 || :", name, rr, h.dir))
		}
		if got := update("_acme-challenge", "TXT token"); got != "" {
			h.Errorf("nsupdate: %s", got)
		}
		if got := update("nas", "A 172.31.0.66"); !strings.Contains(got, "REFUSED") {
			h.Errorf("nsupdate of another's name: %q", got)
		}

		if got := h.sh(h.gw, `printf 'server 127.0.0.1\nzone local\nupdate add x.local 60 TXT y\nsend\n' | nsupdate -y hmac-sha256:nobody:`+"c2VjcmV0"+` 2>&1 || :`); !strings.Contains(got, "NOTAUTH(BADKEY)") {
			h.Errorf("nsupdate with a key that nobody knows: %q", got)
		}

		// An edit reaches it without a restart.
		pid := h.namedPID()
		serial := h.dig(pc.Host, "@172.31.0.1 +short local SOA")
		edited := strings.Replace(withBIND, `record "www" { cname = "nas" }`, `record "web" { address = "172.31.0.23" }`, 1)
		h.must(os.WriteFile(h.dir+"/other.hcl", []byte(edited), 0o644))
		if out, err := h.tell("apply", "--yes", h.dir+"/other.hcl"); err != nil {
			h.Error(err, out)
		}
		h.until("the edit", 5*time.Second, func() bool {
			return h.dig(pc.Host, "@172.31.0.1 +short web.local") == "172.31.0.23" && h.dig(pc.Host, "@172.31.0.1 +short www.local") == ""
		})
		if h.namedPID() != pid {
			h.Error("named was started again for an edit")
		}
		if now := h.dig(pc.Host, "@172.31.0.1 +short local SOA"); now <= serial {
			h.Errorf("the SOA was %s, and is %s", serial, now)
		}

		// The line in use dies: names come by the other.
		h.must(fiber.Dark(true))
		h.untilOutBy(pc, "lte", 5*time.Second)
		h.until("names by lte", 5*time.Second, func() bool { return h.dig(pc.Host, "@172.31.0.1 +short line.example TXT") == `"lte"` })

		// Killed, it is back with all that it knew; the daemon too.
		h.must(syscall.Kill(pid, syscall.SIGKILL))
		h.until("named is back", 10*time.Second, func() bool { return h.dig(pc.Host, "@172.31.0.1 +short phone.local") == leased.String() })
		if h.namedPID() == pid {
			h.Error("it was not killed")
		}
		h.end(syscall.SIGKILL)
		h.again()
		h.until("weir and named are back", 20*time.Second, func() bool {
			return h.dig(pc.Host, "@172.31.0.1 +short _acme-challenge.local TXT") == `"token"`
		})
		h.until("the lease has its name", 5*time.Second, func() bool { return h.dig(pc.Host, "@172.31.0.1 +short phone.local") == leased.String() })

		// Unsaid it is BIND too; to the forwarder and back.
		h.must(os.WriteFile(h.dir+"/unsaid.hcl", []byte(unsaidDNS), 0o644))
		if out, err := h.tell("apply", "--yes", h.dir+"/unsaid.hcl"); err != nil {
			h.Error(err, out)
		}
		h.until("zones of the file go", 5*time.Second, func() bool { return h.dig(pc.Host, "@172.31.0.1 +short local MX") == "" })
		if got := h.dig(pc.Host, "@172.31.0.1 www.example"); !strings.Contains(got, " ad;") {
			h.Errorf("nothing is said of the engine, and no BIND answers: %s", got)
		}
		h.must(os.WriteFile(h.dir+"/plain.hcl", []byte(base), 0o644))
		for _, file := range []string{"plain", "other"} {
			if out, err := h.tell("apply", "--yes", h.dir+"/"+file+".hcl"); err != nil {
				h.Error(err, out)
			}
			want := map[string]string{"plain": "", "other": "10 mail.local."}[file]
			h.until("it answers by "+file, 10*time.Second, func() bool {
				return h.dig(pc.Host, "@172.31.0.1 +short gw.local") == "172.31.0.1" && h.dig(pc.Host, "@172.31.0.1 +short local MX") == want
			})
		}
		h.strays(fiber, lte)
	})
}

// namedPID is the house's named.
// TestOwnKey: a key that somebody has already is taken from its file, beside the house's
// own. A file that is no good is refused with the reason when it is put in force; found so
// at a start, it costs the house nothing but that key.
func TestOwnKey(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "named", "dig", "nsupdate", "tsig-keygen")
		isp := h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		text := strings.Replace(withBIND, `type = "TXT"`, `secret_file = "keys/acme"`, 1)
		key := h.dir + "/keys/acme"
		h.must(os.Mkdir(h.dir+"/keys", 0o700))
		h.sh(h.gw, "umask 077; tsig-keygen -a hmac-sha256 acme >"+key)
		h.start(text)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		update := func(say string) string {
			return h.sh(h.gw, fmt.Sprintf("printf 'server 172.31.0.1\\nupdate add _acme-challenge.local 60 TXT %s\\nsend\\n' | nsupdate -k %s 2>&1 || :", say, key))
		}
		txt := func() string { return h.dig(pc.Host, "@172.31.0.1 +short _acme-challenge.local TXT") }
		h.until("an update by the key", 20*time.Second, func() bool { return update("one") == "" })
		if got := txt(); got != `"one"` {
			h.Errorf("_acme-challenge is %s", got)
		}
		if _, err := os.Stat(h.dir + "/state/named/acme.key"); err == nil {
			h.Error("weir made a key of its own")
		}

		secret := "bm90IGEga2V5IHRoYXQgYW55Ym9keSBrbm93cw=="
		for _, bad := range []struct{ script, want string }{
			{"rm %s", "no such file"},
			{"echo " + secret + " >%s; chmod 640 %[1]s", "chmod 600"},
			{"echo " + secret + "x >%s; chmod 600 %[1]s", "neither a key of tsig-keygen nor a secret"},
			{"tsig-keygen other >%s", `let the block have it`},
			{"tsig-keygen -a hmac-sha512 acme >%s", `algorithm = "hmac-sha512"`},
			{"rm %s; mkfifo %[1]s; chmod 600 %[1]s", "is no file"},
		} {
			h.sh(h.gw, fmt.Sprintf(bad.script, key))
			if out, err := h.tell("apply", "--yes", h.file); err == nil || !strings.Contains(out, bad.want) || !strings.Contains(out, key) || strings.Contains(out, secret) {
				h.Errorf("%s: %v\n%s", bad.script, err, out)
			}
		}
		h.end(syscall.SIGTERM)
		h.again()
		h.until("names without the key", 20*time.Second, func() bool { return h.dig(pc.Host, "@172.31.0.1 +short nas.local A") == "172.31.0.23" })
		h.until("a note of it", 10*time.Second, func() bool {
			return slices.ContainsFunc(h.status().Notes, func(n string) bool { return strings.Contains(n, "key acme can't be used") })
		})

		h.sh(h.gw, fmt.Sprintf("rm %s; umask 077; echo %s >%[1]s", key, secret))
		if out, err := h.tell("apply", "--yes", h.file); err != nil {
			h.Error(err, out)
		}
		h.until("an update by the bare secret", 10*time.Second, func() bool {
			return h.sh(h.gw, "printf 'server 172.31.0.1\nupdate add _acme-challenge.local 60 TXT two\nsend\n' | nsupdate -y hmac-sha256:acme:"+secret+" 2>&1 || :") == ""
		})
		if got := txt(); !strings.Contains(got, `"two"`) {
			h.Errorf("_acme-challenge is %s", got)
		}
		h.strays(isp)
	})
}

func (h *house) namedPID() (pid int) {
	h.Helper()
	_, err := fmt.Sscan(h.sh(h.gw, "pgrep -f '^[^ ]*named -f .* -c "+h.dir+"'"), &pid)
	h.must(err)
	return pid
}

// delvAnchors is the file of anchors that delv takes.
func delvAnchors(ds string) string {
	var b strings.Builder
	b.WriteString("trust-anchors {\n")
	for l := range strings.Lines(ds) {
		if f := strings.Fields(l); len(f) >= 7 {
			fmt.Fprintf(&b, ". static-ds %s %s %s \"%s\";\n", f[3], f[4], f[5], strings.Join(f[6:], ""))
		}
	}
	return b.String() + "};\n"
}

// TestNoBIND: where BIND is missing the forwarder answers, and says so.
func TestNoBIND(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "dig")
		fiber := h.connect(fiberLine())
		h.sh(h.gw, "touch /run/nothing; for f in /usr/sbin/named /usr/bin/named; do [ ! -e $f ] || mount --bind /run/nothing $f; done")
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(withBIND)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("the forwarder answers", 10*time.Second, func() bool { return h.dig(pc.Host, "@172.31.0.1 +short nas.local") == "172.31.0.23" })
		if got := h.dig(pc.Host, "@172.31.0.1 +short www.example.com"); got != "192.0.2.80" {
			h.Errorf("www.example.com: %q", got)
		}
		out, err := h.tell("status", "--json")
		h.must(err)
		var s api.Status
		h.must(json.Unmarshal([]byte(out), &s))
		if !strings.Contains(strings.Join(s.Notes, "\n"), "BIND is not installed") {
			h.Errorf("nobody is told: %q", s.Notes)
		}
		out, err = h.tell("plan", h.file)
		if err != nil || !strings.Contains(out, "BIND is not installed") {
			h.Errorf("plan: %v %s", err, out)
		}
		h.strays(fiber)
	})
}

// TestBrokenBIND: a BIND that is there and does not start leaves no house without
// names: the forwarder answers, and why is said.
func TestBrokenBIND(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "named", "dig")
		fiber := h.connect(fiberLine())
		h.sh(h.gw, `printf '#!/bin/sh\necho "general: critical: no memory for it" >&2; exit 1\n' > /run/broken; chmod +x /run/broken; mount --bind /run/broken /usr/sbin/named`)
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(unsaidDNS)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("the forwarder answers", 10*time.Second, func() bool {
			return h.dig(pc.Host, "@172.31.0.1 +short nas.local") == "172.31.0.23" && h.dig(pc.Host, "@172.31.0.1 +short www.example.com") == "192.0.2.80"
		})
		out, err := h.tell("status")
		h.must(err)
		if !strings.Contains(out, "BIND does not start") || !strings.Contains(out, "no memory for it") {
			h.Errorf("nobody is told: %s", out)
		}
		// Mended, the next file has it.
		h.sh(h.gw, "umount /usr/sbin/named")
		h.must(os.WriteFile(h.dir+"/other.hcl", []byte(strings.Replace(unsaidDNS, "[80, 443]", "80", 1)), 0o644))
		if out, err := h.tell("apply", "--yes", h.dir+"/other.hcl"); err != nil {
			h.Error(err, out)
		}
		h.until("BIND answers", 10*time.Second, func() bool {
			return strings.Contains(h.sh(h.gw, "pgrep -f '^[^ ]*named -f .* -c "+h.dir+"' || :"), "\n")
		})
		h.until("names", 10*time.Second, func() bool { return h.dig(pc.Host, "@172.31.0.1 +short nas.local") == "172.31.0.23" })
		h.strays(fiber)
	})
}
