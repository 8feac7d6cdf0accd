package dhcp4_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/netns/netnstest"
	"weir/internal/wan/dhcp4"
)

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
// for longer than one. It has addresses for those alone who say what they are.
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
class "routers" { match if option vendor-class-identifier = "dslforum.org"; }
subnet 198.51.100.0 netmask 255.255.255.0 {
  pool {
    allow members of "routers";
    range 198.51.100.20 198.51.100.20;
  }
  option routers 198.51.100.1;
}
`
	l.cfg.VendorClass = "dslforum.org"
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
