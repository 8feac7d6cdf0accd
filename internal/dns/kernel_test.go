package dns

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/worker"
)

// in runs a command in a namespace and returns what it says.
func in(t *testing.T, ns string, args ...string) string {
	t.Helper()
	var out []byte
	err := netns.Do(ns, func() (err error) {
		out, err = exec.Command(args[0], args[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			netnstest.Missing(t, p, err)
		}
	}
}

// started runs a program in a namespace until the test ends.
func started(t *testing.T, ns string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := netns.Do(ns, cmd.Start); err != nil {
		t.Fatalf("%s: %v", args[0], err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", args[0], out.String())
		}
	})
}

// TestWithOthersPrograms: dig asks the worker, a process of its own, and dnsmasq
// stands in for the internet's servers.
func TestWithOthersPrograms(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		need(t, "dig", "dnsmasq", "ip")
		cli, isp := netnstest.New(t), netnstest.New(t)
		for _, l := range []struct{ ours, ns, theirs string }{{"eth0", cli, "e0"}, {"eth1", isp, "e1"}} {
			in(t, "", "ip", "link", "add", l.ours, "type", "veth", "peer", "name", l.theirs, "netns", l.ns)
			in(t, "", "ip", "link", "set", l.ours, "up")
			in(t, l.ns, "ip", "link", "set", l.theirs, "up")
		}
		in(t, "", "ip", "addr", "add", "172.31.0.1/24", "dev", "eth0")
		in(t, "", "ip", "addr", "add", "fd00::1/64", "dev", "eth0", "nodad")
		in(t, "", "ip", "addr", "add", "192.0.2.2/24", "dev", "eth1")
		in(t, "", "ip", "route", "add", "203.0.113.5/32", "dev", "eth0")
		in(t, cli, "ip", "addr", "add", "172.31.0.50/24", "dev", "e0")
		in(t, cli, "ip", "addr", "add", "fd00::50/64", "dev", "e0", "nodad")
		in(t, cli, "ip", "addr", "add", "203.0.113.5/32", "dev", "e0")
		in(t, isp, "ip", "addr", "add", "192.0.2.1/24", "dev", "e1")
		long := strings.Repeat("x", 250)
		started(t, isp, "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file=",
			"--log-queries", "--log-facility=-", "--address=/www.example/198.51.100.80", "--address=/rebind.test/172.31.0.23",
			"--txt-record=long.example,"+strings.Repeat(long+",", 9)+"end", "--auth-ttl=60", "--local-ttl=30")

		var said bytes.Buffer
		var mu sync.Mutex
		log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &said}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		cfg := Config{
			Gateway: "gw", Domain: "local",
			LANs:      []LAN{{"home", prefixes("172.31.0.1/24", "fd00::1/64")}},
			Hosts:     []Name{{"nas", addrs("172.31.0.23", "fd00::23")}},
			Clients:   prefixes("172.31.0.0/24", "fd00::/64"),
			Upstreams: []Upstream{{Server{Addr: netip.MustParseAddrPort("192.0.2.1:53")}, "fiber"}},
		}
		var sockets []Socket
		var files []*os.File
		for _, a := range addrs("172.31.0.1", "fd00::1", "127.0.0.1") {
			s, f, err := Open(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			sockets, files = append(sockets, s...), append(files, f...)
		}
		t.Cleanup(func() {
			for _, f := range files {
				f.Close()
			}
		})
		reports := make(chan Report, 100)
		ctx, cancel := context.WithCancel(t.Context())
		child := worker.Start(ctx, worker.Options{
			Kind: "dns", Log: log,
			Setup: func(_ context.Context, c *worker.Conn) error {
				send := cfg
				send.Sockets = sockets
				return c.Send(send, files...)
			},
			Received: func(_ *worker.Child, m worker.Message) error {
				var r Report
				if err := m.Decode(&r); err != nil {
					return err
				}
				reports <- r
				return nil
			},
		})
		t.Cleanup(func() { cancel(); <-child.Done() })
		waitRunning(t, child)

		dig := func(args ...string) string {
			return strings.TrimSpace(in(t, cli, append([]string{"dig", "+time=3", "+tries=2"}, args...)...))
		}
		want := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		holds := func(what, got string, parts ...string) {
			t.Helper()
			for _, p := range parts {
				if !strings.Contains(got, p) {
					t.Errorf("%s: no %q in\n%s", what, p, got)
				}
			}
		}
		want("a local name", dig("@172.31.0.1", "+short", "nas.local"), "172.31.0.23")
		want("over IPv6", dig("@fd00::1", "+short", "nas.local", "AAAA"), "fd00::23")
		want("over TCP", dig("@172.31.0.1", "+tcp", "+short", "nas.local"), "172.31.0.23")
		want("reverse", dig("@172.31.0.1", "+short", "-x", "172.31.0.23"), "nas.local.")
		want("reverse, IPv6", dig("@172.31.0.1", "+short", "-x", "fd00::1"), "gw.local.")
		want("an outside name", dig("@172.31.0.1", "+short", "www.example"), "198.51.100.80")
		want("an outside name over IPv6 and TCP", dig("@fd00::1", "+tcp", "+short", "www.example"), "198.51.100.80")
		holds("an unknown name of the house", dig("@172.31.0.1", "nobody.local"), "status: NXDOMAIN", "flags: qr aa rd ra", "gw.local. hostmaster.local.")
		holds("a long answer, cut", dig("@172.31.0.1", "+ignore", "long.example", "TXT"), "flags: qr tc rd ra", "ANSWER: 0")
		holds("a long answer, by TCP", dig("@172.31.0.1", "long.example", "TXT"), "Truncated, retrying in TCP mode", `"end"`)
		holds("who is no client", dig("@172.31.0.1", "-b", "203.0.113.5", "nas.local"), "status: REFUSED")
		holds("a name that points inside", dig("@172.31.0.1", "rebind.test"), "status: NOERROR", "ANSWER: 0", "EDE: 15 (Blocked)", "172.31.0.23 is an inside address")
		holds("on the machine itself", in(t, "", "dig", "@127.0.0.1", "+short", "www.example"), "198.51.100.80")

		// A new lease is a name at once, without a restart.
		pid := child.State().PID
		cfg.Leases = []Name{{"laptop", addrs("172.31.0.100")}}
		update := cfg
		for _, s := range sockets {
			update.Sockets = append(update.Sockets, Socket{Network: s.Network, Addr: s.Addr})
		}
		if err := child.Send(update); err != nil {
			t.Fatal(err)
		}
		await(t, "the lease's name", func() bool { return dig("@172.31.0.1", "+short", "laptop.local") == "172.31.0.100" })
		if child.State().PID != pid {
			t.Error("a new configuration restarted the worker")
		}

		// Killed, it is back, and the question that came meanwhile has waited.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		want("after a kill", dig("@172.31.0.1", "+tries=1", "+short", "laptop.local"), "172.31.0.100")
		if child.State().PID == pid {
			t.Error("still the old one")
		}

		dig("@172.31.0.1", "+short", "www.example")
		await(t, "a report of the upstream", func() bool {
			select {
			case r := <-reports:
				return len(r.Upstreams) == 1 && r.Upstreams[0].Up && r.Upstreams[0].WAN == "fiber" && r.Upstreams[0].Answers > 0
			default:
				return false
			}
		})
		mu.Lock()
		defer mu.Unlock()
		holds("the log", said.String(), "a name from outside points into the house", "name=rebind.test.", "addr=172.31.0.23")
	})
}

func waitRunning(t *testing.T, c *worker.Child) {
	t.Helper()
	await(t, "the worker", func() bool { return c.State().Running })
}

// await watches for something that another process brings about.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not there after 10 s", what)
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
