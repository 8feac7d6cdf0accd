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
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return Clock{}, fmt.Errorf("read the time since the boot: %w", err)
	}
	return Clock{Wall: time.Now().Round(0), Boot: strings.TrimSpace(string(b)), Up: time.Duration(up.Nano())}, nil
}
