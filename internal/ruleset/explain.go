package ruleset

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/config"
)

// Flow is a connection that somebody might open now.
type Flow struct {
	From, To Spot
	Protocol config.Protocol // never 0
	Port     uint16          // 0: the protocol has none, or it is not said
}

// Spot is one end of a flow. At most one of LAN, WAN and Self says where it is;
// none is outside, or wherever Addr is.
type Spot struct {
	Addr netip.Addr // invalid: not known, or the line's own in a WAN that is asked for
	Host string     // a device of the file
	LAN  string
	WAN  string // from: who is outside and comes by that line; to: the line's own address
	Self bool   // the gateway
}

// Verdict is what becomes of a flow.
type Verdict string

// The verdicts.
const (
	Leaves    Verdict = "leaves"    // by a line, for the outside
	Delivered Verdict = "delivered" // to a device in a LAN
	Reached   Verdict = "reached"   // the gateway itself, if something listens there
	Refused   Verdict = "refused"   // and told so
	Dropped   Verdict = "dropped"   // in silence
)

// Explanation is what becomes of a flow in one family, and why.
type Explanation struct {
	Family  int     `json:"family"` // 4 or 6
	Verdict Verdict `json:"verdict"`
	// By is what decided, by the name that counters and the log have for it:
	// "allow.print", "lan.home.reach", "forward.web", "route.work", "wan.fiber.closed".
	By          string `json:"by"`
	WAN         string `json:"wan,omitempty"`   // the line it leaves or comes by
	LAN         string `json:"lan,omitempty"`   // where it is delivered
	Route       string `json:"route,omitempty"` // the route of the file that matches
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"` // both as the far end sees them, where translation changes them
	Steps       []Step `json:"steps"`

	// From and To are the addresses as who opens it says them; invalid: not known.
	From, To netip.Addr `json:"-"`
}

// Step is one thing that bears on a flow, in the order in which it does.
type Step struct {
	What string `json:"what"`         // "source", "forward", "rule", "reach", "route", "line", "translation", "note"
	Text string `json:"text"`         // a sentence
	At   string `json:"at,omitempty"` // where the file says so: gateway.hcl:14
}

// Explain says what the rulesets do with the first packet of a flow in a
// family. It is held against packets by the tables that the rulesets are.
func (h House) Explain(fl Flow, ipv6 bool) Explanation {
	return h.explain(&explain{Flow: fl}, ipv6)
}

func (h House) explain(x *explain, ipv6 bool) Explanation {
	fl := x.Flow
	x.House, x.f, x.dst, x.port = h, v4, fl.To.Addr, fl.Port
	x.out = Explanation{Family: 4, Steps: []Step{}}
	if ipv6 {
		x.f, x.out.Family = v6, 6
	}
	x.ends()
	x.out.From, x.out.To = x.src, x.dst
	if fl.From.Self && !x.src.IsValid() {
		x.out.From = x.gatewayAddr()
	}
	switch {
	case !x.dst.IsValid() && !x.isOutside():
		x.end(Dropped, "nowhere", "note", "", "%s has no %s address here", x.describe(fl.To), x.family())
	case fl.From.Self:
		x.fromSelf()
	case fl.From.WAN != "":
		x.fromOutside()
	default:
		x.fromLAN()
	}
	return x.out
}

// explain is what one Explain works with.
type explain struct {
	House
	Flow
	f       family
	iif     string     // the link it comes by; "" from the gateway
	src     netip.Addr // invalid: not known
	dst     netip.Addr // as translation leaves it; invalid: somewhere outside, or a device whose address is not known
	port    uint16
	line    string // that it is on already, and leaves by; "": it begins
	silent  bool   // nobody reads the steps
	forward string // the forward that claims it
	unsure  bool   // a rule asks for an address that is not known
	out     Explanation
}

