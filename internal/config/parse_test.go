package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }
func ips(ss ...string) []netip.Addr {
	var as []netip.Addr
	for _, s := range ss {
		as = append(as, ip(s))
	}
	return as
}
func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func pfxs(ss ...string) []netip.Prefix {
	ps := []netip.Prefix{}
	for _, s := range ss {
		ps = append(ps, pfx(s))
	}
	return ps
}
func to(k Kind, name string) Place { return Place{Ref: Ref{k, name}} }
func at(s string) Place            { return Place{Prefix: pfx(s)} }
func echoes(addrs ...string) (out []Target) {
	for _, a := range addrs {
		out = append(out, Target{Ask: AskEcho, Addr: ip(a)})
	}
	return out
}
func rng(a, b string) Range { return Range{ip(a), ip(b)} }

var (
	advertised = Advertise{Enabled: true, Router: 30 * time.Minute, Preferred: 45 * time.Minute, Valid: 90 * time.Minute}

	all    = []Place{to(KindWAN, ""), to(KindLAN, ""), to(KindSelf, "")}
	probes = Probe{
		Target4: append(echoes("1.1.1.1", "9.9.9.9"), Target{AskTCP, ip("1.1.1.1"), 443, ""}, Target{AskTCP, ip("8.8.8.8"), 443, ""}),
		Target6: append(echoes("2606:4700:4700::1111", "2620:fe::fe"), Target{AskTCP, ip("2606:4700:4700::1111"), 443, ""}, Target{AskTCP, ip("2001:4860:4860::8888"), 443, ""}),
		Every:   250 * time.Millisecond,
	}
	simplest = File{Name: "home.hcl", Src: []byte("wan \"fiber\" { interface = \"eth1\" }\nlan \"home\" {\n  interface = \"eth0\"\n  address   = \"192.168.77.1/24\"\n}\n")}
)

// parse is for files that have to be right.
func parse(t testing.TB, files ...File) *Config {
	t.Helper()
	cfg, diags := Parse(files...)
	if cfg == nil {
		t.Fatal(diags.Format(files))
	}
	return cfg
}

