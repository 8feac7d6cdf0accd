package gateway

import (
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"weir/internal/desired"
	"weir/internal/foreign"
	"weir/internal/named"
	"weir/internal/state"
)

func TestNamedConfig(t *testing.T) {
	c := mustParse(t, `
gateway "gw" { domain = "corp.example" }
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  host "nas" {
    address = ["172.31.0.23", "::23"]
    alias   = ["files", "files.example.org"]
  }
  host "tv" {
    mac  = "02:00:00:00:00:aa"
    name = "television"
  }
}
dns {
  engine   = "bind"
  upstream = "9.9.9.9"
  validate = false
  zone "corp.example" {
    ttl = "5m"
    record "a" {
      address = [host.nas, "172.31.0.9"]
      mx      = "10 mail"
      txt     = "a text"
      ttl     = "1m"
    }
  }
  zone "example.org" {}
  zone "branch.example" { forward = "10.9.0.1" }
  key "acme" {
    zone = "example.org"
    name = "_acme-challenge"
    type = "TXT"
  }
}`)
	w := world{house: house{ULA: netip.MustParsePrefix("fd12:3456:789a::/48"), Index: map[string]uint8{"fiber": 1}}}
	st := w.state(c)
	leases := []state.Lease{
		{LAN: "home", Addr: netip.MustParseAddr("172.31.0.130"), Client: "mac:02:00:00:00:00:aa", MAC: "02:00:00:00:00:aa", Host: "tv", Hostname: "SomeTV"},
		{LAN: "home", Addr: netip.MustParseAddr("172.31.0.131"), Client: "01aabb", MAC: "02:00:00:00:00:ab", Hostname: "phone"},
		{LAN: "home", Addr: netip.MustParseAddr("172.31.0.132"), Client: "01aabc", MAC: "02:00:00:00:00:ac"},
	}
	got := namedConfig(c, w, desired.Build(c, st), leases, nil)
	near, far := got.Cables[0].Near, got.Cables[0].Far
	if len(near) != 2 || len(far) != 2 || !got.Cables[0].Networks[0].Contains(near[0]) || !got.Cables[0].Networks[1].Contains(far[1]) || near[0] == far[0] {
		t.Errorf("cables: %+v", got.Cables)
	}
	got.Cables = nil
	nine := []netip.AddrPort{netip.MustParseAddrPort("9.9.9.9:53")}
	home := []string{"corp.example"}
	want := named.Config{
		Gateway: "gw", Domain: "corp.example", Unchecked: true, Upstreams: nine,
		LANs:    []named.LAN{{Name: "home", Addrs: prefixes("172.31.0.1/24", "fd00::1/64"), Domains: home}},
		Clients: prefixes("fe80::/10", "172.31.0.0/24", "fd00::/64"),
		Hosts: []named.Host{
			{Name: "nas", Addrs: addresses("172.31.0.23", "fd00::23"), Alias: []string{"files.corp.example", "files.example.org"}, Domains: home},
			{Name: "television", Domains: home},
		},
		Zones: []named.Zone{
			{Name: "corp.example", TTL: 300, SOA: named.DefaultSOA, Records: []named.Record{{
				Name: "a", TTL: 60, Addrs: addresses("172.31.0.23", "fd00::23", "172.31.0.9"), Texts: []string{"a text"}, Data: []named.Datum{{Type: "MX", Data: "10 mail"}},
			}}},
			{Name: "example.org", TTL: 3600, SOA: named.DefaultSOA},
			{Name: "branch.example", Forward: []netip.AddrPort{netip.MustParseAddrPort("10.9.0.1:53")}},
		},
		Keys: []named.Key{{Name: "acme", Algorithm: "hmac-sha256", Zones: []string{"example.org"}, Names: []string{"_acme-challenge"}, Types: []string{"TXT"}}},
		Leases: []named.Lease{
			{Name: "television", Addr: leases[0].Addr, Client: "mac:02:00:00:00:00:aa", MAC: "02:00:00:00:00:aa", Domains: home},
			{Name: "phone", Addr: leases[1].Addr, Client: "01aabb", MAC: "02:00:00:00:00:ab", Domains: home},
		},
	}
	equal := cmp.Options{addrs, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })}
	if d := cmp.Diff(want, got, equal); d != "" {
		t.Error(d)
	}
}

