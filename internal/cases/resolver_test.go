package cases

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestOwnResolvers: what is to be asked of a line's own resolver is asked there, and
// nowhere else, though both lines have the same one and the same address; when the
// ISP names another it is that one, and nothing is told to BIND for it.
func TestOwnResolvers(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "named", "dig")
		f, l := fiberLine(), lteLine()
		f.Customer4[0], l.Customer4[0] = pfx("192.168.7.10/24"), pfx("192.168.7.10/24")
		f.Router4, l.Router4 = addr("192.168.7.1"), addr("192.168.7.1")
		fiber, lte := h.connect(f), h.connect(l)
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(unsaidDNS + `
dns {
  engine   = "bind"
  validate = false
  upstream = wan
  zone "f.whoami.example" { forward = wan.fiber }
  zone "l.whoami.example" { forward = wan.lte }
}
`)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		n := 0
		// who is the line whose resolver answers, and whom it takes us for.
		who := func(zone string) string {
			n++
			return h.dig(pc.Host, "@172.31.0.1 +short n"+strconv.Itoa(n)+zone+"whoami.example TXT")
		}
		is := func(zone, want string) {
			h.Helper()
			h.until(zone+"whoami.example: "+want, 15*time.Second, func() bool { return who(zone) == want })
		}
		is(".", `"fiber" "192.168.7.10"`)
		is(".f.", `"fiber" "192.168.7.10"`)
		is(".l.", `"lte" "192.168.7.10"`)
		conf := func() string {
			b, err := os.ReadFile(h.dir + "/state/named/named.conf")
			h.must(err)
			return string(b)
		}
		// The ISP's router advertises one too, when it is asked.
		h.until("both resolvers of fiber stand in named.conf", 15*time.Second, func() bool {
			return strings.Contains(conf(), "forward only; forwarders { 172.31.255.1; fd")
		})
		before := conf()
		if strings.Contains(before, "192.168.7.") {
			h.Error("an ISP's address stands in named.conf")
		}

		h.must(fiber.Renumber4(pfx("192.168.8.20/24"), addr("192.168.8.1")))
		h.must(fiber.Carrier(false))
		h.must(fiber.Carrier(true))
		is(".f.", `"fiber" "192.168.8.20"`)
		is(".", `"fiber" "192.168.8.20"`)
		is(".l.", `"lte" "192.168.7.10"`)
		h.until("named.conf is as it was", 15*time.Second, func() bool { return conf() == before })

		h.must(fiber.Dark(true))
		is(".", `"lte" "192.168.7.10"`)
		if got := who(".f."); got != "" && strings.Contains(got, "lte") {
			h.Errorf("what only fiber's resolver is to say, %s", got)
		}
		h.strays(fiber, lte)
	})
}

