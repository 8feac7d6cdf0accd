package cases

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestOnceADay: a day passes, by what the test adds to the daemon's clocks, and the lists that
// are on the web are fetched again, and the time servers that have names are looked up again and
// chronyd has them where they are now. Each is asked once a day.
func TestOnceADay(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "chronyd", "dig")
		isp := h.connect(fiberLine())
		web := h.listAt(isp)
		web.text = "0.0.0.0 ads.example\n"
		h.Name("ntp.se", addr("198.18.1.123"))
		h.Name("any.time.nl", addr("198.18.3.123"))
		h.Name("time.cloudflare.com", addr("198.18.4.123"))
		pc := h.join("pc", "", "172.31.0.50/24")
		h.env = append(h.env, envClocks+"="+h.dir+"/clocks")
		clocks := func(shift string) { h.must(os.WriteFile(h.dir+"/clocks", []byte(shift), 0o644)) }
		clocks("0 0 ")
		// A line whose address no lease bounds: that a day passes is all that happens.
		h.start(strings.Replace(unsaidDNS, `wan "fiber" { interface = "eth1" }`, `wan "fiber" {
  interface = "eth1"
  ipv4 {
    address = "198.51.100.10/24"
    gateway = "198.51.100.1"
  }
  ipv6 { method = "none" }
}`, 1) + `
dns {
  engine   = "forward"
  upstream = "9.9.9.9"
  block_list "ads" {
    source  = "http://lists.example.org:8080/list"
    refresh = "1d"
  }
}
`)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		blocked := func(name string) bool {
			return strings.Contains(h.dig(pc.Host, "@172.31.0.1 "+name), "status: NXDOMAIN")
		}
		// sources are the addresses of the time servers that are asked.
		sources := func() string {
			var out []string
			if st := h.status().Time; st != nil {
				for _, s := range st.Sources {
					out = append(out, s.Address)
				}
			}
			return " " + strings.Join(out, " ") + " "
		}
		h.until("the list", 30*time.Second, func() bool { return blocked("ads.example") })
		h.until("the time servers' addresses of today", 30*time.Second, func() bool { return strings.Contains(sources(), " 198.18.1.123 ") })
		h.until("the time", 30*time.Second, func() bool { return h.near(pc.Host, "172.31.0.1", exact) })

		web.set(func(s *listServer) { s.text += "0.0.0.0 new.example\n" })
		h.Name("ntp.se", addr("198.18.2.123"))
		clocks(fmt.Sprint(0, " ", int(24*time.Hour), " "))
		h.until("the list of tomorrow", 90*time.Second, func() bool { return blocked("new.example") })
		h.until("the time servers' addresses of tomorrow", 90*time.Second, func() bool { return strings.Contains(sources(), " 198.18.2.123 ") })
		if got := web.answers(); got != "200 200" {
			h.Errorf("the server of lists was asked for %q", got)
		}
		h.strays(isp)
	})
}
