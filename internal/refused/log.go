package refused

import (
	"slices"
	"sync"
)

// Log keeps the last packets and tells followers of each new one. It is safe
// for concurrent use.
type Log struct {
	mu        sync.Mutex
	ring      []Packet // oldest at next once it is full
	next      int
	size      int
	lost      int
	followers map[chan Packet]struct{}
}

// followerBuffer is how far a follower may lag behind before packets pass it by.
const followerBuffer = 256

// NewLog makes a Log of the last size packets.
func NewLog(size int) *Log {
	return &Log{size: max(size, 1), followers: map[chan Packet]struct{}{}}
}

// Add takes a child's report.
func (l *Log) Add(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += r.Lost
	for _, p := range r.Packets {
		if len(l.ring) < l.size {
			l.ring = append(l.ring, p)
		} else {
			l.ring[l.next] = p
			l.next = (l.next + 1) % l.size
		}
		for f := range l.followers {
			select {
			case f <- p:
			default: // it lags; it must not hold up the others
			}
		}
	}
}

// Last returns what is kept, oldest first, and how many were refused besides of
// which nobody was told, since the start.
func (l *Log) Last() (packets []Packet, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept(), l.lost
}

func (l *Log) kept() []Packet {
	return slices.Concat(l.ring[l.next:], l.ring[:l.next])
}

// Follow returns what is kept, oldest first, and a channel of all that follows
// without a gap or a double, until stop is called. A follower that lags by more
// than 256 packets misses some.
func (l *Log) Follow() (packets []Packet, more <-chan Packet, stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := make(chan Packet, followerBuffer)
	l.followers[f] = struct{}{}
	return l.kept(), f, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.followers, f)
	}
}
