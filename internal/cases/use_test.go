package cases

import (
	"encoding/json"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
)

// TestTheAddressToPublish (B35's kind): whoever watches hears the address of the
// line in use within a moment of each change: failing over, failing back, and a
// person's choice of another line, which outlives the daemon.
func TestTheAddressToPublish(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("lte is up", 10*time.Second, func() bool { return h.verdict("lte") == api.VerdictUp })

		// heard are the addresses that a watcher would have published, in order.
		var mu sync.Mutex
		var heard []string
		watch := h.weir("status", "--json", "--watch")
		pipe, err := watch.StdoutPipe()
		h.must(err)
		h.must(h.gw.Start(watch))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for d := json.NewDecoder(pipe); ; {
				var s api.Status
				if d.Decode(&s) != nil {
					return
				}
				mu.Lock()
				if a := s.IPv4.Address; a != "" && (len(heard) == 0 || heard[len(heard)-1] != a) {
					heard = append(heard, a)
				}
				mu.Unlock()
			}
		}()
		last := func() string {
			mu.Lock()
			defer mu.Unlock()
			if len(heard) == 0 {
				return ""
			}
			return heard[len(heard)-1]
		}
		published := func(line, address string) {
			h.Helper()
			h.untilOutBy(pc, line, 15*time.Second)
			took := h.until("the address of "+line+" is heard", time.Second, func() bool { return last() == address })
			t.Logf("%s was heard %v after the house was out by %s", address, took, line)
		}
		const byFiber, byLTE = "198.51.100.10", "203.0.113.10"
		published("fiber", byFiber)
		h.must(fiber.Dark(true))
		published("lte", byLTE)
		h.must(fiber.Dark(false))
		published("fiber", byFiber)

		if out, err := h.tell("use", "lte"); err != nil || !strings.Contains(out, "IPv4 uses lte") {
			h.Errorf("weir use lte: %v\n%s", err, out)
		}
		published("lte", byLTE)
		mu.Lock()
		if got, want := strings.Join(heard, " "), strings.Join([]string{byFiber, byLTE, byFiber, byLTE}, " "); got != want {
			h.Errorf("heard %s, want %s", got, want)
		}
		mu.Unlock()
		h.end(syscall.SIGTERM)
		<-ended
		_ = watch.Wait() // the daemon's end is its own

		h.again()
		h.until("weir answers again", 10*time.Second, func() bool { _, err := h.tell("status"); return err == nil })
		if s := h.status(); s.Choice == nil || s.Choice.WAN != "lte" || s.IPv4.WAN != "lte" || s.IPv4.Address != byLTE {
			h.Errorf("after a restart the choice is %+v, and IPv4 %+v", s.Choice, s.IPv4)
		}
		// While the chosen line does not work the others serve.
		h.must(lte.Dark(true))
		h.untilOutBy(pc, "fiber", 15*time.Second)
		h.must(lte.Dark(false))
		h.untilOutBy(pc, "lte", 15*time.Second)
		if out, err := h.tell("use", "auto"); err != nil || !strings.Contains(out, "IPv4 uses ") {
			h.Errorf("weir use auto: %v\n%s", err, out)
		}
		h.untilOutBy(pc, "fiber", 15*time.Second)
		if s := h.status(); s.Choice != nil {
			h.Errorf("the choice is still %+v", s.Choice)
		}
		if out, err := h.tell("use", "dsl"); err == nil || !strings.Contains(out, `no WAN is called "dsl"; WANs here: fiber, lte`) {
			h.Errorf("weir use dsl: %v\n%s", err, out)
		}
		h.strays(fiber, lte)
	})
}
