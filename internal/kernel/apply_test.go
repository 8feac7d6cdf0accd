package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/netns/netnstest"
	"weir/internal/plan"
)

// snapshot is what ip and nft say of main, without what changes by itself.
func (b *bench) snapshot(ns string) string {
	b.Helper()
	return b.run(ns, `ip -o link | sed 's/^[0-9]*: //; s/@if[0-9]*//; s/@[a-z0-9]*//; s/NO-CARRIER,//; s/,LOWER_UP//; s/ state [A-Z]*//; s/ qdisc [a-z]*//; s/ qlen 1000//; s/link-netns.*//' | sort
ip -o addr | grep -v fe80:: | sed 's/^[0-9]*: //; s/ tentative//' | sort
ip route show table all | grep -v 'table local\|fe80::\|ff00::' | sed 's/ linkdown//; s/ pref medium//' | sort
ip rule; ip -6 rule
nft list ruleset | sed 's/packets [0-9]* bytes [0-9]*//'
cd /proc/sys/net; for f in ipv4/ip_forward ipv6/conf/all/forwarding ipv6/conf/eth0/accept_ra netfilter/nf_conntrack_tcp_loose; do echo $f $(cat $f 2>&1 || true); done
ls /run/netns`)
}

func (b *bench) same(what, before, after string) {
	b.Helper()
	if before == after {
		return
	}
	x, y := strings.Split(before, "\n"), strings.Split(after, "\n")
	slices.Sort(x) // nft lists a chain made anew last
	slices.Sort(y)
	for _, l := range x {
		if !slices.Contains(y, l) {
			b.Errorf("%s: lost  %s", what, l)
		}
	}
	for _, l := range y {
		if !slices.Contains(x, l) {
			b.Errorf("%s: won   %s", what, l)
		}
	}
	if !b.Failed() && !slices.Equal(x, y) {
		b.Errorf("%s: not as often as before", what)
	}
}

// lived gives the ports a life before weir.
func (b *bench) lived() {
	b.run("", `ip link set eth0 up mtu 1400; ip addr add 192.168.1.5/24 dev eth0; ip addr add 192.168.1.6/24 dev eth0
ip route add default via 192.168.1.1; ip route add 10.5.0.0/16 via 192.168.1.2
ip link set eth1 up; ip addr add 192.0.2.5/24 dev eth1; ip route add 10.6.0.0/16 via 192.0.2.1 metric 50
ip route add 10.7.0.0/16 nexthop via 192.168.1.3 nexthop via 192.0.2.3
nft add table inet mine; nft add chain inet mine c '{ type filter hook input priority 0; }'; nft add rule inet mine c iifname eth0 accept
ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up; ip link set eth2 master docker0; ip link set eth2 up`)
}

func TestDownGivesEverythingBack(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		// So that conntrack's sysctls are there before as after.
		b.run("", "nft -f - <<N\ntable inet x { chain c { type filter hook input priority 0; ct state new accept; }\n}\nN\nnft delete table inet x")
		b.lived()
		before := b.snapshot("")
		p := b.turn()
		if !strings.Contains(p.String(), "somebody else's") {
			t.Errorf("the plan does not name the default route that was there:\n%s", p)
		}
		b.open() // what was found outlives the daemon
		b.must(b.k.Down(t.Context()))
		b.same("down", before, b.snapshot(""))
		if left, err := filepath.Glob(filepath.Join(b.opt.RuntimeDir, "nft*")); err != nil || len(left) > 0 {
			t.Errorf("left in the runtime directory: %q %v", left, err)
		}
		// Down again does nothing.
		b.must(b.k.Down(t.Context()))
		b.same("down twice", before, b.snapshot(""))
		// And up again, with MAC addresses of the file's.
		b.want.Namespaces[0].Links[1].MAC = "02:00:00:00:00:AA" // up, so it has to go down for it
		b.want.Namespaces[1].Links[1].MAC = "02:00:00:00:00:bb"
		b.turn()
		if got := b.run("", "ip link show eth0"); !strings.Contains(got, "02:00:00:00:00:aa") || !strings.Contains(got, "UP") {
			t.Errorf("eth0's address: %s", got)
		}
		b.must(b.k.Down(t.Context()))
		b.same("down with addresses given back", before, b.snapshot(""))
	})
}

