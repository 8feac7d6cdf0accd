package named

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	weirdns "weir/internal/dns"
)

// leaseTTL is how long a lease's name may be remembered: leases come and go, and
// asking again costs a millisecond.
const leaseTTL = time.Minute

// held is a name that a lease has in the zones.
type held struct {
	addr  netip.Addr // invalid: none
	dhcid string     // the name's holder
}

// leases keeps the names of leases in the zones as they should be. What is there
// is known from the zones alone: a DHCID record says that a name, or the reverse
// of an address, came from a lease.
type leases struct {
	names   map[string]held   // by absolute name
	reverse map[string]string // the name that an address has, by its reverse name
}

// learn takes in what a zone holds.
func (s *leases) learn(zone string, rrs []dns.RR) {
	maps.DeleteFunc(s.names, func(name string, _ held) bool { return within(name, zone) })
	maps.DeleteFunc(s.reverse, func(name, _ string) bool { return within(name, zone) })
	mine := map[string]string{}
	for _, rr := range rrs {
		if d, ok := rr.(*dns.DHCID); ok {
			mine[absolute(d.Hdr.Name)] = d.Digest
		}
	}
	for name, id := range mine {
		if _, ok := s.names[name]; !ok && !within(name, "arpa.") {
			s.names[name] = held{dhcid: id}
		}
	}
	for _, rr := range rrs {
		name := absolute(rr.Header().Name)
		if mine[name] == "" {
			continue
		}
		switch rr := rr.(type) {
		case *dns.A:
			a, _ := netip.AddrFromSlice(rr.A.To4())
			s.names[name] = held{addr: a, dhcid: mine[name]}
		case *dns.PTR:
			s.reverse[name] = absolute(rr.Ptr)
		}
	}
}

// given is a lease and the name that it is to have.
type given struct {
	name string
	held
}

// wanted are the names that leases are to have: what a client calls itself is a
// wish. A name that the file or the router has, or that means something else to
// clients, is nobody's. Of two clients that want one name the one that has it
// keeps it, else the first gets it. notes say who got none, and why.
func (s *leases) wanted(c Config, zones []*zone) (out []given, notes []string) {
	taken := map[string]bool{}
	for _, z := range zones {
		for _, rr := range z.rrs {
			taken[rr.Header().Name] = true
		}
	}
	by := map[string][]given{}
	var order []string
	for _, l := range c.Leases {
		label, ok := weirdns.Label(l.Name)
		if !ok {
			continue
		}
		for _, name := range c.names(label, l.Domains) {
			if taken[name] {
				if !slices.ContainsFunc(c.Hosts, func(h Host) bool { return h.Name == label && slices.Contains(h.Addrs, l.Addr) }) {
					notes = append(notes, fmt.Sprintf("%s calls itself %s, which is another's by the file: it has no name", l.Addr, spoken(name)))
				}
				continue
			}
			id, err := dhcidOf(name, l)
			if err != nil {
				notes = append(notes, err.Error())
				continue
			}
			if by[name] == nil {
				order = append(order, name)
			}
			by[name] = append(by[name], given{name, held{l.Addr, id}})
		}
	}
	for _, name := range order {
		all := by[name]
		i := max(0, slices.IndexFunc(all, func(g given) bool { return g.dhcid == s.names[name].dhcid }))
		for j, g := range all {
			if g.dhcid != all[i].dhcid {
				notes = append(notes, fmt.Sprintf("%s calls itself %s as %s does, which was first: it has no name", all[j].addr, spoken(name), all[i].addr))
			}
		}
		out = append(out, all[i])
	}
	return out, notes
}

// sync makes the zones hold the names of the leases, and no others of leases.
func (s *leases) sync(ctx context.Context, u client, c Config, zones []*zone) (notes []string, err error) {
	want, notes := s.wanted(c, zones)
	byName := map[string]given{}
	byReverse := map[string]string{}
	for _, g := range want {
		byName[g.name] = g
		if arpa := reverseOf(g.addr); byReverse[arpa] == "" {
			byReverse[arpa] = g.name
		}
	}
	for name, h := range s.names {
		if g, ok := byName[name]; !ok || g.dhcid != h.dhcid {
			err = errors.Join(err, s.take(ctx, u, zones, name, h))
		}
	}
	for arpa, name := range s.reverse {
		if byReverse[arpa] == "" {
			err = errors.Join(err, s.takeReverse(ctx, u, zones, arpa, name))
		}
	}
	for _, g := range want {
		if s.names[g.name] != g.held {
			note, gerr := s.give(ctx, u, zones, g)
			if err = errors.Join(err, gerr); note != "" {
				notes = append(notes, note)
			}
		}
		if arpa := reverseOf(g.addr); s.names[g.name] == g.held && byReverse[arpa] == g.name && s.reverse[arpa] != g.name {
			err = errors.Join(err, s.giveReverse(ctx, u, zones, arpa, g))
		}
	}
	return notes, err
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: seconds(leaseTTL)}
}

func (h held) records(name string) (addr, id dns.RR) {
	return &dns.A{Hdr: header(name, dns.TypeA), A: h.addr.AsSlice()}, &dns.DHCID{Hdr: header(name, dns.TypeDHCID), Digest: h.dhcid}
}

