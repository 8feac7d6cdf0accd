package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/durable"
)

// Names of the files in the state directory.
const (
	logName     = "state.log"
	damagedName = "state.log.damaged" // the last log that could not be read whole
)

// A log is rewritten when it holds this many records more than are in force.
const slack = 2000

// retryEvery is how often a store that can't be written to is tried again.
const retryEvery = 5 * time.Second

// Store keeps on disk what of the state must survive a power cut: see Kept. It
// is a log (see record.go) that is appended to and now and then rewritten.
//
// What Put has returned nil for is on disk. A store that can't be written to (the
// disk is full) goes on in memory, and writes all of it as soon as it can: it tries
// again by itself. A house should not go without leases for that.
//
// Its methods may be called from any goroutine. Concurrent Puts share one
// fdatasync.
type Store struct {
	dir    string
	disk   durable.Disk
	dirFD  *os.File // held and locked as long as the store is open
	damage []string

	wake  chan struct{} // puts has some
	close func()        // tells the writer to end
	quit  chan struct{} // closed by close
	done  chan struct{} // the writer has ended

	mu     sync.Mutex
	puts   []put // not yet seen by the writer, in order
	closed bool
	values map[string]json.RawMessage
	err    error       // why it can't be written to at the moment
	tell   func(error) // see Watch; nil: nobody watches

	// The writer's own.
	log     durable.File  // nil: has to be rewritten before anything is appended
	end     int64         // of the log: what is known to be on disk
	next    uint64        // count of the next record
	records int           // in the log
	slack   int           // see slack
	aside   []byte        // of a damaged log: to be kept before it is rewritten
	again   time.Duration // see retryEvery
	retry   time.Time
}

type put struct {
	items []Item
	done  chan error
}

// Open opens the store in dir, which it makes if need be, and reads all of it.
// Damage is no error: see Damage. The error is that of a directory that can't be
// used, or is in use by another process.
func Open(dir string) (*Store, error) { return OpenOn(durable.Machine, dir) }

// OpenOn is Open on another disk than the machine's.
func OpenOn(disk durable.Disk, dir string) (*Store, error) {
	if err := disk.Folder(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the state directory: %w", err)
	}
	d, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, disk: disk, dirFD: d, slack: slack, again: retryEvery, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.quit) })
	if err := s.load(); err != nil {
		d.Close()
		return nil, err
	}
	go s.write()
	return s, nil
}

// ErrInUse says that another process has the state directory.
var ErrInUse = errors.New("another weir is using it")

// Lock keeps every other weir out of dir until the file is closed, as an open
// store does. The error is ErrInUse if one is in it, fs.ErrNotExist if there is
// no dir.
func Lock(dir string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the state directory: %w", err)
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("lock the state directory %s: %w", dir, err)
	}
	return d, nil
}

// Read reads the store in dir without opening it: for a look at a machine whose
// daemon is not running, or runs. It changes nothing.
func Read(dir string) (Kept, []string, error) {
	b, err := readLog(dir)
	if err != nil {
		return Kept{}, nil, err
	}
	c := parseLog(b)
	k, unknown := kept(c.values)
	return k, append(said(c), unknown...), newer(c)
}

// readLog reads the log as far as it can be read. A bad block is damage like any
// other, and so is what goes beyond maxFile.
func readLog(dir string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, logName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the stored state: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil && !errors.Is(err, unix.EIO) {
		return nil, fmt.Errorf("read the stored state: %w", err)
	}
	return b, nil
}

// said tells a person what a log lost.
func said(c contents) []string {
	var s []string
	if c.damaged > 0 || c.missing > 0 {
		s = append(s, fmt.Sprintf("stored state was damaged: %d records could be read, %d places could not, %d records are missing", c.count, c.damaged, c.missing))
	}
	if c.torn > 0 {
		s = append(s, fmt.Sprintf("the last %d bytes of the stored state are an unfinished record (a power cut); nobody was told that it was kept", c.torn))
	}
	return s
}

// newer says that a later version of the program wrote the log.
func newer(c contents) error {
	var v int
	if b, ok := c.values["format"]; ok && json.Unmarshal(b, &v) == nil && v > format {
		return fmt.Errorf("the stored state has format %d and this weir knows %d: it was written by a newer one", v, format)
	}
	return nil
}

// load reads the log, keeps a damaged one aside, and makes one to append to.
func (s *Store) load() error {
	b, err := readLog(s.dir)
	if err != nil {
		return err
	}
	c := parseLog(b)
	if err := newer(c); err != nil {
		return err
	}
	s.values = c.values
	_, unknown := kept(c.values)
	s.damage = append(said(c), unknown...)
	if c.damaged > 0 || c.missing > 0 {
		s.aside = b
		s.damage = append(s.damage, "the damaged log is kept as "+filepath.Join(s.dir, damagedName))
	}
	if len(b) == 0 || len(s.damage) > 0 || c.count > len(c.values)+slack {
		// A log that ends in half a record is not appended to. If it can't be
		// rewritten now, it is tried again.
		s.err = s.rewrite()
		s.retry = time.Now().Add(s.again)
		return nil
	}
	f, err := s.disk.Append(filepath.Join(s.dir, logName))
	if s.err = err; err != nil {
		return nil //nolint:nilerr // the house goes on in memory: see Err
	}
	s.log, s.end, s.next, s.records = f, int64(len(b)), c.last+1, c.count
	return nil
}

// Damage tells what could not be read when the store was opened, in sentences;
// nil if nothing is missing.
func (s *Store) Damage() []string { return slices.Clone(s.damage) }

// Kept returns all that the store holds.
func (s *Store) Kept() Kept {
	s.mu.Lock()
	values := maps.Clone(s.values)
	s.mu.Unlock()
	k, _ := kept(values)
	return k
}

// ErrHeld says that what was put can't be written at the moment, and would not
// survive a power cut before it is.
var ErrHeld = errors.New("held in memory until it can be stored")

// Watch has f called with the error when the store can't be written to any more,
// and with nil when it can again; at once if it can't now. f must not call the store.
func (s *Store) Watch(f func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = f
	if s.err != nil {
		f(s.err)
	}
}

// Err tells why the store can't be written to at the moment; nil if it can.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Put stores items and returns when they are on disk. With ErrHeld they are in
// memory, and written later; see Store.
func (s *Store) Put(items ...Item) error { return s.Begin(items...)() }

// Begin is Put in two parts: what it returns waits for the disk. Items get there in
// the order in which they were begun, and those begun while a write is under way
// share the next.
func (s *Store) Begin(items ...Item) (wait func() error) {
	for _, i := range items {
		if i.err != nil {
			return func() error { return i.err }
		}
	}
	p := put{items, make(chan error, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return func() error { return errors.New("the store is closed") }
	}
	s.puts = append(s.puts, p)
	select {
	case s.wake <- struct{}{}:
	default: // it is to look already
	}
	return func() error { return <-p.done }
}

// Close waits for what is being written, and closes the store.
func (s *Store) Close() error {
	s.close()
	<-s.done
	var err error
	if s.log != nil {
		err = s.log.Close()
		s.log = nil
	}
	return errors.Join(err, s.dirFD.Close())
}
