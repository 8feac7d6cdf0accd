package cases

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

// stateful is the base house with addresses and prefixes by DHCPv6.
var stateful = strings.Replace(base, `lan "home" {`, `lan "home" {
  dhcp6 {
    pool     = "::1000-::1fff"
    delegate = 60
  }`, 1)

// programs6 are the DHCPv6 clients that people have, asking for an address, and what
// they call themselves.
var programs6 = []struct {
	name, mac string
	files     map[string]string
	args      []string
	pd        bool // asks for a prefix besides
}{
	{
		name: "dhclient6", mac: "02:00:00:00:06:01",
		files: map[string]string{"dhclient.conf": "send fqdn.fqdn \"dhclient6\";\n"},
		args:  []string{"dhclient", "-6", "-d", "-cf", "DIR/dhclient.conf", "-lf", "DIR/leases", "-pf", "DIR/pid", "e0"},
	},
	{
		name: "dhcpcd6", mac: "02:00:00:00:06:02", pd: true,
		files: map[string]string{"dhcpcd.conf": "ipv6only\nhostname dhcpcd6\nfqdn both\nduid\nnoipv4\nslaac hwaddr\noption rapid_commit\noption domain_name_servers\ninterface e0\n  ipv6rs\n  ia_na 1\n  ia_pd 2 -\n"},
		args:  []string{"dhcpcd", "--nobackground", "--config", "DIR/dhcpcd.conf", "e0"},
	},
	{
		name: "networkd6", mac: "02:00:00:00:06:03", pd: true,
		files: map[string]string{
			"etc/systemd/network/e0.network": "[Match]\nName=e0\n[Network]\nDHCP=ipv6\nIPv6AcceptRA=yes\n[DHCPv6]\nPrefixDelegationHint=::/60\n",
			"etc/hostname":                   "networkd6\n",
		},
		args: []string{"sh", "-ec", "mkdir -p /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp; chown -R systemd-network: /run/systemd/netif; exec /lib/systemd/systemd-networkd"},
	},
}

// leases is what weir says of leases.
func (h *house) leases() (ls []api.Lease) {
	h.Helper()
	out, err := h.tell("leases", "--json")
	h.must(err)
	h.must(json.Unmarshal([]byte(out), &ls))
	return ls
}

// leased is a device's address of the pool in a network; invalid: none yet.
func (h *house) leased(c *lab.Client, in netip.Prefix) netip.Addr {
	h.Helper()
	as, err := c.Addrs("e0", true)
	h.must(err)
	for _, a := range as {
		b := a.Addr().As16()
		if in.Contains(a.Addr()) && [6]byte(b[8:14]) == [6]byte{} {
			return a.Addr()
		}
	}
	return netip.Addr{}
}

