package blocklist

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/durable"
	"weir/internal/state"
)

// The pace of the keeper.
const (
	firstRetry = 10 * time.Second // after a fetch that failed, then twice as late
	maxRetry   = time.Hour
	lookEvery  = 10 * time.Second // files are looked at for changes
	lateBy     = 30 * time.Second // a URL may be, after the machine slept
)

// source is one place that names come from.
type source struct {
	at   string // URL or path
	url  bool
	kept kept

	due    time.Duration // when a URL is to be fetched: the machine's time since its boot
	failed int           // times in a row
	err    error         // why it could not be had the last time
}

// kept is what is noted of a fetched source beside it.
type kept struct {
	URL     string    `json:"url"`
	Fetched time.Time `json:"fetched"` // or found unchanged
	validators
}

// keeper keeps the lists of a configuration.
type keeper struct {
	c       Config
	fetch   func(ctx context.Context, url, file string, old validators) (validators, bool, error)
	sources map[string]*source
	states  []State
	made    []string // of each list: what its files were made from
}

// file is where a fetched source is kept, without what it ends in.
func (k *keeper) file(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(k.c.Dir, "src-"+hex.EncodeToString(sum[:8]))
}

// take takes a configuration: what is kept is in force at once, and what is to be
// fetched is due. By the wall clock it is only judged how old what an earlier run
// left is.
func (k *keeper) take(c Config, now state.Clock) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("keep block lists: %w", err)
	}
	moved := c.Via != k.c.Via
	before := k.states
	k.c, k.states, k.made = c, make([]State, len(c.Lists)), make([]string, len(c.Lists))
	old := k.sources
	k.sources = map[string]*source{}
	for i, l := range c.Lists {
		k.states[i].Name = l.Name
		for _, s := range before {
			if s.Name == l.Name {
				k.states[i] = s
			}
		}
		for _, at := range l.Sources {
			s := old[at]
			if s == nil {
				s = &source{at: at, url: strings.HasPrefix(at, "https://") || strings.HasPrefix(at, "http://")}
				if s.url {
					s.kept = readKept(k.file(at)+".json", at)
					age := now.Wall.Sub(s.kept.Fetched)
					if age < 0 {
						age = l.Refresh // the clock was wrong then, or is now
					}
					s.due = now.Up + l.Refresh - age
				}
			}
			if s.url && s.err == nil {
				s.due = min(s.due, now.Up+l.Refresh) // it may be fetched more often from now on
			}
			if moved && s.err != nil {
				s.due, s.failed = now.Up, 0
			}
			k.sources[at] = s
		}
	}
	k.drop()
	return nil
}

// readKept reads what is known of a fetched source; nothing is known of one that
// is not there.
func readKept(path, url string) kept {
	var n kept
	if err := durable.Kept(path, &n); err != nil || n.URL != url {
		return kept{URL: url}
	}
	return n
}

// drop removes the files of lists and sources that the configuration has no more.
func (k *keeper) drop() {
	wanted := map[string]bool{}
	for at, s := range k.sources {
		if s.url {
			base := filepath.Base(k.file(at))
			wanted[base], wanted[base+".json"] = true, true
		}
	}
	for _, l := range k.c.Lists {
		wanted[NamesFile(l.Name)], wanted[PolicyFile(l.Name)] = true, true
	}
	there, _ := os.ReadDir(k.c.Dir)
	for _, e := range there {
		if !wanted[e.Name()] {
			_ = os.Remove(filepath.Join(k.c.Dir, e.Name())) // what stays costs room only
		}
	}
}

// next is how long from up on nothing is to be done. Timers stand still while the
// machine sleeps, so it is never long.
func (k *keeper) next(up time.Duration) time.Duration {
	wait := lateBy
	for _, s := range k.sources {
		if s.url {
			wait = min(wait, max(0, s.due-up))
		} else {
			wait = min(wait, lookEvery)
		}
	}
	return wait
}

// work fetches what is due, makes the lists whose sources changed, and says
// whether anything is to be told.
func (k *keeper) work(ctx context.Context, now state.Clock) (changed bool) {
	for _, l := range k.c.Lists {
		for _, at := range l.Sources {
			s := k.sources[at]
			if s.url && s.due <= now.Up {
				changed = true
				k.renew(ctx, s, l.Refresh, now)
			}
		}
		if ctx.Err() != nil {
			return changed
		}
	}
	for i := range k.c.Lists {
		changed = k.make(i, now.Wall) || changed
	}
	return changed
}

