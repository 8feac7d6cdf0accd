package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPanicCostsOneRestart(t *testing.T) {
	h := start(t, nil)
	first := next(t, h.answers, "the first child's answer to its setup")
	if first.Files != 1 {
		t.Fatalf("the first child has %d files, want 1", first.Files)
	}
	h.ask(t, order{Do: "panic", Text: "this"})
	second := next(t, h.answers, "the second child's answer to its setup")
	if second.PID == first.PID || second.Files != 1 {
		t.Fatalf("after a panic: %+v, before it: %+v; want another process with the file", second, first)
	}
	h.ask(t, order{Do: "write", Text: "still here"})
	next(t, h.answers, "the answer to a write")
	got := make([]byte, len("still here"))
	if _, err := io.ReadFull(h.pipe, got); err != nil || string(got) != "still here" {
		t.Fatalf("the handed-over file carried %q, %v", got, err)
	}
	s := h.State()
	if !s.Running || s.PID != second.PID || s.Restarts != 1 || !strings.Contains(s.LastError, "panic: no caller can catch this") {
		t.Errorf("state %+v: want running as %d, 1 restart and the panic's first line", s, second.PID)
	}
	if !strings.Contains(h.log.String(), "no caller can catch this") {
		t.Errorf("the panic is not in the log:\n%s", h.log)
	}
}

func TestRestartsBackOff(t *testing.T) {
	h := start(t, nil)
	began := time.Now()
	for range 3 { // 50, 100, 200 ms
		next(t, h.answers, "a child's answer to its setup")
		h.ask(t, order{Do: "leave", Text: "no reason"})
	}
	next(t, h.answers, "the fourth child's answer")
	if took := time.Since(began); took < 350*time.Millisecond {
		t.Errorf("three restarts took %v: there is no back-off", took)
	}
	if s := h.State(); s.Restarts != 3 || !strings.Contains(s.LastError, "no reason") {
		t.Errorf("state %+v: want 3 restarts and the error it left with", s)
	}
}

func TestLogsAreTheParents(t *testing.T) {
	h := start(t, nil)
	next(t, h.answers, "the answer to the setup")
	h.ask(t, order{Do: "log", Text: "a lease"})
	next(t, h.answers, "the answer to a log order")
	h.stop()
	<-h.Done() // the log is read to its end by then
	if got := h.log.String(); !strings.Contains(got, `level=INFO msg="asked to say" service=echo for=one n=7 text="a lease"`) ||
		strings.Contains(got, "nobody wants to know") {
		t.Errorf("log:\n%s", got)
	}
	if strings.Contains(h.log.String(), "level=ERROR") {
		t.Errorf("a child that was told to go is no error:\n%s", h.log)
	}
}

func TestBadMessageEndsTheChild(t *testing.T) {
	first := true
	up := make(chan answer, 10)
	h := start(t, func(_ *Child, m Message) error {
		var a answer
		var o struct{ Other string }
		if first {
			first = false
			return m.Decode(&o) // it has other fields
		}
		if err := m.Decode(&a); err != nil {
			return err
		}
		up <- a
		return nil
	})
	next(t, up, "the next child's answer")
	if s := h.State(); s.Restarts != 1 || !strings.Contains(s.LastError, "decode a message") {
		t.Errorf("state %+v: want one restart because a message did not decode", s)
	}
}

func TestSendWhileDown(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	states := make(chan State, 10)
	c := Start(ctx, Options{
		Kind:     "echo",
		Setup:    func(context.Context, *Conn) error { return errors.New("no such port yet") },
		Received: func(*Child, Message) error { return nil },
		Changed:  func(s State) { states <- s },
		Log:      slog.New(slog.DiscardHandler),
	})
	s := next(t, states, "the failed start")
	if s.Running || s.Restarts != 1 || !strings.Contains(s.LastError, "no such port yet") {
		t.Errorf("state %+v: want what Setup said", s)
	}
	cancel()
	<-c.Done()
	if err := c.Send(order{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Send to nobody: %v, want ErrNotRunning", err)
	}
}

// TestStuckChildIsEnded: it neither reads nor leaves; the parent does not hang.
func TestStuckChildIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	up := make(chan Message, 1)
	c := Start(ctx, Options{
		Kind:     "stuck",
		Setup:    func(context.Context, *Conn) error { return nil },
		Received: func(_ *Child, m Message) error { up <- m; return nil },
		Log:      slog.New(slog.DiscardHandler),
	})
	var a answer
	if err := next(t, up, "the stuck child").Decode(&a); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-c.Done():
	case <-time.After(15 * time.Second):
		t.Fatal("the child is still there")
	}
	if err := unix.Kill(a.PID, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("process %d: %v, want none", a.PID, err)
	}
}

