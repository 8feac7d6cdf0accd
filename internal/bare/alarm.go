package bare

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm goes off at a time, as a time.Timer does. It is a timerfd(2) in the
// poller, of which the scheduler knows nothing until it is due.
type Alarm struct {
	// C gets a value when the alarm goes off. One that nobody has taken stays there,
	// also when the alarm is set anew.
	C <-chan struct{}

	file *os.File
	raw  syscall.RawConn
	at   time.Time
}

// NewAlarm makes an alarm that is not set.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	a := &Alarm{file: os.NewFile(uintptr(fd), "timer")}
	if a.raw, err = a.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("make a timer: %w", err), a.file.Close())
	}
	c := make(chan struct{}, 1)
	a.C = c
	go a.wait(c)
	return a, nil
}

// Set has the alarm go off at a time of this process's monotonic clock, at once
// if that is over, never if it is zero. It is for one goroutine.
func (a *Alarm) Set(at time.Time) error {
	if at.Equal(a.at) && at.After(time.Now()) {
		return nil
	}
	var spec unix.ItimerSpec
	if !at.IsZero() {
		spec.Value = unix.NsecToTimespec(max(int64(time.Until(at)), 1))
	}
	a.at = at
	var err error
	cerr := a.raw.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), 0, &spec, nil) })
	if err = errors.Join(cerr, err); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	return nil
}

// Close ends it.
func (a *Alarm) Close() error { return a.file.Close() }

func (a *Alarm) wait(c chan<- struct{}) {
	var count [8]byte
	// The poller tells of each time anew (EPOLLET): one call to read, and none to see
	// that there is no more. It ends when the file is closed.
	_ = a.raw.Read(func(fd uintptr) bool {
		if _, err := Read(int(fd), count[:]); err == nil {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		return false
	})
}
