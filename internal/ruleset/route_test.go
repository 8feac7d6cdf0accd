package ruleset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/netns/netnstest"
	"weir/internal/state"
)

const (
	byFiber  = "inet:%d for 198.51.100.10"
	byFiber6 = "inet:%d for 2001:db8:1::10"
	byLTE    = "inet:%d for 203.0.113.10"
	byLTE6   = "inet:%d for 2001:db8:2::10"
)

// routeCase is a state of the lines of testdata/routes.hcl, and which way
// connections leave in it.
type routeCase struct {
	name  string
	state func(c *config.Config, s *state.State)
	rows  []row
}

func fell(s *state.State, wan string, v4, v6 bool) {
	w := s.WANs[wan]
	w.V4.Up, w.V6.Up = w.V4.Up && !v4, w.V6.Up && !v6
	s.WANs[wan] = w
}

// leaves is a row for a connection that leaves by a line, or is refused.
func leaves(name, from, source, proto, to string, port int, want string) row {
	if strings.Contains(want, "%d") {
		want = fmt.Sprintf(want, port)
	}
	return row{name, from, source, proto, to, port, want}
}

const (
	inet4, inet6 = "192.0.2.80", "2001:db8:80::80"
	bank4, bank6 = "192.0.2.90", "2001:db8:80::90"
)

// inside are rows that are the same whatever the lines do: no route is about them.
func inside() []row {
	return []row{
		{"tablet to nas", "tablet", "", "tcp", "172.31.0.23", 80, "nas:80 for 172.31.0.31"},
		{"tablet to guest, IPv6", "tablet", "", "udp", "fd00:20::50", 445, "guest:445 for fd00::31"},
		{"tablet to the gateway", "tablet", "", "tcp", "172.31.0.1", 7000, "gateway:7000 for 172.31.0.31"},
		{"nas to a link that is not weir's", "nas", "", "tcp", "10.98.0.2", 7000, "refused"},
		{"what a LAN may not reach", "camera", "", "tcp", bank4, 7000, "refused"},
		{"hairpin of the tablet", "tablet", "", "tcp", "203.0.113.10", 80, "nas:80 for 172.31.0.1"},
	}
}

