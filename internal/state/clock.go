package state

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// shift is what tests add to the machine's clocks: see Shift.
var shift = func() (wall, up time.Duration) { return 0, 0 }

// Shift has ReadClock and Uptime add what by returns to what the machine's clocks say. It is for tests, before
// anything reads them: the clocks of a program can be stepped where the machine's are everyone's.
func Shift(by func() (wall, up time.Duration)) { shift = by }

// ReadClock reads the machine's clocks.
func ReadClock() (Clock, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Clock{}, fmt.Errorf("read which boot this is: %w", err)
	}
	up, err := Uptime()
	if err != nil {
		return Clock{}, err
	}
	wall, _ := shift()
	return Clock{Wall: time.Now().Round(0).Add(wall), Boot: strings.TrimSpace(string(b)), Up: up}, nil
}

// Uptime is Clock.Up now: the time since the boot, with that in which the machine slept.
func Uptime() (time.Duration, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return 0, fmt.Errorf("read the time since the boot: %w", err)
	}
	_, slept := shift()
	return time.Duration(up.Nano()) + slept, nil
}
