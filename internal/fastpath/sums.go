package fastpath

import (
	"fmt"
	"sync"
	"time"
)

// A Sum is what was carried of the packets that come in by a link and look so: of the
// way that there is, and of those that were there before.
type Sum struct {
	From    int // index of the link
	In      Tuple
	Packets uint64
	Bytes   uint64 // as conntrack counts them
}

// remembered is how long what was carried of a way that is gone is told, if it does not
// come back: longer than conntrack knows of a connection that was closed.
const remembered = 10 * time.Minute

// ledger has what was carried of ways that are gone: a flow is judged again and again,
// and each time it has another entry.
type ledger struct {
	mu     sync.Mutex // also of the ways themselves: each packet is in one of the two
	gone   map[flowKey]past
	tidied time.Time
}

type past struct {
	packets, bytes uint64
	at             time.Time
}

// put takes in what a way had that is gone. mu is held.
func (l *ledger) put(k flowKey, v flowFlow, now time.Time) {
	if v.Packets == 0 {
		return
	}
	if l.gone == nil {
		l.gone = map[flowKey]past{}
	}
	l.gone[k] = past{v.Packets, v.Bytes, now}
	if now.Sub(l.tidied) < remembered/10 {
		return
	}
	l.tidied = now
	for k, p := range l.gone {
		if now.Sub(p.at) > remembered {
			delete(l.gone, k)
		}
	}
}

// Share returns flows that can be counted while their keeper goes on, and closes; they
// are closed apart from it.
func (k *Keeper) Share() (*Flows, error) {
	f := &Flows{ledger: k.flows.ledger}
	var err error
	if f.objs.Flows, err = k.flows.objs.Flows.Clone(); err == nil {
		f.objs.Reasons, err = k.flows.objs.Reasons.Clone()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("share the flows: %w", err)
	}
	return f, nil
}

// Sums calls each with what has been carried, in no order.
func (f *Flows) Sums(each func(Sum)) error {
	f.ledger.mu.Lock()
	defer f.ledger.mu.Unlock()
	for k, p := range f.ledger.gone {
		e := entryOf(k, flowFlow{})
		each(Sum{e.From, e.In, p.packets, p.bytes})
	}
	for e, err := range f.All() {
		if err != nil {
			return err
		}
		each(Sum{e.From, e.In, e.Packets, e.Bytes})
	}
	return nil
}
