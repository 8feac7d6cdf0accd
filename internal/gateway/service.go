package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/worker"
)

// againAfter is how long a service waits that could not be told all, because a
// port was taken or a link went away just then.
const againAfter = 3 * time.Second

// service is a child of the daemon. What it is to be told is worked out by the
// loop and told from a goroutine of its own: a child that hangs holds up nobody.
type service struct {
	kind, name string
	child      *worker.Child
	end        context.CancelFunc
	kick       chan struct{}

	mu      sync.Mutex
	trouble string // why it could not be told all; "" is well
}

// told is a message to a child, and the sockets that go with it.
type told struct {
	msg   any // nil: there is nothing to tell
	files []*os.File
	keep  bool // the files stay open here

	// setup, if not nil, tells a fresh child in the place of msg: for what takes
	// more than one message.
	setup func(*worker.Conn, []*os.File) error
}

// duty is what makes one service differ from another.
type duty struct {
	kind worker.Kind
	name string // which of its kind: a WAN's name; "" if there is one

	// prepare makes the message that brings the child to what is wanted now;
	// fresh says that the child has just been started and knows nothing. With an
	// error the message says as much as is possible, and the rest is tried again.
	// It is called from several goroutines, one at a time.
	prepare func(ctx context.Context, fresh bool) (told, error)

	// take decodes a message of the child and returns what the loop is to do.
	take func(*worker.Child, worker.Message) (func(), error)

	started func() // the loop is to do this at each start; nil: nothing
}

// serve starts a child and keeps it told.
func (d *daemon) serve(ctx context.Context, u duty) *service {
	ctx, end := context.WithCancel(ctx)
	s := &service{kind: u.kind.Name, name: u.name, end: end, kick: make(chan struct{}, 1)}
	var preparing sync.Mutex
	tell := func(ctx context.Context, fresh *worker.Conn) error {
		preparing.Lock()
		t, trouble := u.prepare(ctx, fresh != nil)
		preparing.Unlock()
		defer func() {
			if !t.keep {
				closeAll(t.files)
			}
		}()
		s.setTrouble(trouble)
		if trouble != nil {
			time.AfterFunc(againAfter, s.wake)
		}
		switch {
		case fresh != nil && t.setup != nil:
			return t.setup(fresh, t.files)
		case t.msg == nil:
			return nil
		case fresh != nil:
			return fresh.Send(t.msg, t.files...)
		}
		return s.child.Send(t.msg, t.files...)
	}
	s.child = worker.Start(ctx, worker.Options{
		Kind: u.kind.Name, Name: u.name, Log: d.log,
		Setup: func(ctx context.Context, c *worker.Conn) error {
			if u.started != nil {
				d.post(ctx, u.started)
			}
			return tell(ctx, c)
		},
		Received: func(c *worker.Child, m worker.Message) error {
			do, err := u.take(c, m)
			if err == nil && do != nil {
				d.post(ctx, func() {
					d.news = true
					do()
				})
			}
			return err
		},
		Changed: func(worker.State) { d.postSoon(ctx, func() { d.news = true }) },
	})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.kick:
			}
			if err := tell(ctx, nil); err != nil && !errors.Is(err, worker.ErrNotRunning) && ctx.Err() == nil {
				d.log.Error("service could not be told", "service", s.kind, "for", s.name, "err", err)
			}
		}
	}()
	return s
}

// wake has the child told what is wanted now.
func (s *service) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it will be told anyhow
	}
}

// leave ends the child and waits for it.
func (s *service) leave() {
	s.end()
	<-s.child.Done()
}

func (s *service) setTrouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = ""
	if err != nil {
		s.trouble = err.Error()
	}
}

// status is the service as the status shows it.
func (s *service) status() api.Service {
	st := s.child.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	a := api.Service{Name: s.kind, State: "starting", PID: st.PID, Since: st.Since, Restarts: st.Restarts, LastError: st.LastError}
	if s.name != "" {
		a.Name = fmt.Sprintf("%s %s", s.kind, s.name)
	}
	if st.Running {
		a.State = "running"
	}
	if s.trouble != "" {
		a.State, a.LastError = "waiting", s.trouble
	}
	return a
}

// report decodes a child's message as an R and has the loop take it.
func report[R any](take func(R)) func(*worker.Child, worker.Message) (func(), error) {
	return reportTo(func(R) {}, take)
}

// reportTo is report for what the loop waits for: first is called before, on the
// child's goroutine.
func reportTo[R any](first, take func(R)) func(*worker.Child, worker.Message) (func(), error) {
	return func(_ *worker.Child, m worker.Message) (func(), error) {
		defer m.Close()
		var r R
		if err := m.Decode(&r); err != nil {
			return nil, err
		}
		first(r)
		return func() { take(r) }, nil
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // sockets: nothing is lost
	}
}
