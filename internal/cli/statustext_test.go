package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/api"
)

func f(x float64) *float64 { return &x }

func TestStatusText(t *testing.T) {
	now := time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	s := api.Status{
		Gateway: "gw", Started: ago(75 * time.Hour),
		File:   api.File{From: "/etc/weir/gateway.hcl", By: "apply", Since: ago(2 * time.Hour)},
		Turn:   api.Turn{Error: "add route default in main: network is unreachable\nstep 7 of 9", Retry: now.Add(4 * time.Second)},
		IPv4:   api.Use{WAN: "lte", Why: "fiber lost its carrier", Address: "203.0.113.10"},
		Choice: &api.Choice{WAN: "fiber", By: "ann", Since: ago(time.Hour)},
		IPv6:   api.Use{Why: "no line has an IPv6 address"},
		WANs: []api.WAN{
			{Name: "fiber", IPv4: api.Line{Verdict: "down", Since: ago(90 * time.Second), Why: "no carrier", LossPct: f(100), HoldDownS: 120, Relapses: 2, NextHoldDownS: 240}, IPv6: api.Line{Verdict: "off"}},
			{Name: "lte", IPv4: api.Line{Verdict: "up", Since: ago(74 * time.Hour), Used: true, LossPct: f(0), LatencyMS: f(31.25), Addresses: []string{"203.0.113.10/24", "203.0.113.11/24"}, Relapses: 1, NextHoldDownS: 60, Deaf: []string{"8.8.8.8"}, DNSError: "no answer over UDP"},
				Flows: &api.Flows{At: ago(74 * time.Hour), Moved: 3, Prodded: 2, Reset: 2},
				IPv6:  api.Line{Verdict: "returning", Since: ago(12 * time.Second), HoldDownS: 30, GoodAt: now.Add(18 * time.Second), Why: "answers again"}},
		},
		LANs:     []api.LAN{{Name: "home", Interface: []string{"eth0"}, Present: true, Addresses: []string{"172.31.0.1/24", "fd00::1/64"}, Leases: 3}},
		Forwards: []api.Forward{{Name: "web", Protocol: []string{"tcp"}, Port: []string{"80", "443"}, To: []string{"172.31.0.23"}, Answers: []string{"203.0.113.10 by lte"}}, {Name: "ssh", Protocol: []string{"tcp"}, Port: []string{"22"}, To: []string{"172.31.0.24"}}},
		Time: &api.Time{Synchronised: true, SetsClock: true, Served: true, Source: "ntp.se", Stratum: 2, BehindMS: f(-0.0215), Updated: ago(31 * time.Second),
			Sources: []api.TimeSource{{Name: "ntp.se", State: "selected"}, {Name: "any.time.nl", State: "wrong"}}},
		Services:   []api.Service{{Name: "dns", State: "running", Since: ago(75 * time.Hour)}, {Name: "dhcpd", State: "starting", Restarts: 2, LastError: "panic: x"}},
		Notes:      []string{"lan home and wan fiber hold 172.31.0.0/24"},
		BlockLists: []api.BlockList{{Name: "ads", LANs: []string{"home"}, Names: 183422, Updated: now.Add(-3 * time.Hour)}, {Name: "games", LANs: []string{"children"}, Error: "get https://x.example/y: the server says 404 Not Found"}},
	}
	want := `gw, up 3d3h, by /etc/weir/gateway.hcl (apply, 2h0m ago)

The kernel is not as the file wants it, tried again in 4s:
  add route default in main: network is unreachable
  step 7 of 9

IPv4 uses lte: fiber lost its carrier
IPv6 uses no line: no line has an IPv6 address
fiber was chosen by ann 1h0m ago; ` + "`weir use auto`" + ` leaves it to failover again

WAN    FAMILY  VERDICT    FOR    LOSS   LATENCY  ADDRESS
fiber  IPv4    down       1m30s  100 %  -        -                   no carrier
lte*   IPv4    up         3d2h   0 %    31.2 ms  203.0.113.10/24 +1
lte    IPv6    returning  12s    -      -        -                   answers again
fiber IPv4: owes 2m0s of good time, failed again 2 times of late.
lte IPv4: failed again once of late, the next time it owes 1m0s of good time; DNS broken, its resolvers give no answer: no answer over UDP; no answer from 8.8.8.8 while others do.
lte IPv6: owes 30s of good time, 18s of it left.
Flows left lte 3d2h ago: 3 moved, 2 connections prodded, 2 resets sent.

LAN   PORT  ADDRESS                   LEASES
home  eth0  172.31.0.1/24 fd00::1/64  3

FORWARD  PORT        TO           ANSWERS FROM OUTSIDE AT
web      tcp 80,443  172.31.0.23  203.0.113.10 by lte
ssh      tcp 22      172.31.0.24  nothing now

Time: by ntp.se, stratum 2, heard 31s ago, served to the LANs; the clock is 22µs ahead.
any.time.nl says another time than most, and is not believed.

BLOCK LIST  FOR       NAMES   RENEWED
ads         home      183422  3h0m ago
games       children  0       never     get https://x.example/y: the server says 404 Not Found

SERVICE  STATE     FOR   RESTARTS
dns      running   3d3h  0
dhcpd    starting  -     2         panic: x
note: lan home and wan fiber hold 172.31.0.0/24
`
	var b strings.Builder
	if err := printStatus(&b, s, now); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestLeasesText(t *testing.T) {
	now := time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	err := printLeases(&b, []api.Lease{
		{LAN: "home", Address: "172.31.0.23", MAC: "00:11:32:de:ad:71", Name: "nas", Static: true, Expires: now.Add(time.Hour)},
		{LAN: "guest", Address: "10.0.0.100", MAC: "02:00:00:00:00:01"},
	}, now)
	want := `LAN    ADDRESS      MAC                NAME  ENDS
home   172.31.0.23  00:11:32:de:ad:71  nas   in 1h0m (by the file)
guest  10.0.0.100   02:00:00:00:00:01  -     never
`
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, b.String()))
	}
}

func TestSpan(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"}, {0, "0s"}, {499 * time.Millisecond, "0s"}, {59 * time.Second, "59s"}, {time.Minute, "1m0s"},
		{time.Hour - time.Second, "59m59s"}, {47 * time.Hour, "47h0m"}, {48 * time.Hour, "2d0h"},
	} {
		if got := span(tt.d); got != tt.want {
			t.Errorf("span(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}
