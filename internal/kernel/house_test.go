package kernel_test

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/plan"
	"weir/internal/ruleset"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// A house is what most tests here want of the kernel: one static WAN, two LANs.
//
// The LAN iot is a bridge of one port.
//
//	main                                   wan-fiber
//	eth0 172.31.0.1/24  fiber 172.31.1.0/31 === lan 172.31.1.1/31   eth1 198.51.100.10/24
func house() desired.Desired {
	pre := netip.MustParsePrefix
	addr := netip.MustParseAddr
	return desired.Desired{Namespaces: []desired.Namespace{
		{
			Links: []desired.Link{
				{Name: "fiber", Kind: desired.Veth, Up: true, Peer: "lan", PeerNS: "wan-fiber", AddrGen: 1, OwnAddrs: true},
				{Name: "eth0", Kind: desired.Port, Up: true, OwnAddrs: true},
				{Name: "iot", Kind: desired.Bridge, Up: true, OwnAddrs: true},
				{Name: "eth2", Kind: desired.Port, Up: true, Master: "iot", AddrGen: 1, OwnAddrs: true},
			},
			Addrs: []desired.Addr{
				{Link: "fiber", Prefix: pre("172.31.1.0/31")},
				{Link: "fiber", Prefix: pre("fd00:1::/127"), NoDAD: true},
				{Link: "eth0", Prefix: pre("172.31.0.1/24")},
				{Link: "eth0", Prefix: pre("fd00::1/64"), NoDAD: true},
				{Link: "iot", Prefix: pre("172.31.2.1/24")},
			},
			Routes: []desired.Route{
				{Dst: pre("0.0.0.0/0"), Gateway: addr("172.31.1.1"), Link: "fiber", Table: desired.TableBase + 1},
				{Dst: pre("::/0"), Gateway: addr("fd00:1::1"), Link: "fiber", Table: desired.TableBase + 1},
				{Dst: pre("0.0.0.0/0"), Gateway: addr("172.31.1.1"), Link: "fiber", Src: addr("172.31.0.1")},
				{Dst: pre("::/0"), Type: desired.Unreachable},
			},
			Rules: both(
				desired.Rule{Pref: desired.RulePref + 1, OIF: "fiber", Table: desired.TableBase + 1},
				desired.Rule{Pref: desired.RulePref + 301, Mark: ruleset.MarkIn | 1, Mask: ruleset.MarkMask, Table: desired.TableBase + 1},
				desired.Rule{Pref: desired.RulePref + 601, Mark: 1, Mask: ruleset.MarkMask, Table: desired.TableBase + 1},
			),
			Sysctls: []desired.Sysctl{
				{Key: "net/ipv4/ip_forward", Value: "1"},
				{Key: "net/ipv6/conf/all/forwarding", Value: "1"},
				{Key: "net/netfilter/nf_conntrack_tcp_loose", Value: "0"},
				{Key: "net/ipv4/conf/fiber/rp_filter", Value: "0"},
				{Key: "net/ipv6/conf/eth0/accept_ra", Value: "0"},
			},
			Table: ruleset.Table{
				Text: `table inet weir {
  counter c_web { }
  set wan4 { type ipv4_addr
  }
  map out4 { type ifname : ipv4_addr
  }
  set learned { type ipv4_addr; flags dynamic,timeout; timeout 1h
  }
  chain through { type filter hook forward priority filter; policy drop;
    ct state established,related accept comment "established"
    iifname "eth0" tcp dport { 80, 443 } counter name "c_web" accept comment "web"
    iifname "eth0" counter accept comment "lan home"
    ip daddr @wan4 accept comment "own"
  }
  chain translate { type nat hook postrouting priority srcnat;
    snat ip to oifname map @out4 comment "translate"
  }
}
`,
				Sets: []ruleset.Set{
					{Name: "wan4", Elements: []string{"198.51.100.10"}},
					{Name: "out4", Elements: []string{`"fiber" : 198.51.100.10`}},
				},
			},
		},
		{
			Name: "wan-fiber", WAN: "fiber",
			Links: []desired.Link{
				{Name: "lan", Kind: desired.Veth, Up: true, Peer: "fiber", AddrGen: 1, OwnAddrs: true},
				{Name: "eth1", Kind: desired.Port, Up: true, OwnAddrs: true},
			},
			Addrs: []desired.Addr{
				{Link: "lan", Prefix: pre("172.31.1.1/31")},
				{Link: "lan", Prefix: pre("fd00:1::1/127"), NoDAD: true},
				{Link: "eth1", Prefix: pre("198.51.100.10/24")},
			},
			Routes: []desired.Route{
				{Dst: pre("0.0.0.0/0"), Gateway: addr("172.31.1.0"), Link: "lan", Table: desired.TableBase},
				{Dst: pre("::/0"), Gateway: addr("fd00:1::"), Link: "lan", Table: desired.TableBase},
				{Dst: pre("0.0.0.0/0"), Gateway: addr("198.51.100.1"), Link: "eth1"},
			},
			Rules: both(
				desired.Rule{Pref: 5, Mark: 1, Mask: 0xffffffff, Table: desired.TableBase},
				desired.Rule{Pref: 10, Table: 255},
			),
			Sysctls: []desired.Sysctl{
				{Key: "net/ipv4/ip_forward", Value: "1"},
				{Key: "net/ipv4/conf/lan/accept_local", Value: "1"},
				{Key: "net/ipv6/conf/eth1/accept_ra", Value: "2"},
			},
			Table: ruleset.Table{Text: `table inet weir {
  chain through { type filter hook forward priority filter; policy drop;
    iifname "lan" oifname "eth1" ip saddr 198.51.100.10 accept comment "out"
  }
}
`},
		},
	}}
}

