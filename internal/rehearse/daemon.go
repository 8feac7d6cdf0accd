package rehearse

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/lab"
)

// Where things of the gateway machine are in a lab, whose /run is its own.
const (
	fileDir    = "/run/lab/file"
	logFile    = "/run/lab/weir.log"
	stateDir   = "/run/lab/state"
	runtimeDir = "/run/weir"
)

// Daemon is the weir under trial.
type Daemon struct {
	gw   *lab.Host
	args []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // how it exited
}

// newDaemon is this program run as `weir run` on the user's file.
func newDaemon(gw *lab.Host, path string) *Daemon {
	return &Daemon{gw: gw, args: []string{"run", path, "--state-dir", stateDir, "--runtime-dir", runtimeDir}}
}

// Start starts it. Its log is appended to logFile.
func (d *Daemon) Start() error {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("/proc/self/exe", d.args...)
	cmd.Args[0] = "weir"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if _, err := os.Stat(caFile); err == nil {
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+caFile) // whom the internet's servers are known by
	}
	if err := d.gw.Start(cmd); err != nil {
		return fmt.Errorf("start weir run: %w", err)
	}
	exited := make(chan struct{})
	d.mu.Lock()
	d.cmd, d.exited, d.err = cmd, exited, nil
	d.mu.Unlock()
	go func() {
		err := cmd.Wait()
		d.mu.Lock()
		d.err = err
		d.mu.Unlock()
		close(exited)
	}()
	return nil
}

// Signal sends it a signal.
func (d *Daemon) Signal(s syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd.Process.Signal(s)
}

// PID is its process.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd.Process.Pid
}

// End sends a signal that ends it, and waits until it has.
func (d *Daemon) End(s syscall.Signal, limit time.Duration) error {
	if err := d.Signal(s); err != nil {
		return fmt.Errorf("send %s to weir run: %w", s, err)
	}
	select {
	case <-d.ended():
		return nil
	case <-time.After(limit):
		return fmt.Errorf("weir run goes on %s after %s", limit, s)
	}
}

func (d *Daemon) ended() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.exited
}

// Gone says how it exited, if it has.
func (d *Daemon) Gone() error {
	select {
	case <-d.ended():
	default:
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return errors.New("exit status 0")
	}
	return d.err
}

// Log is the end of its log: the last lines that tell of trouble, else the last.
func (d *Daemon) Log(lines int) string {
	b, err := os.ReadFile(logFile)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	var bad []string
	for _, l := range all {
		if strings.Contains(l, "level=ERROR") || strings.Contains(l, "panic") {
			bad = append(bad, l)
		}
	}
	if len(bad) > 0 {
		all = bad
	}
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	for i, l := range all {
		all[i] = short(l)
	}
	return strings.Join(all, "\n")
}

// short drops what every line of a log has: the date, and the usual level.
func short(line string) string {
	if rest, ok := strings.CutPrefix(line, "time="); ok && len(rest) > 11 && rest[10] == 'T' {
		line = rest[11:]
	}
	return strings.Replace(line, " level=INFO msg=", " ", 1)
}

// wholeLog is all that it logged.
func wholeLog() string {
	b, err := os.ReadFile(logFile)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}
