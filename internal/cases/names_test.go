package cases

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/miekg/dns"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"weir/internal/lab"
)

// TestNamesGoOnWhenALineDies (B32): clients ask for one new name after the other
// while the line in use falls silent, its resolver with it. The longest time
// without an answer is failover's and a second; and nobody asks by a line that is
// dead.
func TestNamesGoOnWhenALineDies(t *testing.T) { namesGoOn(t, false) }

// TestNamesGoOnWhenAResolverDies (B32): the same, but the resolver falls silent
// before its line does. The other line's is asked instead, all else stays where it
// is, and that the line's DNS is broken is shown.
func TestNamesGoOnWhenAResolverDies(t *testing.T) { namesGoOn(t, true) }

func namesGoOn(t *testing.T, resolverFirst bool) {
	in(t, func(h *house) {
		h.need("nft")
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		asks := func(server string) func(n int) string {
			return func(n int) string {
				m, err := pc.Resolve(h.Context(), addr(server), fmt.Sprintf("n%d.%s.whoami.example", n, strings.ReplaceAll(server, ":", "-")), dns.TypeTXT, 3*time.Second)
				if err != nil || len(m.Answer) != 1 {
					return ""
				}
				return m.Answer[0].(*dns.TXT).Txt[0]
			}
		}
		h.until("names are asked over fiber", 10*time.Second, func() bool { return asks("172.31.0.1")(0) == "fiber" })

		names := h.askOn(asks("172.31.0.1"))
		ping, err := pc.Ping(addr("9.9.9.9"), 20*time.Millisecond)
		h.must(err)
		h.until("some answers by fiber", 5*time.Second, func() bool { return names.by("fiber") > 3 })
		h.sh(fiber.Router, "nft add table inet t; nft 'add chain inet t in { type filter hook input priority 0; }'; nft add rule inet t in iifname cust0 th dport 53 drop")
		if resolverFirst {
			h.until("answers by lte's resolver", 10*time.Second, func() bool { return names.by("lte") > 10 })
			if got := h.outBy(pc.Host, "tcp", web4); got != "inet-fiber" {
				h.Errorf("all goes out by %s because of a silent resolver", got)
			}
			h.until("fiber's DNS is shown to be broken", 5*time.Second, func() bool { return h.dnsError("fiber") != "" })
			if e := h.dnsError("lte"); e != "" {
				h.Errorf("lte's DNS is said to be broken: %s", e)
			}
			// IPv6 that comes up only now has the resolvers judged anew.
			h.until("weir status shows it", 5*time.Second, func() bool {
				out, err := h.tell("status")
				return err == nil && strings.Contains(out, "fiber IPv4: DNS broken")
			})
		}
		h.must(fiber.Dark(true))
		h.untilOutBy(pc, "lte", 5*time.Second)
		n := names.by("lte")
		h.until("an answer by lte", 10*time.Second, func() bool { return names.by("lte") > n })
		var late atomic.Int64 // questions by the dead line
		defer fiber.Wire.Watch(func(f lab.Frame) {
			if f.DPort == 53 && (f.Proto == unix.IPPROTO_UDP || f.Proto == unix.IPPROTO_TCP) {
				late.Add(1)
			}
		})()
		h.until("more answers by lte", 10*time.Second, func() bool { return names.by("lte") > n+10 })
		if n := late.Load(); n > 0 {
			h.Errorf("%d questions went to the dead line's resolver", n)
		}
		names.heldUp(lab.Longest(ping.Stop()).Len())
		h.strays(fiber, lte)
	})
}

// dnsError is what the status says of the resolvers of a line's IPv4.
func (h *house) dnsError(wan string) string {
	for _, w := range h.status().WANs {
		if w.Name == wan {
			return w.IPv4.DNSError
		}
	}
	return "there is no " + wan
}

