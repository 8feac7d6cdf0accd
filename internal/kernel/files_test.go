package kernel_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/netns/netnstest"
	"weir/internal/state"
)

// houses are what the files of these patterns want of the kernel, and their names:
// so many at least.
func (b *bench) houses(least int, patterns ...string) (wants []desired.Desired, names []string) {
	b.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		b.must(err)
		names = append(names, found...)
	}
	if len(names) < least {
		b.Fatalf("too few files: %q", names)
	}
	for _, n := range names {
		wants = append(wants, b.built(n))
	}
	return wants, names
}

// Every file that is shown to people replaces every other one in force, and the
// plan after is empty; then the machine is as it was.
func TestFilesReplaceEachOther(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		wants, names := b.houses(3, "../../examples/*.hcl", "../desired/testdata/*.hcl")
		before := ports(b)
		// A walk in which each file comes after each other one.
		for i := range wants {
			for j := i + 1; j < len(wants); j++ {
				for _, at := range []int{i, j} {
					t.Log(names[at])
					b.want = wants[at]
					b.turn()
				}
			}
		}
		b.must(b.k.Down(t.Context()))
		b.same("down", before, ports(b))
	})
}

// ports is how the ports are, and that nothing else is there.
func ports(b *bench) string {
	b.Helper()
	return b.run("", `ip -o link | sed 's/^[0-9]*: //; s/@[a-z0-9]*//; s/NO-CARRIER,//; s/,LOWER_UP//; s/ state [A-Z]*//; s/ qdisc [a-z]*//; s/ qlen 1000//; s/link.ether.*//' | sort
ip -o -4 addr; ip rule; ip -6 rule; ip route; nft list ruleset; ls /run/netns`)
}

// built is what a file wants on this machine when all its lines work. Ports of
// the file that aren't there are made.
func (b *bench) built(name string) desired.Desired {
	b.Helper()
	src, err := os.ReadFile(name)
	b.must(err)
	files := []config.File{{Name: name, Src: src}}
	cfg, diags := config.Parse(files...)
	if diags.HasErrors() {
		b.Fatal(diags.Format(files))
	}
	st := state.State{ULA: netip.MustParsePrefix("fd57:e1:a::/48"), Index: map[string]uint8{}, WANs: map[string]state.WAN{},
		Machine: b.k.Machine(), Use4: cfg.WANs[0].Name, Use6: cfg.WANs[0].Name}
	for i, w := range cfg.WANs {
		st.Index[w.Name] = uint8(i + 1)
		known := state.WAN{V4: state.Line{Up: true}, V6: state.Line{Up: true, Addr: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::10/64", i+1))}}}
		if w.IPv4.Method == config.MethodDHCP {
			known.V4.Addr = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("100.64.%d.10/24", i+1))}
			known.V4.Routes = []state.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr(fmt.Sprintf("100.64.%d.1", i+1))}}
		}
		st.WANs[w.Name] = known
	}
	d := desired.Build(cfg, st)
	have := strings.Fields(b.run("", `ip -o link | sed 's/^[0-9]*: //; s/[:@].*//'`))
	for _, n := range d.Namespaces {
		for _, l := range n.Links {
			if l.Kind == desired.Port && !slices.Contains(have, l.Name) {
				have = append(have, l.Name)
				b.port(l.Name, "o-"+l.Name)
			}
		}
	}
	return d
}
