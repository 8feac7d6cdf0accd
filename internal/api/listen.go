package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// SocketName is the socket's name in the runtime directory.
const SocketName = "weir.sock"

// ErrRunning says that another daemon answers on the socket.
var ErrRunning = errors.New("weir is running already")

// Listen opens the API's socket in the runtime directory dir with mode 0660 and
// the given group ("" is weir). It stays with the caller's where there is no group
// weir, or where the group can't be given, which is logged. A socket that nobody
// answers on, left by a killed daemon, is replaced.
func Listen(dir, group string, log *slog.Logger) (net.Listener, error) {
	path := filepath.Join(dir, SocketName)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the runtime directory: %w", err)
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("%w: it answers on %s; `weir apply FILE` changes what it does, and another one needs a --runtime-dir of its own", ErrRunning, path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the dead socket %s: %w", path, err)
	}
	// Made under another name and renamed once it has its mode and group, so
	// that nobody connects before; the umask belongs to the whole process.
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove %s: %w", fresh, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	fail := func(err error) (net.Listener, error) {
		return nil, errors.Join(err, l.Close(), os.Remove(fresh))
	}
	if err := os.Chmod(fresh, 0o660); err != nil {
		return fail(fmt.Errorf("give %s its mode: %w", path, err))
	}
	if err := give(fresh, group, log); err != nil {
		return fail(err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fail(fmt.Errorf("put the socket at %s: %w", path, err))
	}
	return l, nil
}

// usualGroup is the group that has the socket where there is such a group.
const usualGroup = "weir"

// Give gives the socket in the runtime directory dir to a group, as Listen does:
// whoever connects from now on is asked for it.
func Give(dir, group string, log *slog.Logger) error {
	err := give(filepath.Join(dir, SocketName), group, log)
	if errors.Is(err, os.ErrNotExist) {
		return nil // somebody removed it: Listen makes it anew
	}
	return err
}

// give gives path to a group. That the usual one does not exist is no error, path is
// then our own group's; and that a group can't be given (a user namespace holds one) is logged.
func give(path, group string, log *slog.Logger) error {
	if group == "" {
		group = usualGroup
	}
	gid := os.Getegid()
	g, err := user.LookupGroup(group)
	var unknown user.UnknownGroupError
	switch {
	case errors.As(err, &unknown) && group == usualGroup:
	case err != nil:
		return fmt.Errorf("give the API's socket to group %q: %w; `groupadd --system %s` makes it", group, err, group)
	default:
		if gid, err = strconv.Atoi(g.Gid); err != nil {
			return fmt.Errorf("group %q has the number %q", group, g.Gid)
		}
	}
	err = os.Chown(path, -1, gid)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		log.Warn("the API's socket stays with its group: another can't be given here", "group", group, "err", err)
		return nil
	}
	return err
}
