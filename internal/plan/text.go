package plan

import (
	"fmt"
	"strings"

	"weir/internal/desired"
)

// The words for objects, as ip(8) would say them where it has one.

func kindWord(k desired.LinkKind) string {
	switch k {
	case desired.Veth:
		return "veth"
	case desired.Bridge:
		return "bridge"
	case desired.VLAN:
		return "vlan"
	}
	return ""
}

func linkText(l desired.Link) string {
	switch l.Kind {
	case desired.Veth:
		return fmt.Sprintf("cable to %s in %s", l.Peer, place(l.PeerNS))
	case desired.Bridge:
		return "bridge"
	case desired.VLAN:
		return fmt.Sprintf("VLAN %d on %s", l.VID, l.Parent)
	}
	return "port"
}

func actualLinkText(l Link) string {
	switch l.Kind {
	case "veth":
		if l.PeerNS == "?" {
			return "cable to nowhere"
		}
		return fmt.Sprintf("cable to %s in %s", l.Peer, place(l.PeerNS))
	case "vlan":
		return fmt.Sprintf("VLAN %d on %s", l.VID, l.Parent)
	}
	return l.Kind
}

// setStep words a change of a link's attributes. ok is false if nothing changes.
func setStep(set SetLink, why string) (s Step, ok bool) {
	var old, new []string
	say := func(o, n string) { old, new = append(old, o), append(new, n) }
	word := func(up bool) string {
		if up {
			return "up"
		}
		return "down"
	}
	if set.New.Alias != "" {
		say("unmarked", "marked as weir's")
	}
	if set.New.MTU != 0 {
		say(fmt.Sprintf("mtu %d", set.Old.MTU), fmt.Sprintf("mtu %d", set.New.MTU))
	}
	if set.New.MAC != "" {
		say("mac "+set.Old.MAC, "mac "+set.New.MAC)
	}
	if set.New.AddrGen != nil {
		words := map[uint8]string{0: "eui64", 1: "none", 2: "stable-privacy", 3: "random"}
		o := uint8(0)
		if set.Old.AddrGen != nil {
			o = *set.Old.AddrGen
		}
		say("addrgenmode "+words[o], "addrgenmode "+words[*set.New.AddrGen])
	}
	if set.New.Master != nil {
		o := ""
		if set.Old.Master != nil {
			o = *set.Old.Master
		}
		in := func(m string) string {
			if m == "" {
				return "no bridge"
			}
			return "bridge " + m
		}
		say(in(o), in(*set.New.Master))
	}
	if set.New.Up != nil {
		say(word(!*set.New.Up), word(*set.New.Up))
	}
	if len(new) == 0 {
		return Step{}, false
	}
	return Step{Op: Change, NS: set.NS, Object: "link", Name: set.Link, Old: strings.Join(old, " "), New: strings.Join(new, " "), Why: why, Do: set}, true
}

func routeName(r desired.Route) string {
	name := r.Dst.String()
	if isDefault(r.Dst) {
		name = "default"
		if r.Dst.Addr().Is6() {
			name = "default IPv6"
		}
	}
	if t := routeSlotOf(r).table; t != tableMain {
		name += fmt.Sprintf(" table %d", t)
	}
	return name
}

func routeText(r desired.Route) string {
	var b []string
	switch r.Type {
	case desired.Unreachable:
		b = append(b, "unreachable")
	case desired.Blackhole:
		b = append(b, "blackhole")
	default:
		if r.Gateway.IsValid() {
			b = append(b, "via "+r.Gateway.String())
		}
		if r.Link != "" {
			b = append(b, "dev "+r.Link)
		}
		if r.Src.IsValid() {
			b = append(b, "src "+r.Src.String())
		}
		if r.OnLink {
			b = append(b, "onlink")
		}
	}
	if r.Metric != 0 && (!r.Dst.Addr().Is6() || r.Metric != metric6) {
		b = append(b, fmt.Sprintf("metric %d", r.Metric))
	}
	return strings.Join(b, " ")
}

func actualRouteText(r Route) string {
	switch {
	case r.Other != "":
		return strings.TrimSpace(r.Other + " " + routeText(r.Route))
	case r.Hops != "":
		return r.Hops
	}
	return routeText(r.Route)
}

func ruleName(r desired.Rule) string {
	if r.V6 {
		return fmt.Sprintf("%d IPv6", r.Pref)
	}
	return fmt.Sprintf("%d", r.Pref)
}

func ruleText(r desired.Rule) string {
	var b []string
	if r.Mark != 0 || r.Mask != 0 {
		b = append(b, fmt.Sprintf("fwmark %#x/%#x", r.Mark, r.Mask))
	}
	if r.OIF != "" {
		b = append(b, "oif "+r.OIF)
	}
	switch r.IPProto {
	case 0:
	case protoTCP:
		b = append(b, "ipproto tcp")
	default:
		b = append(b, fmt.Sprintf("ipproto %d", r.IPProto))
	}
	switch r.Action {
	case desired.Unreachable:
		b = append(b, "unreachable")
	case desired.Blackhole:
		b = append(b, "blackhole")
	default:
		switch r.Table {
		case tableLocal:
			b = append(b, "lookup local")
		case tableMain, 0:
			b = append(b, "lookup main")
		default:
			b = append(b, fmt.Sprintf("lookup %d", r.Table))
		}
	}
	return strings.Join(b, " ")
}

func actualRuleText(r Rule) string {
	if r.Other != "" {
		return r.Other + " " + ruleText(r.Rule)
	}
	return ruleText(r.Rule)
}
