package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"weir/internal/worker"
)

// Worker is the resolver as a child of the gateway. It takes Config messages and
// sends Report messages.
var Worker = worker.Kind{Name: "dns", Run: run}

func run(ctx context.Context, c *worker.Conn, log *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := newService(ctx, log)
	s.asked = NewRecorder(func(b []Asked) { _ = c.Send(Report{Asked: b}) }) // a failure ends the connection, and with it the worker
	x := &exchanger{sessions: newSessions(nil)}
	s.fwd.exchange = x.exchange
	l := listeners{service: s, fail: cancel, open: map[Socket]closer{}}

	go s.report(ctx, c)
	go func() {
		via := ""
		for {
			var cfg Config
			files, err := c.Recv(&cfg)
			if err != nil {
				cancel(err)
				return
			}
			if cfg.Via != via {
				via = cfg.Via
				x.sessions.closeAll()
			}
			s.configure(cfg, time.Now())
			if err := l.serve(ctx, cfg.Sockets, files); err != nil {
				cancel(err)
				return
			}
		}
	}()
	<-ctx.Done()
	return context.Cause(ctx)
}

// report tells the parent what changed, once a second at most.
func (s *service) report(ctx context.Context, c *worker.Conn) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last Report
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r := Report{
				Queries: s.queries.Load(), Cached: s.fromCache.Load(), Refused: s.refused.Load(),
				Dropped: s.dropped.Load(), Rebinding: s.rebinding.Load(), Blocked: s.blocked.Load(), Upstreams: s.fwd.report(),
			}
			if r.equal(last) {
				continue
			}
			last = r
			if c.Send(r) != nil {
				return // the connection has ended, and with it the worker
			}
		}
	}
}

func (r Report) equal(o Report) bool {
	return r.Queries == o.Queries && r.Cached == o.Cached && r.Refused == o.Refused && r.Dropped == o.Dropped &&
		r.Rebinding == o.Rebinding && r.Blocked == o.Blocked && slices.Equal(r.Upstreams, o.Upstreams)
}

type closer interface{ Close() error }

// listeners are the sockets that are served.
type listeners struct {
	*service
	fail func(error) // a socket that can't be read any more ends the worker
	open map[Socket]closer
}

// serve serves exactly the sockets wanted. files belong to those that are
// Passed, in order; all are closed here.
func (l *listeners) serve(ctx context.Context, wanted []Socket, files []*os.File) error {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	keep := map[Socket]bool{}
	for _, s := range wanted {
		id := Socket{Network: s.Network, Addr: s.Addr}
		keep[id] = true
		old := l.open[id]
		if !s.Passed {
			if old == nil {
				return fmt.Errorf("%s %s is to be served, and its socket was never passed", s.Network, s.Addr)
			}
			continue
		}
		if len(files) == 0 {
			return fmt.Errorf("%s %s: its socket did not come with the message", s.Network, s.Addr)
		}
		c, err := l.start(ctx, s, files[0])
		if err != nil {
			return err
		}
		files[0].Close()
		files = files[1:]
		if old != nil {
			old.Close()
		}
		l.open[id] = c
	}
	for id, c := range l.open {
		if !keep[id] {
			c.Close()
			delete(l.open, id)
		}
	}
	return nil
}

// start serves one socket.
func (l *listeners) start(ctx context.Context, s Socket, f *os.File) (closer, error) {
	var run func() error
	var c closer
	switch s.Network {
	case "udp":
		pc, err := net.FilePacketConn(f)
		if err != nil {
			return nil, fmt.Errorf("take the UDP socket on %s: %w", s.Addr, err)
		}
		u, ok := pc.(*net.UDPConn)
		if !ok {
			return nil, errors.Join(fmt.Errorf("the socket passed as UDP on %s is a %T", s.Addr, pc), pc.Close())
		}
		c, run = u, func() error { return l.serveUDP(ctx, u) }
	case "tcp":
		ln, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("take the TCP socket on %s: %w", s.Addr, err)
		}
		t, ok := ln.(*net.TCPListener)
		if !ok {
			return nil, errors.Join(fmt.Errorf("the socket passed as TCP on %s is a %T", s.Addr, ln), ln.Close())
		}
		c, run = t, func() error { return l.serveTCP(ctx, t) }
	default:
		return nil, fmt.Errorf("no such network: %q", s.Network)
	}
	context.AfterFunc(ctx, func() { c.Close() })
	go func() {
		if err := run(); err != nil {
			l.fail(err)
		}
	}()
	return c, nil
}
