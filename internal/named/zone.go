package named

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// zone is a zone that is served and updated here.
type zone struct {
	name string // absolute
	ttl  uint32
	soa  SOA
	rrs  []dns.RR // but for the SOA; each once
}

// absolute is a name as DNS has it.
func absolute(name string) string { return dns.CanonicalName(name) }

// zonesOf are the zones of a configuration with all that it puts into them, but
// for leases: the house's domain, the file's, and the reverse ones of LANs and
// cables that no zone of the file has in it.
func zonesOf(c Config) ([]*zone, error) {
	b := builder{named: map[string]string{}}
	house := Zone{Name: c.Domain}
	for _, z := range c.Zones {
		if absolute(z.Name) == absolute(c.Domain) {
			house = z
		}
	}
	b.add(house)
	for _, z := range c.Zones {
		if len(z.Forward) == 0 && absolute(z.Name) != absolute(c.Domain) {
			b.add(z)
		}
	}
	forwarded := func(name string) bool {
		return slices.ContainsFunc(c.Zones, func(z Zone) bool { return len(z.Forward) > 0 && within(name, absolute(z.Name)) })
	}
	for _, l := range c.LANs {
		for _, d := range l.Domains {
			if b.zone(absolute(d)) == nil { // one within another is no zone of its own
				b.add(Zone{Name: d})
			}
		}
	}
	for _, p := range networks(c) {
		for _, name := range reverseZones(p) {
			if b.zone(name) == nil && !forwarded(name) {
				b.add(Zone{Name: name})
			}
		}
	}
	router := absolute(c.Gateway + "." + c.Domain)
	for _, z := range b.zones {
		z.put(&dns.NS{Hdr: z.header(z.name, dns.TypeNS, 0), Ns: router})
	}
	b.router(c, router)
	for _, h := range c.Hosts {
		names := c.names(h.Name, h.Domains)
		for _, n := range names {
			b.addrs(n, 0, h.Addrs)
		}
		for _, a := range h.Alias {
			if z := b.zone(absolute(a)); z != nil {
				z.put(&dns.CNAME{Hdr: z.header(absolute(a), dns.TypeCNAME, 0), Target: names[0]})
			}
		}
	}
	for _, fz := range c.Zones {
		for _, r := range fz.Records {
			if err := b.record(b.zone(absolute(fz.Name)), r); err != nil {
				return nil, err
			}
		}
	}
	for _, z := range b.zones {
		slices.SortStableFunc(z.rrs, byName)
	}
	return b.zones, nil
}

// names are what a device is called in its domains.
func (c Config) names(label string, domains []string) []string {
	if len(domains) == 0 {
		domains = []string{c.Domain}
	}
	var out []string
	for _, d := range domains {
		out = append(out, absolute(label+"."+d))
	}
	return out
}

// byName is the order in which a zone's file is nice to read.
func byName(a, b dns.RR) int {
	x, y := dns.SplitDomainName(a.Header().Name), dns.SplitDomainName(b.Header().Name)
	slices.Reverse(x)
	slices.Reverse(y)
	return cmp.Or(slices.Compare(x, y), cmp.Compare(a.Header().Rrtype, b.Header().Rrtype), strings.Compare(a.String(), b.String()))
}

