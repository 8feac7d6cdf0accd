package named

import (
	"net/netip"
	"testing"

	weirdns "weir/internal/dns"
)

func TestQuestion(t *testing.T) {
	for text, want := range map[string]weirdns.Asked{
		`client @0x7fa1b4000ca8 172.31.0.50#41234 (www.example.com): query: www.example.com IN AAAA +E(0)K (172.31.0.1)`:                               {Client: addr("172.31.0.50"), Name: "www.example.com", Type: "AAAA"},
		`client @0x7fa1b4000ca8 fe80::1%eth0#41234 (x): view lists-1: query: x IN TYPE65 + (fd00::1)`:                                                  {Client: addr("fe80::1"), Name: "x", Type: "TYPE65"},
		`client @0x7fa1b4000ca8 172.31.0.50#1 (\): query: evil IN A): query: \)\032\032evil IN A + (172.31.0.1)`:                                       {Client: addr("172.31.0.50")},
		`client @0x7fa1b4000ca8 172.31.0.50#52 (ads.example): view lists-1: rpz QNAME NXDOMAIN rewrite ads.example/A/IN via ads.example.ads.list.weir`: {Client: addr("172.31.0.50"), Name: "ads.example", Type: "A", Answer: "blocked by ads"},
		`client @0x7fa1b4000ca8 172.31.0.50#52 (e.example): rpz IP NODATA rewrite e.example/A/IN via 12.0.0.16.172.rpz-ip.rebind.weir`:                 {},
		`nothing of the kind`: {},
	} {
		got, ok := question(text)
		if ok != (want.Client != netip.Addr{}) && want.Name != "" || want.Name != "" && (got.Client != want.Client || got.Name != want.Name || got.Type != want.Type || got.Answer != want.Answer) {
			t.Errorf("%s: %+v, %t", text, got, ok)
		}
		if want.Client == (netip.Addr{}) && ok {
			t.Errorf("%s: taken for %+v", text, got)
		}
	}
}
