// Package history knows which file is in force, which were before it, and whether
// the one in force still has to be confirmed.
//
//	run, apply, rollback --> in force ------------------------------> one of those before
//	apply --confirm -------> on trial --confirm--> in force
//	                             |
//	                             +--its time is over, another boot--> the one before is in force again
//
// A Book is a value, and what happens to it is a function of values. Folder keeps it.
package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"weir/internal/state"
)

// Who put a file in force.
const (
	ByRun       = "run"         // a start with that file
	ByApply     = "apply"       // a person
	ByRollback  = "rollback"    // a person, who took an earlier one
	ByItself    = "unconfirmed" // weir: nobody confirmed the one after it
	ByLastKnown = "recovered"   // weir: the one in force could not be read
)

// File is one of the files that are read as one.
type File struct {
	Name string `json:"name"` // as messages name it
	Text string `json:"text"`
	Dir  string `json:"dir,omitempty"` // absolute: what paths in it begin at
}

// Entry is what was put in force once.
type Entry struct {
	ID    uint64    `json:"id"`   // counts up; none is used twice
	From  string    `json:"from"` // the path, as the user wrote it
	By    string    `json:"by"`   // see ByRun
	Who   string    `json:"who,omitempty"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"` // wall clock
	Files []File    `json:"files"`
}

// Sum names what the files say: equal for equal texts, whatever the files are called.
func (e Entry) Sum() string { return Sum(e.Files) }

// Sum is Entry.Sum of files that are no entry; "" of none.
func Sum(files []File) string {
	if len(files) == 0 {
		return ""
	}
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d\n%s", len(f.Text), f.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// size is what e takes on disk, about.
func (e Entry) size() int {
	n := 512
	for _, f := range e.Files {
		n += len(f.Name) + len(f.Text)
	}
	return n
}

// Book is what was put in force, oldest first. The last entry is in force; only a
// Book that is Lost, or of a house that was never started, has none that is. The
// zero Book is the latter. Books share entries, which nobody changes.
type Book struct {
	Entries []Entry
	Trial   *state.Trial // of the last entry; nil: it is there to stay
	Run     string       // Sum of the text that the last start read from the file that `weir run` names
	Next    uint64       // ID of the next entry
	Lost    string       // Sum of the entry in force, which could not be read; "": it is the last of Entries
}

// InForce is the entry in force; false if there is none, or it could not be read.
func (b Book) InForce() (Entry, bool) {
	if b.Lost != "" {
		return Entry{}, false
	}
	return b.Back(0)
}

// Back is the entry that was in force n changes ago.
func (b Book) Back(n int) (Entry, bool) {
	if n < 0 || n >= len(b.Entries) {
		return Entry{}, false
	}
	return b.Entries[len(b.Entries)-1-n], true
}

// Put is b with e in force, for good or on trial. A text that is in force already
// makes no new entry.
func (b Book) Put(e Entry, t *state.Trial) Book {
	if now, ok := b.InForce(); ok && now.Sum() == e.Sum() {
		return b
	}
	e.ID = max(b.Next, 1)
	b.Next, b.Trial, b.Lost = e.ID+1, t, ""
	b.Entries = pruned(append(slices.Clip(b.Entries), e), t)
	return b
}

// maxSize and maxEntries bound what is kept besides the entry in force and the one
// that comes back if it is not confirmed.
const (
	maxSize    = 1 << 20 // bytes
	maxEntries = 100
)

// pruned is entries without the oldest, so that they fit.
func pruned(entries []Entry, t *state.Trial) []Entry {
	var size, n int
	var out []Entry
	for i, e := range slices.Backward(entries) {
		needed := i >= len(entries)-2 || t != nil && e.ID == t.Before
		if !needed {
			size, n = size+e.size(), n+1
			if size > maxSize || n > maxEntries {
				continue
			}
		}
		out = append(out, e)
	}
	slices.Reverse(out)
	return out
}

// Start is b after a start with the file run at the time that c says. why is for
// the log: empty if the file is simply the one in force.
//
// The newest word counts: what was applied stays in force through restarts until
// something else is applied, or the text of the file that `weir run` names is not
// what it was when a start last read it.
func (b Book) Start(run Entry, c state.Clock) (next Book, why string) {
	last := b.Run
	b.Run = run.Sum()
	if b.Lost != "" {
		return b.recover(run)
	}
	now, ok := b.InForce()
	switch {
	case !ok:
		return b.Put(run, nil), ""
	case run.Sum() != last && run.Sum() != now.Sum():
		return b.Put(run, nil), "the file has changed since the last start"
	}
	if b.Trial != nil && b.Trial.Left(c) <= 0 {
		if back, ok := b.Undone(c.Wall); ok {
			return back, "nobody confirmed " + now.From + ": the one before is in force again"
		}
		b.Trial = nil
	}
	if run.Sum() != now.Sum() {
		why = "the file is the one of the last start, and another was put in force since: that one stays"
	}
	return b, why
}

// recover is b with the best that is known in the place of what is lost.
func (b Book) recover(run Entry) (Book, string) {
	b.Trial = nil
	if before, ok := b.Back(0); ok && run.Sum() != b.Lost {
		before.By = ByLastKnown
		return b.Put(before, nil), "the file in force can't be read: the one before it is taken"
	}
	return b.Put(run, nil), "the file in force can't be read: that of this start is taken"
}

// Confirmed is b with the entry in force there to stay.
func (b Book) Confirmed() Book {
	b.Trial = nil
	return b
}

// Undone is b with the entry in force again that was before the one on trial, at
// the given wall clock; false if there is none.
func (b Book) Undone(now time.Time) (Book, bool) {
	if b.Trial == nil {
		return b, false
	}
	i := slices.IndexFunc(b.Entries, func(e Entry) bool { return e.ID == b.Trial.Before })
	if i < 0 {
		return b, false
	}
	e := b.Entries[i]
	e.By, e.Who, e.Why, e.Since = ByItself, "", "", now
	return b.Put(e, nil), true
}
