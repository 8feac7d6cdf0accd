package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// inSpace runs f on a thread in s, whatever its name now stands for.
func inSpace(s *space, f func() error) error {
	return netns.Do("", func() error {
		if s.name != "" {
			if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter %s: %w", place(s.name), err)
			}
		}
		return f()
	})
}

// sysctls reads the values of keys in s. Those that do not exist are left out.
func (s *space) sysctls(keys []string) (map[string]string, error) {
	out := make(map[string]string, len(keys))
	if len(keys) == 0 {
		return out, nil
	}
	err := inSpace(s, func() error {
		for _, key := range keys {
			v, err := readSysctl(key)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL):
			case err != nil:
				return err
			default:
				out[key] = v
			}
		}
		return nil
	})
	return out, err
}

// sysctlPath keeps a key within /proc/sys.
func sysctlPath(key string) string { return filepath.Join("/proc/sys", filepath.Clean("/"+key)) }

// readSysctl reads a value in the calling thread's namespace.
func readSysctl(key string) (string, error) {
	// Three system calls; os.ReadFile makes seven, and a turn reads a hundred.
	fd, err := unix.Open(sysctlPath(key), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: key, Err: err}
	}
	defer unix.Close(fd)
	var b [4096]byte // proc_dostring's values are shorter
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: key, Err: err}
	}
	return strings.TrimSpace(string(b[:n])), nil
}

func writeSysctl(key, value string) error {
	f, err := os.OpenFile(sysctlPath(key), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

func (s *space) setSysctl(key, value string) error {
	return inSpace(s, func() error { return s.writeSysctl(key, value) })
}

// writeSysctl is setSysctl for who is in the namespace already.
func (s *space) writeSysctl(key, value string) error {
	return s.writes.do("sysctl "+key, func() error { return writeSysctl(key, value) })
}
