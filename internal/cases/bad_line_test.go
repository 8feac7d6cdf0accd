package cases

import (
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

const oneLine = `
gateway "gw" { domain = "local" }
wan "fiber" {
  interface = "eth1"
  ipv6 { method = "none" }
}
failover {
  hold_down = "2s"
  probe { target = ["1.1.1.1", "8.8.8.8"] }
}
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}
`

// A modem's buffer: it takes 1.2 s to drain.
var (
	fullUp   = lab.Shape{Rate: 2_000_000, Queue: 300_000}
	plenty   = lab.Shape{Rate: 20_000_000, Queue: 250_000}
	badFor   = 20 * time.Second
	lossy    = lab.Shape{Loss: 30}
	slow     = lab.Shape{Delay: 350 * time.Millisecond}
	slowToo  = lab.Shape{Delay: 200 * time.Millisecond}
	step     = 50 * time.Millisecond
	patience = 10 * time.Second
)

// TestBadLineIsKept (B05): uploads fill the buffer of the only line, and then it
// loses 30 % of all packets, each way. An idle connection, a download and a call
// go on as if nothing was, and weir says what is the matter.
func TestBadLineIsKept(t *testing.T) {
	in(t, func(h *house) {
		l := fiberLine()
		l.Shaped = true
		fiber := h.connect(l)
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(oneLine)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("fiber is up", 10*time.Second, func() bool { return h.verdict("fiber") == api.VerdictUp })

		flows := h.talkTo(pc.Host, []string{web4}, lab.Idle, lab.Receiving, lab.Datagrams)
		h.must(fiber.Shape(fullUp, plenty))
		began := time.Now()
		var ups []*lab.Bulk
		for range 8 {
			up, err := pc.Upload(h.Context(), lab.Web(false), 5*time.Second)
			h.must(err)
			ups = append(ups, up)
		}
		full := h.bad("fiber", badFor, func(l api.Line) bool {
			return l.LatencyMS != nil && *l.LatencyMS > 400 && strings.Contains(l.Why, "by the house's own traffic")
		})
		h.kept(flows, began)
		for _, up := range ups {
			up.Close()
		}
		if c, _ := fiber.Counts(); c.Full == 0 {
			h.Error("the buffer was never full")
		}

		h.must(fiber.Shape(lossy, lossy))
		began = time.Now()
		loss := h.bad("fiber", badFor, func(l api.Line) bool {
			return l.LossPct != nil && *l.LossPct > 20 && strings.Contains(l.Why, "are lost")
		})
		h.kept(flows, began)
		h.must(fiber.Shape(lab.Shape{}, lab.Shape{}))
		h.Logf("a full buffer was shown for what it is after %v, the loss after %v", full, loss)

		h.answered(flows)
		s := h.status()
		if s.WANs[0].Flows != nil {
			h.Errorf("weir says that flows left the line: %+v", s.WANs[0].Flows)
		}
		for _, line := range lines(h.log(), "line changed", "to=down") {
			h.Errorf("it was down: %s", line)
		}
		h.strays(fiber)
	})
}

// bad waits for as long as a line is to be bad, and wants weir to say so meanwhile
// at least once: degraded, in the words of says. It returns after how long it did.
func (h *house) bad(wan string, long time.Duration, says func(api.Line) bool) time.Duration {
	h.Helper()
	began, said, last := time.Now(), time.Duration(0), api.Line{}
	lab.Until(h.Context(), long, func() bool {
		if time.Since(began) >= long {
			return true
		}
		for _, w := range h.status().WANs {
			if w.Name == wan {
				last = w.IPv4
			}
		}
		if said == 0 && last.Verdict == api.VerdictDegraded && says(last) {
			said = time.Since(began)
		}
		time.Sleep(250 * time.Millisecond) // each look starts a process
		return false
	})
	if said == 0 {
		h.Errorf("in %v weir never told what %s suffers; it is %s: %s", long, wan, last.Verdict, last.Why)
	}
	return said
}

// kept holds that no conversation ended, and that all that was heard since came
// by fiber.
func (h *house) kept(flows []conversation, since time.Time) {
	h.Helper()
	for _, c := range flows {
		if _, err, ended := c.Ended(h.Context(), 0); ended {
			h.Errorf("%s: ended: %v", c.name, err)
		}
		for _, heard := range c.Heard() {
			if heard.At.After(since) && heard.Host != "inet-fiber" {
				h.Errorf("%s: heard by %s", c.name, heard.Host)
				break
			}
		}
	}
}

// answered holds that every conversation goes on by fiber: within what a TCP that
// was losing needs to repeat itself. Each wait is twice the one before (RFC 6298,
// 5.5), so the last to begin while the line lost is as long as it lost, and longer
// by a first one, of up to 3 s behind a full buffer.
func (h *house) answered(flows []conversation) {
	h.Helper()
	for _, c := range flows {
		now := time.Now()
		if c.Kind == lab.Idle {
			c.Poke()
		}
		if _, ok := c.HeardFrom(h.Context(), "inet-fiber", now, badFor+10*time.Second); !ok {
			h.Errorf("%s: it is not there any more", c.name)
		}
	}
}

// TestSlowLineAndAnother (B05, with a second WAN): the house's own uploads move
// nothing, however slow they make the line; a line that is slow by itself is left
// for one that is clearly quicker, and for no other.
func TestSlowLineAndAnother(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		fiber, back lab.Shape
		lte         lab.Shape
		uploads     int
		by          string
	}{
		{"full buffer", fullUp, plenty, lab.Shape{}, 8, "fiber"},
		{"slow, and the other quick", slow, slow, lab.Shape{}, 0, "lte"},
		{"slow, and the other hardly quicker", slow, slow, slowToo, 0, "fiber"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(h *house) {
				f, l := fiberLine(), lteLine()
				f.Shaped, l.Shaped = true, true
				fiber, lte := h.connect(f), h.connect(l)
				pc := h.join("pc", "", "172.31.0.50/24")
				h.start(base)
				h.untilOutBy(pc, "fiber", 20*time.Second)
				h.until("both lines are up", 20*time.Second, func() bool {
					return h.verdict("fiber") == api.VerdictUp && h.verdict("lte") == api.VerdictUp
				})
				h.must(lte.Shape(c.lte, c.lte))
				flows := h.talkTo(pc.Host, []string{web4}, lab.Idle)
				began := time.Now()
				for n := time.Duration(1); n <= c.fiber.Delay/step; n++ { // a leap is an outage as long as it is high
					h.must(fiber.Shape(lab.Shape{Delay: n * step}, lab.Shape{Delay: n * step}))
					time.Sleep(time.Second)
				}
				h.must(fiber.Shape(c.fiber, c.back))
				for range c.uploads {
					up, err := pc.Upload(h.Context(), lab.Web(false), 5*time.Second)
					h.must(err)
					defer up.Close()
				}
				h.until("fiber is degraded", 20*time.Second, func() bool { return h.verdict("fiber") == api.VerdictDegraded })
				if c.by == "lte" {
					h.untilOutBy(pc, "lte", 2*patience)
					text, err := h.tell("why", "172.31.0.50", web4)
					for _, want := range []string{"leaves by wan.lte as 203.0.113.10", "wan.lte is the one in use: fiber: answers take ", " under way by wan.fiber, as 198.51.100.10"} {
						if err != nil || !strings.Contains(text, want) {
							h.Errorf("weir why does not say %q: %v\n%s", want, err, text)
						}
					}
				} else {
					time.Sleep(patience + 5*time.Second) // nothing is to happen
					if by := h.status().IPv4.WAN; by != c.by {
						h.Errorf("new connections go by %s", by)
					}
				}
				h.kept(flows, began)
				h.answered(flows)
				h.strays(fiber, lte)
			})
		})
	}
}
