package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/config"
)

// fromLAN explains what a device of a LAN opens.
func (x *explain) fromLAN() {
	l := x.lan(x.From.LAN)
	if l == nil {
		x.end(Dropped, "stranger", "note", "", "%s is in no LAN", x.describe(x.From))
		return
	}
	if x.src.IsValid() && !l.lives(x.src) {
		x.end(Dropped, "lan."+l.Name+".spoofed", "source", "", "no %s lives in lan.%s: its networks are %s", x.src, l.Name, strings.Join(prefixTexts(slices.Concat(l.nets(), l.Routed)), ", "))
		return
	}
	hairpin := func(w WAN) bool { return slices.Contains(x.hairpins(w, x.f), x.dst.String()) }
	asked := slices.IndexFunc(x.WANs, hairpin)
	if asked >= 0 {
		x.out.WAN = x.WANs[asked].Name
		x.claim(func(fwd config.Forward) bool {
			return fwd.Hairpin && slices.ContainsFunc(x.WANs, func(w WAN) bool { return hairpin(w) && slices.Contains(fwd.On, w.Name) })
		})
	}
	to := x.where()
	switch {
	case to.self:
		x.arrives(*l, "")
	case asked >= 0 && x.forward == "":
		x.end(Refused, "unclaimed", "forward", "", "%s is an address of wan.%s, and no forward has %s there", x.dst, x.out.WAN, x.asked())
	case to.lan != nil:
		x.through(to.lan.Link, l)
		if x.out.Verdict == Delivered {
			x.out.LAN = to.lan.Name
			if x.forward != "" && to.lan.Name == l.Name {
				x.translated(x.gateway(*to.lan), "or its answer would not come by the gateway")
			}
		}
	case to.nowhere != "":
		x.end(Dropped, "nowhere", "note", "", "%s", to.nowhere)
	default:
		x.leaves(l)
	}
}

// fromSelf explains what the gateway itself opens: no rule is about it, routes are.
func (x *explain) fromSelf() {
	to := x.where()
	switch {
	case to.self:
		x.end(Reached, "self", "note", "", "it is the gateway's own address")
	case to.lan != nil:
		x.out.LAN = to.lan.Name
		x.end(Delivered, "self", "rule", "", "what the gateway itself opens is not judged")
	case to.nowhere != "":
		x.end(Dropped, "nowhere", "note", "", "%s", to.nowhere)
	case to.far != "" && x.port >= 53 && int(x.port) < 53+max(1, len(x.wan(to.far).resolvers(x.f))):
		w := x.wan(to.far)
		r := w.resolver(x.f)
		if n := x.port - 53; n > 0 {
			r = w.resolvers(x.f)[n]
		}
		x.out.WAN = w.Name
		x.end(Leaves, "resolver", "line", "", "the far end of a line's cable stands for its resolver, %s, whatever works", r)
		x.out.Destination = r.String()
		x.source(w)
	default:
		x.leaves(nil)
	}
}

