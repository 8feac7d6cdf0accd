package cases

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/miekg/dns"

	"weir/internal/lab"
)

// asks sends a DHCP message from a machine, in the name of the card mac (which
// need not be its own), and returns the answer; nil is none within limit.
func (h *house) asks(from *lab.Client, mac net.HardwareAddr, limit time.Duration, m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	h.Helper()
	var nc *nclient4.Client
	h.must(from.Do(func() (err error) {
		nc, err = nclient4.New("e0", nclient4.WithHWAddr(mac), nclient4.WithTimeout(limit), nclient4.WithRetry(1))
		return err
	}))
	defer nc.Close()
	r, err := nc.SendAndRead(h.Context(), nclient4.DefaultServers, m, nil)
	if err != nil {
		return nil
	}
	return r
}

// renew has a client ask for its lease again, as at T1, and returns the answer's
// type.
func (h *house) renew(c *lab.Client, ack *dhcpv4.DHCPv4) dhcpv4.MessageType {
	h.Helper()
	m, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithHwAddr(ack.ClientHWAddr), dhcpv4.WithClientIP(ack.YourIPAddr))
	h.must(err)
	r := h.asks(c, ack.ClientHWAddr, 3*time.Second, m)
	if r == nil {
		return dhcpv4.MessageTypeNone
	}
	return r.MessageType()
}

// card is the n-th of many devices.
func card(n int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 1, byte(n >> 8), byte(n)} }

// take leases an address for card n by way of from's link. ok is false if no
// server answers.
func (h *house) take(from *lab.Client, n int, limit time.Duration) (a netip.Addr, ok bool) {
	h.Helper()
	mac := card(n)
	discover, err := dhcpv4.NewDiscovery(mac, dhcpv4.WithBroadcast(true), dhcpv4.WithOption(dhcpv4.OptHostName(fmt.Sprintf("dev%d", n))))
	h.must(err)
	offer := h.asks(from, mac, limit, discover)
	if offer == nil {
		return a, false
	}
	request, err := dhcpv4.NewRequestFromOffer(offer, dhcpv4.WithBroadcast(true), dhcpv4.WithOption(dhcpv4.OptHostName(fmt.Sprintf("dev%d", n))))
	h.must(err)
	ack := h.asks(from, mac, limit, request)
	if ack == nil || ack.MessageType() != dhcpv4.MessageTypeAck {
		return a, false
	}
	return yours(ack), true
}

// reboot has card n ask for an address that it had, as after a reboot.
func (h *house) reboot(from *lab.Client, n int, a netip.Addr) dhcpv4.MessageType {
	h.Helper()
	m, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithHwAddr(card(n)), dhcpv4.WithBroadcast(true),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(a.AsSlice())))
	h.must(err)
	r := h.asks(from, card(n), 3*time.Second, m)
	if r == nil {
		return dhcpv4.MessageTypeNone
	}
	return r.MessageType()
}

func (h *house) nameOf(pc *lab.Client, n int) string {
	m, err := pc.Resolve(h.Context(), addr("172.31.0.1"), fmt.Sprintf("dev%d.local", n), dns.TypeA, time.Second)
	if err != nil || len(m.Answer) != 1 {
		return ""
	}
	return m.Answer[0].(*dns.A).A.String()
}

// TestLeasesOutliveTheDaemon (B28): fifty clients are known after a restart, and
// after kills in the middle of their leasing: whoever was told an address once
// keeps it, and its name is there before anyone renews.
func TestLeasesOutliveTheDaemon(t *testing.T) {
	in(t, func(h *house) {
		h.connect(fiberLine())
		h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(base)
		crowd := h.join("crowd", "", "172.31.0.51/24")
		held := map[int]netip.Addr{}
		h.until("the first lease", 20*time.Second, func() bool {
			a, ok := h.take(crowd, 0, time.Second)
			held[0] = a
			return ok
		})
		for n := 1; n < 50; n++ {
			a, ok := h.take(crowd, n, 2*time.Second)
			if !ok {
				h.Errorf("device %d gets no lease", n)
				continue
			}
			held[n] = a
		}
		known := func(when string) {
			h.Helper()
			h.until("names "+when, 10*time.Second, func() bool { return h.nameOf(pc, 0) == held[0].String() })
			owner := map[netip.Addr]int{}
			for n, a := range held {
				if other, taken := owner[a]; taken {
					h.Errorf("%s: %s is held by %d and by %d", when, a, n, other)
				}
				owner[a] = n
				if got := h.nameOf(pc, n); got != a.String() {
					h.Errorf("%s: dev%d is %q, want %s", when, n, got, a)
				}
			}
			for n, a := range held {
				if got := h.reboot(crowd, n, a); got != dhcpv4.MessageTypeAck {
					h.Errorf("%s: device %d asks for its %s: %s", when, n, a, got)
				}
			}
		}
		h.end(syscall.SIGTERM)
		h.again()
		known("after a restart")

		// Kills while devices are served: what was acknowledged is kept.
		for n := 50; n < 80; n++ {
			if n%6 == 0 {
				go func(p *os.Process) { _ = p.Signal(syscall.SIGKILL) }(h.run.Process)
			}
			if a, ok := h.take(crowd, n, 400*time.Millisecond); ok {
				held[n] = a
			}
			if n%6 == 0 {
				<-h.left
				h.again()
				h.until("it serves again", 10*time.Second, func() bool {
					a, ok := h.take(crowd, n, time.Second)
					if ok {
						held[n] = a
					}
					return ok
				})
			}
		}
		t.Logf("%d devices have been told an address", len(held))
		known("after kills")
	})
}

