package named

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
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
	six   string     // IPv6 addresses, in order, with spaces between: comparable
	dhcid string     // the name's holder
}

// all are its addresses of both families.
func (h held) all() []netip.Addr {
	out := h.sixes()
	if h.addr.IsValid() {
		out = append([]netip.Addr{h.addr}, out...)
	}
	return out
}

func (h held) sixes() (out []netip.Addr) {
	for _, s := range strings.Fields(h.six) {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// sixText is what held.six has of addresses.
func sixText(addrs []netip.Addr) string {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.Addr.Compare)
	var out []string
	for _, a := range slices.Compact(addrs) {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

// leases keeps the names of leases in the zones as they should be. What is there
// is known from the zones alone: a DHCID record says that a name, or the reverse
// of an address, came from a lease.
type leases struct {
	names   map[string]held   // by absolute name
	reverse map[string]string // the name that an address has, by its reverse name
	fresh   map[string]bool   // names that were learnt since the last sync
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
			if s.fresh == nil {
				s.fresh = map[string]bool{}
			}
			s.fresh[name] = true
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
			h := s.names[name]
			h.addr, h.dhcid = a, mine[name]
			s.names[name] = h
		case *dns.AAAA:
			a, _ := netip.AddrFromSlice(rr.AAAA)
			h := s.names[name]
			h.six, h.dhcid = sixText(append(h.sixes(), a)), mine[name]
			s.names[name] = h
		case *dns.PTR:
			s.reverse[name] = absolute(rr.Ptr)
		}
	}
}

// settle tells, of what was learnt, the IPv6 addresses that leases gave from those
// that others put there with keys: the reverse of the former is a lease's too.
func (s *leases) settle() {
	for name := range s.fresh {
		if h, ok := s.names[name]; ok {
			h.six = sixText(slices.DeleteFunc(h.sixes(), func(a netip.Addr) bool { return s.reverse[reverseOf(a)] != name }))
			s.names[name] = h
		}
	}
	s.fresh = nil
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
		if !ok || !l.any().IsValid() {
			continue
		}
		for _, name := range c.names(label, l.Domains) {
			if taken[name] {
				if !slices.ContainsFunc(c.Hosts, func(h Host) bool { return h.Name == label && slices.Contains(h.Addrs, l.any()) }) {
					notes = append(notes, fmt.Sprintf("%s calls itself %s, which is another's by the file: it has no name", l.any(), spoken(name)))
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
			by[name] = append(by[name], given{name, held{l.Addr, sixText(l.Six), id}})
		}
	}
	for _, name := range order {
		all := by[name]
		i := max(0, slices.IndexFunc(all, func(g given) bool { return g.dhcid == s.names[name].dhcid }))
		for j, g := range all {
			if g.dhcid != all[i].dhcid {
				notes = append(notes, fmt.Sprintf("%s calls itself %s as %s does, which was first: it has no name", all[j].all()[0], spoken(name), all[i].all()[0]))
			}
		}
		out = append(out, all[i])
	}
	return out, notes
}

// sync makes the zones hold the names of the leases, and no others of leases.
func (s *leases) sync(ctx context.Context, u client, c Config, zones []*zone) (notes []string, err error) {
	s.settle()
	want, notes := s.wanted(c, zones)
	byName := map[string]given{}
	byReverse := map[string]string{}
	for _, g := range want {
		byName[g.name] = g
		for _, a := range g.all() {
			if arpa := reverseOf(a); byReverse[arpa] == "" {
				byReverse[arpa] = g.name
			}
		}
	}
	for name, h := range s.names {
		if _, ok := byName[name]; !ok {
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
		for _, a := range g.all() {
			if arpa := reverseOf(a); s.names[g.name] == g.held && byReverse[arpa] == g.name && s.reverse[arpa] != g.name {
				err = errors.Join(err, s.giveReverse(ctx, u, zones, arpa, g))
			}
		}
	}
	return notes, err
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: seconds(leaseTTL)}
}

// records are a name's: its addresses, and whose it is.
func (h held) records(name string) (addrs []dns.RR, id dns.RR) {
	for _, a := range h.all() {
		if a.Is4() {
			addrs = append(addrs, &dns.A{Hdr: header(name, dns.TypeA), A: a.AsSlice()})
		} else {
			addrs = append(addrs, &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	return addrs, &dns.DHCID{Hdr: header(name, dns.TypeDHCID), Digest: h.dhcid}
}

// give puts a name in, as RFC 4703, 5.3 has it: a new one if nobody has it, else
// if it is this client's.
func (s *leases) give(ctx context.Context, u client, zones []*zone, g given) (note string, err error) {
	z := zoneOf(zones, g.name)
	if z == nil {
		return "", nil
	}
	before, ours := s.names[g.name]
	addrs, id := g.records(g.name)
	if !ours {
		m := new(dns.Msg)
		m.SetUpdate(z.name)
		m.NameNotUsed([]dns.RR{id})
		m.Insert(append([]dns.RR{dns.Copy(id)}, addrs...))
		rcode, err := u.update(ctx, m)
		switch {
		case err != nil || rcode != dns.RcodeSuccess && rcode != dns.RcodeYXDomain:
			return "", updateError("give "+spoken(g.name)+" to "+g.all()[0].String(), rcode, err)
		case rcode == dns.RcodeSuccess:
			s.names[g.name] = g.held
			return "", nil
		}
	}
	m := new(dns.Msg)
	m.SetUpdate(z.name)
	// What others put there with keys stays; who it is may be known better by now,
	// when a device has a lease of the other family too.
	if !ours {
		before = held{dhcid: g.dhcid}
	}
	old, holder := before.records(g.name)
	m.Used([]dns.RR{dns.Copy(holder)})
	m.RemoveRRset([]dns.RR{&dns.A{Hdr: header(g.name, dns.TypeA)}})
	if len(old) > 0 {
		m.Remove(old)
	}
	if g.dhcid != before.dhcid {
		m.RemoveRRset([]dns.RR{&dns.DHCID{Hdr: header(g.name, dns.TypeDHCID)}})
		m.Insert([]dns.RR{id})
	}
	m.Insert(addrs)
	rcode, err := u.update(ctx, m)
	switch {
	case err != nil || rcode != dns.RcodeSuccess && rcode != dns.RcodeNXRrset:
		return "", updateError("give "+spoken(g.name)+" to "+g.all()[0].String(), rcode, err)
	case rcode == dns.RcodeNXRrset:
		delete(s.names, g.name)
		return fmt.Sprintf("%s calls itself %s, which somebody put into the zone with a key: it has no name", g.all()[0], spoken(g.name)), nil
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
		return updateError("give "+spoken(arpa)+" its name", rcode, err)
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
	if h.six != "" {
		m := new(dns.Msg)
		m.SetUpdate(z.name)
		m.Used([]dns.RR{dns.Copy(id)})
		ours, _ := held{six: h.six}.records(name)
		m.Remove(ours)
		if rcode, err := u.update(ctx, m); err != nil || rcode != dns.RcodeSuccess && rcode != dns.RcodeNXRrset {
			return updateError("take "+spoken(name)+" out", rcode, err)
		}
	}
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