// TestNoIPv6NoRouter (B20): when no line carries IPv6 any more the LAN hears
// within a second that the gateway is no router, and that the prefix and the
// resolver stay; and it hears nothing of the kind on harmless occasions.
func TestNoIPv6NoRouter(t *testing.T) {
	in(t, func(h *house) {
		f := fiberLine()
		fiber, lte := h.connect(f), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		heard := h.advertisements(pc)
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		_, _, ok := pc.Autoconfigured(h.Context(), 20*time.Second)
		if !ok {
			t.Fatal("no IPv6 on the LAN")
		}
		h.until("IPv6 goes out", 10*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })
		h.until("the router is told of", 5*time.Second, func() bool { return heard.last().lifetime > 0 })

		gone := func(since time.Time) {
			h.Helper()
			h.until("the router is taken back", 4*time.Second, func() bool { return heard.last().lifetime == 0 })
			l := heard.last()
			if !l.prefix || !l.resolver {
				h.Errorf("the prefix (%t) or the resolver (%t) went with the router", l.prefix, l.resolver)
			}
			t.Logf("taken back %v after the line went", l.at.Sub(since))
			if took := l.at.Sub(since); took > 2*time.Second { // a quiet outage: 1 s to find it, 1 s to tell
				h.Errorf("taken back %v after the line went", took)
			}
		}
		back := func() {
			h.Helper()
			h.until("the router is told of again", 20*time.Second, func() bool { return heard.last().lifetime > 0 })
		}
		since := time.Now()
		h.must(fiber.Dark(true))
		gone(since)
		h.must(fiber.Dark(false))
		back()
		since = time.Now()
		h.must(fiber.Carrier(false))
		gone(since)
		h.must(fiber.Carrier(true))
		back()

		// Harmless: an unrelated change, a restart, a kill.
		h.until("IPv6 goes out", 10*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })
		heard.zeros()
		n := heard.count()
		h.must(os.WriteFile(h.dir+"/other.hcl", []byte(strings.Replace(base, "[80, 443]", "80", 1)), 0o644))
		if out, err := h.tell("apply", "--yes", h.dir+"/other.hcl"); err != nil {
			h.Error(err, out)
		}
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			h.end(s)
			h.again()
			h.until("it advertises again", 10*time.Second, func() bool { return heard.count() > n })
			n = heard.count()
		}
		h.until("it is judged again", 10*time.Second, func() bool {
			for _, w := range h.status().WANs {
				if w.Name == "fiber" {
					return w.IPv6.Verdict == "up"
				}
			}
			return false
		})
		if z := heard.zeros(); z != 0 {
			h.Errorf("the router was taken back %d times by a change, a restart or a kill", z)
		}
		if got := h.outBy(pc.Host, "tcp", web6); got != "inet-fiber" {
			h.Errorf("IPv6 after all that: %s", got)
		}

		// Given back for good, it says so.
		if out, err := h.tell("down", "--yes"); err != nil {
			h.Error(err, out)
		}
		h.until("the router is taken back", time.Second, func() bool { return heard.last().lifetime == 0 })
		h.strays(fiber, lte)
	})
}

// advert is what a router advertisement said.
type advert struct {
	at               time.Time
	lifetime         time.Duration
	prefix, resolver bool
	life             map[netip.Prefix]lifetimes
}

// lifetimes are those that an advertisement gives a prefix.
type lifetimes struct{ preferred, valid time.Duration }

// adverts are the router advertisements that a client hears.
type adverts struct {
	mu  sync.Mutex
	all []advert
	n   int // looked at by zeros
}

func (a *adverts) last() advert {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return advert{}
	}
	return a.all[len(a.all)-1]
}

func (a *adverts) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

// zeros counts those since the last call that take the router back.
func (a *adverts) zeros() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.all[a.n:] {
		if m.lifetime == 0 {
			n++
		}
	}
	a.n = len(a.all)
	return n
}

// advertisements hears what is advertised to a client.
func (h *house) advertisements(c *lab.Client) *adverts {
	h.Helper()
	var conn *ndp.Conn
	h.until("the client has a link-local address", 5*time.Second, func() bool {
		return c.Do(func() error {
			ifi, err := net.InterfaceByName("e0")
			if err == nil {
				conn, _, err = ndp.Listen(ifi, ndp.LinkLocal)
			}
			return err
		}) == nil
	})
	h.must(c.Do(func() error {
		var filter ipv6.ICMPFilter
		filter.SetAll(true)
		filter.Accept(ipv6.ICMPTypeRouterAdvertisement)
		return errors.Join(conn.SetICMPFilter(&filter), conn.JoinGroup(netip.IPv6LinkLocalAllNodes()))
	}))
	h.Cleanup(func() { conn.Close() })
	a := &adverts{}
	go func() {
		for {
			m, _, _, err := conn.ReadFrom()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			ra, ok := m.(*ndp.RouterAdvertisement)
			if err != nil || !ok {
				continue
			}
			ad := advert{at: time.Now(), lifetime: ra.RouterLifetime, life: map[netip.Prefix]lifetimes{}}
			for _, o := range ra.Options {
				switch o := o.(type) {
				case *ndp.PrefixInformation:
					ad.life[netip.PrefixFrom(o.Prefix, int(o.PrefixLength))] = lifetimes{o.PreferredLifetime, o.ValidLifetime}
					ad.prefix = ad.prefix || o.Prefix == addr("fd00::") && o.PreferredLifetime > 0
				case *ndp.RecursiveDNSServer:
					ad.resolver = ad.resolver || o.Lifetime > 0
				}
			}
			a.mu.Lock()
			a.all = append(a.all, ad)
			a.mu.Unlock()
		}
	}()
	return a
}
