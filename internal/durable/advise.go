package durable

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// advised is err with what to do about it, where something is.
func advised(err error, path string) error {
	dir := filepath.Dir(path)
	for cause, todo := range map[unix.Errno]string{
		unix.ENOSPC: "its disk is full: make room on it (df %[1]s; df -i %[1]s tells whether it has no inodes left)",
		unix.EDQUOT: "the quota of its disk is used up: make room in %s, or raise it",
		unix.EROFS:  "its file system is mounted read-only, as the kernel does when a disk fails: see dmesg and findmnt -T %[1]s, then mount it read-write",
		unix.EIO:    "its disk fails: see dmesg, and put %s on another one (--state-dir)",
	} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%w; "+todo, err, dir)
		}
	}
	return err
}
