package cases

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

// TestStandbyIsLost (B07): the line in reserve is lost and comes back. What was
// pinned to it ends or moves: its connections are reset, its calls go on by the
// other line. Conversations with the router, between two networks of the house and
// by the line in use lose not one packet; an inbound connection by the lost line
// waits for it.
func TestStandbyIsLost(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
		h.must(nas.ServeEcho([]uint16{80}, nil))
		guests, err := h.Switch("guest")
		h.must(err)
		h.must(guests.Plug(lab.Plug{Host: h.gw, Dev: "eth3"}))
		guest, err := h.Join(guests, "guest", "")
		h.must(err)
		h.must(guest.Static(pfx("10.0.20.50/24"), addr("10.0.20.1")))
		h.must(guest.ServeEcho([]uint16{80}, []uint16{80}))
		h.must(h.gw.ServeEcho([]uint16{2222}, nil))
		h.start(withGuests + "\nallow \"door\" {\n  from = lan.home\n  to   = self\n  port = 2222\n}\n")
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("both lines are up", 20*time.Second, func() bool {
			return h.verdict("fiber") == api.VerdictUp && h.verdict("lte") == api.VerdictUp
		})

		_, err = h.tell("use", "lte")
		h.must(err)
		h.untilOutBy(pc, "lte", 5*time.Second)
		pinned := h.talkTo(pc.Host, []string{web4}, connections...)
		calls := h.talkTo(pc.Host, []string{web4}, lab.Datagrams)
		_, err = h.tell("use", "auto")
		h.must(err)
		h.untilOutBy(pc, "fiber", 5*time.Second)
		inbound, err := lte.Inet.Open(h.Context(), lab.Sending, addr("1.1.1.1"), netip.AddrPortFrom(lte.Customer4[0].Addr(), 80), 2*time.Second)
		h.must(err)

		// The bystanders: to the router, across the LANs, by the line in use.
		var pings []*lab.Ping
		for _, to := range []string{"172.31.0.1", "fd00::1", "10.0.20.50", "192.0.2.80"} {
			p, err := pc.Ping(addr(to), 10*time.Millisecond)
			h.must(err)
			pings = append(pings, p)
		}
		others := h.talkTo(pc.Host, []string{"172.31.0.1:2222", "10.0.20.50:80", web4}, connections...)
		others = append(others, h.talkTo(pc.Host, []string{"10.0.20.50:80", web4}, lab.Datagrams)...)

		h.must(lte.Carrier(false))
		cut := time.Now()
		for _, c := range pinned {
			if at, err, ended := c.Ended(h.Context(), time.Until(cut.Add(6*time.Second))); !ended || !lab.Reset(err) {
				h.Errorf("%s, by lte: no reset (%v)", c.name, err)
			} else {
				h.Logf("%s, by lte: reset %v after the cut", c.name, at.Sub(cut))
			}
		}
		for _, c := range calls {
			if at, ok := c.HeardFrom(h.Context(), "inet-fiber", cut, 3*time.Second); !ok || at.Sub(cut) > 1500*time.Millisecond {
				h.Errorf("%s: by fiber %v after the cut (%v)", c.name, at.Sub(cut), ok)
			}
		}
		h.must(lte.Carrier(true))
		h.until("lte is up again", 30*time.Second, func() bool { return h.verdict("lte") == api.VerdictUp })

		for i, p := range pings {
			if gaps := lab.Gaps(p.Stop()); len(gaps) > 0 {
				h.Errorf("bystander %d lost packets: %v", i, gaps)
			}
		}
		for _, c := range others {
			if _, err, ended := c.Ended(h.Context(), 0); ended {
				h.Errorf("%s has nothing to do with lte, and ended: %v", c.name, err)
				continue
			}
			if c.Kind == lab.Idle {
				c.Poke()
			}
			if len(c.Heard()) > 0 {
				if by := c.Heard()[len(c.Heard())-1].Host; by == "inet-lte" {
					h.Errorf("%s goes by lte", c.name)
				}
			}
			if quiet := c.Silence(cut); c.Kind != lab.Idle && quiet > time.Second {
				h.Errorf("%s was silent for %v", c.name, quiet)
			}
		}
		back := time.Now()
		if _, ok := inbound.HeardFrom(h.Context(), "nas", back, 30*time.Second); !ok {
			_, err, ended := inbound.Ended(h.Context(), 0)
			h.Errorf("the inbound connection by lte does not go on: %s", fmt.Sprint(ended, " ", err))
		}
		h.strays(fiber, lte)
	})
}
