package cases

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/chrony"
	"weir/internal/lab"
)

// exact is how right a time has to be on a machine that does a lot else.
const exact = 250 * time.Millisecond

// threeServers are the time servers of a house: two that are right, and one.
const threeServers = base + `
time { server = ["192.0.2.123", "198.18.1.123", "198.18.2.123"] }
`

// ahead is by how much a time server is ahead of the lab's machine, as seen by a
// client; false: it gave none.
func (h *house) ahead(c *lab.Host, server string) (time.Duration, bool) {
	h.Helper()
	d, _, err := c.AskTime(netip.Addr{}, addr(server), time.Second)
	return d, err == nil
}

// near says whether a client has the internet's time from the gateway.
func (h *house) near(c *lab.Host, server string, within time.Duration) bool {
	h.Helper()
	d, ok := h.ahead(c, server)
	return ok && (d-lab.TimeAhead).Abs() < within
}

// TestTime: a client of the LAN, of other people's make, has the internet's time
// from the gateway, and DHCP tells it where; nobody outside can ask. A server that
// lies moves nothing. When the line fails the servers are asked by the other one.
// The machine's clock is as it was.
func TestTime(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "chronyd", "ntpdig", "dhclient")
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		h.Clock.Lie(addr("198.18.2.123"), 7*time.Hour)
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(threeServers)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.Logf("the time is served after %v", h.until("the time is served", 30*time.Second, func() bool { return h.near(pc.Host, "172.31.0.1", exact) }))

		// Two programs of others, over both families.
		for _, server := range []string{"172.31.0.1", "fd00::1"} {
			out := h.sh(pc.Host, "ntpdig -t 2 "+server)
			f := strings.Fields(out)
			if off, err := strconv.ParseFloat(f[3], 64); err != nil || (time.Duration(off*1e9)-lab.TimeAhead).Abs() > exact {
				h.Errorf("ntpdig of %s: %s", server, out)
			}
			// Its samples jitter on a machine that does a lot else, by more than it bears at times.
			ask := fmt.Sprintf("timeout 20 chronyd -Q -t 15 -u root 'server %s iburst' 'pidfile /run/client.pid' 2>&1", server)
			out = h.sh(pc.Host, ask+" || "+ask)
			var off float64
			if _, after, ok := strings.Cut(out, "System clock wrong by "); ok {
				_, _ = fmt.Sscanf(after, "%g", &off)
			}
			if (time.Duration(off*1e9) - lab.TimeAhead).Abs() > exact {
				h.Errorf("chronyd -Q of %s: %s", server, out)
			}
		}
		out := h.sh(pc.Host, "touch /run/pc.leases; timeout 20 dhclient -1 -lf /run/pc.leases -pf /run/pc.pid -sf /bin/true e0 2>&1 || :; cat /run/pc.leases")
		if !strings.Contains(out, "ntp-servers 172.31.0.1;") {
			h.Errorf("dhclient was not told of the time: %s", out)
		}

		st := h.status().Time
		if st == nil || !st.Synchronised || st.SetsClock || !st.Served || st.Stratum != 2 || st.BehindMS == nil || (time.Duration(*st.BehindMS*1e6)-lab.TimeAhead).Abs() > exact {
			h.Errorf("the status says %+v", st)
		}
		h.until("the liar is known", 90*time.Second, func() bool {
			for _, s := range h.status().Time.Sources {
				if s.Address == "198.18.2.123" {
					return s.State == "wrong"
				}
			}
			return false
		})
		if text, err := h.tell("status"); err != nil || !strings.Contains(text, "198.18.2.123 says another time than most") {
			h.Errorf("weir status: %v\n%s", err, text)
		}

		// From outside nobody gets an answer, at any address of the gateway's.
		h.must(fiber.Router.Route(pfx("172.31.0.1/32"), addr("198.51.100.10"), "cust0"))
		for _, a := range []string{"198.51.100.10", "172.31.0.1"} {
			if d, ok := h.ahead(fiber.Router, a); ok {
				h.Errorf("the ISP asks %s and is told a time, %v ahead", a, d)
			}
		}
		if as := h.status().WANs[0].IPv6.Addresses; len(as) > 0 {
			if d, ok := h.ahead(fiber.Router, netip.MustParsePrefix(as[0]).Addr().String()); ok {
				h.Errorf("the ISP asks %s and is told a time, %v ahead", as[0], d)
			}
		}

		before := h.Clock.Asked(lte.Inet, addr("192.0.2.123"))
		h.must(fiber.Dark(true))
		cut := time.Now()
		h.untilOutBy(pc, "lte", 5*time.Second)
		h.until("a server is asked by lte", 10*time.Second, func() bool { return h.Clock.Asked(lte.Inet, addr("192.0.2.123")) > before })
		h.Logf("a server is asked by the other line %v after the fault", time.Since(cut).Round(time.Millisecond))
		if !h.near(pc.Host, "172.31.0.1", exact) {
			h.Error("after failing over the time is another one")
		}
		h.strays(fiber, lte)
	})
}

