package durabletest

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// disk is what is on the platter, and what may or may not be there yet.
type disk struct {
	names   map[string]int // path to inode
	inodes  map[int]*inode
	pending []call // done to names since their folder was synced, in order
}

type inode struct {
	dir     bool
	content []byte
	pending []call // written since the file was synced, in order
}

func clone(names map[string]int) map[string]int { return maps.Clone(names) }

// Crash is what a power cut may leave.
type Crash struct {
	Marks int    // that were made before it
	What  string // for a message
	tree  map[string]*[]byte
}

// Crashes are the states in which a power cut after each call may leave the disk.
//
// Nothing is taken for granted that POSIX does not say: until a folder is synced,
// any of the changes to its names may have happened, and any not; until a file is
// synced, any part of what was written to it may be there, in any order, and where
// it is not there are the old bytes, zeroes or others.
func (r *Recorder) Crashes() iter.Seq[Crash] {
	return func(yield func(Crash) bool) {
		r.mu.Lock()
		log := slices.Clone(r.log)
		r.mu.Unlock()
		d := r.base.copied()
		marks := 0
		seen := map[[sha256.Size]byte]bool{}
		for at := range len(log) + 1 {
			if at > 0 {
				if c := log[at-1]; c.kind == mark {
					marks++
				} else {
					d.take(c)
				}
			}
			for what, tree := range d.left() {
				sum := digest(tree, marks)
				if seen[sum] {
					continue
				}
				seen[sum] = true
				if !yield(Crash{Marks: marks, What: fmt.Sprintf("after call %d of %d, %s", at, len(log), what), tree: tree}) {
					return
				}
			}
		}
	}
}

func (d disk) copied() disk {
	c := disk{names: maps.Clone(d.names), inodes: map[int]*inode{}}
	for ino, i := range d.inodes {
		n := *i
		c.inodes[ino] = &n
	}
	return c
}

// take is a call that is made.
func (d *disk) take(c call) {
	switch c.kind {
	case create, mkdir:
		d.inodes[c.ino] = &inode{dir: c.kind == mkdir}
		d.pending = append(d.pending, c)
	case rename, remove:
		d.pending = append(d.pending, c)
	case write:
		i := d.inodes[c.ino]
		i.pending = append(i.pending, c)
	case datasync:
		i := d.inodes[c.ino]
		i.content, i.pending = i.with(0, len(i.pending)), nil
	case syncFolder:
		var rest []call
		for _, p := range d.pending {
			if filepath.Dir(p.path) == c.path {
				happen(d.names, p)
			} else {
				rest = append(rest, p)
			}
		}
		d.pending = rest
	}
}

func happen(names map[string]int, c call) {
	switch c.kind {
	case create, mkdir:
		names[c.path] = c.ino
	case rename:
		delete(names, c.path)
		names[c.to] = c.ino
	case remove:
		delete(names, c.path)
	}
}

// with is what the file holds if those of the pending writes have happened.
func (i *inode) with(from, to int) []byte {
	b := slices.Clone(i.content)
	for _, w := range i.pending[from:to] {
		b = over(b, w.off, w.data)
	}
	return b
}

// over is b with data at off; what lies before it and was not there is zero.
func over(b []byte, off int64, data []byte) []byte {
	if end := int(off) + len(data); end > len(b) {
		b = append(b, make([]byte, end-len(b))...)
	}
	copy(b[off:], data)
	return b
}

// ways are how much of what was written is there. The last write is torn, the
// others are there or not.
var ways = []struct {
	what string
	of   func(i *inode) []byte
}{
	{"nothing unsynced is there", func(i *inode) []byte { return i.content }},
	{"all of it is there", func(i *inode) []byte { return i.with(0, len(i.pending)) }},
	{"its first byte is there", torn(func(int) int { return 1 })},
	{"an eighth of it is there", torn(func(n int) int { return n / 8 })},
	{"a quarter of it is there", torn(func(n int) int { return n / 4 })},
	{"half of it is there", torn(func(n int) int { return n / 2 })},
	{"three quarters of it are there", torn(func(n int) int { return 3 * n / 4 })},
	{"all but its last byte is there", torn(func(n int) int { return n - 1 })},
	{"its size is there, its bytes are zeroes", filled(0, 0)},
	{"its second half is there, its first is zeroes", filled(0, 2)},
	{"its second half is there, its first is something else", filled(0xa5, 2)},
	{"only the last write is there", func(i *inode) []byte { return i.with(len(i.pending)-1, len(i.pending)) }},
}

