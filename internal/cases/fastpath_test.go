package cases

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"weir/internal/fastpath"
	"weir/internal/lab"
	"weir/internal/netns/netnstest"
)

// carried is what the fast path of main has, by whoever came to look.
func (h *house) carried() (entries []fastpath.Entry, why fastpath.Reasons) {
	h.Helper()
	h.must(h.gw.Do(func() error {
		all, err := netlink.LinkList()
		if err != nil {
			return err
		}
		var links []fastpath.Link
		for _, l := range all {
			links = append(links, fastpath.Link{Name: l.Attrs().Name, Index: l.Attrs().Index})
		}
		f, err := fastpath.Open(links)
		if err != nil || f == nil {
			return err
		}
		defer f.Close()
		for e, err := range f.All() {
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		why, err = f.Why()
		return err
	}))
	return entries, why
}

// fastly waits until all of so many flows are carried, and nearly all packets are.
func (h *house) fastly(what string, flows int) {
	h.Helper()
	h.until(what+": all is carried", 20*time.Second, func() bool { es, _ := h.carried(); return len(es) >= 2*flows })
	h.mostly(what)
}

// mostly waits until nine of ten packets that could be carried are.
func (h *house) mostly(what string) {
	h.Helper()
	_, had := h.carried()
	h.until(what+": nine of ten packets are carried", 20*time.Second, func() bool {
		_, r := h.carried()
		fast, slow := r.Fast-had.Fast, r.Unknown+r.Stale+r.Shut+r.Nowhere+r.Asleep-had.Unknown-had.Stale-had.Shut-had.Nowhere-had.Asleep
		if fast+slow < 40 {
			return false
		}
		had = r
		return fast > 9*slow
	})
}

// datagrams sends one each two milliseconds, each of which is answered, until what it
// returns is called: that says how many were sent, and how many of them were lost.
func (h *house) datagrams(from *lab.Host, to string) (stop func() (sent, lost int64)) {
	h.Helper()
	c, err := from.Dial(h.Context(), "udp", netip.Addr{}, at(to), time.Second)
	h.must(err)
	var sent, got atomic.Int64
	end := make(chan struct{})
	var sends, reads sync.WaitGroup
	sends.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if _, err := c.Write([]byte("call\n")); err == nil {
				sent.Add(1)
			}
		}
	})
	reads.Go(func() {
		b := make([]byte, 2048)
		for {
			if _, err := c.Read(b); err == nil {
				got.Add(1)
			} else if errors.Is(err, net.ErrClosed) {
				return
			}
		}
	})
	return func() (int64, int64) {
		close(end)
		sends.Wait() // what is sent yet has its time to be answered
		lab.Until(h.Context(), time.Second, func() bool { return got.Load() >= sent.Load() })
		c.Close()
		reads.Wait()
		return sent.Load(), sent.Load() - got.Load()
	}
}

