package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"weir/internal/desired"
	"weir/internal/durable"
	"weir/internal/plan"
)

// remembered is what the last turn left.
type remembered struct {
	Boot string           `json:"boot"`
	Want *desired.Desired `json:"want"`
}

// foundFile is how the machine was found. It is void after a reboot, which
// takes back all that weir did.
type foundFile struct {
	Boot string     `json:"boot"`
	As   plan.Found `json:"found"`
}

// keep has name in dir hold v, through power cuts if it is to last. "" is nowhere.
func (k *Kernel) keep(dir, name string, v any, lasting bool) error {
	if dir == "" {
		return nil
	}
	if err := k.opt.Disk.Folder(dir, 0o755); err != nil {
		return err
	}
	if lasting {
		return k.opt.Disk.Keep(filepath.Join(dir, name), v)
	}
	return k.opt.Disk.KeepForBoot(filepath.Join(dir, name), v)
}

// kept reads what keep wrote. A file that is not there leaves v.
func kept(dir, name string, v any) error {
	if dir == "" {
		return nil
	}
	return durable.Kept(filepath.Join(dir, name), v)
}

const (
	foundName = "found.json"
	lastName  = "last.json"
)

func (k *Kernel) loadFound() error {
	var f foundFile
	if err := kept(k.opt.StateDir, foundName, &f); err != nil {
		err = fmt.Errorf("read how the machine was found: %w", err)
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		// Only giving back needs it: a bad block must cost nobody the network.
		k.foundLost, k.foundBad = err, true
		k.log.Error("how the machine was found is not known any more: weir down can't put all of it back", "err", err)
		return nil
	}
	if f.Boot == k.boot {
		k.found = f.As
	}
	return nil
}

// addFound keeps what is about to be changed for the first time.
func (k *Kernel) addFound(f plan.Found) {
	next := plan.Found{Sysctls: maps.Clone(k.found.Sysctls), Ports: maps.Clone(k.found.Ports), Routes: slices.Clone(k.found.Routes)}
	if next.Sysctls == nil {
		next.Sysctls = map[string]string{}
	}
	if next.Ports == nil {
		next.Ports = map[string]plan.Port{}
	}
	changed := false
	for key, v := range f.Sysctls {
		if _, ok := next.Sysctls[key]; !ok {
			next.Sysctls[key], changed = v, true
		}
	}
	for name, p := range f.Ports {
		if _, ok := next.Ports[name]; !ok {
			next.Ports[name], changed = p, true
		}
	}
	for _, r := range f.Routes {
		if !slices.Contains(next.Routes, r) {
			next.Routes, changed = append(next.Routes, r), true
		}
	}
	if !changed && !k.foundUnkept {
		return
	}
	k.storeFound(next)
}

// forgetFound drops what was given back.
func (k *Kernel) forgetFound(f plan.Found) {
	if len(f.Sysctls)+len(f.Ports)+len(f.Routes) == 0 {
		return
	}
	next := plan.Found{Sysctls: maps.Clone(k.found.Sysctls), Ports: maps.Clone(k.found.Ports)}
	for key := range f.Sysctls {
		delete(next.Sysctls, key)
	}
	for name := range f.Ports {
		delete(next.Ports, name)
	}
	for _, r := range k.found.Routes {
		if !slices.Contains(f.Routes, r) {
			next.Routes = append(next.Routes, r)
		}
	}
	k.storeFound(next)
}

// storeFound is saveFound where the kernel is as it should be already. A full disk
// costs what a later process could have given back, not the house its network, nor
// whoever takes weir down their machine. The next change tries again.
func (k *Kernel) storeFound(next plan.Found) {
	err := k.saveFound(next)
	if err == nil {
		return
	}
	if !k.foundUnkept {
		k.log.Error("how the machine was found is not stored: a later weir down could not put all of it back", "err", err)
	}
	k.found, k.foundUnkept = next, true
}

// StoreFound stores how the machine was found, if that could not be done yet. The
// error is why it still can't.
func (k *Kernel) StoreFound() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.foundUnkept {
		return nil
	}
	return k.saveFound(k.found)
}

// setAside keeps what can't be read for a person to look at.
func (k *Kernel) setAside() {
	if !k.foundBad {
		return
	}
	k.foundBad = false
	if _, err := k.opt.Disk.Aside(filepath.Join(k.opt.StateDir, foundName)); err != nil {
		k.log.Warn("how the machine was found can't be read", "err", err)
	}
}

func (k *Kernel) saveFound(f plan.Found) error {
	k.setAside()
	if err := k.keep(k.opt.StateDir, foundName, foundFile{Boot: k.boot, As: f}, true); err != nil {
		return fmt.Errorf("keep how the machine was found: %w", err)
	}
	k.found, k.foundUnkept = f, false
	return nil
}

// loadLast reads what the last turn left. Without it a plan can't tell drift
// from change, which is worth a line in the log and no more.
func (k *Kernel) loadLast() {
	var l remembered
	if err := kept(k.opt.RuntimeDir, lastName, &l); err != nil {
		k.log.Warn("what the last turn left can't be read", "err", err)
		return
	}
	if l.Boot == k.boot {
		k.last = l
	}
}

func (k *Kernel) saveLast(want *desired.Desired) {
	k.last = remembered{Boot: k.boot, Want: want}
	if err := k.keep(k.opt.RuntimeDir, lastName, k.last, false); err != nil {
		k.log.Warn("what this turn left can't be kept", "err", err)
	}
}

func tableRecordName(s *space) string {
	if s.name == "" {
		return "nft.json"
	}
	return "nft-" + s.name + ".json"
}

// loadTableRecord returns what was loaded last in s, nil if that is not known.
func (k *Kernel) loadTableRecord(s *space) *loadedTable {
	var l loadedTable
	if err := kept(k.opt.RuntimeDir, tableRecordName(s), &l); err != nil {
		k.log.Warn("what was loaded last can't be read", "ns", s.name, "err", err)
		return nil
	}
	if l.Boot != k.boot || l.NS != s.cookie || l.Table.Text == "" {
		return nil
	}
	return &l
}

func (k *Kernel) saveTableRecord(s *space) error {
	if s.nft.loaded.Table.Text == "" {
		if k.opt.RuntimeDir == "" {
			return nil
		}
		err := os.Remove(filepath.Join(k.opt.RuntimeDir, tableRecordName(s)))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err := k.keep(k.opt.RuntimeDir, tableRecordName(s), s.nft.loaded, false); err != nil {
		return fmt.Errorf("keep what was loaded: %w", err)
	}
	return nil
}