func torn(keep func(n int) int) func(i *inode) []byte {
	return func(i *inode) []byte {
		last := i.pending[len(i.pending)-1]
		return over(i.with(0, len(i.pending)-1), last.off, last.data[:min(keep(len(last.data)), len(last.data))])
	}
}

// filled has the last write's size, and of its bytes those from the given part on.
func filled(with byte, part int) func(i *inode) []byte {
	return func(i *inode) []byte {
		last := i.pending[len(i.pending)-1]
		data := slices.Clone(last.data)
		n := len(data)
		if part != 0 {
			n /= part
		}
		for k := range n {
			data[k] = with
		}
		return over(i.with(0, len(i.pending)-1), last.off, data)
	}
}

// maxNames bounds how many changes to names are tried in all combinations. Those
// before them have not happened, which is one of the combinations too.
const maxNames = 6

// left are the states in which d may be found.
func (d *disk) left() iter.Seq2[string, map[string]*[]byte] {
	return func(yield func(string, map[string]*[]byte) bool) {
		pending := d.pending[max(0, len(d.pending)-maxNames):]
		for mask := range 1 << len(pending) {
			names := maps.Clone(d.names)
			for n, c := range pending {
				if mask&(1<<n) != 0 {
					happen(names, c)
				}
			}
			for _, way := range ways {
				tree := map[string]*[]byte{}
				for path, ino := range names {
					i := d.inodes[ino]
					switch {
					case i.dir:
						tree[path] = nil
					case len(i.pending) == 0:
						tree[path] = &i.content
					default:
						b := way.of(i)
						tree[path] = &b
					}
				}
				if !yield(fmt.Sprintf("of %d changes to names %0*b, of what was written %s", len(pending), len(pending), mask, way.what), tree) {
					return
				}
			}
		}
	}
}

func digest(tree map[string]*[]byte, marks int) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintln(h, marks)
	for _, path := range slices.Sorted(maps.Keys(tree)) {
		if b := tree[path]; b == nil {
			fmt.Fprintf(h, "%q\n", path)
		} else {
			fmt.Fprintf(h, "%q %d\n%s", path, len(*b), *b)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// lay lays what the power cut left into a folder, from the one that was recorded.
func (c Crash) lay(recorded, into string) error {
	for _, path := range slices.Sorted(maps.Keys(c.tree)) {
		rel, err := filepath.Rel(recorded, path)
		if err != nil {
			return err
		}
		at := filepath.Join(into, rel)
		if _, err := os.Stat(filepath.Dir(at)); err != nil && rel != "." {
			continue // in a folder that is not there
		}
		if b := c.tree[path]; b != nil {
			err = os.WriteFile(at, *b, 0o600)
		} else if rel != "." {
			err = os.Mkdir(at, 0o700)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enough wrongs are shown of a trial.
const enough = 5

// Cut cuts the power after each call that was recorded, and has check look at what
// was left, in a folder of its own that stands for the recorded one. It returns how
// many different states were tried, and the first of what check found wrong ("" is
// nothing).
func (r *Recorder) Cut(tb testing.TB, check func(dir string, c Crash) string) (tried int, wrong []string) {
	tb.Helper()
	around := tb.TempDir()
	for c := range r.Crashes() {
		tried++
		dir := filepath.Join(around, "disk")
		if err := os.Mkdir(dir, 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := c.lay(r.root, dir); err != nil {
			tb.Fatal(err)
		}
		if w := check(dir, c); w != "" {
			wrong = append(wrong, c.What+": "+w)
		}
		if err := os.RemoveAll(dir); err != nil {
			tb.Fatal(err)
		}
		if len(wrong) == enough {
			break
		}
	}
	return tried, wrong
}
