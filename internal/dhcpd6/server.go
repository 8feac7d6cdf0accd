package dhcpd6

import (
	"context"
	"log/slog"
	"time"

	"weir/internal/commit"
	"weir/internal/state"
	"weir/internal/worker"
)

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
	ports  worker.Ports[*port]
	frames chan frame

	keeping *commit.Queue[answer] // replies that wait for their leases to be on disk

	logged, suppressed int // in this logEvery
	logFrom            time.Time
}

// answer is a reply, and what it answers.
type answer struct {
	reply []byte
	to    frame // without its payload
}

func run(ctx context.Context, parent *worker.Conn, log *slog.Logger) error {
	clock, err := state.ReadClock()
	if err != nil {
		return err
	}
	s := &server{parent: parent, log: log, engine: New(time.Now(), clock), ports: worker.Ports[*port]{}, frames: make(chan frame, 64), keeping: commit.New[answer]()}
	return worker.Obey(ctx, parent, s.loop)
}

func (s *server) loop(ctx context.Context, orders <-chan worker.Order[Order]) error {
	defer s.ports.Stop()
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
		s.kept(*v.Kept)
		return nil
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
	var reply *answer
	if out.Reply != nil {
		reply = &answer{out.Reply, f}
	}
	s.keeping.Add(out.Keep, reply)
}

// report tells the parent what there is to keep.
func (s *server) report() error {
	for id, leases := s.keeping.Next(); leases != nil; id, leases = s.keeping.Next() {
		if err := s.parent.Send(Report{ID: id, Keep: leases}); err != nil {
			return err
		}
	}
	return nil
}

// kept answers the clients whose leases are on disk.
func (s *server) kept(k commit.Kept) {
	for _, b := range s.keeping.Done(k) {
		if k.Err == "" {
			s.engine.Kept(b.Lease)
		}
		if b.Reply != nil {
			s.send(b.Reply.to.lan, b.Reply.to, b.Reply.reply)
		}
	}
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
