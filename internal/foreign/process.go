package foreign

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// leaveWithin is how long a daemon that is told to end may take: the worker that
// looks after it has 2 s itself.
const leaveWithin = 1500 * time.Millisecond

// Command is a daemon to be started. Path and Listen are required.
type Command struct {
	Path     string
	Args     []string
	UID, GID uint32    // 0, 0: whom weir runs as, with what weir may
	Caps     []uintptr // what it may, where it has a user of its own

	// Hosts, unless "", is a file that it has in the place of /etc/hosts.
	Hosts string

	// Listen reads what the daemon says on its standard error until it ends, and
	// returns its last complaint; "" is none.
	Listen func(io.Reader) string
}

// What a daemon may be given to do.
const (
	BindCap = unix.CAP_NET_BIND_SERVICE // open ports below 1024
	TimeCap = unix.CAP_SYS_TIME         // set the clock
)

// Process is a running daemon.
type Process struct {
	PID    int
	Exited chan struct{} // closed when it is gone
	name   string
	err    error
}

// Err is why it ended; to be asked once Exited is closed.
func (p *Process) Err() error { return p.err }

// Start starts a daemon. It is killed when the thread that started it ends, which
// is kept until then: so nobody is left on a port when we are killed.
func Start(c Command) (*Process, error) {
	p := &Process{Exited: make(chan struct{}), name: filepath.Base(c.Path)}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"} // not who is told that we run (sd_notify(3))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.UID != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.UID, Gid: c.GID}
		cmd.SysProcAttr.AmbientCaps = c.Caps
	}
	out, says, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	// It may open its standard error once more, by name.
	if err := says.Chown(int(c.UID), int(c.GID)); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.name, err), out.Close(), says.Close())
	}
	cmd.Stderr = says
	began := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		defer out.Close()
		var err error
		if c.Hosts != "" {
			err = ownHosts(c.Hosts)
		}
		if err == nil {
			err = cmd.Start()
		}
		says.Close()
		if err != nil {
			began <- err
			return
		}
		p.PID = cmd.Process.Pid
		began <- nil
		last := c.Listen(out)
		switch err := cmd.Wait(); {
		case last != "":
			p.err = fmt.Errorf("%s ended (%s): %s", p.name, cmd.ProcessState, last)
		case err != nil:
			p.err = fmt.Errorf("%s ended: %w", p.name, err)
		default:
			p.err = fmt.Errorf("%s ended by itself", p.name)
		}
		close(p.Exited)
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// ownHosts gives the calling thread, and what it starts, mounts of its own in which
// path is /etc/hosts.
func ownHosts(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	if err := unix.Mount(path, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("its own /etc/hosts: %w", err)
	}
	return nil
}

// Signal sends a signal. One that is gone has no use for it.
func (p *Process) Signal(s unix.Signal) error {
	if err := unix.Kill(p.PID, s); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// End ends the daemon and waits for it.
func (p *Process) End() {
	_ = unix.Kill(p.PID, unix.SIGTERM) // ESRCH: it is gone
	select {
	case <-p.Exited:
		return
	case <-time.After(leaveWithin):
	}
	_ = unix.Kill(p.PID, unix.SIGKILL)
	<-p.Exited
}
