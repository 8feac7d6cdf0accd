package ruleset_test

import (
	"testing"

	"weir/internal/netns/netnstest"
)

// row is one question to the firewall.
type row struct {
	name   string
	from   string // who asks
	source string // by which address; "": the kernel's choice
	proto  string // tcp, udp, ping
	to     string
	port   int
	want   string // start of the answer; "refused", "silence"
}

// rows are what the house of testdata/house.hcl answers with fiber in use.
func rows() []row {
	return []row{
		// Out, translated, by the line in use.
		{"pc out", "pc", "", "tcp", "192.0.2.80", 7000, "inet:7000 for 198.51.100.10"},
		{"pc out, IPv6", "pc", "", "tcp", "2001:db8:80::80", 7000, "inet:7000 for 2001:db8:1::10"},
		{"pc out, UDP", "pc", "", "udp", "192.0.2.80", 7000, "inet:7000 for 198.51.100.10"},
		{"pc pings out", "pc", "", "ping", "192.0.2.80", 0, "pong"},
		{"pc pings out, IPv6", "pc", "", "ping", "2001:db8:80::80", 0, "pong"},
		{"guest out", "guest", "", "tcp", "192.0.2.80", 7000, "inet:7000 for 198.51.100.10"},
		{"guest out, IPv6", "guest", "", "tcp", "2001:db8:80::80", 7000, "inet:7000 for 2001:db8:1::10"},
		{"gateway out", "", "", "tcp", "192.0.2.80", 7000, "inet:7000 for 198.51.100.10"},
		{"gateway out, IPv6", "", "", "tcp", "2001:db8:80::80", 7000, "inet:7000 for 2001:db8:1::10"},
		{"gateway out by lte's cable", "", "172.31.255.2", "udp", "192.0.2.80", 7000, "inet:7000 for 198.51.100.10"},

		// From outside: forwards, by each line and family.
		{"web by fiber", "inet", "", "tcp", "198.51.100.10", 80, "nas:80 for 10.0.1.2"},
		{"web by fiber's other address", "inet", "", "tcp", "198.51.100.11", 443, "nas:443 for 10.0.1.2"},
		{"web by lte, in reserve", "inet", "", "tcp", "203.0.113.10", 80, "nas:80 for 10.0.2.2"},
		{"web by fiber, IPv6", "inet", "", "tcp", "2001:db8:1::10", 80, "nas:80 for 2001:db8:ff:1::2"},
		{"web by lte, IPv6", "inet", "", "tcp", "2001:db8:2::10", 443, "nas:443 for 2001:db8:ff:2::2"},
		{"quic by fiber", "inet", "", "udp", "198.51.100.10", 443, "nas:443 for 10.0.1.2"},
		{"quic by lte, IPv6", "inet", "", "udp", "2001:db8:2::10", 443, "nas:443 for "},
		{"cam by lte", "inet", "", "tcp", "203.0.113.10", 554, "camera:554 for 10.0.2.2"},
		{"cam has no IPv6", "inet", "", "tcp", "2001:db8:2::10", 554, "silence"},
		{"web for one of home's own range", "isp2", "172.31.0.98", "tcp", "172.31.0.200", 80, "nas:80 for 172.31.0.1"},
		{"web for one of home's own range, IPv6", "isp2", "fd00::98", "tcp", "fd00::200", 80, "nas:80 for fd00::1"},
		{"cam for one of the things' own range", "isp2", "172.31.30.98", "tcp", "172.31.30.200", 554, "camera:554 for 172.31.30.1"},
		{"rtp, same port", "inet", "", "udp", "198.51.100.10", 5060, "nas:5060 for 10.0.1.2"},
		{"rtp, same port, IPv6", "inet", "", "udp", "2001:db8:1::10", 5060, "nas:5060 for "},
		{"rtp, first port", "inet", "", "udp", "198.51.100.10", 10000, "nas:30000 for 10.0.1.2"},
		{"rtp, last port", "inet", "", "udp", "198.51.100.10", 10020, "nas:30020 for 10.0.1.2"},
		{"rtp, last port, IPv6", "inet", "", "udp", "2001:db8:1::10", 10020, "nas:30020 for "},
		{"rtp beyond the range", "inet", "", "udp", "198.51.100.10", 10021, "silence"},
		{"rtp is not on lte", "inet", "", "udp", "203.0.113.10", 5060, "silence"},
		{"rtp's range is not on lte", "inet", "", "udp", "203.0.113.10", 10020, "silence"},
		{"rtp is not TCP", "inet", "", "tcp", "198.51.100.10", 5060, "silence"},
		{"backup for the admin", "inet", "192.0.2.77", "tcp", "198.51.100.10", 2222, "nas:22 for 192.0.2.77"},
		{"backup for the admin by lte", "inet", "192.0.2.77", "tcp", "203.0.113.10", 2222, "nas:22 for 192.0.2.77"},
		{"backup for the admin, IPv6", "inet", "2001:db8:80::77", "tcp", "2001:db8:1::10", 2222, "nas:22 for 2001:db8:80::77"},
		{"backup for the admin, UDP", "inet", "192.0.2.77", "udp", "198.51.100.10", 2222, "nas:22 for 192.0.2.77"},
		{"backup for another", "inet", "192.0.2.80", "tcp", "198.51.100.10", 2222, "silence"},
		{"backup for another, IPv6", "inet", "2001:db8:80::80", "tcp", "2001:db8:1::10", 2222, "silence"},
		{"shy from outside", "inet", "", "tcp", "198.51.100.10", 8080, "nas:8080 for 10.0.1.2"},
		{"shy from outside, IPv6", "inet", "", "tcp", "2001:db8:1::10", 8080, "nas:8080 for "},

		// The user's rules come before forwards.
		{"a pest at the web", "inet", "192.0.2.66", "tcp", "198.51.100.10", 80, "silence"},
		{"a pest at the web, IPv6", "inet", "2001:db8:80::66", "tcp", "2001:db8:1::10", 80, "silence"},

		// What is closed.
		{"closed", "inet", "", "tcp", "198.51.100.10", 445, "silence"},
		{"closed, UDP", "inet", "", "udp", "198.51.100.10", 445, "silence"},
		{"closed by lte", "inet", "", "tcp", "203.0.113.10", 445, "silence"},
		{"closed, IPv6", "inet", "", "tcp", "2001:db8:1::10", 445, "silence"},
		{"ssh of the gateway", "inet", "", "tcp", "198.51.100.10", 22, "silence"},
		{"ssh of the gateway, IPv6", "inet", "", "tcp", "2001:db8:1::10", 22, "silence"},
		{"DNS of the gateway", "inet", "", "udp", "198.51.100.10", 53, "silence"},
		{"the gateway's time", "inet", "", "udp", "198.51.100.10", 123, "silence"},
		{"DNS of the gateway by lte", "inet", "", "udp", "203.0.113.10", 53, "silence"},
		{"DHCP of the gateway", "inet", "", "udp", "198.51.100.10", 67, "silence"},
		{"ping from outside", "inet", "", "ping", "198.51.100.10", 0, "pong"},
		{"ping from outside by lte", "inet", "", "ping", "203.0.113.10", 0, "pong"},
		{"ping from outside, IPv6", "inet", "", "ping", "2001:db8:1::10", 0, "pong"},
		{"ping from outside by lte, IPv6", "inet", "", "ping", "2001:db8:2::10", 0, "pong"},

		// Pings that the user's rules are about, answered or not by the line itself.
		{"a pest's ping", "inet", "192.0.2.66", "ping", "198.51.100.10", 0, "silence"},
		{"a pest's ping by lte", "inet", "192.0.2.66", "ping", "203.0.113.10", 0, "silence"},
		{"a pest's ping, IPv6", "inet", "2001:db8:80::66", "ping", "2001:db8:1::10", 0, "silence"},
		{"a pest's ping by lte, IPv6", "inet", "2001:db8:80::66", "ping", "2001:db8:2::10", 0, "silence"},
		{"the admin's ping", "inet", "192.0.2.77", "ping", "198.51.100.10", 0, "pong"},
		{"the admin's ping by lte", "inet", "192.0.2.77", "ping", "203.0.113.10", 0, "pong"},
		{"the admin's ping, IPv6", "inet", "2001:db8:80::77", "ping", "2001:db8:1::10", 0, "pong"},
		{"the admin's ping by lte, IPv6", "inet", "2001:db8:80::77", "ping", "2001:db8:2::10", 0, "pong"},
		{"a cold ping", "inet", "192.0.2.90", "ping", "198.51.100.10", 0, "refused"},
		{"a cold ping by lte", "inet", "192.0.2.90", "ping", "203.0.113.10", 0, "refused"},
		{"a cold ping, IPv6", "inet", "2001:db8:80::90", "ping", "2001:db8:1::10", 0, "refused"},
		{"a cold ping by lte, IPv6", "inet", "2001:db8:80::90", "ping", "2001:db8:2::10", 0, "refused"},
		{"a cold call of the web", "inet", "192.0.2.90", "tcp", "198.51.100.10", 80, "refused"},
		{"a cold call of quic", "inet", "192.0.2.90", "udp", "198.51.100.10", 443, "refused"},
		{"a cold call of quic by lte, IPv6", "inet", "2001:db8:80::90", "udp", "2001:db8:2::10", 443, "refused"},

		// Allowed to the gateway itself.
		{"the admin's ssh", "inet", "192.0.2.77", "tcp", "198.51.100.10", 22, "gateway:22 for 192.0.2.77"},
		{"the admin's ssh by lte", "inet", "192.0.2.77", "tcp", "203.0.113.10", 22, "gateway:22 for 192.0.2.77"},
		{"the admin's ssh, IPv6", "inet", "2001:db8:80::77", "tcp", "2001:db8:2::10", 22, "gateway:22 for 2001:db8:80::77"},
		{"the admin's other port", "inet", "192.0.2.77", "tcp", "198.51.100.10", 7000, "silence"},
		{"ident is refused", "inet", "", "tcp", "198.51.100.10", 113, "refused"},
		{"ident is refused, UDP", "inet", "", "udp", "198.51.100.10", 113, "refused"},
		{"ident is refused, UDP by lte", "inet", "", "udp", "203.0.113.10", 113, "refused"},
		{"ident is refused, UDP, IPv6", "inet", "", "udp", "2001:db8:2::10", 113, "refused"},
		{"ident is refused, IPv6", "inet", "", "tcp", "2001:db8:2::10", 113, "refused"},

		// Hairpin, from every LAN, by every line.
		{"hairpin", "pc", "", "tcp", "198.51.100.10", 80, "nas:80 for 172.31.0.1"},
		{"hairpin by lte", "pc", "", "tcp", "203.0.113.10", 80, "nas:80 for 172.31.0.1"},
		{"hairpin, IPv6", "pc", "", "tcp", "2001:db8:2::10", 80, "nas:80 for fd00::1"},
		{"hairpin to oneself", "nas", "", "tcp", "198.51.100.10", 80, "nas:80 for 172.31.0.1"},
		{"hairpin from another LAN", "guest", "", "tcp", "198.51.100.10", 80, "nas:80 for 172.31.20.50"},
		{"hairpin from another LAN, IPv6", "guest", "", "tcp", "2001:db8:1::10", 80, "nas:80 for fd00:20::50"},
		{"hairpin of quic", "pc", "", "udp", "203.0.113.10", 443, "nas:443 for 172.31.0.1"},
		{"hairpin of quic, IPv6", "pc", "", "udp", "2001:db8:2::10", 443, "nas:443 for fd00::1"},
		{"hairpin of the camera to itself", "camera", "", "tcp", "203.0.113.10", 554, "camera:554 for 172.31.30.1"},
		{"hairpin of rtp", "pc", "", "udp", "198.51.100.10", 5060, "nas:5060 for 172.31.0.1"},
		{"hairpin of rtp, IPv6", "pc", "", "udp", "2001:db8:1::10", 5060, "nas:5060 for "},
		{"hairpin of rtp's range", "pc", "", "udp", "198.51.100.11", 10003, "nas:30003 for 172.31.0.1"},
		{"hairpin of rtp's range, IPv6", "pc", "", "udp", "2001:db8:1::10", 10003, "nas:30003 for "},
		{"hairpin of rtp by lte", "pc", "", "udp", "203.0.113.10", 5060, "refused"},
		{"no hairpin of the shy", "pc", "", "tcp", "198.51.100.10", 8080, "refused"},
		{"no hairpin of the limited", "pc", "", "tcp", "198.51.100.10", 2222, "refused"},
		{"unclaimed", "pc", "", "tcp", "198.51.100.10", 445, "refused"},
		{"unclaimed, UDP", "pc", "", "udp", "203.0.113.10", 445, "refused"},
		{"unclaimed, IPv6", "pc", "", "tcp", "2001:db8:2::10", 445, "refused"},
		{"unclaimed from the guest", "guest", "", "tcp", "198.51.100.10", 22, "refused"},

		// Between LANs.
		{"home to guest", "pc", "", "tcp", "172.31.20.50", 445, "guest:445 for 172.31.0.50"},
		{"home to things, IPv6", "pc", "", "tcp", "fd00:30::8", 554, "camera:554 for fd00::50"},
		{"guest to home", "guest", "", "tcp", "172.31.0.50", 445, "refused"},
		{"guest to home, UDP", "guest", "", "udp", "172.31.0.50", 445, "refused"},
		{"guest to home, IPv6", "guest", "", "tcp", "fd00::50", 445, "refused"},
		{"guest to home, UDP over IPv6", "guest", "", "udp", "fd00::50", 445, "refused"},
		{"guest pings home", "guest", "", "ping", "172.31.0.50", 0, "refused"},
		{"guest prints", "guest", "", "tcp", "172.31.0.23", 631, "nas:631 for 172.31.20.50"},
		{"guest prints, IPv6", "guest", "", "tcp", "fd00::23", 9102, "nas:9102 for fd00:20::50"},
		{"guest prints elsewhere", "guest", "", "tcp", "172.31.0.23", 9103, "refused"},
		{"camera to nas", "camera", "", "tcp", "172.31.0.23", 445, "nas:445 for 172.31.30.8"},
		{"camera to nas, IPv6", "camera", "", "tcp", "fd00::23", 445, "nas:445 for fd00:30::8"},
		{"camera to a device without an address of its own", "camera", "", "tcp", "172.31.20.50", 445, "guest:445 for 172.31.30.8"},
		{"camera to the same, IPv6", "camera", "", "tcp", "fd00:20::50", 445, "guest:445 for fd00:30::8"},
		{"camera to pc", "camera", "", "tcp", "172.31.0.50", 445, "refused"},
		{"camera out", "camera", "", "tcp", "192.0.2.80", 7000, "refused"},
		{"camera out where it may", "camera", "", "tcp", "192.0.2.90", 7000, "inet:7000 for 198.51.100.10"},

		// The user's rules for what goes out.
		{"no mail", "pc", "", "tcp", "192.0.2.80", 25, "refused"},
		{"mail by a guest", "guest", "", "tcp", "192.0.2.80", 25, "inet:25 for 198.51.100.10"},
		{"bedtime", "tablet", "", "udp", "192.0.2.80", 7000, "silence"},
		{"bedtime, IPv6", "tablet", "", "udp", "2001:db8:80::80", 7000, "silence"},
		{"bedtime for pings", "tablet", "", "ping", "2001:db8:80::80", 0, "silence"},
		{"bedtime is not for TCP", "tablet", "", "tcp", "192.0.2.80", 7000, "inet:7000 for 198.51.100.10"},

		// The gateway itself.
		{"home to the gateway's ssh", "pc", "", "tcp", "172.31.0.1", 22, "gateway:22 for 172.31.0.50"},
		{"home to the gateway's ssh, IPv6", "pc", "", "tcp", "fd00::1", 22, "gateway:22 for fd00::50"},
		{"guest to the gateway's ssh", "guest", "", "tcp", "172.31.20.1", 22, "refused"},
		{"guest to the gateway's ssh, IPv6", "guest", "", "tcp", "fd00:20::1", 22, "refused"},
		{"guest to the gateway's ssh in another LAN", "guest", "", "tcp", "172.31.0.1", 22, "refused"},
		{"guest to the cable", "guest", "", "tcp", "172.31.255.0", 22, "refused"},
		{"guest to some UDP of the gateway", "guest", "", "udp", "172.31.20.1", 7000, "refused"},
		{"guest asks DNS", "guest", "", "udp", "172.31.20.1", 53, "gateway:53 for 172.31.20.50"},
		{"guest asks DNS over TCP", "guest", "", "tcp", "fd00:20::1", 53, "gateway:53 for fd00:20::50"},
		{"guest asks DHCP", "guest", "", "udp", "172.31.20.1", 67, "gateway:67 for 172.31.20.50"},
		{"guest asks DHCPv6", "guest", "", "udp", "fd00:20::1", 547, "gateway:547 for fd00:20::50"},
		{"camera asks DHCPv6, where none is served", "camera", "", "udp", "fd00:30::1", 547, "refused"},
		{"guest pings the gateway", "guest", "", "ping", "172.31.20.1", 0, "pong"},
		{"guest pings the gateway, IPv6", "guest", "", "ping", "fd00:20::1", 0, "pong"},
		{"camera to itself's gateway", "camera", "", "tcp", "172.31.30.1", 22, "gateway:22 for 172.31.30.8"},
		{"camera to the gateway, IPv6", "camera", "", "tcp", "fd00:30::1", 22, "refused"},
		{"camera asks DNS over TCP", "camera", "", "tcp", "172.31.30.1", 53, "refused"},
		{"camera asks DNS over TCP and IPv6", "camera", "", "tcp", "fd00:30::1", 53, "refused"},
		{"camera asks DNS", "camera", "", "udp", "172.31.30.1", 53, "gateway:53 for 172.31.30.8"},
		{"camera asks the time", "camera", "", "udp", "fd00:30::1", 123, "gateway:123 for fd00:30::8"},
		{"guest asks the time", "guest", "", "udp", "172.31.20.1", 123, "gateway:123 for 172.31.20.50"},
		{"camera's own port", "camera", "", "udp", "fd00:30::1", 445, "gateway:445 for fd00:30::8"},
		{"camera's own port, IPv4", "camera", "", "udp", "172.31.0.1", 445, "gateway:445 for 172.31.30.8"},
		{"a line's resolver, that has an address of ours", "", "", "udp", "172.31.255.1", 53, "isp1:53 for 198.51.100.10"},
		{"a line's resolver, that has an address of ours, IPv6", "", "", "tcp", "fd00:ff::1", 53, "isp1:53 for 2001:db8:1::10"},
		{"the other line's resolver", "", "", "tcp", "172.31.255.3", 53, "inet:53 for 203.0.113.10"},
		{"the other line's resolver, IPv6", "", "", "udp", "fd00:ff::3", 53, "inet:53 for 2001:db8:2::10"},
		{"the other line's second resolver", "", "", "tcp", "172.31.255.3", 54, "inet:53 for 203.0.113.10"},
		{"the other line's second resolver, IPv6", "", "", "udp", "fd00:ff::3", 54, "inet:53 for 2001:db8:2::10"},

		// Sources that cannot be.
		{"guest as somebody at home", "guest", "172.31.0.99", "udp", "192.0.2.80", 7000, "silence"},
		{"guest as somebody at home, IPv6", "guest", "fd00::99", "udp", "2001:db8:80::80", 7000, "silence"},
		{"guest as somebody at home, to the gateway", "guest", "172.31.0.99", "udp", "172.31.20.1", 53, "silence"},
		{"pc as nobody here", "pc", "198.18.0.1", "udp", "192.0.2.80", 7000, "silence"},
		{"pc as nobody here, IPv6", "pc", "fd00:77::1", "udp", "2001:db8:80::80", 7000, "silence"},
		{"camera as nobody here", "camera", "198.18.0.1", "udp", "192.0.2.90", 7000, "silence"},
		{"camera as somebody at home, IPv6", "camera", "fd00::98", "udp", "fd00::23", 445, "silence"},
		{"inet as somebody at home", "inet", "172.31.0.99", "udp", "198.51.100.10", 5060, "silence"},
		{"inet as somebody at home, IPv6", "inet", "fd00::99", "udp", "2001:db8:1::10", 5060, "silence"},
		{"inet as a guest, by lte", "inet", "172.31.20.99", "udp", "203.0.113.10", 443, "silence"},
		{"inet as a guest, by lte, IPv6", "inet", "fd00:20::99", "udp", "2001:db8:2::10", 443, "silence"},
		{"inet as a guest, to the gateway", "inet", "172.31.20.99", "tcp", "203.0.113.10", 113, "silence"},
		{"inet as the cable", "inet", "172.31.255.4", "udp", "198.51.100.10", 5060, "silence"},

		// Links that are not weir's.
		{"stranger to the gateway", "stranger", "", "tcp", "10.99.0.1", 7000, "gateway:7000 for 10.99.0.2"},
		{"stranger to stranger", "stranger", "", "tcp", "10.98.0.2", 7000, "other:7000 for 10.99.0.2"},
		{"stranger to home", "stranger", "", "tcp", "172.31.0.50", 445, "refused"},
		{"stranger to the internet", "stranger", "", "udp", "192.0.2.80", 7000, "refused"},
		{"stranger where it may", "stranger", "", "tcp", "172.31.0.23", 445, "nas:445 for 10.99.0.2"},
		{"home to stranger", "pc", "", "tcp", "10.98.0.2", 7000, "refused"},

		// A line's namespace says nothing of itself.
		{"from fiber's own namespace", "wan-fiber", "", "tcp", "192.0.2.80", 7000, "silence"},
		{"from fiber's own namespace, IPv6", "wan-fiber", "", "udp", "2001:db8:80::80", 7000, "refused"},
	}
}