// TestFlowsByTheFastPath: what lives is carried past main's rules, in both families, out
// and in, with nobody's help; and nothing changes by it. A daemon that is killed costs no
// packet, the next one finds the program, and its plan is empty. A line that is lost is
// left by calls at once, and its connections are reset. What is closed is gone from
// conntrack and from the fast path. Turned off, nothing of it is left.
func TestFlowsByTheFastPath(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine6())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
		h.must(nas.ServeEcho([]uint16{80}, nil))
		with := strings.Replace(both6In, `{ domain = "local" }`, "{\n  domain    = \"local\"\n  fast_path = \"auto\"\n}", 1)
		if with == both6In {
			t.Fatal("the file has no gateway's domain to go by")
		}
		h.start(with)
		h.bothUp(pc)
		s := h.status()
		if w := s.WANs[0]; w.FastPath != "tc" {
			netnstest.Missing(t, "bpf", errors.New(w.FastPathWhy))
		}
		if l := s.LANs[0]; l.FastPath != "tc" {
			t.Fatalf("the LAN's form is %s: %s", l.FastPath, l.FastPathWhy)
		}

		flows := h.talk(pc.Host, lab.Sending, lab.Receiving, lab.Datagrams)
		inbound, err := fiber.Inet.Open(h.Context(), lab.Sending, addr("1.1.1.1"), netip.AddrPortFrom(fiber.Customer4[0].Addr(), 80), 2*time.Second)
		h.must(err)
		h.fastly("at the start", len(flows)+1)
		if out, err := h.tell("plan", h.file); err != nil || !strings.Contains(out, "Nothing to change") {
			t.Errorf("a plan while flows are carried is not empty (%v):\n%s", err, out)
		}

		// A daemon is killed, and another comes.
		calls := []func() (int64, int64){h.datagrams(pc.Host, web4), h.datagrams(pc.Host, web6)}
		h.fastly("with more calls", len(flows)+3)
		_, before := h.carried()
		h.end(syscall.SIGKILL)
		h.mostly("without a daemon")
		h.again()
		h.until("the daemon answers", 20*time.Second, func() bool { _, err := h.tell("status"); return err == nil })
		h.fastly("with the next daemon", len(flows)+3)
		for _, stop := range calls {
			if sent, lost := stop(); lost != 0 || sent < 100 {
				t.Errorf("a killed daemon cost %d of %d datagrams", lost, sent)
			}
		}
		if _, r := h.carried(); r.Fast <= before.Fast {
			t.Errorf("the next daemon put another program in the place of the one that was there: %+v, before %+v", r, before)
		}
		for _, c := range flows {
			if at, err, ended := c.Ended(h.Context(), 0); ended {
				t.Errorf("%s: ended at %v: %v", c.name, at, err)
			}
		}
		if _, err, ended := inbound.Ended(h.Context(), 0); ended {
			t.Errorf("the inbound connection ended: %v", err)
		}

		// A line is lost.
		h.must(fiber.Dark(true))
		cut := time.Now()
		for _, c := range flows {
			if c.Kind == lab.Datagrams {
				at, ok := c.HeardFrom(h.Context(), "inet-lte", cut, 3*time.Second)
				if took := at.Sub(cut); !ok || took > 1500*time.Millisecond {
					t.Errorf("%s: by lte %v after the cut (%v)", c.name, took, ok)
				}
				continue
			}
			if _, err, ended := c.Ended(h.Context(), time.Until(cut.Add(5*time.Second))); !ended || !lab.Reset(err) {
				t.Errorf("%s: no reset (%v)", c.name, err)
			}
		}
		h.fastly("by the other line", 2)
		h.must(fiber.Dark(false))
		h.until("fiber is used again", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web4) == "inet-fiber" })
		inbound.Close()
		for _, c := range flows {
			c.Close()
		}

		// What is closed is gone, by the next sweep but one.
		more := h.talk(pc.Host, lab.Sending)
		h.until("connections are carried", 20*time.Second, func() bool {
			es, _ := h.carried()
			n := 0
			for _, e := range es {
				if e.In.Protocol == syscall.IPPROTO_TCP {
					n++
				}
			}
			return n == 2*len(more)
		})
		for _, c := range more {
			c.Close()
		}
		h.until("closed connections are gone", 10*time.Second, func() bool {
			es, _ := h.carried()
			for _, e := range es {
				if e.In.Protocol == syscall.IPPROTO_TCP {
					return false
				}
			}
			return true
		})

		// Off: the program is on no link, and all goes on.
		call := h.datagrams(pc.Host, web4)
		h.fastly("before it is turned off", 1)
		off := h.dir + "/off.hcl"
		h.must(os.WriteFile(off, []byte(both6In), 0o600))
		if out, err := h.tell("apply", off, "--yes"); err != nil {
			t.Fatalf("turn it off: %v\n%s", err, out)
		}
		if es, why := h.carried(); len(es) > 0 || why != (fastpath.Reasons{}) {
			t.Errorf("turned off, the program is there: %d entries, %+v", len(es), why)
		}
		if l := h.status().LANs[0]; l.FastPath != "off" || l.FastPathWhy != "the file says so" {
			t.Errorf("turned off, the status says %q: %q", l.FastPath, l.FastPathWhy)
		}
		if sent, lost := call(); lost != 0 {
			t.Errorf("to turn it off cost %d of %d datagrams", lost, sent)
		}
		h.strays(fiber, lte)
	})
}

// needFast skips a case for want of the fast path, saying why; it fails where that is
// required.
func (h *house) needFast(why string) {
	h.Helper()
	netnstest.Missing(h.T, "bpf", errors.New(why))
}
