package rehearse

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// busyFrom is a delay that a machine with time to spare does not have, and that a limit
// of tenths of a second feels.
const busyFrom = 20 * time.Millisecond

// busyShare is a share of the time in which something waited for a processor from which
// on a machine is busy: its own labs make a third of it.
const busyShare = 0.6

// Busy is how busy the machine was while a drill was made. It changes no verdict.
type Busy struct {
	// Waited is how late the lab's process woke at the worst, in seconds: for want of a
	// processor, or of the machine if that is a virtual one.
	Waited float64 `json:"waited_s"`
	// Share is the part of the time in which something on the machine waited for a
	// processor, 0 to 1 (/proc/pressure/cpu, "some"); 0 where the kernel does not say.
	Share float64 `json:"share"`
}

// String says it where it may have mattered; else "".
func (b Busy) String() string {
	waited := time.Duration(b.Waited * float64(time.Second))
	switch {
	case b.Share >= busyShare:
		return fmt.Sprintf("the machine was busy: something waited for a processor %.0f %% of the time, this lab up to %s", 100*b.Share, seconds(waited))
	case waited >= busyFrom:
		return fmt.Sprintf("the machine was busy: this lab waited up to %s for a processor", seconds(waited))
	}
	return ""
}

// pressure is for how long something on the machine has waited for a processor since
// its start; 0 where the kernel does not say.
func pressure() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	return stalled(string(text))
}

// stalled reads what /proc/pressure/cpu says (Documentation/accounting/psi.rst).
func stalled(text string) time.Duration {
	var avg10, avg60, avg300 float64
	var total int64
	if _, err := fmt.Sscanf(text, "some avg10=%f avg60=%f avg300=%f total=%d", &avg10, &avg60, &avg300, &total); err != nil {
		return 0
	}
	return time.Duration(total) * time.Microsecond
}

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