// ends fills in the addresses that the file gives.
func (x *explain) ends() {
	x.src = x.From.Addr
	switch {
	case x.From.LAN != "":
		if l := x.lan(x.From.LAN); l != nil {
			x.iif = l.Link
		}
	case x.From.WAN != "":
		x.iif = x.From.WAN
	}
	if !x.src.IsValid() && x.From.Host != "" {
		x.src = x.fixed(x.From.Host)
	}
	switch {
	case x.dst.IsValid():
	case x.To.Host != "":
		x.dst = x.fixed(x.To.Host)
	case x.To.WAN != "":
		if w := x.wan(x.To.WAN); w != nil && len(w.own(x.f)) > 0 {
			x.dst = w.own(x.f)[0]
		}
	case x.To.Self:
		lan := x.From.LAN
		for _, l := range x.LANs {
			for _, a := range l.Addr {
				if x.f.holds(a.Addr()) && (!x.dst.IsValid() || l.Name == lan) {
					x.dst = a.Addr()
				}
			}
		}
		if w := x.wan(x.From.WAN); w != nil { // who is outside knows the line's address
			x.dst = netip.Addr{}
			if own := w.own(x.f); len(own) > 0 {
				x.dst = own[0]
			}
		}
	}
}

// fixed is the first fixed address that a device has in the family.
func (x *explain) fixed(host string) netip.Addr {
	if d := x.Config.Host(host); d != nil {
		for _, a := range x.hostAddrs(d) {
			if x.f.holds(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// isOutside says that the flow goes to somewhere outside or to a device, of
// which no address need be known.
func (x *explain) isOutside() bool { return x.To == Spot{} || x.To.Host != "" || x.To.LAN != "" }

func (h House) lan(name string) *LAN {
	i := slices.IndexFunc(h.LANs, func(l LAN) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &h.LANs[i]
}

func (x *explain) family() string { return "IPv" + x.f.digit }

func (x *explain) say(what, at, format string, args ...any) {
	if x.silent {
		return
	}
	x.out.Steps = append(x.out.Steps, Step{What: what, Text: fmt.Sprintf(format, args...), At: at})
}

// end says what becomes of it, and what decided that.
func (x *explain) end(v Verdict, by, what, at, format string, args ...any) {
	x.out.Verdict, x.out.By = v, by
	x.say(what, at, format, args...)
	if x.unsure {
		x.say("note", "", "a rule that comes first asks for an address, and %s has none that is known here: ask again with one", x.describe(x.From))
	}
}

// describe names an end as the file does.
func (x *explain) describe(s Spot) string {
	switch {
	case s.Host != "":
		return "host." + s.Host
	case s.Addr.IsValid():
		return s.Addr.String()
	case s.LAN != "":
		return "lan." + s.LAN
	case s.WAN != "":
		return "wan." + s.WAN
	case s.Self:
		return "self"
	}
	return "the outside"
}

func at(p config.Pos) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// from says whether it comes from one of e.
func (x *explain) from(e ends) bool {
	if e.any || x.iif != "" && slices.Contains(e.link, x.iif) || x.isHost(e, x.From.Host) {
		return true
	}
	if !x.src.IsValid() {
		x.unsure = x.unsure || len(x.f.of(e.addr)) > 0 && x.From.Host == "" && x.From.LAN == ""
		return false
	}
	if inside(x.src, e.outside()) {
		return true
	}
	return slices.ContainsFunc(e.lans, func(l LAN) bool { return l.Link == x.iif && inside(x.src, e.within(l)) })
}

// to says whether it goes to one of e, by a link.
func (x *explain) to(e ends, oif string) bool {
	return e.any || slices.Contains(e.link, oif) || inside(x.dst, e.addr) || x.isHost(e, x.To.Host)
}

// isHost says whether e holds a device that is known by its MAC in the family.
func (x *explain) isHost(e ends, host string) bool {
	hosts := e.host4
	if x.f == v6 {
		hosts = e.host6
	}
	return host != "" && slices.Contains(hosts, host)
}

// asks says whether protocol and port are among those of a rule.
func (x *explain) asks(protos []config.Protocol, ports []config.PortRange) bool {
	if len(protos) > 0 && !slices.Contains(protos, x.Protocol) {
		return false
	}
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p config.PortRange) bool { return p.From <= x.port && x.port <= p.To })
}
