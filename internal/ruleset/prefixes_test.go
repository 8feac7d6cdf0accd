package ruleset

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(text string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range strings.Fields(text) {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func text(ps []netip.Prefix) string { return strings.Trim(fmt.Sprint(ps), "[]") }

func TestSubtract(t *testing.T) {
	for _, c := range []struct{ from, holes, want string }{
		{"192.168.1.0/24", "", "192.168.1.0/24"},
		{"192.168.1.0/24", "10.0.0.0/8 2001:db8::/32", "192.168.1.0/24"},
		{"192.168.1.0/24", "192.168.1.0/24", ""},
		{"192.168.1.0/24", "192.168.0.0/16", ""},
		{"192.168.0.0/22", "192.168.1.0/24", "192.168.0.0/24 192.168.2.0/23"},
		{"192.168.0.0/23", "192.168.1.0/24 192.168.0.128/25", "192.168.0.0/25"},
		{"10.0.0.0/30", "10.0.0.1/32", "10.0.0.0/32 10.0.0.2/31"},
		{"fd00::/63", "fd00:0:0:1::/64", "fd00::/64"},
	} {
		if got := text(subtract(netip.MustParsePrefix(c.from), prefixes(c.holes))); got != c.want {
			t.Errorf("%s less %q is %q, want %q", c.from, c.holes, got, c.want)
		}
	}
}

func TestDisjoint(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"10.0.0.1/32 10.0.0.0/24 10.0.0.1/32", "10.0.0.0/24"},
		{"10.0.1.0/24 10.0.0.0/24", "10.0.0.0/24 10.0.1.0/24"},
		{"10.0.0.1/8 10.0.0.0/24 fd00::/8 fd00::1/128", "10.0.0.0/8 fd00::/8"},
	} {
		if got := text(disjoint(prefixes(c.in))); got != c.want {
			t.Errorf("disjoint %q is %q, want %q", c.in, got, c.want)
		}
	}
}

// TestSubtractByPoints compares with asking address by address.
func TestSubtractByPoints(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func() netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.UintN(256))}), 24+int(r.UintN(9))).Masked()
	}
	for range 500 {
		p, holes := some(), []netip.Prefix{some(), some(), some()}
		got := subtract(p, holes)
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			if want := p.Contains(a) && !inside(a, holes); inside(a, got) != want {
				t.Fatalf("%s less %s is %s: wrong for %s", p, holes, got, a)
			}
		}
	}
}
