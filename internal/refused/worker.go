package refused

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/worker"
)

// Worker is the reader as a child of the daemon.
var Worker = worker.Kind{Name: "refused", Run: run}

// Config is what the parent sends, once, with the socket of Open as its file.
type Config struct {
	Prefix string `json:"prefix"` // of the log prefixes that are ours; the rest is the rule's name
}

// Report is what the child sends.
type Report struct {
	Packets []Packet `json:"packets,omitempty"`

	// Lost is how many more there were at least: more than the child reports in
	// a second, or than the kernel kept for it.
	Lost int `json:"lost,omitempty"`
}

// The rules themselves tell of five packets a second each. The child tells of
// so many of all rules together.
const (
	perSecond = 50
	burst     = 100
)

func run(ctx context.Context, c *worker.Conn, log *slog.Logger) error {
	var cfg Config
	files, err := c.Recv(&cfg)
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("%d sockets came, want one", len(files))
	}
	defer files[0].Close()
	gone := make(chan error, 1)
	go func() {
		_, err := c.Recv(&struct{}{}) // nothing more is to come but the end
		gone <- err
	}()
	heard := make(chan Report, 64)
	broken := make(chan error, 1)
	go func() { broken <- read(ctx, files[0], cfg.Prefix, heard, log) }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-gone:
			return err
		case err := <-broken:
			return err
		case r := <-heard:
			if err := c.Send(r); err != nil {
				return err
			}
		}
	}
}

// read reads the socket until it fails or ctx ends.
func read(ctx context.Context, f *os.File, prefix string, heard chan<- Report, log *slog.Logger) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("take the socket of nflog: %w", err)
	}
	buf := make([]byte, 64<<10)
	limit := bucket{tokens: burst}
	for {
		var n int
		var from unix.Sockaddr
		var recvErr error
		if err := raw.Read(func(fd uintptr) bool {
			n, from, recvErr = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			return !errors.Is(recvErr, unix.EAGAIN)
		}); err != nil {
			return fmt.Errorf("read the socket of nflog: %w", err)
		}
		var r Report
		switch nl, kernel := from.(*unix.SockaddrNetlink); {
		case errors.Is(recvErr, unix.ENOBUFS): // more came than the socket holds (netlink(7))
			r.Lost = 1
		case recvErr != nil:
			return fmt.Errorf("read the socket of nflog: %w", recvErr)
		case !kernel || nl.Pid != 0:
			continue // another process can send to this socket; only the kernel is believed
		default:
			now := time.Now()
			packets, err := parse(buf[:n], prefix, now)
			if err != nil {
				log.Debug("a message of nflog is not understood", "err", err)
			}
			for _, p := range packets {
				if limit.take(now) {
					r.Packets = append(r.Packets, p)
				} else {
					r.Lost++
				}
			}
		}
		if len(r.Packets) == 0 && r.Lost == 0 {
			continue
		}
		select {
		case heard <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bucket is a token bucket of perSecond and burst.
type bucket struct {
	tokens float64
	last   time.Time
}

func (b *bucket) take(now time.Time) bool {
	if !b.last.IsZero() {
		b.tokens = min(burst, b.tokens+now.Sub(b.last).Seconds()*perSecond)
	}
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
