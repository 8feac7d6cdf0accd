package kernel_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
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

// twoLines is a house with two lines, hosts and forwards of each of them.
func twoLines(hosts, forwards int) string {
	var b strings.Builder
	b.WriteString(`
wan "fiber" { interface = "eth1" }
wan "lte" { interface = "eth2" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/16", "fd00::1/64"]
`)
	if hosts == 0 {
		b.WriteString(`  dhcp { pool = "172.31.0.100-172.31.0.200" }
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["172.31.0.23", "fd00::23"]
  }
`)
	}
	for i := range hosts {
		fmt.Fprintf(&b, "  host \"h%d\" {\n    mac     = \"02:00:00:00:%02x:%02x\"\n    address = \"172.31.%d.%d\"\n  }\n", i, i/256, i%256, 4+i/250, 1+i%250)
	}
	b.WriteString("}\n")
	if hosts == 0 {
		b.WriteString("forward \"web\" {\n  port = [80, 443]\n  to   = host.nas\n}\n")
	}
	for i := range forwards {
		fmt.Fprintf(&b, "forward \"f%d\" {\n  port = %d\n  to   = host.h%d\n}\n", i, 2000+i, i%max(hosts, 1))
	}
	return b.String()
}

// BenchmarkTurn is a whole turn in which nothing has to be done: build, read the
// kernel back, compare. "quiet" is without an nft transaction since the last
// turn; "dump" is with one, of whomever, so that the ruleset is read back whole.
func BenchmarkTurn(b *testing.B) {
	netnstest.Need(b)
	for _, c := range []struct {
		name            string
		hosts, forwards int
	}{{"reference", 0, 0}, {"1000hosts500forwards", 1000, 500}} {
		cfg, diags := config.Parse(config.File{Name: "gateway.hcl", Src: []byte(twoLines(c.hosts, c.forwards))})
		if diags.HasErrors() {
			b.Fatal(diags)
		}
		k := benchKernel(b)
		st := state.State{
			ULA: netip.MustParsePrefix("fd57:e1:a::/48"), Index: map[string]uint8{"fiber": 1, "lte": 2}, Use4: "fiber", Use6: "fiber",
			Machine: k.Machine(), WANs: map[string]state.WAN{},
		}
		for i, name := range []string{"fiber", "lte"} {
			p := netip.MustParsePrefix(fmt.Sprintf("198.51.%d.10/24", 100+i))
			st.WANs[name] = state.WAN{V4: state.Line{Up: true, Addr: []netip.Prefix{p}, Routes: []state.Route{
				{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr(fmt.Sprintf("198.51.%d.1", 100+i))}}}}
		}
		turn := func() plan.Plan {
			want := desired.Build(cfg, st)
			a, err := k.Read(b.Context(), want)
			if err != nil {
				b.Fatal(err)
			}
			return plan.Diff(a, want)
		}
		if err := k.Apply(b.Context(), turn()); err != nil {
			b.Fatal(err)
		}
		if p := turn(); !p.Empty() {
			b.Fatalf("not empty:\n%.2000s", p)
		}
		b.Run(c.name+"/quiet", func(b *testing.B) {
			for b.Loop() {
				turn()
			}
		})
		b.Run(c.name+"/dump", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				touch(b)
				b.StartTimer()
				if p := turn(); !p.Empty() {
					b.Fatal(p)
				}
			}
		})
		if err := k.Down(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := netns.Delete("outside"); err != nil {
			b.Fatal(err)
		}
		_ = os.RemoveAll("/run/bench")
	}
}

// BenchmarkCarrier is one poll of two ports.
func BenchmarkCarrier(b *testing.B) {
	netnstest.Need(b)
	k, err := kernel.Open(kernel.Options{StateDir: b.TempDir(), RuntimeDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	for b.Loop() {
		if _, err := k.Carrier(kernel.Port{Link: "lo"}, kernel.Port{Link: "lo"}); err != nil {
			b.Fatal(err)
		}
	}
}

func benchKernel(b *testing.B) *kernel.Kernel {
	b.Helper()
	t := &bench{TB: b}
	t.must(netns.Create("outside"))
	for _, n := range []string{"0", "1", "2"} {
		t.run("", "ip link del eth"+n+" 2>/dev/null || true")
		t.port("eth"+n, "port"+n)
	}
	k, err := kernel.Open(kernel.Options{StateDir: b.TempDir(), RuntimeDir: b.TempDir()})
	t.must(err)
	b.Cleanup(func() { k.Close() })
	return k
}

// touch makes an nft transaction that is nobody's business.
func touch(b *testing.B) {
	b.Helper()
	t := &bench{TB: b}
	t.run("", "nft add table inet touched")
}

// BenchmarkCounters is one reading of what came back by the lines.
func BenchmarkCounters(b *testing.B) {
	netnstest.Need(b)
	for _, c := range []struct {
		name            string
		hosts, forwards int
	}{{"reference", 0, 0}, {"1000hosts500forwards", 1000, 500}} {
		b.Run(c.name, func(b *testing.B) {
			cfg, diags := config.Parse(config.File{Name: "gateway.hcl", Src: []byte(twoLines(c.hosts, c.forwards))})
			if diags.HasErrors() {
				b.Fatal(diags)
			}
			t := &bench{TB: b}
			want := desired.Build(cfg, state.State{Index: map[string]uint8{"fiber": 1, "lte": 2}})
			cmd := exec.Command("nft", "-f", "-")
			cmd.Stdin = strings.NewReader(want.Namespaces[0].Table.Text)
			out, err := cmd.CombinedOutput()
			if err != nil {
				b.Fatalf("nft: %v: %s", err, out)
			}
			k, err := kernel.Open(kernel.Options{StateDir: b.TempDir(), RuntimeDir: b.TempDir()})
			t.must(err)
			defer k.Close()
			for b.Loop() {
				if n, err := k.Counters(); err != nil || len(n) < 8 {
					b.Fatal(n, err)
				}
			}
			t.run("", "nft delete table inet weir")
		})
	}
}
