package cases

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

// whyHouse has a device of each kind of route, guests, a forward, and a line whose
// ISP delegates a prefix; LTE6 is the other line's ipv6 block.
const whyHouse = `
gateway "gw" { domain = "local" }
wan "fiber" { interface = "eth1" }
wan "lte" {
  interface = "eth2"
  ipv6 {
    LTE6
  }
}
failover {
  prefer    = [wan.fiber, wan.lte]
  hold_down = "2s"
  probe { target = ["1.1.1.1", "8.8.8.8"] }
}
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["172.31.0.23", "fd00::23"]
  }
}
lan "guest" {
  interface = "eth3"
  address   = ["10.0.20.1/24", "fd00:20::1/64"]
  reach     = wan
}
forward "web" {
  port = 80
  to   = host.nas
}
allow "door" {
  from = lan.home
  to   = self
  port = 2222
}
reject "mail" {
  from = lan.home
  to   = wan
  port = 25
}
block "noise" {
  from = lan.home
  to   = wan
  port = 26
}
route "tv" {
  from = "172.31.0.24/32"
  only = wan.fiber
}
route "tablet" {
  from  = "172.31.0.25/32"
  never = wan.lte
}
route "calls" {
  from   = ["172.31.0.26/32", "fd00::26/128"]
  prefer = wan.lte
}
dns { engine = "forward" }
`

// asked is a question that weir why and packets are asked.
type asked struct {
	from    *lab.Host
	source  string // its address; "": weir is asked about WHO
	who     string
	network string
	to      string
}

// TestWhySaysWhatPacketsDo asks `weir why` and sends the packets: out by each line
// and under each translation, in by a forward, back from inside, between LANs, to
// the gateway and of its own, by routes of each kind, and what is refused or
// dropped; with both lines, without the first, and by a person's choice.
func TestWhySaysWhatPacketsDo(t *testing.T) {
	t.Parallel()
	type line struct {
		lte6 string
		to   netip.Prefix // what its ISP delegates
	}
	lines := map[string]line{
		"one to one": {"delegate = 56", second56},
		"refused":    {"delegate = 56\n    translate = \"none\"", second56},
	}
	if inFull() {
		lines["nothing is delegated"] = line{`method = "auto"`, netip.Prefix{}}
		lines["nat66"] = line{`translate = "nat66"`, netip.Prefix{}}
	}
	for name, tt := range lines {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *house) {
				second := lteLine6()
				fiber, lte := h.connect(delegatingLine(fiberLine(), first56)), h.connect(delegatingLine(second, tt.to))
				pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
				nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
				h.must(nas.ServeEcho([]uint16{80}, nil))
				tv, tablet := h.join("tv", "", "172.31.0.24/24"), h.join("tablet", "", "172.31.0.25/24")
				calls := h.join("calls", "", "172.31.0.26/24", "fd00::26/64")
				guests, err := h.Switch("guest")
				h.must(err)
				h.must(guests.Plug(lab.Plug{Host: h.gw, Dev: "eth3"}))
				guest, err := h.Join(guests, "guest", "")
				h.must(err)
				h.must(guest.Static(pfx("10.0.20.50/24"), addr("10.0.20.1")))
				h.must(guest.ServeEcho([]uint16{80}, nil))
				h.must(h.gw.ServeEcho([]uint16{2222}, nil))
				h.start(strings.Replace(whyHouse, "LTE6", tt.lte6, 1))
				h.bothUp(pc)
				own := h.hasIn(pc, lan64(first56), 30*time.Second).String()
				h.until("lte is ready", 20*time.Second, func() bool {
					return !tt.to.IsValid() || len(h.status().WANs[1].IPv6.Delegated) > 0
				})

				out := []asked{
					{pc.Host, "172.31.0.50", "", "tcp", web4}, {pc.Host, "172.31.0.50", "", "udp", web4},
					{pc.Host, own, "", "tcp", web6}, {pc.Host, "fd00::50", "", "tcp", web6}, {pc.Host, own, "", "udp", web6},
					{tv.Host, "172.31.0.24", "", "tcp", web4}, {tablet.Host, "172.31.0.25", "", "tcp", web4},
					{calls.Host, "172.31.0.26", "", "udp", web4}, {calls.Host, "fd00::26", "", "tcp", web6},
					{guest.Host, "10.0.20.50", "", "tcp", web4},
					{h.gw, "", "self", "tcp", web4}, {h.gw, "", "self", "tcp", web6}, {h.gw, "", "self", "udp", web6},
				}
				byLTE := netip.AddrPortFrom(lte.Customer4[0].Addr(), 80).String()
				still := []asked{
					{lte.Inet, "", "192.0.2.80@lte", "tcp", byLTE}, {pc.Host, "172.31.0.50", "", "tcp", byLTE}, {guest.Host, "10.0.20.50", "", "tcp", byLTE},
					{pc.Host, "172.31.0.50", "", "tcp", "10.0.20.50:80"}, {guest.Host, "10.0.20.50", "", "tcp", "172.31.0.23:80"},
					{pc.Host, "172.31.0.50", "", "tcp", "172.31.0.1:2222"}, {guest.Host, "10.0.20.50", "", "tcp", "10.0.20.1:2222"},
					{lte.Inet, "", "192.0.2.80@lte", "tcp", netip.AddrPortFrom(lte.Customer4[0].Addr(), 81).String()},
					{pc.Host, "172.31.0.50", "", "tcp", "192.0.2.80:25"}, {pc.Host, "172.31.0.50", "", "tcp", "192.0.2.80:26"},
					{h.gw, "", "self", "tcp", "172.31.0.23:80"},
				}
				byFiber := netip.AddrPortFrom(fiber.Customer4[0].Addr(), 80).String()
				h.agree("both lines", append(out, append(still,
					asked{fiber.Inet, "", "192.0.2.80@fiber", "tcp", byFiber}, asked{pc.Host, "172.31.0.50", "", "tcp", byFiber})...)...)

				// Who talks by fiber goes on there while new ones go by lte.
				talk := h.talkTo(pc.Host, []string{web4}, lab.Sending)[0]
				_, err = h.tell("use", "lte")
				h.must(err)
				h.untilOutBy(pc, "lte", 5*time.Second)
				h.agree("lte chosen", out...)
				if text, err := h.tell("why", "172.31.0.50", web4); err != nil || !strings.Contains(text, "leaves by wan.lte") || !strings.Contains(text, " under way by wan.fiber, as 198.51.100.10") {
					h.Errorf("a conversation goes by fiber, and weir why: %v\n%s", err, text)
				}
				if _, ok := talk.HeardFrom(h.Context(), "inet-fiber", time.Now(), 2*time.Second); !ok {
					h.Error("it does not go by fiber any more")
				}
				_, err = h.tell("use", "auto")
				h.must(err)

				h.must(fiber.Dark(true))
				h.untilOutBy(pc, "lte", 5*time.Second)
				h.until("IPv6 too", 5*time.Second, func() bool { return h.status().IPv6.WAN != "fiber" })
				h.agree("without fiber", append(out, still...)...)
				h.must(lte.Dark(true))
				h.until("no line is used", 10*time.Second, func() bool { s := h.status(); return s.IPv4.WAN == "" && s.IPv6.WAN == "" })
				h.agree("without any line", out...)
				h.strays(fiber, lte)
			})
		})
	}
}

