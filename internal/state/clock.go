package state

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
	return Clock{Wall: time.Now().Round(0), Boot: strings.TrimSpace(string(b)), Up: up}, nil
}

// Uptime is Clock.Up now: the time since the boot, with that in which the machine slept.
func Uptime() (time.Duration, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return 0, fmt.Errorf("read the time since the boot: %w", err)
	}
	return time.Duration(up.Nano()), nil
}
