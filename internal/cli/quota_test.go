package cli

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A storm of one message leaves a bounded number of lines and says how many it left out;
// another message is not held up by it.
func TestQuota(t *testing.T) {
	var out bytes.Buffer
	h := newQuota(slog.NewTextHandler(&out, nil))
	at := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	say := func(h slog.Handler, after time.Duration, msg string) {
		if err := h.Handle(context.Background(), slog.NewRecord(at.Add(after), slog.LevelError, msg, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		say(h.WithAttrs([]slog.Attr{slog.Int("n", i)}), time.Duration(i)*10*time.Millisecond, "again")
	}
	say(h, 10*time.Second, "other")
	if n := strings.Count(out.String(), "again"); n != quotaLines {
		t.Errorf("%d lines, want %d", n, quotaLines)
	}
	if !strings.Contains(out.String(), "other") {
		t.Error("another message is left out")
	}
	out.Reset()
	say(h, 2*time.Minute, "again")
	say(h, 2*time.Minute, "again")
	if got := out.String(); strings.Count(got, "not_logged_before=800") != 1 || strings.Count(got, "again") != 2 {
		t.Errorf("after the storm: %s", got)
	}
}
