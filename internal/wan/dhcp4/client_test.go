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
	"strings"
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

func TestDnsmasq(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.dnsmasq("--dhcp-range=198.51.100.10,198.51.100.10,255.255.255.0,1h", "--dhcp-option=3,198.51.100.9", "--domain=isp.example",
		"--dhcp-option=121,0.0.0.0/0,198.51.100.1,10.0.0.0/8,198.51.100.1", "--dhcp-option=6,9.9.9.9", "--dhcp-option=26,1400")
	l.start()
	began := time.Now()
	r, _ := l.until("a lease", 15*time.Second, bound)
	t.Logf("bound after %v", time.Since(began).Round(time.Millisecond))
	got := fmt.Sprintf("%s mtu %d domain %s dns %v routes %v for %v", r.Lease.Addr, r.Lease.MTU, r.Lease.Domain, r.Lease.DNS, r.Lease.Routes, r.Lease.Duration)
	want := "198.51.100.10/24 mtu 1400 domain isp.example dns [9.9.9.9] routes [{10.0.0.0/8 198.51.100.1} {0.0.0.0/0 198.51.100.1}] for 1h0m0s"
	if got != want || r.Lease.Note != "" {
		t.Errorf("lease %s, note %q; want %s", got, r.Lease.Note, want)
	}

	// The child dies: the next one asks for the same address again, and the
	// lease is never reported lost.
	n := len(l.requests())
	if err := unix.Kill(l.child.State().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r, before := l.until("the lease after a crash", 15*time.Second, bound)
	for _, b := range append(before, r) {
		if b.Lease == nil || b.Lease.Addr.String() != "198.51.100.10/24" {
			t.Errorf("report %+v: want the lease in all of them", b)
		}
	}
	if got := l.requests()[n:]; !slices.Equal(got, []string{"broadcast REQUEST to 255.255.255.255 from 0.0.0.0"}) {
		t.Errorf("requests after a crash: %q, want one of INIT-REBOOT", got)
	}

	// The carrier comes back.
	l.mu.Lock()
	l.cfg.Confirm++
	l.cfg.Sockets = nil
	cfg := l.cfg
	l.mu.Unlock()
	if err := l.child.Send(cfg); err != nil {
		t.Fatal(err)
	}
	l.until("a confirmed lease", 15*time.Second, func(r dhcp4.Report) bool { return bound(r) && strings.HasPrefix(r.Event, "confirmed") })
}

// B14: the server's identifier lies behind the ISP's router, and no answer comes
// from there.
func TestISCDeafToUnicast(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	router := netnstest.New(t)
	if err := errors.Join(veth(l.isp, "p2", router, "eth0"), port(l.isp, "p2", "br0"), port(router, "eth0", "", "198.51.100.254/24")); err != nil {
		t.Fatal(err)
	}
	// Rebinding has twenty seconds.
	l.dhcpd(`
authoritative;
ping-check false;
min-lease-time 24;
default-lease-time 24;
max-lease-time 24;
option dhcp-renewal-time 2;
option dhcp-rebinding-time 4;
server-identifier 66.66.66.66;
subnet 198.51.100.0 netmask 255.255.255.0 {
  range 198.51.100.20 198.51.100.20;
  option routers 198.51.100.254;
}
`)
	l.start()
	r, _ := l.until("a lease", 20*time.Second, bound)
	if r.Lease.Server.String() != "66.66.66.66" {
		t.Fatalf("the server did not do as told: %+v", r.Lease)
	}
	n := len(l.requests())
	l.watch(router, "eth0") // sees broadcasts too
	r, before := l.until("a renewed lease", 30*time.Second, func(r dhcp4.Report) bool { return strings.HasPrefix(r.Event, "renewed") })
	for _, b := range append(before, r) {
		if b.Lease == nil {
			t.Errorf("the lease was given up: %+v", b)
		}
	}
	const unicast, broadcast = "unicast REQUEST to 66.66.66.66 from 198.51.100.20", "broadcast REQUEST to 255.255.255.255 from 198.51.100.20"
	if got := l.requests()[n:]; len(got) < 2 || got[0] != unicast || got[1] != broadcast {
		t.Errorf("requests %q, want a unicast and then a broadcast", got)
	}
}

// B14 and B02: a private server off the link, short leases, and the server gone
// for longer than one.
func TestISCShortLeases(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	conf := `
authoritative;
ping-check false;
min-lease-time 6;
default-lease-time 6;
max-lease-time 6;
server-identifier 10.1.2.3;
subnet 198.51.100.0 netmask 255.255.255.0 {
  range 198.51.100.20 198.51.100.20;
  option routers 198.51.100.1;
}
`
	stop := l.dhcpd(conf)
	l.start()
	r, _ := l.until("a lease", 20*time.Second, bound)
	if r.Lease.Server.String() != "10.1.2.3" || r.Lease.Duration != 6*time.Second {
		t.Fatalf("the server did not do as told: %+v", r.Lease)
	}
	n := len(l.requests())
	l.until("a renewed lease", 10*time.Second, func(r dhcp4.Report) bool { return strings.HasPrefix(r.Event, "renewed") })
	if got, want := l.requests()[n:], []string{"unicast REQUEST to 10.1.2.3 from 198.51.100.20"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
	stop()
	r, before := l.until("the lease's end", 15*time.Second, func(r dhcp4.Report) bool { return r.Lease == nil })
	if !strings.Contains(r.Event, "no server renewed it") || len(before) == 0 {
		t.Errorf("lost with %+v after %+v", r, before)
	}
	l.dhcpd(conf)
	l.until("a lease of the server that is back", 20*time.Second, bound)
}

// TestConflict: a neighbour uses the address that is offered.
func TestConflict(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	thief := netnstest.New(t)
	if err := errors.Join(veth(l.isp, "p2", thief, "eth0"), port(l.isp, "p2", "br0"), port(thief, "eth0", "", "198.51.100.10/24")); err != nil {
		t.Fatal(err)
	}
	l.dnsmasq("--dhcp-range=198.51.100.10,198.51.100.11,255.255.255.0,1h", "--dhcp-host="+l.mac+",198.51.100.10")
	l.start()
	r, before := l.until("a lease", 40*time.Second, bound)
	if r.Lease.Addr.String() != "198.51.100.11/24" {
		t.Errorf("lease %s, want the other address", r.Lease.Addr)
	}
	if !slices.ContainsFunc(before, func(r dhcp4.Report) bool { return strings.Contains(r.Event, "uses already: declined") }) ||
		!slices.Contains(l.requests(), "broadcast DECLINE to 255.255.255.255 from 0.0.0.0") {
		t.Errorf("no DECLINE: %q, reports %+v", l.requests(), before)
	}
}