// TestTimeNeedsNoNames: by a clock that is months behind no signature of the
// internet is valid, so no name resolves. The time is had all the same, by
// addresses that are built in; and when its servers move, that is found out
// without validation, and kept.
func TestTimeNeedsNoNames(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "chronyd", "named", "dig")
		fiber := h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(unsaidDNS + `dns { engine = "bind" }`)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.Logf("the time is served after %v", h.until("the time is served", 30*time.Second, func() bool { return h.near(pc.Host, "172.31.0.1", exact) }))
		// The lab's root is not the one that named knows: nothing validates.
		if out := h.dig(pc.Host, "@172.31.0.1 time.cloudflare.com"); !strings.Contains(out, "SERVFAIL") {
			h.Errorf("names validate, and nothing was shown: %s", out)
		}
		asked := 0
		for _, a := range []string{"162.159.200.1", "162.159.200.123", "194.58.200.20", "194.0.5.123"} {
			asked += h.Clock.Asked(fiber.Inet, addr(a))
		}
		if asked < 9 {
			h.Errorf("the servers that are built in were asked %d times", asked)
		}
		if got := h.status().Time; got == nil || len(got.Sources) != len(chrony.BuiltIn) {
			h.Errorf("the status says %+v", got)
		}
	})
}

// TestTimeAcrossRestarts: a daemon that is killed, and chronyd with it, gives the
// time again within seconds, also where the LAN's file has changed meanwhile; and
// one that is told not to serve does not.
func TestTimeAcrossRestarts(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "chronyd")
		h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(base)
		h.until("the time is served", 40*time.Second, func() bool { return h.near(pc.Host, "172.31.0.1", exact) })
		h.end(9)
		if d, ok := h.ahead(pc.Host, "172.31.0.1"); ok {
			h.Errorf("chronyd outlives the daemon, and says %v ahead", d)
		}
		h.again()
		h.Logf("served again after %v", h.until("the time is served again", 30*time.Second, func() bool { return h.near(pc.Host, "172.31.0.1", exact) }))

		h.write(strings.Replace(base, `address   = ["172.31.0.1/24", "fd00::1/64"]`, `address   = ["172.31.0.1/24", "fd00::1/64", "fd00:9::1/64"]`, 1))
		_, err := h.tell("apply", "--yes", h.file)
		h.must(err)
		h.must(pc.Static(pfx("fd00:9::50/64"), addr("fd00:9::1")))
		h.until("a new network is served", 10*time.Second, func() bool { return h.near(pc.Host, "fd00:9::1", exact) })

		h.write(base + "time { serve = false }")
		_, err = h.tell("apply", "--yes", h.file)
		h.must(err)
		h.until("nobody is served", 10*time.Second, func() bool { _, ok := h.ahead(pc.Host, "172.31.0.1"); return !ok })
		h.until("the time is known all the same", 30*time.Second, func() bool { st := h.status().Time; return st != nil && st.Synchronised && !st.Served })
	})
}