func routeCases() []routeCase {
	return []routeCase{{
		"both work", func(*config.Config, *state.State) {}, []row{
			leaves("pc, that no route is about", "pc", "", "tcp", inet4, 7000, byFiber),
			leaves("tablet", "tablet", "", "tcp", inet4, 7000, byFiber),
			leaves("tablet's mail", "tablet", "", "tcp", inet4, 25, byLTE),
			leaves("tablet's mail, IPv6", "tablet", "", "tcp", inet6, 25, byLTE6),
			leaves("tablet's datagrams of that port", "tablet", "", "udp", inet4, 25, byFiber),
			leaves("nas", "nas", "", "tcp", inet6, 7000, byFiber6),
			leaves("a call", "guest", "", "udp", inet4, 5060, byLTE),
			leaves("a call, IPv6", "guest", "", "udp", inet6, 10021, byLTE6),
			leaves("no call", "guest", "", "tcp", inet4, 5060, byFiber),
			leaves("a call from elsewhere", "pc", "", "udp", inet4, 5060, byFiber),
			leaves("the bank", "pc", "", "tcp", bank4, 7000, byLTE),
			leaves("the bank, IPv6", "guest", "", "udp", bank6, 7000, byLTE6),
			leaves("the bank for tablet, whose route is first", "tablet", "", "tcp", bank4, 7000, byFiber),
			leaves("the bank for the gateway", "", "", "tcp", bank4, 7000, byLTE),
			leaves("the bank for the gateway, IPv6", "", "", "tcp", bank6, 7000, byLTE6),
			leaves("the bank pings", "pc", "", "ping", bank4, 0, "pong"),
			leaves("the gateway", "", "", "tcp", inet4, 7000, byFiber),
			leaves("the gateway's mail", "", "", "tcp", inet4, 25, byLTE),
			leaves("the gateway's mail, IPv6", "", "", "tcp", inet6, 25, byLTE6),
			leaves("the gateway by fiber's cable, for the bank", "", "172.31.255.0", "udp", bank4, 7000, byFiber),
			leaves("low", "nas", "", "tcp", inet4, 53, byFiber),
			leaves("low, by another", "pc", "", "tcp", inet4, 53, byLTE),
			leaves("low, by another, IPv6", "pc", "", "tcp", inet6, 53, byLTE6),
			leaves("low, by the gateway", "", "", "tcp", inet4, 53, byLTE),
			leaves("low, by the gateway, IPv6", "", "", "tcp", inet6, 53, byLTE6),
		},
	}, {
		"fiber fell", func(_ *config.Config, s *state.State) {
			fell(s, "fiber", true, true)
			s.Use4, s.Use6 = "lte", "lte"
		}, []row{
			leaves("pc", "pc", "", "tcp", inet4, 7000, byLTE),
			leaves("tablet", "tablet", "", "tcp", inet4, 7000, "refused"),
			leaves("tablet, IPv6", "tablet", "", "tcp", inet6, 7000, "refused"),
			leaves("tablet, UDP", "tablet", "", "udp", inet4, 7000, "refused"),
			leaves("tablet, UDP over IPv6", "tablet", "", "udp", inet6, 7000, "refused"),
			leaves("tablet pings", "tablet", "", "ping", inet4, 0, "refused"),
			leaves("tablet pings, IPv6", "tablet", "", "ping", inet6, 0, "refused"),
			leaves("tablet, what is blocked in silence", "tablet", "", "tcp", inet4, 22, "silence"),
			leaves("nas", "nas", "", "udp", inet4, 7000, "refused"),
			leaves("nas, IPv6", "nas", "", "udp", inet6, 7000, "refused"),
			leaves("nas by an address of its own making", "nas", "172.31.0.77", "udp", inet4, 7000, "refused"),
			leaves("nas by an address of its own making, IPv6", "nas", "fd00::77:77", "udp", inet6, 7000, "refused"),
			// Its answers find the device: what is seen from here is that nobody outside heard it.
			leaves("nas through an extender, that has another MAC", "pc", "172.31.0.23", "udp", inet4, 7000, "silence"),
			leaves("nas through an extender, IPv6", "pc", "fd00::23", "udp", inet6, 7000, "silence"),
			leaves("tablet's mail", "tablet", "", "tcp", inet4, 25, byLTE),
			leaves("the bank", "pc", "", "tcp", bank4, 7000, byLTE),
			leaves("the gateway", "", "", "tcp", inet4, 7000, byLTE),
		},
	}, {
		"lte fell", func(_ *config.Config, s *state.State) { fell(s, "lte", true, true) }, []row{
			leaves("pc", "pc", "", "tcp", inet4, 7000, byFiber),
			leaves("tablet's mail goes over", "tablet", "", "tcp", inet4, 25, byFiber),
			leaves("a call goes over", "guest", "", "udp", inet6, 5060, byFiber6),
			leaves("the bank", "pc", "", "tcp", bank4, 7000, "refused"),
			leaves("the bank, IPv6", "guest", "", "udp", bank6, 7000, "refused"),
			leaves("the bank for the gateway", "", "", "udp", bank4, 7000, "refused"),
			leaves("the bank for the gateway, IPv6", "", "", "tcp", bank6, 7000, "refused"),
			leaves("the gateway's mail", "", "", "tcp", inet4, 25, "refused"),
			leaves("nas", "nas", "", "tcp", inet4, 7000, byFiber),
			leaves("low goes over", "pc", "", "tcp", inet4, 53, byFiber),
		},
	}, {
		"lte has no IPv6", func(_ *config.Config, s *state.State) { fell(s, "lte", false, true) }, []row{
			leaves("the bank", "pc", "", "tcp", bank4, 7000, byLTE),
			leaves("the bank, IPv6", "pc", "", "tcp", bank6, 7000, "refused"),
			leaves("a call", "guest", "", "udp", inet4, 5060, byLTE),
			leaves("a call, IPv6", "guest", "", "udp", inet6, 5060, byFiber6),
		},
	}, {
		"lte in use, fiber works", func(_ *config.Config, s *state.State) { s.Use4, s.Use6 = "lte", "lte" }, []row{
			leaves("pc", "pc", "", "tcp", inet4, 7000, byLTE),
			leaves("nas", "nas", "", "tcp", inet4, 7000, byFiber),
			leaves("nas, IPv6", "nas", "", "tcp", inet6, 7000, byFiber6),
			leaves("nas by an address of its own making, IPv6", "nas", "fd00::77:77", "udp", inet6, 7000, byFiber6),
			leaves("tablet", "tablet", "", "tcp", inet4, 7000, byFiber),
			leaves("tablet pings, IPv6", "tablet", "", "ping", inet6, 0, "pong"),
			leaves("the gateway", "", "", "tcp", inet4, 7000, byLTE),
		},
	}, {
		// A line that failover leaves out carries what names it.
		"no line in use, lte works", func(c *config.Config, s *state.State) {
			c.Failover.Prefer = []string{"fiber"}
			fell(s, "fiber", true, true)
			s.Use4, s.Use6 = "", ""
		}, []row{
			// The kernel's unreachable, which TCP may miss (LockDroppedIcmps).
			leaves("pc pings", "pc", "", "ping", inet4, 0, "refused"),
			leaves("nas pings", "nas", "", "ping", inet4, 0, "refused"),
			leaves("tablet pings, IPv6", "tablet", "", "ping", inet6, 0, "refused"),
			leaves("tablet, IPv6", "tablet", "", "udp", inet6, 7000, "silence"),
			leaves("the bank", "pc", "", "tcp", bank4, 7000, byLTE),
			leaves("the bank, IPv6", "pc", "", "tcp", bank6, 7000, byLTE6),
			leaves("a call", "guest", "", "udp", inet4, 5060, byLTE),
			leaves("a call, IPv6", "guest", "", "udp", inet6, 5060, byLTE6),
		},
	}, {
		// As the last line that fell is: nothing took over.
		"nothing works", func(_ *config.Config, s *state.State) {
			fell(s, "lte", true, true)
			s.Use4, s.Use6 = "", ""
		}, []row{
			leaves("pc pings", "pc", "", "ping", inet4, 0, "refused"),
			leaves("nas pings", "nas", "", "ping", inet4, 0, "refused"),
			leaves("tablet pings, IPv6", "tablet", "", "ping", inet6, 0, "refused"),
			leaves("a call", "guest", "", "udp", inet4, 5060, "silence"),
		},
	}}
}

