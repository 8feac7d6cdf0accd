package chrony

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var plainAddrs = cmpopts.EquateComparable(netip.Addr{})

func house() Config {
	return Config{
		Dir: "/s/chrony", Run: "/r/chrony", Serve: true, Steer: true, Way: "fiber ", V4: true,
		Allow: []netip.Prefix{netip.MustParsePrefix("172.31.0.1/24"), netip.MustParsePrefix("10.0.9.1/24"), netip.MustParsePrefix("172.31.0.9/24")},
	}
}

func TestConf(t *testing.T) {
	const rest = `driftfile /s/chrony/work/drift
port 123
allow 10.0.9.0/24
allow 172.31.0.0/24
allow fe80::/10
cmdport 0
bindcmdaddress /r/chrony/chronyd.sock
pidfile /r/chrony/chronyd.pid
`
	const head = "# weir makes this file, and makes it again whenever something changes.\n"
	for _, tt := range []struct {
		what   string
		change func(*Config)
		set    bool
		want   string
	}{
		{"a house that says nothing", func(*Config) {}, false, `server time.cloudflare.com iburst offline minpoll 0 maxpoll 10
server ntp.se iburst offline minpoll 0 maxpoll 10
server any.time.nl iburst offline minpoll 0 maxpoll 10
minsources 2
rtcsync
makestep 0.1 3
` + rest},
		{"the clock was set in this boot", func(*Config) {}, true, `server time.cloudflare.com iburst offline minpoll 0 maxpoll 10
server ntp.se iburst offline minpoll 0 maxpoll 10
server any.time.nl iburst offline minpoll 0 maxpoll 10
minsources 2
rtcsync
` + rest},
		{"the clock is not ours", func(c *Config) { c.Steer = false }, false, `server time.cloudflare.com iburst offline minpoll 0 maxpoll 10
server ntp.se iburst offline minpoll 0 maxpoll 10
server any.time.nl iburst offline minpoll 0 maxpoll 10
minsources 2
` + rest},
		{"one server, with NTS", func(c *Config) { c.Servers = []Server{{Name: "nts.example", NTS: true}} }, false, `server nts.example iburst offline nts
rtcsync
makestep 0.1 3
nocerttimecheck 1
driftfile /s/chrony/work/drift
ntsdumpdir /s/chrony/work
` + strings.SplitAfterN(rest, "\n", 2)[1]},
		{"five servers, nobody served", func(c *Config) {
			c.Serve = false
			for _, a := range addrs("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "2001:db8::5") {
				c.Servers = append(c.Servers, Server{Addr: a})
			}
		}, true, `server 192.0.2.1 iburst offline
server 192.0.2.2 iburst offline
server 192.0.2.3 iburst offline
server 192.0.2.4 iburst offline
server 2001:db8::5 iburst offline
minsources 3
rtcsync
driftfile /s/chrony/work/drift
port 0
cmdport 0
bindcmdaddress /r/chrony/chronyd.sock
pidfile /r/chrony/chronyd.pid
`},
	} {
		c := house()
		tt.change(&c)
		if d := cmp.Diff(head+tt.want, Conf(c, tt.set)); d != "" {
			t.Errorf("%s:\n%s", tt.what, d)
		}
	}
}

func TestHosts(t *testing.T) {
	const head = "# weir makes this file for chronyd.\n"
	known := map[string][]netip.Addr{"ntp.se": addrs("192.0.2.7", "2001:db8::7"), "else.example": addrs("192.0.2.8")}
	c := house()
	for _, tt := range []struct {
		v4, v6 bool
		want   string
	}{
		{true, false, "162.159.200.1 time.cloudflare.com\n162.159.200.123 time.cloudflare.com\n192.0.2.7 ntp.se\n194.0.5.123 any.time.nl\n"},
		{true, true, "162.159.200.1 time.cloudflare.com\n162.159.200.123 time.cloudflare.com\n192.0.2.7 ntp.se\n194.0.5.123 any.time.nl\n"},
		{false, true, "2606:4700:f1::1 time.cloudflare.com\n2606:4700:f1::123 time.cloudflare.com\n2001:db8::7 ntp.se\n2001:678:8::123 any.time.nl\n"},
	} {
		c.V4, c.V6 = tt.v4, tt.v6
		if d := cmp.Diff(head+tt.want, Hosts(c, known)); d != "" {
			t.Errorf("IPv4 %t, IPv6 %t:\n%s", tt.v4, tt.v6, d)
		}
	}
	c.V4, c.Servers = false, []Server{{Addr: netip.MustParseAddr("192.0.2.1")}, {Name: "else.example"}, {Name: "unknown.example", NTS: true}}
	if d := cmp.Diff(head+"192.0.2.8 else.example\n", Hosts(c, known)); d != "" {
		t.Error(d)
	}
}

