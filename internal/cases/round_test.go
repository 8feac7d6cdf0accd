package cases

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/lab"
)

// roads counts, on the links between an ISP and the house, how often a packet to
// each UDP port came by, and errors.
type roads struct {
	mu     sync.Mutex
	ports  map[string]map[uint16]int
	errors map[string]int
}

// watch counts what comes in by a machine's link.
func (r *roads) watch(name string, w *lab.Wire) {
	r.ports[name] = map[uint16]int{}
	w.Watch(func(f lab.Frame) {
		r.mu.Lock()
		defer r.mu.Unlock()
		v4 := f.Proto == unix.IPPROTO_ICMP && (f.ICMP == 3 || f.ICMP == 5 || f.ICMP == 11 || f.ICMP == 12)
		v6 := f.Proto == unix.IPPROTO_ICMPV6 && f.ICMP > 0 && f.ICMP < 128
		switch {
		case f.Proto == unix.IPPROTO_UDP:
			r.ports[name][f.DPort]++
		case v4 || v6:
			r.errors[name]++
		}
	})
}

// most is how often the packets to a port came by the link that had most of them.
func (r *roads) most(port uint16) (n int, link string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l, ports := range r.ports {
		if ports[port] > n {
			n, link = ports[port], l
		}
	}
	return n, link
}

// TestNothingGoesRound: a packet for an address that nobody has, or that an ISP
// should never have sent us, passes each link once in a direction and is gone. Where
// a gateway hands it back to whom it came from, it goes to and fro until its hop
// limit is used up, and whoever sends many takes the line and a processor.
func TestNothingGoesRound(t *testing.T) {
	in(t, func(h *house) {
		fiber := h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		wan6, err := fiber.Seen6(h.Context(), 20*time.Second)
		h.must(err)
		card, err := h.Attach("wan-fiber")
		h.must(err)

		r := &roads{ports: map[string]map[uint16]int{}, errors: map[string]int{}}
		for _, l := range []struct {
			m   *lab.Host
			dev string
		}{{h.gw, "fiber"}, {card, "lan"}, {card, "eth1"}, {fiber.Router, "cust0"}, {fiber.Router, "up0"}, {pc.Host, "e0"}} {
			w, err := l.m.Listen(l.dev)
			h.must(err)
			r.watch(l.m.String()+" "+l.dev, w)
		}
		// An ISP whose routes are wrong sends us other people's packets, our own
		// inner networks, and what it would get back from us by default; and it takes
		// everything from us.
		for _, dev := range []string{"all", "cust0"} {
			h.must(fiber.Router.Sysctl("net/ipv4/conf/"+dev+"/rp_filter", "0"))
		}
		for _, p := range []string{"172.31.0.0/24", "203.0.113.0/24", "8.8.8.0/24", "100.64.0.0/10", "10.0.0.0/8",
			"fd00::/64", "fd77::/16", "2606:4700::/32", "2001:db8:9::/48"} {
			via, up := addr("198.51.100.10"), "169.254.77.1"
			if pfx(p).Addr().Is6() {
				via, up = wan6, "fe80::1"
			}
			h.must(fiber.Router.Route(pfx(p), via, "cust0"))
			h.sh(fiber.Inet, "ip route add table local "+p+" via "+up+" dev eth0 onlink")
		}

		inside := []string{
			"198.51.100.10", "198.51.100.99", "198.51.100.255", "198.51.100.1", wan6.String(), "2001:db8:1::dead",
			"172.31.0.1", "172.31.0.222", "172.31.0.255", "fd00::1", "fd00::222", "fd77::1",
			"10.99.9.9", "100.64.9.9", "192.168.9.9", "255.255.255.255", "239.1.2.3", "240.0.0.1", "0.0.0.0",
			"203.0.113.10", "8.8.8.8", "2606:4700:4700::1111", "2001:db8:9::9",
		}
		// The cable's own addresses, and their neighbours.
		for _, m := range []struct {
			h   *lab.Host
			dev string
		}{{h.gw, "fiber"}, {card, "lan"}} {
			list, err := m.h.Addrs(m.dev, false)
			h.must(err)
			for _, p := range list {
				inside = append(inside, p.Addr().String(), p.Addr().Next().String(), p.Addr().Prev().String())
			}
		}
		port := uint16(20000)
		tries := map[uint16]string{}
		send := func(m *lab.Host, to string) uint16 {
			port++
			tries[port] = fmt.Sprintf("from %s to %s", m, to)
			h.must(m.Do(func() error {
				c, err := net.ListenUDP("udp", nil)
				if err != nil {
					return err
				}
				defer c.Close()
				// That there is no way is an answer too.
				_, _ = c.WriteToUDPAddrPort([]byte("round?"), netip.AddrPortFrom(addr(to), port))
				return nil
			}))
			return port
		}
		settled := func() {
			// An ordinary packet, sent after all others, has arrived: what goes round is
			// under way by then, some fifty times a millisecond.
			last := send(pc.Host, "192.0.2.80")
			h.until("an ordinary packet reaches the ISP", 5*time.Second, func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.ports["isp-fiber cust0"][last] == 1
			})
			time.Sleep(300 * time.Millisecond) // what must not come can only be waited for
		}
		for _, m := range []*lab.Host{pc.Host, h.gw, card, fiber.Router, fiber.Inet} {
			for _, to := range inside {
				send(m, to)
			}
		}
		settled()
		for p, what := range tries {
			if n, link := r.most(p); n > 1 {
				t.Errorf("%s: %d times by %s", what, n, link)
			}
		}
		for link, n := range r.errors {
			if n > 2*len(tries) {
				t.Errorf("%d errors by %s, for %d packets", n, link, len(tries))
			}
		}

		// What this is to find is found: without the line card's rules, and with
		// nobody there to mend them, it hands the ISP's stray packets back.
		h.end(syscall.SIGKILL)
		h.sh(card, "nft flush ruleset")
		for _, to := range []string{"8.8.8.9", "2606:4700::9"} {
			p := send(fiber.Inet, to)
			h.until("a packet to "+to+" is seen to go round", 5*time.Second, func() bool { n, _ := r.most(p); return n > 20 })
		}
	})
}
