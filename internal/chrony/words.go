package chrony

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

// words is what chronyd says.
type words struct {
	log   *slog.Logger
	heard func()

	mu   sync.Mutex
	shut string // that it has not got its port; "": it has
}

// dated is how each of its lines begins.
var dated = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+Z `)

// listen passes on what chronyd says until it ends, and returns the last complaint.
func (w *words) listen(from io.Reader) (last string) {
	sc := bufio.NewScanner(from)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		text := dated.ReplaceAllString(sc.Text(), "")
		level := slog.LevelDebug
		switch {
		case strings.HasPrefix(text, "Fatal error"), strings.HasPrefix(text, "Could not open NTP socket"):
			level, last = slog.LevelError, text
			w.mu.Lock()
			w.shut = text
			w.mu.Unlock()
		case strings.HasPrefix(text, "Can't synchronise"), strings.HasPrefix(text, "Detected falseticker"), strings.HasPrefix(text, "Could not"):
			level = slog.LevelWarn
		case strings.HasPrefix(text, "Selected source"), strings.HasPrefix(text, "System clock"):
			level = slog.LevelInfo
		}
		w.log.Log(context.Background(), level, "chronyd says", "text", text)
		w.heard()
	}
	_, _ = io.Copy(io.Discard, from) // a line too long: the rest is of no interest
	return last
}

// trouble is why it can't be what it should.
func (w *words) trouble() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shut
}