// rowsOnLTE are what it answers with lte in use, where that is something else
// or has to be the same.
func rowsOnLTE() []row {
	return []row{
		{"pc out", "pc", "", "tcp", "192.0.2.80", 7000, "inet:7000 for 203.0.113.10"},
		{"pc out, IPv6", "pc", "", "tcp", "2001:db8:80::80", 7000, "inet:7000 for 2001:db8:2::10"},
		{"gateway out", "", "", "tcp", "192.0.2.80", 7000, "inet:7000 for 203.0.113.10"},
		{"gateway out, IPv6", "", "", "udp", "2001:db8:80::80", 7000, "inet:7000 for 2001:db8:2::10"},
		{"web by fiber", "inet", "", "tcp", "198.51.100.10", 80, "nas:80 for 10.0.1.2"},
		{"web by fiber, IPv6", "inet", "", "tcp", "2001:db8:1::10", 80, "nas:80 for 2001:db8:ff:1::2"},
		{"web by lte", "inet", "", "tcp", "203.0.113.10", 80, "nas:80 for 10.0.2.2"},
		{"the admin's ssh by fiber", "inet", "192.0.2.77", "tcp", "198.51.100.10", 22, "gateway:22 for 192.0.2.77"},
		{"the admin's ssh by fiber, IPv6", "inet", "2001:db8:80::77", "tcp", "2001:db8:1::10", 22, "gateway:22 for 2001:db8:80::77"},
		{"hairpin by fiber", "pc", "", "tcp", "198.51.100.10", 80, "nas:80 for 172.31.0.1"},
		{"fiber's resolver", "", "", "udp", "172.31.255.1", 53, "inet:53 for 198.51.100.10"},
		{"fiber's resolver, IPv6", "", "", "tcp", "fd00:ff::1", 53, "inet:53 for 2001:db8:1::10"},
		{"lte's resolver, that has an address of ours", "", "", "tcp", "172.31.255.3", 53, "isp2:53 for 203.0.113.10"},
		{"lte's resolver, that has an address of ours, IPv6", "", "", "udp", "fd00:ff::3", 53, "isp2:53 for 2001:db8:2::10"},
		{"unclaimed of fiber", "pc", "", "tcp", "198.51.100.10", 445, "refused"},
	}
}

func TestPacketsObey(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		w := bringUp(t)
		for what, how := range w.try() {
			t.Errorf("%s: %s", what, how)
		}
	})
}
