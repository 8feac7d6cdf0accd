package cases

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

// TestNoFlowOfAnOldAddress: a line is given other addresses, by a renewal or after a
// blink, while calls and connections go on by it, out and in. No entry of conntrack
// that has an old one is left, and none comes to be; calls go on, and connections are
// told.
func TestNoFlowOfAnOldAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		blink bool
		fast  string
	}{{"by a renewal", false, "off"}, {"after a blink", true, "off"}, {"by a renewal, carried", false, "auto"}} {
		t.Run(c.name, func(t *testing.T) {
			blink := c.blink
			in(t, func(h *house) {
				h.need("conntrack")
				f := fiberLine()
				f.Lease = 10 * time.Second
				fiber, lte := h.connect(f), h.connect(lteLine6())
				pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
				nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
				h.must(nas.ServeEcho([]uint16{80}, nil))
				h.start(h.withFast(both6In, c.fast))
				h.bothUp(pc)
				if w := h.status().WANs[0]; c.fast != "off" && w.FastPath != "tc" {
					h.needFast(w.FastPathWhy)
				}

				waiting, calls := h.talk(pc.Host, connections...), h.talk(pc.Host, lab.Datagrams)
				old4 := fiber.Current4()
				inbound, err := fiber.Inet.Open(h.Context(), lab.Sending, addr("1.1.1.1"), netip.AddrPortFrom(old4, 80), 2*time.Second)
				h.must(err)
				old6 := addr("::")
				for _, c := range waiting {
					if a := c.First.From.Addr(); a.Is6() && !a.Is4In6() {
						old6 = a
					}
				}
				entries := func(old netip.Addr) []string {
					return lines(h.sh(h.gw, "conntrack -L -f ipv4 2>/dev/null; conntrack -L -f ipv6 2>/dev/null"), "="+old.String()+" ")
				}
				if c.fast != "off" { // the connections that only wait send nothing
					h.until("what says something is carried", 20*time.Second, func() bool { es, _ := h.carried(); return len(es) >= 2*7 })
				}
				for _, old := range []netip.Addr{old4, old6} {
					if n := len(entries(old)); n < len(connections)+1 {
						h.Fatalf("%d entries have %s, which is the line's: there are more conversations", n, old)
					}
				}

				if blink {
					h.must(fiber.Carrier(false))
				}
				h.must(fiber.Renumber4(pfx("198.51.100.77/24"), addr("198.51.100.1")))
				h.must(fiber.Renumber6(pfx("2001:db8:7777::/64")))
				if blink {
					h.must(fiber.Carrier(true))
				}
				changed := time.Now()
				is := func(now func(netip.Addr) bool, to string) func() bool {
					return func() bool {
						g, a, _ := pc.Ask(h.Context(), "tcp", netip.Addr{}, at(to), time.Second)
						return a == lab.Answered && g.Host == "inet-fiber" && now(g.From.Addr().Unmap())
					}
				}
				h.until("IPv4 goes out from the new address", 30*time.Second, is(func(a netip.Addr) bool { return a == addr("198.51.100.77") }, web4))
				h.until("IPv6 goes out from a new address", 30*time.Second, is(pfx("2001:db8:7777::/64").Contains, web6))
				h.Logf("new addresses are used %v after the change", time.Since(changed))

				var left []string
				for _, old := range []netip.Addr{old4, old6} {
					h.until("no entry has "+old.String(), 2*time.Second, func() bool { return len(entries(old)) == 0 })
				}
				lab.Until(h.Context(), 2*time.Second, func() bool { // calls send each 20 ms
					left = append(entries(old4), entries(old6)...)
					return len(left) > 0
				})
				if len(left) > 0 {
					h.Errorf("entries have an old address again:\n%s", strings.Join(left, "\n"))
				}
				for _, c := range calls { // by whichever line: fiber may have been silent meanwhile
					now := time.Now()
					h.until(c.name+" goes on", 5*time.Second, func() bool {
						heard := c.Heard()
						return heard[len(heard)-1].At.After(now)
					})
				}
				for _, c := range waiting {
					if _, err, ended := c.Ended(h.Context(), 5*time.Second); !ended || !lab.Reset(err) {
						h.Errorf("%s: no reset (%v)", c.name, err)
					}
				}
				if _, ok := inbound.HeardFrom(h.Context(), "nas", time.Now(), 300*time.Millisecond); ok {
					h.Error("who came in by the old address is still answered")
				}
				h.strays(fiber, lte)
			})
		})
	}
}
