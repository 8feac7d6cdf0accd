package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// reverse answers for addresses that are the house's or nobody's. Whose an
// address is, is decided by the address and not by comparing names: a network
// need not end where a label does.
func (z *Zone) reverse(q dns.Question, name string) (Answer, bool) {
	p, below, ok := parseReverse(name)
	if !ok {
		return Answer{}, false
	}
	zone, ours := z.reverseZone(p)
	if zone == "" {
		return Answer{}, false
	}
	negative := func(rcode int) (Answer, bool) {
		if ours {
			return z.negative(rcode, zone), true
		}
		return Answer{Rcode: rcode, Ns: []dns.RR{emptySOA(zone)}}, true
	}
	if !below && p.IsSingleIP() {
		if host, ok := z.ptr[p.Addr()]; ok {
			if q.Qtype != dns.TypePTR {
				return negative(dns.RcodeSuccess)
			}
			return Answer{Answer: []dns.RR{&dns.PTR{Hdr: header(q.Name, dns.TypePTR, localTTL), Ptr: host}}}, true
		}
	}
	if name == zone {
		rrs := emptyApex(q, zone)
		if ours {
			rrs = z.apex(q, zone)
		}
		if len(rrs) > 0 {
			return Answer{Answer: rrs}, true
		}
		return negative(dns.RcodeSuccess)
	}
	if !below {
		for a := range z.ptr {
			if p.Contains(a) { // a name between the zone and an address (RFC 8020)
				return negative(dns.RcodeSuccess)
			}
		}
	}
	return negative(dns.RcodeNameError)
}

// reverseZone returns the name of the zone of ours that p is in; ours tells a
// LAN's from an empty one (RFC 6303). "" if p is somebody else's, or wider than
// what is ours.
func (z *Zone) reverseZone(p netip.Prefix) (zone string, ours bool) {
	within := func(n netip.Prefix) (string, bool) {
		if n.Bits() > p.Bits() || !n.Contains(p.Addr()) {
			return "", false
		}
		step := 4
		if p.Addr().Is4() {
			step = 8
		}
		bits := (n.Bits() + step - 1) / step * step
		return ReverseName(netip.PrefixFrom(p.Addr(), bits).Masked()), true
	}
	best := -1
	for _, l := range z.lans {
		for _, n := range l.Addrs {
			if n.Bits() <= best {
				continue
			}
			if name, ok := within(n); ok {
				zone, ours, best = name, true, n.Bits()
			}
		}
	}
	if ours {
		return zone, true
	}
	for _, n := range unroutable {
		if name, ok := within(n); ok {
			return name, false
		}
	}
	return "", false
}

// parseReverse reads a name under in-addr.arpa or ip6.arpa as the network that
// it stands for. below says that there are further labels, which are no part of
// an address. ok is false for the two apexes and for names that hold no address.
func parseReverse(name string) (p netip.Prefix, below, ok bool) {
	labels := dns.SplitDomainName(name)
	if len(labels) < 3 {
		return netip.Prefix{}, false, false
	}
	v4 := labels[len(labels)-2] == "in-addr"
	labels = labels[:len(labels)-2]
	slices.Reverse(labels)
	n := 0 // bits
	if v4 {
		var a [4]byte
		for ; n < 32 && n/8 < len(labels); n += 8 {
			l := labels[n/8]
			v, err := strconv.ParseUint(l, 10, 8)
			if err != nil || l != strconv.FormatUint(v, 10) {
				break
			}
			a[n/8] = byte(v)
		}
		p = netip.PrefixFrom(netip.AddrFrom4(a), n)
		return p, n/8 < len(labels), n > 0
	}
	var a [16]byte
	for ; n < 128 && n/4 < len(labels); n += 4 {
		l := labels[n/4]
		v, err := strconv.ParseUint(l, 16, 4)
		if err != nil || len(l) != 1 {
			break
		}
		a[n/8] |= byte(v) << (4 - n%8)
	}
	p = netip.PrefixFrom(netip.AddrFrom16(a), n)
	return p, n/4 < len(labels), n > 0
}

// ReverseName is the name, with its last dot, of a network whose length is a
// multiple of 8 (IPv4; RFC 1035, 3.5) or 4 (IPv6; RFC 3596, 2.5).
func ReverseName(p netip.Prefix) string {
	var b strings.Builder
	raw := p.Addr().AsSlice()
	if p.Addr().Is4() {
		for i := p.Bits()/8 - 1; i >= 0; i-- {
			fmt.Fprintf(&b, "%d.", raw[i])
		}
		return b.String() + "in-addr.arpa."
	}
	for i := p.Bits()/4 - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "%x.", raw[i/2]>>(4-4*(i%2))&0xf)
	}
	return b.String() + "ip6.arpa."
}
