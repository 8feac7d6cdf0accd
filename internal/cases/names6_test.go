package cases

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNamesOfIPv6: a device with a lease of DHCPv6 has a name in both directions, one
// with leases of both families both, and one that makes its own address that too;
// until it gives them back. With either resolver.
func TestNamesOfIPv6(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"forward", "bind"} {
		t.Run(engine, func(t *testing.T) {
			in(t, func(h *house) {
				h.need("dhclient", "udhcpc", "dig")
				if engine == "bind" {
					h.need("named")
				}
				h.needRoot()
				h.connect(fiberLine())
				pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
				h.start(strings.Replace(stateful, `"forward"`, `"`+engine+`"`, 1))
				dig := func(what string) string {
					return strings.Join(strings.Fields(h.sh(pc.Host, "dig @fd00::1 +short +time=1 +tries=1 "+what+" | grep -v '^;' | sort || true")), " ")
				}
				both := h.device("both", "02:00:00:00:07:01", map[string]string{"dhclient.conf": "send fqdn.fqdn \"both\";\nsend host-name \"both\";\n"})
				h.startOn(both, "sh", "-ec", "dhclient -4 -cf DIR/dhclient.conf -lf DIR/leases4 -pf DIR/pid4 e0; exec dhclient -6 -d -cf DIR/dhclient.conf -lf DIR/leases6 -pf DIR/pid6 e0")
				self := h.device("self", "02:00:00:00:07:02", nil)
				h.startOn(self, "udhcpc", "-f", "-i", "e0", "-x", "hostname:self", "-s", "/etc/udhcpc/default.script")

				ula := pfx("fd00::/64")
				var six netip.Addr
				h.until("the device has an address", 30*time.Second, func() bool {
					six = h.leased(both.Client, ula)
					return six.IsValid() && six.As16()[14] >= 0x10
				})
				h.until("it has a name in both families", 10*time.Second, func() bool {
					return strings.Contains(" "+dig("both.local AAAA")+" ", " "+six.String()+" ") && strings.HasPrefix(dig("both.local A"), "172.31.0.")
				})
				h.until("and in reverse", 5*time.Second, func() bool { return dig("-x "+six.String()) == "both.local." })

				own := h.hasIn(self.Client, ula, 20*time.Second)
				h.sh(self.Host, "ping -6 -c 1 -W 3 -I "+own.String()+" fd00::1")
				h.until("who makes its own address has it by its name", 20*time.Second, func() bool {
					return strings.Contains(" "+dig("self.local AAAA")+" ", " "+own.String()+" ") && dig("-x "+own.String()) == "self.local."
				})

				h.end(syscall.SIGKILL)
				h.again()
				h.until("names are there after a kill", 30*time.Second, func() bool {
					return strings.Contains(" "+dig("both.local AAAA")+" ", " "+six.String()+" ") && dig("-x "+six.String()) == "both.local."
				})
				h.sh(both.Host, "timeout 10 "+sbin("dhclient")+" -6 -r -cf "+both.dir+"/dhclient.conf -lf "+both.dir+"/leases6 -pf "+both.dir+"/pid6 e0 || true")
				h.until("what it gave back has no name", 10*time.Second, func() bool {
					return !strings.Contains(" "+dig("both.local AAAA")+" ", " "+six.String()+" ") && dig("-x "+six.String()) == ""
				})
				if got := dig("both.local A"); !strings.HasPrefix(got, "172.31.0.") {
					t.Errorf("its IPv4 name went too: %q", got)
				}
			})
		})
	}
}
