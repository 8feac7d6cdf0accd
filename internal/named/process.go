package named

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What named takes at most. It is ready when all zones are loaded, which with
// large journals after a kill takes a while on a slow disk.
const (
	readyWithin = 30 * time.Second
	leaveWithin = 1500 * time.Millisecond // the worker has 2 s
)

// What named says of itself (bin/named/server.c).
const (
	saysRunning  = "running"
	saysReloaded = "reloading configuration succeeded"
	saysRefused  = "reloading configuration failed"
)

// process is a running named.
type process struct {
	pid    int
	exited chan struct{} // closed when it is gone
	err    error         // why; to be read when it is gone
	says   chan string   // what it says of its state
}

// start starts named. It is killed when the thread that started it ends, which
// is kept until then: so nobody is left on the port when we are killed.
func start(c Config, log *slog.Logger) (*process, error) {
	p := &process{exited: make(chan struct{}), says: make(chan string, 64)}
	// -L: what it says before it has read its configuration, or that it can't.
	cmd := exec.Command(c.Program.Path, "-f", "-L", "/dev/stderr", "-c", filepath.Join(c.Dir, confFile))
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"} // not who is told that we run (sd_notify(3))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.Program.UID != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.Program.UID, Gid: c.Program.GID}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_BIND_SERVICE}
	}
	out, says, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start named: %w", err)
	}
	// It opens its standard error once more, by name.
	if err := says.Chown(int(c.Program.UID), int(c.Program.GID)); err != nil {
		return nil, errors.Join(fmt.Errorf("start named: %w", err), out.Close(), says.Close())
	}
	cmd.Stderr = says
	began := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		defer out.Close()
		err := cmd.Start()
		says.Close()
		if err != nil {
			began <- err
			return
		}
		p.pid = cmd.Process.Pid
		began <- nil
		last := p.listen(out, log)
		switch err := cmd.Wait(); {
		case last != "":
			p.err = fmt.Errorf("named ended (%s): %s", cmd.ProcessState, last)
		case err != nil:
			p.err = fmt.Errorf("named ended: %w", err)
		default:
			p.err = errors.New("named ended by itself")
		}
		close(p.exited)
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("start named: %w", err)
	}
	return p, nil
}

// dated is how a line begins that it says before it has its configuration.
var dated = regexp.MustCompile(`^\d\d-[A-Z][a-z][a-z]-\d{4} [0-9:.]+ `)

// awaited says whether somebody may wait for a line. What else is said comes in
// bursts, which would leave no room for it.
func awaited(text string) bool {
	return text == saysRunning || text == saysReloaded || strings.HasPrefix(text, saysRefused)
}

// listen passes on what named says until it ends, and returns the last complaint.
// "category: severity: text" are its lines.
func (p *process) listen(from io.Reader, log *slog.Logger) (last string) {
	said := map[string]time.Time{}
	sc := bufio.NewScanner(from)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := dated.ReplaceAllString(sc.Text(), "")
		category, rest, _ := strings.Cut(line, ": ")
		severity, text, ok := strings.Cut(rest, ": ")
		if !ok {
			severity, text = "error", line // not from its log: the linker's or the memory manager's
		}
		if category == "general" && awaited(text) {
			select {
			case p.says <- text:
			default: // nobody waits for anything
			}
		}
		level := slog.LevelDebug
		switch severity {
		case "notice":
			if category != "general" {
				level = slog.LevelInfo
			}
		case "warning":
			switch level = slog.LevelWarn; {
			case strings.HasPrefix(text, "managed-keys-zone: "):
				level = slog.LevelInfo // that no line works yet, and each new anchor
			case strings.HasPrefix(text, "checkhints: "):
				level = slog.LevelDebug // the root's servers move now and then, and it goes on by those of today
			}
		case "error", "critical":
			if level = slog.LevelError; !strings.HasPrefix(text, "exiting") {
				last = text
			}
		}
		if at, ok := said[text]; ok && time.Since(at) < 10*time.Minute {
			continue // it goes on about the same
		}
		if level > slog.LevelDebug {
			if len(said) > 100 {
				clear(said)
			}
			said[text] = time.Now()
		}
		log.Log(context.Background(), level, "named says", "text", text, "category", category)
	}
	_, _ = io.Copy(io.Discard, from) // a line too long: the rest is of no interest
	return last
}

// ready waits until all zones are loaded.
func (p *process) ready(ctx context.Context) error {
	return p.until(ctx, func(says string) (bool, error) { return says == saysRunning, nil })
}

// reload has named take its files in. The error says that it goes on by the old
// ones. It must be ready: before that SIGHUP ends it.
func (p *process) reload(ctx context.Context) error {
	for len(p.says) > 0 {
		<-p.says
	}
	if err := unix.Kill(p.pid, unix.SIGHUP); err != nil {
		return fmt.Errorf("tell named to reload: %w", err)
	}
	taken := false
	return p.until(ctx, func(says string) (bool, error) {
		if strings.HasPrefix(says, saysRefused) {
			return true, errors.New("named goes on by the configuration before: " + says)
		}
		taken = taken || says == saysReloaded
		return taken && says == saysRunning, nil
	})
}

func (p *process) until(ctx context.Context, done func(string) (bool, error)) error {
	limit := time.NewTimer(readyWithin)
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.exited:
			return p.err
		case <-limit.C:
			return fmt.Errorf("named has not loaded its zones after %s", readyWithin)
		case says := <-p.says:
			if ok, err := done(says); ok {
				return err
			}
		}
	}
}

// end ends named and waits for it.
func (p *process) end() {
	_ = unix.Kill(p.pid, unix.SIGTERM) // ESRCH: it is gone
	select {
	case <-p.exited:
		return
	case <-time.After(leaveWithin):
	}
	_ = unix.Kill(p.pid, unix.SIGKILL)
	<-p.exited
}
