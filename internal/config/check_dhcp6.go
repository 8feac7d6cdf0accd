package config

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// ipRange6 reads "FROM-TO" of one /64, or of lower halves.
func (c *checker) ipRange6(k *key, s string, at hcl.Range) (any, bool) {
	a, b, _ := ends(s)
	switch {
	case !a.Is6() || !b.Is6():
		detail := `It looks like "::1000-::1fff".`
		if a.Is4() {
			detail = "IPv4's addresses are given by dhcp. It looks like \"::1000-::1fff\"."
		}
		return c.wrong(k, at, strconv.Quote(s), detail)
	case netip.PrefixFrom(a, 64).Masked() != netip.PrefixFrom(b, 64).Masked():
		return c.wrong(k, at, strconv.Quote(s), "Its ends are in two networks: a LAN has /64s.")
	case b.Less(a):
		return c.wrong(k, at, strconv.Quote(s), fmt.Sprintf("The lower one first: \"%s-%s\"", b, a))
	}
	return Range{a, b}, true
}

func (c *checker) checkDHCP6(h *house, i int) {
	n, l := h.lans[i], &h.LANs[i]
	six := n.all("dhcp6")
	if len(six) == 0 {
		return
	}
	d := six[0]
	var nets []netip.Prefix
	for _, p := range h.networks(i) {
		if p.Addr().Is6() && p.Bits() == 64 {
			nets = append(nets, p)
		}
	}
	var before []item
	for _, it := range d.items("pool") {
		r, _ := it.val.(Range)
		text := fmt.Sprintf("%s-%s", r.From, r.To)
		inNet := slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(r.From) })
		switch own := c.gatewayIn(l, r); {
		case !isToken(r.From) && !inNet:
			detail := `It has no fixed /64. Write lower halves: "::1000-::1fff".`
			if len(nets) > 0 {
				detail = fmt.Sprintf(`Its /64s: %s. Or lower halves, in each: "::1000-::1fff".`, prefixTexts(nets))
			}
			c.err(it.at, detail, "%s is outside lan %q", text, l.Name)
		case own.IsValid():
			c.err(it.at, "Begin above it.", "%s holds the gateway's own address %s", text, own)
		}
		for _, o := range before {
			p, _ := o.val.(Range)
			if isToken(r.From) != isToken(p.From) {
				c.err(it.at, fmt.Sprintf("%s-%s (%s) is of the other kind.", p.From, p.To, line(o.at, it.at)), "lower halves and whole addresses can't be mixed in a pool")
				break
			} else if !r.To.Less(p.From) && !p.To.Less(r.From) {
				c.err(it.at, fmt.Sprintf("%s-%s (%s) is in the pool already.", p.From, p.To, line(o.at, it.at)), "%s overlaps another range", text)
			}
		}
		before = append(before, it)
	}
	if at := d.said("pool"); at != nil && l.DHCP6.Enabled && !l.Advertise.Enabled {
		c.note(at.value, "It is the advertisements that tell devices to ask.", "no device in lan %q asks for an address", l.Name)
	}
	if at := d.said("delegate"); at != nil && l.DHCP6.Delegate > 0 {
		for j := range h.WANs {
			w := &h.WANs[j]
			if w.IPv6.Delegate > 0 && w.IPv6.Delegate >= l.DHCP6.Delegate {
				c.note(at.value, fmt.Sprintf("wan %q asks its ISP for a /%d.", w.Name, w.IPv6.Delegate), "there may be no /%d for a router in lan %q", l.DHCP6.Delegate, l.Name)
			}
		}
	}
}

// gatewayIn is an address of the gateway in a range; invalid: none is.
func (c *checker) gatewayIn(l *LAN, r Range) netip.Addr {
	own := []netip.Addr{netip.MustParseAddr("::1")}
	for _, p := range l.Address6 {
		end, _ := Join6(netip.MustParsePrefix("::/64"), p.Addr())
		own = append(own, p.Addr(), end)
	}
	for _, a := range own {
		if !a.Less(r.From) && !r.To.Less(a) {
			return a
		}
	}
	return netip.Addr{}
}

func prefixTexts(ps []netip.Prefix) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

// plainDUID is a DUID in hex, without what people put between bytes.
func plainDUID(s string) string {
	return strings.ToLower(strings.NewReplacer(":", "", "-", "", " ", "").Replace(strings.TrimPrefix(s, "hex:")))
}

func (c *checker) checkDUID(it item, host *Host, duids map[string]taken) {
	s, _ := it.val.(string)
	d := plainDUID(s)
	if b, err := hex.DecodeString(d); err != nil || len(b) < 3 || len(b) > 130 {
		c.err(it.at, `Two digits for each byte, 3 to 130 bytes: "00:03:00:01:02:00:00:00:00:23". It is in the log and in "weir leases" once the device has asked.`, "%q is no DUID", s)
		return
	}
	if first, ok := duids[d]; ok {
		c.err(it.at, fmt.Sprintf("%s has it too.", sentence(line(first.at, it.at))), "%s belongs to another host", s)
		return
	}
	duids[d] = taken{it.at, host.Name}
}
