package ruleset_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"weir/internal/desired"
	"weir/internal/netns/netnstest"
)

// TestRoutedPacketsObey: a line that does not translate. Out go the LAN's own
// addresses and no others; in comes what a rule allows.
func TestRoutedPacketsObey(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		needNft(t)
		mustRun(t, "", worldScript)
		mustRun(t, "isp1", "ip addr add 198.51.100.9/30 dev gw; ip route add 203.0.113.0/25 via 198.51.100.10")
		mustRun(t, "inet", "ip route add 203.0.113.0/25 via 10.0.1.1; ip addr add 203.0.113.99/32 dev lo")
		for host, last := range map[string]int{"nas": 23, "pc": 50} {
			mustRun(t, host, fmt.Sprintf("ip -4 route flush dev e0; ip -4 addr flush dev e0; ip addr add 203.0.113.%d/25 dev e0; ip route add default via 203.0.113.1", last))
		}
		conf := parse(t, "routed")
		w := &world{servers: servers{heard: map[string]string{}}, gateway: newGateway(t), mtu: map[string]int{"203.0.113.": 1400, "10.0.1.2": 1400}}
		w.turn(t, desired.Build(conf, working(conf)))
		w.serve(t, "inet", []string{"192.0.2.80"}, []int{7000})
		w.serve(t, "nas", []string{"203.0.113.23"}, []int{80, 443})
		w.serve(t, "", []string{"203.0.113.1"}, []int{22, 443})

		rows := func() []row {
			return []row{
				{"out", "pc", "", "tcp", "192.0.2.80", 7000, "inet:7000 for 203.0.113.50"},
				{"ping out", "pc", "", "ping", "192.0.2.80", 0, "pong"},
				{"gateway out", "", "", "udp", "192.0.2.80", 7000, "inet:7000 for 203.0.113.1"},
				{"in, where it is allowed", "inet", "", "tcp", "203.0.113.23", 443, "nas:443 for 10.0.1.2"},
				{"in, where it is not", "inet", "", "tcp", "203.0.113.23", 80, "silence"},
				{"in to the gateway", "inet", "", "tcp", "203.0.113.1", 22, "silence"},
				{"in to the gateway's port of that number", "inet", "", "tcp", "203.0.113.1", 443, "silence"},
				{"in to the line's own address", "inet", "", "tcp", "198.51.100.10", 443, "silence"},
				{"ping the line's own address", "inet", "", "ping", "198.51.100.10", 0, "pong"},
				{"ping a host", "inet", "", "ping", "203.0.113.23", 0, "silence"},
				{"in as one of the LAN", "inet", "203.0.113.99", "udp", "203.0.113.23", 443, "silence"},
			}
		}
		try := func() map[string]string {
			wrong := map[string]string{}
			if err := forgetMTU("pc"); err != nil {
				t.Fatal(err)
			}
			maps.Copy(wrong, w.ask("", rows()))
			if err := pathMTU("pc", "192.0.2.80", 1400); err != nil {
				wrong["path MTU"] = err.Error()
			}
			return wrong
		}
		for what, how := range try() {
			t.Errorf("%s: %s", what, how)
		}
		// The rules that no translating line has.
		card := w.built.Namespaces[1]
		for _, name := range []string{"lans4", "out.lans4", "error.lans4"} {
			rules, err := handles(card.Name)
			if err != nil {
				t.Fatal(err)
			}
			h, ok := rules[name]
			if !ok {
				t.Errorf("no rule %q", name)
				continue
			}
			if err := load(card.Name, fmt.Sprintf("delete rule inet weir %s handle %s\n", h[0], h[1])); err != nil {
				t.Fatal(err)
			}
			if len(try()) == 0 {
				t.Errorf("without the rule %q nothing is otherwise", name)
			}
			if err := load(card.Name, transaction(card)); err != nil {
				t.Fatal(err)
			}
		}
		// Nothing but the LAN's own addresses leaves.
		mustRun(t, "pc", "ip addr add 10.9.9.9/32 dev e0")
		mustRun(t, "", "ip addr add 10.9.9.1/24 dev eth0")
		if got, err := ask("pc", "10.9.9.9", "udp", "192.0.2.80", 7000, "strange"); err != nil || !strings.HasPrefix(got, "silence") || w.who("strange") != "" {
			t.Errorf("a strange source: %q (%v), heard by %q", got, err, w.who("strange"))
		}
	})
}
