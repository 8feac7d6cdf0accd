package config

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"time"
)

// dhcpOf is the dhcp block of a LAN.
func dhcpOf(n *node, own netip.Prefix) DHCP {
	d := DHCP{
		Enabled: one[bool](n, "enabled") && own.IsValid(),
		Pool:    list[Range](n, "pool"),
		Lease:   one[time.Duration](n, "lease"),
		Options: one[[]Option](n, "option"),
		Boot:    boot(n),
		BOOTP:   one[bool](n, "bootp"),
		Known:   one[string](n, "unknown") == "deny",
	}
	if n.said("pool") == nil {
		d.Pool = upperHalf(own)
	}
	for _, k := range n.all("class") {
		c := Class{Name: k.label, Vendor: list[string](k, "vendor"), User: list[string](k, "user"), Options: one[[]Option](k, "option"), Boot: boot(k)}
		for _, a := range list[int](k, "arch") {
			c.Arch = append(c.Arch, uint16(a))
		}
		d.Classes = append(d.Classes, c)
	}
	for _, s := range n.all("subnet") {
		b := Subnet{Name: s.label, Prefix: one[netip.Prefix](s, "prefix"), Pool: list[Range](s, "pool"), Router: one[netip.Addr](s, "router"), Options: one[[]Option](s, "option")}
		if s.said("pool") == nil && b.Prefix.Addr().Is4() {
			b.Pool = upperHalf(b.Prefix)
		}
		d.Subnets = append(d.Subnets, b)
	}
	return d
}

func boot(n *node) Boot {
	return Boot{Server: one[netip.Addr](n, "next_server"), File: one[string](n, "boot_file")}
}

// clientIDs are the values of option 61, in hex, that a host's client_id stands
// for. Text is sent by some with the type 0 before it (RFC 2132, 9.14), by others without.
func clientIDs(s string) []string {
	if x, ok := strings.CutPrefix(s, "hex:"); ok {
		return []string{strings.ToLower(strings.ReplaceAll(x, ":", ""))}
	}
	x := hex.EncodeToString([]byte(s))
	return []string{x, "00" + x}
}

// upperHalf is the default pool: the upper half of a LAN's network, without its
// broadcast address and the gateway.
func upperHalf(own netip.Prefix) []Range {
	if !own.IsValid() || own.Bits() > 30 {
		return nil
	}
	last := lastAddr(own)
	b := own.Masked().Addr().As4()
	b[own.Bits()/8] |= 0x80 >> (own.Bits() % 8)
	return without(Range{netip.AddrFrom4(b), last.Prev()}, own.Addr())
}

// without takes an address out of a range.
func without(r Range, a netip.Addr) []Range {
	var rest []Range
	if a.Less(r.From) || r.To.Less(a) {
		return []Range{r}
	}
	if r.From.Less(a) {
		rest = append(rest, Range{r.From, a.Prev()})
	}
	if a.Less(r.To) {
		rest = append(rest, Range{a.Next(), r.To})
	}
	return rest
}
