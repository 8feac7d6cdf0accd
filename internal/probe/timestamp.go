package probe

import (
	"bytes"
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// arrival is when the kernel got a packet: the clock now, less the time since
// its stamp. The stamp is of the settable clock; should that have been set in
// between, the packet counts as just arrived.
func arrival(oob []byte) Monotonic {
	stamp, ok := timestamp(oob)
	age := time.Since(stamp)
	now := monotonic() // after the other clock: being interrupted here makes a packet late, never early
	if !ok || age < 0 || age > 5*time.Second {
		return now
	}
	return now - Monotonic(age)
}

// timestamp finds SCM_TIMESTAMPNS (socket(7), SO_TIMESTAMPNS) among control
// messages: a struct timespec as C has it here.
func timestamp(oob []byte) (time.Time, bool) {
	cmsgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Time{}, false
	}
	for _, c := range cmsgs {
		if c.Header.Level != unix.SOL_SOCKET || c.Header.Type != unix.SO_TIMESTAMPNS {
			continue
		}
		var ts unix.Timespec
		if err := binary.Read(bytes.NewReader(c.Data), binary.NativeEndian, &ts); err != nil {
			return time.Time{}, false
		}
		return time.Unix(ts.Unix()), true
	}
	return time.Time{}, false
}
