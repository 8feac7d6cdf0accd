package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weir/internal/config"
)

// match is a condition on a packet. A rule is split into several where nft
// cannot say "this or that" in one; none is exactly what the family limits it to.
type match struct {
	text string
	fam  string // "4", "6"; "" is both
}

// ends is what one side of a rule names, sorted by how nft can ask for it.
type ends struct {
	any   bool
	self  bool
	link  []string       // links of LANs and cables
	addr  []netip.Prefix // of both families
	mac4  []string       // devices known by MAC, in the families in which they have no fixed address
	mac6  []string
	host4 []string // the same devices by name
	host6 []string
	lans  []LAN // of the house, to tell whose address one is
}

// anywhere resolves a rule's from or to, which is any when unsaid.
func (h House) anywhere(places []config.Place) ends {
	if places == nil {
		return ends{any: true}
	}
	return h.ends(places)
}

// ends resolves places.
func (h House) ends(places []config.Place) ends {
	e := ends{lans: h.LANs}
	for _, p := range h.Config.Expand(places) {
		if !p.IsRef() {
			e.addr = append(e.addr, p.Prefix.Masked())
			continue
		}
		switch p.Ref.Kind {
		case config.KindSelf:
			e.self = true
		case config.KindWAN:
			for _, w := range h.WANs {
				if p.Ref.Name == "" || p.Ref.Name == w.Name {
					e.link = append(e.link, w.Name)
				}
			}
		case config.KindLAN:
			for _, l := range h.LANs {
				if p.Ref.Name == "" || p.Ref.Name == l.Name {
					e.link = append(e.link, l.Link)
				}
			}
		case config.KindHost:
			h.host(p.Ref.Name, &e)
		}
	}
	return e
}

// hostAddrs are all fixed addresses of a device, in what lines are delegated too.
func (h House) hostAddrs(host *config.Host) []netip.Addr {
	addrs := h.Config.HostAddrs(host, h.ULA)
	for _, l := range h.LANs {
		for _, p := range l.Delegated {
			for _, t := range host.Token {
				if a, ok := config.Join6(p.Masked(), t); ok && l.Name == host.LAN {
					addrs = append(addrs, a)
				}
			}
		}
	}
	return addrs
}

// host adds a device: its fixed addresses, and its MAC in a family where it
// has none.
func (h House) host(name string, e *ends) {
	host := h.Config.Host(name)
	if host == nil {
		return
	}
	addrs := h.hostAddrs(host)
	for _, a := range addrs {
		e.addr = append(e.addr, single(a))
	}
	if !slices.ContainsFunc(addrs, v4.holds) {
		e.mac4, e.host4 = append(e.mac4, host.MAC...), append(e.host4, host.Name)
	}
	if !slices.ContainsFunc(addrs, v6.holds) {
		e.mac6, e.host6 = append(e.mac6, host.MAC...), append(e.host6, host.Name)
	}
}

// sources are the matches of a rule's from. With none the rule matches nothing
// that is forwarded or arrives.
func (e ends) sources() []match {
	if e.any {
		return []match{{}}
	}
	var out []match
	if len(e.link) > 0 {
		out = append(out, match{text: oneOf("iifname", quoted(unique(e.link)))})
	}
	out = append(out, byAddress(e.outside(), "saddr")...)
	// What is an address of the house comes from its LAN: outside, where an ISP
	// uses the same range, it is somebody else's.
	for _, l := range e.lans {
		out = append(out, pairs([]match{{text: oneOf("iifname", quoted([]string{l.Link}))}}, byAddress(e.within(l), "saddr"))...)
	}
	for _, m := range []struct {
		f   family
		mac []string
	}{{v4, e.mac4}, {v6, e.mac6}} {
		if len(m.mac) > 0 {
			out = append(out, match{m.f.nfproto + " " + oneOf("ether saddr", unique(m.mac)), m.f.digit})
		}
	}
	return out
}