// ntsServer is another chronyd on the internet, which proves who it is by a
// certificate for NAME and gives this machine's time. The lab's own time servers
// have port 123; clients are told its port in the key exchange (RFC 8915, 4.1.8).
const ntsServer = `
mkdir -p /run/nts; cd /run/nts; chmod 755 .
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=NAME -addext subjectAltName=DNS:NAME -keyout NAME.key -out NAME.crt 2>/dev/null
cat > NAME.conf <<'EOF'
local stratum 1
allow all
port PORT
ntsport KE
ntsserverkey /run/nts/NAME.key
ntsservercert /run/nts/NAME.crt
cmdport 0
bindcmdaddress /
pidfile /run/nts/NAME.pid
EOF
chronyd -x -u root -d -f /run/nts/NAME.conf >NAME.log 2>&1 &
until grep -q . NAME.log; do :; done
`

// TestTimeByNTS: a server that is named by nts:// is asked with network time
// security, and believed if its certificate is of somebody whom the machine trusts.
func TestTimeByNTS(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "chronyd", "chronyc", "openssl")
		fiber := h.connect(fiberLine())
		h.Name("nts.example", addr("198.18.7.1"))
		h.sh(fiber.Inet, strings.NewReplacer("NAME", "nts.example", "PORT", "11123", "KE", "4460").Replace(ntsServer))
		pc := h.join("pc", "", "172.31.0.50/24")
		file := base + `time { server = "nts://nts.example" }`
		h.start(file)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("the server is asked", 20*time.Second, func() bool { return strings.Contains(h.sh(fiber.Inet, "ss -tan"), ":4460") })
		if st := h.status().Time; st == nil || st.Synchronised {
			h.Errorf("a certificate that nobody trusts is believed: %+v", st)
		}
		h.end(9)

		// The machine comes to trust it: the lab's /etc leads to the outer one's.
		h.sh(h.gw, "rm /etc/ssl && mkdir -p /etc/ssl/certs && cp /run/nts/nts.example.crt /etc/ssl/certs/ca-certificates.crt")
		h.again()
		h.Logf("known after %v", h.until("the time is known", 40*time.Second, func() bool {
			st, err := h.tell("status", "--json")
			return err == nil && strings.Contains(st, `"synchronised":true`) || strings.Contains(st, `"synchronised": true`)
		}))
		if out := h.sh(h.gw, "chronyc -h "+h.dir+"/weir/chrony/chronyd.sock -c -n authdata"); !strings.Contains(out, "198.18.7.1,NTS,") {
			h.Errorf("it is asked without NTS: %s", out)
		}
		st := h.status().Time
		if st.Source != "nts.example" || st.BehindMS == nil || (time.Duration(*st.BehindMS*1e6)).Abs() > exact {
			h.Errorf("the status says %+v", st)
		}
	})
}

// TestWithoutChrony: where it is not installed the house works; nobody is told of
// a time server, and the status says why.
func TestWithoutChrony(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft")
		h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		h.sh(h.gw, "for p in /usr/sbin/chronyd /usr/bin/chronyd; do [ ! -e $p ] || mount --bind /dev/null $p; done")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		ack, err := h.join("tv", "02:00:00:00:00:77").Lease(h.Context())
		h.must(err)
		if s := ack.NTPServers(); len(s) > 0 {
			h.Errorf("a device is told to have the time from %v", s)
		}
		st := h.status()
		if st.Time != nil || !strings.Contains(strings.Join(st.Notes, "\n"), "chrony is not installed: apt-get install chrony") {
			h.Errorf("the status says %+v, notes %q", st.Time, st.Notes)
		}
	})
}
