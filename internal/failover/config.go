package failover

import "time"

// Config is what the file says about failover. A family with no target is
// never probed: its lines stay Untried, and in use as long as they have an
// address and carrier.
type Config struct {
	WANs   []WAN
	Prefer []string // names of WANs, best first; a WAN left out is probed and never chosen

	HoldDown time.Duration // unbroken good time before going back

	// Every is the time between two probes of the line in use, and of one that a
	// route may lead to. One in reserve
	// is asked eight times as seldom, but at least every 2 s if Every is below
	// that; one that returns at half the pace; a metered one every 30 s. An outage is acted on within Every and the
	// silence that fells a line: 650 ms for an Every of up to 250 ms, 900 ms
	// less Every up to 450 ms, 450 ms above that. With long or wildly uneven
	// round trips it is the time-out, their mean and two mean deviations
	// instead, if that is more.
	Every time.Duration

	Timeout time.Duration // 0: from measured round trips

	Degraded Thresholds

	Target4, Target6 []Target
}

// Thresholds say from when on a line that works is degraded. A zero is no threshold.
type Thresholds struct {
	Loss    float64 // percent of the probes
	Latency time.Duration
}

// WAN is a WAN of the file.
type WAN struct {
	Name    string
	Metered bool

	// Routed says that a route of the file may lead to the WAN. Then it is watched
	// as the line in use is, whichever that may be.
	Routed bool

	Target4, Target6 []Target      // nil: the Config's
	Every, Timeout   time.Duration // 0: the Config's
}

// Counts are readings of a line's counters, which only grow; one that is smaller
// than the last was set back, and nothing is known of the time between.
type Counts struct {
	// Packets is what came back, of flows that went out by the line.
	Packets uint64

	// Begun is how many flows were begun by the line, our probes not among them;
	// always 0 if that is not counted. Flows that are begun and bring nothing are a
	// reason to ask, not to judge: houses talk to the dead all day long.
	Begun uint64

	// Answers is what of it answers something new: the first reply of a flow, a
	// DNS response, an echo reply. A peer that only repeats what it said, because
	// it hears nothing from us, does not make it grow.
	Answers uint64
}

// Probe is an order to ask a target once.
type Probe struct {
	ID     uint64 // never used twice by one Machine; Sent, Reply and Error name it
	Line   LineID
	Target Target
	Wait   time.Duration // how long its answer may be of use
}

// lastUse is how late an answer still says something of a line whose probes time out by
// themselves: 1 s and the burst's 2 s fell it (settle), and a second besides.
const lastUse = 4 * time.Second

// Change is a verdict or a choice that is not what it was.
type Change struct {
	Line     LineID
	From, To Verdict // both 0 if it is a choice

	// A choice: the family's line in use went from one WAN to another; "" is none.
	Choice         bool
	FromWAN, ToWAN string

	Why  string
	Took time.Duration // how long the line was silent before it went Down; else 0
}

// Output is what Tick wants done.
type Output struct {
	Probes  []Probe   // send these now, in this order
	Count   []LineID  // read these lines' counters now, and tell Traffic
	Next    time.Time // call Tick again at this time, if nothing happens before; zero: no need
	Changes []Change  // in the order in which they came about
}
