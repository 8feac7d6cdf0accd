package named

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// change is what an update of a zone says.
type change struct {
	first  []dns.RR // added before all else: a zone is never without a name server
	remove []dns.RR
	add    []dns.RR
	soa    *dns.SOA // nil: it stays
}

func (c change) empty() bool {
	return len(c.first) == 0 && len(c.remove) == 0 && len(c.add) == 0 && c.soa == nil
}

// difference is the change that brings a zone from what it holds to what the
// configuration wants. before is what the configuration wanted up to now: of it
// goes what is wanted no more; what others put in stays.
func (z *zone) difference(holds []dns.RR, before []string, router string) change {
	var c change
	there := map[string]bool{}
	var soa *dns.SOA
	for _, rr := range holds {
		if s, ok := rr.(*dns.SOA); ok {
			soa = s
			continue
		}
		there[line(rr)] = true
	}
	wanted := map[string]bool{}
	for _, rr := range z.rrs {
		wanted[line(rr)] = true
		switch {
		case there[line(rr)]:
		case rr.Header().Rrtype == dns.TypeNS && rr.Header().Name == z.name:
			c.first = append(c.first, rr)
		default:
			c.add = append(c.add, rr)
		}
	}
	for _, s := range before {
		if wanted[s] || !there[s] {
			continue
		}
		if rr, err := dns.NewRR(s); err == nil && rr != nil {
			c.remove = append(c.remove, rr)
		}
	}
	if soa != nil {
		want := z.start(router, soa.Serial)
		if line(want) != line(soa) {
			want.Serial++ // RFC 1982: named takes a later one only
			c.soa = want
		}
	}
	return c
}

// lines are the records as they are noted.
func lines(rrs []dns.RR) []string {
	out := make([]string, len(rrs))
	for i, rr := range rrs {
		out[i] = line(rr)
	}
	return out
}

// line is a record in one form, however its owner's name is spelt.
func line(rr dns.RR) string {
	rr = dns.Copy(rr)
	rr.Header().Name = dns.CanonicalName(rr.Header().Name)
	return rr.String()
}

// client updates and reads zones, by TSIG (RFC 8945).
type client struct {
	addr string
	key  secretKey
}

// timeout bounds one exchange: named writes its journal to the disk before it answers.
const timeout = 5 * time.Second

func (u client) secrets() (tsig string, secrets map[string]string) {
	return algorithms[u.key.Algorithm].tsig, map[string]string{absolute(u.key.Name): u.key.Secret}
}

// transfer reads a zone.
func (u client) transfer(zone string) ([]dns.RR, error) {
	m := new(dns.Msg)
	m.SetAxfr(zone)
	tsig, secrets := u.secrets()
	m.SetTsig(absolute(u.key.Name), tsig, 300, time.Now().Unix())
	t := &dns.Transfer{DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, TsigSecret: secrets}
	envelopes, err := t.In(m, u.addr)
	if err != nil {
		return nil, fmt.Errorf("read zone %s from named: %w", zone, err)
	}
	var out []dns.RR
	for e := range envelopes {
		err = errors.Join(err, e.Error)
		out = append(out, e.RR...)
	}
	if err != nil {
		return nil, fmt.Errorf("read zone %s from named: %w", zone, err)
	}
	if len(out) > 1 {
		out = out[:len(out)-1] // the SOA once more
	}
	return out, nil
}

// atOnce is how many records go into one update: far from the 64 KiB of a message.
const atOnce = 300

// make carries a change out.
func (u client) make(ctx context.Context, zone string, c change) error {
	send := func(fill func(*dns.Msg)) error {
		m := new(dns.Msg)
		m.SetUpdate(zone)
		fill(m)
		rcode, err := u.update(ctx, m)
		if err == nil && rcode != dns.RcodeSuccess {
			err = errors.New(dns.RcodeToString[rcode])
		}
		if err != nil {
			return fmt.Errorf("update zone %s: %w", zone, err)
		}
		return nil
	}
	if len(c.first) > 0 {
		if err := send(func(m *dns.Msg) { m.Insert(copies(c.first)) }); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(c.remove, atOnce) {
		// What goes and what comes at the same name belong together.
		adds := c.add[:min(len(c.add), atOnce)]
		c.add = c.add[len(adds):]
		if err := send(func(m *dns.Msg) { m.Remove(copies(part)); m.Insert(copies(adds)) }); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(c.add, atOnce) {
		if err := send(func(m *dns.Msg) { m.Insert(copies(part)) }); err != nil {
			return err
		}
	}
	if c.soa != nil {
		return send(func(m *dns.Msg) { m.Insert([]dns.RR{dns.Copy(c.soa)}) })
	}
	return nil
}

func copies(rrs []dns.RR) []dns.RR {
	out := make([]dns.RR, len(rrs))
	for i, rr := range rrs {
		out[i] = dns.Copy(rr) // the library writes class and TTL into them
	}
	return out
}

// update sends an update and returns what named says to it.
func (u client) update(ctx context.Context, m *dns.Msg) (rcode int, err error) {
	tsig, secrets := u.secrets()
	c := &dns.Client{Net: "tcp", Timeout: timeout, TsigSecret: secrets, Dialer: &net.Dialer{Timeout: timeout}}
	m.SetTsig(absolute(u.key.Name), tsig, 300, time.Now().Unix())
	r, _, err := c.ExchangeContext(ctx, m, u.addr)
	if err != nil {
		return 0, err
	}
	return r.Rcode, nil
}

// seconds is a number of seconds for a TTL.
func seconds(d time.Duration) uint32 { return uint32(d / time.Second) }

// spoken is a name without its last dot.
func spoken(name string) string { return strings.TrimSuffix(name, ".") }
