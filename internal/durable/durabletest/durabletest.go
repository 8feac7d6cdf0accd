// Package durabletest has disks for tests.
package durabletest

import (
	"io/fs"

	"weir/internal/durable"
)

// Unsynced is the machine's disk, but nothing waits for it: for tests that write
// much and cut no power.
func Unsynced() durable.Disk { return durable.On(unsynced{}) }

type unsynced struct{ durable.System }

type unsyncedFile struct{ durable.File }

func (u unsynced) Open(path string, flag int, mode fs.FileMode) (durable.File, error) {
	f, err := u.System.Open(path, flag, mode)
	return unsyncedFile{f}, err
}

func (unsynced) SyncFolder(string) error { return nil }
func (unsyncedFile) Sync() error         { return nil }
func (unsyncedFile) Datasync() error     { return nil }