// fromOutside explains what comes in by a line.
func (x *explain) fromOutside() {
	w := x.wan(x.From.WAN)
	if w == nil {
		return
	}
	x.out.WAN = w.Name
	own := slices.Contains(w.own(x.f), x.dst)
	closed := "wan." + w.Name + ".closed"
	switch {
	case own && x.Protocol == config.ICMP:
		if !x.rules(Reached, func(r config.Rule) bool { to := x.anywhere(r.To); return to.any || to.self }) {
			x.end(Reached, "ping", "line", "", "no rule is against it, and the line answers echo requests itself; other ICMP belongs to running connections")
		}
		return
	case !own && w.translates(x.f) && !w.native(x.dst):
		x.end(Dropped, "nowhere", "line", "", "wan.%s translates, and hands over only what is for its own addresses: %s", w.Name, addrTexts(w.own(x.f)))
		return
	case !own && !inside(x.dst, x.lanPrefixes()) && !w.native(x.dst):
		x.end(Dropped, "nowhere", "line", "", "%s is no address of this house", x.dst)
		return
	}
	if x.src.IsValid() && slices.ContainsFunc(x.impossible(*w, x.f), func(p string) bool { return holds(p, x.src) }) {
		x.end(Dropped, fmt.Sprintf("wan.%s.spoofed%s", w.Name, x.f.digit), "source", "", "%s is the house's own, and can't come in by a line", x.src)
		return
	}
	if own {
		x.claim(func(fwd config.Forward) bool { return slices.Contains(fwd.On, w.Name) })
		if x.forward == "" && slices.ContainsFunc(x.Config.Rules, func(r config.Rule) bool {
			to := x.anywhere(r.To)
			return r.Verb != config.Block && (to.any || to.self) && x.from(x.anywhere(r.From)) && x.asks(r.Protocol, r.Port) && w.near(x.f).IsValid()
		}) {
			x.dst = w.near(x.f)
			x.arrives(LAN{}, closed)
			return
		}
	}
	to := x.where()
	oif := x.use(x.f)
	if to.lan != nil {
		oif = to.lan.Link
	}
	if to.self {
		x.arrives(LAN{}, closed)
		return
	}
	x.through(oif, nil)
	if x.out.Verdict == "" {
		x.end(Dropped, closed, "line", "", "nothing is open there: no forward and no allow has %s on wan.%s", x.asked(), w.Name)
		return
	}
	if x.out.Verdict == Delivered && to.lan != nil {
		x.out.LAN = to.lan.Name
		if x.src.IsValid() && covered(single(x.src), to.lan.Addr) {
			x.translated(x.gateway(*to.lan), "or its answer would be looked for in the LAN")
		}
	}
}

// place is where a destination is.
type place struct {
	self    bool
	lan     *LAN
	far     string // the WAN whose cable's far end it is
	nowhere string // why it is nowhere
}

func (x *explain) where() place {
	switch {
	case !x.dst.IsValid() && x.To.Host != "":
		return place{lan: x.lan(x.Config.Host(x.To.Host).LAN)}
	case !x.dst.IsValid() && x.To.LAN != "":
		return place{lan: x.lan(x.To.LAN)}
	case !x.dst.IsValid():
		return place{}
	case x.dst.IsMulticast() || x.dst.IsLinkLocalUnicast() || x.dst.IsLoopback() || x.dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return place{nowhere: fmt.Sprintf("%s is of one link, and is not forwarded", x.dst)}
	}
	for _, w := range x.WANs {
		if x.dst == w.near(x.f) {
			return place{self: true}
		}
		if x.dst == w.far(x.f) {
			return place{far: w.Name}
		}
	}
	for i, l := range x.LANs {
		switch {
		case l.self(x.dst):
			return place{self: true}
		case l.lives(x.dst):
			return place{lan: &x.LANs[i]}
		}
	}
	return place{}
}

// claim looks for the forward that claims it, and follows that.
func (x *explain) claim(may func(config.Forward) bool) {
	for _, fwd := range x.Config.Forwards {
		to := x.target(fwd, x.f)
		i := slices.IndexFunc(fwd.Port, func(p config.PortRange) bool { return p.From <= x.port && x.port <= p.To })
		if i < 0 || !to.IsValid() || !slices.Contains(fwd.Protocol, x.Protocol) || !may(fwd) || fwd.From != nil && !x.fromAddr(fwd.From) {
			continue
		}
		x.forward = fwd.Name
		x.dst, x.port = to, fwd.ToPort[i].From+(x.port-fwd.Port[i].From)
		x.out.Destination = netip.AddrPortFrom(x.dst, x.port).String()
		x.say("forward", at(fwd.Pos), "forward %q leads to %s", fwd.Name, x.out.Destination)
		return
	}
}

// fromAddr says whether it comes from one of a forward's addresses.
func (x *explain) fromAddr(places []config.Place) bool {
	e := x.House.ends(places)
	x.unsure = x.unsure || !x.src.IsValid()
	return inside(x.src, e.addr)
}