// give puts a name in, as RFC 4703, 5.3 has it: a new one if nobody has it, else
// if it is this client's.
func (s *leases) give(ctx context.Context, u client, zones []*zone, g given) (note string, err error) {
	z := zoneOf(zones, g.name)
	if z == nil {
		return "", nil
	}
	if _, ours := s.names[g.name]; !ours {
		m := new(dns.Msg)
		m.SetUpdate(z.name)
		a, id := g.records(g.name)
		m.NameNotUsed([]dns.RR{a})
		m.Insert([]dns.RR{a, id})
		rcode, err := u.update(ctx, m)
		switch {
		case err != nil || rcode != dns.RcodeSuccess && rcode != dns.RcodeYXDomain:
			return "", updateError("give "+spoken(g.name)+" to "+g.addr.String(), rcode, err)
		case rcode == dns.RcodeSuccess:
			s.names[g.name] = g.held
			return "", nil
		}
	}
	m := new(dns.Msg)
	m.SetUpdate(z.name)
	a, id := g.records(g.name)
	m.Used([]dns.RR{id})
	m.RemoveRRset([]dns.RR{a})
	m.Insert([]dns.RR{a})
	rcode, err := u.update(ctx, m)
	switch {
	case err != nil || rcode != dns.RcodeSuccess && rcode != dns.RcodeNXRrset:
		return "", updateError("give "+spoken(g.name)+" to "+g.addr.String(), rcode, err)
	case rcode == dns.RcodeNXRrset:
		delete(s.names, g.name)
		return fmt.Sprintf("%s calls itself %s, which somebody put into the zone with a key: it has no name", g.addr, spoken(g.name)), nil
	}
	s.names[g.name] = g.held
	return "", nil
}

// giveReverse gives an address its name (RFC 4703, 5.4).
func (s *leases) giveReverse(ctx context.Context, u client, zones []*zone, arpa string, g given) error {
	z := zoneOf(zones, arpa)
	if z == nil || slices.ContainsFunc(z.rrs, func(rr dns.RR) bool { return rr.Header().Name == arpa }) {
		return nil // not ours; or a host's of the file
	}
	m := new(dns.Msg)
	m.SetUpdate(z.name)
	ptr := &dns.PTR{Hdr: header(arpa, dns.TypePTR), Ptr: g.name}
	id := &dns.DHCID{Hdr: header(arpa, dns.TypeDHCID), Digest: g.dhcid}
	m.RemoveRRset([]dns.RR{ptr, id})
	m.Insert([]dns.RR{ptr, id})
	if rcode, err := u.update(ctx, m); err != nil || rcode != dns.RcodeSuccess {
		return updateError("name "+g.addr.String(), rcode, err)
	}
	s.reverse[arpa] = g.name
	return nil
}

// take takes a name out when its lease has ended (RFC 4703, 5.5), unless it is
// somebody else's by now. What else others put at it goes too, but for the
// addresses of the other family.
func (s *leases) take(ctx context.Context, u client, zones []*zone, name string, h held) error {
	z := zoneOf(zones, name)
	if z == nil {
		delete(s.names, name)
		return nil
	}
	id := &dns.DHCID{Hdr: header(name, dns.TypeDHCID), Digest: h.dhcid}
	m := new(dns.Msg)
	m.SetUpdate(z.name)
	m.Used([]dns.RR{dns.Copy(id)})
	m.RRsetNotUsed([]dns.RR{&dns.AAAA{Hdr: header(name, dns.TypeAAAA)}})
	m.RemoveName([]dns.RR{id})
	rcode, err := u.update(ctx, m)
	if err == nil && rcode == dns.RcodeYXRrset {
		m = new(dns.Msg)
		m.SetUpdate(z.name)
		m.Used([]dns.RR{dns.Copy(id)})
		m.RemoveRRset([]dns.RR{&dns.A{Hdr: header(name, dns.TypeA)}})
		rcode, err = u.update(ctx, m)
	}
	if err != nil || rcode != dns.RcodeSuccess && rcode != dns.RcodeNXRrset {
		return updateError("take "+spoken(name)+" out", rcode, err)
	}
	delete(s.names, name)
	return nil
}

// takeReverse takes an address's name out, if it still has that one.
func (s *leases) takeReverse(ctx context.Context, u client, zones []*zone, arpa, name string) error {
	z := zoneOf(zones, arpa)
	if z == nil {
		delete(s.reverse, arpa)
		return nil
	}
	ptr := &dns.PTR{Hdr: header(arpa, dns.TypePTR), Ptr: name}
	m := new(dns.Msg)
	m.SetUpdate(z.name)
	m.Used([]dns.RR{dns.Copy(ptr)})
	m.RemoveRRset([]dns.RR{ptr, &dns.DHCID{Hdr: header(arpa, dns.TypeDHCID)}})
	rcode, err := u.update(ctx, m)
	if err != nil || rcode != dns.RcodeSuccess && rcode != dns.RcodeNXRrset {
		return updateError("take "+spoken(arpa)+" out", rcode, err)
	}
	delete(s.reverse, arpa)
	return nil
}

func updateError(what string, rcode int, err error) error {
	if err == nil {
		err = errors.New("named says " + dns.RcodeToString[rcode])
	}
	return fmt.Errorf("%s: %w", what, err)
}
