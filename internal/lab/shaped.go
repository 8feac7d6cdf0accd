package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Link joins two machines by a pair of TAPs, and what passes between them by a
// Shape for each direction. It needs neither netem nor privilege beyond a user
// namespace. Unlike a veth's, the carrier of a TAP goes through the kernel's
// linkwatch, which tells of losses at most once a second, as it does for real
// ports (net/core/link_watch.c).
//
// What it adds of its own is the time of two system calls and two wake-ups a
// frame, and up to a millisecond where a frame has to wait (the runtime's timers).
// Its ceiling is measured by BenchmarkLink and by Ceiling.
type Link struct {
	near     *os.File // a's
	cut      atomic.Bool
	there    *direction // from a to b
	back     *direction // from b to a
	shutdown context.Context
}

// Count is what a direction has done since it was made.
type Count struct {
	Frames, Bytes    uint64 // that arrive, those under way among them
	Lost, Full, Dead uint64 // frames, by Fate
	// Over counts frames that the link itself could not keep: more than 32,768
	// under way at once. A measurement with any is worth nothing.
	Over uint64
}

// inFlight is how many frames may be under way in a direction.
const inFlight = 1 << 15

// direction carries frames one way.
type direction struct {
	from, to *os.File
	link     *Link
	start    time.Time
	wake     chan struct{}

	mu    sync.Mutex
	queue *queue
	under []frame // under way, the first to arrive first
	spare [][]byte
	count Count
}

type frame struct {
	at time.Duration // of its arrival, since start
	b  []byte
}

// Link makes the cable from a to b. Its ends on the gateway are down, as ports are
// that nobody has configured; others are up. The seed decides the chances of both
// directions, which are independent of each other.
func (l *Lab) Link(a, b Plug, there, back Shape, seed uint64) (*Link, error) {
	if err := first(there.Check(), back.Check()); err != nil {
		return nil, err
	}
	fa, err := openTAP(a)
	if err != nil {
		return nil, err
	}
	fb, err := openTAP(b)
	if err != nil {
		return nil, errors.Join(err, fa.Close())
	}
	l.onClose(fa.Close)
	l.onClose(fb.Close)
	t := &Link{near: fa, shutdown: l.ctx}
	t.there = &direction{from: fa, to: fb, queue: newQueue(there, 2*seed)}
	t.back = &direction{from: fb, to: fa, queue: newQueue(back, 2*seed+1)}
	for _, d := range []*direction{t.there, t.back} {
		d.link, d.start, d.wake = t, time.Now(), make(chan struct{}, 1)
		l.run(d.read)
		l.run(d.deliver)
	}
	for _, p := range []Plug{a, b} {
		if p.Host.Name == "" {
			continue
		}
		if err := p.Host.Up(p.Dev); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Shape changes what the link does from now on: there from a to b, back from b to
// a. What is under way arrives as it would have.
func (t *Link) Shape(there, back Shape) error {
	if err := first(there.Check(), back.Check()); err != nil {
		return err
	}
	t.there.set(there)
	t.back.set(back)
	return nil
}

// Counts tells what both directions have done so far.
func (t *Link) Counts() (there, back Count) { return t.there.counts(), t.back.counts() }

// Carrier sets the carrier of end a. Without it no frame passes, either way, and
// those under way are lost.
func (t *Link) Carrier(on bool) error {
	v := uint32(0)
	if on {
		v = 1
	} else {
		t.cut.Store(true)
	}
	raw, err := t.near.SyscallConn()
	if err != nil {
		return err
	}
	var errno unix.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.TUNSETCARRIER, uintptr(unsafe.Pointer(&v)))
	})
	if err == nil && errno != 0 {
		err = errno
	}
	if on {
		t.cut.Store(false)
	}
	return wrap(err, "set the carrier of %s", t.near.Name())
}

func (d *direction) set(s Shape) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue.set(s)
}

func (d *direction) counts() Count {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// read takes what the machine at the near end sends.
func (d *direction) read() {
	buf := make([]byte, 65536)
	for {
		n, err := d.from.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil || d.link.cut.Load() {
			continue
		}
		if d.takes(buf[:n]) {
			d.give(buf[:n])
		}
	}
}

// takes decides on a frame. It says whether it arrives at once, with nothing
// before it; one that arrives later it copies.
func (d *direction) takes(b []byte) (now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, fate := d.queue.send(time.Since(d.start), len(b), findsNeighbours(b))
	switch fate {
	case Lost:
		d.count.Lost++
		return false
	case Full:
		d.count.Full++
		return false
	case Dead:
		d.count.Dead++
		return false
	}
	if len(d.under) >= inFlight {
		d.count.Over++
		return false
	}
	d.count.Frames++
	d.count.Bytes += uint64(len(b))
	if len(d.under) == 0 && at <= time.Since(d.start) {
		return true
	}
	var room []byte
	if n := len(d.spare); n > 0 {
		room, d.spare = d.spare[n-1], d.spare[:n-1]
	}
	d.under = append(d.under, frame{at, append(room[:0], b...)})
	if len(d.under) == 1 {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	return false
}

// findsNeighbours says whether a frame is ARP, or router or neighbour discovery
// (RFC 4861).
func findsNeighbours(b []byte) bool {
	if len(b) < 14 {
		return false
	}
	switch binary.BigEndian.Uint16(b[12:]) {
	case unix.ETH_P_ARP:
		return true
	case unix.ETH_P_IPV6:
		return len(b) > 54 && b[20] == unix.IPPROTO_ICMPV6 && b[54] >= 133 && b[54] <= 137
	}
	return false
}

// give hands a frame to the machine at the far end.
func (d *direction) give(b []byte) {
	if !d.link.cut.Load() {
		// A link that is down takes no frame, as a real one.
		_, _ = d.to.Write(b)
	}
}

// deliver hands over what arrives later, each at its time.
func (d *direction) deliver() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.mu.Lock()
		due, wait := d.under, time.Duration(0)
		for i, f := range d.under {
			if wait = f.at - time.Since(d.start); wait > 0 {
				due = d.under[:i]
				break
			}
		}
		d.mu.Unlock()
		// They stay in the queue until they are written, so that none overtakes.
		for _, f := range due {
			d.give(f.b)
		}
		if n := len(due); n > 0 {
			d.delivered(n)
			continue
		}
		var tick <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			tick = timer.C
		}
		select {
		case <-tick:
		case <-d.wake:
		case <-d.link.shutdown.Done():
			return
		}
	}
}

// delivered takes the first n frames from the queue and keeps their memory.
func (d *direction) delivered(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.under[:n] {
		if len(d.spare) < 1024 {
			d.spare = append(d.spare, f.b)
		}
	}
	d.under = d.under[n:] // append moves what is left when it needs the room
}
