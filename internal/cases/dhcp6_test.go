package cases

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOthersAskByDHCPv6: ISC dhclient, told by the advertisement that there is more
// to be had, gets resolver and domain by DHCPv6, and gets them from a server that was
// killed meanwhile.
func TestOthersAskByDHCPv6(t *testing.T) {
	in(t, func(h *house) {
		h.need("dhclient", "rdisc6")
		h.needRoot()
		h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(strings.Replace(base, `lan "home" {`, "lan \"home\" {\n  reach = wan\n  dhcp6 { enabled = true }\n", 1))
		script := h.dir + "/told"
		h.must(os.WriteFile(script, []byte("#!/bin/sh\nenv | grep ^new_dhcp6 >>"+h.dir+"/heard\nexit 0\n"), 0o755))
		h.until("advertisements say that there is more", 20*time.Second, func() bool {
			return strings.Contains(h.sh(pc.Host, "rdisc6 -1 -w 1000 e0 | grep 'other conf' || true"), "Yes")
		})
		for _, when := range []string{"at first", "after the server was killed"} {
			h.must(os.WriteFile(h.dir+"/heard", nil, 0o666))
			h.sh(pc.Host, "timeout 20 "+sbin("dhclient")+" -6 -S -1 -sf "+script+" -lf "+h.dir+"/l -pf "+h.dir+"/p e0 2>&1 || true; kill $(cat "+h.dir+"/p) 2>/dev/null || true")
			b, err := os.ReadFile(h.dir + "/heard")
			h.must(err)
			for _, want := range []string{"new_dhcp6_name_servers=fd00::1", "new_dhcp6_domain_search=local."} {
				if !strings.Contains(string(b), want) {
					t.Errorf("%s: dhclient heard %q, want %s", when, b, want)
				}
			}
			for _, s := range h.status().Services {
				if s.Name == "dhcpd6" {
					h.must(syscall.Kill(s.PID, syscall.SIGKILL))
				}
			}
		}
	})
}

// TestOnlyOtherConfiguration: the ISP's router makes addresses of its advertisements and
// says that there is more by DHCPv6 (O without M), and its server, ISC's, has a resolver
// and no prefix. The resolver is the line's, and changes with the server once the
// carrier was away.
func TestOnlyOtherConfiguration(t *testing.T) {
	in(t, func(h *house) {
		h.need("dhcpd", "radvd")
		h.needRoot()
		fiber := h.connect(bare(fiberLine()))
		h.radvd(fiber, "AdvOtherConfigFlag on;")
		leases := h.dir + "/isc6.leases"
		h.must(os.WriteFile(leases, nil, 0o666))
		h.sh(fiber.Router, "chmod 777 "+h.dir+"; chmod 666 "+leases)
		serve := func(resolver string) *server {
			conf := h.dir + "/isc6.conf"
			h.must(os.WriteFile(conf, []byte("option dhcp6.name-servers "+resolver+";\noption dhcp6.domain-search \"isp.example\";\nsubnet6 2001:db8:1::/64 { }\n"), 0o644))
			return h.serve(fiber.Router, "dhcpd", "-6", "-f", "-d", "-cf", conf, "-lf", leases, "-pf", h.dir+"/isc6.pid", "cust0")
		}
		first := serve("2001:db8:1::53")
		h.start(base)
		tells := func(resolver string) {
			h.Helper()
			h.until("the line's resolver is "+resolver, 40*time.Second, func() bool {
				out, err := h.tell("status", "--json")
				return err == nil && slices.Equal(h.status().WANs[0].IPv6.DNS, []string{resolver}) && strings.Contains(out, "2001:db8:1:")
			})
		}
		tells("2001:db8:1::53")
		if said := first.said(); !strings.Contains(said, "Information-request message") {
			t.Errorf("the server heard no Information-request: %s", said)
		}
		h.must(first.cmd.Process.Kill())
		_ = first.cmd.Wait() // its end is ours
		serve("2001:db8:1::54")
		h.must(fiber.Carrier(false))
		h.until("the carrier is lost", 5*time.Second, func() bool { return !h.status().WANs[0].Carrier })
		h.must(fiber.Carrier(true))
		tells("2001:db8:1::54")
	})
}

// TestAdvertisedResolvers: resolvers that the ISP's router advertises are the line's, are asked
// over it, outlive a restart of weir, and end when the router says so.
func TestAdvertisedResolvers(t *testing.T) {
	in(t, func(h *house) {
		h.need("radvd", "named", "dig")
		fiber := h.connect(bare(fiberLine()))
		radvd := h.radvd(fiber, "UnicastOnly on; RDNSS 2001:db8:1::1 fe80::53 { AdvRDNSSLifetime 3600; };")
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(unsaidDNS + "\ndns {\n  engine   = \"bind\"\n  validate = false\n  upstream = wan.fiber\n}\n")
		dns := func() string {
			if _, err := h.tell("status"); err != nil {
				return err.Error() // it is not there yet
			}
			return strings.Join(h.status().WANs[0].IPv6.DNS, " ")
		}
		h.until("the line's resolver is the router's", 40*time.Second, func() bool { return dns() == "2001:db8:1::1" })
		n := 0
		h.until("it is asked", 20*time.Second, func() bool {
			n++
			return strings.Contains(h.dig(pc.Host, fmt.Sprintf("@172.31.0.1 +short n%d.whoami.example TXT", n)), `"fiber"`)
		})
		// There is no advertisement unless somebody asks for it: a router that does not hear who asks is
		// as good as a gateway that does not ask.
		h.sh(fiber.Router, "nft add table inet deaf; nft 'add chain inet deaf in { type filter hook input priority 0; }'; nft add rule inet deaf in icmpv6 type nd-router-solicit counter drop")
		h.end(syscall.SIGKILL)
		h.again()
		h.until("routers are solicited", 20*time.Second, func() bool {
			return !strings.Contains(h.sh(fiber.Router, "nft list chain inet deaf in"), "packets 0 ")
		})
		h.answering()
		if got := dns(); got != "" {
			h.Errorf("the router heard nobody ask, and its resolver is known: %s", got)
		}
		h.sh(fiber.Router, "nft delete table inet deaf")
		h.end(syscall.SIGKILL)
		h.again()
		h.until("it is known to the next", 20*time.Second, func() bool { return dns() == "2001:db8:1::1" })
		h.must(radvd.cmd.Process.Kill())
		_ = radvd.cmd.Wait() // it was killed
		h.radvd(fiber, "RDNSS 2001:db8:1::1 { AdvRDNSSLifetime 0; };")
		h.until("it is no more", 20*time.Second, func() bool { return dns() == "" })
		h.strays(fiber)
	})
}
