package dhcpd6

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"weir/internal/state"
	"weir/internal/worker"
)

// maxWaiting bounds the replies that wait for their leases to be on disk. What
// comes on top is dropped: the client asks again.
const maxWaiting = 2048

// maxLogged is how many events are logged in logEvery: who floods the server does
// not flood the log.
const (
	maxLogged = 100
	logEvery  = 10 * time.Second
)

// server is a running Worker.
type server struct {
	parent *worker.Conn
	log    *slog.Logger
	engine *Engine
	ports  map[string]*port
	frames chan frame

	// Leases on their way to the disk, with the replies that wait for them: the batch
	// that the parent has (id), and what came since.
	id      uint64
	batch   []keep // nil: the parent has none
	waiting []keep

	logged, suppressed int // in this logEvery
	logFrom            time.Time
}

// keep is a lease that has to be on disk before its reply, if any, leaves.
type keep struct {
	lease state.Lease
	reply []byte
	to    frame // without its payload
}

func run(ctx context.Context, parent *worker.Conn, log *slog.Logger) error {
	clock, err := state.ReadClock()
	if err != nil {
		return err
	}
	s := &server{parent: parent, log: log, engine: New(time.Now(), clock), ports: map[string]*port{}, frames: make(chan frame, 64)}
	return worker.Obey(ctx, parent, s.loop)
}

func (s *server) loop(ctx context.Context, orders <-chan worker.Order[Order]) error {
	defer func() {
		for _, p := range s.ports {
			p.stop()
		}
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-orders:
			err = s.obey(ctx, o)
		case f := <-s.frames:
			now := time.Now()
			s.do(now, f, s.engine.Handle(now, f.lan, f.payload, f.from.Addr(), f.mac))
		case <-timer.C:
			now := time.Now()
			s.do(now, frame{}, s.engine.Tick(now))
		}
		if err == nil {
			err = s.report()
		}
		if err != nil {
			return err
		}
		timer.Reset(time.Until(s.engine.Next()))
	}
}

// obey takes a message of the parent.
func (s *server) obey(ctx context.Context, o worker.Order[Order]) error {
	switch v := o.Value; {
	case v.Config != nil:
		if err := s.engine.Configure(*v.Config); err != nil {
			closeAll(o.Files)
			return err
		}
		return s.take(ctx, *v.Config, o.Files)
	case v.Kept != nil:
		return s.kept(*v.Kept)
	default:
		s.engine.Load(time.Now(), v.Leases)
		return nil
	}
}

// do carries out what the engine wants of a frame.
func (s *server) do(now time.Time, f frame, out Out) {
	s.say(now, out.Events)
	f.payload = nil
	if len(out.Keep) == 0 {
		s.send(f.lan, f, out.Reply)
		return
	}
	if len(s.waiting)+len(out.Keep) > maxWaiting {
		out.Reply = nil // the client asks again; what it was given goes to the disk
	}
	for i, l := range out.Keep {
		k := keep{lease: l}
		if i == len(out.Keep)-1 {
			k.reply, k.to = out.Reply, f
		}
		if k.reply != nil || len(s.waiting) < 16*maxWaiting { // a lease's end, untold, is only honoured for longer
			s.waiting = append(s.waiting, k)
		}
	}
}

// report tells the parent what there is to keep, one batch at a time.
func (s *server) report() error {
	if s.batch != nil || len(s.waiting) == 0 {
		return nil
	}
	n := min(len(s.waiting), leasesPerOrder)
	s.id++
	s.batch, s.waiting = s.waiting[:n:n], s.waiting[n:]
	r := Report{ID: s.id}
	for _, k := range s.batch {
		r.Keep = append(r.Keep, k.lease)
	}
	return s.parent.Send(r)
}

// kept answers the clients whose leases are on disk.
func (s *server) kept(k Kept) error {
	if s.batch == nil || k.ID != s.id {
		return fmt.Errorf("the parent kept batch %d, and %d is under way", k.ID, s.id)
	}
	batch := s.batch
	s.batch = nil
	for _, b := range batch {
		if k.Err == "" {
			s.engine.Kept(b.lease)
		}
		s.send(b.to.lan, b.to, b.reply)
	}
	return nil
}

// say logs events.
func (s *server) say(now time.Time, events []Event) {
	if now.Sub(s.logFrom) >= logEvery {
		if s.suppressed > 0 {
			s.log.Warn("more happened at the DHCPv6 server than is logged", "events", s.suppressed)
		}
		s.logFrom, s.logged, s.suppressed = now, 0, 0
	}
	for _, ev := range events {
		if ev.Level < slog.LevelInfo && !s.log.Enabled(context.Background(), ev.Level) {
			continue
		}
		if s.logged++; s.logged > maxLogged {
			s.suppressed++
			continue
		}
		s.log.Log(context.Background(), ev.Level, ev.Text, "lan", ev.LAN, "mac", ev.MAC, "duid", ev.DUID, "addr", ev.What, "name", ev.Name, "why", ev.Why)
	}
}