// within are the addresses that are of LAN l.
func (e ends) within(l LAN) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(e.addr), func(p netip.Prefix) bool { return !covered(p, l.nets()) })
}

// outside are the addresses that are of no LAN alone.
func (e ends) outside() []netip.Prefix {
	var nets []netip.Prefix
	for _, l := range e.lans {
		nets = append(nets, l.nets()...)
	}
	return slices.DeleteFunc(slices.Clone(e.addr), func(p netip.Prefix) bool { return covered(p, nets) })
}

// destinations are the matches of a rule's to in the forward hook. A device
// without a fixed address is looked up among what it was seen to use.
func (e ends) destinations() []match {
	if e.any {
		return []match{{}}
	}
	var out []match
	if len(e.link) > 0 {
		out = append(out, match{text: oneOf("oifname", quoted(unique(e.link)))})
	}
	out = append(out, byAddress(e.addr, "daddr")...)
	for _, h := range e.host4 {
		out = append(out, match{"ip daddr @" + seenSet(v4, h), v4.digit})
	}
	for _, h := range e.host6 {
		out = append(out, match{"ip6 daddr @" + seenSet(v6, h), v6.digit})
	}
	return out
}

// here are the matches of a rule's to in the input hook: self, or the
// gateway's own addresses where a prefix holds one.
func (e ends) here(own []netip.Prefix) []match {
	if e.any || e.self {
		return []match{{}}
	}
	var holding []netip.Prefix
	for _, p := range e.addr {
		if slices.ContainsFunc(own, func(o netip.Prefix) bool { return p.Contains(o.Addr()) }) {
			holding = append(holding, p)
		}
	}
	return byAddress(holding, "daddr")
}

func byAddress(prefixes []netip.Prefix, side string) []match {
	var out []match
	for _, f := range families() {
		words := f.of(disjoint(prefixes))
		switch {
		case len(words) == 0:
		case slices.Contains(words, f.everything):
			out = append(out, match{f.nfproto, f.digit}) // nft knows no /0 in a set
		default:
			out = append(out, match{oneOf(f.word+" "+side, words), f.digit})
		}
	}
	return out
}

// pairs joins each of a with each of b, where the families allow it.
func pairs(a, b []match) []match {
	var out []match
	for _, x := range a {
		for _, y := range b {
			if x.fam != "" && y.fam != "" && x.fam != y.fam {
				continue
			}
			out = append(out, match{strings.TrimSpace(x.text + " " + y.text), x.fam + strings.TrimPrefix(y.fam, x.fam)})
		}
	}
	return out
}

// protocols writes what a rule says of protocol and port. ICMP stands for both
// families, so ICMPv6 goes with it.
func protocols(protos []config.Protocol, ports []config.PortRange) string {
	var words []string
	for _, p := range protos {
		words = append(words, strconv.Itoa(int(p)))
		if p == config.ICMP {
			words = append(words, "58")
		}
	}
	words = unique(words)
	if len(ports) == 0 {
		return oneOf("meta l4proto", words)
	}
	if len(words) == 0 {
		words = []string{"6"}
	}
	return oneOf("meta l4proto", words) + " " + oneOf("th dport", portWords(ports))
}

func portWords(ports []config.PortRange) []string {
	var out []string
	for _, r := range mergePorts(ports) {
		if r.From == r.To {
			out = append(out, strconv.Itoa(int(r.From)))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", r.From, r.To))
		}
	}
	return out
}

// mergePorts sorts ranges and joins those that touch: nft refuses a set whose
// intervals overlap.
func mergePorts(ports []config.PortRange) []config.PortRange {
	sorted := slices.Clone(ports)
	slices.SortFunc(sorted, func(a, b config.PortRange) int { return int(a.From) - int(b.From) })
	var out []config.PortRange
	for _, r := range sorted {
		if n := len(out); n > 0 && int(r.From) <= int(out[n-1].To)+1 {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

func unique(words []string) []string {
	out := slices.Clone(words)
	slices.Sort(out)
	return slices.Compact(out)
}
