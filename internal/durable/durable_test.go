package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/durable"
	"weir/internal/durable/durabletest"
)

type thing struct{ Index map[string]int }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "too")
	if err := durable.Machine.Folder(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "thing")
	// What a power cut left, and a link that leads elsewhere.
	other := filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.WriteFile(other, []byte("theirs"), 0o600), os.Symlink(other, filepath.Join(dir, ".thing.new"))); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "another"} {
		if err := durable.Machine.Put(path, []byte(text), durable.As{Mode: 0o640}); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != text {
			t.Errorf("it holds %q, want %q", got, text)
		}
	}
	failed := errors.New("nothing comes")
	err := durable.Machine.Write(path, durable.Private, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return failed
	})
	if got := read(t, path); !errors.Is(err, failed) || got != "another" {
		t.Errorf("after %v it holds %q", err, got)
	}
	if got := read(t, other); got != "theirs" {
		t.Errorf("the other file holds %q", got)
	}
	if e, _ := os.ReadDir(dir); len(e) != 1 {
		t.Errorf("%d files, want the one", len(e))
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o640 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if err := durable.Machine.Put(filepath.Join(dir, "no", "such"), nil, durable.Private); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("put in a folder that is not there: %v", err)
	}
	for range 2 {
		if err := durable.Machine.Remove(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
}

// TestDamage changes each byte of a kept file, and cuts it at each length: what is
// read is what was kept, or it is said and kept aside.
func TestDamage(t *testing.T) {
	path, disk := filepath.Join(t.TempDir(), "thing.json"), durabletest.Unsynced()
	var got thing
	if err := disk.Recover(path, &got); err != nil || got.Index != nil {
		t.Fatalf("nothing is stored yet: %v, %v", got, err)
	}
	if err := disk.Keep(path, thing{map[string]int{"fiber": 1}}); err != nil {
		t.Fatal(err)
	}
	whole := read(t, path)
	var broken []string
	for i := range whole {
		broken = append(broken, whole[:i])
		for _, v := range []byte{whole[i] ^ 1, whole[i] ^ 0x80, 0, '\n', '9'} {
			if v != whole[i] {
				broken = append(broken, whole[:i]+string([]byte{v})+whole[i+1:])
			}
		}
	}
	for _, text := range append(broken, whole+"\n") {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := thing{}
		if err := durable.Kept(path, &got); !errors.Is(err, durable.ErrDamaged) || got.Index != nil {
			t.Fatalf("%q is read as %v, %v", text, got, err)
		}
		if err := disk.Recover(path, &got); !errors.Is(err, durable.ErrDamaged) || !strings.Contains(err.Error(), path+".bad") {
			t.Fatalf("%q: %v", text, err)
		}
		if aside := read(t, path+".bad"); aside != text {
			t.Fatalf("kept aside is %q, want %q", aside, text)
		}
		if err := disk.Recover(path, &got); err != nil {
			t.Fatalf("the start after: %v", err)
		}
	}
}

// broke is a disk on which nothing can be made.
type broke struct {
	durable.System
	errno unix.Errno
}

func (b broke) Open(path string, _ int, _ fs.FileMode) (durable.File, error) {
	return nil, &fs.PathError{Op: "open", Path: path, Err: b.errno}
}

// TestErrors: which file, why, and what to do.
func TestErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thing.json")
	for errno, todo := range map[unix.Errno]string{
		unix.ENOSPC: "make room",
		unix.EDQUOT: "make room",
		unix.EROFS:  "mounted read-only",
		unix.EIO:    "see dmesg",
	} {
		err := durable.On(broke{errno: errno}).Keep(path, thing{})
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), todo) ||
			!strings.Contains(err.Error(), filepath.Dir(path)) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