// TestSilentForwarder: that nobody answers for a zone that is forwarded is said where the
// owner looks, with the zone and whom it is forwarded to, until somebody does.
func TestSilentForwarder(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "named", "dig")
		fiber := h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		peer := h.join("peer", "", "172.31.0.60/24")
		h.start(unsaidDNS + `
dns {
  engine   = "bind"
  validate = false
  zone "work.example"      { forward = "172.31.0.60" }
  zone "f.whoami.example"  { forward = wan.fiber }
}
`)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		ask := func(q string) string { return h.dig(pc.Host, "@172.31.0.1 +short "+q) }
		h.until("a name of the line's own resolver", 15*time.Second, func() bool { return ask("n.f.whoami.example TXT") != "" })
		note := func(of string) string {
			for _, n := range h.status().Notes {
				if strings.Contains(n, of) {
					return n
				}
			}
			return ""
		}
		if got := ask("intranet.work.example"); got != "" {
			h.Fatalf("nobody answers for work.example: %s", got)
		}
		h.until("a note of the zone", 15*time.Second, func() bool { return note("work.example") != "" })
		if n := note("work.example"); !strings.Contains(n, "172.31.0.60") || !strings.Contains(n, "gives no answer: ") {
			h.Errorf("note: %s", n)
		}
		if n := note("whoami.example"); n != "" {
			h.Errorf("a note of a zone that is well: %s", n)
		}
		if !strings.Contains(h.log(), "server=172.31.0.60:53 zone=work.example") {
			h.Error("the log says nothing of it")
		}
		h.sh(peer.Host, `mkdir /run/peer; cd /run/peer
printf '%s\n' '@ 60 IN SOA a b 1 60 60 60 60' '@ 60 IN NS ns' 'ns 60 IN A 172.31.0.60' 'intranet 60 IN A 198.51.100.80' >work.zone
echo 'options { directory "."; listen-on { 172.31.0.60; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; allow-query { any; }; }; controls { }; zone "work.example" { type primary; file "work.zone"; };' >named.conf
named -g -c $PWD/named.conf >log 2>&1 3>&- &`)
		h.until("no note once it answers", 20*time.Second, func() bool { return note("work.example") == "" })
		h.until("its name", 5*time.Second, func() bool { return ask("intranet.work.example") == "198.51.100.80" })

		// A line's own resolver is said to be broken where the line is.
		h.sh(fiber.Router, "nft add table inet t; nft 'add chain inet t in { type filter hook input priority 0; }'; nft add rule inet t in iifname cust0 th dport 53 drop")
		n := 0
		h.until("fiber's DNS is shown to be broken", 30*time.Second, func() bool {
			n++
			go ask("m" + strconv.Itoa(n) + ".f.whoami.example TXT")
			return h.dnsError("fiber") != ""
		})
		if n := note("f.whoami.example"); !strings.Contains(n, "wan fiber's own resolver") {
			h.Errorf("note: %q", n)
		}
		h.strays(fiber)
	})
}

// TestSecondResolver: where a line has several resolvers, one that is dead costs no name, and
// is said; the line's DNS is broken when all are.
func TestSecondResolver(t *testing.T) {
	for _, engine := range []string{"forward", "bind"} {
		t.Run(engine, func(t *testing.T) {
			in(t, func(h *house) {
				h.need("nft", "named", "dig")
				fiber := h.connect(fiberLine())
				pc := h.join("pc", "", "172.31.0.50/24")
				text := strings.Replace(unsaidDNS, `wan "fiber" { interface = "eth1" }`, "wan \"fiber\" {\n  interface = \"eth1\"\n  ipv4 { dns = [\"198.51.100.99\", \"198.51.100.1\"] }\n}", 1)
				h.start(text + "\ndns {\n  engine   = \"" + engine + "\"\n  validate = false\n  upstream = wan\n}\n")
				h.untilOutBy(pc, "fiber", 20*time.Second)
				n := 0
				ask := func() string {
					n++
					return h.dig(pc.Host, "@172.31.0.1 +short +tries=1 +time=5 n"+strconv.Itoa(n)+".whoami.example TXT 2>&1 || :")
				}
				h.until("a name", 15*time.Second, func() bool { return strings.Contains(ask(), `"fiber"`) })
				for range 10 {
					if got := ask(); !strings.Contains(got, `"fiber"`) {
						h.Errorf("n%d.whoami.example: %q", n, got)
					}
				}
				note := func() string { return strings.Join(h.status().Notes, "; ") }
				h.until("a note of the dead one", 30*time.Second, func() bool {
					ask()
					return strings.Contains(note(), "wan fiber's own resolver 198.51.100.99 gives no answer")
				})
				if e := h.dnsError("fiber"); e != "" {
					h.Errorf("fiber's DNS is said to be broken, and one answers: %s", e)
				}
				h.sh(fiber.Router, "nft add table inet t; nft 'add chain inet t in { type filter hook input priority 0; }'; nft add rule inet t in iifname cust0 th dport 53 drop")
				h.until("fiber's DNS is shown to be broken", 30*time.Second, func() bool {
					ask()
					return h.dnsError("fiber") != ""
				})
				h.strays(fiber)
			})
		})
	}
}