// A port that was a line's before it was a LAN's has its values anew since it came back
// to main: those are given back, and not the ones that weir gave it then. A route that has
// the address as its source which goes with its port is there afterwards, and undone.
func TestDownAfterAPortWasOfALine(t *testing.T) {
	const line = "wan \"fiber\" { interface = \"eth1\" }\nwan \"lte\" {\n  interface = \"eth2\"\n  ipv6 { method = \"none\" }\n}\nlan \"home\" {\n  interface = \"eth0\"\n  address   = \"172.31.0.1/24\"\n}\n"
	for name, lan := range map[string]string{
		"a LAN's":            "wan \"fiber\" { interface = \"eth1\" }\nlan \"home\" {\n  interface = \"eth2\"\n  address   = \"172.31.0.1/24\"\n}\n",
		"one of a LAN's two": "wan \"fiber\" { interface = \"eth1\" }\nlan \"home\" {\n  interface = [\"eth0\", \"eth2\"]\n  address   = \"172.31.0.1/24\"\n}\n",
		"the ports' places":  "wan \"fiber\" { interface = \"eth0\" }\nlan \"home\" {\n  interface = [\"eth1\", \"eth2\"]\n  address   = \"172.31.0.1/24\"\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			netnstest.Alone(t, func(t *testing.T) {
				b, x := tampered(t)
				b.lived()
				house := func(text string) desired.Desired {
					file := filepath.Join(t.TempDir(), "gateway.hcl")
					b.must(os.WriteFile(file, []byte(text), 0o600))
					return b.built(file)
				}
				ofLine, ofLAN := house(line), house(lan) // while all ports are in main
				b.noDAD()
				before := b.settled()
				for _, want := range []desired.Desired{ofLine, ofLAN, ofLine, ofLAN} {
					b.want = want
					b.turn()
					b.noDAD()
				}
				b.must(b.k.Down(t.Context()))
				if d := b.differs(before, patience); len(d) > 0 {
					t.Errorf("after weir down:\n%s", strings.Join(d, "\n"))
				}
				b.want = ofLine
				b.turn()
				b.noDAD()
				b.want = ofLAN
				b.eachFails(x, name, 12, rand.New(rand.NewPCG(1, 0))) //nolint:gosec // which changes fail
			})
		})
	}
}

// Each step made to fail in turn: what was done before it is undone, and the
// error says so.
func TestFailedStepUndoesItsTurn(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.run("", "nft -f - <<N\ntable inet x { chain c { type filter hook input priority 0; ct state new accept; }\n}\nN\nnft delete table inet x")
		b.lived()
		before := b.snapshot("")
		first := b.plan()
		for i := range first.Steps {
			b.failAt(first, i, before)
		}
		// And when another file replaces one that is in force.
		b.turn()
		before = b.snapshot("") + b.snapshot("wan-fiber")
		b.want = otherHouse()
		second := b.plan()
		t.Logf("\n%s", second)
		for i := range second.Steps {
			b.failAt(second, i, before, "wan-fiber")
		}
		b.turn()
		// And down.
		b.want = desired.Desired{}
		before = b.snapshot("") + b.snapshot("wan-cable")
		third := b.plan()
		for i := range third.Steps {
			b.failAt(third, i, before, "wan-cable")
		}
	})
}

