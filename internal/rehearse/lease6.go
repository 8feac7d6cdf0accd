package rehearse

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/miekg/dns"

	"weir/internal/config"
	"weir/internal/lab"
)

// lease6Act plugs new devices into a LAN that leases by DHCPv6: one that asks for an
// address, and a router that asks for a part of the house's prefix.
func lease6Act(s *Site, l *LAN) Act {
	var drills []string
	var do []func(context.Context, *Bench) Result
	if l.DHCP6.Managed {
		drill := name("lease6", l.Name, "new")
		drills = append(drills, drill)
		do = append(do, func(ctx context.Context, b *Bench) Result { return b.newLease6(ctx, l, drill) })
	}
	if l.DHCP6.Delegate > 0 && len(s.Order(true)) > 0 && s.free(l) {
		drill := name("lease6", l.Name, "prefix")
		drills = append(drills, drill)
		do = append(do, func(ctx context.Context, b *Bench) Result { return b.newPart(ctx, l, drill) })
	}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		var out []Result
		for _, f := range do {
			out = append(out, f(ctx, b))
		}
		return out
	}}
}

// lease6 has a new device ask, once it has seen an advertisement.
func (b *Bench) lease6(ctx context.Context, l *LAN, prefix int) (*lab.Client, *dhcpv6.Message, error) {
	c, err := b.device(l)
	if err != nil {
		return nil, nil, err
	}
	if _, _, ok := c.Autoconfigured(ctx, joinLimit); !ok {
		return nil, nil, fmt.Errorf("no router advertisement in %s", joinLimit)
	}
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	m, err := c.Lease6(ctx, prefix)
	return c, m, err
}

// newLease6 tells whether a new device gets an address of the pool, and is called by
// its name then.
func (b *Bench) newLease6(ctx context.Context, l *LAN, drill string) Result {
	const about = "a new device gets an address of the pool by DHCPv6, and its name"
	look := "dhcp6 of lan " + l.Name
	start := time.Now()
	c, m, err := b.lease6(ctx, l, 0)
	look += "; weir's log: " + b.Daemon.Log(3)
	if err != nil {
		return fail(drill, about, "a lease", err.Error(), look)
	}
	var given []netip.Addr
	if na := m.Options.OneIANA(); na != nil {
		for _, o := range na.Options.Addresses() {
			a, _ := netip.AddrFromSlice(o.IPv6Addr)
			given = append(given, a)
		}
	}
	if len(given) == 0 || !slices.ContainsFunc(given, func(a netip.Addr) bool { return inPool6(l, a) }) {
		return fail(drill, about, "an address of the pool", fmt.Sprintf("%v", given), look)
	}
	var seen string
	domain := l.Domain[0]
	named := lab.Until(ctx, b.patience(nameLimit), func() bool {
		r, err := b.Clients[l.Name].Resolve(ctx, b.resolver(l), c.Name+"."+domain, dns.TypeAAAA, time.Second)
		if err != nil {
			seen = err.Error()
			return false
		}
		seen = fmt.Sprintf("%s %v", dns.RcodeToString[r.Rcode], r.Answer)
		return slices.ContainsFunc(r.Answer, func(rr dns.RR) bool {
			return slices.ContainsFunc(given, func(a netip.Addr) bool { return strings.HasSuffix(rr.String(), "\t"+a.String()) })
		})
	})
	if !named {
		return fail(drill, about, fmt.Sprintf("%s.%s is one of %v", c.Name, domain, given), seen, look)
	}
	return pass(drill, about, secs("took", time.Since(start)))
}

// inPool6 says whether an address is in a LAN's pool; one of lower halves is in each
// network.
func inPool6(l *LAN, a netip.Addr) bool {
	half := func(a netip.Addr) uint64 {
		b := a.As16()
		return binary.BigEndian.Uint64(b[8:])
	}
	return slices.ContainsFunc(l.DHCP6.Pool, func(r config.Range) bool { return half(r.From) <= half(a) && half(a) <= half(r.To) })
}

// newPart tells whether a router in a LAN gets a prefix, and whether what comes from
// there reaches the internet and is answered.
func (b *Bench) newPart(ctx context.Context, l *LAN, drill string) Result {
	const about = "a router gets a prefix by DHCPv6, and its network reaches the internet"
	look := "dhcp6 of lan " + l.Name
	start := time.Now()
	c, m, err := b.lease6(ctx, l, l.DHCP6.Delegate)
	look += "; weir's log: " + b.Daemon.Log(3)
	if err != nil {
		return fail(drill, about, "a prefix", err.Error(), look)
	}
	var part netip.Prefix
	if pd := m.Options.OneIAPD(); pd != nil {
		for _, o := range pd.Options.Prefixes() {
			if a, ok := netip.AddrFromSlice(o.Prefix.IP); ok && !part.IsValid() {
				ones, _ := o.Prefix.Mask.Size()
				part = netip.PrefixFrom(a, ones)
			}
		}
	}
	if part.Bits() != l.DHCP6.Delegate {
		return fail(drill, about, fmt.Sprintf("a /%d", l.DHCP6.Delegate), part.String(), look)
	}
	own := part.Addr().Next()
	if err := c.AddAddr("lo", netip.PrefixFrom(own, 128)); err != nil {
		return fail(drill, about, "an address in "+part.String(), err.Error(), "the lab")
	}
	var seen string
	if !lab.Until(ctx, b.patience(nameLimit), func() bool {
		_, a, err := c.Ask(ctx, "udp", own, netip.AddrPortFrom(lab.Web(true), 7), 500*time.Millisecond)
		seen = fmt.Sprintf("%s (%v)", a, err)
		return a == lab.Answered
	}) {
		return fail(drill, about, "an answer to "+own.String(), seen, look)
	}
	return pass(drill, about, secs("took", time.Since(start)))
}