// routed is the world of testdata/routes.hcl.
type routed struct {
	*world
	tb testing.TB
}

func bringUpRoutes(t *testing.T) *routed {
	t.Helper()
	needNft(t)
	mustRun(t, "", worldScript)
	// Everything that leaves is heard, also what has the other line's address.
	mustRun(t, "isp2", "ip route add 198.51.100.10/32 dev gw; ip -6 route add 2001:db8:1::10/128 dev gw")
	mustRun(t, "nas", "ip addr add 172.31.0.77/24 dev e0; ip addr add fd00::77:77/64 dev e0 preferred_lft 0")
	mustRun(t, "pc", "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; ip addr add 172.31.0.23/32 dev lo; ip addr add fd00::23/128 dev lo preferred_lft 0")
	// It asks nobody for the gateway in that name: the device would lose its neighbours.
	mustRun(t, "", "ip link set eth0 address 02:00:00:00:00:01")
	mustRun(t, "pc", "for gw in 172.31.0.1 fd00::1; do ip neigh replace $gw lladdr 02:00:00:00:00:01 dev e0 nud permanent; done")
	r := &routed{&world{servers: servers{heard: map[string]string{}}, gateway: newGateway(t)}, t}
	r.set(routeCases()[0], nil)
	// Not icmp_ratelimit = 0: it takes from what the kernel's unreachable is measured by.
	mustRun(t, "", "echo 0 >/proc/sys/net/ipv4/icmp_ratemask; echo 0 >/proc/sys/net/ipv6/icmp/ratelimit")
	settled(t, r.built)
	r.serve(t, "inet", []string{inet4, bank4, inet6, bank6}, []int{22, 25, 53, 5060, 7000, 10021})
	r.serve(t, "nas", []string{"172.31.0.23", "fd00::23"}, []int{80})
	r.serve(t, "guest", []string{"172.31.20.50", "fd00:20::50"}, []int{445})
	r.serve(t, "", []string{"172.31.0.1"}, []int{7000})
	r.serve(t, "other", []string{"10.98.0.2"}, []int{7000})
	return r
}