// failAt applies p with a step in the place of number i that can't be done.
func (b *bench) failAt(p plan.Plan, i int, before string, also ...string) {
	b.Helper()
	kind := func(s plan.Step) string { return fmt.Sprintf("%s %s %T", s.Op, s.Object, s.Do) }
	if i > 0 && i < len(p.Steps)-1 && slices.ContainsFunc(p.Steps[i:], func(s plan.Step) bool { return kind(s) == kind(p.Steps[i-1]) }) {
		return // after the last of a kind is enough
	}
	p.Steps = append(slices.Clone(p.Steps[:i]), plan.Step{Op: plan.Remove, Object: "address", Name: "eth9",
		Do: plan.PutAddr{New: plan.Addr{Addr: desired.Addr{Link: "eth9", Prefix: netip.MustParsePrefix("192.0.2.1/32")}}}})
	err := b.k.Apply(b.Context(), p)
	var step *kernel.StepError
	if !errors.As(err, &step) || step.N != i+1 || step.Undo != nil {
		b.Fatalf("at step %d: %v", i+1, err)
	}
	after := b.snapshot("")
	for _, ns := range also {
		after += b.snapshot(ns)
	}
	done := "nothing"
	if i > 0 {
		done = p.Steps[i-1].String()
	}
	b.same(fmt.Sprintf("failed at step %d, after %s", i+1, done), before, after)
	if b.Failed() {
		b.Fatalf("%v\n%s", err, p)
	}
}

// otherHouse renames the WAN, renumbers the LAN, drops the bridge, and has
// another ruleset.
func otherHouse() desired.Desired {
	h := house()
	main, wan := &h.Namespaces[0], &h.Namespaces[1]
	wan.Name, wan.WAN = "wan-cable", "cable"
	wan.Links[0].Peer = "cable"
	main.Links[0].Name, main.Links[0].PeerNS = "cable", "wan-cable"
	main.Links = main.Links[:2]
	main.Addrs = slices.DeleteFunc(main.Addrs, func(a desired.Addr) bool { return a.Link == "iot" })
	for i := range main.Addrs {
		if main.Addrs[i].Link == "fiber" {
			main.Addrs[i].Link = "cable"
		}
		if main.Addrs[i].Prefix == netip.MustParsePrefix("172.31.0.1/24") {
			main.Addrs[i].Prefix = netip.MustParsePrefix("172.31.0.9/24")
		}
	}
	for i := range main.Routes {
		if main.Routes[i].Link == "fiber" {
			main.Routes[i].Link = "cable"
		}
		if main.Routes[i].Src.IsValid() {
			main.Routes[i].Src = netip.MustParseAddr("172.31.0.9")
		}
	}
	for i := range main.Rules {
		if main.Rules[i].OIF != "" {
			main.Rules[i].OIF = "cable"
		}
	}
	for i := range main.Sysctls {
		main.Sysctls[i].Key = strings.Replace(main.Sysctls[i].Key, "fiber", "cable", 1)
	}
	main.Table.Text = strings.NewReplacer("c_web", "c_www", "priority filter", "priority -5", "set wan4 { type ipv4_addr", "set wan4 { type ipv4_addr; flags interval").Replace(main.Table.Text)
	main.Table.Sets[0].Elements = []string{"198.51.100.0/24"}
	main.Table.Sets[1].Elements = []string{`"cable" : 198.51.100.10`}
	return h
}

func TestFailedStepSaysWhatToDo(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.want.Namespaces[0].Routes = append(b.want.Namespaces[0].Routes, desired.Route{
			Dst: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("203.0.113.1"), Link: "eth0"})
		err := b.k.Apply(t.Context(), b.plan())
		if err == nil {
			t.Fatal("a route by an unreachable gateway was taken")
		}
		for _, part := range []string{"add route 10.0.0.0/8 via 203.0.113.1 dev eth0 in main: ", "network is unreachable", "step 30 of 49; the 29 before it were undone", "The gateway is in no network of that link"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q:\n%v", part, err)
			}
		}
		b.want = house()
		b.want.Namespaces[1].Table.Text = "table inet weir {\n chain x {\n  no such thing\n }\n}\n"
		err = b.k.Apply(t.Context(), b.plan())
		if err == nil || !strings.Contains(err.Error(), "no such thing") {
			t.Errorf("nft's own words are lost: %v", err)
		}
	})
}

func TestCancelledTurnIsUndone(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.k.Apply(ctx, b.plan()); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if names, err := os.ReadDir("/run/netns"); err != nil || len(names) != 1 {
			t.Errorf("namespaces are there: %v %v", names, err)
		}
	})
}
