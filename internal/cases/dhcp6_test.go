package cases

import (
	"os"
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
