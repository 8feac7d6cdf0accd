package dhcp6

import (
	"time"

	"weir/internal/state"
)

// part takes from what is held what the configuration does not want any more, and
// returns it: it is in use no longer, as it has to be before it is given back (RFC
// 8415, 18.2.7). nil: nothing, or nobody knows whose it is.
func (e *Engine) part() *state.Lease6 {
	if e.held == nil {
		return nil
	}
	back, rest := *e.held, *e.held
	if e.keep(&rest); len(rest.Prefix)+len(rest.Addr) == 0 {
		e.drop("nothing of it is wanted any more")
	} else {
		e.held = &rest
	}
	if len(rest.Addr) > 0 {
		back.Addr = nil
	}
	if len(rest.Prefix) > 0 {
		back.Prefix = nil
	}
	if len(back.Prefix)+len(back.Addr) == 0 || back.ServerID == "" {
		return nil
	}
	return &back
}

// released goes on with what is left, or with looking for what is wanted.
func (e *Engine) released(now time.Time, why string) Out {
	if e.held == nil {
		e.event = why
		return e.begin(now, "")
	}
	return e.resume(now, why)
}
