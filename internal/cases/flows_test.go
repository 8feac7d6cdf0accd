package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

const both6In = both6 + `
forward "web" {
  port = 80
  to   = "172.31.0.23"
}
`

// conversation is a flow and how the case calls it.
type conversation struct {
	name string
	*lab.Flow
}

// talk opens a conversation of each kind, in each family, from a machine.
func (h *house) talk(from *lab.Host, kinds ...lab.FlowKind) []conversation {
	h.Helper()
	return h.talkTo(from, []string{web4, web6}, kinds...)
}

// talkTo opens a conversation of each kind with each of the servers at to.
func (h *house) talkTo(from *lab.Host, to []string, kinds ...lab.FlowKind) []conversation {
	h.Helper()
	var out []conversation
	for _, kind := range kinds {
		for _, to := range to {
			f, err := from.Open(h.Context(), kind, netip.Addr{}, at(to), 2*time.Second)
			h.must(err)
			h.Cleanup(func() { f.Close() })
			who := from.Name
			if who == "" {
				who = "gateway"
			}
			out = append(out, conversation{fmt.Sprintf("%s, %s to %s", who, kind, to), f})
		}
	}
	return out
}

var connections = []lab.FlowKind{lab.Idle, lab.Sending, lab.Receiving}

// bothUp waits until both lines work in both families and the first is used.
func (h *house) bothUp(pc *lab.Client) {
	h.Helper()
	h.untilOutBy(pc, "fiber", 20*time.Second)
	h.until("IPv6 goes out by fiber", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })
	h.until("both lines are up", 20*time.Second, func() bool {
		for _, w := range h.status().WANs {
			if w.IPv4.Verdict != api.VerdictUp || w.IPv6.Verdict != api.VerdictUp {
				return false
			}
		}
		return true
	})
}

// lteLine6 is lteLine with IPv6.
func lteLine6() lab.Line {
	l := lteLine()
	l.Prefix6, l.Router6 = pfx("2001:db8:2::/64"), addr("fe80::2")
	return l
}

// flowsOf is what weir says of the flows that left a line.
func (h *house) flowsOf(wan string) api.Flows {
	h.Helper()
	for _, w := range h.status().WANs {
		if w.Name == wan && w.Flows != nil {
			return *w.Flows
		}
	}
	return api.Flows{}
}

// TestFlowsOfALostLine (B07): a blink of half a second costs no connection. A line
// that stays away moves calls at once, and lets its connections go after two
// seconds: each is told by a reset, also one that only waits, and the machine's own.
// Nothing else loses a packet.
func TestFlowsOfALostLine(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine6())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
		h.must(nas.ServeEcho([]uint16{80}, nil))
		h.start(both6In)
		h.bothUp(pc)

		// What has nothing to do with fiber: LAN to LAN passes no router here, so
		// LAN to router; the router to a LAN; and an inbound connection by lte.
		var bystanders []*lab.Ping
		for _, p := range []struct {
			from *lab.Host
			to   string
		}{{pc.Host, "172.31.0.1"}, {pc.Host, "fd00::1"}, {h.gw, "172.31.0.23"}} {
			ping, err := p.from.Ping(addr(p.to), 10*time.Millisecond)
			h.must(err)
			bystanders = append(bystanders, ping)
		}
		inbound, err := lte.Inet.Open(h.Context(), lab.Sending, addr("1.1.1.1"), netip.AddrPortFrom(lte.Customer4[0].Addr(), 80), 2*time.Second)
		h.must(err)
		begin := time.Now()

		waiting := append(h.talk(pc.Host, connections...), h.talk(h.gw, connections...)...)
		calls := h.talk(pc.Host, lab.Datagrams)
		h.must(fiber.Carrier(false))
		time.Sleep(500 * time.Millisecond) // the length of the blink
		h.must(fiber.Carrier(true))
		h.until("fiber is used again", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web4) == "inet-fiber" })
		h.until("in IPv6 too", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })
		for _, c := range waiting {
			if at, err, ended := c.Ended(h.Context(), 0); ended {
				h.Errorf("a blink ended the connection of %s: %v, after %v", c.name, err, at.Sub(begin))
			}
		}
		for _, c := range waiting {
			if c.Kind == lab.Receiving {
				h.until(c.name+" goes on", 5*time.Second, func() bool { l := c.Heard(); return len(l) > 0 && time.Since(l[len(l)-1].At) < 100*time.Millisecond })
			}
		}
		for _, c := range calls {
			if _, ok := c.HeardFrom(h.Context(), "inet-lte", time.Now(), time.Second); !ok {
				h.Errorf("%s: it was moved to lte, and is not there any more", c.name)
			}
			c.Close()
		}

		up := h.upload(pc.Host, "192.0.2.80:9443", fiber.Inet)
		calls = h.talk(pc.Host, lab.Datagrams)
		h.must(fiber.Dark(true))
		cut := time.Now()
		for _, c := range calls {
			at, ok := c.HeardFrom(h.Context(), "inet-lte", cut, 3*time.Second)
			if took := at.Sub(cut); !ok || took > 1500*time.Millisecond {
				h.Errorf("%s: by lte %v after the cut (%v)", c.name, took, ok)
			}
		}
		for _, c := range waiting {
			at, err, ended := c.Ended(h.Context(), time.Until(cut.Add(5*time.Second)))
			took := at.Sub(cut)
			switch {
			case !ended || !lab.Reset(err):
				h.Errorf("%s: no reset (%v)", c.name, err)
			case took < 2*time.Second || took > 3500*time.Millisecond:
				h.Errorf("%s: reset %v after the cut", c.name, took)
			default:
				h.Logf("%s: reset %v after the cut", c.name, took)
			}
		}
		if took, err := up(); err == nil || !lab.Reset(err) {
			h.Errorf("an upload ended %v: %v", took.Sub(cut), err)
		} else {
			h.Logf("an upload was reset %v after the cut", took.Sub(cut))
		}
		// Each family's are told when they have been prodded.
		h.until("weir says so", 5*time.Second, func() bool { f := h.flowsOf("fiber"); return f.Prodded >= len(waiting) })
		f := h.flowsOf("fiber")
		h.Logf("%+v", f)
		if f.Prodded < len(waiting) || f.Reset < len(waiting)/2 || f.Moved < len(calls) {
			h.Errorf("%d connections and %d calls, and weir says %+v", len(waiting), len(calls), f)
		}

		h.must(fiber.Dark(false))
		h.until("fiber is used again", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web4) == "inet-fiber" })
		for _, c := range calls {
			if _, ok := c.HeardFrom(h.Context(), "inet-lte", time.Now(), time.Second); !ok {
				h.Errorf("%s: it was moved to lte, and is not there any more", c.name)
			}
		}
		for _, p := range bystanders {
			if gaps := lab.Gaps(p.Stop()); len(gaps) > 0 {
				h.Errorf("a bystander lost packets: %v", gaps)
			}
		}
		if at, err, ended := inbound.Ended(h.Context(), 0); ended {
			h.Errorf("an inbound connection by lte ended at %v: %v", at, err)
		}
		h.strays(fiber, lte)
	})
}

