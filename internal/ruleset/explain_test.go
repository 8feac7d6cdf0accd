package ruleset_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// people are who asks in rows: their addresses, and what the file calls them.
var people = map[string]struct{ v4, v6, lan, host string }{
	"pc":     {"172.31.0.50", "fd00::50", "home", ""},
	"nas":    {"172.31.0.23", "fd00::23", "home", "nas"},
	"tablet": {"172.31.0.31", "fd00::31", "home", "tablet"},
	"guest":  {"172.31.20.50", "fd00:20::50", "guest", "laptop"},
	"camera": {"172.31.30.8", "fd00:30::8", "things", "camera"},
	"":       {"172.31.0.1", "fd00::1", "", ""},
}

// flowOf is what a row asks, as Explain is asked; false for what only the
// kernel knows: links that are not weir's, sockets bound to a cable.
func flowOf(c *config.Config, h ruleset.House, r row) (f ruleset.Flow, asker string, ok bool) {
	to := netip.MustParseAddr(r.to)
	f = ruleset.Flow{To: ruleset.Spot{Addr: to}, Port: uint16(r.port), Protocol: map[string]config.Protocol{"tcp": config.TCP, "udp": config.UDP, "ping": config.ICMP}[r.proto]}
	if strings.HasPrefix(r.to, "10.98.") {
		return f, "", false
	}
	for name, p := range people { // a device that rules know by its MAC alone
		if host := c.Host(p.host); name != "" && (r.to == p.v4 || r.to == p.v6) && host != nil {
			f.To.Host = p.host
		}
	}
	p, there := people[r.from]
	switch {
	case there:
		asker = p.v4
		if to.Is6() {
			asker = p.v6
		}
		f.From = ruleset.Spot{LAN: p.lan, Self: p.lan == ""}
		if c.Host(p.host) != nil {
			f.From.Host = p.host
		}
		if r.source != "" {
			asker = r.source
			if r.from == "pc" { // who has another's address has another MAC
				f.From.Host = ""
			}
		}
		if f.From.Self && r.source != "" {
			return f, "", false
		}
	case r.from == "inet", r.from == "isp2":
		asker = r.source
		for _, w := range h.WANs {
			own := slices.ContainsFunc(w.Own, func(p netip.Prefix) bool { return p.Addr() == to })
			if !own || r.from == "isp2" && w.Name != "lte" || f.From.WAN != "" {
				continue
			}
			f.From.WAN = w.Name
			if asker == "" {
				asker = fmt.Sprintf(map[bool]string{true: "10.0.%d.2", false: "2001:db8:ff:%d::2"}[to.Is4()], w.Index)
			}
		}
	default:
		return f, "", false
	}
	f.From.Addr = netip.MustParseAddr(asker)
	return f, asker, true
}

// TestExplainAgreesWithPackets asks Explain what the tables of rows ask of
// packets: each has to be explained as it is answered.
func TestExplainAgreesWithPackets(t *testing.T) {
	type table struct {
		name string
		c    *config.Config
		st   state.State
		rows []row
	}
	house := parse(t, "house")
	onFiber, onLTE := working(house), working(house)
	onLTE.Use4, onLTE.Use6 = "lte", "lte"
	for line, st := range map[string]state.State{"fiber": onFiber, "lte": onLTE} {
		w := st.WANs[line]
		w.V4.DNS, w.V6.DNS = addrs(map[string]string{"fiber": "172.31.30.1", "lte": "172.31.20.1"}[line]), addrs(map[string]string{"fiber": "fd00:30::1", "lte": "fd00:20::1"}[line])
		st.WANs[line] = w
		other := map[string]string{"fiber": "lte", "lte": "fiber"}[line]
		w = st.WANs[other]
		w.V4.DNS, w.V6.DNS = addrs(inet4, "192.0.2.90"), addrs(inet6, "2001:db8:80::90")
		st.WANs[other] = w
	}
	tables := []table{{"house", house, onFiber, rows()}, {"house by lte", house, onLTE, rowsOnLTE()}}
	for _, rc := range routeCases() {
		c := parse(t, "routes")
		st := working(c)
		rc.state(c, &st)
		tables = append(tables, table{"routes, " + rc.name, c, st, slices.Concat(rc.rows, inside())})
	}
	asked := 0
	for _, tb := range tables {
		h := desired.House(tb.c, tb.st)
		for _, r := range tb.rows {
			f, asker, ok := flowOf(tb.c, h, r)
			if !ok {
				continue
			}
			asked++
			got := h.Explain(f, f.To.Addr.Is6())
			if how := disagrees(r, asker, got); how != "" {
				t.Errorf("%s, %s: packets say %q; %s: %+v", tb.name, r.name, r.want, how, got)
			}
			if got.By == "" || len(got.Steps) == 0 {
				t.Errorf("%s, %s: it says nothing: %+v", tb.name, r.name, got)
			}
		}
	}
	if asked < 200 {
		t.Errorf("only %d rows were asked", asked)
	}
}

// disagrees compares an explanation with what packets were answered.
func disagrees(r row, asker string, got ruleset.Explanation) string {
	who, seen, _ := strings.Cut(r.want, " for ")
	where, port, _ := strings.Cut(who, ":")
	source := asker
	if got.Source != "" {
		source = got.Source
	}
	soft := got.By == "no line" || strings.HasPrefix(got.By, "route.") // the kernel's unreachable, which datagrams don't hear of
	switch {
	case r.want == "refused" && got.Verdict != ruleset.Refused,
		r.want == "silence" && got.Verdict != ruleset.Dropped && !(soft && got.Verdict == ruleset.Refused && r.proto == "udp"),
		r.want == "pong" && got.Verdict != ruleset.Leaves && got.Verdict != ruleset.Reached && got.Verdict != ruleset.Delivered,
		where == "gateway" && got.Verdict != ruleset.Reached,
		where == "inet" && got.Verdict != ruleset.Leaves,
		people[where].lan != "" && (got.Verdict != ruleset.Delivered || got.LAN != people[where].lan):
		return "the verdict is another"
	case (where == "inet" || people[where].lan != "") && !strings.HasPrefix(source, seen):
		return "its source is another"
	case got.Destination != "" && people[where].lan != "" && !strings.HasSuffix(got.Destination, ":"+port):
		return "its destination is another"
	}
	return ""
}