func TestDefaults(t *testing.T) {
	want := &Config{
		Gateway: Gateway{Name: "gw", Domain: "home.arpa", Cable4: pfx("172.31.255.0/24"), FastPath: FastPathOff},
		WANs: []WAN{{
			Name: "fiber", Interface: "eth1",
			IPv4: WANv4{Method: MethodDHCP, Translate: NAT44, Hostname: "gw"},
			IPv6: WANv6{Method: MethodAuto, Translate: NPT, Delegate: 56}, Probe: probes,
		}},
		Failover: Failover{
			Prefer: []string{"fiber"}, HoldDown: 30 * time.Second, Degraded: Degraded{Loss: 20, Latency: 400 * time.Millisecond},
			Probe: probes,
		},
		LANs: []LAN{{
			Name: "home", Interface: []string{"eth0"}, Address4: pfx("192.168.77.1/24"), Reach: all,
			DHCP:      DHCP{Enabled: true, Pool: []Range{rng("192.168.77.128", "192.168.77.254")}, Lease: 12 * time.Hour, BOOTP: true},
			Advertise: advertised, Domain: []string{"home.arpa"},
		}},
		DNS:  DNS{Engine: "auto", Validate: true},
		Time: Time{Serve: true},
		API:  API{Group: "weir"},
	}
	if d := cmp.Diff(want, parse(t, simplest), same); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWholeFile(t *testing.T) {
	whole := Probe{Target4: echoes("1.1.1.1"), Target6: echoes("2606:4700:4700::1111"), Every: 500 * time.Millisecond, Timeout: 800 * time.Millisecond}
	own := whole
	own.Target4 = []Target{{AskTCP, ip("198.51.100.7"), 443, ""}, {AskDNS, ip("192.0.2.53"), 53, "name.example"}, {AskDNS, ip("192.0.2.54"), 5353, ""}}
	own.Every, own.Timeout = time.Second, 2*time.Second
	want := &Config{
		Gateway: Gateway{Name: "cellar", Domain: "example.net", Timezone: "Europe/Berlin",
			Cable4: pfx("172.31.1.0/24"), Cable6: pfx("fd00:1::/64"), ULA: pfx("fd5e:7a11:c0de::/48"), FastPath: FastPathOff},
		WANs: []WAN{{
			Name: "lte", Interface: "eth2", Metered: true, Move: true,
			IPv4: WANv4{Method: MethodDHCP, Translate: NAT44, ClientID: "hex:01020000000001", Hostname: "cellar-lte", VendorClass: "dslforum.org", IgnoreClasslessRoutes: true},
			IPv6: WANv6{Method: MethodSLAAC, Translate: NPT, Delegate: 56}, Probe: own,
		}, {
			Name: "fiber", Interface: "eth1", VLAN: 7, MAC: "02:00:00:00:00:f1", MTU: 1492,
			IPv4: WANv4{Method: MethodStatic, Address: pfxs("198.51.100.10/24", "198.51.100.11/24"), Gateway: ip("198.51.100.1"), Translate: NAT44, Hostname: "cellar"},
			IPv6: WANv6{Method: MethodStatic, Address: pfxs("2001:db8:1::10/64"), Gateway: ip("fe80::1"), Translate: NAT66}, Probe: whole,
		}, {
			Name: "link", Interface: "eth3",
			IPv4: WANv4{Method: MethodStatic, Address: pfxs("192.168.2.1/30"), Gateway: ip("192.168.2.2"), Translate: NoTranslate, Hostname: "cellar"},
			IPv6: WANv6{Method: MethodNone, Translate: NAT66}, Probe: whole,
		}},
		Failover: Failover{
			Prefer: []string{"fiber", "lte"}, HoldDown: 90 * time.Second,
			Degraded: Degraded{Loss: 30, Latency: time.Second},
			Probe:    whole,
		},
		LANs: []LAN{{
			Name: "home", Interface: []string{"eth0", "eth4"}, MTU: 9000, Address4: pfx("10.0.10.1/24"), Address6: pfxs("fd00::1/64"),
			Reach: []Place{to(KindWAN, ""), to(KindLAN, "things"), to(KindSelf, ""), at("192.168.2.0/30")},
			DHCP: DHCP{
				Enabled: true, Pool: []Range{rng("10.0.10.100", "10.0.10.150"), rng("10.0.10.200", "10.0.10.200")}, Lease: 2 * time.Hour,
				Options: []Option{
					{2, "time-offset", []byte{0xff, 0xff, 0xf1, 0xf0}},
					{6, "domain-name-servers", []byte{10, 0, 10, 23}},
					{42, "ntp-servers", []byte{10, 0, 10, 1, 10, 0, 10, 2}},
					{224, "224", []byte{10}},
				},
				Known: true, Boot: Boot{ip("10.0.10.9"), "undionly.kpxe"},
				Classes: []Class{{
					Name: "uefi", Vendor: []string{"PXEClient", "HTTPClient"}, User: []string{"x"}, Arch: []uint16{7, 9},
					Options: []Option{{43, "vendor-encapsulated-options", []byte{6, 1, 8}}}, Boot: Boot{File: "ipxe.efi"},
				}},
				Subnets: []Subnet{{
					Name: "up", Prefix: pfx("10.0.50.0/24"), Pool: []Range{rng("10.0.50.7", "10.0.50.7")}, Router: ip("10.0.50.1"),
					Options: []Option{{15, "domain-name", []byte("up")}},
				}},
			},
			Advertise: Advertise{Enabled: true, Prefix: pfxs("fd00::/64"), DNS: ips("fd00::23"), Search: []string{"example.net", "home.arpa"},
				Router: 10 * time.Minute, Preferred: 20 * time.Minute, Valid: 40 * time.Minute, Managed: true, Other: true,
				PREF64: pfx("64:ff9b::/96"), Portal: "https://portal.example/api"},
			DHCP6:  DHCP6{Enabled: true, Managed: true, Pool: []Range{{ip("::1000"), ip("::1fff")}}, Delegate: 60},
			Domain: []string{"example.net"},
			Hosts: []Host{
				{Name: "nas", LAN: "home", DNSName: "files", MAC: []string{"00:11:32:de:ad:71", "00:11:32:de:ad:72"}, Address: ips("10.0.10.23", "fd00::23"), Token: ips("::24")},
				{Name: "tablet", LAN: "home", DNSName: "tablet", MAC: []string{"02:00:00:00:10:31"}},
			},
		}, {
			Name: "things", Interface: []string{"eth5"}, VLAN: 30, Address4: pfx("10.0.30.1/24"),
			DHCP:      DHCP{Enabled: true, Lease: 12 * time.Hour, BOOTP: true},
			Advertise: Advertise{Enabled: true, Prefix: pfxs(), DNS: []netip.Addr{}, Search: []string{}, Router: 30 * time.Minute, Preferred: 45 * time.Minute, Valid: 90 * time.Minute},
			Domain:    []string{"example.net"},
			Hosts:     []Host{{Name: "camera", LAN: "things", DNSName: "camera", MAC: []string{"02:00:00:00:30:08"}, ID: []string{"63616d", "0063616d"}, Address: ips("10.0.30.8"), Token: ips("::8")}},
		}},
		Groups: []Group{
			{Name: "children", Member: []Place{to(KindHost, "tablet"), at("10.0.10.64/26")}},
			{Name: "friends", Member: []Place{at("203.0.113.0/24"), at("2001:db8:f::/48")}},
		},
		Rules: []Rule{
			{Name: "bedtime", Verb: Block, From: []Place{to(KindGroup, "children"), to(KindHost, "tablet")}, To: []Place{to(KindWAN, "")}, Protocol: []Protocol{TCP, UDP, ICMP, 132}},
			{Name: "print", Verb: Allow, From: []Place{to(KindLAN, "things")}, To: []Place{to(KindHost, "nas")}, Protocol: []Protocol{TCP}, Port: []PortRange{{631, 631}, {9100, 9102}}},
			{Name: "ssh", Verb: Reject, From: []Place{to(KindLAN, ""), at("10.9.9.9/32")}, To: []Place{to(KindSelf, "")}, Protocol: []Protocol{TCP, UDP}, Port: []PortRange{{22, 22}}},
		},
		Forwards: []Forward{{
			Name: "web", Protocol: []Protocol{TCP}, Port: []PortRange{{80, 80}, {443, 443}}, ToPort: []PortRange{{8080, 8080}, {8443, 8443}},
			To4: ip("10.0.10.23"), To6: ip("fd00::23"), LAN: "home", From: []Place{to(KindGroup, "friends"), at("192.0.2.1/32")}, On: []string{"fiber", "lte"},
		}, {
			Name: "rtp", Protocol: []Protocol{UDP, TCP}, Port: []PortRange{{10000, 20000}}, ToPort: []PortRange{{30000, 40000}},
			To4: ip("10.0.30.8"), To6: ip("fd5e:7a11:c0de:2::8"), LAN: "things", On: []string{"lte", "fiber", "link"}, Hairpin: true,
		}, {
			Name: "game", Protocol: []Protocol{UDP}, Port: []PortRange{{3074, 3074}}, ToPort: []PortRange{{3074, 3074}},
			To4: ip("10.0.10.77"), To6: ip("fd00::77"), LAN: "home", On: []string{"lte", "fiber", "link"}, Hairpin: true,
		}},
		Routes: []Route{
			{Name: "calls", From: []Place{to(KindLAN, "home"), to(KindHost, "camera")}, Protocol: []Protocol{UDP, TCP}, Port: []PortRange{{5060, 5060}, {10000, 20000}},
				Way: Prefer, WANs: []string{"lte", "fiber"}},
			{Name: "work", From: []Place{to(KindGroup, "children"), to(KindHost, "nas"), to(KindSelf, ""), at("10.0.10.9/32")},
				To: []Place{to(KindGroup, "friends"), at("198.51.100.0/24")}, Way: Only, WANs: []string{"fiber", "lte"}},
			{Name: "cheap", From: []Place{to(KindLAN, "")}, To: []Place{to(KindWAN, "")}, Protocol: []Protocol{ICMP}, Way: Never, WANs: []string{"lte"}},
		},
		Time: Time{Server: []TimeServer{{Addr: ip("192.0.2.123")}, {Addr: ip("2001:db8::123")}, {Name: "ntp.example.org"}, {Name: "time.example.org", NTS: true}}},
		DNS: DNS{Engine: "forward", Validate: true, Upstream: []Server{
			{Addr: netip.MustParseAddrPort("9.9.9.9:53")},
			{Addr: netip.MustParseAddrPort("149.112.112.112:853"), TLS: true, Name: "dns.quad9.net"},
			{Addr: netip.MustParseAddrPort("[2620:fe::fe]:5353")},
		}},
		API: API{Group: "adm"},
	}
	got := parse(t, read(t, "testdata/whole.hcl"))
	if d := cmp.Diff(want, got, same); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if p := (Pos{"whole.hcl", 9, 1}); got.WANs[0].Pos != p {
		t.Errorf("wan lte is at %v, want %v", got.WANs[0].Pos, p)
	}
}

// TestSeveralFilesAreOne: a house means the same with each block in a file of its own.
func TestSeveralFilesAreOne(t *testing.T) {
	whole := read(t, "testdata/whole.hcl")
	f, diags := hclsyntax.ParseConfig(whole.Src, "", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var files []File
	for i, b := range f.Body.(*hclsyntax.Body).Blocks {
		files = append(files, File{Name: fmt.Sprintf("%02d.hcl", i), Src: whole.Src[b.TypeRange.Start.Byte:b.CloseBraceRange.End.Byte]})
	}
	if d := cmp.Diff(parse(t, whole), parse(t, files...), same); d != "" || len(files) < 10 {
		t.Errorf("%d files (-one +several):\n%s", len(files), d)
	}
}

func TestMeteredIsPreferredLast(t *testing.T) {
	got := parse(t, File{Name: "x.hcl", Src: []byte(`
wan "lte" {
  interface = "eth1"
  metered   = true
}
wan "fiber" { interface = "eth2" }
wan "cable" { interface = "eth3" }
lan "home" {
  interface = "eth0"
  address   = "10.0.0.1/24"
}
`)}).Failover.Prefer
	if d := cmp.Diff([]string{"fiber", "cable", "lte"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestCableIsChosenClear takes away, one after the other, what would be chosen.
func TestCableIsChosenClear(t *testing.T) {
	for _, c := range []struct{ name, add, want string }{
		{"nothing in the way", ``, "172.31.255.0/24"},
		{"a rule names it", `block "x" { to = "172.31.255.7" }`, "172.31.254.0/24"},
		{"a LAN has half of the space", "lan \"b\" {\n  interface = \"eth2\"\n  address   = \"172.31.128.1/17\"\n}", "172.31.127.0/24"},
		{"a line has all of it", "wan \"b\" {\n  interface = \"eth2\"\n  ipv4 {\n    address = \"172.16.0.2/12\"\n    gateway = \"172.16.0.1\"\n  }\n}", "10.255.255.0/24"},
		{"a rule names all private space", `block "x" { to = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"] }`, "198.19.255.0/24"},
		{"a rule names everything there is to choose from", `block "x" { to = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15"] }`, "172.31.255.0/24"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parse(t, simplest, File{Name: "more.hcl", Src: []byte(c.add + "\n")}).Gateway.Cable4
			if got != pfx(c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestDefaultPool(t *testing.T) {
	for _, c := range []struct {
		address string
		want    []Range
	}{
		{"10.0.0.1/24", []Range{rng("10.0.0.128", "10.0.0.254")}},
		{"10.0.0.254/24", []Range{rng("10.0.0.128", "10.0.0.253")}},
		{"10.0.0.128/24", []Range{rng("10.0.0.129", "10.0.0.254")}},
		{"10.0.0.200/24", []Range{rng("10.0.0.128", "10.0.0.199"), rng("10.0.0.201", "10.0.0.254")}},
		{"10.20.0.1/22", []Range{rng("10.20.2.0", "10.20.3.254")}},
		{"10.0.0.1/30", []Range{rng("10.0.0.2", "10.0.0.2")}},
		{"10.0.0.2/30", nil},
		{"10.0.0.0/31", nil},
	} {
		if d := cmp.Diff(c.want, upperHalf(pfx(c.address)), same); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.address, d)
		}
	}
}

func TestExpand(t *testing.T) {
	c := &Config{Groups: []Group{
		{Name: "a", Member: []Place{to(KindHost, "x"), to(KindGroup, "b"), at("10.0.0.0/8")}},
		{Name: "b", Member: []Place{at("10.0.0.0/8"), to(KindGroup, "a"), to(KindLAN, "")}}, // a circle must not hang it
	}}
	want := []Place{to(KindSelf, ""), to(KindHost, "x"), at("10.0.0.0/8"), to(KindLAN, "")}
	if d := cmp.Diff(want, c.Expand([]Place{to(KindSelf, ""), to(KindGroup, "a"), to(KindGroup, "b"), to(KindHost, "x")}), same); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestULAIsWeirs follows a token through a house whose ULA the file leaves open.
func TestULAIsWeirs(t *testing.T) {
	c := parse(t, File{Name: "x.hcl", Src: []byte(`
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = "10.0.10.1/24"
}
lan "guest" {
  interface = "eth2"
  address   = "10.0.20.1/24"
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = "::23"
  }
}
forward "web" {
  port = 80
  to   = host.nas
}
`)})
	f := &c.Forwards[0]
	if f.To6.IsValid() || f.Token6 != ip("::23") || f.To4.IsValid() || f.LAN != "guest" {
		t.Errorf("before the ULA is known: %+v", f)
	}
	ula := pfx("fd12:3456:789a::/48")
	if d := cmp.Diff(pfxs("fd12:3456:789a:2::1/64"), c.Address6("guest", ula), same); d != "" {
		t.Errorf("gateway's address (-want +got):\n%s", d)
	}
	if got := c.ForwardTo6(f, ula); got != ip("fd12:3456:789a:2::23") {
		t.Errorf("forward to %v", got)
	}
	if d := cmp.Diff(ips("fd12:3456:789a:2::23"), c.HostAddrs(c.Host("nas"), ula), same); d != "" {
		t.Errorf("host's addresses (-want +got):\n%s", d)
	}
	if got := c.Cables6(ula); got != pfx("fd12:3456:789a:ffff::/64") {
		t.Errorf("cables in %v", got)
	}
	if c.Address6("guest", netip.Prefix{}) != nil || c.ForwardTo6(f, netip.Prefix{}).IsValid() || c.HostAddrs(c.Host("nas"), netip.Prefix{}) != nil {
		t.Error("an address was made of no ULA")
	}
}

func TestDiagnosticJSON(t *testing.T) {
	_, diags := Parse(File{Name: "a.hcl", Src: []byte("lan \"home\" {\n  interface = \"eth0\"\n  address   = \"10.0.0.0/24\"\n}\n")})
	got, err := json.Marshal(diags[1])
	want := `{"severity":"error","file":"a.hcl","line":3,"column":15,"end_line":3,"end_column":28,` +
		`"summary":"this is the network, not an address in it","detail":"The gateway needs one of its own: \"10.0.0.1/24\"?"}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if got := diags[0].Error(); got != "a.hcl: note: there is no WAN" {
		t.Errorf("%q", got)
	}
}
