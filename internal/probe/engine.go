package probe

import (
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"
)

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
	id       uint16
	seq      uint16
	requests map[uint16]*sent // by sequence number
	order    []*sent          // by time
}

type sent struct {
	order Order
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
		if w == nil || w.id != l.ID {
			w = &waiting{id: l.ID, requests: map[uint16]*sent{}}
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
		return nil, fmt.Errorf("there is no socket for %s", o.WAN)
	}
	r := &sent{order: o, at: now}
	if _, err := io.ReadFull(e.random, r.nonce[:]); err != nil {
		return nil, fmt.Errorf("read random bits for a probe: %w", err)
	}
	for len(w.order) > 0 && now-w.order[0].at > Monotonic(waitFor) {
		w.forget(w.order[0])
		w.order = w.order[1:]
	}
	w.seq++
	r.seq = w.seq
	w.requests[r.seq] = r
	w.order = append(w.order, r)
	return request(k.ipv6, w.id, r.seq, r.nonce), nil
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
	if w == nil || a.id != w.id {
		return Event{}, false
	}
	r := w.requests[a.seq]
	if r == nil || a.whole && a.nonce != r.nonce || at-r.at > Monotonic(waitFor) {
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
	}
	w.forget(r)
	return ev, true
}
