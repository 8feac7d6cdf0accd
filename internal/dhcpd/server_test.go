package dhcpd_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/commit"
	"weir/internal/dhcpd"
	"weir/internal/ether"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

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
	// Another batch's, or that of a server before this one, is none of its.
	if err := l.child.Send(dhcpd.Order{Kept: &commit.Kept{ID: r.ID + 100}}); err != nil {
		t.Fatal(err)
	}
	if a := w.take(300*time.Millisecond, mac, o); a != nil {
		t.Fatalf("asked again: %s before anything was kept", a.MessageType())
	}
	if err := l.keep(l.child, r); err != nil {
		t.Fatal(err)
	}
	if a := w.take(10*time.Second, mac, o); a == nil || a.MessageType() != dhcpv4.MessageTypeAck {
		// What came second waits for its own batch: it may take two.
		select {
		case r = <-l.keeping:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing to keep")
		}
		if err := l.keep(l.child, r); err != nil {
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
