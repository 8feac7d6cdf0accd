package probe

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"
)

// A connection that conntrack once took up wrongly (a request that left before
// the line's translation was in place, say) stays wrong as long as packets
// refresh it, which probes would for ever. So a line that nobody answered for
// quiet gets another identifier, which is another connection. There are so many
// that the first has been forgotten (nf_conntrack_icmp_timeout, 30 s) when its
// turn comes again. A line that answers keeps to one.
const (
	quiet   = 5 * time.Second
	variant = 0x000f // the bits of the identifier that change
)

var errNoSocket = errors.New("the line has no socket yet")

// waitFor is how long a reply is waited for at all.
const waitFor = 10 * time.Second

// engine knows which requests wait for a reply. It does no I/O but reading
// random bits; its methods may be called from any goroutine.
type engine struct {
	random io.Reader

	mu    sync.Mutex
	lines map[key]*waiting
}

// waiting is one line's requests.
type waiting struct {
	base     uint16    // of the Config
	id       uint16    // in use: base, but for the variant
	quiet    Monotonic // since when nobody answers; 0: the latest request was answered
	seq      uint16
	requests map[uint16]*sent // by sequence number
	order    []*sent          // by time
}

type sent struct {
	order Order
	id    uint16
	seq   uint16
	nonce nonce
	at    Monotonic
}

func newEngine(random io.Reader) *engine {
	return &engine{random: random, lines: map[key]*waiting{}}
}

// configure takes the lines that are there from now on.
func (e *engine) configure(lines []Line) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := map[key]*waiting{}
	for _, l := range lines {
		w := e.lines[l.key()]
		if w == nil || w.base != l.ID {
			w = &waiting{base: l.ID, id: l.ID, requests: map[uint16]*sent{}}
		}
		next[l.key()] = w
	}
	e.lines = next
}

// ask makes the request for an order, and waits for its reply from now on.
func (e *engine) ask(now Monotonic, k key, o Order) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.lines[k]
	if w == nil {
		return nil, errNoSocket
	}
	r := &sent{order: o, at: now}
	if _, err := io.ReadFull(e.random, r.nonce[:]); err != nil {
		return nil, fmt.Errorf("read random bits for a probe: %w", err)
	}
	for len(w.order) > 0 && now-w.order[0].at > Monotonic(waitFor) {
		w.forget(w.order[0])
		w.order = w.order[1:]
	}
	switch {
	case w.quiet == 0:
		w.quiet = now
	case now-w.quiet > Monotonic(quiet):
		w.quiet = now
		w.id = w.id&^variant | (w.id+1)&variant
	}
	w.seq++
	r.id, r.seq = w.id, w.seq
	w.requests[r.seq] = r
	w.order = append(w.order, r)
	return request(k.ipv6, r.id, r.seq, r.nonce), nil
}

// forget stops waiting for r, unless its number is another's by now.
func (w *waiting) forget(r *sent) {
	if w.requests[r.seq] == r {
		delete(w.requests, r.seq)
	}
}

// receive takes a packet that came by a line's socket at a time. ok is false if
// it answers nothing that waits.
func (e *engine) receive(at Monotonic, k key, from netip.Addr, packet []byte) (ev Event, ok bool) {
	a, ok := parse(k.ipv6, packet)
	if !ok {
		return Event{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.lines[k]
	if w == nil {
		return Event{}, false
	}
	r := w.requests[a.seq]
	if r == nil || a.id != r.id || a.whole && a.nonce != r.nonce || at-r.at > Monotonic(waitFor) {
		return Event{}, false
	}
	// Between our clock's reading and the kernel's stamp there is a conversion,
	// which can be off by microseconds.
	ev = Event{ID: r.order.ID, Kind: Reply, At: at, RTT: max(time.Duration(at-r.at), 0)}
	if a.failed {
		if a.target != r.order.Target {
			return Event{}, false
		}
		ev.Kind, ev.RTT, ev.Why = Failed, 0, fmt.Sprintf("%s says: %s", from, a.why)
	} else if from != r.order.Target {
		return Event{}, false
	} else {
		w.quiet = 0
	}
	w.forget(r)
	return ev, true
}
