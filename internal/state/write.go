package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/durable"
)

// write is the writer: one commit for all that wait. While the store can't be
// written to it tries again by itself.
func (s *Store) write() {
	defer close(s.done)
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		if s.log == nil {
			again.Reset(time.Until(s.retry))
		} else {
			again.Stop()
		}
		var last, retry bool
		select {
		case <-s.wake:
		case <-again.C:
			retry = true
		case <-s.quit:
			last = true
		}
		s.mu.Lock()
		batch := s.puts
		s.puts, s.closed = nil, last
		s.mu.Unlock()
		if len(batch) > 0 || retry {
			err := s.commit(batch)
			for _, p := range batch {
				p.done <- err
			}
		}
		if last {
			return
		}
	}
}

// commit takes a batch into memory and onto the disk.
func (s *Store) commit(batch []put) error {
	changed := s.take(batch)
	s.mu.Lock()
	live, before := len(s.values), s.err
	s.mu.Unlock()
	var err error
	switch {
	case s.log == nil:
		if time.Now().Before(s.retry) {
			return fmt.Errorf("%w: %w", ErrHeld, before)
		}
		err = s.rewrite()
	case len(changed) == 0:
		return nil
	case s.records > live+s.slack:
		err = s.rewrite()
	default:
		if err = s.append(changed); err != nil {
			// What a failed write left, and whether a failed sync can be
			// repeated, nobody knows. A new file is sure.
			err = errors.Join(err, s.rewrite())
			if s.log != nil {
				err = nil
			}
		}
	}
	s.mu.Lock()
	s.err = err
	if (err == nil) != (before == nil) && s.tell != nil {
		s.tell(err)
	}
	s.mu.Unlock()
	if err != nil {
		s.retry = time.Now().Add(s.again)
		return fmt.Errorf("%w: %w", ErrHeld, err)
	}
	return nil
}

// take takes a batch into memory and returns what is new in it.
func (s *Store) take(batch []put) (changed []Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range batch {
		for _, i := range p.items {
			old, had := s.values[i.key]
			gone := string(i.val) == "null"
			if gone && !had || had && string(old) == string(i.val) {
				continue
			}
			if gone {
				delete(s.values, i.key)
			} else {
				s.values[i.key] = i.val
			}
			changed = append(changed, i)
		}
	}
	return changed
}

// append writes records at the log's end, and returns when they are on disk.
func (s *Store) append(items []Item) error {
	var b []byte
	var err error
	for n, i := range items {
		if b, err = appendRecord(b, entry{N: s.next + uint64(n), Key: i.key, Val: i.val}); err != nil {
			return err
		}
	}
	if _, err := s.log.WriteAt(b, s.end); err != nil {
		return fmt.Errorf("write the stored state: %w", err)
	}
	if err := s.log.Datasync(); err != nil {
		return fmt.Errorf("write the stored state to the disk: %w", err)
	}
	s.end += int64(len(b))
	s.next += uint64(len(items))
	s.records += len(items)
	return nil
}

// rewrite puts a new log of what is in force in the old one's place. A power cut
// at any instant leaves one of the two.
func (s *Store) rewrite() (err error) {
	if s.log != nil {
		_ = s.log.Close() // superseded
		s.log = nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("rewrite the stored state: %w", err)
		}
	}()
	s.mu.Lock()
	values := maps.Clone(s.values)
	s.mu.Unlock()
	values["format"] = json.RawMessage(fmt.Sprint(format))

	keys := slices.Sorted(maps.Keys(values))
	// "format" is first in the file, so that a reader meets it first.
	keys = append([]string{"format"}, slices.DeleteFunc(keys, func(k string) bool { return k == "format" })...)
	var b []byte
	for n, k := range keys {
		if b, err = appendRecord(b, entry{N: uint64(n) + 1, Key: k, Val: values[k]}); err != nil {
			return err
		}
	}
	if s.aside != nil {
		if err := s.disk.Put(filepath.Join(s.dir, damagedName), s.aside, durable.Private); err != nil {
			return fmt.Errorf("keep the damaged log aside: %w", err)
		}
		s.aside = nil
	}
	path := filepath.Join(s.dir, logName)
	if err := s.disk.Put(path, b, durable.Private); err != nil {
		return err
	}
	f, err := s.disk.Append(path)
	if err != nil {
		return err
	}
	s.log, s.end, s.next, s.records = f, int64(len(b)), uint64(len(keys))+1, len(keys)
	return nil
}
