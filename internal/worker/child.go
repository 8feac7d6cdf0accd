package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Restarts of a child that ended: at first at once, so that a panic on one
// packet goes unnoticed, then twice as late each time. A child that ran for
// goodAfter is as good as new.
const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 15 * time.Second
	goodAfter    = time.Minute
)

// A child has this long, and as long again, for a beat. Twice, so that a machine
// that slept or was starved kills nobody for it.
const beatEvery = 5 * time.Second

// ErrNotRunning is the error of Child.Send while there is no child to send to.
// It needs no handling where Setup sends the same: Setup runs at the next start.
var ErrNotRunning = errors.New("the service is not running at the moment; it is being restarted")

// Options says what a child is. Kind, Setup, Received and Log are required.
type Options struct {
	Kind string // which service
	Name string // which of its kind, for logs and ps: a WAN's or LAN's name; "" if there is one

	// Setup is called at each start with the new child's connection, and sends
	// configuration and freshly opened sockets. An error ends this child; the
	// next is tried after the back-off. Setup must not call Child.Send.
	Setup func(ctx context.Context, c *Conn) error

	// Received is called with each of the child's messages, one at a time, and
	// owns the files in it. It is given the child to answer with: a message may be
	// here before Start has returned. An error (a message that does not decode) ends the
	// child, which is restarted.
	Received func(*Child, Message) error

	// Changed, if not nil, is called when the child's State changed.
	Changed func(State)

	Log *slog.Logger

	beatEvery time.Duration // the tests'; 0: beatEvery
}

// State is how a child is doing.
type State struct {
	Running   bool      `json:"running"`
	PID       int       `json:"pid,omitempty"`
	Since     time.Time `json:"since"`                // of this start, or of its end
	Restarts  int       `json:"restarts"`             // ends that nobody asked for, since Start
	LastError string    `json:"last_error,omitempty"` // of the last such end: a panic's first line, a signal
}

// Child is a service in a process of its own, restarted when it ends.
type Child struct {
	o    Options
	done chan struct{}

	// sendMu orders Setup and Send: what Send sends is never overtaken by an
	// older configuration of a Setup that was under way.
	sendMu sync.Mutex
	conn   *Conn // nil: not running

	beats atomic.Uint64 // heard of all processes

	endMu sync.Mutex
	end   func(error) // kills the running process; nil: there is none

	stateMu sync.Mutex
	state   State
}

// Start starts a child and keeps it running until ctx ends. It panics when a
// required option is missing: that is a mistake in the program.
func Start(ctx context.Context, o Options) *Child {
	if o.Kind == "" || o.Setup == nil || o.Received == nil || o.Log == nil {
		panic(fmt.Sprintf("worker.Start(%q): Kind, Setup, Received and Log are required", o.Kind))
	}
	if o.beatEvery == 0 {
		o.beatEvery = beatEvery
	}
	o.Log = o.Log.With("service", o.Kind)
	if o.Name != "" {
		o.Log = o.Log.With("for", o.Name)
	}
	c := &Child{o: o, done: make(chan struct{})}
	go c.loop(ctx)
	return c
}

// Done is closed when ctx has ended and the last process is gone.
func (c *Child) Done() <-chan struct{} { return c.done }

// State tells how the child is doing.
func (c *Child) State() State {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.state
}

func (c *Child) setState(change func(*State)) {
	c.stateMu.Lock()
	change(&c.state)
	c.state.Since = time.Now()
	s := c.state
	c.stateMu.Unlock()
	if c.o.Changed != nil {
		c.o.Changed(s)
	}
}

// Send sends v and the files to the running child. The error is ErrNotRunning
// while there is none; any other error has ended this child.
func (c *Child) Send(v any, files ...*os.File) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.conn == nil {
		return ErrNotRunning
	}
	return c.conn.Send(v, files...)
}

// End kills the running process because of why, to be started again: whoever
// gives it work may know sooner than its beats that it hangs.
func (c *Child) End(why error) {
	c.endMu.Lock()
	defer c.endMu.Unlock()
	if c.end != nil {
		c.end(why)
	}
}

func (c *Child) setEnd(end func(error)) {
	c.endMu.Lock()
	defer c.endMu.Unlock()
	c.end = end
}

