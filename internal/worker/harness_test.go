package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// order is what the tests' parent tells its child.
type order struct {
	Do   string
	Text string
}

// answer is what the child tells.
type answer struct {
	Text  string
	Files int
	PID   int
}

// The test binary is its own child, as weir is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(Main(os.Args[2:], Kind{"echo", echo}, Kind{"stuck", stuck}))
	}
	if len(os.Args) > 1 && os.Args[1] == "parent" {
		parent()
	}
	os.Exit(m.Run())
}

// echo obeys orders; the files of a "setup" are written to on "write".
func echo(_ context.Context, c *Conn, log *slog.Logger) error {
	var held []*os.File
	for {
		var o order
		files, err := c.Recv(&o)
		if err != nil {
			return err
		}
		held = append(held, files...)
		switch o.Do {
		case "panic":
			go func() { panic("no caller can catch " + o.Text) }() // as a library's receive goroutine does
			select {}
		case "leave":
			return errors.New(o.Text)
		case "log":
			log.Info("asked to say", "text", o.Text, "n", 7)
			log.Debug("nobody wants to know")
		case "write":
			for _, f := range held {
				if _, err := f.WriteString(o.Text); err != nil {
					return err
				}
			}
		}
		if err := c.Send(answer{Text: o.Text, Files: len(held), PID: os.Getpid()}); err != nil {
			return err
		}
	}
}

// stuck never reads its connection again and ignores its context. It waits for a
// timer: Go itself ends a process in which nothing can ever happen.
func stuck(_ context.Context, c *Conn, _ *slog.Logger) error {
	if err := c.Send(answer{PID: os.Getpid()}); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

// harness starts a child of kind echo whose Setup sends one end of a pipe.
type harness struct {
	*Child
	answers chan answer
	states  chan State
	pipe    *os.File // what the child writes
	log     *lockedBuffer
	stop    context.CancelFunc
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, received func(*Child, Message) error) *harness {
	t.Helper()
	return startBeating(t, received, 0)
}

func startBeating(t *testing.T, received func(*Child, Message) error, every time.Duration) *harness {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{answers: make(chan answer, 10), states: make(chan State, 100), pipe: r, log: &lockedBuffer{}}
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	if received == nil {
		received = func(_ *Child, m Message) error {
			var a answer
			if err := m.Decode(&a); err != nil {
				return err
			}
			h.answers <- a
			return nil
		}
	}
	h.Child = Start(ctx, Options{
		Kind: "echo", Name: "one",
		Setup: func(_ context.Context, c *Conn) error {
			return c.Send(order{Do: "setup", Text: "ready"}, w)
		},
		Received: received,
		Changed:  func(s State) { h.states <- s },
		Log:      slog.New(slog.NewTextHandler(h.log, nil)),

		beatEvery: every,
	})
	t.Cleanup(func() {
		cancel()
		<-h.Done()
		r.Close()
		w.Close()
	})
	return h
}

// next waits for what comes on a channel; the deadline is a bound, not a wait.
func next[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func (h *harness) ask(t *testing.T, o order) {
	t.Helper()
	if err := h.Send(o); err != nil {
		t.Fatalf("send %+v: %v", o, err)
	}
}

// parent is a daemon in a process of its own: it starts a child, says its pid,
// and waits to be killed.
func parent() {
	c := Start(context.Background(), Options{
		Kind:  os.Args[2],
		Setup: func(_ context.Context, c *Conn) error { return c.Send(order{Do: "setup"}) },
		Received: func(_ *Child, m Message) error {
			var a answer
			err := m.Decode(&a)
			os.Stdout.WriteString(strconv.Itoa(a.PID) + "\n")
			return err
		},
		Log: slog.New(slog.DiscardHandler),
	})
	<-c.Done()
}
