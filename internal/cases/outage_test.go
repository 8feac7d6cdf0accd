package cases

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/lab"
)

// TestFirstNameAfterAnOutage: all lines are dead for 75 s, a house that keeps asking
// for names has every server of the world in disgrace with its resolver; when a line
// is back, the first new name is there within a second. With both engines.
func TestFirstNameAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"bind", "forward"} {
		t.Run(engine, func(t *testing.T) {
			in(t, func(h *house) {
				var fiber, lte *lab.ISP
				var pc *lab.Client
				zone := "lines.example"
				if engine == "bind" {
					fiber, lte, pc, _ = h.fromTheRoot()
				} else {
					h.need("nft")
					fiber, lte = h.connect(fiberLine()), h.connect(lteLine())
					pc = h.join("pc", "", "172.31.0.50/24")
					zone = "whoami.example"
					h.start(base)
					h.untilOutBy(pc, "fiber", 20*time.Second)
				}
				n := 0
				ask := func() bool {
					n++
					m, err := pc.Resolve(h.Context(), addr("172.31.0.1"), fmt.Sprintf("n%d.%s", n, zone), dns.TypeTXT, 5*time.Second)
					return err == nil && m.Rcode == dns.RcodeSuccess && len(m.Answer) > 0
				}
				h.until("names", 20*time.Second, ask)
				lasts := 6 * time.Second
				if inFull() || os.Getenv("WEIR_BENCH") != "" {
					lasts = 75 * time.Second
				}
				h.must(fiber.Dark(true))
				h.must(lte.Dark(true))
				names := h.askOn(func(i int) string { // five a second, answered or not
					_, _ = pc.Resolve(h.Context(), addr("172.31.0.1"), fmt.Sprintf("o%d.%s", i, zone), dns.TypeTXT, 5*time.Second)
					return ""
				})
				time.Sleep(lasts) // the outage's length
				names.stop()
				back := time.Now()
				h.must(fiber.Dark(false))
				h.until("the line is back", 20*time.Second, func() bool {
					return h.outBy(pc.Host, "tcp", web4) == "inet-fiber"
				})
				line, begin := time.Since(back), time.Now()
				ok := ask()
				took := time.Since(begin)
				t.Logf("%s: after an outage of %v packets pass again after %v, and the first name took %v", engine, lasts, line.Round(time.Millisecond), took.Round(time.Millisecond))
				if !ok || took > time.Second {
					h.Errorf("the first name after the outage: answered %t, after %v, within 1 s", ok, took)
				}
				h.strays(fiber, lte)
			})
		})
	}
}
