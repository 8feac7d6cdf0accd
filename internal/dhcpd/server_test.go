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

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/dhcpd"
	"weir/internal/ether"
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
		Received: func(m worker.Message) error {
			var r dhcpd.Report
			if err := m.Decode(&r); err != nil {
				return err
			}
			if r.ID != 0 && l.hold {
				l.keeping <- r
				return nil
			}
			return l.keep(r)
		},
		Changed: func(s worker.State) { l.states <- s },
		Log:     slog.New(slog.NewTextHandler(l.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	l.t.Cleanup(func() {
		cancel()
		<-l.child.Done()
	})
}

func (l *lab) keep(r dhcpd.Report) error {
	if r.ID == 0 {
		return nil
	}
	var items []state.Item
	for _, lease := range r.Keep {
		items = append(items, state.KeepLease(lease))
	}
	k := dhcpd.Kept{ID: r.ID}
	if err := l.store.Put(items...); err != nil {
		k.Err = err.Error()
	}
	if err := l.child.Send(dhcpd.Order{Kept: &k}); err != nil && !errors.Is(err, worker.ErrNotRunning) {
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

const ipConf = `
case $reason$1 in
BOUND|bound) ip addr add $ADDR/24 dev eth0; echo "bound $ADDR $MORE" >FIFO;;
RENEW|REBIND|REBOOT|renew) echo "again $ADDR $MORE" >FIFO; ip addr replace $ADDR/24 dev eth0;;
*) echo "$reason$1" >FIFO;;
esac
`

func TestDhclient(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.start()
	ns, mac := l.client()
	script, said := l.script(`ADDR=$new_ip_address MORE="$new_routers $new_domain_name $new_domain_name_servers $new_dhcp_lease_time"` + ipConf)
	dir := t.TempDir()
	args := []string{
		"-4", "-d", "-cf", filepath.Join(dir, "conf"), "-lf", filepath.Join(dir, "leases"), "-pf", filepath.Join(dir, "pid"), "-sf", script, "eth0",
	}
	conf := "send host-name \"Anna-PC.example\";\nrequest subnet-mask, routers, domain-name, domain-name-servers;\nreboot 5;\n"
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := l.program(ns, script, "dhclient", args...)
	l.expect(said, "bound 172.31.0.", "172.31.0.1 lab.example 172.31.0.1 43200")
	lease := l.nextKept()
	if lease.MAC != mac || lease.Hostname != "anna-pc" || lease.LAN != "home" {
		t.Errorf("kept %+v", lease)
	}
	// B28: the server is killed and the client starts over from its lease file.
	l.running()
	l.kill()
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
	l.program(ns, script, "dhclient", args...)
	if s := l.expect(said, "172.31.0.1 lab.example"); !strings.Contains(s, " "+lease.Addr.String()+" ") {
		t.Errorf("after a restart of both: %q, want %s again", s, lease.Addr)
	}
}

func TestUdhcpc(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(lan *dhcpd.LAN) { lan.Options = []dhcpd.Option{{Code: 42, Data: []byte{172, 31, 0, 1}}} })
	l.start()
	ns, mac := l.client()
	l.running()
	l.mu.Lock()
	l.lan.Hosts = []dhcpd.Host{{Name: "nas", DNSName: "nas", Addr: ip("172.31.0.23"), MAC: []string{mac}}}
	cfg := dhcpd.Config{LANs: []dhcpd.LAN{l.lan}}
	l.mu.Unlock()
	if err := l.child.Send(dhcpd.Order{Config: &cfg}); err != nil {
		t.Fatal(err)
	}
	script, said := l.script(`ADDR=$ip MORE="$router $domain $dns $lease $ntpsrv $hostname"` + ipConf)
	cmd := l.program(ns, script, "udhcpc", "-f", "-i", "eth0", "-s", script, "-O", "ntpsrv", "-O", "hostname", "-x", "hostname:disk", "-t", "10")
	l.expect(said, "bound 172.31.0.23 172.31.0.1 lab.example 172.31.0.1 43200 172.31.0.1 nas")
	if lease := l.nextKept(); lease.Host != "nas" || lease.Hostname != "disk" {
		t.Errorf("kept %+v", lease)
	}
	l.kill()
	l.running()
	if err := cmd.Process.Signal(unix.SIGUSR1); err != nil { // renew, by unicast
		t.Fatal(err)
	}
	l.expect(said, "again 172.31.0.23")
	if err := cmd.Process.Signal(unix.SIGUSR2); err != nil { // release
		t.Fatal(err)
	}
	for {
		if lease := l.nextKept(); lease.Duration == 0 {
			break
		}
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

func TestDhcpcd(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.start()
	ns, mac := l.client()
	netnstest.Need(t)
	// Its leases, and the directory that it locks itself into, are the test's.
	for _, dir := range []string{"/var/lib/dhcpcd", "/var/lib/dhcpcd5"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			netnstest.Missing(t, "tmpfs", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	script, said := l.script(`[ "$if_up$interface" = trueeth0 ] && [ -n "$new_ip_address" ] && echo "$reason $new_ip_address $new_routers $new_domain_name $new_domain_name_servers" >FIFO`)
	conf := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(conf, []byte("hostname box\nclientid\noption rapid_commit\noption domain_name_servers, domain_name, routers\nrequire dhcp_server_identifier\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.program(ns, script, "dhcpcd", "-4", "-B", "-d", "-f", conf, "-c", script, "--noarp", "eth0")
	s := l.expect(said, "172.31.0.1 lab.example 172.31.0.1")
	if lease := l.nextKept(); lease.MAC != mac || lease.Hostname != "box" || !strings.Contains(s, lease.Addr.String()) {
		t.Errorf("kept %+v, client said %q", lease, s)
	}
}

// systemd-networkd has no hook and no lease command without its bus: what it got
// is read from the kernel. It takes the machine for a container, and so does
// without udev, if /sys can't be written.
func TestNetworkd(t *testing.T) {
	t.Parallel()
	const networkd = "/lib/systemd/systemd-networkd"
	l := newLab(t, nil)
	l.start()
	ns, mac := l.client()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(`#!/bin/sh -e
[ -x `+networkd+` ]
mount -t sysfs -o ro sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/network
printf '[Match]\nName=eth0\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n[DHCPv4]\nHostname=pc\n' >/run/systemd/network/00-eth0.network
exec `+networkd+`
`), 0o755); err != nil {
		t.Fatal(err)
	}
	addrs := make(chan netlink.AddrUpdate, 10)
	done := make(chan struct{})
	defer close(done)
	if err := netns.Do(ns, func() error { return netlink.AddrSubscribe(addrs, done) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(networkd); err != nil {
		netnstest.Missing(t, "systemd-networkd", err)
	}
	// It becomes a user of its own, which takes a machine with more than one.
	if b, err := os.ReadFile("/proc/self/uid_map"); err != nil || strings.HasSuffix(strings.TrimSpace(string(b)), " 1") {
		netnstest.Missing(t, "uids", fmt.Errorf("user namespace with the map %q", b))
	}
	l.program(ns, script, "unshare", "-m", script)
	lease := l.nextKept()
	if lease.MAC != mac || lease.Hostname != "pc" {
		t.Errorf("kept %+v", lease)
	}
	deadline := time.After(20 * time.Second)
	for {
		select {
		case a := <-addrs:
			if a.NewAddr && a.LinkAddress.IP.To4() != nil {
				if a.LinkAddress.IP.String() != lease.Addr.String() {
					t.Errorf("%s on eth0, and the lease is %s", a.LinkAddress.IP, lease.Addr)
				}
				return
			}
		case <-deadline:
			t.Fatalf("the client does not use its lease %+v", lease)
		}
	}
}

// wire is a client of our own: it sends what it likes, in anybody's name.
type wire struct {
	l    *lab
	conn *ether.Conn
	mac  ether.MAC // of its port: where unicast replies go
	b    []byte
}

func (l *lab) wire() *wire {
	l.t.Helper()
	ns, hw := l.client()
	mac, err := ether.ParseMAC(hw)
	if err != nil {
		l.t.Fatal(err)
	}
	var f *os.File
	if err := netns.Do(ns, func() (err error) {
		f, err = ether.Open("eth0", ether.TypeIPv4, ether.ToUDP(dhcpv4.ClientPort))
		return err
	}); err != nil {
		l.t.Fatal(err)
	}
	c, err := ether.NewConn(f)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return &wire{l, c, mac, make([]byte, ether.MaxFrame)}
}

// ask sends a message in the name of a MAC, every second, and waits for an
// answer; nil if none came within the time.
func (w *wire) ask(within time.Duration, mac ether.MAC, t dhcpv4.MessageType, change func(*dhcpv4.DHCPv4)) *dhcpv4.DHCPv4 {
	w.l.t.Helper()
	p, err := dhcpv4.New()
	if err != nil {
		w.l.t.Fatal(err)
	}
	p.ClientHWAddr = net.HardwareAddr(mac[:])
	p.SetBroadcast()
	p.UpdateOption(dhcpv4.OptMessageType(t))
	if change != nil {
		change(p)
	}
	u := ether.UDP{
		SrcMAC: w.mac, DstMAC: ether.Broadcast, Payload: p.ToBytes(),
		Src: netip.MustParseAddrPort("0.0.0.0:68"), Dst: netip.MustParseAddrPort("255.255.255.255:67"),
	}
	for end := time.Now().Add(within); time.Now().Before(end); {
		if err := w.conn.Write(w.l.t.Context(), u.Frame()); err != nil {
			w.l.t.Fatal(err)
		}
		if r := w.answer(min(time.Second, time.Until(end)), p.TransactionID); r != nil {
			return r
		}
	}
	return nil
}

func (w *wire) answer(within time.Duration, xid dhcpv4.TransactionID) *dhcpv4.DHCPv4 {
	ctx, cancel := context.WithTimeout(w.l.t.Context(), within)
	defer cancel()
	for {
		frame, partial, err := w.conn.Read(ctx, w.b)
		if err != nil {
			return nil
		}
		u, err := ether.ParseUDP(frame, partial)
		if err != nil {
			continue
		}
		if r, err := dhcpv4.FromBytes(u.Payload); err == nil && r.TransactionID == xid {
			return r
		}
	}
}

func (w *wire) take(within time.Duration, mac ether.MAC, o *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	w.l.t.Helper()
	return w.ask(within, mac, dhcpv4.MessageTypeRequest, func(p *dhcpv4.DHCPv4) {
		p.UpdateOption(dhcpv4.OptRequestedIPAddress(o.YourIPAddr))
		p.UpdateOption(dhcpv4.OptServerIdentifier(o.ServerIdentifier()))
	})
}

// No ACK is on the wire before the lease is on the disk.
func TestAckWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.hold = true
	l.start()
	l.running()
	w := l.wire()
	mac := ether.MAC{2, 0, 0, 1, 0, 1}
	o := w.ask(10*time.Second, mac, dhcpv4.MessageTypeDiscover, nil)
	if o == nil {
		t.Fatal("no offer")
	}
	if a := w.take(300*time.Millisecond, mac, o); a != nil {
		t.Fatalf("%s before anything was kept", a.MessageType())
	}
	var r dhcpd.Report
	select {
	case r = <-l.keeping:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing to keep")
	}
	if a := w.take(300*time.Millisecond, mac, o); a != nil {
		t.Fatalf("asked again: %s before anything was kept", a.MessageType())
	}
	if err := l.keep(r); err != nil {
		t.Fatal(err)
	}
	if a := w.take(10*time.Second, mac, o); a == nil || a.MessageType() != dhcpv4.MessageTypeAck {
		// What came second waits for its own batch: it may take two.
		select {
		case r = <-l.keeping:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing to keep")
		}
		if err := l.keep(r); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.store.Kept().Leases; len(got) != 1 || got[0].MAC != mac.String() {
		t.Errorf("stored: %+v", got)
	}
}

// B28 a, b: fifty clients, and the server killed while they renew: everybody
// keeps the address, nobody hears a NAK, and a newcomer gets one of its own.
func TestKilledWithFiftyClients(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.start()
	l.running()
	w := l.wire()
	mac := func(n int) ether.MAC { return ether.MAC{2, 0, 0, 2, 0, byte(n)} }
	had := map[string]int{}
	addr := make([]net.IP, 50)
	for n := range addr {
		o := w.ask(10*time.Second, mac(n), dhcpv4.MessageTypeDiscover, nil)
		if o == nil {
			t.Fatalf("client %d: no offer", n)
		}
		a := w.take(10*time.Second, mac(n), o)
		if a == nil || a.MessageType() != dhcpv4.MessageTypeAck {
			t.Fatalf("client %d: %v", n, a)
		}
		addr[n] = a.YourIPAddr
		if other, ok := had[a.YourIPAddr.String()]; ok {
			t.Fatalf("clients %d and %d both have %s", other, n, a.YourIPAddr)
		}
		had[a.YourIPAddr.String()] = n
	}
	for n := range addr {
		if n%10 == 5 {
			l.kill()
		}
		a := w.ask(20*time.Second, mac(n), dhcpv4.MessageTypeRequest, func(p *dhcpv4.DHCPv4) { p.ClientIPAddr = addr[n] })
		if a == nil || a.MessageType() != dhcpv4.MessageTypeAck || !a.YourIPAddr.Equal(addr[n]) {
			t.Fatalf("client %d renews %s: %v", n, addr[n], a)
		}
	}
	o := w.ask(10*time.Second, mac(77), dhcpv4.MessageTypeDiscover, nil)
	if o == nil {
		t.Fatal("a newcomer gets no offer")
	}
	if n, ok := had[o.YourIPAddr.String()]; ok {
		t.Errorf("a newcomer is offered client %d's address", n)
	}
	if s := l.child.State(); s.Restarts != 5 {
		t.Errorf("state %+v: want 5 restarts", s)
	}
}
