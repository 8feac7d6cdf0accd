package fastpath

import (
	"net/netip"
	"time"

	"github.com/ti-mo/conntrack"

	"weir/internal/ruleset"
)

// A Port is a link of main that flows come in by: a LAN's, or a line's cable.
type Port struct {
	Link
	Line uint8  // the line's index; 0: a LAN's
	Far  string // the MAC address of the cable's end in the line's namespace; "" of a LAN
}

// A question is for the kernel's routes: where a packet goes that came in by a link.
type question struct {
	src, dst netip.Addr
	from     int    // index of the link
	mark     uint32 // of the packet
}

// An answer is where it goes; the zero value is nowhere, or to the gateway itself.
type answer struct {
	link int        // index
	via  netip.Addr // a router; the zero value is the packet's own destination
	mtu  int        // of the route; 0: it has none of its own
}

// zone is the zone that a port's packets look in for their entry (internal/ruleset: two
// lines may have one and the same address).
func (p Port) zone() uint16 { return uint16(p.Line) }

// asked is what the kernel's routes are asked for packets of one direction of an entry
// that come in by p, as they are when main routes them: their destination is translated,
// their source not yet.
func asked(c conntrack.Flow, reply bool, p Port) question {
	o, r := c.TupleOrig.IP, c.TupleReply.IP
	q := question{src: o.SourceAddress.Unmap(), dst: r.SourceAddress.Unmap(), from: p.Index}
	if reply {
		q.src, q.dst = r.SourceAddress.Unmap(), o.SourceAddress.Unmap()
	}
	if p.Line == 0 { // pinned; what comes by a cable is not (internal/ruleset)
		q.mark = c.Mark & (ruleset.MarkIndex | ruleset.MarkIn)
	}
	return q
}

// pinned are the bits of an entry's mark that sided judges.
const pinned = ruleset.MarkIndex | ruleset.MarkIn | ruleset.MarkProbe | ruleset.MarkSlow

// sided says why main is to keep an entry whose first packet came in by near and left
// by far, "" if it need not.
func sided(c conntrack.Flow, near, far Port) string {
	index, in := uint8(c.Mark&ruleset.MarkIndex), c.Mark&ruleset.MarkIn != 0
	switch {
	case c.Mark&ruleset.MarkProbe != 0:
		return "the gateway's own"
	case c.Mark&ruleset.MarkSlow != 0:
		return "its rule says fast = false"
	case near.Line != 0 && far.Line != 0:
		return "from line to line"
	case near.Line == 0 && far.Line == 0 && index == 0 && !in:
	case near.Line == 0 && far.Line != 0 && far.Line == index && !in:
	case near.Line != 0 && far.Line == 0 && near.Line == index && in:
	default:
		return "it is pinned to another line"
	}
	return ""
}

// kept is a flow that the program carries.
type kept struct {
	entry   conntrack.Flow
	ways    [2]Way
	checked time.Duration // of CLOCK_MONOTONIC, as are all
	last    time.Duration // when a packet of it was carried
	found   [2]found      // the ways' entries
}

// found is an entry of the program, as a sweep found it the last time that it did.
type found struct {
	Entry
	sweep int // its number
}

// take notes an entry.
func (k *kept) take(e Entry, sweep int) {
	i := 0
	if e.at() != k.ways[0].at() {
		i = 1
	}
	k.found[i] = found{e, sweep}
	k.last = max(k.last, e.Last)
}

// The pace of a sweep.
const (
	sweepEvery = 2 * time.Second
	sweepSlow  = 6 * time.Second  // with tens of thousands
	beatEvery  = 10 * time.Second // with no flow to sweep
	checkEvery = 10 * time.Second // each flow is looked for in conntrack

	// A sweep looks for one of so many flows at most, and for fewChecks in any case: those
	// who began together are not all looked for at once.
	spread    = 4
	fewChecks = 256

	// patience is how long the program carries flows that nobody looks after (PATIENCE).
	patience = 30 * time.Second
)

// timers are conntrack's: what it gives an entry with each packet.
type timers struct{ tcp, udp time.Duration }

func (t timers) of(c conntrack.Flow) time.Duration {
	if c.ProtoInfo.TCP != nil {
		return t.tcp
	}
	return t.udp
}

// leastLeft is the least that an entry of a carried flow has to live: so it outlives
// the flow's ways also where the keeper dies, for the program then goes on for its
// patience, and a way that has no entry could carry what is another flow's by now.
const leastLeft = patience + checkEvery + spread*sweepSlow + 10*time.Second

// left is what an entry has to live from now on, as if conntrack had seen its packets.
func (t timers) left(k *kept, now time.Duration) time.Duration {
	return max(t.of(k.entry)-(now-k.last), leastLeft)
}

// lags says whether an entry has less left to live than if conntrack had seen the packets,
// by an eighth: to hold it costs as much as to look for it.
func (t timers) lags(k *kept, c conntrack.Flow, now time.Duration) bool {
	return time.Duration(c.Timeout)*time.Second < max(t.left(k, now)*7/8, leastLeft)
}

// idle is how long a flow may carry nothing before it is left to main, whose conntrack
// then ends it in its own time.
func (t timers) idle(c conntrack.Flow) time.Duration { return min(t.of(c)/2, 5*time.Minute) }

// pace is how long after a sweep that took so long the next one is: a big house's take a
// twentieth of a processor.
func pace(took time.Duration) time.Duration { return min(max(sweepEvery, 20*took), sweepSlow) }

// A fate is what a sweep does with a flow.
type fate uint8

const (
	_     fate = iota
	stays      // as it is
	check      // it is looked for in conntrack
	ends       // main gets it back
)

// fateOf judges a flow by what the program has of it.
func (t timers) fateOf(k *kept, sweep int, generation uint32, now time.Duration) fate {
	a, b := k.found[0], k.found[1]
	switch {
	case a.sweep != sweep, b.sweep != sweep, a.Generation != generation, b.Generation != generation: // gone, closed, or void
		return ends
	case now-k.last > t.idle(k.entry):
		return ends
	case now-k.checked >= checkEvery:
		return check
	}
	return stays
}