func TestOtherNamed(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	link := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s), Mode: fs.ModeSymlink} }
	root := fstest.MapFS{
		"proc/self/ns/net": link("net:[1]"),
		"proc/10/ns/net":   link("net:[1]"), "proc/10/cmdline": file("/usr/sbin/named\x00-f\x00-c\x00/var/lib/weir/named/named.conf\x00"),
		"proc/11/ns/net": link("net:[2]"), "proc/11/cmdline": file("/usr/sbin/named\x00-u\x00bind\x00"), // a container's
		"proc/12/ns/net": link("net:[1]"), "proc/12/cmdline": file("vi\x00named\x00"),
	}
	if pid := otherNamed(root, "/var/lib/weir/named"); pid != 0 {
		t.Errorf("pid %d is another's", pid)
	}
	root["proc/13/ns/net"], root["proc/13/cmdline"] = link("net:[1]"), file("/usr/sbin/named\x00-f\x00-u\x00bind\x00")
	if pid := otherNamed(root, "/var/lib/weir/named"); pid != 13 {
		t.Errorf("pid %d, want 13", pid)
	}
	if foreign.Confined(root, "named", "/var/lib/weir/named") {
		t.Error("AppArmor, where there is none")
	}
	root["sys/kernel/security/apparmor/profiles"] = file("named (enforce)\nman_filter (enforce)\n")
	if !foreign.Confined(root, "named", "/var/lib/weir/named") {
		t.Error("AppArmor's profile is not seen")
	}
	root["etc/apparmor.d/local/usr.sbin.named"] = file("# weir\n/var/lib/weir/named/** rwk,\n")
	if foreign.Confined(root, "named", "/var/lib/weir/named") {
		t.Error("what is written to the profile is not seen")
	}
	if !foreign.Confined(root, "named", "/run/lab/state/named") {
		t.Error("what is written to the profile is for another directory")
	}
}

// Who answers, by what the file says and what the machine has.
func TestChooseEngine(t *testing.T) {
	const zone, tls = `zone "example.org" { }`, `upstream = "tls://9.9.9.9#dns.quad9.net"`
	enforced := fstest.MapFS{"sys/kernel/security/apparmor/profiles": &fstest.MapFile{Data: []byte("named (enforce)\n")}}
	for _, tc := range []struct {
		about, dns string
		missing    error
		root       fs.FS
		bind       bool
		note       string // a part of the first one; "": there is none
	}{
		{"unsaid, and there", "", nil, nil, true, ""},
		{"unsaid, and missing", "", named.ErrMissing, nil, false, ""},
		{"unsaid, and kept from its files", "", nil, enforced, false, "AppArmor"},
		{"unsaid, and an upstream over TLS", tls, nil, nil, false, ""},
		{"the file has a zone", zone, nil, nil, true, ""},
		{"the file has a zone, and it is missing", zone, named.ErrMissing, nil, false, "not installed"},
		{"the file has a zone, and it is kept from its files", zone, nil, enforced, true, "AppArmor"},
		{"forward", `engine = "forward"`, nil, nil, false, ""},
		{"bind", `engine = "bind"`, nil, nil, true, ""},
		{"bind, and missing", `engine = "bind"`, named.ErrMissing, nil, false, "not installed"},
	} {
		if tc.root == nil {
			tc.root = fstest.MapFS{}
		}
		c := mustParse(t, twoLines+"dns {\n"+tc.dns+"\n}\n")
		bind, notes := chooseEngine(c, tc.missing, tc.root, "/var/lib/weir/named")
		if bind != tc.bind || (len(notes) == 0) != (tc.note == "") || len(notes) > 0 && !strings.Contains(notes[0], tc.note) {
			t.Errorf("%s: %t, %q", tc.about, bind, notes)
		}
	}
}

// What the owner wrote wrong is told, and the house goes on by the built-in keys.
func TestRootAnchors(t *testing.T) {
	dir := t.TempDir()
	if text, note := rootAnchors(dir); text != "" || note != "" {
		t.Errorf("none: %q %q", text, note)
	}
	write(t, dir+"/root-anchors", named.Anchors)
	if text, note := rootAnchors(dir); text != named.Anchors || note != "" {
		t.Errorf("right ones: %q %q", text, note)
	}
	write(t, dir+"/root-anchors", ". IN A 192.0.2.1\n")
	if text, note := rootAnchors(dir); text != "" || !strings.Contains(note, "no DS record") {
		t.Errorf("wrong ones: %q %q", text, note)
	}
}