// TestOthersClientsOfDHCPv6: the DHCPv6 clients that people have get an address in
// each network, those that ask a prefix; a host of the file its own; and all of
// it is kept when the gateway is killed.
func TestOthersClientsOfDHCPv6(t *testing.T) {
	in(t, func(h *house) {
		h.need("dhclient", "dhcpcd", "systemd-networkd")
		h.needRoot()
		h.connect(delegatingLine(fiberLine(), first56))
		h.start(stateful)
		gua, ula := lan64(first56), pfx("fd00::/64")
		h.hasIn(h.join("pc", ""), gua, 20*time.Second) // what comes later a device hears of by and by
		devices := map[string]*device{}
		for _, p := range programs6 {
			d := h.device(p.name, p.mac, p.files)
			h.startOn(d, p.args...)
			devices[p.name] = d
		}
		nas := h.device("nas", "02:00:00:00:00:23", programs6[0].files)
		h.startOn(nas, programs6[0].args...)
		h.until("the host of the file has its own", 30*time.Second, func() bool {
			return h.leased(nas.Client, ula) == addr("fd00::23") && h.leased(nas.Client, gua) == addr("2001:db8:f100::23")
		})
		for _, p := range programs6 {
			d := devices[p.name]
			h.until(p.name+" has an address in each network", 30*time.Second, func() bool {
				a, b := h.leased(d.Client, ula), h.leased(d.Client, gua)
				return a.IsValid() && b.IsValid() && a.As16()[15] == b.As16()[15]
			})
			if as, by := h.seenAs(d.Host, h.leased(d.Client, gua)); as != h.leased(d.Client, gua) || by != "inet-fiber" {
				t.Errorf("%s is seen as %s by %q", p.name, as, by)
			}
		}
		count := func(what func(api.Lease) bool) (n int) {
			for _, l := range h.leases() {
				if what(l) {
					n++
				}
			}
			return n
		}
		h.until("weir tells of all of them", 10*time.Second, func() bool {
			parts := count(func(l api.Lease) bool {
				return l.Router != "" && strings.HasPrefix(l.Address, "2001:db8:f1") && strings.HasSuffix(l.Address, "/60")
			})
			return parts == 2 && count(func(l api.Lease) bool { return l.DUID != "" && l.Router == "" }) == 2*len(programs6)+2
		})
		if !slices.ContainsFunc(h.leases(), func(l api.Lease) bool {
			return l.Address == "fd00::23" && l.Static && l.MAC == "02:00:00:00:00:23" && l.Name == "nas"
		}) {
			t.Errorf("the host is not told of: %+v", h.leases())
		}
		for _, l := range h.leases() {
			if p, err := netip.ParsePrefix(l.Address); err == nil && l.Router != "" {
				if out, err := h.tell("why", p.Addr().Next().String(), "2001:db8:80::80"); err != nil || !strings.Contains(out, "fiber") || strings.Contains(out, "spoofed") {
					t.Errorf("why for who is behind a router: %v, %s", err, out)
				}
			}
		}
		before := h.leases()
		h.end(syscall.SIGKILL)
		h.again()
		h.until("it tells of the same after a kill", 20*time.Second, func() bool {
			_, err := h.tell("leases")
			return err == nil && len(h.leases()) == len(before)
		})
	})
}

// TestARouterInTheLAN: what it is delegated is routed to it: out as it is, and in as
// far as the policy has it; also after the gateway was killed; and not any more when
// it gave it back.
func TestARouterInTheLAN(t *testing.T) {
	in(t, func(h *house) {
		h.need("dhclient")
		h.needRoot()
		h.connect(delegatingLine(fiberLine(), first56))
		h.start(stateful)
		h.hasIn(h.join("early", ""), lan64(first56), 20*time.Second)
		r := h.device("router", "02:00:00:00:06:09", map[string]string{"script": "#!/bin/sh\n[ -z \"$new_ip6_prefix\" ] || echo $new_ip6_prefix >" + h.dir + "/router/prefix\nexit 0\n"})
		h.sh(r.Host, "chmod 755 "+r.dir+"/script")
		args := []string{"dhclient", "-6", "-P", "-d", "-sf", "DIR/script", "-lf", "DIR/leases", "-pf", "DIR/pid", "e0"}
		h.startOn(r, args...)
		var part netip.Prefix
		h.until("it has a prefix", 30*time.Second, func() bool {
			p, err := netip.ParsePrefix(strings.TrimSpace(h.sh(r.Host, "cat "+r.dir+"/prefix 2>/dev/null || true")))
			part = p
			return err == nil && first56.Contains(p.Addr()) && p.Bits() == 60
		})
		behind := part.Addr().Next()
		h.sh(r.Host, "ip -6 addr add "+behind.String()+"/128 dev lo")
		through := func() bool {
			as, by := h.seenAs(r.Host, behind)
			return as == behind && by == "inet-fiber"
		}
		h.until("what is behind it reaches the internet as itself", 20*time.Second, through)
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.sh(pc.Host, "ping -6 -c 1 -W 3 "+behind.String())
		h.end(syscall.SIGKILL)
		h.sh(h.gw, "ip -6 route del "+part.String())
		h.again()
		h.until("it does so after the gateway was killed, and its route lost", 30*time.Second, through)

		h.must(r.cmd.Process.Signal(syscall.SIGTERM))
		h.sh(r.Host, "timeout 10 "+sbin("dhclient")+" -6 -P -r -sf "+r.dir+"/script -lf "+r.dir+"/leases -pf "+r.dir+"/pid e0 || true")
		h.until("what it gave back is not routed to it", 10*time.Second, func() bool {
			return h.sh(h.gw, "ip -6 route show "+part.String()) == ""
		})
	})
}
