package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// What one message may be logged: so often in so long. What happens oftener is told as
// a number, and fills no flash.
const (
	quotaLines = 200 // the trace of a child that panicked is within it
	quotaEvery = time.Minute

	quotaMessages = 1000 // that are counted
)

// quota is a slog.Handler that passes on what is within the quota of its message,
// whatever its attributes are. What was left out is told with the next that passes.
type quota struct {
	slog.Handler
	of *quotas
}

type quotas struct {
	mu sync.Mutex
	by map[string]*used
}

type used struct {
	since   time.Time
	lines   int
	skipped int
}

func newQuota(h slog.Handler) slog.Handler {
	return quota{h, &quotas{by: map[string]*used{}}}
}

// Handle counts by the record's own time.
func (q quota) Handle(ctx context.Context, r slog.Record) error {
	q.of.mu.Lock()
	u := q.of.by[r.Message]
	if u == nil {
		if len(q.of.by) >= quotaMessages {
			clear(q.of.by) // somebody's messages are no constants
		}
		u = &used{since: r.Time}
		q.of.by[r.Message] = u
	}
	if r.Time.Sub(u.since) >= quotaEvery {
		u.since, u.lines = r.Time, 0
	}
	if u.lines >= quotaLines {
		u.skipped++
		q.of.mu.Unlock()
		return nil
	}
	u.lines++
	skipped := u.skipped
	u.skipped = 0
	q.of.mu.Unlock()
	if skipped > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("not_logged_before", skipped))
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup keep the quota.
func (q quota) WithAttrs(a []slog.Attr) slog.Handler { return quota{q.Handler.WithAttrs(a), q.of} }

// WithGroup is as WithAttrs.
func (q quota) WithGroup(name string) slog.Handler { return quota{q.Handler.WithGroup(name), q.of} }
