package refused

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/worker"
)

// The test binary is its own child, as weir is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(worker.Main(os.Args[2:], Worker))
	}
	netnstest.Main(m)
}

const group = 87

func nft(t *testing.T, rules string) {
	t.Helper()
	path, err := exec.LookPath("nft")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/nft")
	}
	if err != nil {
		netnstest.Missing(t, "nft", err)
	}
	cmd := exec.Command(path, "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		netnstest.Missing(t, "nflog", errors.New(strings.TrimSpace(string(out))+": "+err.Error()))
	}
}

// send sends a datagram that nobody answers.
func send(t *testing.T, to string) {
	t.Helper()
	if err := netns.Do("", func() error {
		c, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("x"))
		return err
	}); err != nil && !errors.Is(err, unix.EPERM) { // refused by the output chain
		t.Fatal(err)
	}
}

// What real rules refuse arrives with the rule's name, and what others log to the
// same group does not; also after the child was killed.
func TestRefusedByRealRules(t *testing.T) {
	netnstest.Need(t)
	nft(t, `table inet weir {
	chain in {
		type filter hook input priority 0
		udp dport 9 log prefix "weir wan.fiber.closed" group 87 drop
		udp dport 10 log prefix "somebody else's" group 87 drop
	}
	chain out {
		type filter hook output priority 0
		udp dport 11 log prefix "weir self.refused" group 87 drop
	}
}
`)
	started := make(chan error, 10)
	reports := make(chan Report, 100)
	ctx, cancel := context.WithCancel(t.Context())
	c := worker.Start(ctx, worker.Options{
		Kind: Worker.Name,
		Setup: func(_ context.Context, c *worker.Conn) error {
			err := netns.Do("", func() error {
				f, err := Open(group)
				if err != nil {
					return err
				}
				defer f.Close()
				return c.Send(Config{Prefix: "weir "}, f)
			})
			started <- err
			return err
		},
		Received: func(_ *worker.Child, m worker.Message) error {
			var r Report
			if err := m.Decode(&r); err != nil {
				return err
			}
			reports <- r
			return nil
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	defer func() { cancel(); <-c.Done() }()
	start := func() {
		t.Helper()
		for {
			select {
			case err := <-started:
				if errors.Is(err, unix.EPERM) {
					continue // the dead child's socket is still there; the next try comes by itself
				}
				if err != nil {
					t.Fatal(err)
				}
				return
			case <-time.After(10 * time.Second):
				t.Fatal("the child does not start")
			}
		}
	}
	next := func() Packet {
		t.Helper()
		select {
		case r := <-reports:
			if len(r.Packets) != 1 || r.Lost != 0 {
				t.Fatalf("got %+v, want one packet", r)
			}
			return r.Packets[0]
		case <-time.After(10 * time.Second):
			t.Fatal("nothing is told")
		}
		return Packet{}
	}
	start()
	var lo int
	if err := netns.Do("", func() error {
		l, err := net.InterfaceByName("lo")
		if err == nil {
			lo = l.Index
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := openIn(group); !errors.Is(err, unix.EPERM) {
		t.Errorf("a second listener got %v, want EPERM", err)
	}

	send(t, "127.0.0.1:10")
	send(t, "127.0.0.1:9")
	p := next()
	if p.Rule != "wan.fiber.closed" || p.To() != "127.0.0.1:9" || p.Proto() != "udp" || p.InIndex != lo || p.OutIndex != 0 || p.Src.String() != "127.0.0.1" || p.SrcPort == 0 {
		t.Errorf("got %+v", p)
	}
	if age := time.Since(p.At); age < 0 || age > time.Minute {
		t.Errorf("it is %v old", age)
	}
	send(t, "[::1]:9")
	if p := next(); p.To() != "[::1]:9" || p.Proto() != "udp" {
		t.Errorf("got %+v", p)
	}
	send(t, "127.0.0.1:11")
	if p := next(); p.Rule != "self.refused" || p.OutIndex != lo || p.InIndex != 0 {
		t.Errorf("got %+v", p)
	}

	if err := unix.Kill(c.State().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	start()
	send(t, "127.0.0.1:9")
	if p := next(); p.Rule != "wan.fiber.closed" {
		t.Errorf("got %+v", p)
	}
}

func openIn(group uint16) (f *os.File, err error) {
	err = netns.Do("", func() (err error) {
		f, err = Open(group)
		return err
	})
	return f, err
}
