package durabletest

import (
	"errors"
	"io/fs"
	"path/filepath"

	"weir/internal/durable"
)

// RenamesFirst is the mistake to rename a new file before it is synced.
const RenamesFirst = "renames before it syncs"

// Mistakes are those that a file layer may make, by name. A trial of power cuts that
// passes with one of them tries nothing.
var Mistakes = map[string]func(durable.Calls) durable.Calls{
	"forgets to sync what it appended":   func(c durable.Calls) durable.Calls { return careless{Calls: c, append: true} },
	"forgets to sync the new file":       func(c durable.Calls) durable.Calls { return careless{Calls: c, file: true} },
	"forgets to sync the folder":         func(c durable.Calls) durable.Calls { return careless{Calls: c, folder: true} },
	RenamesFirst:                         func(c durable.Calls) durable.Calls { return &hasty{Calls: c} },
	"syncs the folder before it renames": func(c durable.Calls) durable.Calls { return early{c} },
}

// careless leaves out what it should wait for.
type careless struct {
	durable.Calls
	append, file, folder bool
}

func (c careless) Open(path string, flag int, mode fs.FileMode) (durable.File, error) {
	f, err := c.Calls.Open(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return carelessFile{f, c}, nil
}

func (c careless) SyncFolder(path string) error {
	if c.folder {
		return nil
	}
	return c.Calls.SyncFolder(path)
}

type carelessFile struct {
	durable.File
	c careless
}

func (f carelessFile) Sync() error {
	if f.c.file {
		return nil
	}
	return f.File.Sync()
}

func (f carelessFile) Datasync() error {
	if f.c.append {
		return nil
	}
	return f.File.Datasync()
}

// hasty syncs a new file only when it has its name.
type hasty struct {
	durable.Calls
	late []durable.File
}

func (h *hasty) Open(path string, flag int, mode fs.FileMode) (durable.File, error) {
	f, err := h.Calls.Open(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return &hastyFile{File: f, h: h}, nil
}

func (h *hasty) Rename(from, to string) error {
	err := h.Calls.Rename(from, to)
	for _, f := range h.late {
		err = errors.Join(err, f.Sync(), f.Close())
	}
	h.late = nil
	return err
}

type hastyFile struct {
	durable.File
	h    *hasty
	late bool
}

func (f *hastyFile) Sync() error {
	f.late = true
	f.h.late = append(f.h.late, f.File)
	return nil
}

func (f *hastyFile) Close() error {
	if f.late {
		return nil
	}
	return f.File.Close()
}

// early syncs a folder before the change and not after it.
type early struct{ durable.Calls }

func (e early) Rename(from, to string) error {
	return errors.Join(e.Calls.SyncFolder(filepath.Dir(from)), e.Calls.Rename(from, to))
}

func (e early) SyncFolder(string) error { return nil }
