package ruleset_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/plan"
	"weir/internal/state"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// The world of a packet test. The gateway is the first namespace.
//
//	pc, nas, tablet --sw-- eth0 |         | eth1 -- isp1 --+
//	guest ---------------- eth3 | gateway |                +-- inet
//	camera --------------- eth4 |         | eth2 -- isp2 --+
//	stranger ------------- dk0  |         |
//	other ---------------- dk1  |         |
//
// inet has the addresses 192.0.2.N and 2001:db8:80::N of several people.
const worldScript = `
set -e
for n in sw pc nas tablet guest camera stranger other isp1 isp2 inet; do
  ip netns add $n
  for f in default all; do nsenter --net=/run/netns/$n sh -c "echo 0 >/proc/sys/net/ipv6/conf/$f/accept_dad; echo 0 >/proc/sys/net/ipv4/conf/$f/rp_filter"; done
  ip -n $n link set lo up
done
for f in default all; do echo 0 >/proc/sys/net/ipv6/conf/$f/accept_dad; done
join() { ip link add $1 type veth peer name $3 netns $2; ip -n $2 link set $3 up; }
join eth0 sw gw; join eth1 isp1 gw; join eth2 isp2 gw; join eth3 guest e0; join eth4 camera e0; join dk0 stranger e0; join dk1 other e0
ip -n sw link add br0 type bridge mcast_snooping 0; ip -n sw link set br0 up; ip -n sw link set gw master br0
for h in pc nas tablet; do
  ip link add e0 netns $h type veth peer name $h netns sw; ip -n $h link set e0 up; ip -n sw link set $h up master br0
done
ip -n guest link set e0 address 02:00:00:00:20:50; ip -n nas link set e0 address 02:00:00:00:00:23; ip -n tablet link set e0 address 02:00:00:00:00:31; ip -n camera link set e0 address 02:00:00:00:30:08
host() { ip -n $1 addr add $2 dev e0; ip -n $1 route add default via $3; ip -n $1 addr add $4 dev e0; ip -n $1 route add default via $5; }
host pc     172.31.0.50/24  172.31.0.1  fd00::50/64    fd00::1
host nas    172.31.0.23/24  172.31.0.1  fd00::23/64    fd00::1
host tablet 172.31.0.31/24  172.31.0.1  fd00::31/64    fd00::1
host guest  172.31.20.50/24 172.31.20.1 fd00:20::50/64 fd00:20::1
host camera 172.31.30.8/24  172.31.30.1 fd00:30::8/64  fd00:30::1
host stranger 10.99.0.2/24  10.99.0.1   fd00:99::2/64  fd00:99::1
host other    10.98.0.2/24  10.98.0.1   fd00:98::2/64  fd00:98::1
ip addr add 10.99.0.1/24 dev dk0; ip addr add fd00:99::1/64 dev dk0; ip link set dk0 up
ip addr add 10.98.0.1/24 dev dk1; ip addr add fd00:98::1/64 dev dk1; ip link set dk1 up
isp() { # number, own /24's router and /64's
  ip link add u0 netns isp$1 type veth peer name d$1 netns inet
  ip -n isp$1 link set u0 up; ip -n inet link set d$1 up
  nsenter --net=/run/netns/isp$1 sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
  ip -n isp$1 addr add $2/24 dev gw; ip -n isp$1 addr add $3/64 dev gw
  ip -n isp$1 addr add 10.0.$1.1/24 dev u0; ip -n isp$1 addr add 2001:db8:ff:$1::1/64 dev u0
  ip -n inet addr add 10.0.$1.2/24 dev d$1; ip -n inet addr add 2001:db8:ff:$1::2/64 dev d$1
  ip -n isp$1 route add default via 10.0.$1.2; ip -n isp$1 route add default via 2001:db8:ff:$1::2
  ip -n inet route add ${2%.*}.0/24 via 10.0.$1.1; ip -n inet route add ${3%::*}::/64 via 2001:db8:ff:$1::1
}
isp 1 198.51.100.1 2001:db8:1::1
isp 2 203.0.113.1 2001:db8:2::1
# What lte has besides, and who asks for it there: one who has a neighbour's address of inet's, one of home's range.
ip -n isp2 route add 198.51.100.99/32 dev gw; ip -n isp2 route add 172.31.0.200/32 dev gw; ip -n isp2 route add 172.31.30.200/32 dev gw; ip -n isp2 route add fd00::200/128 dev gw
for a in 10.0.1.2/32 172.31.0.98/32 172.31.30.98/32 fd00::98/128; do ip -n isp2 addr add $a dev gw; done
for a in 172.31.20.1/32 fd00:20::1/128; do ip -n isp2 addr add $a dev gw; done
for a in 172.31.30.1/32 fd00:30::1/128; do ip -n isp1 addr add $a dev gw; done
for n in 66 77 80 90; do ip -n inet addr add 192.0.2.$n/32 dev lo; ip -n inet addr add 2001:db8:80::$n/128 dev lo; done
`

