package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"weir/internal/netns/netnstest"
)

// Whatever somebody does to what is ours, the next plan names exactly that,
// apply mends it, and the plan after is empty. What is not ours stays.
func TestDamage(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.turn()
		for _, c := range damages {
			t.Run(c.name, func(t *testing.T) {
				b.TB = t
				b.run(c.ns, c.do)
				p := b.plan()
				got := lines(p)
				if c.notes != "" {
					if !slices.Contains(got, c.notes) {
						t.Errorf("the plan does not say %q", c.notes)
					}
					got = slices.DeleteFunc(got, func(l string) bool { return strings.HasPrefix(l, "note: ") })
				}
				got = got[:len(got)-1] // the count
				if !slices.Equal(got, c.want) {
					t.Errorf("the plan says\n  %s\nand should say\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
				}
				b.turn()
				if c.after != "" {
					b.run(c.ns, c.after)
				}
			})
		}
		b.TB = t
	})
}

// A damage is done by a shell command in a namespace. after has to succeed when
// it is mended: it sees to it that something was left alone, and takes it away.
var damages = []struct {
	name, ns, do string
	want         []string
	notes        string
	after        string
}{
	// Addresses.
	{name: "address deleted", do: "ip addr del 172.31.0.1/24 dev eth0", want: []string{
		"! main address eth0 172.31.0.1/24 (removed by hand, will come back)",
		// The kernel took the route that has it as source.
		"! main route default via 172.31.1.1 dev fiber src 172.31.0.1 (removed by hand, will come back)"}},
	{name: "IPv6 address deleted", do: "ip addr del fd00::1/64 dev eth0", want: []string{
		"! main address eth0 fd00::1/64 (removed by hand, will come back)"}},
	{name: "address of another length", do: "ip addr del fd00::1/64 dev eth0; ip addr add fd00::1/96 dev eth0 nodad", want: []string{
		"! main address eth0 fd00::1/96 -> fd00::1/64 (changed by hand)"}},
	{name: "route to a network deleted", do: "ip route del 172.31.0.0/24 dev eth0", want: []string{
		"! main address eth0 172.31.0.1/24 (the kernel's routes for it were removed by hand)"},
		after: "ip route show 172.31.0.0/24 | grep -q 'dev eth0 proto kernel scope link src 172.31.0.1'"},
	{name: "local route deleted", do: "ip route del local 172.31.0.1 table local", want: []string{
		"! main address eth0 172.31.0.1/24 (the kernel's routes for it were removed by hand)"},
		after: "ip route show table local 172.31.0.1 | grep -q 'local 172.31.0.1 dev eth0 proto kernel scope host src 172.31.0.1'"},
	{name: "IPv6 route to a network deleted", do: "ip -6 route del fd00::/64 dev eth0", want: []string{
		"! main address eth0 fd00::1/64 (the kernel's routes for it were removed by hand)"},
		after: "ip -6 route show fd00::/64 | grep -q 'dev eth0 proto kernel metric 256'"},
	{name: "route to a network replaced by another's", do: "ip route replace 172.31.0.0/24 dev eth0 proto static", after: "ip route replace 172.31.0.0/24 dev eth0 proto kernel scope link src 172.31.0.1"},
	{name: "tables main and local flushed", do: "ip route flush table main; ip route flush table local", want: []string{
		"! main address fiber 172.31.1.0/31 (the kernel's routes for it were removed by hand)",
		"! main address eth0 172.31.0.1/24 (the kernel's routes for it were removed by hand)",
		"! main address iot 172.31.2.1/24 (the kernel's routes for it were removed by hand)",
		"! main route default via 172.31.1.1 dev fiber src 172.31.0.1 (removed by hand, will come back)"}},
	{name: "IPv6's table main flushed", do: "ip -6 route flush table main", want: []string{
		"! main address fiber fd00:1::/127 (the kernel's routes for it were removed by hand)",
		"! main address eth0 fd00::1/64 (the kernel's routes for it were removed by hand)",
		"! main route default IPv6 unreachable (removed by hand, will come back)"}},
	// Addresses are judged when they are a second old, and nobody else has them.
	{name: "IPv6's table local flushed", do: "while ip -6 addr show tentative | grep -q .; do sleep 0.05; done; sleep 1; ip -6 route add 2001:db8:9::/64 dev eth0 src fd00::1 proto static; ip -6 route flush table local; ip -6 route add local ::1 dev lo table local", want: []string{
		"! main address fiber fd00:1::/127 (the kernel's routes for it were removed by hand)",
		"! main address eth0 fd00::1/64 (the kernel's routes for it were removed by hand)",
		"! main address eth0 fe80::ff:fe00:30/64 (the kernel's routes for it were removed by hand)",
		"! main address iot fe80::ff:fe00:32/64 (the kernel's routes for it were removed by hand)"},
		after: "ip -6 route show table local | grep -q '^local fd00::1 dev eth0 proto kernel metric 0'; ip -6 route show table local | grep -q '^multicast ff00::/8 dev fiber'; " +
			"ip -6 route show 2001:db8:9::/64 | grep -q 'src fd00::1'; ip -6 route del 2001:db8:9::/64"},
	{name: "address added", do: "ip addr add 10.9.9.9/24 dev eth0", want: []string{
		"! main address eth0 10.9.9.9/24 (added by hand)"}},
	{name: "address of the same network added", do: "ip addr add 172.31.0.2/24 dev eth0", want: []string{
		"! main address eth0 172.31.0.2/24 (added by hand)"}},
	{name: "address put before ours", do: "ip addr del 172.31.0.1/24 dev eth0; ip addr add 172.31.0.2/24 dev eth0; ip addr add 172.31.0.1/24 dev eth0; ip route add default via 172.31.1.1 dev fiber src 172.31.0.1 proto 87", want: []string{
		"! main address eth0 172.31.0.2/24 (added by hand)"}},
	{name: "foreign address on a WAN's port", ns: "wan-fiber", do: "ip addr add 192.168.100.2/24 dev eth1", want: []string{
		"! wan-fiber address eth1 192.168.100.2/24 (added by hand)"}},
	{name: "address on a link that is not ours", do: "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up",
		after: "ip addr show dev docker0 | grep -q 172.17.0.1/16; ip link del docker0"},

	// Links.
	{name: "port down", do: "ip link set eth0 down", want: []string{
		"! main address eth0 fd00::1/64 (removed by hand, will come back)",
		"! main link eth0 down -> up (changed by hand)"}},
	{name: "port moved away", do: "ip -n wan-fiber link set eth1 netns $$", want: []string{
		"~ wan-fiber link eth1 in main -> wan-fiber",
		"~ wan-fiber sysctl net/ipv6/conf/eth1/accept_ra 2",
		"+ wan-fiber address eth1 198.51.100.10/24",
		"~ wan-fiber link eth1 down -> up",
		"+ wan-fiber route default via 198.51.100.1 dev eth1"}},
	{name: "cable deleted", do: "ip link del fiber", want: []string{
		"! main link fiber cable to lan in wan-fiber (removed by hand, will come back)",
		"~ main sysctl net/ipv4/conf/fiber/rp_filter 0",
		"~ wan-fiber sysctl net/ipv4/conf/lan/accept_local 1",
		"+ main address fiber 172.31.1.0/31",
		"+ main address fiber fd00:1::/127",
		"+ wan-fiber address lan 172.31.1.1/31",
		"+ wan-fiber address lan fd00:1::1/127",
		"~ main link fiber down -> up",
		"~ wan-fiber link lan down -> up",
		"+ main route default table 87001 via 172.31.1.1 dev fiber",
		"+ main route default IPv6 table 87001 via fd00:1::1 dev fiber",
		"+ main route default via 172.31.1.1 dev fiber src 172.31.0.1",
		"+ wan-fiber route default table 87000 via 172.31.1.0 dev lan",
		"+ wan-fiber route default IPv6 table 87000 via fd00:1:: dev lan"}},
	{name: "cable's mark taken off", do: "ip link set fiber alias mine", want: []string{
		"! main link fiber unmarked -> marked as weir's (changed by hand)"}},
	{name: "cable's mode changed", do: "ip link set fiber addrgenmode eui64", want: []string{
		"! main link fiber addrgenmode eui64 -> none (changed by hand)"}},
	{name: "bridge deleted", do: "ip link del iot", want: []string{
		"! main link iot bridge (removed by hand, will come back)",
		"! main link eth2 no bridge -> bridge iot (changed by hand)",
		"+ main address iot 172.31.2.1/24",
		"~ main link iot down -> up"}},
	{name: "bridge's mark taken off", do: "ip link set iot alias ''", want: []string{
		"! main link iot unmarked -> marked as weir's (changed by hand)"}},
	{name: "port out of its bridge", do: "ip link set eth2 nomaster", want: []string{
		"! main link eth2 no bridge -> bridge iot (changed by hand)"}},
	{name: "port in another bridge", do: "ip link add docker0 type bridge; ip link set eth0 master docker0", want: []string{
		"! main link eth0 bridge docker0 -> no bridge (changed by hand)"},
		after: "ip link del docker0"},
	{name: "a second link with our mark", do: "ip link add twin type bridge; ip link set twin alias weir", want: []string{
		"! main link twin bridge (added by hand)"}},
	{name: "foreign port in our bridge", do: "ip link add vm0 type veth peer name vm1; ip link set vm0 master iot",
		after: "ip -o link show vm0 | grep -q 'master iot'; ip link del vm0"},

	// Routes.
	{name: "route deleted", do: "ip route del default table 87001", want: []string{
		"! main route default table 87001 via 172.31.1.1 dev fiber (removed by hand, will come back)"}},
	{name: "route changed", do: "ip route replace default via 172.31.0.9 dev eth0 proto 87", want: []string{
		"! main route default via 172.31.0.9 dev eth0 -> via 172.31.1.1 dev fiber src 172.31.0.1 (changed by hand)"}},
	{name: "IPv6 route changed", do: "ip -6 route replace default via fd00::9 dev eth0 proto 87", want: []string{
		"! main route default IPv6 via fd00::9 dev eth0 -> unreachable (changed by hand)"}},
	{name: "route doubled", do: "ip route append default via 172.31.0.9 dev eth0 proto 87", want: []string{
		"! main route default via 172.31.0.9 dev eth0 (added by hand)"}},
	{name: "route of several next hops", do: "ip route replace default proto 87 nexthop via 172.31.1.1 dev fiber nexthop via 172.31.0.9 dev eth0", want: []string{
		"! main route default nexthop via 172.31.1.1 dev fiber weight 1 nexthop via 172.31.0.9 dev eth0 weight 1 -> via 172.31.1.1 dev fiber src 172.31.0.1 (changed by hand)"}},
	{name: "route with our mark added", do: "ip route add 10.8.0.0/16 via 172.31.0.9 proto 87", want: []string{
		"! main route 10.8.0.0/16 via 172.31.0.9 dev eth0 (added by hand)"}},
	{name: "foreign route in a table of ours", do: "ip route add 10.8.0.0/16 via 172.31.0.9 table 87001", want: []string{
		"! main route 10.8.0.0/16 table 87001 via 172.31.0.9 dev eth0 (added by hand)"}},
	{name: "foreign route left alone", do: "ip route add 10.8.0.0/16 via 172.31.0.9; ip route add 10.9.0.0/16 via 172.31.0.9 table 100",
		after: "ip route show 10.8.0.0/16 | grep -q 172.31.0.9; ip route show table 100 | grep -q 10.9.0.0/16; ip route del 10.8.0.0/16; ip route flush table 100"},
	{name: "foreign default route behind ours", do: "ip route add default via 172.31.0.9 metric 100",
		notes: "note: main has another default route, which is not weir's and stays behind it: default via 172.31.0.9 dev eth0 metric 100",
		want:  []string{},
		after: "ip route del default via 172.31.0.9 metric 100"},
	{name: "foreign default route in our place", do: "ip route replace default via 172.31.0.9", want: []string{
		"~ main route default via 172.31.0.9 dev eth0 -> via 172.31.1.1 dev fiber src 172.31.0.1 (somebody else's; `weir down` gives it back)"}},
	{name: "foreign IPv6 default route before ours", do: "ip -6 route add default via fd00::9 metric 100", want: []string{
		"- main route default IPv6 via fd00::9 dev eth0 metric 100 (somebody else's, and would win over ours; `weir down` gives it back)"}},

	// Rules.
	{name: "rule deleted", do: "ip rule del pref 8701", want: []string{
		"! main rule 8701 oif fiber lookup 87001 (removed by hand, will come back)"}},
	{name: "all rules but the first flushed", do: "ip rule flush", want: []string{
		"! main rule 8701 oif fiber lookup 87001 (removed by hand, will come back)",
		"! main rule 9001 fwmark 0x101/0x3ff lookup 87001 (removed by hand, will come back)",
		"! main rule 9301 fwmark 0x1/0x3ff lookup 87001 (removed by hand, will come back)",
		"! main rule 32766 lookup main (removed by hand, will come back)"}},
	{name: "the kernel's rules deleted", do: "ip rule del lookup local; ip rule del lookup main; ip -6 rule del lookup local; ip -6 rule del lookup main", want: []string{
		"! main rule 0 lookup local (removed by hand, will come back)",
		"! main rule 0 IPv6 lookup local (removed by hand, will come back)",
		"! main rule 32766 lookup main (removed by hand, will come back)",
		"! main rule 32766 IPv6 lookup main (removed by hand, will come back)"}},
	{name: "rule of table main elsewhere", do: "ip rule del lookup main; ip rule add pref 32000 lookup main",
		after: "ip rule del pref 32000; ip rule add pref 32766 lookup main"},
	{name: "a foreign rule that uses table main for some", do: "ip rule del lookup main; ip rule add pref 32000 lookup main suppress_prefixlength 0", want: []string{
		"! main rule 32766 lookup main (removed by hand, will come back)"},
		after: "ip rule del pref 32000"},
	{name: "a foreign rule that uses table local for some", do: "ip -6 rule del lookup local; ip -6 rule add pref 0 sport 53 lookup local", want: []string{
		"! main rule 0 IPv6 lookup local (removed by hand, will come back)"},
		after: "ip -6 rule del pref 0 sport 53"},
	{name: "a WAN's rule of table main deleted", ns: "wan-fiber", do: "ip rule del lookup main", want: []string{
		"! wan-fiber rule 32766 lookup main (removed by hand, will come back)"}},
	{name: "rule changed", do: "ip rule del pref 8701; ip rule add pref 8701 oif fiber lookup 5 protocol 87", want: []string{
		"! main rule 8701 oif fiber lookup 5 -> 87001 (changed by hand)"}},
	{name: "rule doubled", do: "ip rule add pref 8702 oif fiber lookup 87001 protocol 87", want: []string{
		"! main rule 8702 oif fiber lookup 87001 (added by hand)"}},
	{name: "rule with more in it", do: "ip -6 rule del pref 9001; ip -6 rule add pref 9001 from fd00::/64 fwmark 0x101/0x3ff lookup 87001 protocol 87", want: []string{
		"! main rule 9001 IPv6 from some sources fwmark 0x101/0x3ff lookup 87001 -> fwmark 0x101/0x3ff lookup 87001 (changed by hand)"}},
	{name: "rule narrowed to a protocol", do: "ip rule del pref 9001; ip rule add pref 9001 fwmark 0x101/0x3ff ipproto tcp lookup 87001 protocol 87", want: []string{
		"! main rule 9001 fwmark 0x101/0x3ff ipproto tcp lookup 87001 -> fwmark 0x101/0x3ff lookup 87001 (changed by hand)"}},
	{name: "rule for another protocol added", do: "ip -6 rule add pref 8702 oif fiber ipproto 132 lookup 87001 protocol 87", want: []string{
		"! main rule 8702 IPv6 oif fiber ipproto 132 lookup 87001 (added by hand)"}},
	{name: "foreign rules left alone", do: "ip rule add pref 8701 oif fiber lookup 100; ip rule add pref 50 from 10.0.0.0/8 lookup 100",
		after: "ip rule del pref 8701 oif fiber lookup 100; ip rule del pref 50 from 10.0.0.0/8 lookup 100"},
	{name: "local rule back at 0", ns: "wan-fiber", do: "ip rule add pref 0 lookup local", want: []string{
		"- wan-fiber rule 0 lookup local (marks are looked at first)"}},

	// Sysctls.
	{name: "sysctl changed", do: "echo 0 >/proc/sys/net/ipv4/ip_forward", want: []string{
		"! main sysctl net/ipv4/ip_forward 0 -> 1 (changed by hand)"}},
	{name: "sysctl of a link changed", ns: "wan-fiber", do: "echo 0 >/proc/sys/net/ipv6/conf/eth1/accept_ra", want: []string{
		"! wan-fiber sysctl net/ipv6/conf/eth1/accept_ra 0 -> 2 (changed by hand)"}},
	{name: "sysctl of ours left alone", do: "echo 7 >/proc/sys/net/ipv4/ip_default_ttl",
		after: "grep -q ^7$ /proc/sys/net/ipv4/ip_default_ttl"},

	// The nft table.
	{name: "rule of the table deleted", do: `nft delete rule inet weir through handle $(nft -a list chain inet weir through | sed -n 's/.*"web".*handle //p')`, want: []string{
		`! main nft table weir rule "web" in chain through removed by hand, will come back`,
		`+ rule "web" in chain through`}},
	{name: "rule of the table changed", do: `nft replace rule inet weir through handle $(nft -a list chain inet weir through | sed -n 's/.*"lan home".*handle //p') iifname eth0 counter drop comment \"lan home\"`, want: []string{
		`! main nft table weir rule "lan home" in chain through changed by hand, will be as it was`,
		`~ rule "lan home" in chain through`}},
	{name: "rule added to the table", do: `nft insert rule inet weir through accept`, want: []string{
		`! main nft table weir rule in chain through added by hand, will go`,
		`- rule in chain through`}},
	{name: "rule doubled in the table", do: `nft add rule inet weir through ip daddr @wan4 accept comment \"own\"`, want: []string{
		`! main nft table weir rule "own" in chain through added by hand, will go`,
		`- rule "own" in chain through`}},
	{name: "set of a rule changed", do: `nft replace rule inet weir through handle $(nft -a list chain inet weir through | sed -n 's/.*"web".*handle //p') iifname eth0 tcp dport { 80, 22 } counter name c_web accept comment \"web\"`, want: []string{
		`! main nft table weir rule "web" in chain through changed by hand, will be as it was`,
		`~ rule "web" in chain through`}},
	{name: "policy changed", do: `nft chain inet weir through '{ policy accept; }'`, want: []string{
		`! main nft table weir chain through changed by hand, will be as it was`,
		`~ chain through`}},
	{name: "chain flushed", do: `nft flush chain inet weir translate`, want: []string{
		`! main nft table weir rule "translate" in chain translate removed by hand, will come back`,
		`+ rule "translate" in chain translate`}},
	{name: "chain deleted", do: `nft delete chain inet weir translate`, want: []string{
		`! main nft table weir chain translate removed by hand, will come back`,
		`+ chain translate`}},
	{name: "chain added", do: `nft add chain inet weir evil '{ type filter hook forward priority -10; policy accept; }'; nft add rule inet weir evil accept`, want: []string{
		`! main nft table weir chain evil added by hand, will go`,
		`- chain evil`}},
	{name: "set added", do: `nft add set inet weir mine '{ type ipv4_addr; }'`, want: []string{
		`! main nft table weir set mine added by hand, will go`,
		`- set mine`}},
	{name: "set deleted", do: `nft flush chain inet weir through; nft delete set inet weir wan4`, want: []string{
		`! main nft table weir rule "established" in chain through removed by hand, and 4 more, will be as it was`,
		`+ rule "established" in chain through`,
		`+ rule "web" in chain through`,
		`+ rule "lan home" in chain through`,
		`+ rule "own" in chain through`,
		`+ set wan4`}},
	{name: "element removed", do: `nft delete element inet weir wan4 '{ 198.51.100.10 }'`, want: []string{
		`! main nft sets wan4 element 198.51.100.10 of set wan4 removed by hand, will come back`,
		`+ element 198.51.100.10 of set wan4`}},
	{name: "element added", do: `nft add element inet weir wan4 '{ 192.0.2.1 }'`, want: []string{
		`! main nft sets wan4 element 192.0.2.1 of set wan4 added by hand, will go`,
		`- element 192.0.2.1 of set wan4`}},
	{name: "element of a map changed", do: `nft delete element inet weir out4 '{ "fiber" }'; nft add element inet weir out4 '{ "fiber" : 192.0.2.1 }'`, want: []string{
		`! main nft sets out4 element fiber of map out4 changed by hand, will be as it was`,
		`~ element fiber of map out4`}},
	{name: "counter added", do: `nft add counter inet weir mine`, want: []string{
		`! main nft table weir counter mine added by hand, will go`,
		`- counter mine`}},
	{name: "table of a WAN deleted", ns: "wan-fiber", do: `nft delete table inet weir`, want: []string{
		`! wan-fiber nft table weir removed by hand, will come back`,
		`+ table inet weir {`,
		`+ chain through { type filter hook forward priority filter; policy drop;`,
		`+ iifname "lan" oifname "eth1" ip saddr 198.51.100.10 accept comment "out"`,
		`+ }`,
		`+ }`}},
	{name: "foreign tables left alone", do: `nft add table ip weir; nft add table inet mine; nft add chain inet mine c '{ type filter hook input priority 0; }'; nft add rule inet mine c counter`,
		after: `nft list chain inet mine c | grep -q counter; nft list table ip weir >/dev/null; nft delete table inet mine; nft delete table ip weir`},

	{name: "elements learned left alone", do: `nft add element inet weir learned '{ 192.0.2.7 }'; nft insert rule inet weir through accept`, want: []string{
		`! main nft table weir rule in chain through added by hand, will go`,
		`- rule in chain through`},
		after: `nft get element inet weir learned '{ 192.0.2.7 }' >/dev/null`},
}
