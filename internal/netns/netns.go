// Package netns runs functions inside network namespaces, and makes and
// deletes the named ones.
//
// A namespace belongs to a thread, not to a goroutine: what Do starts with "go"
// is outside again. A socket stays where it was opened. So open sockets in Do
// and use them anywhere. A command started in Do runs in the namespace.
//
// Names are those of ip-netns(8): NAME is the file /run/netns/NAME, on which
// the namespace is mounted, so that `ip netns exec NAME` finds it. The package
// works as well in a user namespace with a /run of its own.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"weir/internal/bare"
)

// Dir is where named namespaces are mounted.
const Dir = "/run/netns"

// ErrNotExist says that there is no namespace of that name. It is
// fs.ErrNotExist.
var ErrNotExist = fs.ErrNotExist

// Path returns the file on which namespace name is mounted. The path of "" is
// that of the namespace the process started in.
func Path(name string) string {
	if name == "" {
		return "/proc/self/ns/net"
	}
	return Dir + "/" + name // twenty times a second, in Is
}

// Do runs f in the namespace called name and returns what f returns; "" is the
// namespace the process started in. f runs on a thread of its own that ends
// with it. testing's FailNow is not allowed in f: return the error.
//
// The error is ErrNotExist if there is no such namespace.
func Do(name string, f func() error) error {
	return onThread(func() error {
		if name != "" {
			if err := enter(name); err != nil {
				return err
			}
		}
		return f()
	})
}

// Enter moves the calling thread into name.
func enter(name string) error {
	fd, err := unix.Open(Path(name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", name, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		if errors.Is(err, unix.EINVAL) {
			// The file is there and nothing is mounted on it: what is left of a
			// namespace whose mount did not survive.
			return fmt.Errorf("enter network namespace %s: %s is no namespace: %w", name, Path(name), fs.ErrNotExist)
		}
		return fmt.Errorf("enter network namespace %s: %w", name, err)
	}
	return nil
}

// onThread runs f on a locked thread that is not given back to the runtime. It
// is never the process's first thread: /proc/PID/ns/net is that thread's, and
// has to go on naming the namespace the process started in.
func onThread(f func() error) error {
	type result struct {
		err   error
		panic any
	}
	done := make(chan result, 1)
	run := func() {
		var r result
		finished := false
		defer func() {
			if !finished {
				if r.panic = recover(); r.panic == nil {
					r.err = errors.New("a function run in a namespace ended its goroutine (FailNow is not allowed there)")
				}
			}
			done <- r
		}()
		r.err = f()
		finished = true
	}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here
		if unix.Gettid() != unix.Getpid() {
			run()
			return
		}
		// While this goroutine holds the first thread another one can't get it.
		held := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(held)
			run()
		}()
		<-held
		runtime.UnlockOSThread()
	}()
	r := <-done
	if r.panic != nil {
		panic(r.panic)
	}
	return r.err
}

// Create makes the namespace name, as `ip netns add` does. Its lo is down.
func Create(name string) (err error) {
	if name == "" || name == "." || name == ".." || filepath.Base(name) != name {
		return fmt.Errorf("create network namespace %q: not a file name", name)
	}
	if err := shareDir(); err != nil {
		return fmt.Errorf("create network namespace %s: %w", name, err)
	}
	f, err := os.OpenFile(Path(name), os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("create network namespace %s: %w", name, err)
	}
	f.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", Path(name), "none", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount it on %s: %w", Path(name), err)
		}
		return nil
	})
	if err != nil {
		os.Remove(Path(name))
		return fmt.Errorf("create network namespace %s: %w", name, err)
	}
	return nil
}

// shareDir makes Dir a shared mount of its own, as `ip netns` does, so that a
// namespace made here is seen, and when deleted goes, in every mount namespace
// that came from this one.
func shareDir() error {
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", Dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) {
		return os.NewSyscallError("share "+Dir, err)
	}
	if err := unix.Mount(Dir, Dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return os.NewSyscallError("bind "+Dir, err)
	}
	return os.NewSyscallError("share "+Dir, unix.Mount("", Dir, "none", unix.MS_SHARED|unix.MS_REC, ""))
}

// Delete unmounts the namespace name and removes its file, as `ip netns del`
// does. The namespace itself lives on while a process or socket is in it; then
// its physical ports go back to the first namespace, and its other links go.
// The error is ErrNotExist if there is no such name.
func Delete(name string) error {
	if err := unix.Unmount(Path(name), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("delete network namespace %s: unmount: %w", name, err)
	}
	if err := os.Remove(Path(name)); err != nil {
		return fmt.Errorf("delete network namespace %s: %w", name, err)
	}
	return nil
}

// List returns the names of the namespaces there are, sorted. A file on which
// nothing is mounted counts: it is in the way of Create.
func List() ([]string, error) {
	entries, err := os.ReadDir(Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// An ID tells one namespace from another that took over its name.
type ID struct{ Dev, Ino uint64 }

// Identify returns the ID of the namespace called name. The error is
// ErrNotExist if there is none.
func Identify(name string) (ID, error) {
	var st unix.Stat_t
	if err := unix.Stat(Path(name), &st); err != nil {
		return ID{}, fmt.Errorf("network namespace %s: %w", name, err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(Path(name), &fs); err != nil {
		return ID{}, fmt.Errorf("network namespace %s: %w", name, err)
	}
	if int64(fs.Type) != unix.NSFS_MAGIC { //nolint:unconvert // its type differs between processors
		return ID{}, fmt.Errorf("network namespace %s: nothing is mounted on %s: %w", name, Path(name), ErrNotExist)
	}
	return ID{Dev: uint64(st.Dev), Ino: st.Ino}, nil //nolint:unconvert // its type differs between processors
}

// Is says whether name is the namespace with that ID, at the price of one system call.
func Is(name string, id ID) bool {
	st, err := bare.Stat(Path(name), unix.STATX_INO)
	return err == nil && ID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino} == id
}

// Attach gives the namespace that f is open on the name name, as after Delete
// of one that is still held.
func Attach(name string, f *os.File) error {
	if err := shareDir(); err != nil {
		return fmt.Errorf("attach network namespace %s: %w", name, err)
	}
	file, err := os.OpenFile(Path(name), os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("attach network namespace %s: %w", name, err)
	}
	file.Close()
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), Path(name), "none", unix.MS_BIND, ""); err != nil {
		os.Remove(Path(name))
		return fmt.Errorf("attach network namespace %s: %w", name, err)
	}
	return nil
}
