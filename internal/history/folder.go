package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/durable"
	"weir/internal/state"
)

// Folder keeps a Book: a file for each entry, named by its ID and written once (see
// durable.Disk.Keep). What says which of them is in force
// is a state.Force, and the caller's to keep.
type Folder struct {
	Path string
	Disk durable.Disk
}

// Load reads the book that f says is in force. damage tells what could not be
// read; it is kept aside, and costs nothing but itself. An entry beyond the one in
// force was written in vain, before a crash, and is removed.
func (dir Folder) Load(f state.Force) (b Book, damage []string) { return dir.load(f, true) }

// Look is Load for who only looks: nothing is removed or put aside.
func (dir Folder) Look(f state.Force) (b Book, damage []string) { return dir.load(f, false) }

func (dir Folder) load(f state.Force, tidy bool) (b Book, damage []string) {
	b = Book{Trial: f.Trial, Run: f.Run, Next: f.ID + 1}
	names, err := os.ReadDir(dir.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		damage = append(damage, fmt.Sprintf("read the files that were in force: %v", err))
	}
	for _, n := range names {
		path := filepath.Join(dir.Path, n.Name())
		id, err := strconv.ParseUint(strings.TrimSuffix(n.Name(), suffix), 10, 64)
		switch {
		case strings.HasPrefix(n.Name(), "."), err == nil && id > f.ID:
			if tidy {
				_ = dir.Disk.Remove(path) // half of one, or one that nothing says is in force
			}
			continue
		case err != nil || name(id) != n.Name():
			continue // not ours
		}
		var e Entry
		err = durable.Kept(path, &e)
		if err == nil && e.ID != id {
			err = fmt.Errorf("read %s: it is number %d", path, e.ID)
		}
		if err != nil && !tidy {
			damage = append(damage, fmt.Sprintf("a file that was in force can't be read: %v", err))
			continue
		}
		if err != nil {
			aside, aerr := dir.Disk.Aside(path)
			damage = append(damage, fmt.Sprintf("a file that was in force can't be read, and is kept as %s: %v", aside, errors.Join(err, aerr)))
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
			_ = dir.Disk.Remove(dir.file(e.ID)) // one too many does no harm
		}
	}
	return nil
}

const suffix = ".json"

// name is an entry's file.
func name(id uint64) string { return fmt.Sprintf("%08d%s", id, suffix) }

func (dir Folder) file(id uint64) string { return filepath.Join(dir.Path, name(id)) }

// write writes e; a power cut leaves all of it or nothing.
func (dir Folder) write(e Entry) error {
	err := dir.Disk.Folder(dir.Path, 0o700)
	if err == nil {
		err = dir.Disk.Keep(dir.file(e.ID), e)
	}
	if err != nil {
		return fmt.Errorf("keep the file that is in force: %w", err)
	}
	return nil
}
