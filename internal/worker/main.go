package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// A Kind is a service that can run as a child.
type Kind struct {
	Name string // as in "weir worker NAME": dhcpd, dhcp4, ra, dns, probe

	// Run is the service. It must have a goroutine in c.Recv at all times, but
	// for moments: that is how it learns its configuration and that its parent is
	// gone, and how its parent knows that it does not hang. ctx ends
	// with the connection, whoever sees the end first. Run then returns within
	// a second or two; its result is then of no interest.
	Run func(ctx context.Context, c *Conn, log *slog.Logger) error
}

// childFD is the child's end of the connection.
const childFD = 3

// leaveTimeout bounds how long a child takes to leave once its parent is gone,
// and how long a parent waits for a child that it told to go.
const leaveTimeout = 2 * time.Second

// Main is the child's whole life: `weir worker KIND NAME LEVEL` calls it with
// what follows "worker". It returns the process's exit status. args come from
// Child; a person who types them is told that this is not for people.
func Main(args []string, kinds ...Kind) int {
	if err := run(args, kinds); err != nil {
		// The parent logs a line that is not JSON as it is.
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(args []string, kinds []Kind) error {
	if len(args) != 3 {
		return errors.New("weir worker is started by the daemon, with a connection to it: see `weir run`")
	}
	var run func(context.Context, *Conn, *slog.Logger) error
	for _, k := range kinds {
		if k.Name == args[0] {
			run = k.Run
		}
	}
	if run == nil {
		return fmt.Errorf("there is no worker of kind %q", args[0])
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(args[2])); err != nil {
		return fmt.Errorf("worker %s: log level: %w", args[0], err)
	}
	// A ^C on the terminal and systemd's SIGTERM go to the children too. They
	// leave when the parent says so, by closing the connection.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
	unix.CloseOnExec(childFD)
	c, err := newConn(os.NewFile(childFD, "parent"))
	if err != nil {
		return fmt.Errorf("worker %s: %w", args[0], err)
	}
	defer c.Close()
	// ps shows all of the command line; top and a killed process's message only this.
	_ = os.WriteFile("/proc/self/comm", []byte("weir-"+args[0]), 0)

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c.onFail = func(err error) {
		cancel(err)
		// Whatever Run is stuck in: nobody is there to work for.
		time.AfterFunc(leaveTimeout, func() { os.Exit(1) })
	}
	c.onBeat = func() { _ = c.beat() } // a failure ends the connection
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	err = run(ctx, c, log)
	switch why := context.Cause(ctx); {
	case errors.Is(why, io.EOF), errors.Is(why, unix.ECONNRESET), errors.Is(why, unix.EPIPE):
		// Told to go, or the parent is gone. A connection is reset, not ended,
		// when the parent closed it with messages of ours unread (unix(7)).
		return nil
	}
	return err
}