func (c *Child) loop(ctx context.Context) {
	// See the package comment: the thread that forks must outlive the child.
	// It is given back to nobody: the goroutine returns locked.
	runtime.LockOSThread()
	defer close(c.done)
	for wait := firstBackoff; ; {
		started := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			c.setState(func(s *State) { s.Running, s.PID = false, 0 })
			return
		}
		if time.Since(started) > goodAfter {
			wait = firstBackoff
		}
		c.setState(func(s *State) {
			s.Running, s.PID, s.LastError = false, 0, err.Error()
			s.Restarts++
		})
		c.o.Log.Error("service ended, starting it again", "err", err, "ran", time.Since(started).Round(time.Millisecond), "in", wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(wait*2, maxBackoff)
	}
}

// once runs one process to its end. The error is never nil, but of no interest
// when ctx has ended.
func (c *Child) once(ctx context.Context) error {
	conn, theirs, err := pair()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer theirs.Close()
	conn.onBeat = func() { c.beats.Add(1) }
	errR, errW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for the log of service %s: %w", c.o.Kind, err)
	}
	defer errR.Close()
	defer errW.Close()

	// The file that runs now, also when an upgrade has put another in its place.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"weir", "worker", c.o.Kind, c.o.Name, c.level(ctx).String()}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = errW
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start service %s: %w", c.o.Kind, err)
	}
	theirs.Close()
	errW.Close()

	var tail string // the last thing said that is not a log line: a panic's
	var reading sync.WaitGroup
	reading.Go(func() { tail = relay(ctx, errR, c.o.Log) })

	var why error // why we ended it, if we did
	recvDone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	go func() {
		defer close(recvDone)
		why = c.talk(ctx, conn, cmd.Process.Pid)
		conn.Close() // the child sees the end of the connection, and leaves
	}()
	// A child that hangs or does not leave is ended. Its process is waited for
	// below, so the pid is still its own.
	hung := make(chan error, 1)
	c.setEnd(func(why error) {
		select {
		case hung <- why:
			_ = cmd.Process.Kill() // ErrProcessDone: it left just now
		default:
		}
	})
	exited := make(chan struct{})
	go c.feel(conn, exited)
	go func() {
		<-recvDone
		select {
		case <-exited:
		case <-time.After(leaveTimeout + time.Second):
			_ = cmd.Process.Kill() // ErrProcessDone: it left just now
		}
	}()
	err = cmd.Wait()
	close(exited)
	c.setEnd(nil)
	stop()
	conn.Close()
	<-recvDone
	reading.Wait()

	c.sendMu.Lock()
	c.conn = nil
	c.sendMu.Unlock()
	select {
	case err = <-hung: // that it was killed says nothing more
	default:
	}
	switch {
	case tail != "":
		return fmt.Errorf("%s: %w", tail, errors.Join(err, why))
	case err != nil || why != nil:
		return errors.Join(err, why)
	}
	return errors.New("it left without being told to")
}

// talk sets the child up and takes its messages until the connection ends. The
// error is nil when the child closed it.
func (c *Child) talk(ctx context.Context, conn *Conn, pid int) error {
	c.sendMu.Lock()
	c.conn = conn
	err := c.o.Setup(ctx, conn)
	c.sendMu.Unlock()
	if err != nil {
		return fmt.Errorf("set up service %s: %w", c.o.Kind, err)
	}
	c.setState(func(s *State) { s.Running, s.PID = true, pid })
	for {
		m, err := conn.recv()
		if err != nil {
			return nil //nolint:nilerr // the child's end says why, or we were told to stop
		}
		if err := c.o.Received(c, m); err != nil {
			return fmt.Errorf("message from service %s: %w", c.o.Kind, err)
		}
	}
}

// feel asks for a sign of life until the child is gone, and ends it when none comes.
func (c *Child) feel(conn *Conn, exited <-chan struct{}) {
	tick := time.NewTicker(c.o.beatEvery)
	defer tick.Stop()
	missed, beats := 0, c.beats.Load()
	for {
		select {
		case <-exited:
			return
		case <-tick.C:
		}
		if now := c.beats.Load(); now != beats || missed == 0 {
			beats, missed = now, 1
			if conn.beat() != nil {
				return // the connection is at its end, and so is the child
			}
		} else if missed++; missed > 2 {
			c.End(fmt.Errorf("it hung: no sign of life for %v", 2*c.o.beatEvery))
			return
		}
	}
}

// level is the least level that the parent's log takes.
func (c *Child) level(ctx context.Context) slog.Level {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if c.o.Log.Enabled(ctx, l) {
			return l
		}
	}
	return slog.LevelError
}