// upload sends without a pause to a sink on another machine, and returns what
// waits for its end.
func (h *house) upload(from *lab.Host, to string, on *lab.Host) func() (time.Time, error) {
	h.Helper()
	h.sink(on, int(at(to).Port()))
	c, err := from.Dial(h.Context(), "tcp", netip.Addr{}, at(to), 2*time.Second)
	h.must(err)
	var ended time.Time
	var end error
	var wg sync.WaitGroup
	wg.Go(func() {
		end = upload(c, nil, new(atomic.Int64))
		ended = time.Now()
	})
	return func() (time.Time, error) {
		wg.Wait()
		return ended, end
	}
}

// TestKilledInTheGrace: a daemon that is killed while connections wait for a lost
// line leaves them waiting; the next one ends it.
func TestKilledInTheGrace(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine6())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(both6)
		h.bothUp(pc)
		waiting := h.talk(pc.Host, lab.Idle, lab.Receiving)
		h.must(fiber.Carrier(false))
		h.until("the grace runs", time.Second, func() bool {
			return len(lines(h.sh(h.gw, "ip rule; ip -6 rule"), "ipproto tcp")) == 2
		})
		h.must(h.run.Process.Kill())
		<-h.left
		h.again()
		for _, c := range waiting {
			if _, err, ended := c.Ended(h.Context(), 10*time.Second); !ended || !lab.Reset(err) {
				h.Errorf("%s: no reset (%v)", c.name, err)
			}
		}
		h.until("no grace runs", 5*time.Second, func() bool {
			return len(lines(h.sh(h.gw, "ip rule; ip -6 rule"), "ipproto tcp")) == 0
		})
		h.strays(fiber, lte)
	})
}

// TestFlowsOnReturn: when the preferred line is back, what went by the other one
// stays there, or moves if the owner wants that: calls at once, connections by a
// reset.
func TestFlowsOnReturn(t *testing.T) {
	t.Parallel()
	for _, move := range []bool{false, true} {
		t.Run(fmt.Sprint("move ", move), func(t *testing.T) {
			in(t, func(h *house) {
				fiber, lte := h.connect(fiberLine()), h.connect(lteLine6())
				pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
				nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
				h.must(nas.ServeEcho([]uint16{80}, nil))
				text := both6In
				if move {
					text = strings.Replace(text, `wan "lte" { interface = "eth2" }`, "wan \"lte\" {\n  interface = \"eth2\"\n  on_return = \"move\"\n}", 1)
				}
				h.start(text)
				h.bothUp(pc)
				h.must(fiber.Dark(true))
				h.untilOutBy(pc, "lte", 5*time.Second)
				h.until("IPv6 goes out by lte", 5*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-lte" })
				waiting, calls := h.talk(pc.Host, connections...), h.talk(pc.Host, lab.Datagrams)
				inbound, err := lte.Inet.Open(h.Context(), lab.Sending, addr("1.1.1.1"), netip.AddrPortFrom(lte.Customer4[0].Addr(), 80), 2*time.Second)
				h.must(err)
				h.must(fiber.Dark(false))
				h.untilOutBy(pc, "fiber", 20*time.Second)
				h.until("IPv6 goes out by fiber", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })
				back := time.Now()
				by := map[bool]string{false: "inet-lte", true: "inet-fiber"}[move]
				for _, c := range calls {
					if _, ok := c.HeardFrom(h.Context(), by, back, time.Second); !ok {
						h.Errorf("%s: not heard by %s", c.name, by)
					}
				}
				for _, c := range waiting {
					_, err, ended := c.Ended(h.Context(), 300*time.Millisecond)
					if ended != move || ended && !lab.Reset(err) {
						h.Errorf("%s: ended %v (%v)", c.name, ended, err)
					}
				}
				if _, err, ended := inbound.Ended(h.Context(), 0); ended {
					h.Errorf("who came in by lte was cut: %v", err)
				}
				h.strays(fiber, lte)
			})
		})
	}
}