// renew fetches a source. What comes is looked at before it takes the old one's
// place: it may be a provider's page.
func (k *keeper) renew(ctx context.Context, s *source, refresh time.Duration, now state.Clock) {
	file := k.file(s.at)
	old := s.kept.validators
	if _, err := os.Stat(file); err != nil {
		old = validators{} // lost
	}
	v, changed, err := k.fetch(ctx, s.at, file+".tmp", old)
	if err == nil && changed {
		if err = try(file + ".tmp"); err == nil {
			err = os.Rename(file+".tmp", file)
		}
	}
	_ = os.Remove(file + ".tmp")
	if ctx.Err() != nil {
		return // nobody's fault: another configuration
	}
	if s.err = err; err != nil {
		s.due = now.Up + min(firstRetry<<min(s.failed, 16), maxRetry)
		s.failed++
		return
	}
	s.failed, s.kept = 0, kept{URL: s.at, Fetched: now.Wall, validators: v}
	// Not all houses at once, and not at midnight.
	s.due = now.Up + refresh - time.Duration(rand.Int64N(int64(refresh)/10))
	err = durable.Machine.Keep(file+".json", s.kept)
	if err != nil {
		s.err = fmt.Errorf("note when %s was fetched: %w", s.at, err)
	}
}

// try tells whether a file is a list.
func try(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = parse(f, names{})
	return err
}

// make makes a list's files if its sources, or what is to be let through, are not
// those that they were made from.
func (k *keeper) make(i int, now time.Time) (changed bool) {
	l, state := k.c.Lists[i], &k.states[i]
	from := fmt.Sprintf("%q", l.Allow)
	updated := time.Time{}
	paths := map[string]string{}
	for _, at := range l.Sources {
		s := k.sources[at]
		paths[at] = at
		if s.url {
			paths[at] = k.file(at)
			if updated.IsZero() || s.kept.Fetched.Before(updated) {
				updated = s.kept.Fetched
			}
		}
		st, err := os.Stat(paths[at])
		switch {
		case err != nil && !s.url:
			s.err = err
		case err == nil:
			from += fmt.Sprintf(" %q %d %d", at, st.Size(), st.ModTime().UnixNano())
		}
		if err == nil && !s.url && updated.IsZero() {
			updated = st.ModTime()
		}
	}
	if k.made[i] == from {
		return k.tell(state, l, updated)
	}
	rules := names{}
	skipped, failed := 0, false
	for _, at := range l.Sources {
		s := k.sources[at]
		n, err := read(paths[at], rules)
		switch {
		case err == nil:
			skipped += n.skipped
			if !s.url {
				s.err = nil
			}
		case s.url && errors.Is(err, fs.ErrNotExist): // not fetched yet: due
		default:
			s.err, failed = fmt.Errorf("read %s: %w", at, err), true
		}
	}
	if failed && state.Version != "" {
		k.made[i] = from
		return k.tell(state, l, updated) // the one that is there stays
	}
	out := compile(rules, l.Allow)
	sum := sha256.New()
	err := durable.Machine.Write(filepath.Join(k.c.Dir, NamesFile(l.Name)), public, func(w io.Writer) error { return out.writeNames(io.MultiWriter(w, sum)) })
	version := hex.EncodeToString(sum.Sum(nil)[:8])
	if err == nil {
		err = durable.Machine.Write(filepath.Join(k.c.Dir, PolicyFile(l.Name)), public, func(w io.Writer) error { return out.writePolicy(w, uint32(now.Unix())) })
	}
	if err != nil {
		state.Err = fmt.Sprintf("write the list: %v", err)
		return true
	}
	k.made[i] = from
	state.Version, state.Names, state.Skipped = version, out.blocked(), skipped
	k.tell(state, l, updated)
	return true
}

// read reads a source's file.
func read(path string, into names) (found, error) {
	f, err := os.Open(path)
	if err != nil {
		return found{}, err
	}
	defer f.Close()
	return parse(f, into)
}

// tell brings a list's state to what its sources say, and says whether it is
// another one.
func (k *keeper) tell(state *State, l List, updated time.Time) bool {
	before := *state
	state.Updated, state.Err = updated, ""
	var errs []string
	for _, at := range l.Sources {
		if err := k.sources[at].err; err != nil {
			errs = append(errs, err.Error())
		}
	}
	state.Err = strings.Join(errs, "; ")
	return *state != before
}
