package cases

import (
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"

	"weir/internal/lab"
)

// delegating is the base house: unasked, it has a prefix of fiber's ISP on its LANs.
const delegating = base

var (
	first56, second56, third56 = pfx("2001:db8:f100::/56"), pfx("2001:db8:f200::/56"), pfx("2001:db8:f300::/56")
)

// lan64 is the first LAN's network in a delegated prefix.
func lan64(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr(), 64) }

func delegatingLine(l lab.Line, p netip.Prefix) lab.Line {
	l.Delegate6 = p
	return l
}

// seenAs is the address as which a client is seen by the internet, invalid if it
// reaches nobody.
func (h *house) seenAs(c *lab.Host, from netip.Addr) (netip.Addr, string) {
	g, a, err := c.Ask(h.Context(), "tcp", from, at(web6), time.Second)
	if a != lab.Answered {
		h.Logf("%s: %s (%v)", c, a, err)
	}
	return g.From.Addr(), g.Host
}

// hasIn is the client's usable address in a network, once it has one.
func (h *house) hasIn(c *lab.Client, p netip.Prefix, limit time.Duration) netip.Addr {
	h.Helper()
	var got netip.Addr
	h.until("a device has an address in "+p.String(), limit, func() bool {
		list, err := c.Addrs("e0", true)
		h.must(err)
		for _, a := range list {
			if p.Contains(a.Addr()) {
				got = a.Addr()
			}
		}
		return got.IsValid()
	})
	return got
}

// TestThePrefixFollowsTheISP (B17): devices use what the ISP delegates, under their
// own addresses, and hear at once when it is another one: also after the gateway
// was cut from its power meanwhile.
func TestThePrefixFollowsTheISP(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(delegatingLine(fiberLine(), first56)), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		heard := h.advertisements(pc)
		h.start(delegating)
		own := h.hasIn(pc, lan64(first56), 30*time.Second)
		h.until("it is seen under its own address", 20*time.Second, func() bool {
			as, by := h.seenAs(pc.Host, own)
			return as == own && by == "inet-fiber"
		})
		if l := heard.last().life[lan64(first56)]; l.preferred > 45*time.Minute || l.valid > 90*time.Minute || l.preferred == 0 {
			t.Errorf("advertised for %v: RFC 9096 wants at most 45 and 90 minutes", l)
		}
		h.sh(h.gw, "ip -6 route get 2001:db8:f100:ff::1 2>&1 | grep -q unreachable || ip -6 route show "+first56.String()+" | grep -q unreachable")

		// dead waits for the one advertisement that takes the old prefix back and
		// brings the new one.
		dead := func(old, now netip.Prefix, since time.Time) {
			t.Helper()
			h.until(lan64(old).String()+" is announced dead", 20*time.Second, func() bool {
				a := heard.last()
				o, ok := a.life[lan64(old)]
				return ok && o.preferred == 0 && o.valid <= 2*time.Hour && a.life[lan64(now)].preferred > 0
			})
			t.Logf("%s is announced dead %v after", old, heard.last().at.Sub(since).Round(time.Millisecond))
			own := h.hasIn(pc, lan64(now), 10*time.Second)
			h.until("it is seen under its new address", 10*time.Second, func() bool {
				as, _ := h.seenAs(pc.Host, netip.Addr{})
				return as == own
			})
		}
		h.must(fiber.Carrier(false))
		h.until("the carrier is lost", 5*time.Second, func() bool {
			return strings.Contains(h.log(), "carrier") || h.status().WANs[0].IPv6.Verdict == "down"
		})
		h.must(fiber.Redelegate(second56))
		since := time.Now()
		h.must(fiber.Carrier(true))
		dead(first56, second56, since)

		// A power cut: what was told is known from the disk alone.
		h.end(syscall.SIGKILL)
		h.must(fiber.Redelegate(third56))
		since = time.Now()
		h.again()
		dead(second56, third56, since)
		if _, ok := heard.last().life[lan64(first56)]; !ok {
			t.Error("what was dead before the power cut is not announced so any more")
		}

		// A restart changes nothing.
		n := len(fiber.Heard6())
		h.end(syscall.SIGTERM)
		h.again()
		h.until("its client is up again", 20*time.Second, func() bool { return len(fiber.Heard6()) > n })
		if as, _ := h.seenAs(pc.Host, netip.Addr{}); !lan64(third56).Contains(as) {
			t.Errorf("seen as %s after a restart", as)
		}
		for _, m := range fiber.Heard6()[n:] {
			if m == dhcpv6.MessageTypeRelease || m == dhcpv6.MessageTypeSolicit {
				t.Errorf("a restart sent a %s", m)
			}
		}
		// Given back for good, it is released.
		if out, err := h.tell("down", "--yes"); err != nil {
			h.Error(err, out)
		}
		if all := fiber.Heard6(); all[len(all)-1] != dhcpv6.MessageTypeRelease {
			t.Errorf("weir down ends with a %s to the ISP, want RELEASE", all[len(all)-1])
		}
		for _, i := range []*lab.ISP{fiber, lte} {
			all := i.DHCPLog()
			var n int
			for _, m := range all {
				if m.Type == dhcpv4.MessageTypeRelease {
					n++
				}
			}
			if last := all[len(all)-1]; n != 1 || last.Type != dhcpv4.MessageTypeRelease || last.Addr != i.Customer4[0].Addr() {
				t.Errorf("weir down, after two restarts: %d DHCPv4 releases to %s, the last message is a %s of %s; want one RELEASE of %s, the last", n, i.Name, last.Type, last.Addr, i.Customer4[0].Addr())
			}
		}
		h.strays(fiber, lte)
	})
}

