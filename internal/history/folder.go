package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/state"
)

// Folder keeps a Book: a file for each entry, named by its ID and written once,
// whose first line is the SHA-256 of the rest. What says which of them is in force
// is a state.Force, and the caller's to keep.
type Folder string

// Load reads the book that f says is in force. damage tells what could not be
// read; it is kept aside, and costs nothing but itself. An entry beyond the one in
// force was written in vain, before a crash, and is removed.
func (dir Folder) Load(f state.Force) (b Book, damage []string) {
	b = Book{Trial: f.Trial, Run: f.Run, Next: f.ID + 1}
	names, err := os.ReadDir(string(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		damage = append(damage, fmt.Sprintf("read the files that were in force: %v", err))
	}
	for _, n := range names {
		path := filepath.Join(string(dir), n.Name())
		id, err := strconv.ParseUint(strings.TrimSuffix(n.Name(), suffix), 10, 64)
		switch {
		case strings.HasPrefix(n.Name(), tempPrefix), err == nil && id > f.ID:
			_ = os.Remove(path) // half of one, or one that nothing says is in force
			continue
		case err != nil || name(id) != n.Name():
			continue // not ours
		}
		e, err := load(path)
		if err == nil && e.ID != id {
			err = fmt.Errorf("it is number %d", e.ID)
		}
		if err != nil {
			damage = append(damage, fmt.Sprintf("a file that was in force can't be read, and is kept as %s.bad: %v", path, errors.Join(err, os.Rename(path, path+".bad"))))
			continue
		}
		b.Entries = append(b.Entries, e)
	}
	slices.SortFunc(b.Entries, func(x, y Entry) int { return int(int64(x.ID) - int64(y.ID)) })
	if last, ok := b.Back(0); f.ID != 0 && (!ok || last.ID != f.ID) {
		b.Lost = f.Sum
	}
	return b, damage
}

// Save keeps what next has and old has not, then calls force with what says which
// entry is in force, and then removes what next has no more. So a power cut at any
// instant leaves the one or the other.
func (dir Folder) Save(old, next Book, force func(state.Force) error) error {
	has := func(b Book, id uint64) bool {
		return slices.ContainsFunc(b.Entries, func(e Entry) bool { return e.ID == id })
	}
	for _, e := range next.Entries {
		if !has(old, e.ID) {
			if err := dir.write(e); err != nil {
				return err
			}
		}
	}
	f := state.Force{Run: next.Run, Trial: next.Trial}
	if e, ok := next.Back(0); ok {
		f.ID, f.Sum = e.ID, e.Sum()
	}
	if err := force(f); err != nil {
		return err
	}
	for _, e := range old.Entries {
		if !has(next, e.ID) {
			_ = os.Remove(filepath.Join(string(dir), name(e.ID))) // one too many does no harm
		}
	}
	return nil
}

const (
	suffix     = ".json"
	tempPrefix = ".new"
)

// name is an entry's file.
func name(id uint64) string { return fmt.Sprintf("%08d%s", id, suffix) }

// write writes e so that a power cut leaves all of it or nothing. Mode 0600: what
// is in force is the owner's business.
func (dir Folder) write(e Entry) error {
	fail := func(err error) error { return fmt.Errorf("keep the file in %s: %w", dir, err) }
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fail(err)
	}
	b = append(b, '\n')
	sum := sha256.Sum256(b)
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.CreateTemp(string(dir), tempPrefix)
	if err != nil {
		return fail(err)
	}
	_, err = f.Write(append([]byte(hex.EncodeToString(sum[:])+"\n"), b...))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(string(dir), name(e.ID)))
	}
	if err != nil {
		return fail(errors.Join(err, os.Remove(f.Name())))
	}
	for _, d := range []string{string(dir), filepath.Dir(string(dir))} {
		if err := syncFolder(d); err != nil {
			return fail(err)
		}
	}
	return nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// load reads what write wrote.
func load(path string) (e Entry, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	line, rest, _ := bytes.Cut(b, []byte{'\n'})
	if sum := sha256.Sum256(rest); string(line) != hex.EncodeToString(sum[:]) {
		return e, errors.New("its checksum is another")
	}
	if err := json.Unmarshal(rest, &e); err != nil {
		return e, err
	}
	return e, nil
}
