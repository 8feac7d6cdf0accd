package cases

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

const withServices = base + `
forward "game" {
  protocol = "udp"
  port     = 27015
  to       = host.nas
}
allow "door" {
  from = wan
  to   = self
  port = 2222
}
`

// TestForwardsAnswerByTheLineAsked (B22): who comes in by a line is answered by
// it, whichever is in use, while lines fail over and back, and across a long
// upload. (Each line has an internet of its own here: an answer by the other
// line reaches nobody.)
func TestForwardsAnswerByTheLineAsked(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
		h.must(nas.ServeEcho([]uint16{80}, []uint16{27015}))
		h.must(h.gw.ServeEcho([]uint16{2222}, nil))
		sunk := h.sink(nas.Host, 443)
		h.start(withServices)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("both lines are up", 10*time.Second, func() bool {
			return h.verdict("fiber") == api.VerdictUp && h.verdict("lte") == api.VerdictUp
		})

		public := func(i *lab.ISP) netip.Addr { return i.Customer4[0].Addr() }
		ask := func(i *lab.ISP, network, from string, port uint16, want string) {
			h.Helper()
			src := netip.Addr{}
			if from != "" {
				src = addr(from)
			}
			g, a, err := i.Inet.Ask(h.Context(), network, src, netip.AddrPortFrom(public(i), port), time.Second)
			got := g.Host
			if a != lab.Answered {
				got = string(a)
			}
			if got != want {
				h.Errorf("%s %d by %s from %q: %s (%v), want %s", network, port, i.Name, from, got, err, want)
			}
		}
		for n := range 100 {
			for _, i := range []*lab.ISP{fiber, lte} {
				ask(i, "tcp", []string{"192.0.2.80", "1.1.1.1", "1.1.1.2", "8.8.8.8"}[n%4], 80, "nas")
			}
		}
		gw := "" // the gateway's machine has no name
		for _, i := range []*lab.ISP{fiber, lte} {
			ask(i, "udp", "1.1.1.1", 27015, "nas")
			ask(i, "tcp", "1.1.1.1", 2222, gw)
			// Strict all the same: nobody outside is a LAN's device.
			ask(i, "tcp", "172.31.0.50", 80, string(lab.Silence))
			ask(i, "udp", "172.31.0.50", 27015, string(lab.Silence))
			ask(i, "tcp", "1.1.1.1", 22, string(lab.Silence))
		}

		// An upload by lte, and connections by it without a pause, while fiber goes
		// and comes back.
		up, err := lte.Inet.Dial(h.Context(), "tcp", addr("1.1.1.2"), netip.AddrPortFrom(public(lte), 443), time.Second)
		h.must(err)
		var work sync.WaitGroup
		stop := make(chan struct{})
		var sendErr error
		var sent atomic.Int64
		work.Go(func() { sendErr = upload(up, stop, &sent) })
		asked := 0
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					ask(lte, "tcp", "1.1.1.1", 80, "nas")
					asked++
				}
			}
		})
		failures := 0
		for enough := int64(0); failures == 0 || sent.Load() < enough; failures++ {
			if inFull() {
				enough = 1 << 30
			}
			h.must(fiber.Dark(true))
			h.untilOutBy(pc, "lte", 5*time.Second)
			ask(lte, "udp", "1.1.1.1", 27015, "nas")
			ask(lte, "tcp", "1.1.1.1", 2222, gw)
			h.must(fiber.Dark(false))
			h.untilOutBy(pc, "fiber", time.Minute)
		}
		close(stop)
		work.Wait()
		h.must(sendErr)
		select {
		case got := <-sunk:
			if int64(got) != sent.Load() {
				h.Errorf("of an upload of %d bytes %d arrived", sent.Load(), got)
			}
		case <-time.After(5 * time.Second):
			h.Error("the upload never came to its end")
		}
		t.Logf("%d connections and an upload of %d MB by lte, while fiber went and came back %d times", asked, sent.Load()>>20, failures)
		ask(fiber, "tcp", "1.1.1.1", 80, "nas")
		h.strays(fiber, lte)
	})
}

// upload sends until stop, some 50 MB a second, counts the bytes, and ends its half
// of the connection.
func upload(c net.Conn, stop <-chan struct{}, sent *atomic.Int64) error {
	defer c.Close()
	chunk := make([]byte, 256<<10)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return c.(*net.TCPConn).CloseWrite()
		case <-tick.C:
			if err := c.SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
				return err
			}
			n, err := c.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return err
			}
		}
	}
}

// sink takes connections on a machine's port, and tells of each how many bytes
// came until its end.
func (h *house) sink(on *lab.Host, port int) <-chan int {
	h.Helper()
	var l net.Listener
	h.must(on.Do(func() (err error) { l, err = net.Listen("tcp", ":"+strconv.Itoa(port)); return err }))
	out := make(chan int, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				n, _ := io.Copy(io.Discard, c)
				out <- int(n)
			}()
		}
	}()
	h.Cleanup(func() { l.Close() })
	return out
}

