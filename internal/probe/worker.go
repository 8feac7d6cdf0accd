package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/bare"
	"weir/internal/worker"
)

// Worker is the prober as a child of the daemon.
var Worker = worker.Kind{Name: "probe", Run: run}

// prober is the child's life.
type prober struct {
	log     *slog.Logger
	engine  *engine
	asker   *asker
	sockets map[key]*socket
	events  chan Event
	broken  chan error // why a socket's reading ended, if not by closing it
}

type socket struct {
	file *os.File
	raw  syscall.RawConn
	ipv6 bool
}

func run(ctx context.Context, c *worker.Conn, log *slog.Logger) error {
	runtime.GOMAXPROCS(1) // little to do, often: see bare
	p := &prober{
		log: log, engine: newEngine(rand.Reader), sockets: map[key]*socket{},
		events: make(chan Event, 256), broken: make(chan error, 1),
	}
	p.asker = newAsker(p.tell)
	defer p.asker.keep(nil)
	told := make(chan error, 1)
	go func() { told <- p.listen(ctx, c) }()
	var r Report
	var due time.Time // of r; zero: it is empty
	flush, err := bare.NewAlarm()
	if err != nil {
		return err
	}
	defer flush.Close()
	for {
		var now bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-told:
			return err
		case err := <-p.broken:
			return err
		case ev := <-p.events:
			r.add(ev)
			wait := replyFor
			if ev.Kind == Sent {
				wait = sentFor
			}
			if at := time.Now().Add(wait); due.IsZero() || at.Before(due) {
				due = at
			}
			now = len(p.events) == 0 && r.settled()
		case <-flush.C:
			now = !due.IsZero() && !time.Now().Before(due)
		}
		if now {
			if err := c.Send(r); err != nil {
				return err
			}
			r, due = Report{}, time.Time{}
		}
		if err := flush.Set(due); err != nil {
			return err
		}
	}
}

// How long events are kept, so that those of several lines are one message. A
// request that is answered before it was told of need not be told of.
const (
	replyFor = 3 * time.Millisecond
	sentFor  = 40 * time.Millisecond // well below the least time-out of failover, 100 ms
)

// settled says whether nothing more is to be awaited: all that was sent is answered.
func (r *Report) settled() bool {
	return !slices.ContainsFunc(r.Events, func(e Event) bool { return e.Kind == Sent })
}

// add takes an event into the report.
func (r *Report) add(ev Event) {
	if ev.Kind == Reply {
		r.Events = slices.DeleteFunc(r.Events, func(e Event) bool { return e.Kind == Sent && e.ID == ev.ID })
	}
	r.Events = append(r.Events, ev)
}

func (p *prober) tell(ctx context.Context, ev Event) {
	select {
	case p.events <- ev:
	case <-ctx.Done():
	}
}

// listen does what the parent says until the connection ends.
func (p *prober) listen(ctx context.Context, c *worker.Conn) error {
	for {
		var m Message
		files, err := c.Recv(&m)
		if err != nil {
			return err
		}
		if m.Config != nil {
			if err := p.configure(ctx, *m.Config, files); err != nil {
				return err
			}
		} else if len(files) > 0 {
			return fmt.Errorf("%d sockets came without a Config", len(files))
		}
		for _, o := range m.Probes {
			p.send(ctx, o)
		}
	}
}

// configure takes the files; on an error the process ends, and they with it.
func (p *prober) configure(ctx context.Context, cfg Config, files []*os.File) error {
	if len(files) != len(cfg.Lines) {
		return fmt.Errorf("%d sockets came for %d lines", len(files), len(cfg.Lines))
	}
	p.engine.configure(cfg.Lines)
	old := p.sockets
	p.sockets = map[key]*socket{}
	for i, l := range cfg.Lines {
		raw, err := files[i].SyscallConn()
		if err != nil {
			return fmt.Errorf("take the socket of %s: %w", l.WAN, err)
		}
		s := &socket{file: files[i], raw: raw, ipv6: l.IPv6}
		p.sockets[l.key()] = s
		go p.read(ctx, l.key(), s)
	}
	p.asker.keep(cfg.Lines)
	// The new sockets are open: no reply falls between.
	for _, s := range old {
		_ = s.file.Close() // nothing is lost with it
	}
	return nil
}

// send carries out an order. What fails is told like a loss.
func (p *prober) send(ctx context.Context, o Order) {
	k := key{o.WAN, o.Target.Is6()}
	ev := Event{ID: o.ID, Kind: Sent}
	var err error
	switch {
	case o.Way == Echo:
		err = p.write(k, o, &ev)
	case p.sockets[k] == nil:
		err = errNoSocket
	default:
		ev.At, err = p.asker.ask(ctx, k, o)
	}
	if err != nil {
		ev.Kind, ev.Why = Failed, err.Error()
		ev.At = monotonic()
		ev.Reopen = errors.Is(err, errNoSocket) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO)
	}
	p.tell(ctx, ev)
}

func (p *prober) write(k key, o Order, ev *Event) error {
	s := p.sockets[k]
	if s == nil {
		return errNoSocket
	}
	ev.At = monotonic()
	packet, err := p.engine.ask(ev.At, k, o)
	if err != nil {
		return err
	}
	var sendErr error
	if err := s.raw.Control(func(fd uintptr) {
		sendErr = bare.Sendto(int(fd), packet, netip.AddrPortFrom(o.Target, 0))
	}); err != nil {
		return fmt.Errorf("use the socket of %s: %w", o.WAN, err)
	}
	if sendErr != nil {
		return fmt.Errorf("could not send to %s: %w", o.Target, sendErr)
	}
	return nil
}

// manyErrors in a row end the child: its parent opens new sockets.
const manyErrors = 20

// read takes packets from a line's socket until it is closed.
func (p *prober) read(ctx context.Context, k key, s *socket) {
	packet := make([]byte, 2048) // replies are short; of an error its beginning is enough
	oob := make([]byte, 256)
	inARow := 0
	for {
		var m bare.Msg
		var err error
		if done := s.raw.Read(func(fd uintptr) bool {
			m, err = bare.Recvmsg(int(fd), packet, oob, 0)
			return !errors.Is(err, unix.EAGAIN)
		}); done != nil {
			return // closed
		}
		if err != nil {
			// A pending error of the socket (ENETDOWN, ...): its reading cleared it.
			p.log.Debug("reading a probe's socket", "wan", k.wan, "ipv6", k.ipv6, "err", err)
			if inARow++; inARow == manyErrors {
				select {
				case p.broken <- fmt.Errorf("read the socket of %s: %w", k.wan, err):
				default: // another socket's error ends the child already
				}
				return
			}
			continue
		}
		inARow = 0
		if ev, ok := p.engine.receive(arrival(oob[:m.OOBN]), k, m.From.Addr(), packet[:m.N]); ok {
			p.tell(ctx, ev)
		}
	}
}
