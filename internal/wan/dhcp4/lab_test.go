package dhcp4_test

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
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/ether"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/state"
	"weir/internal/wan/dhcp4"
	"weir/internal/worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(worker.Main(os.Args[2:], dhcp4.Worker))
	}
	netnstest.Main(m)
}

// lab is a WAN's namespace and an ISP's, joined by a cable. The ISP's end is a
// bridge, so that neighbours can be put on the link.
//
//	wan: eth1 ---- isp: p1, br0 198.51.100.1/24, lo 10.1.2.3 and 66.66.66.66
type lab struct {
	t        *testing.T
	wan, isp string
	mac      string
	reports  chan dhcp4.Report
	child    *worker.Child

	mu   sync.Mutex
	cfg  dhcp4.Config
	last *state.Lease4
	seen []string // requests that reached the ISP's end
}

func veth(near, nearName, far, farName string) error {
	f, err := os.Open(netns.Path(far))
	if err != nil {
		return err
	}
	defer f.Close()
	return netns.Do(near, func() error {
		la := netlink.NewLinkAttrs()
		la.Name = nearName
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: farName, PeerNamespace: netlink.NsFd(int(f.Fd()))})
	})
}

// port sets a link up, with a master and addresses.
func port(ns, name, master string, addrs ...string) error {
	return netns.Do(ns, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if master != "" {
			br, err := netlink.LinkByName(master)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetMaster(l, br); err != nil {
				return err
			}
		}
		for _, a := range addrs {
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(l, addr); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(l)
	})
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, wan: netnstest.New(t), isp: netnstest.New(t), reports: make(chan dhcp4.Report, 100)}
	err := veth(l.wan, "eth1", l.isp, "p1")
	if err == nil {
		err = netns.Do(l.isp, func() error {
			la := netlink.NewLinkAttrs()
			la.Name = "br0"
			return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: la})
		})
	}
	err = errors.Join(err, port(l.isp, "br0", "", "198.51.100.1/24"), port(l.isp, "p1", "br0"),
		port(l.isp, "lo", "", "10.1.2.3/32"), port(l.wan, "eth1", ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Do(l.wan, func() error {
		link, err := netlink.LinkByName("eth1")
		if err == nil {
			l.mac = link.Attrs().HardwareAddr.String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	l.cfg = dhcp4.Config{WAN: "fiber", Port: "eth1", MAC: l.mac, Hostname: "gw"}
	l.watch(l.isp, "br0")
	return l
}

// watch writes down what reaches a port on the ISP's side.
func (l *lab) watch(ns, port string) {
	var f *os.File
	if err := netns.Do(ns, func() (err error) {
		f, err = ether.Open(port, ether.TypeIPv4, ether.ToUDP(dhcpv4.ServerPort))
		return err
	}); err != nil {
		l.t.Fatal(err)
	}
	c, err := ether.NewConn(f)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, ether.MaxFrame)
		for {
			frame, partial, err := c.Read(ctx, b)
			if err != nil {
				return
			}
			u, err := ether.ParseUDP(frame, partial)
			if err != nil {
				continue
			}
			p, err := dhcpv4.FromBytes(u.Payload)
			if err != nil {
				continue
			}
			how := "unicast"
			if u.DstMAC == ether.Broadcast {
				how = "broadcast"
			}
			l.mu.Lock()
			l.seen = append(l.seen, fmt.Sprintf("%s %s to %s from %s", how, p.MessageType(), u.Dst.Addr(), u.Src.Addr()))
			l.mu.Unlock()
		}
	})
	l.t.Cleanup(func() {
		cancel()
		wg.Wait()
		c.Close()
	})
}

func (l *lab) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// start starts the client; its leases are put into the kernel as weir does.
func (l *lab) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.child = worker.Start(ctx, worker.Options{
		Kind: dhcp4.Worker.Name, Name: "fiber",
		Setup: func(_ context.Context, c *worker.Conn) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.cfg.Last = l.last
			var files []*os.File
			err := netns.Do(l.wan, func() (err error) {
				l.cfg.Sockets, files, err = dhcp4.Open("eth1")
				return err
			})
			if err != nil {
				return err
			}
			err = c.Send(l.cfg, files...)
			for _, f := range files {
				f.Close()
			}
			return err
		},
		Received: func(_ *worker.Child, m worker.Message) error {
			var r dhcp4.Report
			if err := m.Decode(&r); err != nil {
				return err
			}
			if err := l.apply(r.Lease); err != nil {
				return err
			}
			l.reports <- r
			return nil
		},
		Log: slog.New(slog.NewTextHandler(l.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	l.t.Cleanup(func() {
		cancel()
		<-l.child.Done()
	})
}

func (l *lab) apply(lease *state.Lease4) error {
	l.mu.Lock()
	old := l.last
	l.last = lease
	l.mu.Unlock()
	return netns.Do(l.wan, func() error {
		link, err := netlink.LinkByName("eth1")
		if err != nil {
			return err
		}
		addr := func(p netip.Prefix) *netlink.Addr {
			return &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}}
		}
		if old != nil && (lease == nil || lease.Addr != old.Addr) {
			if err := netlink.AddrDel(link, addr(old.Addr)); err != nil {
				return err
			}
		}
		if lease == nil {
			return nil
		}
		if err := netlink.AddrReplace(link, addr(lease.Addr)); err != nil {
			return err
		}
		for _, r := range lease.Routes {
			route := netlink.Route{
				LinkIndex: link.Attrs().Index,
				Dst:       &net.IPNet{IP: r.Dst.Addr().AsSlice(), Mask: net.CIDRMask(r.Dst.Bits(), 32)},
			}
			if r.Gateway.IsValid() {
				route.Gw = r.Gateway.AsSlice()
				route.Flags = int(netlink.FLAG_ONLINK)
			} else {
				route.Scope = netlink.SCOPE_LINK
			}
			if err := netlink.RouteReplace(&route); err != nil {
				return fmt.Errorf("route %v: %w", r, err)
			}
		}
		return nil
	})
}

// until waits for a report of which ok is true, and returns it with those
// before it. The deadline is a bound, not a wait.
func (l *lab) until(what string, within time.Duration, ok func(dhcp4.Report) bool) (dhcp4.Report, []dhcp4.Report) {
	l.t.Helper()
	deadline := time.After(within)
	var before []dhcp4.Report
	for {
		select {
		case r := <-l.reports:
			if ok(r) {
				return r, before
			}
			before = append(before, r)
		case <-deadline:
			l.t.Fatalf("%s: not within %v; reports: %+v; requests at the ISP: %q", what, within, before, l.requests())
		}
	}
}

func bound(r dhcp4.Report) bool { return r.State == dhcp4.Bound && r.Lease != nil }

// server starts a DHCP server in the ISP's namespace; the returned function
// ends it.
func (l *lab) server(name string, args ...string) (stop func()) {
	l.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		netnstest.Missing(l.t, name, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = l.t.Output(), l.t.Output()
	// Debian's dhcpd drops root for a user that can't read a test's files.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := netns.Do(l.isp, cmd.Start); err != nil {
		l.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	l.t.Cleanup(stop)
	return stop
}

func (l *lab) dnsmasq(args ...string) (stop func()) {
	l.t.Helper()
	return l.server("dnsmasq", append([]string{
		"--no-daemon", "--conf-file=/dev/null", "--port=0", "--pid-file=", "--log-dhcp",
		"--interface=br0", "--bind-interfaces", "--dhcp-authoritative", "--no-ping",
		"--dhcp-leasefile=" + filepath.Join(l.t.TempDir(), "leases"),
	}, args...)...)
}

func (l *lab) dhcpd(conf string) (stop func()) {
	l.t.Helper()
	dir := l.t.TempDir()
	for name, text := range map[string]string{"leases": "", "conf": conf} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			l.t.Fatal(err)
		}
	}
	return l.server("dhcpd", "-4", "-f", "-d", "--no-pid", "-cf", filepath.Join(dir, "conf"), "-lf", filepath.Join(dir, "leases"), "br0")
}
