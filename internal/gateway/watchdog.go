package gateway

import (
	"strconv"
	"time"
)

// watchdog tells the service manager that the loop goes on (sd_watchdog_enabled(3)).
// What feeds it is the loop's passes and the steps of a turn, each when it is done, and
// never a timer: a loop that is stuck starves it, and systemd starts weir anew.
type watchdog struct {
	every time.Duration // 0: nobody asked
	fed   time.Time
	tell  func(lines ...string)
}

// newWatchdog reads what the service manager asks for: usec is the variable
// WATCHDOG_USEC, the longest silence in microseconds, for the process of the number in
// pid, WATCHDOG_PID, if that is said.
func newWatchdog(usec, pid string, own int, tell func(...string)) *watchdog {
	n, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || n <= 0 || pid != "" && pid != strconv.Itoa(own) {
		return &watchdog{}
	}
	return &watchdog{every: time.Duration(n) * time.Microsecond / 3, tell: tell}
}

// progress is called at each piece of work done.
func (w *watchdog) progress(now time.Time) {
	if w.every == 0 || now.Sub(w.fed) < w.every {
		return
	}
	w.fed = now
	w.tell("WATCHDOG=1")
}
