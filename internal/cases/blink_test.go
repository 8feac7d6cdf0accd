package cases

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

// TestAStormOfBlinks (B04): twenty blinks of the first line's carrier leave nothing
// behind: there is nothing to mend, each line has one DHCP client and the lease that
// it had, and an outage without loss of carrier is acted on as if nothing had been.
func TestAStormOfBlinks(t *testing.T) {
	in(t, func(h *house) {
		line := fiberLine()
		line.TAP = lab.TAP() == nil // a veth tells of its carrier at once
		fiber, lte := h.connect(line), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(strings.Replace(base, `"2s"`, `"1s"`, 1))
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("both lines are up", 10*time.Second, func() bool {
			return h.verdict("fiber") == api.VerdictUp && h.verdict("lte") == api.VerdictUp
		})

		chance := rand.New(rand.NewPCG(4, 4160))
		for range 20 {
			h.must(fiber.Carrier(false))
			time.Sleep(100 * time.Millisecond) // the length of the blink
			h.must(fiber.Carrier(true))
			time.Sleep(time.Duration(50+chance.IntN(450)) * time.Millisecond) // and of the pause
		}
		h.untilOutBy(pc, "fiber", time.Minute)
		h.until("there is nothing to mend", 5*time.Second, func() bool {
			_, err := h.tell("plan", "--exit-code", h.file)
			return err == nil
		})
		for _, wan := range []*lab.ISP{fiber, lte} {
			if n := h.workers("dhcp4", wan.Name); n != 1 {
				h.Errorf("%d DHCP clients for %s", n, wan.Name)
			}
			asked := 0
			for _, e := range wan.DHCPLog() {
				if e.Type.String() == "DISCOVER" {
					asked++
				}
			}
			if asked != 1 {
				h.Errorf("%s was asked for a new lease %d times", wan.Name, asked)
			}
		}

		ping, err := pc.Ping(addr("192.0.2.80"), 10*time.Millisecond)
		h.must(err)
		h.until("an echo is answered", 5*time.Second, func() bool { _, ok := ping.Answered(h.Context(), time.Time{}, time.Second); return ok })
		h.must(fiber.Dark(true))
		h.untilOutBy(pc, "lte", 5*time.Second)
		h.must(fiber.Dark(false))
		took := h.untilOutBy(pc, "fiber", time.Minute)
		gap := lab.Longest(ping.Stop())
		if gap.Len() > time.Second {
			h.Errorf("lte took over after %v, with %d echoes lost", gap.Len(), gap.Lost)
		}
		t.Logf("lte took over after %v, fiber came back after %v", gap.Len(), took)
		h.strays(fiber, lte)
	})
}

// workers counts the daemon's children of a kind.
func (h *house) workers(words ...string) (n int) {
	h.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	h.must(err)
	for _, p := range procs {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), "\x00worker\x00"+strings.Join(words, "\x00")+"\x00") {
			n++
		}
	}
	return n
}