// TestADamagedLeaseStore (B28): the stored leases are cut off and bent. The
// daemon starts with what can be read and says what is lost; a device that still
// uses a forgotten address is noticed before somebody else gets it. When the disk
// is full, devices are served all the same, and the owner is told.
func TestADamagedLeaseStore(t *testing.T) {
	in(t, func(h *house) {
		h.connect(fiberLine())
		h.connect(lteLine())
		h.must(os.Mkdir(h.dir+"/state", 0o700))
		h.sh(h.gw, "mount -t tmpfs -o size=512k none "+h.dir+"/state")
		pc := h.join("pc", "", "172.31.0.50/24")
		small := strings.Replace(base, "172.31.0.100-172.31.0.200", "172.31.0.100-172.31.0.104", 1)
		h.start(small)
		holder := h.join("holder", "02:00:00:00:00:a1")
		h.must(holder.Use(h.lease(holder)))
		crowd := h.join("crowd", "", "172.31.0.51/24")
		for n := range 2 {
			if _, ok := h.take(crowd, n, 2*time.Second); !ok {
				h.Errorf("device %d gets no lease", n)
			}
		}
		h.end(syscall.SIGKILL)
		// All of the store is bent: a byte in each record's middle.
		n := 0
		h.must(filepath.Walk(h.dir+"/state", func(p string, i os.FileInfo, err error) error {
			if err != nil || i.IsDir() || !strings.Contains(p, "lease") && !strings.Contains(p, "store") && !strings.Contains(p, "log") {
				return err
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			for i := 40; i < len(b); i += 60 {
				b[i] ^= 0x20
			}
			n++
			return os.WriteFile(p, b[:len(b)-min(len(b), 5)], 0o600)
		}))
		if n == 0 {
			out := h.sh(h.gw, "find "+h.dir+"/state")
			t.Fatalf("no store to damage among\n%s", out)
		}
		from := len(h.log())
		h.again()
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("it is told what is lost", 10*time.Second, func() bool {
			return len(lines(h.log()[from:], "level=ERROR", "stored state", "damaged")) > 0
		})
		for n := 10; n < 14; n++ { // all that the pool has but the holder's
			h.until(fmt.Sprintf("device %d has an address", n), 15*time.Second, func() bool {
				a, ok := h.take(crowd, n, 2*time.Second)
				if ok && a == holder.Addr4 {
					h.Errorf("%s is given to device %d while its holder uses it", a, n)
				}
				return ok
			})
		}

		// Full: not a byte more.
		h.sh(h.gw, "dd if=/dev/zero of="+h.dir+"/state/fill bs=1k count=2000 2>/dev/null || true")
		h.write(strings.Replace(small, "172.31.0.104", "172.31.0.190", 1))
		_, _ = h.tell("apply", "--yes", h.file) // what it says of the disk is another matter
		told := func() bool { return len(lines(h.log(), "level=ERROR", "no space left on device")) > 0 }
		for n := 20; n < 60 && !told(); n++ { // the last block of the log has room for some
			var a netip.Addr
			h.until(fmt.Sprintf("device %d has an address, with a full disk", n), 10*time.Second, func() (ok bool) {
				a, ok = h.take(crowd, n, 2*time.Second)
				return ok
			})
			if !lab.Until(h.Context(), 2*time.Second, func() bool { return h.nameOf(pc, n) == a.String() }) {
				h.Errorf("with a full disk dev%d is not %s", n, a)
			}
		}
		if !told() {
			h.Errorf("the owner is not told of the full disk:\n%s", h.log()[from:])
		}
	})
}