// arrives explains what is for the gateway itself, from a LAN or, with the name
// of what closes a line, by that.
func (x *explain) arrives(l LAN, closed string) {
	var own []netip.Prefix
	for _, o := range x.LANs {
		own = append(own, o.Addr...)
	}
	if closed == "" && x.f == v4 && x.Protocol == config.UDP && x.port == 67 {
		x.end(Reached, "lan.dhcp", "reach", "", "the gateway's DHCP is there for every LAN")
		return
	}
	if closed == "" && x.f == v6 && x.Protocol == config.UDP && x.port == 547 && l.DHCP6 {
		x.end(Reached, "lan.dhcp6", "reach", "", "the gateway's DHCPv6 is there for this LAN")
		return
	}
	atSelf := func(e ends, own []netip.Prefix) bool {
		return e.any || e.self || slices.ContainsFunc(own, func(o netip.Prefix) bool {
			return slices.ContainsFunc(e.addr, func(p netip.Prefix) bool { return p.Contains(o.Addr()) && p.Contains(x.dst) })
		})
	}
	if x.rules(Reached, func(r config.Rule) bool { return atSelf(x.anywhere(r.To), own) }) {
		return
	}
	switch {
	case closed != "":
		x.end(Dropped, closed, "line", "", "nothing of the gateway is open on a line")
	case (x.Protocol == config.TCP || x.Protocol == config.UDP) && x.port == 53:
		x.end(Reached, "lan.dns", "reach", "", "the gateway's DNS is there for every LAN")
	case x.Protocol == config.UDP && x.port == 123 && x.Config.Time.Serve:
		x.end(Reached, "lan.time", "reach", "", "the gateway's time is there for every LAN")
	case x.Protocol == config.ICMP:
		x.end(Reached, "lan.ping"+x.f.digit, "reach", "", "every LAN may ping the gateway")
	case atSelf(x.House.ends(l.Reach), l.Addr):
		x.end(Reached, "lan."+l.Name+".reach", "reach", x.lanAt(l), "reach of lan.%s holds the gateway", l.Name)
	default:
		x.end(Refused, "lan."+l.Name+".refused.self", "reach", x.lanAt(l), "reach of lan.%s does not hold the gateway: reach = %s", l.Name, placeTexts(l.Reach))
	}
}

func (x *explain) lanAt(l LAN) string {
	if c := x.Config.LAN(l.Name); c != nil {
		return at(c.Pos)
	}
	return ""
}

// rules looks for the rule of the user that decides.
func (x *explain) rules(allowed Verdict, to func(config.Rule) bool) bool {
	for _, r := range x.Config.Rules {
		if !x.asks(r.Protocol, r.Port) || !to(r) || !x.from(x.anywhere(r.From)) {
			continue
		}
		v := map[config.Verb]Verdict{config.Allow: allowed, config.Block: Dropped, config.Reject: Refused}[r.Verb]
		x.end(v, ruleName(r), "rule", at(r.Pos), "%s %q is the first rule that matches", r.Verb, r.Name)
		return true
	}
	return false
}

// through explains what is forwarded by a link: the user's rules, forwards, and
// for what comes from a LAN its reach. No verdict: nothing lets it pass.
func (x *explain) through(oif string, from *LAN) {
	switch {
	case x.rules(Delivered, func(r config.Rule) bool { return x.to(x.anywhere(r.To), oif) }):
	case x.forward != "":
		x.end(Delivered, "forward."+x.forward, "rule", "", "no rule is against it, and the forward lets it pass")
	case from == nil:
	case x.to(x.House.ends(from.Reach), oif):
		x.end(Delivered, "lan."+from.Name+".reach", "reach", x.lanAt(*from), "no rule is against it, and reach of lan.%s holds it", from.Name)
	default:
		x.end(Refused, "lan."+from.Name+".refused", "reach", x.lanAt(*from), "no rule allows it, and reach of lan.%s does not hold it: reach = %s", from.Name, placeTexts(from.Reach))
	}
}

