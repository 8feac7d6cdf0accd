package rehearse

import (
	"context"
	"sync/atomic"
	"time"
)

// busyFrom is a delay that a machine with time to spare does not have, and that a limit
// of tenths of a second feels.
const busyFrom = 20 * time.Millisecond

// lateness is how late a lab's process wakes: for want of a processor, which its gateway,
// its ISPs and its clients lack as well. It excuses nothing; it tells where to look.
type lateness struct{ worst atomic.Int64 }

// watch wakes each 10 ms until ctx ends.
func (l *lateness) watch(ctx context.Context) {
	const every = 10 * time.Millisecond
	t := time.NewTimer(every)
	defer t.Stop()
	due := time.Now().Add(every)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			now := time.Now()
			l.note(now.Sub(due))
			due = now.Add(every)
			t.Reset(every)
		}
	}
}

func (l *lateness) note(d time.Duration) {
	for {
		old := l.worst.Load()
		if int64(d) <= old || l.worst.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// since is the worst since the last call.
func (l *lateness) since() time.Duration { return time.Duration(l.worst.Swap(0)) }
