package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/internal/api"
)

func sample() api.Traffic {
	v := func(bits, packets float64, bytes uint64) api.Volume {
		return api.Volume{BitsPerS: bits, PacketsPerS: packets, Bytes: bytes}
	}
	return api.Traffic{
		At: time.Date(2026, 12, 2, 12, 0, 0, 0, time.Local), IntervalS: 2.0004, HostCount: 3, FlowCount: 212, Uncounted: 7,
		WANs: []api.WANTraffic{
			{Name: "fiber", Down: v(940_123_456, 81234.4, 0), Up: v(2_104_000, 999.4, 0), Flows: 200, FastPath: "tc", FastPercent: f(97.04), Slow: []api.SlowTraffic{
				{Why: api.SlowFirst, Packets: 12, PacketsPerS: 3.5}, {Why: api.SlowLong, Packets: 1}, {Why: api.SlowNoHop, Packets: 90, PacketsPerS: 45},
			}},
			{Name: "lte", Flows: 12, FastPath: "off", FastPathWhy: "the file says so"},
		},
		Main: api.MainTraffic{FastPath: "tc", FastPercent: f(88.2), Slow: []api.SlowTraffic{{Why: api.SlowKind, Packets: 4, PacketsPerS: 2}, {Why: api.SlowNoFlow, Packets: 90, PacketsPerS: 45}}},
		Hosts: []api.HostTraffic{
			{Name: "nas", LAN: "home", Addresses: []string{"172.31.0.23", "fd00::23"}, Down: v(9_995_000, 830, 1_200_000_000), Up: v(999.6, 9.99, 34_000_000), Flows: 4},
			{LAN: "guest", Addresses: []string{"172.31.1.7"}, Up: v(64, 0.5, 999), Flows: 1},
			{Name: "self", Addresses: []string{"100.64.0.0"}, Flows: 2},
		},
		Flows: []api.FlowTraffic{
			{Protocol: "tcp", Host: "172.31.0.23:443", Name: "nas", LAN: "home", Peer: "192.0.2.9:5000", WAN: "fiber", Inbound: true, Down: v(9_000_000, 800, 1_000_000)},
			{Protocol: "icmpv6", Host: "fd00::50", LAN: "home", Peer: "fd00::23", PeerName: "nas", Up: v(64, 0.5, 999)},
		},
	}
}

const sampleText = `12:00:00, of 2 s, by rate: 3 hosts, 212 flows (7 from before they were counted)

WAN    DOWN        UP           PACKETS DOWN  PACKETS UP  FLOWS  FAST
fiber  940 Mbit/s  2.10 Mbit/s  81234/s       999/s       200    97 %  slow: no next hop 45.0/s, first of TCP 3.50/s
lte    0 bit/s     0 bit/s      0/s           0/s         12     -     no fast path: the file says so
Between the LANs and the lines 88 % fast; slow: of no carried flow 45.0/s, of a kind that main passes 2.00/s.

HOST        LAN    DOWN         UP           PACKETS DOWN  PACKETS UP  TOTAL    FLOWS  ADDRESS
nas         home   10.0 Mbit/s  1.00 kbit/s  830/s         9.99/s      1.23 GB  4      172.31.0.23 +1
172.31.1.7  guest  0 bit/s      64.0 bit/s   0/s           0.50/s      999 B    1      172.31.1.7
self        -      0 bit/s      0 bit/s      0/s           0/s         0 B      2      100.64.0.0

FLOW         PEER            PROTOCOL  WAN    DOWN         UP          PACKETS DOWN  PACKETS UP  TOTAL
nas:443   <  192.0.2.9:5000  tcp       fiber  9.00 Mbit/s  0 bit/s     800/s         0/s         1.00 MB
fd00::50  >  nas             icmpv6    -      0 bit/s      64.0 bit/s  0/s           0.50/s      999 B
`

