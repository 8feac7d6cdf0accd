package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keep writes v as JSON to path so that a power cut at any instant leaves the old
// content or the new: a file beside it is written and synced, renamed over path,
// and the folder synced. Mode 0600: the file in force is the owner's business.
func keep(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep %s: %w", path, err), os.Remove(f.Name()))
	}
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	return nil
}

// kept reads what keep wrote into v, which stays as it is where there is nothing.
// A file that can't be understood is moved aside, for a person to look at, and
// is an error too: what was in it is lost, and the house goes on without.
func kept(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
		if err != nil {
			err = errors.Join(err, os.Rename(path, path+".bad"))
		}
	}
	if err != nil {
		return fmt.Errorf("read what is stored in %s: %w", path, err)
	}
	return nil
}
