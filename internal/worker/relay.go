package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// The bounds of what a child may say on its standard error.
const (
	maxLine  = 16 << 10 // bytes of a line; the rest of it is dropped
	maxPlain = 60       // lines that are no log lines: a panic's trace
)

// relay hands a child's log lines to log until r ends. It returns the first
// line of a panic, or the last line that was no log line; "" if there was none.
func relay(ctx context.Context, r io.Reader, log *slog.Logger) (said string) {
	lines := bufio.NewReaderSize(r, maxLine)
	panicked, plain := false, 0
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			return said
		}
		text := string(bytes.TrimSpace(line))
		for more && err == nil { // the rest of an overlong line
			_, more, err = lines.ReadLine()
		}
		if text == "" || relayRecord(ctx, text, log) {
			continue
		}
		if !panicked {
			said = text
			panicked = strings.HasPrefix(text, "panic:") || strings.HasPrefix(text, "fatal error:")
		}
		if plain++; plain <= maxPlain {
			log.LogAttrs(ctx, slog.LevelError, "service says", slog.String("text", text))
		}
	}
}

// relayRecord logs a line of a slog.JSONHandler; false if it is none.
func relayRecord(ctx context.Context, line string, log *slog.Logger) bool {
	if line[0] != '{' {
		return false
	}
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return false
	}
	msg, ok := m[slog.MessageKey].(string)
	if !ok {
		return false
	}
	levelText, _ := m[slog.LevelKey].(string)
	var level slog.Level
	if err := level.UnmarshalText([]byte(levelText)); err != nil {
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, text(m[slog.TimeKey]))
	if err != nil {
		at = time.Now()
	}
	if !log.Enabled(ctx, level) {
		return true
	}
	rec := slog.NewRecord(at, level, msg, 0)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch k {
		case slog.MessageKey, slog.LevelKey, slog.TimeKey:
		default:
			rec.AddAttrs(slog.Any(k, m[k]))
		}
	}
	_ = log.Handler().Handle(ctx, rec) // as slog.Logger does: a log that can't be written is nobody's to report
	return true
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
