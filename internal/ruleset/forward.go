package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/config"
)

// forward writes a forward: in asked for what comes in by a line, in hairpin
// for what a LAN asks for by a line's address.
func (m *mainTable) forward(asked, hairpin *chain, fwd config.Forward) {
	var on []string
	for _, w := range m.WANs {
		if slices.Contains(fwd.On, w.Name) {
			on = append(on, w.Name)
		}
	}
	if len(on) == 0 {
		return
	}
	all := len(on) == len(m.WANs)
	name := "forward." + fwd.Name
	count := m.counter(name)
	claim := fmt.Sprintf("ct mark set ct mark or 0x%03x", MarkClaimed)
	for _, f := range families() {
		to := m.target(fwd, f)
		if !to.IsValid() {
			continue
		}
		from, inside := []match{{}}, []match{{}}
		if fwd.From != nil {
			limit := m.ends(fwd.From).addr
			from = byAddress(limit, "saddr")
			inside = byAddress(slices.DeleteFunc(limit, func(p netip.Prefix) bool {
				return !slices.ContainsFunc(m.lanPrefixes(), p.Overlaps)
			}), "saddr")
		}
		for i, o := range openings(fwd, to) {
			act := strings.Join([]string{o.match, count, claim, "dnat", f.word, "to", o.to}, " ")
			id := name + f.digit + nth(i)
			for _, s := range pairs(from, []match{{f.nfproto, f.digit}}) {
				if all {
					asked.add(id, s.text, act)
				} else {
					asked.add(id, oneOf("iifname", quoted(on)), s.text, act)
				}
			}
			if !fwd.Hairpin {
				continue
			}
			for _, s := range pairs(inside, []match{{f.nfproto, f.digit}}) {
				if all {
					hairpin.add(id+".hairpin", s.text, act)
					continue
				}
				for _, w := range on {
					hairpin.add(id+".hairpin."+w, fmt.Sprintf("%s daddr @wan%s.%s", f.word, f.digit, w), s.text, act)
				}
			}
		}
	}
}

// target is where a forward leads in a family; invalid: it doesn't exist there.
func (h House) target(fwd config.Forward, f family) netip.Addr {
	if f == v4 {
		return fwd.To4
	}
	return h.Config.ForwardTo6(&fwd, h.ULA)
}

// opening is the part of a forward that one rule can say.
type opening struct {
	match string // protocol and ports
	to    string // where to
}

// openings splits a forward into the ports that keep their number and those
// that change it. nft has no "plus": a port that changes is looked up.
func openings(fwd config.Forward, to netip.Addr) []opening {
	var kept, moved []config.PortRange
	var pairs []string
	var single config.PortRange // where the only one that changes goes
	for i, p := range fwd.Port {
		t := fwd.ToPort[i]
		if t.From == p.From {
			kept = append(kept, p)
			continue
		}
		moved, single = append(moved, p), t
		for n := range int(p.To) - int(p.From) + 1 {
			pairs = append(pairs, fmt.Sprintf("%d : %d", int(p.From)+n, int(t.From)+n))
		}
	}
	var out []opening
	if len(kept) > 0 {
		out = append(out, opening{protocols(fwd.Protocol, kept), to.String()})
	}
	switch len(pairs) {
	case 0:
	case 1:
		out = append(out, opening{protocols(fwd.Protocol, moved), netip.AddrPortFrom(to, single.From).String()})
	default:
		out = append(out, opening{protocols(fwd.Protocol, moved),
			fmt.Sprintf("%s : th dport map { %s }", to, strings.Join(pairs, ", "))})
	}
	return out
}
