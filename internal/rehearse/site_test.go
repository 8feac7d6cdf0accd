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

// A line without a family brings in no conversation of it. One of IPv6 alone, behind a line
// of both, had every drill of a lost line wait for an IPv4 address that it never gets.
func TestLineWithoutTheFamilyBringsNothingIn(t *testing.T) {
	const file = `
wan "dsl" { interface = "w1" }
wan "six" {
  interface = "w2"
  ipv4 { method = "none" }
}
wan "four" {
  interface = "w3"
  ipv6 { method = "none" }
}
lan "home" {
  interface = "l0"
  address   = ["192.168.178.1/24", "fd6b:e6d0:1::1/64"]
  host "nas" { address = ["192.168.178.20", "fd6b:e6d0:1::20"] }
}
forward "cloud" {
  port = 443
  to   = host.nas
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
	b := &Bench{Site: site}
	for _, c := range []struct {
		wan    string
		v6, in bool
	}{
		{"dsl", false, true},
		{"dsl", true, true},
		{"six", false, false},
		{"six", true, true},
		{"four", false, true},
		{"four", true, false},
	} {
		if f, _ := b.inbound(c.wan, c.v6); (f != nil) != c.in {
			t.Errorf("a conversation of %s comes in by %s: %v, want %v", familyName(c.v6), c.wan, f != nil, c.in)
		}
	}
}
