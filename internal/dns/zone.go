package dns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// localTTL is how long clients may keep a local name, in seconds. Leases come
// and go; asking again costs a millisecond.
const localTTL = 60

// Zone is what the house answers by itself. It does not change once made; a new
// Config makes a new one.
type Zone struct {
	domain  string // "home.arpa."
	gateway string // "gw.home.arpa."
	serial  uint32
	lans    []LAN
	private []string                // domains that may point into the house, canonical
	names   map[string][]netip.Addr // by lower-case fully qualified name
	ptr     map[netip.Addr]string
}

// Answer is the house's own answer to a question.
type Answer struct {
	Rcode  int
	Answer []dns.RR
	Ns     []dns.RR // the SOA, where there is no such name or no such record (RFC 2308, 3)
}

// NewZone makes the zone of a configuration. serial is the SOA's.
//
// What a client calls itself is a wish: a lease's name that is no label, is the
// gateway's or a host's from the file, or is held by a newer lease, is left out.
func NewZone(c Config, serial uint32) *Zone {
	z := &Zone{
		domain: dns.CanonicalName(c.Domain),
		serial: serial,
		lans:   c.LANs,
		names:  map[string][]netip.Addr{},
		ptr:    map[netip.Addr]string{},
	}
	z.gateway = strings.ToLower(c.Gateway) + "." + z.domain
	for _, d := range c.Private {
		z.private = append(z.private, dns.CanonicalName(d))
	}
	for _, l := range c.LANs {
		for _, p := range l.Addrs {
			z.add(z.gateway, p.Addr())
		}
	}
	z.names[z.domain] = z.names[z.gateway]
	file := map[string]bool{z.gateway: true}
	for _, h := range c.Hosts {
		name := strings.ToLower(h.Name) + "." + z.domain
		file[name] = true
		z.add(name, h.Addrs...)
	}
	leased := map[string]bool{}
	for _, l := range c.Leases {
		label, ok := Label(l.Name)
		if !ok {
			continue
		}
		name := label + "." + z.domain
		if name == z.gateway || leased[name] || file[name] && len(z.names[name]) > 0 {
			continue
		}
		leased[name] = true
		z.add(name, l.Addrs...)
	}
	z.ptr[netip.AddrFrom4([4]byte{127, 0, 0, 1})] = "localhost."
	z.ptr[netip.IPv6Loopback()] = "localhost."
	return z
}

// add gives a name addresses, and each address its name unless it has one.
func (z *Zone) add(name string, addrs ...netip.Addr) {
	if _, ok := z.names[name]; !ok {
		z.names[name] = nil // there, even without an address yet
	}
	for _, a := range addrs {
		a = a.Unmap().WithZone("")
		if !slices.Contains(z.names[name], a) {
			z.names[name] = append(z.names[name], a)
		}
		if _, ok := z.ptr[a]; !ok {
			z.ptr[a] = name
		}
	}
}

// Answer answers what the house answers by itself; ok is false for questions
// that are for others. It is pure. client is who asks: of a name with addresses
// in several LANs it gets the one on its own first, and of the gateway only that.
func (z *Zone) Answer(q dns.Question, client netip.Addr) (a Answer, ok bool) {
	name := dns.CanonicalName(q.Name)
	switch {
	case dns.IsSubDomain("localhost.", name):
		return z.localhost(q), true
	case dns.IsSubDomain(z.domain, name):
		if q.Qtype == dns.TypeDS && name == "home.arpa." {
			// RFC 8375, 4: the DS of home.arpa is the parent's to deny.
			return Answer{}, false
		}
		return z.forward(q, name, client.Unmap().WithZone("")), true
	case dns.IsSubDomain("in-addr.arpa.", name), dns.IsSubDomain("ip6.arpa.", name):
		return z.reverse(q, name)
	}
	if s, ok := special(q, name); ok {
		return s, true
	}
	if dns.CountLabel(name) == 1 && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA) {
		// A name without a dot: somebody's device, asked for without the domain. No
		// top-level domain has addresses of its own (ICANN SSAC 053), so it is not
		// told to the ISP.
		a := z.forward(q, name+z.domain, client.Unmap().WithZone(""))
		if a.Rcode == dns.RcodeNameError || len(a.Answer) == 0 {
			a.Ns = nil // the SOA would be another zone's
		}
		return a, true
	}
	return Answer{}, false
}

