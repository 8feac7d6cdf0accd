package ruleset

// nowhere resets a LAN's new connection that no route leads on. The route itself
// says so to a host but once a second (ip_error in net/ipv4/route.c), whatever
// it sends: what still goes on by a lost line would take that from who asks anew.
func (m *mainTable) nowhere() {
	if len(m.WANs) == 0 || len(m.LANs) == 0 {
		return
	}
	m.chain("nowhere", "filter hook prerouting priority 0; policy accept").
		add("nowhere", "meta l4proto 6 ct state new", oneOf("iifname", m.lanLinks()), "fib daddr . mark oif 0",
			"fib daddr type != { local, broadcast, anycast, multicast }", m.counter("nowhere"), "reject with tcp reset")
}
