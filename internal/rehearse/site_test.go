package rehearse

import (
	"net/netip"
	"slices"
	"testing"

	"weir/internal/config"
)

// Who the file asks is in the internet, and the house's networks are the house's: no
// simulated ISP has them. A line whose own router was the target passed for good
// while all behind it was dark.
func TestISPsNetworksAreNobodysElse(t *testing.T) {
	const file = `
gateway "gw" { domain = "home.arpa" }
wan "dsl" {
  interface = "w1"
  probe { target = ["tcp://198.51.100.1:443", "2001:db8:1::1"] }
}
wan "lte" { interface = "w2" }
failover {
  probe { target = ["203.0.113.1"] }
}
dns { upstream = ["198.18.3.53", "2001:db8:2::53"] }
time { server = ["198.18.4.123"] }
lan "home" {
  interface = "l0"
  address   = ["198.18.5.1/24", "2001:db8:3::1/64"]
}
`
	cfg, diags := config.Parse(config.File{Name: "own.hcl", Src: []byte(file)})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	site, err := NewSite(cfg, Machine{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range site.Lines {
		got = append(got, netip.PrefixFrom(l.Router4, 24).Masked().String(), l.Prefix6.String())
	}
	want := []string{"198.18.6.0/24", "2001:db8:4::/64", "198.18.7.0/24", "2001:db8:5::/64"}
	if !slices.Equal(got, want) {
		t.Errorf("the ISPs' networks are %v, want %v", got, want)
	}
}
