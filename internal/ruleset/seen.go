package ruleset

import (
	"fmt"
	"slices"

	"weir/internal/config"
)

// seenSet names the set of addresses that a device was seen to use.
func seenSet(f family, host string) string { return "seen" + f.digit + "." + host }

// seen learns the addresses of devices that a rule or a reach names as a
// destination and that have no fixed one: nobody else knows them in IPv6, where
// devices choose their own. What the device has not used through the gateway,
// in a day, is not known.
func (m *mainTable) seen() {
	var to []config.Place
	for _, r := range m.Config.Rules {
		to = append(to, r.To...)
	}
	for _, l := range m.LANs {
		to = append(to, l.Reach...)
	}
	e := m.ends(to)
	e.host4, e.host6 = unique(e.host4), unique(e.host6)
	if len(e.host4)+len(e.host6) == 0 {
		return
	}
	c := m.chain("seen", "filter hook prerouting priority -140; policy accept")
	for _, of := range []struct {
		family
		hosts []string
	}{{v4, e.host4}, {v6, e.host6}} {
		for _, name := range of.hosts {
			set := seenSet(of.family, name)
			m.declared = append(m.declared, fmt.Sprintf("\tset %s {\n\t\ttype %s\n\t\tsize 64\n\t\tflags dynamic,timeout\n\t\ttimeout 1d\n\t}\n", set, of.typ))
			host := m.Config.Host(name)
			i := slices.IndexFunc(m.LANs, func(l LAN) bool { return l.Name == host.LAN })
			nets := of.of(m.LANs[i].Addr)
			if len(nets) == 0 || len(host.MAC) == 0 {
				continue
			}
			// Only addresses of its LAN: a device that lends its MAC to another's
			// address would open that other one.
			c.add(set, fmt.Sprintf("iifname %q", m.LANs[i].Link), oneOf("ether saddr", unique(host.MAC)), oneOf(of.word+" saddr", nets),
				fmt.Sprintf("update @%s { %s saddr }", set, of.word))
		}
	}
}
