package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/api"
	"weir/internal/lab"
)

// TestBothISPsGiveTheSame (B10): the same network, gateway and even address from
// two ISPs. Both are up and judged apart, forwards answer by the line they came
// in on, each resolver is asked over its own line, and the status tells them apart.
func TestBothISPsGiveTheSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, first, second, router string }{
		{"behind one carrier's NAT", "100.64.12.34/10", "100.64.12.34/10", "100.64.0.1"},
		{"two modems", "192.168.1.23/24", "192.168.1.24/24", "192.168.1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(h *house) {
				f, l := fiberLine(), lteLine()
				f.Customer4, l.Customer4 = []netip.Prefix{pfx(c.first)}, []netip.Prefix{pfx(c.second)}
				f.Router4, l.Router4 = addr(c.router), addr(c.router)
				fiber, lte := h.connect(f), h.connect(l)
				pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
				nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
				h.must(nas.ServeEcho([]uint16{80}, nil))
				h.start(base)
				h.untilOutBy(pc, "fiber", 20*time.Second)
				h.until("lte is up", 10*time.Second, func() bool { return h.verdict("lte") == api.VerdictUp })

				forward := func(i *lab.ISP) {
					h.Helper()
					to := netip.AddrPortFrom(i.Customer4[0].Addr(), 80)
					g, a, err := i.Inet.Ask(h.Context(), "tcp", netip.Addr{}, to, time.Second)
					if a != lab.Answered || g.Host != "nas" {
						h.Errorf("the forward by %s: %s from %q, %v", i.Name, a, g.Host, err)
					}
				}
				forward(fiber)
				forward(lte)
				asked := func(line string) {
					h.Helper()
					h.until("names are asked over "+line, 5*time.Second, func() bool {
						m, err := pc.Resolve(h.Context(), addr("172.31.0.1"), "whoami.example", dns.TypeTXT, time.Second)
						return err == nil && len(m.Answer) == 1 && m.Answer[0].(*dns.TXT).Txt[0] == line
					})
				}
				asked("fiber")
				seen := map[string]bool{}
				for _, w := range h.status().WANs {
					seen[fmt.Sprint(w.Name, w.Namespace, w.Cable, w.Mark, w.Link)] = true
					if len(w.IPv4.Addresses) != 1 || !strings.HasPrefix(w.IPv4.Addresses[0], strings.Split(c.first, ".")[0]) {
						h.Errorf("%s has %q", w.Name, w.IPv4.Addresses)
					}
				}
				if len(seen) != 2 {
					h.Errorf("the status does not tell the lines apart: %v", seen)
				}

				// The idle flows of fiber's end with it, those of lte stay.
				h.must(fiber.Dark(true))
				begin := time.Now()
				h.untilOutBy(pc, "lte", 5*time.Second)
				t.Logf("lte took over after %v", time.Since(begin))
				asked("lte")
				forward(lte)
				h.must(fiber.Dark(false))
				h.untilOutBy(pc, "fiber", 20*time.Second)
				asked("fiber")
				forward(fiber)
				forward(lte)
				h.strays(fiber, lte)
			})
		})
	}
}

// TestTheLinesNetworkIsTheLANs (B11): the house's own network, or one around it,
// at the ISP's end. Inside and outside are reached, forwards too, also from a
// peer outside whose address is in the LAN's range; the overlap is noted.
func TestTheLinesNetworkIsTheLANs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, lan, customer, router, nas, peer string }{
		{"192.168.1.1 behind 192.168.1.1", "192.168.1.1/24", "192.168.1.77/24", "192.168.1.1", "192.168.1.23", "192.168.1.99"},
		{"our address there is a host's here", "192.168.1.1/24", "192.168.1.23/24", "192.168.1.1", "192.168.1.23", "192.168.1.99"},
		{"10.8.6.0/24 in 10.0.0.0/8", "10.8.6.1/24", "10.200.3.4/8", "10.0.0.1", "10.8.6.23", "10.8.6.99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(h *house) {
				l := fiberLine()
				l.Customer4, l.Router4 = []netip.Prefix{pfx(c.customer)}, addr(c.router)
				l.Prefix6, l.Router6 = netip.Prefix{}, netip.Addr{}
				fiber := h.connect(l)
				lan := pfx(c.lan)
				own := netip.PrefixFrom(addr(c.nas).Next(), lan.Bits())
				pc := h.join("pc", "")
				h.must(pc.Static(own, lan.Addr()))
				nas := h.join("nas", "02:00:00:00:00:23")
				h.must(nas.Static(netip.PrefixFrom(addr(c.nas), lan.Bits()), lan.Addr()))
				h.must(nas.ServeEcho([]uint16{80}, nil))
				h.start(strings.NewReplacer("LAN", c.lan, "NAS", c.nas).Replace(`
wan "fiber" { interface = "eth1" }
failover {
  probe { target = ["1.1.1.1", "8.8.8.8"] }
}
lan "home" {
  interface = "eth0"
  address   = "LAN"
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = "NAS"
  }
}
forward "web" {
  port = 80
  to   = host.nas
}
`))
				h.untilOutBy(pc, "fiber", 20*time.Second)
				nasWeb := netip.AddrPortFrom(addr(c.nas), 80)
				if g, a, err := pc.Ask(h.Context(), "tcp", netip.Addr{}, nasWeb, time.Second); a != lab.Answered || g.Host != "nas" {
					h.Errorf("the nas from inside: %s, %v", a, err)
				}
				public := netip.AddrPortFrom(pfx(c.customer).Addr(), 80)
				// The peer is a neighbour: another customer on the ISP's link.
				h.must(fiber.Router.AddAddr("cust0", netip.PrefixFrom(addr(c.peer), 32)))
				for _, from := range []struct {
					host *lab.Host
					addr netip.Addr
				}{{fiber.Inet, lab.Web(false)}, {fiber.Router, addr(c.peer)}} {
					g, a, err := from.host.Ask(h.Context(), "tcp", from.addr, public, time.Second)
					if a != lab.Answered || g.Host != "nas" {
						h.Errorf("the forward, asked from %s: %s, %v", from.addr, a, err)
					}
				}
				if !lan.Contains(public.Addr()) { // else it is a neighbour's to the house
					if g, a, err := pc.Ask(h.Context(), "tcp", netip.Addr{}, public, time.Second); a != lab.Answered || g.Host != "nas" {
						h.Errorf("the forward by hairpin: %s, %v", a, err)
					}
				}
				for _, args := range [][]string{{"plan", h.file}, {"status"}} {
					out, err := h.tell(args...)
					h.must(err)
					if len(lines(out, "note: ", "fiber", "home", lan.Masked().String())) != 1 {
						h.Errorf("weir %s does not note the overlap:\n%s", args[0], out)
					}
				}
				h.strays(fiber)
			})
		})
	}
}
