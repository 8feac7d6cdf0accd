package named

import (
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/netns/netnstest"
)

var update = flag.Bool("update", false, "write the golden files anew; then read the difference")

var (
	addr = netip.MustParseAddr
	pfx  = netip.MustParsePrefix
	at   = netip.MustParseAddrPort
)

// reference is the reference gateway.
func reference() Config {
	return Config{
		Dir: "/var/lib/weir/named", Gateway: "gw", Domain: "local",
		LANs:    []LAN{{Name: "home", Addrs: []netip.Prefix{pfx("172.31.0.1/24"), pfx("fd00::1/64")}}},
		Clients: []netip.Prefix{pfx("fe80::/10"), pfx("172.31.0.0/24"), pfx("fd00::/64")},
		Cables: []Cable{
			{WAN: "fiber", Near: []netip.Addr{addr("172.31.1.0"), addr("fd00:1::")}, Far: []netip.Addr{addr("172.31.1.1"), addr("fd00:1::1")}, Networks: []netip.Prefix{pfx("172.31.1.0/24"), pfx("fd00:1::/64")}},
			{WAN: "lte", Near: []netip.Addr{addr("172.31.1.2"), addr("fd00:1::2")}, Far: []netip.Addr{addr("172.31.1.3"), addr("fd00:1::3")}, Networks: []netip.Prefix{pfx("172.31.1.0/24"), pfx("fd00:1::/64")}},
		},
		Hosts: []Host{
			{Name: "nas", Addrs: []netip.Addr{addr("172.31.0.23"), addr("fd00::211:32ff:fede:ad71")}, Alias: []string{"files.local"}},
			{Name: "example", Addrs: []netip.Addr{addr("172.31.0.123")}},
		},
	}
}

// office has all there is.
func office() Config {
	c := reference()
	c.Domain = "corp.example"
	c.Hosts = []Host{{Name: "nas", Addrs: []netip.Addr{addr("172.31.0.23")}}}
	c.Upstreams = []netip.AddrPort{at("9.9.9.9:53"), at("[2620:fe::fe]:5353")}
	c.LANs = append(c.LANs, LAN{Name: "dmz", Addrs: []netip.Prefix{pfx("192.0.2.1/29"), pfx("2001:db8:5::1/64")}})
	c.Zones = []Zone{
		{Name: "corp.example", TTL: 600, SOA: SOA{7200, 900, 1209600, 300}, Records: []Record{
			{Name: "@", Texts: []string{`v=spf1 mx "quoted" back\slash -all`}, Data: []Datum{{"MX", "10 mail"}, {"CAA", `0 issue "ca.example"`}}},
			{Name: "mail", Addrs: []netip.Addr{addr("172.31.0.25")}},
			{Name: "_sip._tcp", TTL: 60, Data: []Datum{{"SRV", "0 5 5060 sip.example.net."}}},
			{Name: "*.apps", Addrs: []netip.Addr{addr("172.31.0.23")}},
			{Name: "www", Data: []Datum{{"CNAME", "nas"}}},
			{Name: "long", Texts: []string{strings.Repeat("x", 300)}},
		}},
		{Name: "31.172.in-addr.arpa"},
		{Name: "example.org", Records: []Record{{Name: "@", Addrs: []netip.Addr{addr("192.0.2.2")}}}},
		{Name: "branch.example", Forward: []netip.AddrPort{at("10.9.0.1:53")}},
		{Name: "9.10.in-addr.arpa", Forward: []netip.AddrPort{at("10.9.0.1:53")}},
	}
	c.Private = []string{"plex.direct"}
	c.Clients = []netip.Prefix{pfx("172.31.0.0/24"), pfx("10.8.0.0/24")}
	c.Keys = []Key{
		{Name: "acme", Algorithm: "hmac-sha512", Zones: []string{"example.org"}, Names: []string{"_acme-challenge"}, Types: []string{"TXT"}},
		{Name: "admin", Algorithm: "hmac-sha256", Zones: []string{"corp.example", "example.org"}},
	}
	return c
}

