// Package durable changes files so that a power cut at any instant leaves the old
// content or the new, and never half of one:
//
//	write a new file beside it --> sync it --> rename it over the old --> sync the folder
//
// Without the first sync the new name may lead to an empty file, without the
// second the old one may come back after somebody was told of the new. A file has
// one writer at a time: the one that holds the lock of its folder.
//
// Reading needs none of this, and is done by package os.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk changes files. The zero Disk is Machine.
type Disk struct {
	calls Calls // nil: System
}

// Machine is the machine's own disk.
var Machine Disk

// Calls are the calls that change files, as the kernel has them.
type Calls interface {
	Open(path string, flag int, mode fs.FileMode) (File, error) // for writing
	Rename(from, to string) error
	Remove(path string) error
	Mkdir(path string, mode fs.FileMode) error
	SyncFolder(path string) error
}

// File is a file that is written to. *os.File has all of it but Datasync.
type File interface {
	io.Writer
	io.WriterAt
	Chmod(fs.FileMode) error
	Chown(uid, gid int) error
	Sync() error
	Datasync() error // Sync without what is not needed to read the data again: fdatasync(2)
	Close() error
}

// On is a Disk that does what it does by calls.
func On(calls Calls) Disk { return Disk{calls} }

func (d Disk) by() Calls {
	if d.calls == nil {
		return System{}
	}
	return d.calls
}

// As is whose a file is, and who may do what with it. Owner and group 0 are those
// that weir runs as.
type As struct {
	Mode     fs.FileMode
	UID, GID uint32
}

// Private is what concerns nobody but the owner of the machine.
var Private = As{Mode: 0o600}

// Put makes path hold b.
func (d Disk) Put(path string, b []byte, as As) error {
	return d.Write(path, as, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// Write makes path hold what write writes. Where write fails, path is as it was.
func (d Disk) Write(path string, as As, write func(io.Writer) error) error {
	return d.replace(path, as, true, write)
}

// replace is Write; where it need not last, without waiting for the disk.
func (d Disk) replace(path string, as As, lasting bool, write func(io.Writer) error) error {
	fail := func(err error) error { return fmt.Errorf("write %s: %w", path, advised(err, path)) }
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	// What a power cut left of one before. Never through a link that somebody laid.
	if err := d.by().Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	f, err := d.by().Open(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fail(err)
	}
	err = write(f)
	// By the open file: in a folder of a daemon's the name could be made to mean another.
	if err == nil && (as.UID != 0 || as.GID != 0) {
		err = f.Chown(int(as.UID), int(as.GID))
	}
	if err == nil {
		err = f.Chmod(as.Mode)
	}
	if err == nil && lasting {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.by().Rename(beside, path)
	}
	if err != nil {
		_ = d.by().Remove(beside) // the next one would
		return fail(err)
	}
	if lasting {
		if err := d.by().SyncFolder(filepath.Dir(path)); err != nil {
			return fail(err)
		}
	}
	return nil
}

// Append opens a file that is there, to write more to its end or wherever.
func (d Disk) Append(path string) (File, error) {
	f, err := d.by().Open(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s for writing: %w", path, advised(err, path))
	}
	return f, nil
}

// Folder makes a folder and those around it that are missing.
func (d Disk) Folder(path string, mode fs.FileMode) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil
	}
	around := filepath.Dir(path)
	if around != path {
		if err := d.Folder(around, mode); err != nil {
			return err
		}
	}
	err := d.by().Mkdir(path, mode)
	if errors.Is(err, fs.ErrExist) {
		if st, serr := os.Stat(path); serr == nil && st.IsDir() {
			err = nil // another process was first
		}
	}
	if err == nil {
		err = d.by().SyncFolder(around)
	}
	if err != nil {
		return fmt.Errorf("make the folder %s: %w", path, advised(err, path))
	}
	return nil
}

// Remove removes a file; one that is not there is no error.
func (d Disk) Remove(path string) error {
	err := d.by().Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = d.by().SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, advised(err, path))
	}
	return nil
}

// Aside moves a file that can't be read out of the way, for a person to look at, and
// says where. It takes the place of one that was moved before it.
func (d Disk) Aside(path string) (string, error) {
	bad := path + ".bad"
	err := d.by().Rename(path, bad)
	if err == nil {
		err = d.by().SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return path, fmt.Errorf("keep what can't be read of %s aside: %w", path, advised(err, path))
	}
	return bad, nil
}

// System is the machine's own calls.
type System struct{}

type systemFile struct{ *os.File }

func (f systemFile) Datasync() error {
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// Open is open(2).
func (System) Open(path string, flag int, mode fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return systemFile{f}, nil
}

// Rename is rename(2).
func (System) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is unlink(2).
func (System) Remove(path string) error { return os.Remove(path) }

// Mkdir is mkdir(2).
func (System) Mkdir(path string, mode fs.FileMode) error { return os.Mkdir(path, mode) }

// SyncFolder is fsync(2) of a folder: it makes last which names are in it.
func (System) SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
