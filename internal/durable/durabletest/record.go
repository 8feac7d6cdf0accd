package durabletest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"weir/internal/durable"
)

// Recorder is a disk that does what it is told in a folder, and writes down each
// call, so that Crashes can say what a power cut would have left.
type Recorder struct {
	root string

	mu    sync.Mutex
	base  disk           // as it was found, and on the platter
	names map[string]int // what the paths lead to now
	next  int            // the next inode
	log   []call
	fail  error // of every call that needs room
}

// call is one call that has been made. Paths are as they were given.
type call struct {
	kind kind
	path string
	to   string // of a rename
	ino  int
	off  int64
	data []byte
}

type kind uint8

const (
	_ kind = iota
	create
	mkdir
	write
	datasync // of a file: all that was written to it
	rename
	remove
	syncFolder // all that was done to its names
	mark
)

// Record is a Recorder of what is done in root from now on. What is there now is
// taken to be on the platter.
func Record(root string) (*Recorder, error) {
	r := &Recorder{root: root, base: disk{names: map[string]int{}, inodes: map[int]*inode{}}}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i := &inode{dir: e.IsDir()}
		if !i.dir {
			if i.content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		r.base.names[path], r.base.inodes[r.next] = r.next, i
		r.next++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", root, err)
	}
	r.names = clone(r.base.names)
	return r, nil
}

// Disk is the disk that is recorded. Between it and the recorder stand the given
// mistakes, if any.
func (r *Recorder) Disk(mistakes ...func(durable.Calls) durable.Calls) durable.Disk {
	var c durable.Calls = (*recorded)(r)
	for _, m := range mistakes {
		c = m(c)
	}
	return durable.On(c)
}

// Mark notes that what was done until now was said to be done.
func (r *Recorder) Mark() { r.note(call{kind: mark}) }

// Fail has every call fail that needs room on the disk, with err; nil: no more.
func (r *Recorder) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// Count is what was done until now: calls that wait for the disk, and bytes written.
func (r *Recorder) Count() (syncs, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.log {
		bytes += len(c.data)
		if c.kind == datasync || c.kind == syncFolder {
			syncs++
		}
	}
	return syncs, bytes
}

func (r *Recorder) note(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, c)
}

// recorded is a Recorder's calls.
type recorded Recorder

func (r *recorded) room(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return &fs.PathError{Op: "write", Path: path, Err: r.fail}
	}
	return nil
}

func (r *recorded) Open(path string, flag int, mode fs.FileMode) (durable.File, error) {
	if flag&os.O_CREATE != 0 {
		if err := r.room(path); err != nil {
			return nil, err
		}
	}
	f, err := durable.System{}.Open(path, flag, mode)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ino, there := r.names[path]
	if !there {
		ino = r.next
		r.next++
		r.names[path] = ino
		r.log = append(r.log, call{kind: create, path: path, ino: ino})
	}
	return &recordedFile{File: f, r: r, ino: ino}, nil
}

func (r *recorded) Rename(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		return errors.New("a rename into another folder is not recorded")
	}
	if err := (durable.System{}).Rename(from, to); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ino := r.names[from]
	delete(r.names, from)
	r.names[to] = ino
	r.log = append(r.log, call{kind: rename, path: from, to: to, ino: ino})
	return nil
}

func (r *recorded) Remove(path string) error {
	if err := (durable.System{}).Remove(path); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, path)
	r.log = append(r.log, call{kind: remove, path: path})
	return nil
}

func (r *recorded) Mkdir(path string, mode fs.FileMode) error {
	if err := r.room(path); err != nil {
		return err
	}
	if err := (durable.System{}).Mkdir(path, mode); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[path] = r.next
	r.log = append(r.log, call{kind: mkdir, path: path, ino: r.next})
	r.next++
	return nil
}

func (r *recorded) SyncFolder(path string) error {
	(*Recorder)(r).note(call{kind: syncFolder, path: path})
	return nil
}

type recordedFile struct {
	durable.File
	r   *recorded
	ino int
	at  int64 // where Write writes next
}

func (f *recordedFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.at)
	f.at += int64(n)
	return n, err
}

func (f *recordedFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.r.room("a file"); err != nil {
		return 0, err
	}
	n, err := f.File.WriteAt(b, off)
	(*Recorder)(f.r).note(call{kind: write, ino: f.ino, off: off, data: append([]byte(nil), b[:n]...)})
	return n, err
}

func (f *recordedFile) Sync() error { return f.Datasync() }

func (f *recordedFile) Datasync() error {
	(*Recorder)(f.r).note(call{kind: datasync, ino: f.ino})
	return nil
}
