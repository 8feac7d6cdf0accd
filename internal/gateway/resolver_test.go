package gateway

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/desired"
	"weir/internal/state"
)

// TestOwnResolvers: whoever is to be asked for a line, its own resolver stands
// under the far end of its cable, and never nobody is told.
func TestOwnResolvers(t *testing.T) {
	port := func(a netip.Addr) string { return netip.AddrPortFrom(a, 53).String() }
	for _, tt := range []struct {
		name, say string
		up, use   string // lines
		bind, own []string
	}{
		{"unsaid", ``, "fiber lte", "fiber", nil, []string{"fiber4", "lte4"}},
		{"the line in use", `upstream = wan`, "fiber lte", "lte", []string{"lte4"}, []string{"lte4", "fiber4"}},
		{"its line is down", `upstream = wan`, "lte", "fiber", []string{"lte4"}, []string{"lte4"}},
		{"one line's", `upstream = wan.fiber`, "fiber lte", "lte", []string{"fiber4"}, []string{"fiber4"}},
		{"all are down", `upstream = wan.fiber`, "", "", []string{"fiber4", "fiber6"}, nil},
		{"with another", `upstream = [wan.fiber, "9.9.9.9"]`, "", "", []string{"9.9.9.9:53"}, []string{"9.9.9.9:53"}},
		{"with another, up", `upstream = [wan.fiber, "9.9.9.9"]`, "fiber", "", []string{"9.9.9.9:53", "fiber4"}, []string{"fiber4", "9.9.9.9:53"}},
	} {
		c := mustParse(t, strings.Replace(twoLines, "gateway = \"198.51.100.1\"", "gateway = \"198.51.100.1\"\n    dns = \"198.51.100.53\"", 1)+"dns { "+tt.say+" }")
		w, _ := house2()
		w.use4 = tt.use
		for _, name := range []string{"fiber", "lte"} {
			k := w.wans[name]
			k.up4 = strings.Contains(tt.up, name)
			w.wans[name] = k
		}
		far := farEnds(desired.Build(c, w.state(c)))
		spell := func(of []string) (out []string) {
			for _, s := range of {
				for name, addrs := range far {
					switch s {
					case name + "4":
						s = port(addrs[0])
					case name + "6":
						s = port(addrs[1])
					}
				}
				out = append(out, s)
			}
			return out
		}
		var bind, own []string
		for _, a := range forwarders(c, w, far, c.DNS.Upstream) {
			bind = append(bind, a.String())
		}
		for _, u := range upstreams(c, w, far) {
			own = append(own, u.Addr.String())
		}
		if d := cmp.Diff(spell(tt.bind), bind); d != "" {
			t.Errorf("%s, BIND:%s", tt.name, d)
		}
		if d := cmp.Diff(spell(tt.own), own); d != "" {
			t.Errorf("%s, weir's own:%s", tt.name, d)
		}
	}
}

// TestFurtherResolvers: all resolvers of a line are asked, three of a family, each at a port of
// its own; none that is the gateway itself but the first, which the line's namespace tells apart.
func TestFurtherResolvers(t *testing.T) {
	own := prefixes("192.168.1.1/24", "fd00::1/64")
	far := addresses("172.31.255.1", "fd00:ff::1")
	for _, tt := range []struct{ dns, want string }{
		{"", ""},
		{"9.9.9.9", "172.31.255.1:53"},
		{"9.9.9.9 9.9.9.9", "172.31.255.1:53"},
		{"9.9.9.9 2620:fe::fe 149.112.112.112", "172.31.255.1:53 172.31.255.1:54 [fd00:ff::1]:53"},
		{"192.168.1.1 9.9.9.9", "172.31.255.1:53 172.31.255.1:54"},
		{"9.9.9.9 192.168.1.1", "172.31.255.1:53"},
		{"2620:fe::fe fd00::1 2620:fe::9", "[fd00:ff::1]:53 [fd00:ff::1]:54"},
		{"1.1.1.1 1.1.1.2 1.1.1.3 1.1.1.4", "172.31.255.1:53 172.31.255.1:54 172.31.255.1:55"},
	} {
		known := state.WAN{V4: state.Line{Up: true, DNS: notOurs(addresses(strings.Fields(tt.dns)...), own)}, V6: state.Line{Up: true}}
		var got []string
		for _, a := range answering(known, far) {
			got = append(got, a.String())
		}
		if d := strings.Join(got, " "); d != tt.want {
			t.Errorf("%s: %s, want %s", tt.dns, d, tt.want)
		}
	}
}
