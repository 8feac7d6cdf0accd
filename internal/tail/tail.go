// Package tail keeps the last of what goes by, and tells followers of what comes.
package tail

import (
	"slices"
	"sync"
)

// Log keeps the last items and tells followers of each new one. It is safe
// for concurrent use.
type Log[T any] struct {
	mu        sync.Mutex
	ring      []T // oldest at next once it is full
	next      int
	size      int
	lost      int
	followers map[chan T]struct{}
}

// followerBuffer is how far a follower may lag behind before items pass it by.
const followerBuffer = 256

// New makes a Log of the last size items.
func New[T any](size int) *Log[T] {
	return &Log[T]{size: max(size, 1), followers: map[chan T]struct{}{}}
}

// Add takes items, and how many there were besides that nobody is told of.
func (l *Log[T]) Add(items []T, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += lost
	for _, i := range items {
		if len(l.ring) < l.size {
			l.ring = append(l.ring, i)
		} else {
			l.ring[l.next] = i
			l.next = (l.next + 1) % l.size
		}
		for f := range l.followers {
			select {
			case f <- i:
			default: // it lags; it must not hold up the others
			}
		}
	}
}

// Last returns what is kept, oldest first, and how many there were besides of
// which nobody was told, since the start.
func (l *Log[T]) Last() (items []T, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept(), l.lost
}

func (l *Log[T]) kept() []T {
	return slices.Concat(l.ring[l.next:], l.ring[:l.next])
}

// Follow returns what is kept, oldest first, and a channel of all that follows
// without a gap or a double, until stop is called. A follower that lags by more
// than 256 packets misses some.
func (l *Log[T]) Follow() (items []T, more <-chan T, stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := make(chan T, followerBuffer)
	l.followers[f] = struct{}{}
	return l.kept(), f, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.followers, f)
	}
}

// Clear forgets what is kept.
func (l *Log[T]) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring, l.next = nil, 0
}
