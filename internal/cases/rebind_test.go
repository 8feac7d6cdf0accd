package cases

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestRebinding (B31): names of the internet that point into the house are
// withheld, however they say it, with a line in the log that names the rule and
// the remedy. Those of the file's private domains and of forwarded zones pass, until
// the file names them no more; so does the other family of a name, and an address
// of the house's own that the internet routes.
func TestRebinding(t *testing.T) {
	t.Parallel()
	t.Run("forward", func(t *testing.T) { rebinding(t, "forward", "") })
	t.Run("bind", func(t *testing.T) {
		rebinding(t, "bind", "  zone \"work.example\" { forward = \"172.31.0.60\" }\n")
	})
}

func rebinding(t *testing.T, engine, zone string) {
	in(t, func(h *house) {
		h.need("nft", "dig", "named")
		isp := h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.must(os.MkdirAll(h.dir+"/state", 0o700))
		h.must(os.WriteFile(h.dir+"/state/root-anchors", []byte(h.RootAnchors()), 0o600))
		text := unsaidDNS + "dns {\n  engine = \"" + engine + "\"\n" + zone + "  private_domain = \"plex.direct\"\n}\n"
		h.start(text)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		ask := func(q string) string { return h.dig(pc.Host, "@172.31.0.1 "+q) }
		h.until("names of the internet", 20*time.Second, func() bool { return ask("www.example.com +short") == "192.0.2.80" })
		if zone != "" {
			// The other office's server, of which the world knows nothing.
			peer := h.join("peer", "", "172.31.0.60/24")
			h.sh(peer.Host, `mkdir /run/peer; cd /run/peer
printf '%s\n' '@ 60 IN SOA a b 1 60 60 60 60' '@ 60 IN NS ns' 'ns 60 IN A 172.31.0.60' 'intranet 60 IN A 10.9.0.80' >work.zone
echo 'options { directory "."; listen-on { 172.31.0.60; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; allow-query { any; }; }; controls { }; zone "work.example" { type primary; file "work.zone"; };' >named.conf
named -g -c $PWD/named.conf >log 2>&1 3>&- &`)
			h.until("a name of a forwarded zone", 10*time.Second, func() bool { return ask("intranet.work.example +short") == "10.9.0.80" })
		}
		for _, c := range []struct{ name, rrtype string }{
			{"172-31-0-23", "A"}, {"fd00--1", "AAAA"}, {"127-0-0-1", "A"}, {"0-0-0-0", "A"}, {"--ffff-ac1f-17", "AAAA"},
			{"100-64-1-2", "A"}, {"169-254-1-1", "A"}, {"fe80--1", "AAAA"}, {"--1", "AAAA"}, {"64-ff9b--ac1f-17", "AAAA"},
			{"to-172-31-0-23", "A"}, {"to-fd00--1", "AAAA"}, {"172-31-0-23", "HTTPS"},
		} {
			if engine == "bind" && c.rrtype == "HTTPS" {
				continue
			}
			short := strings.TrimPrefix(c.name, "to-")
			for range 2 { // the second time from the cache
				got := ask("-q " + c.name + ".rebind.test " + c.rrtype + " +dnssec")
				// BIND refuses the answer, the forwarder has one without the record.
				status := map[string]string{"bind": "status: SERVFAIL", "forward": "status: NOERROR"}[engine]
				if !strings.Contains(got, status) || hasRecord(got, c.rrtype) {
					h.Errorf("%s %s is let through:\n%s", c.name, c.rrtype, got)
				}
				if engine == "forward" && !strings.Contains(got, "EDE: 15 (Blocked)") {
					h.Errorf("%s %s has no reason with it:\n%s", c.name, c.rrtype, got)
				}
			}
			if got := ask("-q " + short + ".plex.direct " + c.rrtype); !hasRecord(got, c.rrtype) {
				h.Errorf("%s of a private domain is withheld:\n%s", c.name, got)
			}
		}
		if got := ask("192-0-2-80.rebind.test +short"); got != "192.0.2.80" {
			h.Errorf("an address of the internet: %q", got)
		}
		if got := ask("2001-db8-1--7.rebind.test AAAA +short"); got != "2001:db8:1::7" {
			h.Errorf("an address of the line's own network, as the house's own name has: %q", got)
		}
		if got := h.sh(h.gw, "getent ahosts dual-172-31-0-23.rebind.test"); !strings.Contains(got, "2001:db8:80::80") || strings.Contains(got, "172.31.0.23") {
			h.Errorf("a name with one family that points inside:\n%s", got)
		}
		told := 0
		for l := range strings.Lines(h.log()) {
			if strings.Contains(l, "name=172-31-0-23.rebind.test") {
				told++
				for _, want := range []string{"rebinding protection", `private_domain = \"rebind.test\"`} {
					if !strings.Contains(l, want) {
						h.Errorf("the log does not say %s: %s", want, l)
					}
				}
			}
		}
		if told != 1 {
			h.Errorf("the log tells %d times of 172-31-0-23.rebind.test, want 1", told)
		}
		h.write(strings.Replace(text, "private_domain", "# private_domain", 1))
		if out, err := h.tell("apply", "--yes", h.file); err != nil {
			h.Fatal(out, err)
		}
		h.until("a domain that is private no more is withheld, which was known", 10*time.Second, func() bool {
			return !hasRecord(ask("172-31-0-23.plex.direct A"), "A")
		})
		h.strays(isp)
	})
}

// hasRecord says whether an answer of dig's has a record of a type.
func hasRecord(dig, rrtype string) bool {
	for l := range strings.Lines(dig) {
		if f := strings.Fields(l); len(f) > 4 && !strings.HasPrefix(l, ";") && f[3] == rrtype {
			return true
		}
	}
	return false
}