// TestHangingChildIsRestarted: its process is there, and nothing comes of it.
func TestHangingChildIsRestarted(t *testing.T) {
	for _, c := range []struct {
		kind string
		hang func(*testing.T, *Child, answer)
	}{
		{"stuck", func(*testing.T, *Child, answer) {}},
		{"echo", func(t *testing.T, _ *Child, a answer) {
			if err := unix.Kill(a.PID, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			up := make(chan Message, 10)
			child := Start(ctx, Options{
				Kind:      c.kind,
				Setup:     func(_ context.Context, c *Conn) error { return c.Send(order{Do: "setup"}) },
				Received:  func(_ *Child, m Message) error { up <- m; return nil },
				Log:       slog.New(slog.DiscardHandler),
				beatEvery: 50 * time.Millisecond,
			})
			t.Cleanup(func() { cancel(); <-child.Done() })
			var first, second answer
			if err := next(t, up, "the first child").Decode(&first); err != nil {
				t.Fatal(err)
			}
			c.hang(t, child, first)
			if err := next(t, up, "the second child").Decode(&second); err != nil {
				t.Fatal(err)
			}
			if s := child.State(); second.PID == first.PID || !strings.Contains(s.LastError, "it hung") {
				t.Errorf("process %d after %d, %+v", second.PID, first.PID, s)
			}
		})
	}
}

// TestIdleChildIsLeftAlone: it has nothing to say, but answers beats, and what is
// said between them gets through whole.
func TestIdleChildIsLeftAlone(t *testing.T) {
	h := startBeating(t, nil, 400*time.Millisecond)
	pid := next(t, h.answers, "the answer to the setup").PID
	for h.beats.Load() < 2 {
		h.ask(t, order{Do: "say", Text: "between beats"})
		if a := next(t, h.answers, "the answer"); a.Text != "between beats" || a.PID != pid {
			t.Fatalf("%+v of %d", a, pid)
		}
	}
	if s := h.State(); s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
}

// TestEnd: whoever knows that the child is of no use has it started again.
func TestEnd(t *testing.T) {
	h := start(t, nil)
	first := next(t, h.answers, "the answer to the setup").PID
	h.End(errors.New("it is of no use"))
	if second := next(t, h.answers, "the second child's answer").PID; second == first {
		t.Error("it is the same process")
	}
	if s := h.State(); s.LastError != "it is of no use" {
		t.Errorf("%+v", s)
	}
}

func TestOrphanEndsByItself(t *testing.T) {
	for _, kind := range []string{"echo", "stuck"} {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", "parent", kind)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line := make([]byte, 16)
			n, err := out.Read(line)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
			if err != nil {
				t.Fatal(err)
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed: that is the point
			gone, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
			if err != nil || gone != 1 {
				t.Fatalf("the child of a killed parent is still there: %v", err)
			}
		})
	}
}

func TestRelay(t *testing.T) {
	long := strings.Repeat("x", 3*maxLine)
	for _, tt := range []struct{ name, in, said, log string }{
		{"a record", `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"m","mac":"02::1"}` + "\n", "", "level=WARN msg=m mac=02::1"},
		{"a panic", "panic: boom [recovered]\n\ngoroutine 1 [running]:\nmain.go:1\n", "panic: boom [recovered]", "goroutine 1"},
		{"a broken record", "{\"time\":1}\n", `{"time":1}`, "service says"},
		{"too long", long + "\n{\"level\":\"INFO\",\"msg\":\"after\"}\n", long[:maxLine], "msg=after"},
		{"no end of line", "it broke", "it broke", "it broke"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			said := relay(t.Context(), strings.NewReader(tt.in), slog.New(slog.NewTextHandler(&b, nil)))
			if said != tt.said || !strings.Contains(b.String(), tt.log) {
				t.Errorf("said %.80q, want %.80q; log:\n%.300s", said, tt.said, b.String())
			}
		})
	}
	var b bytes.Buffer
	relay(t.Context(), strings.NewReader(strings.Repeat("flood\n", 10_000)), slog.New(slog.NewTextHandler(&b, nil)))
	if n := strings.Count(b.String(), "\n"); n != maxPlain {
		t.Errorf("a flood of plain text became %d log lines, want %d", n, maxPlain)
	}
}
