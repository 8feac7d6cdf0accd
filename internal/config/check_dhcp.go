package config

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

func (c *checker) checkDHCP(h *house, i int) {
	n, l := h.lans[i], &h.LANs[i]
	d := n.child("dhcp")
	if n.bad("address") {
		return
	}
	if !l.Address4.IsValid() {
		for _, key := range []string{"enabled", "pool", "option", "bootp", "unknown", "next_server", "boot_file"} {
			if a := d.said(key); a != nil && (key != "enabled" || one[bool](d, key)) {
				c.err(a.name, "This DHCP is IPv4's. Give it an address of IPv4, or leave dhcp out.", "lan %q has no IPv4", l.Name)
				return
			}
		}
		return
	}
	c.checkPool(d, l.Address4, fmt.Sprintf("lan %q", l.Name))
	c.checkBoot(d)
	if d.said("unknown") != nil && l.DHCP.Known && d.said("pool") != nil && len(l.Hosts) == 0 {
		c.note(d.said("unknown").value, "It has no host.", "nobody gets an address in lan %q", l.Name)
	}
	c.checkClasses(d)
	c.checkSubnets(h, d)
}

// checkPool checks the pool of a LAN or of a subnet; own is its network, and in a
// LAN the gateway's address in it.
func (c *checker) checkPool(d *node, own netip.Prefix, of string) {
	net := own.Masked()
	var before []item
	for _, it := range d.items("pool") {
		r, _ := it.val.(Range)
		text := fmt.Sprintf("%s-%s", r.From, r.To)
		first, last := net.Addr(), lastAddr(net)
		if net.Bits() < 31 {
			first, last = first.Next(), last.Prev()
		}
		holds := func(a netip.Addr) bool { return !a.Less(r.From) && !r.To.Less(a) }
		switch {
		case !net.Contains(r.From) || !net.Contains(r.To):
			c.err(it.at, fmt.Sprintf("Its networks: %s. Clients would get addresses that reach nobody.", net), "%s is outside %s", text, of)
		case own.Addr() != net.Addr() && holds(own.Addr()):
			var rest []string
			if r.From.Less(first) {
				r.From = first
			}
			if last.Less(r.To) {
				r.To = last
			}
			for _, p := range without(r, own.Addr()) {
				rest = append(rest, fmt.Sprintf("\"%s-%s\"", p.From, p.To))
			}
			c.err(it.at, fmt.Sprintf("Leave it out: %s", strings.Join(rest, ", ")), "%s holds the gateway's own address %s", text, own.Addr())
		case holds(first.Prev()):
			c.err(it.at, "That one is the network itself.", "%s holds %s", text, first.Prev())
		case holds(last.Next()):
			c.err(it.at, "That one is the network's broadcast address.", "%s holds %s", text, last.Next())
		}
		for _, o := range before {
			if p, _ := o.val.(Range); !r.To.Less(p.From) && !p.To.Less(r.From) {
				c.err(it.at, fmt.Sprintf("%s-%s (%s) is in the pool already.", p.From, p.To, line(o.at, it.at)), "%s overlaps another range", text)
			}
		}
		before = append(before, it)
	}
}

// checkBoot checks what is to be booted, of a LAN or a class.
func (c *checker) checkBoot(n *node) {
	for _, it := range n.items("next_server") {
		if a, _ := it.val.(netip.Addr); !a.Is4() {
			c.err(it.at, "It stands in a field of four bytes (RFC 2131, 2).", "%s is no IPv4 address", a)
		}
	}
}

func (c *checker) checkClasses(d *node) {
	for i, k := range d.all("class") {
		if j := slices.IndexFunc(d.all("class")[:i], func(o *node) bool { return o.label == k.label }); j >= 0 {
			c.err(k.at(), fmt.Sprintf("The other is in %s.", line(d.all("class")[j].at(), k.at())), "two classes are called %q", k.label)
		}
		if k.said("vendor") == nil && k.said("user") == nil && k.said("arch") == nil {
			c.err(k.at(), `Say vendor = "PXEClient", user or arch. What is for all stands in dhcp itself.`, "every device is of class %q", k.label)
		}
		if k.said("option") == nil && k.said("next_server") == nil && k.said("boot_file") == nil {
			c.err(k.at(), "Say option, next_server or boot_file.", "class %q gives nothing to its devices", k.label)
		}
		c.checkBoot(k)
	}
}

func (c *checker) checkSubnets(h *house, d *node) {
	all := d.all("subnet")
	for i, s := range all {
		if j := slices.IndexFunc(all[:i], func(o *node) bool { return o.label == s.label }); j >= 0 {
			c.err(s.at(), fmt.Sprintf("The other is in %s.", line(all[j].at(), s.at())), "two subnets are called %q", s.label)
		}
		for _, it := range s.items("prefix") {
			p, _ := it.val.(netip.Prefix)
			if !p.Addr().Is4() || p.Bits() > 30 {
				c.err(it.at, "It looks like \"10.0.50.0/24\".", "%s is no network of IPv4 with room for devices", p)
				continue
			}
			c.subnetApart(h, s, it, p)
			c.checkPool(s, p, fmt.Sprintf("subnet %q", s.label))
			for _, r := range s.items("router") {
				if a, _ := r.val.(netip.Addr); !p.Contains(a) {
					c.err(r.at, fmt.Sprintf("Devices in %s can't reach it.", p), "%s is outside subnet %q", a, s.label)
				}
			}
		}
	}
}

// subnetApart reports a subnet that overlaps a LAN or another subnet of the house.
func (c *checker) subnetApart(h *house, s *node, it item, p netip.Prefix) {
	for i := range h.LANs {
		if own := h.LANs[i].Address4; own.IsValid() && own.Overlaps(p) {
			c.err(it.at, "A relay's network is one of its own: the two could not be told apart.", "%s overlaps lan %q", p, h.LANs[i].Name)
		}
		for _, o := range h.lans[i].child("dhcp").all("subnet") {
			if o == s {
				return
			}
			if q := one[netip.Prefix](o, "prefix"); q.IsValid() && q.Overlaps(p) {
				c.err(it.at, fmt.Sprintf("It is in %s.", line(o.at(), it.at)), "%s overlaps subnet %q", p, o.label)
			}
		}
	}
}

// checkClientID checks how DHCP is to know a host.
func (c *checker) checkClientID(it item, host *Host, ids map[string]taken) {
	s, _ := it.val.(string)
	if len(host.ID) == 1 {
		if b, err := hex.DecodeString(host.ID[0]); err != nil || len(b) < 2 {
			c.err(it.at, `Two digits for each byte, at least two bytes: "hex:01020000000001".`, "%q is no client_id", s)
			return
		}
	}
	for _, id := range host.ID {
		if first, ok := ids[id]; ok {
			c.err(it.at, fmt.Sprintf("%s has it too.", sentence(line(first.at, it.at))), "client_id %q belongs to another host", s)
			return
		}
	}
	for _, id := range host.ID {
		ids[id] = taken{it.at, host.Name}
	}
}
