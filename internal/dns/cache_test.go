package dns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// said is an answer written down: records, each with its section where that is
// not the answer's.
func said(t testing.TB, k key, rcode int, rrs ...string) *dns.Msg {
	t.Helper()
	m := failure(k, rcode)
	for _, s := range rrs {
		section := &m.Answer
		if r, ok := strings.CutPrefix(s, "ns:"); ok {
			section, s = &m.Ns, r
		} else if r, ok := strings.CutPrefix(s, "extra:"); ok {
			section, s = &m.Extra, r
		}
		rr, err := dns.NewRR(s)
		if err != nil {
			t.Fatal(err)
		}
		*section = append(*section, rr)
	}
	return m
}

func a(name string) key { return key{name: name, rrtype: dns.TypeA, class: dns.ClassINET} }

func TestLifetime(t *testing.T) {
	const soa = "ns:example. 900 IN SOA ns.example. x.example. 1 2 3 4 300"
	k := a("www.example.")
	for _, c := range []struct {
		what  string
		rcode int
		rrs   []string
		want  time.Duration
	}{
		{"the least TTL", 0, []string{"www.example. 300 IN CNAME w.example.", "w.example. 60 IN A 192.0.2.1", "ns:example. 90 IN NS ns.example."}, time.Minute},
		{"a day at most", 0, []string{"www.example. 999999 IN A 192.0.2.1"}, 24 * time.Hour},
		{"TTL 0", 0, []string{"www.example. 0 IN A 192.0.2.1"}, 0},
		{"no such name: the SOA's minimum", dns.RcodeNameError, []string{soa}, 5 * time.Minute},
		{"no such record, after an alias", 0, []string{"www.example. 100 IN CNAME w.example.", soa}, 100 * time.Second},
		{"negative without SOA", dns.RcodeNameError, nil, 0},
		{"an hour at most", dns.RcodeNameError, []string{strings.Replace(strings.Replace(soa, "900", "90000", 1), " 300", " 90000", 1)}, time.Hour},
		{"a referral is no answer", 0, []string{"ns:example. 900 IN NS ns.example."}, 0},
		{"a failure", dns.RcodeServerFailure, nil, time.Second},
		{"refused", dns.RcodeRefused, nil, 0},
	} {
		if got := lifetime(said(t, k, c.rcode, c.rrs...)); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	cut := said(t, k, 0, "www.example. 300 IN A 192.0.2.1")
	cut.Truncated = true
	if got := lifetime(cut); got != 0 {
		t.Errorf("a truncated answer is kept for %v", got)
	}
}

func TestCacheAges(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := newCache(1 << 20)
	k := a("www.example.")
	c.put(now, k, said(t, k, 0, "www.example. 100 IN CNAME w.example.", "w.example. 60 IN A 192.0.2.1"), nil)
	do := k
	do.do = true
	if _, _, ok := c.get(now, do); ok {
		t.Error("an answer without signatures is given to who asks for them")
	}
	m, _, ok := c.get(now.Add(59*time.Second+900*time.Millisecond), k)
	if !ok || m.Answer[0].Header().Ttl != 41 || m.Answer[1].Header().Ttl != 1 {
		t.Errorf("after 59.9 s: %v, %v", ok, m)
	}
	m.Answer[0].Header().Ttl = 7
	if m, _, _ := c.get(now, k); m.Answer[0].Header().Ttl != 100 {
		t.Error("what was given out is the cache's own")
	}
	if _, _, ok := c.get(now.Add(time.Minute), k); ok || c.used != 0 {
		t.Errorf("after its time: there %t, %d bytes", ok, c.used)
	}
}

func TestCacheIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := newCache(64 << 10)
	put := func(i int) key {
		k := a(fmt.Sprintf("n%d.example.", i))
		c.put(now, k, said(t, k, 0, k.name+" 300 IN A 192.0.2.1"), nil)
		return k
	}
	first := put(0)
	for i := 1; i < 5000; i++ {
		put(i)
		if _, _, ok := c.get(now, first); !ok {
			t.Fatalf("what is used went, after %d", i)
		}
	}
	if _, _, ok := c.get(now, a("n1.example.")); ok {
		t.Error("what was not used for longest is still there")
	}
	if c.used > c.max || len(c.entries) != c.recent.Len() || len(c.entries) < 100 {
		t.Errorf("%d of %d bytes, %d entries, %d in order", c.used, c.max, len(c.entries), c.recent.Len())
	}
	big := a("big.example.")
	m := said(t, big, 0)
	for i := range 600 {
		rr, _ := dns.NewRR(fmt.Sprintf("big.example. 300 IN A 192.0.2.%d", i%250))
		m.Answer = append(m.Answer, rr)
	}
	c.put(now, big, m, nil)
	if _, _, ok := c.get(now, big); ok {
		t.Error("one answer took the place of a hundred")
	}
	c.put(now, first, failure(first, dns.RcodeServerFailure), nil)
	n := len(c.entries)
	c.flushFailures()
	if _, _, ok := c.get(now, first); ok || len(c.entries) != n-1 {
		t.Errorf("failures forgotten: still there %t, %d of %d left", ok, len(c.entries), n)
	}
	c.flush()
	if c.used != 0 || len(c.entries) != 0 || c.recent.Len() != 0 {
		t.Error("flushed, and not empty")
	}
}

func TestHealth(t *testing.T) {
	now := time.Unix(1e9, 0)
	one, two, three := &health{}, &health{}, &health{}
	hs := []*health{one, two, three}
	check := func(when time.Time, want string) {
		t.Helper()
		if got := fmt.Sprint(order(when, hs)); got != want {
			t.Errorf("order %s, want %s", got, want)
		}
	}
	check(now, "[0 1 2]")
	one.missed(now, "silent")
	check(now, "[0 1 2]") // once is the name's fault
	one.missed(now, "silent")
	check(now, "[1 2 0]")
	check(now.Add(time.Second), "[0 1 2]") // tried again
	for range 20 {
		one.missed(now, "silent")
	}
	check(now.Add(59*time.Second), "[1 2 0]")
	check(now.Add(time.Minute), "[0 1 2]")
	two.missed(now, "")
	two.missed(now, "")
	check(now, "[2 1 0]") // all but one rest: whose rest ends first
	one.answered(20 * time.Millisecond)
	check(now, "[0 2 1]")
	if one.patience() != minPatience || two.patience() != firstPatience {
		t.Errorf("patience %v, %v", one.patience(), two.patience())
	}
	two.answered(2 * time.Second)
	if two.patience() != maxPatience {
		t.Errorf("patience %v", two.patience())
	}
}
