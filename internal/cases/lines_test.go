package cases

import (
	"testing"
	"time"

	"weir/internal/lab"
)

// TestOthersISPs: dnsmasq, ISC's dhcpd and radvd at the ISPs' end. Leases come,
// are renewed, and both families go out by the line in use.
func TestOthersISPs(t *testing.T) {
	in(t, func(h *house) {
		h.need("dnsmasq", "dhcpd", "radvd")
		h.needRoot()
		fiber := h.connect(bare(fiberLine()))
		masq := h.dnsmasq(fiber, "--enable-ra", "--dhcp-range=2001:db8:1::,ra-only,64,10m", "--ra-param=cust0,4,1800")
		h.must(fiber.Router.AddAddr("cust0", pfx("2001:db8:1::1/64")))
		lte := lteLine()
		lte.Prefix6, lte.Router6 = pfx("2001:db8:2::/64"), addr("fe80::2")
		second := h.connect(bare(lte))
		isc := h.dhcpd(second, "default-lease-time 16; max-lease-time 16;")
		h.radvd(second, "")
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(both6)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("IPv6 goes out by fiber", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })

		h.must(fiber.Dark(true))
		h.untilOutBy(pc, "lte", 5*time.Second)
		h.until("IPv6 goes out by lte", 5*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-lte" })
		h.until("ISC's dhcpd sees three renewals", 40*time.Second, func() bool {
			return len(lines(isc.said(), "DHCPREQUEST for 203.0.113.10")) >= 4 && len(lines(isc.said(), "DHCPACK on 203.0.113.10")) >= 4
		})
		if n := len(lines(isc.said(), "DHCPDISCOVER")); n > 2 {
			h.Errorf("dhcpd was asked for a new lease %d times:\n%s", n, isc.said())
		}
		if len(lines(masq.said(), "DHCPACK(cust0) 198.51.100.10")) == 0 {
			h.Error("dnsmasq leased nothing")
		}
		for _, i := range []*lab.ISP{fiber, second} {
			if n, first := i.Strays(); n > 0 {
				h.Errorf("%s: %d frames that the line must not see: %q", i.Name, n, first)
			}
		}
	})
}

const both6 = `
gateway "gw" { domain = "local" }
wan "fiber" { interface = "eth1" }
wan "lte" { interface = "eth2" }
failover {
  hold_down = "2s"
  probe { target = ["1.1.1.1", "8.8.8.8"] }
}
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
}
`
