package gateway

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/kernel"
	"weir/internal/state"
)

// TestDevices: which leases, and which addresses of a device's own making, are one
// device's.
func TestDevices(t *testing.T) {
	c := mustParse(t, `wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  dhcp6 { pool = "::1000-::1fff" }
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = "172.31.0.23"
  }
  host "tv" { mac = "02:00:00:00:00:aa" }
}`)
	w := world{lans: map[string]link{"home": {name: "eth0", index: 2}}}
	ip := netip.MustParseAddr
	leases := []state.Lease{
		{LAN: "home", Addr: ip("172.31.0.23"), Client: "mac:02:00:00:00:00:23", MAC: "02:00:00:00:00:23", Host: "nas", Hostname: "synology"},
		{LAN: "home", Addr: ip("172.31.0.130"), Client: "ff000000010003000102000000ab", MAC: "02:00:00:00:0f:ff", Hostname: "laptop"},
		{LAN: "home", Addr: ip("172.31.0.131"), Client: "mac:02:00:00:00:00:aa", MAC: "02:00:00:00:00:aa", Host: "tv"},
		{LAN: "home", Addr: ip("::1005"), Client: "0003000102000000ab", MAC: "02:00:00:00:00:ab", IAID: 1, Hostname: "another-word"},
		{LAN: "home", Addr: ip("::1006"), Client: "0002", MAC: "02:00:00:00:00:ac", IAID: 1, Hostname: "six-only"},
		{LAN: "home", Addr: ip("fe80::9"), Part: 1, Client: "0002", IAID: 2, Hostname: "router"},
	}
	near := []kernel.Neighbour{
		{Link: "eth0", Addr: ip("fd00::ff:fe00:aa"), MAC: "02:00:00:00:00:aa", Ago: 5 * time.Hour}, // says its MAC: it stays
		{Link: "eth0", Addr: ip("fd00::abcd"), MAC: "02:00:00:00:00:aa"},
		{Link: "eth0", Addr: ip("fd00::dead"), MAC: "02:00:00:00:00:aa", Ago: 2 * time.Hour}, // an address of yesterday
		{Link: "eth0", Addr: ip("fe80::ff:fe00:aa"), MAC: "02:00:00:00:00:aa"},
		{Link: "eth0", Addr: ip("2001:db8::1"), MAC: "02:00:00:00:00:aa"}, // no network of the LAN
		{Link: "eth1", Addr: ip("fd00::7"), MAC: "02:00:00:00:00:aa"},     // elsewhere
		{Link: "eth0", Addr: ip("fd00::23:23"), MAC: "02:00:00:00:00:23"},
	}
	type short struct {
		Name, Addr string
		Six        []netip.Addr
	}
	var got []short
	for _, d := range devices(c, w, leases, near) {
		got = append(got, short{d.name, d.addr.String(), d.six})
	}
	want := []short{
		{"synology", "172.31.0.23", addresses("fd00::23:23")},
		{"laptop", "172.31.0.130", addresses("fd00::1005")},
		{"tv", "172.31.0.131", addresses("fd00::ff:fe00:aa", "fd00::abcd")},
		{"six-only", "invalid IP", addresses("fd00::1006")},
	}
	if d := cmp.Diff(want, got, addrs); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(addresses("fd00::23:23"), hostMore(c, w, c.Host("nas"), leases, near), addrs); d != "" {
		t.Error(d)
	}
	if more := hostMore(c, w, c.Host("tv"), leases, near); more != nil {
		t.Errorf("a host without an address in the file has %v besides", more)
	}
}
