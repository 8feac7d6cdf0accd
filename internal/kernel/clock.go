package kernel

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Clock returns what sets the machine's clock, nil where that is not ours: weir
// runs without the right, in a user namespace, or in another network namespace than
// the machine's first (a rehearsal, a gateway beside the machine's own).
func Clock() func(time.Time) error {
	if !capable(unix.CAP_SYS_TIME) {
		return nil
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	if f := strings.Fields(string(b)); err != nil || len(f) != 3 || f[0] != "0" || f[1] != "0" || f[2] != "4294967295" {
		return nil
	}
	// What stands in the first network namespace alone: see conntrackMax.
	if _, err := os.Stat("/proc/sys/net/core/netdev_max_backlog"); err != nil {
		return nil
	}
	return setClock
}

func setClock(t time.Time) error {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("clock_settime: %w", err)
	}
	return nil
}
