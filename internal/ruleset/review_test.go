package ruleset_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// changed is the house of a file of testdata with one text in the place of another.
func changed(tb testing.TB, name, from, to string) (*config.Config, state.State) {
	tb.Helper()
	path := "testdata/" + name + ".hcl"
	src, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	text := string(src)
	if from != "" && !strings.Contains(text, from) {
		tb.Fatalf("%s does not say %q", path, from)
	}
	text = strings.Replace(text, from, to, 1)
	files := []config.File{{Name: path, Src: []byte(text)}}
	c, diags := config.Parse(files...)
	if diags.HasErrors() {
		tb.Fatal(diags.Format(files))
	}
	return c, working(c)
}

// TestReview: of the flows under way those end that a change of the file refuses, or
// leads elsewhere; and nothing else does, whatever was refused before.
func TestReview(t *testing.T) {
	flow := func(from, to string, p config.Protocol, line uint8, in bool) ruleset.Running {
		return ruleset.Running{From: netip.MustParseAddrPort(from), To: netip.MustParseAddrPort(to), Protocol: p, Line: line, In: in}
	}
	const tcp, udp, icmp = config.TCP, config.UDP, config.ICMP
	all := []struct {
		name string
		ruleset.Running
	}{
		{"pc out", flow("172.31.0.50:4000", "192.0.2.80:443", tcp, 1, false)},
		{"pc out by lte", flow("172.31.0.50:4000", "192.0.2.80:443", tcp, 2, false)},
		{"pc out, IPv6", flow("[fd00::50]:4000", "[2001:db8:80::80]:443", tcp, 1, false)},
		{"pc calls", flow("172.31.0.50:4000", "192.0.2.80:3478", udp, 1, false)},
		{"pc pings", flow("172.31.0.50:7", "192.0.2.80:0", icmp, 1, false)},
		{"tablet out", flow("172.31.0.31:4000", "192.0.2.80:443", tcp, 1, false)}, // by its lease
		{"tablet out, IPv6", flow("[fd00::31]:4000", "[2001:db8:80::80]:443", tcp, 1, false)},
		{"tablet calls", flow("172.31.0.31:4000", "192.0.2.80:3478", udp, 1, false)}, // refused before
		{"guest out", flow("172.31.20.50:4000", "192.0.2.80:443", tcp, 1, false)},
		{"guest prints", flow("172.31.20.50:4000", "172.31.0.23:631", tcp, 0, false)},
		{"camera to nas", flow("172.31.30.8:4000", "172.31.0.23:80", tcp, 0, false)},
		{"camera's clock", flow("172.31.30.8:4000", "172.31.30.1:445", udp, 0, false)},
		{"pc to the gateway", flow("172.31.0.50:4000", "172.31.0.1:22", tcp, 0, false)},
		{"web, from outside", flow("192.0.2.80:4000", "198.51.100.10:80", tcp, 1, true)},
		{"web by lte", flow("192.0.2.80:4000", "203.0.113.10:80", tcp, 2, true)},
		{"web, IPv6", flow("[2001:db8:80::80]:4000", "[2001:db8:1::10]:80", tcp, 1, true)},
		{"rtp", flow("192.0.2.80:4000", "198.51.100.10:10005", udp, 1, true)},
		{"web, from inside", flow("172.31.0.50:4000", "198.51.100.10:80", tcp, 0, false)},
		{"admin", flow("192.0.2.77:4000", "198.51.100.10:22", tcp, 1, true)},
		{"the gateway's own", flow("172.31.0.1:4000", "192.0.2.80:443", tcp, 1, false)},
		{"a stranger's", flow("10.98.0.2:4000", "10.97.0.2:443", tcp, 0, false)},
		{"by a line that is gone", flow("192.0.2.80:4000", "198.51.100.10:80", tcp, 9, true)},
	}
	known := []ruleset.Known{
		{Addr: netip.MustParseAddr("172.31.0.31"), MAC: "02:00:00:00:00:31", LAN: "home"},
		{Addr: netip.MustParseAddr("fd00::31"), MAC: "02:00:00:00:00:31", LAN: "home"},
	}
	for _, r := range []struct {
		name, file, from, to string
		state                func(*config.Config, *state.State) // of both
		want                 string                             // what ends, and by what
	}{
		{name: "nothing changes", file: "house", want: ""},
		{name: "a rule that refuses nothing new", file: "house", from: `port = 25`, to: `port = [25, 26]`, want: ""},
		{name: "a block", file: "house", from: `block "bedtime" {`, to: "block \"web\" {\n  from = lan.home\n  to = wan\n  port = 443\n}\nblock \"bedtime\" {",
			want: "pc out: block.web; pc out by lte: block.web; pc out, IPv6: block.web; tablet out: block.web; tablet out, IPv6: block.web"},
		{name: "a block of one device, by its MAC", file: "house", from: "  protocol = [\"udp\", \"icmp\"]\n}", to: "}",
			want: "tablet out: block.bedtime; tablet out, IPv6: block.bedtime"},
		{name: "a block of one line", file: "house", from: `block "bedtime" {`, to: "block \"dear\" {\n  from = lan.home\n  to = wan.lte\n}\nblock \"bedtime\" {",
			want: "pc out by lte: block.dear"},
		{name: "the same, while that one is used", file: "house", from: `block "bedtime" {`, to: "block \"dear\" {\n  from = lan.home\n  to = wan.lte\n}\nblock \"bedtime\" {",
			state: func(_ *config.Config, st *state.State) { st.Use4, st.Use6 = "lte", "lte" }, want: "pc out by lte: block.dear"},
		{name: "a block of who comes in", file: "house", from: "block \"pests\" {\n  from = group.pests", to: "block \"pests\" {\n  from = [\"192.0.2.80\"]",
			want: "web, from outside: block.pests; web by lte: block.pests; rtp: block.pests"},
		{name: "an allow that goes", file: "house", from: "allow \"guests-print\" {\n  from = lan.guest\n  to   = host.nas\n  port = [631, \"9100-9102\"]\n}", to: "",
			want: "guest prints: lan.guest.refused"},
		{name: "a reach that shrinks", file: "house", from: `reach     = [host.nas, "172.31.30.1", "192.0.2.90"]`, to: `reach     = ["172.31.30.1"]`,
			want: "camera to nas: lan.things.refused"},
		{name: "guests stay in", file: "house", from: `reach     = wan`, to: `reach     = []`, want: "guest out: lan.guest.refused"},
		{name: "a forward that goes", file: "house", from: "forward \"web\" {\n  port = [80, 443]\n  to   = host.nas\n}", to: "",
			want: "web, from outside: wan.fiber.closed; web by lte: wan.lte.closed; web, IPv6: wan.fiber.closed; web, from inside: unclaimed"},
		{name: "one that leads elsewhere", file: "house", from: "  port = [80, 443]\n  to   = host.nas", to: "  port = [80, 443]\n  to   = host.camera",
			want: "web, from outside: forward.web; web by lte: forward.web; web, IPv6: wan.fiber.closed; web, from inside: forward.web"},
		{name: "one of another line", file: "house", from: "  port = [80, 443]\n  to   = host.nas", to: "  port = [80, 443]\n  to   = host.nas\n  on = wan.lte",
			want: "web, from outside: wan.fiber.closed; web, IPv6: wan.fiber.closed; web, from inside: unclaimed"},
		{name: "other ports behind it", file: "house", from: `["30000-30020", 5060]`, to: `["31000-31020", 5060]`, want: "rtp: forward.rtp"},
		{name: "the admin is shut out", file: "house", from: "  from = [\"192.0.2.77\", \"2001:db8:80::77\"]\n  to   = self\n  port = 22", to: "  from = [\"192.0.2.78\"]\n  to   = self\n  port = 22",
			want: "admin: wan.fiber.closed"},
		{name: "the gateway's own port", file: "house", from: "allow \"camera-clock\" {\n  from     = host.camera\n  to       = self\n  protocol = \"udp\"\n  port     = 445\n}", to: "reject \"camera-clock\" {\n  from = host.camera\n  to = self\n  protocol = \"udp\"\n  port = 445\n}",
			want: "camera's clock: reject.camera-clock"},
		{name: "a line fails meanwhile", file: "house", from: `port = 25`, to: `port = [25, 26]`,
			state: func(_ *config.Config, st *state.State) { st.Use4, st.Use6 = "", "" }, want: ""},
		{name: "a route that forbids a line", file: "routes", from: `route "nas" {`, to: "route \"home\" {\n  from = lan.home\n  only = wan.fiber\n}\nroute \"nas\" {",
			want: "pc out by lte: route.home"},
		{name: "one that prefers another keeps what runs", file: "routes", from: `route "nas" {`, to: "route \"home\" {\n  from = lan.home\n  prefer = wan.lte\n}\nroute \"nas\" {", want: ""},
	} {
		c, st := changed(t, r.file, "", "")
		n, stNow := changed(t, r.file, r.from, r.to)
		if r.state != nil {
			r.state(c, &st)
			r.state(n, &stNow)
		}
		review := ruleset.NewReview(desired.House(c, st), desired.House(n, stNow), known)
		var got []string
		for _, f := range all {
			if by := review.Ends(f.Running); by != "" {
				got = append(got, f.name+": "+by)
			}
		}
		if s := strings.Join(got, "; "); s != r.want {
			t.Errorf("%s: ends\n  %s\nwant\n  %s", r.name, s, r.want)
		}
		if review.Same() != (r.from == "") {
			t.Errorf("%s: the rules are the same: %v", r.name, review.Same())
		}
	}
}

// BenchmarkReview is of fifty thousand flows, none of which ends.
func BenchmarkReview(b *testing.B) {
	c, st := changed(b, "house", "", "")
	n, stNow := changed(b, "house", `port = 25`, `port = [25, 26]`)
	for b.Loop() {
		review := ruleset.NewReview(desired.House(c, st), desired.House(n, stNow), nil)
		for i := range 50000 {
			f := ruleset.Running{
				From: netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 31, 0, byte(2 + i%200)}), uint16(i)), To: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i >> 8)}), 443),
				Protocol: config.TCP, Line: 1,
			}
			if review.Ends(f) != "" {
				b.Fatal("it ends")
			}
		}
	}
}