// forward answers for the house's domain.
func (z *Zone) forward(q dns.Question, name string, client netip.Addr) Answer {
	addrs, ok := z.names[name]
	if !ok {
		return z.negative(dns.RcodeNameError, z.domain)
	}
	if name == z.gateway || name == z.domain {
		addrs = z.onClientsLAN(addrs, client, true)
	} else if len(addrs) > 1 {
		addrs = z.onClientsLAN(addrs, client, false)
	}
	var a Answer
	for _, addr := range addrs {
		if rr := addrRR(q.Name, addr); rr.Header().Rrtype == q.Qtype {
			a.Answer = append(a.Answer, rr)
		}
	}
	if name == z.domain {
		a.Answer = append(a.Answer, z.apex(q, z.domain)...)
	}
	if len(a.Answer) == 0 {
		return z.negative(dns.RcodeSuccess, z.domain)
	}
	return a
}

// onClientsLAN puts the addresses on the client's own LAN first. With only it
// leaves the others out, in each family that has one there: a guest need not
// learn where else the gateway is.
func (z *Zone) onClientsLAN(addrs []netip.Addr, client netip.Addr, only bool) []netip.Addr {
	var lan *LAN
	for i, l := range z.lans {
		if slices.ContainsFunc(l.Addrs, func(p netip.Prefix) bool { return p.Contains(client) }) {
			lan = &z.lans[i]
			break
		}
	}
	if lan == nil {
		return addrs
	}
	var near, far []netip.Addr
	var near4, near6 bool
	for _, a := range addrs {
		if slices.ContainsFunc(lan.Addrs, func(p netip.Prefix) bool { return p.Contains(a) }) {
			near = append(near, a)
			near4, near6 = near4 || a.Is4(), near6 || a.Is6()
		} else {
			far = append(far, a)
		}
	}
	for _, a := range far {
		if !only || a.Is4() && !near4 || a.Is6() && !near6 {
			near = append(near, a)
		}
	}
	return near
}

// localhost answers for localhost and what is below it (RFC 6761, 6.3).
func (z *Zone) localhost(q dns.Question) Answer {
	for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		if rr := addrRR(q.Name, a); rr.Header().Rrtype == q.Qtype {
			return Answer{Answer: []dns.RR{rr}}
		}
	}
	return Answer{Ns: []dns.RR{emptySOA("localhost.")}}
}

// apex returns the SOA or NS of a zone of ours.
func (z *Zone) apex(q dns.Question, zone string) []dns.RR {
	switch q.Qtype {
	case dns.TypeSOA:
		return []dns.RR{z.soa(zone)}
	case dns.TypeNS:
		return []dns.RR{&dns.NS{Hdr: header(zone, dns.TypeNS, localTTL), Ns: z.gateway}}
	}
	return nil
}

// negative is the answer for no such name (RcodeNameError) or no such record.
func (z *Zone) negative(rcode int, zone string) Answer {
	return Answer{Rcode: rcode, Ns: []dns.RR{z.soa(zone)}}
}

// soa is the start of authority of a zone of ours. Nobody transfers it; what
// counts is Minttl, the time that clients may remember that a name is not there.
func (z *Zone) soa(zone string) dns.RR {
	return &dns.SOA{
		Hdr: header(zone, dns.TypeSOA, localTTL), Ns: z.gateway, Mbox: "hostmaster." + z.domain,
		Serial: z.serial, Refresh: 3600, Retry: 600, Expire: 604800, Minttl: localTTL,
	}
}

func header(name string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// addrRR is the A or AAAA record of an address of the house.
func addrRR(name string, a netip.Addr) dns.RR {
	if a.Is4() {
		return &dns.A{Hdr: header(name, dns.TypeA, localTTL), A: a.AsSlice()}
	}
	return &dns.AAAA{Hdr: header(name, dns.TypeAAAA, localTTL), AAAA: a.AsSlice()}
}
