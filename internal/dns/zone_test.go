package dns

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func house() Config {
	return Config{
		Gateway: "gw", Domain: "local",
		LANs: []LAN{
			{"home", prefixes("172.31.0.1/24", "fd00::1/64")},
			{"guest", prefixes("10.0.20.1/23", "2001:470:1:20::1/61")},
			{"odd", prefixes("203.0.112.1/29")},
		},
		Hosts: []Name{
			{"nas", addrs("172.31.0.23", "fd00::211:32ff:fede:ad71")},
			{"printer", nil},
			{"both", addrs("10.0.20.9", "172.31.0.9")},
		},
		Leases: []Name{
			{"Anna's Laptop", addrs("172.31.0.100")},
			{"anna-s_laptop.example.com", addrs("172.31.0.101")},
			{"annas-laptop", addrs("172.31.0.102")}, // an older one of the same name
			{"nas", addrs("172.31.0.103")},          // the file's
			{"GW", addrs("172.31.0.104")},
			{"wpad", addrs("172.31.0.105")},
			{"Router.lan", addrs("172.31.0.108")},
			{"…", addrs("172.31.0.106")},
			{"printer", addrs("172.31.0.107")}, // the file has its name, DHCP its address
		},
	}
}

func addrs(s ...string) []netip.Addr {
	as := make([]netip.Addr, len(s))
	for i := range s {
		as[i] = netip.MustParseAddr(s[i])
	}
	return as
}