// TestParse: what chronyc of 4.3 says.
func TestParse(t *testing.T) {
	got, err := parse(`0A630003,10.99.0.3,2,1796221983.500000000,3600.000000252,-1000.000061035,1000.000061035,-0.298,-0.069,83.876,0.000261203,0.000129004,0.8,Normal
^,*,10.99.0.3,1,6,377,12,0.000122070,-0.000122070,0.000131849
^,x,2001:db8::7,1,6,17,1,-1000.001708984,-1000.001708984,0.001752673
^,?,nts.example,0,6,0,4294967295,0.000000000,0.000000000,0.000000000
`)
	want := Report{
		Synced: true, Addr: netip.MustParseAddr("10.99.0.3"), Stratum: 2, Behind: 3600*time.Second + 252*time.Nanosecond,
		Updated: time.Date(2026, 12, 2, 14, 33, 3, 5e8, time.UTC),
		Sources: []Source{
			{Addr: netip.MustParseAddr("10.99.0.3"), State: Selected, Stratum: 1, Reach: 255, Behind: 122070},
			{Addr: netip.MustParseAddr("2001:db8::7"), State: Falseticker, Stratum: 1, Reach: 15, Behind: 1000001708984},
			{Name: "nts.example", State: Unreachable},
		},
	}
	if d := cmp.Diff(want, got, plainAddrs, cmpopts.EquateApproxTime(time.Microsecond)); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	got, err = parse("7F7F0101,,0,0.0,0.0,0,0,0,0,0,1.0,1.0,0.0,Not synchronised\n")
	if err != nil || got.Synced || !reflectZero(got) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "506 Cannot talk to daemon\n", "a,b\n", "\"", strings.Repeat("x,", 13) + "Normal\n", "^,*,1.2.3.4,x,0,9,0,0,0,0\n"} {
		if r, err := parse(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, r)
		}
	}
}

func reflectZero(r Report) bool { return cmp.Equal(r, Report{}, plainAddrs) }

// TestFound: addresses that were found are kept, unless somebody answers whatever
// is asked; those of the names that were not found stay.
func TestFound(t *testing.T) {
	c := house()
	c.Dir = t.TempDir()
	n := newNames(slog.New(slog.DiscardHandler))
	defer n.ask.Stop()
	n.load(c)
	if n.take(c, map[string][]netip.Addr{"ntp.se": addrs("192.0.2.80"), "any.time.nl": addrs("192.0.2.80", "192.0.2.81"), "time.cloudflare.com": addrs("192.0.2.80")}, time.Hour); len(n.known["ntp.se"]) > 0 {
		t.Errorf("a captive portal's address is taken: %v", n.known)
	}
	if !n.take(c, map[string][]netip.Addr{"ntp.se": addrs("192.0.2.7", "2001:db8::7")}, time.Hour) || n.take(c, map[string][]netip.Addr{"ntp.se": addrs("192.0.2.7", "2001:db8::7")}, time.Hour) {
		t.Error("the same is news twice, or none once")
	}
	all := map[string][]netip.Addr{"ntp.se": addrs("192.0.2.9"), "any.time.nl": addrs("192.0.2.81"), "time.cloudflare.com": addrs("192.0.2.10")}
	if n.take(c, all, time.Hour); n.due != 25*time.Hour {
		t.Errorf("found after an hour, and due at %v", n.due)
	}
	c.Resolver = netip.MustParseAddrPort("127.0.0.1:53")
	if n.lookUp(t.Context(), c, 25*time.Hour-time.Second); n.asking {
		t.Error("asked again before the day was over")
	}
	again := newNames(slog.New(slog.DiscardHandler))
	defer again.ask.Stop()
	again.load(c)
	if d := cmp.Diff(all, again.known, plainAddrs); d != "" {
		t.Errorf("kept in %s:\n%s", filepath.Join(c.Dir, knownFile), d)
	}
	for a, want := range map[string]bool{"192.168.1.1": false, "127.0.0.1": false, "162.159.200.1": true, "fd00::1": false, "2606:4700:f1::1": true} {
		if got := usable("ntp.se", netip.MustParseAddr(a)); got != want {
			t.Errorf("%s as a built-in server's address: %t", a, got)
		}
	}
	if !usable("ntp.home.arpa", netip.MustParseAddr("192.168.1.9")) {
		t.Error("a server of the house can't be in it")
	}
}

// FuzzParse: whatever chronyc says, nothing panics.
func FuzzParse(f *testing.F) {
	f.Add("0A630003,10.99.0.3,2,1796221983.5,3600.0,-1,1,-0.2,-0.0,83.8,0.0,0.0,0.8,Normal\n^,*,10.99.0.3,1,6,377,12,0.1,-0.1,0.1\n")
	f.Add("x,,,,,,,,,,,,,\n,,,,,,,,,\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parse(text) })
}
