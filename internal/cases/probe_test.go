package cases

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/lab"
)

// TestProbesOfTheReserveStayOnIt (B01): both lines are tried with the same two
// targets. The dead one is found dead, and not by way of the living one; after a
// blink of its carrier it is tried again by itself.
func TestProbesOfTheReserveStayOnIt(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("lte is up", 10*time.Second, func() bool { return h.verdict("lte") == api.VerdictUp })

		// Echo requests that fiber sees: its own probes, some four a second. What lte's
		// death adds to them would be lte's.
		var echoes atomic.Int64
		defer fiber.Wire.Watch(func(f lab.Frame) {
			if f.Type == unix.ETH_P_IP && f.Proto == unix.IPPROTO_ICMP && f.ICMP == 8 {
				echoes.Add(1)
			}
		})()
		h.must(lte.Dark(true))
		took := h.until("lte is found dead", 3*time.Second, func() bool { return h.verdict("lte") == api.VerdictDown })
		t.Logf("lte was found dead after %v", took)
		before, since := echoes.Load(), time.Now()
		// In reserve and dead, lte is tried every 2 s and by bursts: 5 s show them.
		h.until("five seconds of probes", 10*time.Second, func() bool { return time.Since(since) > 5*time.Second })
		n := echoes.Load() - before
		if most := int64(time.Since(since)/(250*time.Millisecond)) + 2; n < 10 || n > most {
			h.Errorf("fiber saw %d echo requests in %v, want its own and no more (%d)", n, time.Since(since), most)
		}
		if v := h.verdict("fiber"); v != api.VerdictUp {
			h.Errorf("fiber is %s", v)
		}

		h.must(lte.Dark(false))
		h.must(lte.Carrier(false))
		h.until("lte's carrier is missed", 3*time.Second, func() bool { return h.verdict("lte") == api.VerdictDown })
		h.must(lte.Carrier(true))
		h.until("lte is up again, by itself", 20*time.Second, func() bool { return h.verdict("lte") == api.VerdictUp })
		h.must(fiber.Dark(true))
		h.untilOutBy(pc, "lte", 5*time.Second)
		h.strays(fiber, lte)
	})
}

// TestTargetsOfALine (B32's optional kind): each line is tried as its own probe block
// says, and not otherwise: one by DNS questions alone, the other by TCP handshakes.
// Where those fall silent so does the line, though it answers pings.
func TestTargetsOfALine(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft")
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		var mu sync.Mutex
		seen := map[string]int{}
		for _, i := range []*lab.ISP{fiber, lte} {
			defer i.Wire.Watch(func(f lab.Frame) {
				if f.Type != unix.ETH_P_IP || f.Dst == lab.Web(false) {
					return
				}
				var what string
				switch {
				case f.Proto == unix.IPPROTO_ICMP && f.ICMP == 8:
					what = "echo"
				case f.Proto == unix.IPPROTO_UDP && f.DPort == 53 && f.Dst == addr("9.9.9.9"):
					what = "question"
				case f.Proto == unix.IPPROTO_TCP && f.DPort == 443 && f.Flags&2 != 0:
					what = "handshake"
				default:
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[i.Name+" "+what]++
			})()
		}
		h.start(strings.NewReplacer(
			`wan "fiber" { interface = "eth1" }`, "wan \"fiber\" {\n  interface = \"eth1\"\n  probe { target = \"dns://9.9.9.9/name.example\" }\n}",
			`ipv6 { method = "none" }`, "ipv6 { method = \"none\" }\n  probe {\n    target = \"tcp://1.1.1.1:443\"\n    every  = \"100ms\"\n  }",
		).Replace(base))
		h.untilOutBy(pc, "fiber", 20*time.Second)
		for _, wan := range []string{"fiber", "lte"} {
			h.until(wan+" is up", 10*time.Second, func() bool { return h.verdict(wan) == api.VerdictUp })
		}
		h.until("a while of probes", 10*time.Second, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen["fiber question"] > 8 && seen["lte handshake"] > 3
		})
		mu.Lock()
		for what, n := range seen {
			if what != "fiber question" && what != "lte handshake" {
				h.Errorf("%s was seen %d times", what, n)
			}
		}
		mu.Unlock()
		h.sh(fiber.Inet, "nft add table inet t; nft 'add chain inet t in { type filter hook input priority 0; }'; nft add rule inet t in udp dport 53 drop")
		// In a quiet house: a connection that is answered would speak for the line.
		took := h.until("fiber is found silent", 5*time.Second, func() bool { return h.verdict("fiber") == api.VerdictDown })
		t.Logf("a line without an answer to its questions was found silent after %v", took)
		h.untilOutBy(pc, "lte", 5*time.Second)
		h.sh(lte.Inet, "nft add table inet t; nft 'add chain inet t in { type filter hook input priority 0; }'; nft add rule inet t in tcp dport 443 drop")
		h.until("lte is found silent", 5*time.Second, func() bool { return h.verdict("lte") == api.VerdictDown })
		h.strays(fiber, lte)
	})
}

// TestHangingProber: the process that probes is there and does nothing, which looks
// like lines that are all well. It is found out, and an outage with it.
func TestHangingProber(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("lte is up", 10*time.Second, func() bool { return h.verdict("lte") == api.VerdictUp })

		s := h.status().Services
		i := slices.IndexFunc(s, func(s api.Service) bool { return s.Name == "probe" })
		h.must(unix.Kill(s[i].PID, unix.SIGSTOP))
		h.must(fiber.Dark(true))
		// A second without a word of it, a new one, and the outage's own second.
		took := h.untilOutBy(pc, "lte", 4*time.Second)
		t.Logf("the house was out by lte after %v", took)
		if s := h.status().Services[i]; s.Restarts != 1 || !strings.Contains(s.LastError, "it hung") {
			h.Errorf("the prober: %+v", s)
		}
		h.strays(fiber, lte)
	})
}

// TestBothLinesOutAndBack (B02): both lines are out for longer than their
// leases; then both are back, then one, then the other. Nobody asks by ARP for
// what is not on the link.
func TestBothLinesOutAndBack(t *testing.T) {
	in(t, func(h *house) {
		f, l := fiberLine(), lteLine()
		f.Lease, l.Lease = 12*time.Second, 12*time.Second
		fiber, lte := h.connect(f), h.connect(l)
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)

		out := func(i *lab.ISP, yes bool) {
			h.must(i.Dark(yes))
			i.Deaf(yes)
		}
		out(fiber, true)
		out(lte, true)
		// Two leases and a half later both lines have lost their addresses.
		since := time.Now()
		h.until("leases ended", 40*time.Second, func() bool { return time.Since(since) > 30*time.Second })
		if got := h.outBy(pc.Host, "tcp", web4); got == "inet-fiber" || got == "inet-lte" {
			t.Fatalf("out by %s, and both are dark", got)
		}
		out(fiber, false)
		out(lte, false)
		t.Logf("both back: after %v", h.untilOutBy(pc, "fiber", 25*time.Second))
		out(fiber, true)
		out(lte, true)
		h.until("neither answers", 10*time.Second, func() bool {
			got := h.outBy(pc.Host, "tcp", web4)
			return got != "inet-fiber" && got != "inet-lte"
		})
		out(lte, false)
		t.Logf("lte back: after %v", h.untilOutBy(pc, "lte", 25*time.Second))
		out(lte, true)
		out(fiber, false)
		t.Logf("fiber back: after %v", h.untilOutBy(pc, "fiber", 25*time.Second))
		h.strays(fiber, lte)
	})
}