// run runs a shell script in a namespace.
func run(ns, script string) error {
	return netns.Do(ns, func() error {
		cmd := exec.Command("sh", "-c", script)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("in %q: %w: %s", ns, err, bytes.TrimSpace(out))
		}
		return nil
	})
}

func mustRun(tb testing.TB, ns, script string) {
	tb.Helper()
	if err := run(ns, script); err != nil {
		tb.Fatal(err)
	}
}

// load runs nft on text in a namespace.
func load(ns, text string) error {
	return netns.Do(ns, func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft in %q: %w: %s", ns, err, out)
		}
		return nil
	})
}

// transaction is the nft input that puts a table in place of what is there.
func transaction(n desired.Namespace) string {
	return "add table inet weir\nflush table inet weir\n" + n.Table.Text + elements(n)
}

// elements is the nft input that fills the sets of a table anew.
func elements(n desired.Namespace) string {
	var b strings.Builder
	for _, s := range n.Table.Sets {
		kind := "set"
		if strings.Contains(n.Table.Text, "\tmap "+s.Name+" {") {
			kind = "map"
		}
		fmt.Fprintf(&b, "flush %s inet weir %s\n", kind, s.Name)
		if len(s.Elements) > 0 {
			fmt.Fprintf(&b, "add element inet weir %s { %s }\n", s.Name, strings.Join(s.Elements, ", "))
		}
	}
	return b.String()
}

// needNft skips tb where nft is missing.
func needNft(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		netnstest.Missing(tb, "nft", err)
	}
}

// parse reads testdata/NAME.hcl.
func parse(tb testing.TB, name string) *config.Config {
	tb.Helper()
	path := filepath.Join("testdata", name+".hcl")
	src, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	files := []config.File{{Name: path, Src: src}}
	c, diags := config.Parse(files...)
	if diags.HasErrors() {
		tb.Fatal(diags.Format(files))
	}
	return c
}

// working is a state in which all lines of a file with fixed addresses work.
func working(c *config.Config) state.State {
	s := state.State{
		ULA:   netip.MustParsePrefix("fd57:e1:a::/48"),
		Index: map[string]uint8{}, WANs: map[string]state.WAN{},
		Machine: state.Machine{VLAN: true, Bridge: true},
		Use4:    c.WANs[0].Name, Use6: c.WANs[0].Name,
	}
	for i, w := range c.WANs {
		s.Index[w.Name] = uint8(i + 1)
		v := state.WAN{V4: state.Line{Up: true}, V6: state.Line{Up: true}}
		if w.IPv6.Delegate > 0 {
			v.Delegated = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0xf0 + byte(i), 0}), w.IPv6.Delegate)}
		}
		s.WANs[w.Name] = v
	}
	return s
}

// settled waits until no address of d's namespaces is tentative any more.
func settled(tb testing.TB, d desired.Desired) {
	tb.Helper()
	for _, n := range d.Namespaces {
		mustRun(tb, n.Name, `for i in $(seq 100); do [ -z "$(ip -6 addr show tentative)" ] && exit 0; sleep 0.05; done; ip -6 addr show tentative; exit 1`)
	}
}

// gateway is a kernel that holds a Desired.
type gateway struct {
	*kernel.Kernel
	built desired.Desired
}

func newGateway(tb testing.TB) *gateway {
	tb.Helper()
	k, err := kernel.Open(kernel.Options{StateDir: tb.TempDir(), RuntimeDir: tb.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { k.Close() })
	return &gateway{Kernel: k}
}

// turn makes d so.
func (g *gateway) turn(tb testing.TB, d desired.Desired) {
	tb.Helper()
	a, err := g.Read(tb.Context(), d)
	if err != nil {
		tb.Fatal(err)
	}
	p := plan.Diff(a, d)
	if err := g.Apply(tb.Context(), p); err != nil {
		tb.Fatalf("%v\n%s", err, p)
	}
	g.built = d
}
