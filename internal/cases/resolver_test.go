package cases

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestOwnResolvers: what is to be asked of a line's own resolver is asked there, and
// nowhere else, though both lines have the same one and the same address; when the
// ISP names another it is that one, and nothing is told to BIND for it.
func TestOwnResolvers(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "named", "dig")
		f, l := fiberLine(), lteLine()
		f.Customer4[0], l.Customer4[0] = pfx("192.168.7.10/24"), pfx("192.168.7.10/24")
		f.Router4, l.Router4 = addr("192.168.7.1"), addr("192.168.7.1")
		fiber, lte := h.connect(f), h.connect(l)
		pc := h.join("pc", "", "172.31.0.50/24")
		h.start(unsaidDNS + `
dns {
  engine   = "bind"
  validate = false
  upstream = wan
  zone "f.whoami.example" { forward = wan.fiber }
  zone "l.whoami.example" { forward = wan.lte }
}
`)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		n := 0
		// who is the line whose resolver answers, and whom it takes us for.
		who := func(zone string) string {
			n++
			return h.dig(pc.Host, "@172.31.0.1 +short n"+strconv.Itoa(n)+zone+"whoami.example TXT")
		}
		is := func(zone, want string) {
			h.Helper()
			h.until(zone+"whoami.example: "+want, 15*time.Second, func() bool { return who(zone) == want })
		}
		is(".", `"fiber" "192.168.7.10"`)
		is(".f.", `"fiber" "192.168.7.10"`)
		is(".l.", `"lte" "192.168.7.10"`)
		conf := func() string {
			b, err := os.ReadFile(h.dir + "/state/named/named.conf")
			h.must(err)
			return string(b)
		}
		before := conf()
		if strings.Contains(before, "192.168.7.") {
			h.Error("an ISP's address stands in named.conf")
		}

		h.must(fiber.Renumber4(pfx("192.168.8.20/24"), addr("192.168.8.1")))
		h.must(fiber.Carrier(false))
		h.must(fiber.Carrier(true))
		is(".f.", `"fiber" "192.168.8.20"`)
		is(".", `"fiber" "192.168.8.20"`)
		is(".l.", `"lte" "192.168.7.10"`)
		h.until("named.conf is as it was", 5*time.Second, func() bool { return conf() == before })

		h.must(fiber.Dark(true))
		is(".", `"lte" "192.168.7.10"`)
		if got := who(".f."); got != "" && strings.Contains(got, "lte") {
			h.Errorf("what only fiber's resolver is to say, %s", got)
		}
		h.strays(fiber, lte)
	})
}