func TestTopText(t *testing.T) {
	if d := cmp.Diff(sampleText, topText(sample(), topView{sort: "rate"})); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	// Where flows have a fast path, hosts and flows tell their share of it.
	fast := sample()
	fast.Hosts[0].FastPercent, fast.Flows[0].FastPercent = f(99), f(12.5)
	got := topText(fast, topView{sort: "rate"})
	for _, want := range []string{"FLOWS  FAST  ADDRESS\n", " 4      99 %  172.31.0.23 +1\n", " 1      -     172.31.1.7\n", "TOTAL    FAST\n", "1.00 MB  12 %\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// Where flows have no fast path, that is said.
func TestTopWithoutAFastPath(t *testing.T) {
	s := sample()
	s.Main = api.MainTraffic{FastPath: "off", FastPathWhy: "the kernel is too old"}
	if got, want := topText(s, topView{}), "\nBetween the LANs and the lines; no fast path: the kernel is too old.\n"; !strings.Contains(got, want) {
		t.Errorf("%q is missing in\n%s", want, got)
	}
}

// A screen is never overfull, and both tables have their share of what there is.
func TestTopFitsTheScreen(t *testing.T) {
	many := sample()
	for range 100 {
		many.Hosts, many.Flows = append(many.Hosts, many.Hosts[0]), append(many.Flows, many.Flows[0])
	}
	few := sample()
	for _, c := range []struct {
		name                string
		t                   api.Traffic
		height, hosts, flow int
	}{
		{"many of both", many, 30, 10, 10},
		{"few flows", func() api.Traffic { t := many; t.Flows = t.Flows[:2]; return t }(), 30, 18, 2},
		{"few hosts", func() api.Traffic { t := many; t.Hosts = t.Hosts[:3]; return t }(), 30, 3, 17},
		{"room for all", few, 50, 3, 2},
		{"no room at all", many, 3, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := topText(c.t, topView{width: 40, height: c.height})
			parts := strings.Split(text, "\n\n")
			hosts, flows := strings.Count(parts[2], "\n"), strings.Count(parts[3], "\n")-1
			if hosts != c.hosts || flows != c.flow {
				t.Errorf("%d hosts and %d flows, want %d and %d\n%s", hosts, flows, c.hosts, c.flow, text)
			}
			if n := strings.Count(text, "\n"); c.height > 20 && n > c.height {
				t.Errorf("%d lines on %d", n, c.height)
			}
			for l := range strings.Lines(text) {
				if n := len([]rune(strings.TrimSuffix(l, "\n"))); n > 40 {
					t.Errorf("%d columns: %q", n, l)
				}
			}
		})
	}
}

func TestInterval(t *testing.T) {
	for s, want := range map[string]time.Duration{"2": 2 * time.Second, "0.5": 500 * time.Millisecond, "1m": time.Minute, "1500ms": 1500 * time.Millisecond, "3600": time.Hour} {
		var i interval
		if err := i.Set(s); err != nil || time.Duration(i) != want {
			t.Errorf("%s: %v, %v", s, time.Duration(i), err)
		}
	}
	for _, s := range []string{"", "0", "-1", "-1s", "abc", "NaN", "Inf", "1e300", "2 s"} {
		var i interval
		if err := i.Set(s); err == nil {
			t.Errorf("%q is %v", s, time.Duration(i))
		}
	}
}

// busy is a daemon that tells sample again and again.
type busy struct {
	api.Daemon
	asked chan api.TrafficQuery
}

func (b busy) Traffic(ctx context.Context, q api.TrafficQuery, each func(api.Traffic) error) error {
	select {
	case b.asked <- q:
	default:
	}
	for i := 1; ; i++ {
		s := sample()
		s.FlowCount = i
		if err := each(s); err != nil || !q.Watch {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// answers has a daemon listen, and returns its folder.
func answers(t *testing.T, d api.Daemon) string {
	t.Helper()
	dir := t.TempDir()
	l, err := api.Listen(dir, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: api.Handler(d), ConnContext: api.Peer} //nolint:gosec // a test's
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return dir
}

func TestTopWithoutATerminal(t *testing.T) {
	b := busy{asked: make(chan api.TrafficQuery, 1)}
	dir := answers(t, b)
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main(append([]string{"top", "--runtime-dir", dir}, args...), &out, &errs); code != 0 || errs.Len() > 0 {
			t.Errorf("%v: %d, %s", args, code, errs.String())
		}
		return out.String()
	}
	want := strings.Replace(sampleText, "212 flows", "1 flows", 1)
	if d := cmp.Diff(want, run("--once")); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if q := <-b.asked; q != (api.TrafficQuery{Every: 2 * time.Second, Most: 20, Sort: "rate"}) {
		t.Errorf("it asked for %+v", q)
	}
	var got api.Traffic
	if err := json.Unmarshal([]byte(run("--once", "--json", "-d", "0.5", "-o", "up", "--rows", "3")), &got); err != nil || got.Flows[0].Host != "172.31.0.23:443" {
		t.Errorf("%v: %+v", err, got)
	}
	if q := <-b.asked; q != (api.TrafficQuery{Every: time.Second / 2, Most: 3, Sort: "up"}) {
		t.Errorf("it asked for %+v", q)
	}
	var out, errs bytes.Buffer
	for _, args := range []string{"--rows 0", "--rows 1001", "-o size", "-d 0.1", "-d 2h", "-d x", "nas"} {
		if code := Main(append([]string{"top", "--runtime-dir", dir}, strings.Fields(args)...), &out, &errs); code != exitWrong || out.Len() > 0 {
			t.Errorf("%s: %d, %s", args, code, out.String())
		}
	}
}

// On a terminal keys sort and end it, and it is left as it was found.
func TestTopOnATerminal(t *testing.T) {
	master, slave := terminal(t)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 300}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	b := busy{asked: make(chan api.TrafficQuery, 10)}
	client := api.NewClient(filepath.Join(answers(t, b), api.SocketName))
	ended := make(chan error, 1)
	go func() {
		ended <- liveTop(t.Context(), client, api.TrafficQuery{Watch: true, Every: time.Second, Most: 20, Sort: "rate"}, slave, slave)
	}()
	var shown strings.Builder
	until := func(text string) {
		t.Helper()
		if err := master.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		for !strings.Contains(shown.String(), text) {
			n, err := master.Read(buf)
			if err != nil {
				t.Fatalf("%q was not shown: %v\n%q", text, err, shown.String())
			}
			shown.Write(buf[:n])
		}
		shown.Reset()
	}
	key := func(k string) {
		t.Helper()
		if _, err := master.WriteString(k); err != nil {
			t.Fatal(err)
		}
	}
	until("of 2 s, by rate: 3 hosts, 3 flows")
	key("xd")
	until("of 2 s, by down: 3 hosts, 3 flows")
	key("p")
	until("by packets: 3 hosts")
	key("q")
	drained := make(chan struct{})
	go func() { // what is written last has to be taken
		defer close(drained)
		buf := make([]byte, 4096)
		for {
			if _, err := master.Read(buf); err != nil {
				return
			}
		}
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("q does not end it")
	}
	after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("the terminal is another one: -before +after\n%s", d)
	}
	var sorts []string
	for range 3 {
		sorts = append(sorts, (<-b.asked).Sort)
	}
	if d := cmp.Diff([]string{"rate", "down", "packets"}, sorts); d != "" {
		t.Error(d)
	}
	_ = master.SetReadDeadline(time.Now())
	<-drained
}

// terminal is both ends of a pseudo terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx") // non-blocking, so that reads have deadlines
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}