// listed is a house with lists: one for all, and one for some.
func listed() Config {
	c := reference()
	c.LANs = append(c.LANs, LAN{Name: "guest", Addrs: []netip.Prefix{pfx("10.0.9.1/24")}}, LAN{Name: "things", Addrs: []netip.Prefix{pfx("10.0.8.1/24")}})
	c.Zones = []Zone{{Name: "branch.example", Forward: []netip.AddrPort{at("10.9.0.1:53")}}}
	c.Lists = []List{
		{Name: "ads", File: "/var/lib/weir/named/lists/ads.rpz", Version: "a1", LANs: []string{"home", "guest"}},
		{Name: "games", File: "/var/lib/weir/named/lists/games.rpz", Version: "b2", LANs: []string{"guest"}},
	}
	return c
}

func TestGolden(t *testing.T) {
	for name, c := range map[string]Config{"reference": reference(), "office": office(), "lists": listed()} {
		t.Run(name, func(t *testing.T) {
			text, err := Conf(c)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".conf", text)
			zones, err := zonesOf(c)
			if err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, z := range zones {
				all.WriteString("; " + z.name + "\n" + z.text(absolute(c.Gateway+"."+c.Domain), 1764633600) + "\n")
			}
			for _, z := range policyZones(c) {
				all.WriteString("; " + z.name + "\n" + z.text("", 1764633600) + "\n")
			}
			golden(t, name+".zones", all.String())
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s:\n%s", name, d)
	}
}

// bind is BIND as it is installed; the test is skipped where it is not.
func bind(t *testing.T) Program {
	t.Helper()
	p, err := Find()
	if errors.Is(err, ErrMissing) {
		netnstest.Missing(t, "named", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// named-checkconf takes what is made, with each zone loaded; and refuses what is
// wrong, or this would show nothing.
func TestCheckConf(t *testing.T) {
	p := bind(t)
	for name, c := range map[string]Config{"reference": reference(), "office": office()} {
		c.Program = p
		if err := CheckConf(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := office()
	c.Program = p
	c.Keys[0].Types = []string{"NOTATYPE"}
	if err := CheckConf(t.Context(), c); err == nil || !strings.Contains(err.Error(), "NOTATYPE") {
		t.Errorf("a type that there is not: %v", err)
	}
}

// What is no record is found when the file is read.
func TestParseDatum(t *testing.T) {
	for _, tt := range []struct {
		d    Datum
		want string // "" is an error
	}{
		{Datum{"MX", "10 mail"}, "10 mail.example.org."},
		{Datum{"MX", "10 mail.example.net."}, "10 mail.example.net."},
		{Datum{"SRV", "0 5 5060 sip"}, "0 5 5060 sip.example.org."},
		{Datum{"MX", "mail"}, ""},
		{Datum{"MX", "10"}, ""},
		{Datum{"SRV", "0 5 99999 sip"}, ""},
		{Datum{"CNAME", ""}, ""},
		{Datum{"CNAME", "a b"}, ""},
	} {
		rr, err := ParseDatum("x.example.org.", "example.org.", tt.d)
		if tt.want == "" {
			if err == nil {
				t.Errorf("%v: %v", tt.d, rr)
			}
			continue
		}
		if err != nil || !strings.HasSuffix(rr.String(), "\t"+tt.want) {
			t.Errorf("%v: %v %v, want %s", tt.d, rr, err, tt.want)
		}
	}
}

func TestAnchors(t *testing.T) {
	if ds, err := ParseAnchors(Anchors); err != nil || len(ds) != 2 || ds[1].KeyTag != 38696 {
		t.Errorf("built in: %v %v", ds, err)
	}
	for _, bad := range []string{"", "; nothing\n", ". IN DS 1 8\n", "example. IN DS 1 8 2 00\n", ". IN A 1.2.3.4\n"} {
		if ds, err := ParseAnchors(bad); err == nil {
			t.Errorf("%q: %v", bad, ds)
		}
	}
	c := reference()
	c.Anchors = ". 0 IN DS 4711 13 2 " + strings.Repeat("ab", 32) + "\n"
	text, err := Conf(c)
	if err != nil || !strings.Contains(text, "initial-ds 4711 13 2") || strings.Contains(text, "20326") {
		t.Errorf("a root of one's own: %v\n%s", err, text)
	}
	own, _ := Conf(reference())
	if managedDir.FindString(own) == managedDir.FindString(text) {
		t.Error("keys followed from other anchors would be taken for these")
	}
}

// What is asked of nobody: 172.16/12 is 16 zones, and none is in the way of the house's.
func TestEmpty(t *testing.T) {
	c := reference()
	zones, err := zonesOf(c)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(empty(c, zones), " ")
	for _, want := range []string{"10.in-addr.arpa.", "16.172.in-addr.arpa.", "31.172.in-addr.arpa.", "127.100.in-addr.arpa.", "d.f.ip6.arpa.", "b.e.f.ip6.arpa.", "onion."} {
		if !strings.Contains(" "+got+" ", " "+want+" ") {
			t.Errorf("%s is not empty", want)
		}
	}
	for _, not := range []string{"32.172.in-addr.arpa.", "15.172.in-addr.arpa.", "128.100.in-addr.arpa.", "local."} {
		if strings.Contains(" "+got+" ", " "+not+" ") {
			t.Errorf("%s is empty", not)
		}
	}
}

func TestReverseZones(t *testing.T) {
	for _, tt := range []struct{ net, want string }{
		{"172.31.0.1/24", "0.31.172.in-addr.arpa."},
		{"172.31.0.1/20", "31.172.in-addr.arpa."},
		{"10.0.0.1/8", "10.in-addr.arpa."},
		{"192.168.7.129/25", "7.168.192.in-addr.arpa."},
		{"192.0.2.9/30", "8.2.0.192.in-addr.arpa. 9.2.0.192.in-addr.arpa. 10.2.0.192.in-addr.arpa. 11.2.0.192.in-addr.arpa."},
		{"198.51.102.1/23", "102.51.198.in-addr.arpa. 103.51.198.in-addr.arpa."},
		{"fd00::1/64", "0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa."},
		{"2001:db8:5::1/63", "0.0.0.0.5.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 1.0.0.0.5.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."},
	} {
		got := strings.Join(reverseZones(pfx(tt.net)), " ")
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.net, got, tt.want)
		}
	}
}

// A power cut between two writes leaves what can be read, and keys are made once.
func TestWriteTwice(t *testing.T) {
	c := reference()
	c.Dir = t.TempDir()
	now := time.Unix(1764633600, 0)
	first, err := write(c, now)
	if err != nil || !first.changed {
		t.Fatalf("first: %+v %v", first, err)
	}
	second, err := write(c, now.Add(time.Hour))
	if err != nil || second.changed {
		t.Errorf("the same once more: changed %t, %v", second.changed, err)
	}
	if first.keys[ownKey] != second.keys[ownKey] {
		t.Error("another key")
	}
	for file, mode := range map[string]os.FileMode{ownKey + ".key": 0o600, keysFile: 0o640} {
		if st, err := os.Stat(filepath.Join(c.Dir, file)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", file, st, err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(c.Dir, confFile))
	if strings.Contains(string(text), first.keys[ownKey].Secret) {
		t.Error("named.conf holds a secret")
	}
	c.LANs = append(c.LANs, LAN{Name: "guest", Addrs: []netip.Prefix{pfx("10.0.9.1/24")}})
	if third, err := write(c, now); err != nil || !third.changed {
		t.Errorf("one LAN more: changed %t, %v", third.changed, err)
	}
}