// leaves explains what goes outside, from a LAN or the gateway.
func (x *explain) leaves(l *LAN) {
	r := x.route(l == nil)
	by, held := x.use(x.f), false
	if r != nil {
		x.out.Route = r.Name
		if to := x.by(*r, x.f); to != "" {
			by = to
		} else if r.Way != config.Prefer {
			held = true
		}
	}
	if x.line != "" {
		by, held = x.line, r != nil && strayed(r, x.line)
	}
	why := fmt.Sprintf("failover uses wan.%s for %s", by, x.family())
	switch {
	case held:
		why = fmt.Sprintf("none of the lines that it allows takes new connections in %s now", x.family())
	case r != nil && by != "" && x.by(*r, x.f) == "":
		why = fmt.Sprintf("none of those is up and proven in %s now, so it leaves as failover says, by wan.%s", x.family(), by)
	case r != nil && by != "":
		why = fmt.Sprintf("by wan.%s, which takes new connections in %s", by, x.family())
	}
	if by == "" && !held {
		x.end(Refused, "no line", "line", "", "no line takes new connections in %s now", x.family())
		return
	}
	if l != nil && by != "" {
		x.through(by, l)
		if x.out.Verdict != Delivered {
			return
		}
	}
	if held {
		x.end(Refused, "route."+r.Name, "route", at(r.Pos), "route %q says %s, and %s", r.Name, wayText(r), why)
		return
	}
	if r != nil {
		x.say("route", at(r.Pos), "route %q says %s: %s", r.Name, wayText(r), why)
	} else {
		x.say("route", "", "no route matches: %s", why)
	}
	if l == nil {
		x.out.By = "self"
	}
	x.out.Verdict, x.out.WAN = Leaves, by
	x.source(x.wan(by))
}

// route is the first route of the file that matches, or nil.
func (x *explain) route(self bool) *config.Route {
	for i := range x.Config.Routes {
		r := &x.Config.Routes[i]
		if !x.asks(r.Protocol, r.Port) {
			continue
		}
		to := x.Config.Expand(r.To)
		if len(to) > 0 && !slices.ContainsFunc(to, config.Place.IsRef) && !inside(x.dst, x.House.ends(to).addr) {
			continue
		}
		e := x.anywhere(r.From)
		switch {
		case e.any, self && e.self:
			return r
		case self:
			if inside(x.gatewayAddr(), e.addr) {
				return r
			}
		case x.from(e), slices.ContainsFunc(x.Config.Expand(r.From), func(p config.Place) bool {
			return p.Ref.Kind == config.KindHost && p.Ref.Name == x.From.Host && len(x.Config.Host(x.From.Host).MAC) > 0
		}):
			return r
		}
	}
	return nil
}

// source says whose address it has outside.
func (x *explain) source(w *WAN) {
	src := x.src
	if x.From.Self && !src.IsValid() {
		src = x.gatewayAddr()
	}
	switch own := w.own(x.f); {
	case src.IsValid() && w.native(src):
		x.say("translation", "", "it keeps its address, which is of the prefix that wan.%s was delegated", w.Name)
	case x.f == v6 && w.Strict6 && !x.From.Self:
		x.out.Verdict, x.out.By = Refused, "source.wrong"
		x.say("translation", "", "nothing leaves by wan.%s but from the prefix that it was delegated", w.Name)
	case !w.translates(x.f):
		x.say("translation", "", "wan.%s does not translate: it keeps its address", w.Name)
	case src.Is6() && x.mapsTo(w, src):
	case x.f == v6 && !src.IsValid() && len(w.Subnets) > 0:
		x.say("translation", "", "an address in what wan.%s was delegated stays as it is, and any other is put into that, one to one: ask again with one", w.Name)
	case len(own) == 0:
		x.out.Verdict, x.out.By = Dropped, "no address"
		x.say("translation", "", "wan.%s has no %s address yet, and nothing leaves under another", w.Name, x.family())
	default:
		x.translated(own[0], "the address of wan."+w.Name)
	}
}

// mapsTo says, where the line puts a source into its prefix, which address that
// becomes.
func (x *explain) mapsTo(w *WAN, src netip.Addr) bool {
	as, ok := x.mapped(w, src)
	if ok {
		x.translated(as, "one to one in the prefix that wan."+w.Name+" was delegated")
	}
	return ok
}

func (x *explain) translated(a netip.Addr, why string) {
	x.out.Source = a.String()
	x.say("translation", "", "its source becomes %s, %s", a, why)
}

// gateway is the gateway's address in a LAN.
func (x *explain) gateway(l LAN) netip.Addr {
	for _, a := range l.Addr {
		if x.f.holds(a.Addr()) {
			return a.Addr()
		}
	}
	return netip.Addr{}
}

// gatewayAddr is the address under which the gateway's own programs ask outside:
// its first in the house.
func (x *explain) gatewayAddr() netip.Addr {
	for _, l := range x.LANs {
		if a := x.gateway(l); a.IsValid() {
			return a
		}
	}
	return netip.Addr{}
}
