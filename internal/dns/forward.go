package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	askTimeout = 4500 * time.Millisecond // within a client's own 5 s: resolv.conf(5), dig(1)
	tryTimeout = 3 * time.Second         // one upstream, one try
	maxTries   = 6
	maxFlights = 512 // different questions on their way at once
)

// errBusy says that too many questions are on their way already.
var errBusy = errors.New("too many questions on their way")

// forwarder asks the upstreams what is not in its cache. A question that is on
// its way already is not sent again: whoever asks meanwhile gets the same
// answer, which also leaves a forger nothing to win by asking often (RFC 5452, 5).
type forwarder struct {
	// exchange is one try: one upstream, one question. It returns an answer to
	// this question, whatever its code, or an error.
	exchange func(context.Context, Upstream, *dns.Msg) (*dns.Msg, error)

	// pointsInside judges answers before they are kept, with mu held.
	pointsInside func(*dns.Msg) (reason string, yes bool)

	log *slog.Logger
	wg  sync.WaitGroup // of asks and tries

	mu      sync.Mutex
	cache   *cache
	flights map[key]*flight
	ups     []Upstream
	hs      []*health // of ups, by index
	via     string
	epoch   context.Context // ends when ups or via changes, and with the forwarder
	end     context.CancelFunc
	parent  context.Context
}

// flight is a question on its way.
type flight struct {
	done chan struct{}
	outcome
}

// outcome is an answer from outside, or none. msg is shared: copy before changing.
type outcome struct {
	msg     *dns.Msg
	ede     *dns.EDNS0_EDE
	blocked bool // pointed inside
}

func newForwarder(ctx context.Context, log *slog.Logger) *forwarder {
	f := &forwarder{
		pointsInside: func(*dns.Msg) (string, bool) { return "", false },
		log:          log,
		cache:        newCache(cacheBytes),
		flights:      map[key]*flight{},
		parent:       ctx,
	}
	f.epoch, f.end = context.WithCancel(ctx)
	return f
}

// use sets whom to ask. Nothing happens if it is whom it asks already, by the
// same road; else what is on its way is asked anew at once.
func (f *forwarder) use(ups []Upstream, via string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Equal(ups, f.ups) && via == f.via {
		return
	}
	hs := make([]*health, len(ups))
	for i, u := range ups {
		hs[i] = &health{}
		if j := slices.Index(f.ups, u); j >= 0 && via == f.via {
			hs[i] = f.hs[j]
		}
	}
	// What an ISP's resolver said may be meant for its own customers (a cache in
	// its network), so it goes with the line. Failures go in any case.
	if own := func(us []Upstream) string {
		if len(us) == 0 {
			return ""
		}
		return us[0].WAN
	}; own(ups) != own(f.ups) {
		f.cache.flush()
	} else {
		f.cache.flushFailures()
	}
	f.ups, f.hs, f.via = ups, hs, via
	f.end()
	f.epoch, f.end = context.WithCancel(f.parent)
}

// forget forgets all answers.
func (f *forwarder) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cache.flush()
}

// cached returns the answer kept for k.
func (f *forwarder) cached(k key) (outcome, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ede, ok := f.cache.get(time.Now(), k)
	return outcome{msg: m, ede: ede}, ok
}

// resolve returns the answer to k from the cache or from outside, at the latest
// after askTimeout. The only error is errBusy or ctx's.
func (f *forwarder) resolve(ctx context.Context, k key) (outcome, error) {
	f.mu.Lock()
	if m, ede, ok := f.cache.get(time.Now(), k); ok {
		f.mu.Unlock()
		return outcome{msg: m, ede: ede}, nil
	}
	fl, ok := f.flights[k]
	if !ok {
		if len(f.flights) >= maxFlights {
			f.mu.Unlock()
			return outcome{}, errBusy
		}
		fl = &flight{done: make(chan struct{})}
		f.flights[k] = fl
		f.wg.Go(func() { f.fly(k, fl) })
	}
	f.mu.Unlock()
	select {
	case <-fl.done:
		return fl.outcome, nil
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	}
}