// set brings the kernel to a state of the lines; without names rules, or the
// elements of a set, of main that are left out.
func (r *routed) set(c routeCase, without func(*desired.Namespace)) {
	r.tb.Helper()
	conf := parse(r.tb, "routes")
	st := working(conf)
	c.state(conf, &st)
	d := desired.Build(conf, st)
	if without != nil {
		without(&d.Namespaces[0])
	}
	r.turn(r.tb, d)
}

// TestRoutesObey: in each state of the lines, each connection leaves by the line
// that its route says, or not at all.
func TestRoutesObey(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		r := bringUpRoutes(t)
		r.log = openLog(t)
		r.log.start()
		for _, c := range routeCases() {
			r.set(c, nil)
			for what, how := range r.ask(c.name+": ", slices.Concat(c.rows, inside())) {
				t.Errorf("%s: %s", what, how)
			}
		}
		before, err := r.counters()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"route.tablet", "route.tablet.refused", "route.nas.refused", "route.bank.refused", "route.calls"} {
			if before[name] == 0 {
				t.Errorf("%s counted nothing", name)
			}
		}
		logged := r.log.stop()
		for _, what := range []string{"weir route.tablet, IPv4", "weir route.tablet, IPv6", "weir route.bank, IPv4", "weir route.own-mail, IPv4"} {
			if !logged[what] {
				t.Errorf("%q was not logged: %v", what, logged)
			}
		}
		if _, there := before["route.calls.refused"]; there {
			t.Error("a prefer refuses")
		}
	})
}

// TestEveryRouteRuleIsHeld takes one rule of the routes after the other away,
// and the elements of each set, as TestEveryRuleIsHeld does of the rest.
func TestEveryRouteRuleIsHeld(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of sabotage")
	}
	conf := parse(t, "routes")
	with := desired.Build(conf, working(conf)).Namespaces[0]
	conf.Routes = nil
	bare := desired.Build(conf, working(conf)).Namespaces[0]
	names := func(n desired.Namespace) map[string]bool {
		found := map[string]bool{}
		for _, m := range comment.FindAllStringSubmatch(n.Table.Text, -1) {
			found["rule "+m[1]] = true
		}
		for _, s := range n.Table.Sets {
			found["set "+s.Name] = true
		}
		return found
	}
	all := names(with)
	maps.DeleteFunc(all, func(name string, _ bool) bool {
		// What is logged and counted is seen in TestRoutesObey, what counts between
		// two states in TestHeldBetweenTwoStates.
		return names(bare)[name] || name == "rule held.last" || name == "rule held_last.dropped" || strings.HasSuffix(name, ".none.log") || strings.HasSuffix(name, ".none")
	})
	if len(all) < 20 {
		t.Fatal("the file makes no rules:", all)
	}
	var wg sync.WaitGroup
	sorted := slices.Sorted(maps.Keys(all))
	for shard := range shards {
		wg.Go(func() {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				netnstest.Alone(t, func(t *testing.T) {
					r := bringUpRoutes(t)
					for i, name := range sorted {
						if i%shards == shard {
							r.miss(t, name)
						}
					}
				})
			})
		})
	}
	wg.Wait()
}

// miss expects that something is otherwise without a rule or a set's elements.
func (r *routed) miss(t *testing.T, name string) {
	without := func(n *desired.Namespace) {
		kind, of, _ := strings.Cut(name, " ")
		if kind == "rule" {
			dropRule(n, of)
			return
		}
		for j := range n.Table.Sets {
			if n.Table.Sets[j].Name == of {
				n.Table.Sets[j].Elements = nil
			}
		}
	}
	for _, c := range routeCases() {
		l := look(func(only func(string) bool) map[string]string { return r.askOnce(c.name+": ", c.rows, only) })
		for what, how := range l.misses(everything, func() { r.set(c, without) }, func() { r.set(c, nil) }) {
			t.Logf("without %s: %s: %s", name, what, how)
			return
		}
	}
	t.Errorf("without %s nothing is otherwise", name)
}