// both is rules for IPv4 and for IPv6.
func both(rules ...desired.Rule) (out []desired.Rule) {
	for _, r := range rules {
		v6 := r
		v6.V6 = true
		out = append(out, r, v6)
	}
	return out
}

// A bench is a kernel under test: main has eth0, eth1 and eth2, whose other
// ends, port0 to port2, are in a namespace called outside.
type bench struct {
	testing.TB
	k    *kernel.Kernel
	opt  kernel.Options
	want desired.Desired
}

func newBench(t testing.TB) *bench {
	t.Helper()
	netnstest.Need(t)
	b := &bench{TB: t, opt: kernel.Options{StateDir: t.TempDir(), RuntimeDir: t.TempDir()}, want: house()}
	b.must(netns.Create("outside"))
	for _, n := range []string{"0", "1", "2"} {
		b.port("eth"+n, "port"+n)
	}
	b.open()
	return b
}

// port makes a port of main with its other end, up, in outside.
func (b *bench) port(name, other string) {
	b.Helper()
	b.must(netns.Do("", func() error {
		outside, err := os.Open(netns.Path("outside"))
		if err != nil {
			return err
		}
		defer outside.Close()
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, name[len(name)-1]}}, PeerName: other, PeerNamespace: netlink.NsFd(int(outside.Fd()))})
	}))
	b.in("outside", func() error { return up(other) })
}

func up(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) in(ns string, f func() error) {
	b.Helper()
	if err := netns.Do(ns, f); err != nil {
		b.Fatalf("in %q: %v", ns, err)
	}
}

// open opens the kernel anew, as a restarted daemon does.
func (b *bench) open() {
	b.Helper()
	if b.k != nil {
		b.must(b.k.Close())
	}
	k, err := kernel.Open(b.opt)
	b.must(err)
	b.k = k
	b.Cleanup(func() { k.Close() })
}

func (b *bench) plan() plan.Plan {
	b.Helper()
	// The kernel keeps what it is given, and tests edit b.want.
	text, err := json.Marshal(b.want)
	b.must(err)
	var want desired.Desired
	b.must(json.Unmarshal(text, &want))
	a, err := b.k.Read(b.Context(), want)
	b.must(err)
	return plan.Diff(a, want)
}

// turn applies what is to be done and fails if a second plan is not empty.
func (b *bench) turn() plan.Plan {
	b.Helper()
	p := b.plan()
	if err := b.k.Apply(b.Context(), p); err != nil {
		b.Fatalf("%v\n%s", err, p)
	}
	if again := b.plan(); !again.Empty() {
		b.Fatalf("after apply the plan is not empty:\n%s\nthe first was:\n%s", again, p)
	}
	return p
}

// run runs a command in a namespace.
func (b *bench) run(ns, command string) string {
	b.Helper()
	var out []byte
	err := netns.Do(ns, func() (err error) {
		cmd := exec.Command("/bin/sh", "-ec", command)
		cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		b.Fatalf("in %q: %s: %v\n%s", ns, command, err, out)
	}
	return string(out)
}

func lines(p plan.Plan) []string {
	var out []string
	for _, l := range strings.Split(strings.TrimRight(p.String(), "\n"), "\n") {
		out = append(out, strings.Join(strings.Fields(l), " "))
	}
	return out
}
