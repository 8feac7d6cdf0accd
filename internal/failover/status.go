package failover

import "time"

// Status is the machine's whole judgement, for people and for the state that
// desired.Build reads.
type Status struct {
	Lines      []Line `json:"lines"` // WANs in the file's order, IPv4 before IPv6
	Use4, Use6 Choice
	Person     string `json:"person,omitempty"` // the WAN that a person chose; "" is none
}

// Choice is the line in use of a family.
type Choice struct {
	WAN   string    `json:"wan"` // "" is none
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// Line is what is known of one line.
type Line struct {
	LineID
	Verdict Verdict   `json:"verdict"`
	Since   time.Time `json:"since"` // of the verdict
	Why     string    `json:"why"`

	// Up is for state.Line.Up: new connections may use the line, and flows that
	// are on it stay. A line that fell stays Up in this sense as long as nothing
	// took over: ending its flows would win nothing, and they live on if it
	// returns with its address.
	Up bool `json:"up"`

	// Hollow says that the line answers echoes and nothing else: conversations that
	// are on it are as good as ended.
	Hollow bool `json:"hollow,omitempty"`

	// Loss is the percentage of the last Probes (at most 64) regular probes that
	// were not answered in time, or not at all. Bursts are not in it.
	Loss   float64 `json:"loss_percent"`
	Probes int     `json:"probes"`

	RTT       time.Duration `json:"rtt_ns"`       // smoothed (SRTT of RFC 6298); 0: not measured yet
	Deviation time.Duration `json:"deviation_ns"` // mean deviation of it (RTTVAR)
	LastReply time.Time     `json:"last_reply"`   // zero: none yet

	// Latency is that of the last probes that went by the clock, their median:
	// what the verdict goes by. 0: not measured yet.
	Latency time.Duration `json:"latency_ns"`

	// HoldDown is the unbroken good time that the line owes until it is preferred
	// again, 0 if none; GoodAt is when it will have served it, if all goes well,
	// zero while it is not good. NextHoldDown is what it would owe if it failed
	// now, and Relapses how often it failed of late.
	HoldDown     time.Duration `json:"hold_down_ns"`
	GoodAt       time.Time     `json:"good_at"`
	NextHoldDown time.Duration `json:"next_hold_down_ns"`
	Relapses     int           `json:"relapses"`

	Deaf []Target `json:"deaf,omitempty"` // targets that do not answer while others do
}

// Status tells what the machine holds true after the last Tick.
func (m *Machine) Status() Status {
	s := Status{Use4: m.choice(IPv4), Use6: m.choice(IPv6), Person: m.person}
	for _, l := range m.lines {
		v := Line{
			LineID: l.id, Verdict: l.verdict, Since: l.since, Why: l.why,
			Up: l.verdict.Works() || l.held, Hollow: l.hollow, Loss: l.loss(), Probes: len(l.history),
			RTT: l.rtt.srtt, Deviation: l.rtt.rttvar, LastReply: l.lastReply,
		}
		if l.verdict == Degraded {
			v.Why = l.badWhy()
		}
		v.Latency, _ = l.latency()
		v.Relapses = max(l.failures-1, 0)
		v.NextHoldDown = l.nextHoldDown(m, m.now)
		if !l.steady && !l.fresh {
			v.HoldDown = l.owes(m)
			if l.verdict.Works() && !l.goodSince.IsZero() {
				v.GoodAt = l.goodSince.Add(v.HoldDown)
			}
		}
		for _, t := range l.targets {
			if t.deaf() {
				v.Deaf = append(v.Deaf, t.Target)
			}
		}
		s.Lines = append(s.Lines, v)
	}
	return s
}

func (m *Machine) choice(f Family) Choice {
	c := m.used(f)
	return Choice{WAN: c.wan, Since: c.since, Why: c.why}
}
