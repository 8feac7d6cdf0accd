package desired_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/state"
)

var update = flag.Bool("update", false, "write the golden files anew; read the diff")

// read returns a file of testdata.
func read(tb testing.TB, name string) string {
	tb.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name+".hcl"))
	if err != nil {
		tb.Fatal(err)
	}
	return string(src)
}

// house parses a file of testdata, and gives a state in which all its lines work.
func house(tb testing.TB, name string) (*config.Config, state.State) {
	tb.Helper()
	files := []config.File{{Name: name + ".hcl", Src: []byte(read(tb, name))}}
	c, diags := config.Parse(files...)
	if diags.HasErrors() {
		tb.Fatal(diags.Format(files))
	}
	return c, working(c)
}

// working is a state in which all lines of a file work: what the file leaves to
// an ISP is made up, told apart by the line's place in the file.
func working(c *config.Config) state.State {
	s := state.State{
		ULA:     netip.MustParsePrefix("fd57:e1:a::/48"),
		Index:   map[string]uint8{},
		WANs:    map[string]state.WAN{},
		Machine: state.Machine{VLAN: true, Bridge: true, ConntrackMax: true},
		Use4:    c.WANs[0].Name,
		Use6:    c.WANs[0].Name,
	}
	for i, w := range c.WANs {
		s.Index[w.Name] = uint8(i + 1)
		known := state.WAN{V4: state.Line{Up: true}, V6: state.Line{Up: w.IPv6.Method != config.MethodNone}}
		if w.IPv4.Method == config.MethodDHCP {
			gw := netip.AddrFrom4([4]byte{100, 64, byte(i + 1), 1})
			known.V4.Addr = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(i + 1), 10}), 24)}
			known.V4.Routes = []state.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: gw}}
			known.V4.DNS = []netip.Addr{gw}
		}
		if w.IPv6.Method == config.MethodAuto || w.IPv6.Method == config.MethodSLAAC {
			known.V6.Addr = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::10/64", i+1))}
		}
		s.WANs[w.Name] = known
	}
	return s
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".hcl")
		t.Run(name, func(t *testing.T) {
			got := render(desired.Build(house(t, name)))
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("- golden, + built (go test -update writes it anew):\n%s", d)
			}
		})
	}
}

// render writes a Desired for people: a line per object, zero fields left out.
func render(d desired.Desired) string {
	var b strings.Builder
	for _, n := range d.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, n := range d.Namespaces {
		fmt.Fprintf(&b, "\n== namespace %q\n", n.Name)
		for _, of := range []any{n.Links, n.Addrs, n.Routes, n.Rules, n.Sysctls} {
			v := reflect.ValueOf(of)
			for i := range v.Len() {
				fmt.Fprintf(&b, "%s%s\n", strings.ToLower(v.Index(i).Type().Name()), fields(v.Index(i)))
			}
		}
		for _, s := range n.Table.Sets { // the text is internal/ruleset's to hold
			fmt.Fprintf(&b, "set %s { %s }\n", s.Name, strings.Join(s.Elements, ", "))
		}
	}
	return b.String()
}

func fields(v reflect.Value) string {
	var b strings.Builder
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			fmt.Fprintf(&b, " %s=%v", v.Type().Field(i).Name, v.Field(i))
		}
	}
	return b.String()
}

// TestLeasedBesideAdvertised: what DHCPv6 leased on a line whose addresses are the
// kernel's is ours to add; the kernel's are not.
func TestLeasedBesideAdvertised(t *testing.T) {
	c, diags := config.Parse(config.File{Name: "a.hcl", Src: []byte(`
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}
`)})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	st := working(c)
	leased := netip.MustParsePrefix("2001:db8:1::1000/128")
	w := st.WANs["fiber"]
	w.V6.Leased = []netip.Prefix{leased}
	w.V6.Addr = append(w.V6.Addr, leased)
	st.WANs["fiber"] = w
	for _, n := range desired.Build(c, st).Namespaces {
		if n.Name != desired.NSPrefix+"fiber" {
			continue
		}
		var got []netip.Prefix
		for _, a := range n.Addrs {
			if a.Link == "eth1" && a.Prefix.Addr().Is6() {
				got = append(got, a.Prefix)
			}
		}
		if len(got) != 1 || got[0] != leased {
			t.Errorf("on the port %v, want %s", got, leased)
		}
		return
	}
	t.Fatal("no namespace")
}