// fly brings a question to its end.
func (f *forwarder) fly(k key, fl *flight) {
	ctx, cancel := context.WithTimeout(f.parent, askTimeout)
	defer cancel()
	out := f.ask(ctx, k)
	f.mu.Lock() // judged under it: forget leaves nothing that was judged before
	defer f.mu.Unlock()
	if why, yes := f.pointsInside(out.msg); yes {
		// No such record, rather than refused: a name with one bad family keeps the
		// other, and clients do not go elsewhere with it.
		m := failure(k, dns.RcodeSuccess)
		out = outcome{msg: m, ede: &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeBlocked, ExtraText: why}, blocked: true}
	}
	f.cache.put(time.Now(), k, out.msg, out.ede)
	fl.outcome = out
	delete(f.flights, k)
	close(fl.done)
}

// ask asks until there is an answer or the time is over, from the start again
// whenever the upstreams or the road to them change.
func (f *forwarder) ask(ctx context.Context, k key) outcome {
	for {
		f.mu.Lock()
		ups, hs, epoch := f.ups, f.hs, f.epoch
		f.mu.Unlock()
		if len(ups) == 0 {
			return noAnswer(k, "no line is up")
		}
		out := f.race(ctx, epoch, k, ups, hs)
		switch {
		case out.msg != nil:
			return out
		case ctx.Err() != nil:
			return noAnswer(k, "no upstream answers")
		}
	}
}

// try is one upstream's answer to one try.
type try struct {
	up  int // index
	msg *dns.Msg
	err error
}

// race asks the upstreams one after the other, the next one when the one before
// fails, says that it can't, or takes longer than it is used to; whoever answers
// first wins. The same one is asked again no sooner than after its patience, which
// doubles each time. The outcome is empty if the epoch ended meanwhile.
func (f *forwarder) race(ctx, epoch context.Context, k key, ups []Upstream, hs []*health) outcome {
	f.mu.Lock()
	seq := order(time.Now(), hs)
	f.mu.Unlock()
	rounds := max(3, min(len(ups), maxTries)) // tries in all
	results := make(chan try, rounds)
	said := make([]*dns.Msg, len(ups)) // what an upstream that can't help said
	last := make([]time.Time, len(ups))
	under := make([]*bool, len(ups)) // whether the latest try of each is booked already; nil: none is under way
	wait := make([]time.Duration, len(ups))
	tries, open := 0, 0
	var lastErr error

	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return f.best(k, said, lastErr)
		case <-epoch.Done():
			return outcome{}
		case <-next.C:
			u := -1
			for range seq { // the next that has not said yet that it can't
				c := seq[0]
				seq = append(seq[1:], c)
				if said[c] == nil {
					u = c
					break
				}
			}
			if u < 0 || tries == rounds {
				continue
			}
			if again := last[u].Add(wait[u]); !last[u].IsZero() && time.Now().Before(again) {
				seq = append([]int{u}, seq[:len(seq)-1]...)
				next.Reset(time.Until(again))
				continue
			}
			f.mu.Lock()
			patience := hs[u].patience()
			f.mu.Unlock()
			wait[u] = max(patience, 2*wait[u])
			last[u] = time.Now()
			tries, open = tries+1, open+1
			booked := new(bool)
			under[u] = booked
			f.wg.Go(func() { results <- f.try(epoch, k, u, ups[u], hs[u], booked) })
			next.Reset(wait[u])
		case r := <-results:
			open--
			under[r.up] = nil
			switch {
			case r.err != nil:
				lastErr = fmt.Errorf("%s: %w", ups[r.up], r.err)
			case final(r.msg):
				f.overdue(hs, last, wait, under)
				return outcome{msg: r.msg, ede: edeOf(r.msg)}
			default:
				said[r.up] = r.msg
			}
			if all(said) || open == 0 && tries == rounds {
				return f.best(k, said, lastErr)
			}
			if tries < rounds {
				next.Reset(0)
			}
		}
	}
}

