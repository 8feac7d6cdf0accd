package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// FlowKind is what a Flow does.
type FlowKind string

// The kinds of flow.
const (
	Idle      FlowKind = "idle"      // TCP, opened and left alone
	Sending   FlowKind = "sending"   // TCP, a line each 20 ms, each comes back
	Receiving FlowKind = "receiving" // TCP, only listens; a byte each 10 ms comes
	Datagrams FlowKind = "datagrams" // UDP, one each 20 ms, each is answered
)

// flowEvery is the time between two writes of a sending flow.
const flowEvery = 20 * time.Millisecond

// Heard is something that came back on a flow.
type Heard struct {
	At   time.Time
	Host string // who said it; TCP: as at the start
	From netip.AddrPort
}

// Flow is a conversation with an echo server that goes on until it is closed.
type Flow struct {
	Kind  FlowKind
	To    netip.AddrPort
	First Greeting // what the server said at the start

	conn net.Conn
	done chan struct{} // closed when the flow has ended by itself

	mu    sync.Mutex
	heard []Heard
	ended time.Time
	err   error
}

// Open opens a flow from the machine.
func (h *Host) Open(ctx context.Context, kind FlowKind, from netip.Addr, to netip.AddrPort, limit time.Duration) (*Flow, error) {
	f := &Flow{Kind: kind, To: to, done: make(chan struct{})}
	network := "tcp"
	if kind == Datagrams {
		network = "udp"
	}
	c, err := h.Dial(ctx, network, from, to, limit)
	if err != nil {
		return nil, fmt.Errorf("%s flow from %s to %s: %w", kind, h, to, err)
	}
	f.conn = c
	if kind == Datagrams {
		h.lab.run(f.answers)
		h.lab.run(f.write)
		context.AfterFunc(h.lab.ctx, func() { c.Close() })
		return f, nil
	}
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &f.First)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err == nil && kind == Receiving {
		_, err = c.Write([]byte(stream))
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%s flow from %s to %s: %w", kind, h, to, err)
	}
	h.lab.run(func() { f.read(r) })
	if kind == Sending {
		h.lab.run(f.write)
	}
	context.AfterFunc(h.lab.ctx, func() { c.Close() })
	return f, nil
}

func (f *Flow) read(r *bufio.Reader) {
	b := make([]byte, 1024)
	for {
		_, err := r.Read(b)
		if err != nil {
			f.end(err)
			return
		}
		f.hear(Heard{At: time.Now(), Host: f.First.Host, From: f.First.From})
	}
}

func (f *Flow) answers() {
	b := make([]byte, 2048)
	for {
		n, err := f.conn.Read(b)
		if err != nil {
			if isClosed(err) {
				f.end(err)
				return
			}
			continue // refused for the moment: a datagram knows no connection
		}
		var g Greeting
		if json.Unmarshal(b[:n], &g) == nil {
			f.hear(Heard{At: time.Now(), Host: g.Host, From: g.From})
		}
	}
}

func (f *Flow) write() {
	tick := time.NewTicker(flowEvery)
	defer tick.Stop()
	for {
		_, err := f.conn.Write([]byte("weir rehearsal\n"))
		if err != nil && (f.Kind == Sending || isClosed(err)) {
			f.end(err)
			return
		}
		select {
		case <-f.done:
			return
		case <-tick.C:
		}
	}
}

func (f *Flow) hear(h Heard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, h)
}

func (f *Flow) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err, f.ended = err, time.Now()
		close(f.done)
	}
}

// Ended waits until the flow has ended by itself, and tells when and how. ok is
// false if it has not within limit.
func (f *Flow) Ended(ctx context.Context, limit time.Duration) (at time.Time, err error, ok bool) {
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-f.done:
	default:
		select {
		case <-f.done:
		case <-over.C:
			return time.Time{}, nil, false
		case <-ctx.Done():
			return time.Time{}, nil, false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended, f.err, true
}

// Poke writes a line on an idle flow, and returns when.
func (f *Flow) Poke() time.Time {
	now := time.Now()
	if _, err := f.conn.Write([]byte("still there?\n")); err != nil {
		f.end(err)
	}
	return now
}

// Heard is all that came back so far.
func (f *Flow) Heard() []Heard {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Heard(nil), f.heard...)
}

// HeardFrom waits until host said something after since, and returns when. ok is
// false if it has not within limit.
func (f *Flow) HeardFrom(ctx context.Context, host string, since time.Time, limit time.Duration) (at time.Time, ok bool) {
	Until(ctx, limit, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := len(f.heard) - 1; i >= 0 && f.heard[i].At.After(since); i-- {
			if f.heard[i].Host == host {
				at, ok = f.heard[i].At, true
			}
		}
		return ok
	})
	return at, ok
}

// Silence is the longest time between two things heard after since, and until now.
func (f *Flow) Silence(since time.Time) time.Duration {
	var longest time.Duration
	last := since
	for _, h := range append(f.Heard(), Heard{At: time.Now()}) {
		if h.At.Before(since) {
			continue
		}
		longest = max(longest, h.At.Sub(last))
		last = h.At
	}
	return longest
}

// Close ends the flow.
func (f *Flow) Close() error {
	if f == nil {
		return nil
	}
	return f.conn.Close()
}

// Reset says whether a flow's error is a reset, which tells its program at once.
func Reset(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}