const withGuests = `
gateway "gw" { domain = "local" }
wan "fiber" { interface = "eth1" }
wan "lte" {
  interface = "eth2"
  ipv6 { method = "none" }
}
failover {
  hold_down = "2s"
  probe { target = ["1.1.1.1", "8.8.8.8"] }
}
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["172.31.0.23", "fd00::23"]
  }
}
lan "guest" {
  interface = "eth3"
  address   = "10.0.20.1/24"
  reach     = wan
}
forward "web" {
  port = [80, 443]
  to   = host.nas
}
`

// TestHairpinFollowsTheLease (B23): the house's public name works inside as
// outside, by the address that the line has now and not the one before, by the
// line in reserve, and by a public address that only the ISP knows. What changes
// in the kernel is an element of a set.
func TestHairpinFollowsTheLease(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft")
		f := fiberLine()
		f.Lease = 10 * time.Second
		fiber, lte := h.connect(f), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
		h.must(nas.ServeEcho([]uint16{80}, nil))
		guests, err := h.Switch("guest")
		h.must(err)
		h.must(guests.Plug(lab.Plug{Host: h.gw, Dev: "eth3"}))
		guest, err := h.Join(guests, "guest", "")
		h.must(err)
		h.must(guest.Static(pfx("10.0.20.50/24"), addr("10.0.20.1")))
		h.start(withGuests)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("lte is up", 10*time.Second, func() bool { return h.verdict("lte") == api.VerdictUp })

		// try is who answers, and the source that it saw.
		limit := time.Second
		try := func(c *lab.Client, a netip.Addr) string {
			g, how, err := c.Ask(h.Context(), "tcp", netip.Addr{}, netip.AddrPortFrom(a, 80), limit)
			if how != lab.Answered {
				return fmt.Sprint(how, " ", err)
			}
			return g.Host + " " + g.From.Addr().Unmap().String()
		}
		want := func(c *lab.Client, a netip.Addr, want string) {
			h.Helper()
			if got := try(c, a); got != want {
				h.Errorf("%s asks %s: %s, want %s", c.Name, a, got, want)
			}
		}
		old, second := fiber.Customer4[0].Addr(), lte.Customer4[0].Addr()
		for _, a := range []netip.Addr{old, second} {
			want(pc, a, "nas 172.31.0.1")
			want(guest, a, "nas 10.0.20.50")
		}
		// A guest has no way to the nas but by the forward.
		if got := try(guest, addr("172.31.0.23")); strings.HasPrefix(got, "nas") {
			h.Errorf("a guest reaches the nas itself: %s", got)
		}

		rules := h.sh(h.gw, "nft -a -s -t list table inet weir")
		now := pfx("198.51.100.77/24")
		h.must(fiber.Renumber4(now, addr("198.51.100.1")))
		leased := time.Time{}
		h.until("the new address is leased", 20*time.Second, func() bool {
			for _, e := range fiber.DHCPLog() {
				if e.Type.String() == "REQUEST" && e.Answer.String() == "ACK" && e.Addr == now.Addr() {
					leased = e.At
				}
			}
			return !leased.IsZero()
		})
		limit = 50 * time.Millisecond
		h.until("it works inside", 3*time.Second, func() bool { return try(pc, now.Addr()) == "nas 172.31.0.1" })
		if took := time.Since(leased); took > time.Second {
			h.Errorf("the new address works %v after it was leased", took)
		} else {
			t.Logf("the new address works %v after it was leased", took)
		}
		limit = time.Second
		want(guest, now.Addr(), "nas 10.0.20.50")
		want(pc, second, "nas 172.31.0.1")
		if got := try(pc, old); strings.HasPrefix(got, "nas") {
			h.Errorf("the old address still leads to the nas: %s", got)
		}
		if after := h.sh(h.gw, "nft -a -s -t list table inet weir"); after != rules {
			h.Errorf("more than elements of sets has changed:\n--- before\n%s\n--- after\n%s", rules, after)
		}

		// The public address is the ISP's, which translates it one to one.
		h.sh(fiber.Router, `nft -f - <<N
table ip one2one {
 chain in { type nat hook prerouting priority dstnat
  ip daddr 192.0.2.199 dnat to `+now.Addr().String()+`
 }
 chain out { type nat hook postrouting priority srcnat
  ip saddr `+now.Addr().String()+` snat to 192.0.2.199
 }
}
N`)
		h.sh(fiber.Inet, "ip route replace 192.0.2.199/32 via 169.254.77.1 dev eth0 onlink table local")
		h.untilOutBy(pc, "fiber", 20*time.Second)
		want(pc, addr("192.0.2.199"), "nas 192.0.2.199")
		want(guest, addr("192.0.2.199"), "nas 192.0.2.199")
	})
}
