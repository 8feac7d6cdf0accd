package gateway

import (
	"time"

	"weir/internal/failover"
	"weir/internal/ruleset"
)

// count reads what came back by lines and tells the machine. It says whether it
// could: what can't be read excuses nothing, and probes go on deciding.
func (d *daemon) count(lines []failover.LineID) bool {
	now := time.Now() // before reading: what comes meanwhile counts for the next
	counters, err := d.k.Counters()
	if err != nil {
		if !d.uncounted {
			d.log.Warn("what comes back by the lines is not counted; only probes judge them", "err", err)
		}
		d.uncounted = true
		return false
	}
	d.uncounted = false
	for _, id := range lines {
		if c, ok := counts(counters, id); ok {
			d.machine.Traffic(now, id, c)
		}
	}
	return true
}

// counts adds up what came back by a line, by whichever way it went through the
// machine. ok is false while the ruleset does not count.
func counts(counters map[string]uint64, id failover.LineID) (c failover.Counts, ok bool) {
	v6 := id.Family == failover.IPv6
	traffic, ok1 := counters[ruleset.TrafficCounter(id.WAN, v6)]
	answers, ok2 := counters[ruleset.AnswerCounter(id.WAN, v6)]
	begun := counters[ruleset.BegunCounter(id.WAN, v6)] // of a metered line only
	return failover.Counts{Packets: traffic + answers, Answers: answers, Begun: begun}, ok1 && ok2
}
