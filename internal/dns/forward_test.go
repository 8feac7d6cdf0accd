package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// world is the upstreams of a test, by name: what each does with a question.
// The log says who was asked when.
type world struct {
	mu    sync.Mutex
	start time.Time
	log   []string
	does  map[string]func(ctx context.Context, m *dns.Msg) (*dns.Msg, error)
}

func (w *world) exchange(ctx context.Context, u Upstream, m *dns.Msg) (*dns.Msg, error) {
	w.mu.Lock()
	w.log = append(w.log, fmt.Sprintf("%v %s", time.Since(w.start).Round(time.Millisecond), u.Name))
	do := w.does[u.Name]
	w.mu.Unlock()
	return do(ctx, m)
}

func (w *world) set(name string, do func(context.Context, *dns.Msg) (*dns.Msg, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.does[name] = do
}

func (w *world) asked() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.log, ", ")
	w.log, w.start = nil, time.Now()
	return s
}

// answersIn answers with an address that tells who did, after a while.
func answersIn(after time.Duration, addr string) func(context.Context, *dns.Msg) (*dns.Msg, error) {
	return func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return nil, errors.New("no answer over UDP")
		}
		r := new(dns.Msg).SetReply(m)
		rr, err := dns.NewRR(m.Question[0].Name + " 60 IN A " + addr)
		r.Answer = []dns.RR{rr}
		return r, err
	}
}

func silent(ctx context.Context, _ *dns.Msg) (*dns.Msg, error) {
	<-ctx.Done()
	return nil, errors.New("no answer over UDP")
}

func says(rcode int, ede ...uint16) func(context.Context, *dns.Msg) (*dns.Msg, error) {
	return func(_ context.Context, m *dns.Msg) (*dns.Msg, error) {
		r := new(dns.Msg).SetRcode(m, rcode)
		for _, e := range ede {
			r.SetEdns0(1232, false)
			r.IsEdns0().Option = append(r.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: e})
		}
		return r, nil
	}
}

func ups(names ...string) []Upstream {
	us := make([]Upstream, len(names))
	for i, n := range names {
		us[i] = Upstream{Server: Server{Name: n, Addr: netip.MustParseAddrPort("192.0.2.1:53")}, WAN: n}
	}
	return us
}

// inWorld runs f in simulated time with a forwarder that asks w.
func inWorld(t *testing.T, f func(t *testing.T, w *world, fwd *forwarder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{start: time.Now(), does: map[string]func(context.Context, *dns.Msg) (*dns.Msg, error){}}
		ctx, cancel := context.WithCancel(t.Context())
		fwd := newForwarder(ctx, slog.New(slog.DiscardHandler))
		fwd.exchange = w.exchange
		defer func() { cancel(); fwd.wg.Wait() }()
		f(t, w, fwd)
	})
}

// result is an outcome in words: who answered, or the code; and after how long.
func result(fwd *forwarder, name string) string {
	start := time.Now()
	out, err := fwd.resolve(context.Background(), a(name))
	took := time.Since(start).Round(time.Millisecond)
	if err != nil {
		return err.Error()
	}
	s := dns.RcodeToString[out.msg.Rcode]
	if len(out.msg.Answer) > 0 {
		s = out.msg.Answer[0].(*dns.A).A.String()
	}
	if out.ede != nil {
		s += fmt.Sprintf(" EDE %d", out.ede.InfoCode)
	}
	return fmt.Sprintf("%s %v", s, took)
}

func TestForwardWhoIsAskedAndWhen(t *testing.T) {
	for _, c := range []struct {
		what      string
		one, two  func(context.Context, *dns.Msg) (*dns.Msg, error) // two nil: there is only one
		want, log string
	}{
		{"the first is enough", answersIn(20*time.Millisecond, "192.0.2.1"), answersIn(0, "192.0.2.2"), "192.0.2.1 20ms", "0s one"},
		{"the first is silent", silent, answersIn(20*time.Millisecond, "192.0.2.2"), "192.0.2.2 320ms", "0s one, 300ms two"},
		{"the first is slow, and wins yet", answersIn(310*time.Millisecond, "192.0.2.1"), silent, "192.0.2.1 310ms", "0s one, 300ms two"},
		{"the first fails", says(dns.RcodeServerFailure), answersIn(20*time.Millisecond, "192.0.2.2"), "192.0.2.2 20ms", "0s one, 0s two"},
		{"both fail", says(dns.RcodeServerFailure), says(dns.RcodeRefused), "SERVFAIL EDE 0 0s", "0s one, 0s two"},
		{"no such name is an answer", says(dns.RcodeNameError), answersIn(0, "192.0.2.2"), "NXDOMAIN 0s", "0s one"},
		{"a forged name is not asked for elsewhere", says(dns.RcodeServerFailure, dns.ExtendedErrorCodeDNSBogus), answersIn(0, "192.0.2.2"), "SERVFAIL EDE 6 0s", "0s one"},
		{"one, silent", silent, nil, "SERVFAIL EDE 23 3.9s", "0s one, 300ms one, 900ms one"},
		{"one, unreachable", func(context.Context, *dns.Msg) (*dns.Msg, error) { return nil, errors.New("network is unreachable") }, nil,
			"SERVFAIL EDE 23 900ms", "0s one, 300ms one, 900ms one"},
	} {
		t.Run(c.what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world, fwd *forwarder) {
				w.set("one", c.one)
				us := ups("one")
				if c.two != nil {
					w.set("two", c.two)
					us = ups("one", "two")
				}
				fwd.use(us, "")
				if got := result(fwd, "www.example."); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				if got := w.asked(); got != c.log {
					t.Errorf("asked %s, want %s", got, c.log)
				}
			})
		})
	}
}

func TestForwardLeavesTheSilentOneAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, fwd *forwarder) {
		w.set("one", silent)
		w.set("two", answersIn(20*time.Millisecond, "192.0.2.2"))
		fwd.use(ups("one", "two"), "")
		for i := range 2 { // slower than the other, twice
			if got := result(fwd, fmt.Sprintf("n%d.example.", i)); got != "192.0.2.2 320ms" {
				t.Errorf("question %d: %s", i, got)
			}
		}
		w.asked()
		if got := result(fwd, "n3.example."); got != "192.0.2.2 20ms" {
			t.Errorf("while the first rests: %s", got)
		}
		if got := w.asked(); got != "0s two" {
			t.Errorf("while the first rests, asked %s", got)
		}
		w.set("one", answersIn(10*time.Millisecond, "192.0.2.1"))
		time.Sleep(4 * time.Second) // the tries of before come to their end, and count no more
		w.asked()
		if got := result(fwd, "n4.example."); got != "192.0.2.1 10ms" {
			t.Errorf("after the rest: %s", got)
		}
		if rs := fwd.report(); !rs[0].Up || rs[0].Answers != 1 || rs[0].Err != "" {
			t.Errorf("report: %+v", rs)
		}
	})
}

// TestForwardFollowsTheLine: what is on its way when the line changes is asked
// by the new one at once, and the dead line's server never again.
func TestForwardFollowsTheLine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, fwd *forwarder) {
		w.set("fiber", silent)
		w.set("lte", answersIn(40*time.Millisecond, "192.0.2.2"))
		fwd.use(ups("fiber"), "fiber")
		go func() {
			time.Sleep(700 * time.Millisecond)
			fwd.use(ups("lte"), "lte")
		}()
		if got := result(fwd, "www.example."); got != "192.0.2.2 740ms" {
			t.Errorf("%s", got)
		}
		time.Sleep(10 * time.Second)
		if got := w.asked(); got != "0s fiber, 300ms fiber, 700ms lte" {
			t.Errorf("asked %s", got)
		}
		fwd.use(nil, "")
		if got := result(fwd, "www.example."); got != "SERVFAIL EDE 23 0s" {
			t.Errorf("with no line: %s", got)
		}
		fwd.use(ups("lte"), "lte")
		if got := result(fwd, "www.example."); got != "192.0.2.2 40ms" {
			t.Errorf("with a line again, the failure still counts: %s", got)
		}
	})
}

// TestForwardSameRoadIsKept: a message that changes nothing about upstreams (a
// lease's) disturbs no question.
func TestForwardSameRoadIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, fwd *forwarder) {
		w.set("one", answersIn(100*time.Millisecond, "192.0.2.1"))
		fwd.use(ups("one"), "fiber")
		go func() {
			time.Sleep(50 * time.Millisecond)
			fwd.use(ups("one"), "fiber")
		}()
		if got := result(fwd, "www.example."); got != "192.0.2.1 100ms" {
			t.Errorf("%s", got)
		}
		if got := w.asked(); got != "0s one" {
			t.Errorf("asked %s", got)
		}
	})
}

// TestForwardAsksOnce: a hundred who ask the same while it is on its way are
// one question; later ones are the cache's until the TTL is over.
func TestForwardAsksOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, fwd *forwarder) {
		w.set("one", answersIn(50*time.Millisecond, "192.0.2.1"))
		fwd.use(ups("one"), "")
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if got := result(fwd, "www.example."); got != "192.0.2.1 50ms" {
					t.Errorf("%s", got)
				}
			})
		}
		wg.Wait()
		if got := result(fwd, "www.example."); got != "192.0.2.1 0s" {
			t.Errorf("from the cache: %s", got)
		}
		if got := w.asked(); got != "0s one" {
			t.Errorf("asked %s", got)
		}
		time.Sleep(time.Minute)
		w.asked()
		if got := result(fwd, "www.example."); got != "192.0.2.1 50ms" {
			t.Errorf("after the TTL: %s", got)
		}
	})
}

func TestForwardIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, fwd *forwarder) {
		w.set("one", silent)
		fwd.use(ups("one"), "")
		var wg sync.WaitGroup
		for i := range maxFlights {
			wg.Go(func() { result(fwd, fmt.Sprintf("n%d.example.", i)) })
		}
		synctest.Wait()
		if got := result(fwd, "one.more.example."); got != errBusy.Error() {
			t.Errorf("one more: %s", got)
		}
		wg.Wait()
		time.Sleep(2 * time.Second) // failures are forgotten
		w.set("one", answersIn(0, "192.0.2.1"))
		if got := result(fwd, "one.more.example."); got != "192.0.2.1 0s" {
			t.Errorf("after the flood: %s", got)
		}
	})
}

func TestForwardDropsWhatPointsInside(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, fwd *forwarder) {
		w.set("one", answersIn(0, "172.31.0.23"))
		z := NewZone(house(), 1)
		fwd.pointsInside = func(m *dns.Msg) (string, bool) {
			_, addr, yes := z.pointsInside(m)
			return addr.String(), yes
		}
		fwd.use(ups("one"), "")
		if got := result(fwd, "rebind.test."); got != "NOERROR EDE 15 0s" {
			t.Errorf("%s", got)
		}
	})
}
