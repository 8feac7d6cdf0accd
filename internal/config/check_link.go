package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// use is one that has a port.
type use struct {
	port string
	vlan int
	wan  bool
	at   hcl.Range

	vlanAt hcl.Range // where there is one
}

// checkLinks sees to it that no port is taken twice, and that no two links of
// the main namespace would have one name: a WAN's name is its cable's, a LAN's is
// its bridge's or its VLAN link's.
func (c *checker) checkLinks(h *house) {
	var uses []use
	for _, n := range slices.Concat(h.wans, h.lans) {
		if n.bad("vlan") {
			continue
		}
		for _, it := range n.items("interface") {
			port, _ := it.val.(string)
			u := use{port: port, vlan: one[int](n, "vlan"), wan: n.def == wanBlock, at: it.at}
			if a := n.said("vlan"); a != nil {
				u.vlanAt = a.value
			}
			uses = append(uses, u)
			if port == "lan" && n.def == wanBlock {
				c.err(it.at, "In the WAN's namespace the end of the cable is called so. Rename the port (udev, systemd.link).", "a WAN's port can't be called lan")
			}
		}
	}
	slices.SortStableFunc(uses, func(a, b use) int {
		if c.before(a.at, b.at) {
			return -1
		}
		return 1
	})
	for i, u := range uses {
		for _, first := range uses[:i] {
			if first.port != u.port || first.vlan != u.vlan && !(first.wan && first.vlan == 0) && !(u.wan && u.vlan == 0) {
				continue
			}
			where := sentence(line(first.at, u.at))
			switch {
			case first.vlan != u.vlan:
				c.err(u.at, where+" has it. A WAN without vlan takes its port along into its namespace, VLANs and all.", "%s is in use already", u.port)
			case u.vlan != 0:
				c.err(u.vlanAt, sentence(line(first.vlanAt, u.vlanAt))+" has it. A VLAN of a port belongs to one WAN or one LAN.", "VLAN %d on %s is in use already", u.vlan, u.port)
			default:
				c.err(u.at, where+" has it. A port belongs to one WAN or one LAN; more LANs on one cable are told apart by vlan.", "%s is in use already", u.port)
			}
			break
		}
	}
	c.checkLinkNames(h, uses)
	c.checkVLANNames(h, uses)
}

// checkVLANNames looks at the VLAN links that are bridged: they are called by
// port and number, eth0.20, as people call theirs.
func (c *checker) checkVLANNames(h *house, uses []use) {
	for i, n := range h.lans {
		l := &h.LANs[i]
		if l.VLAN == 0 || len(l.Interface) < 2 {
			continue
		}
		for _, port := range l.Interface {
			name := fmt.Sprintf("%s.%d", port, l.VLAN)
			for _, u := range uses {
				if u.port == name {
					c.err(u.at, fmt.Sprintf("lan %q (%s) has that name for VLAN %d on %s. Let weir make that one: vlan = %d", l.Name, line(n.at(), u.at), l.VLAN, port, l.VLAN),
						"%s would be there twice", name)
				}
			}
		}
	}
}

func (c *checker) checkLinkNames(h *house, uses []use) {
	links := make(map[string]*node)
	for _, n := range slices.Concat(h.wans, h.lans) {
		name := n.label
		word := kindWords[n.def.kind]
		switch {
		case pointing[name] != "": // told
			continue
		case name == "all" || name == "default":
			c.err(n.at(), fmt.Sprintf("Linux keeps that name: /proc/sys/net/ipv4/conf/%s is no single link.", name), "no %s can be called %q", word, name)
			continue
		case name == "lo":
			c.err(n.at(), "Linux keeps that name: lo is the loopback link.", "no %s can be called %q", word, name)
			continue
		case name == "auto" && n.def == wanBlock:
			c.err(n.at(), "\"weir use auto\" leaves the choice of the line to failover.", "no WAN can be called %q", name)
			continue
		}
		if i := slices.IndexFunc(uses, func(u use) bool { return u.port == name }); i >= 0 && name != "" {
			c.err(n.at(), fmt.Sprintf("%s has it. The %s's name becomes a link's name beside it: give it another.", sentence(line(uses[i].at, n.at())), word),
				"a port is called %q already", name)
			continue
		}
		if n.def == lanBlock && len(n.items("interface")) < 2 && n.said("vlan") == nil {
			continue // the port itself
		}
		if first := links[name]; first != nil && first.def != n.def {
			c.err(n.at(), fmt.Sprintf("Both become links' names: the WAN's cable (%s) and the LAN's bridge or VLAN.", line(first.at(), n.at())),
				"a %s is called %q too", kindWords[first.def.kind], name)
			continue
		}
		links[name] = n
	}
}
