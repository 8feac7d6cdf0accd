package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

const onlyLTE = `
wan "lte" {
  interface = "eth2"
  ipv4 {
    method = "dhcp"
    IGNORE
  }
  ipv6 { method = "none" }
}
failover {
  probe { target = ["1.1.1.1", "8.8.8.8"] }
}
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}
`

// TestClasslessRoutes (B13): option 121 goes before option 3, in any order and
// shape that ISPs send, and where that leaves no way out the owner is told.
func TestClasslessRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options []string
		ignore  bool
		out     bool   // there is a way out
		note    string // what the status says
	}{
		{name: "only the router option", out: true},
		{name: "121 with a default and a network", options: []string{"121,0.0.0.0/0,203.0.113.1,10.99.0.0/16,203.0.113.1"}, out: true},
		{name: "121 without a default", options: []string{"121,10.99.0.0/16,203.0.113.1"}, note: "ignore_classless_routes"},
		{name: "121 without a default, ignored", options: []string{"121,10.99.0.0/16,203.0.113.1"}, ignore: true, out: true},
		{name: "121 on link, then the default by it", options: []string{"121,203.0.113.1/32,0.0.0.0,0.0.0.0/0,203.0.113.1"}, out: true},
		{name: "the same the other way round", options: []string{"121,0.0.0.0/0,203.0.113.1,203.0.113.1/32,0.0.0.0"}, out: true},
		{name: "121 with a prefix of 33 bits", options: []string{"121,21:0a:63:00:00:00:cb:00:71:01"}, out: true},
		{name: "121 cut off", options: []string{"121,18:0a:63:00:cb:00"}, out: true},
		{name: "249 beside 121", options: []string{"249,00:cb:00:71:fe", "121,0.0.0.0/0,203.0.113.1"}, out: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(h *house) {
				h.need("dnsmasq")
				isp := h.connect(bare(lteLine()))
				var args []string
				for _, o := range c.options {
					args = append(args, "--dhcp-option-force="+o)
				}
				masq := h.dnsmasq(isp, args...)
				pc := h.join("pc", "", "172.31.0.50/24")
				ignore := ""
				if c.ignore {
					ignore = "ignore_classless_routes = true"
				}
				h.start(strings.Replace(onlyLTE, "IGNORE", ignore, 1))
				if c.out {
					h.untilOutBy(pc, "lte", 20*time.Second)
				} else {
					h.until("the lease is taken", 20*time.Second, func() bool { return len(lines(masq.said(), "DHCPACK")) > 0 })
					h.until("the owner is told", 5*time.Second, func() bool {
						out, err := h.tell("status")
						return err == nil && len(lines(out, c.note)) == 1
					})
					if got := h.outBy(pc.Host, "tcp", web4); got == "inet-lte" {
						h.Error("option 3 made a default route beside option 121")
					}
				}
				if n := len(lines(masq.said(), "DHCPACK")); n != 1 {
					h.Errorf("%d leases:\n%s", n, masq.said())
				}
				h.strays(isp)
			})
		})
	}
}

// TestRenewalsStayOnTheirLine (B14): a server whose address lies outside the
// lease's network, in private space, or which answers no unicast at all. Renewals
// go by the line they belong to; when that fails, rebinding by broadcast keeps
// the address; a ping over the line misses nothing.
func TestRenewalsStayOnTheirLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, server string
		deaf         bool // to unicast
		acks, full   int  // of leases of 14 s; of 120 s in ten minutes
	}{
		{"server outside the network", "66.66.66.66", false, 4, 11},
		{"and deaf to unicast", "66.66.66.66", true, 3, 6},
		{"server in private space", "10.1.2.3", false, 4, 11},
	} {
		lease, limit := 14, 70*time.Second
		if inFull() {
			lease, limit, c.acks = 120, 11*time.Minute, c.full
		}
		t.Run(c.name, func(t *testing.T) {
			in(t, func(h *house) {
				h.need("dhcpd")
				h.needRoot()
				fiber := h.connect(fiberLine())
				lte := h.connect(bare(lteLine()))
				h.must(lte.Router.AddAddr("lo", netip.PrefixFrom(addr(c.server), 32)))
				if c.deaf {
					// On the way: the server has packet sockets, which hear before any
					// rule of its machine.
					h.need("nft")
					h.sh(h.Host("switch"), "nft add table bridge t; nft 'add chain bridge t f { type filter hook forward priority 0; }'; nft add rule bridge t f ip daddr "+c.server+" udp dport 67 drop")
				}
				isc := h.dhcpd(lte, fmt.Sprintf("server-identifier %s; default-lease-time %d; max-lease-time %d;", c.server, lease, lease))
				pc := h.join("pc", "", "172.31.0.50/24")
				before := time.Now()
				h.start(strings.Replace(base, "[wan.fiber, wan.lte]", "[wan.lte, wan.fiber]", 1))
				h.untilOutBy(pc, "lte", 20*time.Second)
				ping, err := pc.Ping(addr("8.8.8.8"), 20*time.Millisecond)
				h.must(err)
				h.until("the lease is kept, again and again", limit, func() bool {
					return len(lines(isc.said(), "DHCPACK on 203.0.113.10")) >= c.acks
				})
				// The first is not older than the gateway; each other comes when T2 is over.
				took, t2 := time.Since(before), time.Duration(lease)*time.Second*7/8
				if c.deaf && took < time.Duration(c.acks-1)*t2 {
					h.Errorf("%d leases in %v from a server that is deaf until %v", c.acks, took, t2)
				}
				if gaps := lab.Gaps(ping.Stop()); len(gaps) > 0 {
					h.Errorf("a ping over the line had %d gaps, the longest of %v", len(gaps), lab.Longest(ping.Beats()).Len())
				}
				if n := len(lines(isc.said(), "DHCPDISCOVER")); n > 2 {
					h.Errorf("the lease was lost and asked for anew:\n%s", isc.said())
				}
				h.strays(fiber, lte)
			})
		})
	}
}