// TestADeadLinesPrefix: with two lines, devices use the prefix of the one that is
// preferred and works. Under an address of the other's they still reach the world,
// translated address for address, and by a line without a prefix under its own
// address: no ISP sees an address that is another's.
func TestADeadLinesPrefix(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lte  string       // its ipv6 block
		to   netip.Prefix // what its ISP delegates; invalid: nothing
		want func(own, as netip.Addr) bool
	}{
		"one to one": {"delegate = 56", second56, func(own, as netip.Addr) bool {
			a, b := own.As16(), as.As16()
			return lan64(second56).Contains(as) && [8]byte(a[8:]) == [8]byte(b[8:])
		}},
		"nothing is delegated": {`method = "auto"`, netip.Prefix{}, func(own, as netip.Addr) bool { return pfx("2001:db8:2::/64").Contains(as) }},
		"refused":              {"delegate = 56\n  translate = \"none\"", second56, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *house) {
				second := lteLine()
				second.Prefix6, second.Router6 = pfx("2001:db8:2::/64"), addr("fe80::1")
				fiber, lte := h.connect(delegatingLine(fiberLine(), first56)), h.connect(delegatingLine(second, tt.to))
				pc := h.join("pc", "", "172.31.0.50/24")
				heard := h.advertisements(pc)
				h.start(strings.Replace(delegating, `ipv6 { method = "none" }`, "ipv6 {\n  "+tt.lte+"\n}", 1))
				own := h.hasIn(pc, lan64(first56), 30*time.Second)
				h.until("it goes out by fiber under its own address", 20*time.Second, func() bool {
					as, by := h.seenAs(pc.Host, own)
					return as == own && by == "inet-fiber"
				})
				h.until("lte is ready", 20*time.Second, func() bool {
					return h.status().WANs[1].IPv6.Verdict == "up" && (!tt.to.IsValid() || len(h.status().WANs[1].IPv6.Delegated) > 0)
				})
				since := time.Now()
				h.must(fiber.Dark(true))
				h.until("the dead line's prefix is taken back", 10*time.Second, func() bool {
					l, ok := heard.last().life[lan64(first56)]
					return ok && l.preferred == 0
				})
				t.Logf("taken back %v after the line fell silent", heard.last().at.Sub(since).Round(time.Millisecond))
				if tt.to.IsValid() {
					h.hasIn(pc, lan64(tt.to), 10*time.Second)
				}
				if tt.want == nil {
					h.until("its old address is refused", 10*time.Second, func() bool {
						_, a, err := pc.Ask(h.Context(), "udp", own, at(web6), time.Second)
						return a == lab.Refused && err != nil
					})
				} else {
					h.until("its old address goes out by lte, translated", 10*time.Second, func() bool {
						as, by := h.seenAs(pc.Host, own)
						return by == "inet-lte" && tt.want(own, as)
					})
				}
				h.strays(fiber, lte)
			})
		})
	}
}

// TestISCDelegates: ISC dhcpd is the ISP. A prefix is had from it, kept over a
// restart, and given back.
func TestISCDelegates(t *testing.T) {
	in(t, func(h *house) {
		h.need("dhcpd")
		h.needRoot()
		fiber := h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24")
		conf, leases := h.dir+"/dhcpd6.conf", h.dir+"/dhcpd6.leases"
		h.must(os.WriteFile(conf, []byte(`
preferred-lifetime 600;
default-lease-time 1200;
option dhcp-renewal-time 10;
subnet6 2001:db8:1::/64 { prefix6 2001:db8:f100:: 2001:db8:f100:ff00:: /56; }
`), 0o644))
		h.must(os.WriteFile(leases, nil, 0o644))
		h.sh(fiber.Router, "chmod 777 "+h.dir+"; chmod 666 "+leases)
		d := h.serve(fiber.Router, "dhcpd", "-6", "-f", "-d", "-cf", conf, "-lf", leases, "-pf", h.dir+"/dhcpd6.pid", "cust0")
		h.start(delegating)
		h.hasIn(pc, pfx("2001:db8:f100::/48"), 40*time.Second)
		for _, say := range []string{"Request message", "Renew message"} {
			h.until("the server hears a "+say, 30*time.Second, func() bool { return strings.Contains(d.said(), say) })
		}
		h.end(syscall.SIGTERM)
		h.again()
		h.until("the server hears a Rebind message", 20*time.Second, func() bool { return strings.Contains(d.said(), "Rebind message") })
		h.until("the daemon answers", 10*time.Second, func() bool { _, err := h.tell("status"); return err == nil })
		if out, err := h.tell("down", "--yes"); err != nil {
			h.Error(err, out)
		}
		h.until("the server hears a Release message", 5*time.Second, func() bool { return strings.Contains(d.said(), "Release message") })
	})
}
