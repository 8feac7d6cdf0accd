package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// This machine is the one that the program runs on. Built is when the program was made.
func This(ctx context.Context, stateDir string, built time.Time) Machine {
	m := Machine{
		Root: os.DirFS("/"), StateDir: strings.TrimPrefix(filepath.Clean(stateDir), "/"),
		CPUs: runtime.NumCPU(), Now: time.Now(), Built: built, Disk: diskOf(stateDir),
		Run: func(stdin string, args ...string) (string, error) { return apart(ctx, stdin, args...) },
		Write: func(path, text string) error {
			return os.WriteFile("/"+path, []byte(text), 0o644) //nolint:gosec // a file of /sys that is there
		},
		Load: func(module string) error {
			out, err := command(ctx, "modprobe", module).CombinedOutput()
			if err != nil {
				return fmt.Errorf("modprobe %s: %w: %s", module, err, bytes.TrimSpace(out))
			}
			return nil
		},
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if out, err := command(ctx, "nft", "--version").Output(); err == nil {
		m.NFT = string(out)
	}
	var t unix.Timex
	state, err := unix.Adjtimex(&t) // asks, as no mode is set
	m.Synced = err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
	return m
}

// command is a program of the system's; those of /usr/sbin are not in every user's PATH.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "LC_ALL=C"}
	if cmd.Err != nil {
		for _, dir := range []string{"/usr/sbin", "/sbin"} {
			if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				cmd.Path, cmd.Err = p, nil
				break
			}
		}
	}
	return cmd
}

// apart runs a program in a network namespace of its own, which goes with it, and
// returns what it printed.
func apart(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := command(ctx, args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// diskOf is the file system of a folder, or of the first one above it that is there.
func diskOf(dir string) Disk {
	const tmpfs, ramfs = 0x01021994, 0x858458f6 // TMPFS_MAGIC, RAMFS_MAGIC
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if errors.Is(err, unix.ENOENT) && dir != "/" && dir != "." {
			continue
		}
		return Disk{
			Free:     st.Bavail * uint64(st.Bsize),
			ReadOnly: st.Flags&unix.ST_RDONLY != 0, Memory: st.Type == tmpfs || st.Type == ramfs, Err: err,
		}
	}
}