// TestZone holds what the house answers: "-" is a question for others, else the
// code (nothing for success), the records' data, and @ZONE for a negative
// answer's SOA.
func TestZone(t *testing.T) {
	z := NewZone(house(), 7)
	home := netip.MustParseAddr("172.31.0.50")
	for _, c := range []struct{ name, rrtype, from, want string }{
		{"nas.local.", "A", "", "172.31.0.23"},
		{"NAS.Local.", "A", "", "172.31.0.23"},
		{"nas.local.", "AAAA", "", "fd00::211:32ff:fede:ad71"},
		{"nas.local.", "MX", "", "@local."},
		{"www.nas.local.", "A", "", "NXDOMAIN @local."},
		{"nobody.local.", "A", "", "NXDOMAIN @local."},
		{"printer.local.", "A", "", "172.31.0.107"},
		{"annas-laptop.local.", "A", "", "172.31.0.100"},
		{"anna-s-laptop.local.", "A", "", "172.31.0.101"},
		{"wpad.local.", "A", "", "NXDOMAIN @local."},
		{"router.local.", "A", "", "NXDOMAIN @local."},
		{"local.", "NS", "", "gw.local."},
		{"local.", "SOA", "", "gw.local. hostmaster.local. 7 3600 600 604800 60"},
		{"local.", "TXT", "", "@local."},
		{"local.", "A", "", "172.31.0.1"},
		{"both.local.", "A", "", "172.31.0.9 10.0.20.9"},
		{"both.local.", "A", "10.0.21.7", "10.0.20.9 172.31.0.9"},

		// The gateway is where the client sees it.
		{"gw.local.", "A", "", "172.31.0.1"},
		{"gw.local.", "AAAA", "", "fd00::1"},
		{"gw.local.", "A", "10.0.21.7", "10.0.20.1"},
		{"gw.local.", "AAAA", "203.0.112.3", "fd00::1 2001:470:1:20::1"},
		{"gw.local.", "A", "127.0.0.1", "172.31.0.1 10.0.20.1 203.0.112.1"},
		{"gw.local.", "A", "::ffff:10.0.21.7", "10.0.20.1"},

		// Names without a dot are devices, and no ISP's business.
		{"nas.", "A", "", "172.31.0.23"},
		{"nobody.", "AAAA", "", "NXDOMAIN"},
		{"com.", "NS", "", "-"},

		{"example.com.", "A", "", "-"},
		{"notlocal.", "MX", "", "-"},
		{"local.example.", "A", "", "-"},
		{".", "NS", "", "-"},

		// Reverse: the LANs'.
		{"23.0.31.172.in-addr.arpa.", "PTR", "", "nas.local."},
		{"1.0.31.172.IN-ADDR.arpa.", "PTR", "", "gw.local."},
		{"104.0.31.172.in-addr.arpa.", "PTR", "", "NXDOMAIN @0.31.172.in-addr.arpa."},
		{"23.0.31.172.in-addr.arpa.", "A", "", "@0.31.172.in-addr.arpa."},
		{"0.31.172.in-addr.arpa.", "SOA", "", "gw.local. hostmaster.local. 7 3600 600 604800 60"},
		{"0.31.172.in-addr.arpa.", "NS", "", "gw.local."},
		{"0.31.172.in-addr.arpa.", "PTR", "", "@0.31.172.in-addr.arpa."},
		{"x.23.0.31.172.in-addr.arpa.", "PTR", "", "NXDOMAIN @0.31.172.in-addr.arpa."},
		{"023.0.31.172.in-addr.arpa.", "PTR", "", "NXDOMAIN @0.31.172.in-addr.arpa."},
		{"9.21.0.10.in-addr.arpa.", "PTR", "", "NXDOMAIN @21.0.10.in-addr.arpa."}, // a /23 is two zones
		{"9.20.0.10.in-addr.arpa.", "PTR", "", "both.local."},
		{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", "PTR", "", "gw.local."},
		{"1.7.d.a.e.d.e.f.f.f.2.3.1.1.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", "PTR", "", "nas.local."},
		{"0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", "NS", "", "gw.local."},
		{"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", "PTR", "", "@0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa."},
		{"9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", "PTR", "", "NXDOMAIN @0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa."},
		{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.1.0.0.0.0.7.4.0.1.0.0.2.ip6.arpa.", "PTR", "", "gw.local."},
		// ...and no more than theirs, where others have a name to lose.
		{"9.112.0.203.in-addr.arpa.", "PTR", "", "-"},
		{"2.112.0.203.in-addr.arpa.", "PTR", "", "@2.112.0.203.in-addr.arpa."}, // a zone for itself: it exists
		{"112.0.203.in-addr.arpa.", "SOA", "", "-"},
		{"8.2.0.0.1.0.0.0.0.7.4.0.1.0.0.2.ip6.arpa.", "NS", "", "-"},
		{"1.0.0.0.0.7.4.0.1.0.0.2.ip6.arpa.", "NS", "", "-"},

		// Reverse: nobody's (RFC 6303).
		{"7.7.7.10.in-addr.arpa.", "PTR", "", "NXDOMAIN @10.in-addr.arpa."},
		{"10.in-addr.arpa.", "SOA", "", "10.in-addr.arpa. nobody.invalid. 1 3600 1200 604800 10800"},
		{"31.172.in-addr.arpa.", "NS", "", "31.172.in-addr.arpa."},
		{"172.in-addr.arpa.", "NS", "", "-"},
		{"1.32.172.in-addr.arpa.", "PTR", "", "-"},
		{"1.0.0.127.in-addr.arpa.", "PTR", "", "localhost."},
		{"1.1.254.169.in-addr.arpa.", "PTR", "", "NXDOMAIN @254.169.in-addr.arpa."},
		{"1.1.127.100.in-addr.arpa.", "PTR", "", "NXDOMAIN @127.100.in-addr.arpa."},
		{"1.1.128.100.in-addr.arpa.", "PTR", "", "-"},
		{"8.8.8.8.in-addr.arpa.", "PTR", "", "-"},
		{"foo.in-addr.arpa.", "PTR", "", "-"},
		{"in-addr.arpa.", "NS", "", "-"},
		{"ip6.arpa.", "NS", "", "-"},
		{"b.e.f.ip6.arpa.", "NS", "", "b.e.f.ip6.arpa."},
		{"e.f.ip6.arpa.", "NS", "", "-"},
		{"c.f.ip6.arpa.", "NS", "", "c.f.ip6.arpa."}, // RFC 6303 has d.f only; fc00::/8 is as private
		{"1.c.f.ip6.arpa.", "PTR", "", "NXDOMAIN @c.f.ip6.arpa."},

		// RFC 6761 and its like.
		{"localhost.", "A", "", "127.0.0.1"},
		{"a.LOCALHOST.", "AAAA", "", "::1"},
		{"localhost.", "MX", "", "@localhost."},
		{"invalid.", "A", "", "NXDOMAIN @invalid."},
		{"a.invalid.", "A", "", "NXDOMAIN @invalid."},
		{"x.onion.", "A", "", "NXDOMAIN @onion."},
		{"nas.home.arpa.", "A", "", "NXDOMAIN @home.arpa."},
		{"home.arpa.", "SOA", "", "home.arpa. nobody.invalid. 1 3600 1200 604800 10800"},
		{"home.arpa.", "DS", "", "-"},
		{"_dns.resolver.arpa.", "SVCB", "", "@resolver.arpa."},
		{"ipv4only.arpa.", "AAAA", "", "-"},
		{"rebind.test.", "A", "", "-"},
	} {
		t.Run(c.name+" "+c.rrtype+" "+c.from, func(t *testing.T) {
			from := home
			if c.from != "" {
				from = netip.MustParseAddr(c.from)
			}
			if got := show(z.Answer(dns.Question{Name: c.name, Qtype: dns.StringToType[c.rrtype], Qclass: dns.ClassINET}, from)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func show(a Answer, ok bool) string {
	if !ok {
		return "-"
	}
	var w []string
	if a.Rcode != 0 {
		w = append(w, dns.RcodeToString[a.Rcode])
	}
	for _, rr := range a.Answer {
		w = append(w, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	for _, rr := range a.Ns {
		w = append(w, "@"+rr.Header().Name)
	}
	return strings.Join(w, " ")
}

// TestZoneAtHomeArpa: the domain that is meant for homes, with its one exception.
func TestZoneAtHomeArpa(t *testing.T) {
	c := house()
	c.Domain = "home.arpa"
	z := NewZone(c, 1)
	ask := func(name string, rrtype uint16) string {
		return show(z.Answer(dns.Question{Name: name, Qtype: rrtype, Qclass: dns.ClassINET}, netip.IPv6Loopback()))
	}
	for _, got := range [][2]string{
		{ask("nas.home.arpa.", dns.TypeA), "172.31.0.23"},
		{ask("nas.home.arpa.", dns.TypeDS), "@home.arpa."},
		{ask("home.arpa.", dns.TypeDS), "-"}, // RFC 8375, 4
		{ask("printer.local.", dns.TypeA), "NXDOMAIN @local."},
	} {
		if got[0] != got[1] {
			t.Errorf("got %q, want %q", got[0], got[1])
		}
	}
}

func TestLabel(t *testing.T) {
	for in, want := range map[string]string{
		"laptop": "laptop", "LAPTOP.local": "laptop", "Bob's iPhone": "bobs-iphone", "a_b": "a-b", "-x-": "x",
		"": "", "..": "", "localhost": "", "WPAD": "", "isatap.x": "", "日本": "", "a\x00b\"c": "abc",
		strings.Repeat("a", 70): strings.Repeat("a", 63), "--": "",
	} {
		got, ok := Label(in)
		if got != want || ok != (want != "") {
			t.Errorf("Label(%q) = %q, %t; want %q", in, got, ok, want)
		}
	}
}

// FuzzZone: no name is too strange, and what is in the house's domain or in a
// private range is never for others.
func FuzzZone(f *testing.F) {
	for _, s := range []string{
		"nas.local.", "x.10.in-addr.arpa.", "1.2.3.4.5.6.7.8.in-addr.arpa.", "1.d.f.ip6.arpa.", ".", "arpa.", "in-addr.arpa.",
		"256.10.in-addr.arpa.", "0.0.0.0.in-addr.arpa.", "\\000.local.", "a\\.b.local.", strings.Repeat("f.", 32) + "ip6.arpa.",
		strings.Repeat("f.", 33) + "ip6.arpa.", "ff.d.f.ip6.arpa.", "localhost", "home.arpa.", "resolver.arpa.",
	} {
		f.Add(s, dns.TypePTR)
		f.Add(s, dns.TypeA)
	}
	z := NewZone(house(), 1)
	f.Fuzz(func(t *testing.T, name string, rrtype uint16) {
		wire := make([]byte, 300)
		if _, err := dns.PackDomainName(dns.Fqdn(name), wire, 0, nil, false); err != nil {
			t.Skip("no name")
		}
		name, _, err := dns.UnpackDomainName(wire, 0) // as a question has it
		if err != nil {
			t.Fatal(err)
		}
		q := dns.Question{Name: name, Qtype: rrtype, Qclass: dns.ClassINET}
		a, ok := z.Answer(q, netip.IPv6Loopback())
		lower := strings.ToLower(name)
		if !ok && (dns.IsSubDomain("local.", lower) || dns.IsSubDomain("10.in-addr.arpa.", lower) || dns.IsSubDomain("d.f.ip6.arpa.", lower)) {
			t.Errorf("%q would be asked outside", name)
		}
		m := new(dns.Msg)
		m.Question = []dns.Question{q}
		m.Answer, m.Ns = a.Answer, a.Ns
		if _, err := m.Pack(); err != nil {
			t.Errorf("%q: an answer that cannot be packed: %v", name, err)
		}
		if ok && a.Rcode == dns.RcodeNameError && len(a.Answer) > 0 {
			t.Errorf("%q: no such name, with records", name)
		}
	})
}

func TestReverseNames(t *testing.T) {
	for _, s := range []string{"10.0.0.0/8", "172.31.0.0/16", "192.0.2.7/32", "fd00::/8", "2001:db8:1234::/48", "fd00::1/128", "fe80::/12"} {
		p := netip.MustParsePrefix(s)
		got, below, ok := parseReverse(ReverseName(p))
		if got != p || below || !ok {
			t.Errorf("%s -> %s -> %s, %t, %t", p, ReverseName(p), got, below, ok)
		}
		if p.IsSingleIP() {
			if want, _ := dns.ReverseAddr(p.Addr().String()); want != ReverseName(p) {
				t.Errorf("%s: %s, want %s", p, ReverseName(p), want)
			}
		}
	}
}

func TestRebinding(t *testing.T) {
	z := NewZone(house(), 1)
	for _, c := range []struct {
		rr  string
		bad bool
	}{
		{"r.test. 60 IN A 172.31.0.23", true},
		{"r.test. 60 IN AAAA fd00::1", true},
		{"r.test. 60 IN A 127.0.0.1", true},
		{"r.test. 60 IN A 0.0.0.0", true},
		{"r.test. 60 IN AAAA ::ffff:172.31.0.23", true},
		{"r.test. 60 IN AAAA 64:ff9b::192.168.1.1", true},
		{"r.test. 60 IN AAAA ::", true},
		{"r.test. 60 IN AAAA fe80::1", true},
		{"r.test. 60 IN A 100.64.1.2", true},
		{"r.test. 60 IN HTTPS 1 . alpn=h2 ipv4hint=172.31.0.23", true},
		{"r.test. 60 IN SVCB 1 svc.r.test. ipv6hint=2001:db8::1,fd00::1", true},
		{"r.test. 60 IN A 203.0.112.3", false}, // public, and a LAN's
		{"r.test. 60 IN AAAA 2001:470:1:27::5", false},
		{"r.test. 60 IN A 203.0.112.9", false},
		{"r.test. 60 IN A 8.8.8.8", false},
		{"r.test. 60 IN AAAA 64:ff9b::8.8.8.8", false},
		{"r.test. 60 IN HTTPS 1 . ipv4hint=8.8.8.8 ipv6hint=2620:fe::fe", false},
		{"r.test. 60 IN TXT \"172.31.0.23\"", false},
	} {
		rr, err := dns.NewRR(c.rr)
		if err != nil {
			t.Fatal(err)
		}
		m := new(dns.Msg)
		cname, _ := dns.NewRR("www.r.test. 60 IN CNAME r.test.")
		m.Answer = []dns.RR{cname, rr}
		if _, a, bad := z.pointsInside(m); bad != c.bad {
			t.Errorf("%s: inside %t (%s), want %t", c.rr, bad, a, c.bad)
		}
		// Private is the name that has it, or the one that is asked for.
		for private, want := range map[string]bool{"r.test": false, "other.test": c.bad, "t": c.bad} {
			trusting := *z
			trusting.private = []string{private + "."}
			if _, _, bad := trusting.pointsInside(m); bad != want {
				t.Errorf("%s: inside %t where %s is private", c.rr, bad, private)
			}
		}
		trusting := *z
		trusting.private = []string{"asked.example."}
		m.SetQuestion("www.Asked.example.", dns.TypeA)
		if _, _, bad := trusting.pointsInside(m); bad {
			t.Errorf("%s: withheld from a private name", c.rr)
		}
	}
}

func TestServerString(t *testing.T) {
	at := netip.MustParseAddrPort
	for want, s := range map[string]Server{
		"172.31.1.1":                  {Addr: at("172.31.1.1:53")},
		"fd00:1::1":                   {Addr: at("[fd00:1::1]:53")},
		"[2620:fe::9]:5353":           {Addr: at("[2620:fe::9]:5353")},
		"tls://9.9.9.9#dns.quad9.net": {Addr: at("9.9.9.9:853"), TLS: true, Name: "dns.quad9.net"},
		"tls://1.1.1.1":               {Addr: at("1.1.1.1:853"), TLS: true},
	} {
		if got := s.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
