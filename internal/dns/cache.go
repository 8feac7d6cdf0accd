package dns

import (
	"container/list"
	"time"

	"github.com/miekg/dns"
)

const (
	cacheBytes = 4 << 20 // of messages on the wire; some ten thousand answers
	perEntry   = 256     // what an entry costs beside its message

	maxTTL      = 24 * time.Hour
	maxNegative = time.Hour   // RFC 2308, 5: one to three hours work well
	failureTTL  = time.Second // RFC 9520, 3.2: at least that
)

// cache keeps answers until their time is over, the least recently used going
// first when there are too many. It has no lock and no clock: both are its
// user's. Messages are kept packed, so that what is given out is always a copy.
type cache struct {
	max, used int
	entries   map[key]*list.Element
	recent    *list.List // of *entry, the latest used first
}

// key is a question as the cache knows it. DO and CD are part of it, because
// the upstream answers differently by them.
type key struct {
	name   string // lower case
	rrtype uint16
	class  uint16
	do, cd bool
}

type entry struct {
	key
	wire         []byte
	ede          *dns.EDNS0_EDE
	born, expire time.Time
}

func newCache(bytes int) *cache {
	return &cache{max: bytes, entries: map[key]*list.Element{}, recent: list.New()}
}

// get returns a copy of the answer kept for k, with what is left of its TTLs.
func (c *cache) get(now time.Time, k key) (*dns.Msg, *dns.EDNS0_EDE, bool) {
	el, ok := c.entries[k]
	if !ok {
		return nil, nil, false
	}
	e := el.Value.(*entry)
	m := new(dns.Msg)
	if !now.Before(e.expire) || m.Unpack(e.wire) != nil {
		c.remove(el)
		return nil, nil, false
	}
	c.recent.MoveToFront(el)
	age := uint32(now.Sub(e.born) / time.Second)
	for _, s := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range s {
			h := rr.Header()
			h.Ttl -= min(age, h.Ttl)
		}
	}
	return m, e.ede, true
}

// put keeps an answer if it may be kept: see lifetime.
func (c *cache) put(now time.Time, k key, m *dns.Msg, ede *dns.EDNS0_EDE) {
	ttl := lifetime(m)
	if ttl <= 0 {
		return
	}
	m = m.Copy()
	m.Compress = true
	m.Extra = withoutOPT(m.Extra)
	for _, s := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range s {
			rr.Header().Ttl = min(rr.Header().Ttl, uint32(maxTTL/time.Second))
		}
	}
	wire, err := m.Pack()
	if err != nil || len(wire)+perEntry > c.max/8 {
		return
	}
	if el, ok := c.entries[k]; ok {
		c.remove(el)
	}
	c.entries[k] = c.recent.PushFront(&entry{key: k, wire: wire, ede: ede, born: now, expire: now.Add(ttl)})
	c.used += len(wire) + perEntry
	for c.used > c.max {
		c.remove(c.recent.Back())
	}
}

func (c *cache) remove(el *list.Element) {
	e := c.recent.Remove(el).(*entry)
	delete(c.entries, e.key)
	c.used -= len(e.wire) + perEntry
}

// flush forgets everything.
func (c *cache) flush() {
	clear(c.entries)
	c.recent.Init()
	c.used = 0
}

// lifetime is how long an answer may be kept: the least TTL in it; for no such
// name or record what the SOA allows (RFC 2308, 5), and without one not at all;
// for a failure a second (RFC 9520).
func lifetime(m *dns.Msg) time.Duration {
	if m.Truncated {
		return 0
	}
	negative := m.Rcode == dns.RcodeNameError
	switch {
	case m.Rcode == dns.RcodeServerFailure:
		return failureTTL
	case m.Rcode != dns.RcodeSuccess && !negative:
		return 0
	}
	negative = negative || !answers(m)
	ttl := maxTTL
	soa := false
	for _, s := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range s {
			if rr.Header().Rrtype == dns.TypeOPT {
				continue
			}
			ttl = min(ttl, time.Duration(rr.Header().Ttl)*time.Second)
			if s, ok := rr.(*dns.SOA); ok && negative {
				soa = true
				ttl = min(ttl, time.Duration(s.Minttl)*time.Second, maxNegative)
			}
		}
	}
	if negative && !soa {
		return 0
	}
	return ttl
}

// answers tells whether m has a record of the type that was asked for, at the
// end of whatever chain of aliases.
func answers(m *dns.Msg) bool {
	if len(m.Question) != 1 {
		return false
	}
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == m.Question[0].Qtype {
			return true
		}
	}
	return false
}

func withoutOPT(rrs []dns.RR) []dns.RR {
	var out []dns.RR
	for _, rr := range rrs {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, rr)
		}
	}
	return out
}

// flushFailures forgets that upstreams could not answer.
func (c *cache) flushFailures() {
	for el := c.recent.Front(); el != nil; {
		next := el.Next()
		// The code is in the low half of the fourth byte (RFC 1035, 4.1.1).
		if el.Value.(*entry).wire[3]&0xf == dns.RcodeServerFailure {
			c.remove(el)
		}
		el = next
	}
}