// networks are those of LANs and cables, each once.
func networks(c Config) []netip.Prefix {
	var out []netip.Prefix
	add := func(p netip.Prefix) {
		if p = p.Masked(); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, l := range c.LANs {
		for _, p := range l.Addrs {
			add(p)
		}
	}
	for _, k := range c.Cables {
		for _, p := range k.Networks {
			add(p)
		}
	}
	return out
}

// builder gathers zones.
type builder struct {
	zones []*zone
	named map[string]string // by reverse name: an address is called what it was called first
}

func (b *builder) add(z Zone) {
	b.zones = append(b.zones, &zone{name: absolute(z.Name), ttl: cmp.Or(z.TTL, DefaultTTL), soa: cmp.Or(z.SOA, DefaultSOA)})
}

// zone is the zone that a name is in, nil if it is in none.
func (b *builder) zone(name string) *zone { return zoneOf(b.zones, name) }

func zoneOf(zones []*zone, name string) *zone {
	var best *zone
	for _, z := range zones {
		if within(name, z.name) && (best == nil || len(z.name) > len(best.name)) {
			best = z
		}
	}
	return best
}

// router names the gateway: GW on all LANs, GW-LAN on each, GW in the domains of
// each, and the ends of the cables, together (GW-in, GW-out) and each by itself.
func (b *builder) router(c Config, router string) {
	own := func(suffix string) string { return absolute(c.Gateway + suffix + "." + c.Domain) }
	for _, l := range c.LANs {
		for _, p := range l.Addrs {
			b.addrs(router, 0, []netip.Addr{p.Addr()})
			b.addrs(absolute(c.Domain), 0, []netip.Addr{p.Addr()})
			b.addrs(own("-"+l.Name), 0, []netip.Addr{p.Addr()})
			for _, d := range l.Domains {
				b.addrs(absolute(c.Gateway+"."+d), 0, []netip.Addr{p.Addr()})
				b.addrs(absolute(d), 0, []netip.Addr{p.Addr()})
			}
		}
	}
	for _, k := range c.Cables {
		b.addrs(own("-"+k.WAN+"-in"), 0, k.Near)
		b.addrs(own("-"+k.WAN+"-out"), 0, k.Far)
		b.addrs(own("-in"), 0, k.Near)
		b.addrs(own("-out"), 0, k.Far)
	}
}

// addrs gives a name addresses, and each address its name unless it has one.
func (b *builder) addrs(name string, ttl uint32, addrs []netip.Addr) {
	z := b.zone(name)
	if z == nil {
		return
	}
	for _, a := range addrs {
		z.put(z.addr(name, ttl, a))
		arpa := reverseOf(a)
		if r := b.zone(arpa); r != nil && b.named[arpa] == "" && !strings.HasPrefix(name, "*.") {
			b.named[arpa] = name
			r.put(&dns.PTR{Hdr: r.header(arpa, dns.TypePTR, ttl), Ptr: name})
		}
	}
}

// record puts a record block's records into its zone.
func (b *builder) record(z *zone, r Record) error {
	name := z.name
	if r.Name != "@" {
		name = absolute(r.Name + "." + z.name)
	}
	b.addrs(name, r.TTL, r.Addrs)
	for _, t := range r.Texts {
		z.put(&dns.TXT{Hdr: z.header(name, dns.TypeTXT, r.TTL), Txt: pieces(t)})
	}
	for _, d := range r.Data {
		rr, err := ParseDatum(name, z.name, d)
		if err != nil {
			return err
		}
		rr.Header().Ttl = cmp.Or(r.TTL, z.ttl)
		z.put(rr)
	}
	return nil
}

// ParseDatum reads a record's data as named would; name and zone are absolute.
func ParseDatum(name, zone string, d Datum) (dns.RR, error) {
	zp := dns.NewZoneParser(strings.NewReader(fmt.Sprintf("%s 0 IN %s %s\n", name, d.Type, d.Data)), zone, "")
	rr, _ := zp.Next()
	if err := zp.Err(); err != nil {
		return nil, fmt.Errorf("%s %s %q: %w", name, d.Type, d.Data, err)
	}
	if rr == nil {
		return nil, fmt.Errorf("%s %s %q: there is nothing in it", name, d.Type, d.Data)
	}
	return rr, nil
}

// pieces are a text as the strings of a TXT record, of 255 bytes at most each
// (RFC 1035, 3.3), with what has a meaning to the library escaped.
func pieces(t string) []string {
	var out []string
	for len(t) > 255 {
		out, t = append(out, t[:255]), t[255:]
	}
	out = append(out, t)
	for i := range out {
		var e strings.Builder
		for _, c := range []byte(out[i]) {
			switch {
			case c == '\\' || c == '"':
				e.WriteByte('\\')
				e.WriteByte(c)
			case c < ' ' || c > '~':
				fmt.Fprintf(&e, "\\%03d", c)
			default:
				e.WriteByte(c)
			}
		}
		out[i] = e.String()
	}
	return out
}

// put adds a record unless it is there. Beside an alias nothing else can stand
// (RFC 2181, 10.1): what was there first stays.
func (z *zone) put(rr dns.RR) {
	h := rr.Header()
	for _, o := range z.rrs {
		if o.Header().Name != h.Name {
			continue
		}
		if dns.IsDuplicate(o, rr) || o.Header().Rrtype == dns.TypeCNAME || h.Rrtype == dns.TypeCNAME {
			return
		}
	}
	z.rrs = append(z.rrs, rr)
}

func (z *zone) header(name string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: cmp.Or(ttl, z.ttl)}
}

func (z *zone) addr(name string, ttl uint32, a netip.Addr) dns.RR {
	if a.Is4() {
		return &dns.A{Hdr: z.header(name, dns.TypeA, ttl), A: a.AsSlice()}
	}
	return &dns.AAAA{Hdr: z.header(name, dns.TypeAAAA, ttl), AAAA: a.AsSlice()}
}

// start is the zone's SOA.
func (z *zone) start(router string, serial uint32) *dns.SOA {
	mbox := "hostmaster." + router[strings.IndexByte(router, '.')+1:]
	return &dns.SOA{
		Hdr: z.header(z.name, dns.TypeSOA, 0), Ns: router, Mbox: mbox, Serial: serial,
		Refresh: z.soa.Refresh, Retry: z.soa.Retry, Expire: z.soa.Expire, Minttl: z.soa.Minimum,
	}
}

// text is the zone's file as it begins.
func (z *zone) text(router string, serial uint32) string {
	var b strings.Builder
	fmt.Fprintln(&b, z.start(router, serial))
	for _, rr := range z.rrs {
		fmt.Fprintln(&b, rr)
	}
	return b.String()
}
