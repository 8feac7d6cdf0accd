package dhcpd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/commit"
	"weir/internal/dhcpd"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/state"
	"weir/internal/worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(worker.Main(os.Args[2:], dhcpd.Worker))
	}
	netnstest.Main(m)
}

// lab is a gateway's namespace with a LAN and the server on it; the store and
// the parent's part are here, as in the daemon.
//
//	gw: br0 172.31.0.1/24, port c1 ---- client 1: eth0
//	                       port c2 ---- client 2: eth0
type lab struct {
	t      *testing.T
	gw     string
	store  *state.Store
	child  *worker.Child
	states chan worker.State

	mu  sync.Mutex
	lan dhcpd.LAN

	keeping chan dhcpd.Report // what is to be kept, when hold is set
	hold    bool
	kept    chan state.Lease
	ports   int
}

func newLab(t *testing.T, change func(*dhcpd.LAN)) *lab {
	t.Helper()
	l := &lab{t: t, gw: netnstest.New(t), keeping: make(chan dhcpd.Report, 10), kept: make(chan state.Lease, 1000), states: make(chan worker.State, 100)}
	var err error
	if l.store, err = state.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.store.Close() })
	var mac string
	err = netns.Do(l.gw, func() error {
		la := netlink.NewLinkAttrs()
		la.Name = "br0"
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: la}); err != nil {
			return err
		}
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		// A bridge takes its ports' address, unless it was given one.
		mac = "02:00:00:00:00:fe"
		hw, err := net.ParseMAC(mac)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr("172.31.0.1/24")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetHardwareAddr(br, hw), netlink.AddrAdd(br, addr), netlink.LinkSetUp(br))
	})
	if err != nil {
		t.Fatal(err)
	}
	lan := dhcpd.LAN{
		Name: "home", Link: "br0", MAC: mac, Address: netip.MustParsePrefix("172.31.0.1/24"),
		Pool: []dhcpd.Range{{From: ip("172.31.0.100"), To: ip("172.31.0.200")}}, Lease: 12 * time.Hour,
		Router: ip("172.31.0.1"), DNS: []netip.Addr{ip("172.31.0.1")}, Domain: "lab.example",
	}
	if change != nil {
		change(&lan)
	}
	l.lan = lan
	return l
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func (l *lab) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.child = worker.Start(ctx, worker.Options{
		Kind: dhcpd.Worker.Name,
		Setup: func(_ context.Context, c *worker.Conn) error {
			l.mu.Lock()
			lan := l.lan
			l.mu.Unlock()
			var files []*os.File
			err := netns.Do(l.gw, func() (err error) {
				lan.Sockets, files, err = dhcpd.Open("br0")
				return err
			})
			if err != nil {
				return err
			}
			err = dhcpd.Setup(c, l.store.Kept().Leases, dhcpd.Config{LANs: []dhcpd.LAN{lan}}, files...)
			for _, f := range files {
				f.Close()
			}
			return err
		},
		Received: func(c *worker.Child, m worker.Message) error {
			var r dhcpd.Report
			if err := m.Decode(&r); err != nil {
				return err
			}
			if r.ID != 0 && l.hold {
				l.keeping <- r
				return nil
			}
			return l.keep(c, r)
		},
		Changed: func(s worker.State) { l.states <- s },
		Log:     slog.New(slog.NewTextHandler(l.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	l.t.Cleanup(func() {
		cancel()
		<-l.child.Done()
	})
}

func (l *lab) keep(c *worker.Child, r dhcpd.Report) error {
	if r.ID == 0 {
		return nil
	}
	var items []state.Item
	for _, lease := range r.Keep {
		items = append(items, state.KeepLease(lease))
	}
	k := commit.Kept{ID: r.ID}
	if err := l.store.Put(items...); err != nil {
		k.Err = err.Error()
	}
	if err := c.Send(dhcpd.Order{Kept: &k}); err != nil && !errors.Is(err, worker.ErrNotRunning) {
		return err
	}
	for _, lease := range r.Keep {
		l.kept <- lease
	}
	return nil
}

// client is a namespace with eth0 on the LAN; its address is returned too.
func (l *lab) client() (ns, mac string) {
	l.t.Helper()
	ns = netnstest.New(l.t)
	l.ports++
	name := fmt.Sprintf("c%d", l.ports)
	f, err := os.Open(netns.Path(ns))
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	err = netns.Do(l.gw, func() error {
		la := netlink.NewLinkAttrs()
		la.Name = name
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(f.Fd()))}); err != nil {
			return err
		}
		p, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetMaster(p, br), netlink.LinkSetUp(p))
	})
	if err == nil {
		err = netns.Do(ns, func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			mac = link.Attrs().HardwareAddr.String()
			return netlink.LinkSetUp(link)
		})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return ns, mac
}

// program starts a client's program; what its script says comes line by line.
func (l *lab) program(ns, script string, name string, args ...string) *exec.Cmd {
	l.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		netnstest.Missing(l.t, name, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "SAY="+script)
	cmd.Stdout, cmd.Stderr = l.t.Output(), l.t.Output()
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := netns.Do(ns, cmd.Start); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // it and what it started
		_ = cmd.Wait()                                // killed
	})
	return cmd
}

// script makes a client's hook of a line that says what there is to say into
// the returned FIFO.
func (l *lab) script(line string) (path string, said <-chan string) {
	l.t.Helper()
	dir := l.t.TempDir()
	fifo := filepath.Join(dir, "said")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		l.t.Fatal(err)
	}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	lines := make(chan string, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := f.Read(b)
			if err != nil {
				return
			}
			for s := range strings.Lines(string(b[:n])) {
				l.t.Log("client says: ", strings.TrimSpace(s))
				lines <- strings.TrimSpace(s)
			}
		}
	})
	l.t.Cleanup(func() {
		f.Close()
		wg.Wait()
	})
	path = filepath.Join(dir, "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+strings.ReplaceAll(line, "FIFO", fifo)+"\n"), 0o755); err != nil {
		l.t.Fatal(err)
	}
	return path, lines
}

// expect waits for a line with all of these in it. The deadline is a bound.
func (l *lab) expect(said <-chan string, want ...string) string {
	l.t.Helper()
	deadline := time.After(40 * time.Second)
	for {
		select {
		case s := <-said:
			ok := true
			for _, w := range want {
				ok = ok && strings.Contains(s, w)
			}
			if ok {
				return s
			}
		case <-deadline:
			l.t.Fatalf("no client said %q; leases: %+v", want, l.store.Kept().Leases)
		}
	}
}

func (l *lab) nextKept() state.Lease {
	l.t.Helper()
	select {
	case lease := <-l.kept:
		return lease
	case <-time.After(20 * time.Second):
		l.t.Fatal("nothing was kept")
		return state.Lease{}
	}
}

// kill is kill -9 of the server.
func (l *lab) kill() {
	l.t.Helper()
	s := l.child.State()
	for s.PID == 0 { // being started; 0 would be ourselves
		l.running()
		s = l.child.State()
	}
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
}

// running waits until the server runs, or runs again.
func (l *lab) running() {
	l.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case s := <-l.states:
			if s.Running {
				return
			}
		case <-deadline:
			l.t.Fatal("the server does not run")
		}
	}
}