// overdue books as missed what others answered in the meantime, so that the next
// questions need not wait for the same silence.
func (f *forwarder) overdue(hs []*health, last []time.Time, wait []time.Duration, under []*bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for u, booked := range under {
		if booked != nil && !*booked && now.Sub(last[u]) >= wait[u] {
			*booked = true
			f.missed(now, u, hs[u], errors.New("slower than the others"))
		}
	}
}

// missed books a miss, and tells of the one that counts. It holds the lock.
func (f *forwarder) missed(now time.Time, u int, h *health, err error) {
	h.missed(now, err.Error())
	if h.misses == 2 && u < len(f.ups) && f.hs[u] == h {
		f.log.Warn("upstream resolver does not answer", "server", f.ups[u].String(), "wan", f.ups[u].WAN, "err", err)
	}
}

// try asks one upstream once, and books how that went. It outlives a race that
// another has won, so that an upstream is judged by what it does. booked, guarded
// by the lock, says that its silence is booked already.
func (f *forwarder) try(epoch context.Context, k key, i int, up Upstream, h *health, booked *bool) try {
	ctx, cancel := context.WithTimeout(epoch, tryTimeout)
	defer cancel()
	start := time.Now()
	m, err := f.exchange(ctx, up, question(k))
	if epoch.Err() != nil {
		return try{i, nil, epoch.Err()} // nobody's fault
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		switch {
		case !*booked:
			*booked = true
			f.missed(time.Now(), i, h, err)
		case h.misses > 0:
			h.err = err.Error() // says more than that others were quicker
		}
		return try{i, nil, err}
	}
	if h.misses >= 2 {
		f.log.Info("upstream resolver answers again", "server", up.String(), "wan", up.WAN)
	}
	h.answered(time.Since(start))
	return try{i, m, nil}
}

// best is the answer when nobody had a good one.
func (f *forwarder) best(k key, said []*dns.Msg, err error) outcome {
	for _, m := range said {
		if m != nil {
			r := failure(k, dns.RcodeServerFailure)
			ede := edeOf(m)
			if ede == nil {
				ede = &dns.EDNS0_EDE{
					InfoCode:  dns.ExtendedErrorCodeOther,
					ExtraText: "upstream says " + dns.RcodeToString[m.Rcode],
				}
			}
			return outcome{msg: r, ede: ede}
		}
	}
	why := "no upstream answers"
	if err != nil {
		f.log.Debug("no upstream answers", "name", k.name, "err", err)
	}
	return noAnswer(k, why)
}

// final tells whether an upstream's answer settles the question: it exists, or
// it does not, or its signatures are wrong (which another upstream that does not
// look at signatures must not be asked to overrule).
func final(m *dns.Msg) bool {
	if m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError {
		return true
	}
	ede := edeOf(m)
	return ede != nil && ede.InfoCode >= dns.ExtendedErrorCodeDNSBogus && ede.InfoCode <= dns.ExtendedErrorCodeNSECMissing
}

func all(said []*dns.Msg) bool { return !slices.Contains(said, nil) }

func noAnswer(k key, why string) outcome {
	return outcome{
		msg: failure(k, dns.RcodeServerFailure),
		ede: &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNetworkError, ExtraText: why},
	}
}

// failure is an answer of our own, without records.
func failure(k key, rcode int) *dns.Msg {
	m := new(dns.Msg)
	m.Response, m.RecursionDesired, m.RecursionAvailable, m.Rcode = true, true, true, rcode
	m.Question = []dns.Question{{Name: k.name, Qtype: k.rrtype, Qclass: k.class}}
	return m
}

// edeOf returns the first extended error of a message (RFC 8914), nil if there
// is none.
func edeOf(m *dns.Msg) *dns.EDNS0_EDE {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return e
			}
		}
	}
	return nil
}

// report tells how the upstreams do.
func (f *forwarder) report() []UpstreamReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	rs := make([]UpstreamReport, len(f.ups))
	for i, u := range f.ups {
		h := f.hs[i]
		rs[i] = UpstreamReport{Server: u.String(), WAN: u.WAN, Up: h.misses < 2, RTT: h.rtt.Round(10 * time.Microsecond), Answers: h.answers}
		if !rs[i].Up {
			rs[i].Err = h.err
		}
	}
	return rs
}
