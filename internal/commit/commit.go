// Package commit holds back a server's replies until the leases in them are on
// disk, as RFC 2131 (3.1, 4) and RFC 8415 (18.3) would have it. The store is the
// parent's, in another process; several batches are on their way to it at a time,
// so that it writes what has come meanwhile together (group commit).
package commit

import (
	"math/rand/v2"

	"weir/internal/state"
)

const (
	// MaxWaiting bounds the replies that wait. What comes on top is dropped: the
	// client asks again.
	MaxWaiting = 2048

	// MaxLeases keeps a message with leases within worker.MaxMessage.
	MaxLeases = 1000

	// maxBatches is how many the parent has at a time: what comes while it writes
	// one is with it when it begins the next.
	maxBatches = 8

	// maxEnds bounds the leases that wait with no reply: a lease's end, untold, is
	// only honoured for longer.
	maxEnds = 16 * MaxWaiting
)

// Kept is the parent's word that a batch is on disk. Err says that it is not and
// why; the clients are answered all the same.
type Kept struct {
	ID  uint64 // the batch's
	Err string
}

// Entry is a lease, and the reply that may leave when it is on disk.
type Entry[R any] struct {
	Lease state.Lease
	Reply *R // nil: nobody waits
}

// Queue are a server's leases on their way to the disk.
type Queue[R any] struct {
	id      uint64 // of the last batch; no other server's are like it
	batches map[uint64][]Entry[R]
	waiting []Entry[R]
	replies int // among waiting
}

// New makes an empty queue.
func New[R any]() *Queue[R] {
	return &Queue[R]{id: rand.Uint64(), batches: map[uint64][]Entry[R]{}}
}

// Full says that as many replies wait as may.
func (q *Queue[R]) Full() bool { return q.replies >= MaxWaiting }

// Add has leases put on the disk, in this order, and reply, unless nil, wait for all
// of them. Where too many wait the reply is dropped; what the leases say is not,
// as long as it can be helped.
func (q *Queue[R]) Add(leases []state.Lease, reply *R) {
	if q.Full() {
		reply = nil
	}
	for i, l := range leases {
		e := Entry[R]{Lease: l}
		if i == len(leases)-1 {
			e.Reply = reply
		}
		if e.Reply == nil && len(q.waiting) >= maxEnds {
			continue
		}
		if e.Reply != nil {
			q.replies++
		}
		q.waiting = append(q.waiting, e)
	}
}

// Next is what the parent is to be given now: no leases, if there are none or it has
// enough to do.
func (q *Queue[R]) Next() (id uint64, leases []state.Lease) {
	if len(q.batches) >= maxBatches || len(q.waiting) == 0 {
		return 0, nil
	}
	n := min(len(q.waiting), MaxLeases)
	q.id++
	if q.id == 0 { // which is none's
		q.id++
	}
	batch := q.waiting[:n:n]
	q.batches[q.id], q.waiting = batch, q.waiting[n:]
	for _, e := range batch {
		leases = append(leases, e.Lease)
		if e.Reply != nil {
			q.replies--
		}
	}
	return q.id, leases
}

// Done takes the batch that k speaks of: nothing, where it is another server's, one
// before this.
func (q *Queue[R]) Done(k Kept) []Entry[R] {
	batch := q.batches[k.ID]
	delete(q.batches, k.ID)
	return batch
}
