package desired_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/state"
)

// An ISP's server may say anything: what it has no right to give is not taken.
func TestGranted(t *testing.T) {
	c, diags := config.Parse(config.File{Name: "gateway.hcl", Src: []byte(`
gateway "gw" { ula = "fd12:3456:789a::/48" }
wan "a" {
  interface = "eth1"
  ipv6 { delegate = 56 }
}
wan "b" {
  interface = "eth2"
  ipv6 { delegate = 56 }
}
lan "home" {
  interface = "eth0"
  address   = ["192.168.77.1/24", "2001:db8:77::1/64"]
}
`)})
	if c == nil {
		t.Fatal(diags)
	}
	nets := func(list ...string) (out []netip.Prefix) {
		for _, p := range list {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	s := state.State{WANs: map[string]state.WAN{
		"a": {Delegated: nets("2001:db8:a00::/56", "fd12:3456::/32", "2001:db8:77::/56", "2001:db8:b00::/64")},
		"b": {Delegated: nets("2001:db8:b00::/56", "2001:db8:b01::/56", "2001:db8:a00:80::/60")},
	}}
	taken, refused := desired.Granted(c, s)
	want := map[string][]netip.Prefix{"a": nets("2001:db8:a00::/56", "2001:db8:b00::/64"), "b": nets("2001:db8:b01::/56")}
	if d := cmp.Diff(want, taken, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
		t.Error(d)
	}
	said := strings.Join(refused, "\n")
	for _, w := range []string{
		`fd12:3456::/32, which wan "a" was delegated, is not used: fd12:3456:789a::/48 is the house's own`,
		`2001:db8:77::/56, which wan "a" was delegated, is not used: 2001:db8:77::1/64 is lan "home"'s`,
		`2001:db8:b00::/56, which wan "b" was delegated, is not used: 2001:db8:b00::/64 is wan "a"'s`,
		`2001:db8:a00:80::/60, which wan "b" was delegated, is not used: 2001:db8:a00::/56 is wan "a"'s`,
	} {
		if !strings.Contains(said, w) {
			t.Errorf("no word of %s in\n%s", w, said)
		}
	}
	if len(refused) != 4 {
		t.Errorf("%d refused:\n%s", len(refused), said)
	}
	s.WANs["a"] = state.WAN{Delegated: nets("fd12::/16"), V6: state.Line{Up: true}}
	if home := desired.Home(c, s); home != "b" {
		t.Errorf("devices are to use what %q was delegated", home)
	}
}