// agree asks each twice, and wants one answer. A question that is not so is asked
// again: the machine may have been busy.
func (h *house) agree(when string, questions ...asked) {
	h.Helper()
	for _, q := range questions {
		wrong := ""
		for range 3 {
			if wrong = h.disagrees(q); wrong == "" {
				break
			}
		}
		if wrong != "" {
			h.Errorf("%s: %s", when, wrong)
		}
	}
}

func (h *house) disagrees(q asked) string {
	h.Helper()
	who, source := q.who, netip.Addr{}
	if q.source != "" {
		who, source = q.source, addr(q.source)
	} else if a, _, ok := strings.Cut(q.who, "@"); ok {
		source = addr(a)
	}
	text, err := h.tell("why", who, q.to, "--protocol", q.network, "--json")
	if err != nil {
		return err.Error()
	}
	var why api.Why
	h.must(json.Unmarshal([]byte(text), &why))
	// A refusal by ICMP that comes while connect still holds the socket is taken for
	// what it is when the SYN is repeated, a second later.
	g, a, err := q.from.Ask(h.Context(), q.network, source, at(q.to), 2*time.Second)
	saw := fmt.Sprintf("%s %s by %s as %s (%v)", who, a, g.Host, g.From.Addr().Unmap(), err)
	if len(why.Ways) != 1 {
		return fmt.Sprintf("%d ways for %s to %s", len(why.Ways), who, q.to)
	}
	w := why.Ways[0]
	from := source
	if w.Source != "" {
		from = addr(w.Source)
	}
	ok := false
	switch w.Verdict {
	case "leaves":
		ok = a == lab.Answered && g.Host == "inet-"+w.WAN && (g.From.Addr().Unmap() == from || !from.IsValid())
	case "delivered":
		host := map[string]string{"home": "nas", "guest": "guest"}[w.LAN]
		ok = a == lab.Answered && g.Host == host && (g.From.Addr().Unmap() == from || !from.IsValid())
	case "reached":
		ok = a == lab.Answered && g.Host == h.gw.Name
	case "refused":
		// The kernel's own "unreachable" is no error to who sends datagrams.
		soft := w.By == "no line" || strings.HasPrefix(w.By, "route.")
		ok = a == lab.Refused || soft && a == lab.Silence && q.network == "udp"
	case "dropped":
		ok = a == lab.Silence
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("to %s by %s: packets say %s, weir why says %s", q.to, q.network, saw, text)
}
