package rehearse

import (
	"slices"
	"time"

	"weir/internal/config"
)

// What is promised of a line follows from the file: how often it is tried (every,
// metered), how long an answer is waited for (timeout), what is led there (routes),
// and hold_down. It is worked out from the language's words, and not asked of weir.

const (
	// silence fells a line once a probe is lost; what has to be done then is in it.
	silence = 750 * time.Millisecond

	// excused is how long what only repeats itself on a line speaks for it.
	excused = 3 * time.Second

	// stopped is how soon a metered line is asked when its traffic stops: that is
	// looked for each second, and it is asked again after 3 s at the earliest.
	stopped = 4 * time.Second

	// begun is how soon one is asked by which connections are begun that bring nothing,
	// or packets come of which none answers anything new.
	begun = 12 * time.Second

	// unpaid is between two probes of a metered line of which nothing is wanted.
	unpaid = 30 * time.Second

	// rarely is at most between two of another line in reserve, unless every is more.
	rarely = 2 * time.Second

	// patient is how long one thing is waited for that the file wants to last. What
	// lasts longer takes --long.
	patient = 2 * time.Minute
)

func (s *Site) every(wan string) time.Duration { return s.Config.WAN(wan).Probe.Every }

func (s *Site) metered(wan string) bool { return s.Config.WAN(wan).Metered }

// routed says whether a route leads to a line also while another is used.
func (s *Site) routed(wan string) bool {
	return slices.ContainsFunc(s.Config.Routes, func(r config.Route) bool {
		return slices.Contains(r.WANs, wan) == (r.Way != config.Never)
	})
}

// silent is how long a line has to be silent, more if the file waits longer for an
// answer.
func (s *Site) silent(wan string) time.Duration {
	return max(silence, s.Config.WAN(wan).Probe.Timeout+silence/3)
}

// noticed is within what time another line serves, or who asks anew is told that
// there is none, when a line in use is lost amid traffic.
func (s *Site) noticed(wan string) time.Duration {
	if s.metered(wan) {
		return stopped + s.silent(wan)
	}
	return s.every(wan) + s.silent(wan)
}

// doubted is noticed where the far ends go on repeating what they said.
func (s *Site) doubted(wan string) time.Duration {
	if s.metered(wan) {
		return begun + excused + s.silent(wan)
	}
	return s.noticed(wan) + excused
}

// reserve is the time between two probes of a line in reserve.
func (s *Site) reserve(wan string) time.Duration {
	switch seldom := min(8*s.every(wan), max(rarely, s.every(wan))); {
	case s.metered(wan):
		return max(unpaid, seldom)
	case s.routed(wan):
		return s.every(wan)
	default:
		return seldom
	}
}

// unused is within what time the loss of a line in reserve is noticed.
func (s *Site) unused(wan string) time.Duration { return s.reserve(wan) + s.silent(wan) }

// lostFor is how long a line in reserve is lost in a way: longer than any verdict
// takes.
func (s *Site) lostFor(w way, wan string) time.Duration {
	if w.told {
		return rarely + time.Second
	}
	return s.unused(wan) + time.Second
}

// found is within what time it is seen that a lost line works again, while another
// one serves: a metered one to which routes lead is asked more often then.
func (s *Site) found(wan string) time.Duration {
	if s.metered(wan) && s.routed(wan) {
		return min(8*s.every(wan), max(rarely, s.every(wan)))
	}
	return s.reserve(wan)
}

// needed is found while no line serves.
func (s *Site) needed(wan string) time.Duration {
	if s.metered(wan) {
		return max(s.every(wan), time.Second)
	}
	return s.every(wan)
}

// most is within what time the house is without a line that is lost in a way.
func (s *Site) most(w way, wan string) time.Duration {
	if w.told {
		return 100 * time.Millisecond
	}
	return s.noticed(wan)
}

// again is within what time a line lost in a way is seen to work again while
// another one serves; the kernel tells when a carrier is back.
func (s *Site) again(w way, wan string) time.Duration {
	if w.told {
		return rarely
	}
	return s.found(wan)
}

// returns says whether a line's way back into use is waited for.
func (s *Site) returns() bool { return s.unhurried || s.Config.Failover.HoldDown <= patient }

// minutes is what a run takes that loses a line for so long and waits until it is
// used again; 0 for what is no matter of minutes.
func (s *Site) minutes(lost, back time.Duration) time.Duration {
	if s.returns() {
		back += s.Config.Failover.HoldDown
	}
	if lost+back <= patient {
		return 0
	}
	return lost + back + around
}
