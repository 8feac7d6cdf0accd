package lab

import (
	"crypto"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// root is the key of the DNS root that all of the lab's internets share. There is
// no zone below it: whatever is asked stands in the root itself, so that a
// resolver that starts at the root and validates finds every name, signed.
type root struct {
	key    *dns.DNSKEY
	signer crypto.Signer
}

func newRoot() (root, error) {
	k := &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: ".", Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600},
		Flags: dns.ZONE | dns.SEP, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}
	private, err := k.Generate(256)
	if err != nil {
		return root{}, fmt.Errorf("make the key of the lab's DNS root: %w", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return root{}, fmt.Errorf("make the key of the lab's DNS root: a %T can't sign", private)
	}
	return root{k, signer}, nil
}

// RootAnchors are the DS records of the lab's DNS root, in master-file form: what
// a validator on the gateway has to start from.
func (l *Lab) RootAnchors() string { return l.root.key.ToDS(dns.SHA256).String() + "\n" }

// apex answers for the root's own records.
func (r root) apex(qtype uint16) []dns.RR {
	hdr := func(t uint16) dns.RR_Header {
		return dns.RR_Header{Name: ".", Rrtype: t, Class: dns.ClassINET, Ttl: 3600}
	}
	switch qtype {
	case dns.TypeNS:
		return []dns.RR{&dns.NS{Hdr: hdr(dns.TypeNS), Ns: "a.root-servers.net."}}
	case dns.TypeSOA:
		return []dns.RR{&dns.SOA{Hdr: hdr(dns.TypeSOA), Ns: "a.root-servers.net.", Mbox: "nobody.invalid.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: 5}}
	case dns.TypeDNSKEY:
		return []dns.RR{dns.Copy(r.key)}
	}
	return nil
}

// complete makes m, which has the answer to q, what the root's server would send
// to one that validates: signed, and with proof of what there is not. The proof
// says that the name has some types and not that one (RFC 4470, 9824), also for
// names that there are not. now is the internet's time.
func (r root) complete(m, q *dns.Msg, now time.Time) error {
	name := q.Question[0].Name
	if name == "." {
		m.Answer = r.apex(q.Question[0].Qtype)
	}
	if len(m.Answer) == 0 {
		m.Rcode = dns.RcodeSuccess
		types := []uint16{dns.TypeRRSIG, dns.TypeNSEC}
		if name == "." {
			types = []uint16{dns.TypeNS, dns.TypeSOA, dns.TypeRRSIG, dns.TypeNSEC, dns.TypeDNSKEY}
		} else if !private(name) {
			types = []uint16{dns.TypeA, dns.TypeTXT, dns.TypeAAAA, dns.TypeRRSIG, dns.TypeNSEC}
		}
		m.Ns = append(r.apex(dns.TypeSOA), &dns.NSEC{
			Hdr:        dns.RR_Header{Name: name, Rrtype: dns.TypeNSEC, Class: dns.ClassINET, Ttl: 5},
			NextDomain: `\000.` + strings.TrimSuffix(name, ".") + ".", TypeBitMap: types,
		})
		if name == "." {
			m.Ns[len(m.Ns)-1].(*dns.NSEC).NextDomain = `\000.`
		}
	}
	for _, section := range []*[]dns.RR{&m.Answer, &m.Ns} {
		var signed []dns.RR
		for _, rr := range *section { // one record to each type: a set by itself
			// Valid for the internet, and for a machine that is an hour behind it.
			sig := &dns.RRSIG{
				Hdr:       dns.RR_Header{Name: rr.Header().Name, Rrtype: dns.TypeRRSIG, Class: dns.ClassINET, Ttl: rr.Header().Ttl},
				Algorithm: r.key.Algorithm, Inception: uint32(now.Add(-2 * TimeAhead).Unix()), Expiration: uint32(now.Add(24 * time.Hour).Unix()),
				KeyTag: r.key.KeyTag(), SignerName: ".",
			}
			if err := sig.Sign(r.signer, []dns.RR{rr}); err != nil {
				return fmt.Errorf("sign %s: %w", rr.Header().Name, err)
			}
			signed = append(signed, rr, sig)
		}
		*section = signed
	}
	return nil
}
