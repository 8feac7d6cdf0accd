package ra

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/ndp"

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

// await watches for something that another process or the kernel brings about.
func await(t *testing.T, what string, within time.Duration, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > within {
			t.Fatalf("%s: not so after %v", what, within)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

// TestWithAKernelClient: the worker is a process of its own; at the other end
// are the kernel's SLAAC, rdisc6, and a socket that hears every advertisement.
func TestWithAKernelClient(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		for _, p := range []string{"ip", "rdisc6"} {
			if _, err := exec.LookPath(p); err != nil {
				netnstest.Missing(t, p, err)
			}
		}
		cli := netnstest.New(t)
		in(t, "", "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
		const mac = "02:00:00:00:00:ab"
		in(t, "", "ip", "link", "add", "lan0", "address", mac, "type", "veth", "peer", "name", "e0", "netns", cli)
		in(t, "", "ip", "addr", "add", "fd00::1/64", "dev", "lan0", "nodad")

		link, sock, err := Open("lan0")
		if err != nil {
			t.Fatal(err)
		}
		defer sock.Close()
		if link.MAC != mac || link.MTU != 1500 {
			t.Errorf("opened %+v; the MAC is %s", link, mac)
		}
		lan := home()
		lan.Link = link
		send := func() Config { return Config{LANs: []LAN{lan}} }
		reports := make(chan Report, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		child := worker.Start(ctx, worker.Options{
			Kind: "ra", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Setup: func(_ context.Context, c *worker.Conn) error {
				cfg := send()
				cfg.LANs[0].Passed = true
				return c.Send(cfg, sock)
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
		report := func(what string, ok func(Report) bool) {
			t.Helper()
			for end := time.After(10 * time.Second); ; {
				select {
				case r := <-reports:
					if ok(r) {
						return
					}
				case <-end:
					t.Fatalf("no report that %s", what)
				}
			}
		}

		// The link is down: said so, and no more.
		report("the link has no address", func(r Report) bool { return len(r.LANs) == 1 && strings.Contains(r.LANs[0].Trouble, "no carrier?") })

		// A client comes. It listens before its own kernel does.
		var heard <-chan *ndp.RouterAdvertisement
		if err := netns.Do(cli, func() error {
			l, f, err := Open("e0")
			if err != nil {
				return err
			}
			defer f.Close()
			c, err := newConn(l, f)
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.ip.Close() })
			heard = listen(t, c)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		in(t, "", "ip", "link", "set", "lan0", "up")
		in(t, cli, "ip", "link", "set", "e0", "up")
		has := func(show, what string) func() bool {
			return func() bool {
				return strings.Contains(in(t, cli, append([]string{"ip", "-6"}, strings.Fields(show)...)...), what)
			}
		}
		await(t, "SLAAC", 8*time.Second, func() bool {
			return has("addr show dev e0", "fd00::")() && !has("addr show dev e0", "tentative")()
		})
		await(t, "a default route", time.Second, has("route show default", "default via fe80::"))
		report("it is said", func(r Report) bool { return len(r.LANs) == 1 && r.LANs[0].Trouble == "" && !r.LANs[0].Sent.IsZero() })
		drain(heard)

		got := in(t, cli, "rdisc6", "-1", "-r", "3", "-w", "2000", "e0")
		for _, want := range []string{
			"Stateful address conf.    :           No", "Router lifetime           :         1800", "Prefix                   : fd00::/64",
			"Valid time              :         5400", "Pref. time              :         2700", "Recursive DNS server     : fd00::1",
			"DNS search list          : local", "MTU                      :         1500", "Source link-layer address: " + strings.ToUpper(mac),
			"from fe80::",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("rdisc6 does not say %q:\n%s", want, got)
			}
		}

		// No line carries IPv6: the router goes within a second, and comes back.
		lan.Router = false
		if err := child.Send(send()); err != nil {
			t.Fatal(err)
		}
		took := await(t, "the default route's end", time.Second, func() bool { return !has("route show default", "default via")() })
		t.Logf("the route was taken back after %v", took)
		if !has("addr show dev e0", "fd00::")() {
			t.Error("the prefix went with the router")
		}
		lan.Router = true
		if err := child.Send(send()); err != nil {
			t.Fatal(err)
		}
		await(t, "the default route's return", time.Second, has("route show default", "default via fe80::"))
		drain(heard)

		// Killed and restarted, and told what it knows already: nothing is taken back.
		pid := child.State().PID
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if m := next(t, heard, 5*time.Second); m.RouterLifetime != home().Lifetime.Router {
			t.Errorf("after a kill: %s", show(m))
		}
		if err := child.Send(send()); err != nil {
			t.Fatal(err)
		}
		in(t, cli, "rdisc6", "-1", "-r", "3", "-w", "2000", "e0")
		for _, m := range drain(heard) {
			if m.RouterLifetime != home().Lifetime.Router {
				t.Errorf("after a restart or the same again: %s", show(m))
			}
		}

		// Another router turns up on the LAN.
		if err := netns.Do(cli, func() error {
			l, f, err := Open("e0")
			if err != nil {
				return err
			}
			defer f.Close()
			c, err := newConn(l, f)
			if err != nil {
				return err
			}
			defer c.ip.Close()
			return c.send(Send{allNodes(), &ndp.RouterAdvertisement{RouterLifetime: time.Hour}})
		}); err != nil {
			t.Fatal(err)
		}
		report("another router is there", func(r Report) bool {
			return len(r.LANs) == 1 && len(r.LANs[0].Others) == 1 && r.LANs[0].Others[0].Lifetime == time.Hour
		})

		// Farewell, and only that, takes the gateway back.
		drain(heard)
		if err := child.Send(Config{LANs: send().LANs, Farewell: true}); err != nil {
			t.Fatal(err)
		}
		report("the farewell is said", func(r Report) bool { return r.Said })
		if m := next(t, heard, 5*time.Second); m.RouterLifetime != 0 || !strings.Contains(show(m), "dns [fd00::1] 0s") {
			t.Errorf("farewell: %s", show(m))
		}
		await(t, "the default route's end", time.Second, func() bool { return !has("route show default", "default via")() })
	})
}

// TestNothingAfterFarewell: what the parent sent before it heard of the farewell
// names LANs that are gone, and is no mistake.
func TestNothingAfterFarewell(t *testing.T) {
	cfg := Config{LANs: []LAN{{Name: "home"}}}
	if err := (&work{}).configure(t.Context(), cfg, nil); err == nil {
		t.Error("a LAN without a socket is taken")
	}
	if err := (&work{gone: true}).configure(t.Context(), cfg, nil); err != nil {
		t.Error(err)
	}
}

// listen returns a channel of the advertisements that c hears.
func listen(t *testing.T, c *conn) <-chan *ndp.RouterAdvertisement {
	all := make(chan received)
	out := make(chan *ndp.RouterAdvertisement, 1000)
	go func() {
		if err := c.read(t.Context(), all); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
		close(all)
	}()
	go func() {
		for m := range all {
			if ra, ok := m.msg.(*ndp.RouterAdvertisement); ok && m.from != netip.IPv6Unspecified() {
				out <- ra
			}
		}
	}()
	return out
}

func drain(c <-chan *ndp.RouterAdvertisement) (ms []*ndp.RouterAdvertisement) {
	for {
		select {
		case m := <-c:
			ms = append(ms, m)
		default:
			return ms
		}
	}
}

func next(t *testing.T, c <-chan *ndp.RouterAdvertisement, within time.Duration) *ndp.RouterAdvertisement {
	t.Helper()
	select {
	case m := <-c:
		return m
	case <-time.After(within):
		t.Fatalf("no advertisement within %v", within)
		return nil
	}
}
