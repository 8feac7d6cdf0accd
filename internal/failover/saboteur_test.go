package failover

import (
	"strings"
	"testing"
	"time"
)

// Every promise can be broken: each of these machines lacks one thing that it
// needs, and a house of its trace finds out.
func TestPromisesCanBreak(t *testing.T) {
	lines := func(f func(h *house, l *line)) func(*house) {
		return func(h *house) {
			for _, l := range h.m.lines {
				f(h, l)
			}
		}
	}
	noHoldDown := lines(func(_ *house, l *line) { l.steady = true })
	noCounters := lines(func(_ *house, l *line) {
		l.packetAt, l.busySince = epoch, epoch.Add(-1)
		l.busyUntil = l.busySince
	})
	broken := map[string]bool{}
	for _, s := range []struct {
		lacks, trace string
		do           func(*house)
		cfg          func() Config
	}{
		{"a hold-down", "flapping for an hour, 1-25 s up and 1-40 s down", noHoldDown, nil},
		{"a hold-down", "flapping for ten minutes, 5 s up and 25 s down", noHoldDown, nil},
		{"a hold-down", "twenty blinks of the carrier, 50-500 ms", noHoldDown, nil},
		{"a hold-down", "flapping for an hour, and the other line fails too", noHoldDown, nil},
		{"a hold-down that doubles", "flapping for an hour, 31 s to 5 min up and 1-40 s down", lines(func(_ *house, l *line) {
			l.failures = min(l.failures, 1)
		}), nil},
		{"a hold-down that doubles", "flapping for a day, 31 s to 50 min up and 1-40 s down", lines(func(_ *house, l *line) {
			l.failures = min(l.failures, 1)
		}), nil},
		{"a hold-down", "flapping for an hour, 31 s to 4 min up and 1-40 s down, hold_down = 5m", noHoldDown, nil},
		{"a hold-down", "flapping for a day, 31 s to 50 min up and 1-40 s down, hold_down = 1h", noHoldDown, nil},
		{"a reason to ask", "a day of evening load on a metered line, then an outage in its midst", lines(func(h *house, l *line) {
			if l.metered && l.verdict == Up {
				l.next, l.flowing = l.lastAsked.Add(metered), false
			}
		}), nil},
		{"a hold-down that ends", "flapping for an hour, 1-25 s up and 1-40 s down", lines(func(_ *house, l *line) {
			if l.verdict == Returning {
				l.goodSince = l.lastReply
			}
		}), nil},
		{"counters", "a day of evening load, then an outage in its midst", noCounters, nil},
		{"counters", "full buffer of 0.5-5 s, up to 30 % lost", noCounters, nil},
		{"counters", "full buffer of 0.5-5 s, up to 30 % lost, no other line", noCounters, nil},
		{"an end of excuses", "downlink dead in the midst of load", lines(func(h *house, l *line) { l.packetAt = h.now }), nil},
		{"an end of excuses", "a day of evening load, then an outage in its midst", lines(func(h *house, l *line) { l.packetAt = h.now }), nil},
		{"doubt about what only repeats itself", "uplink dead, three downloads retransmit, or a stream goes on", lines(func(_ *house, l *line) {
			l.lastReply = later(l.lastReply, l.packetAt)
		}), nil},
		{"a sample of what is to be better", "30 % loss of both lines for an hour, then an outage", lines(func(h *house, l *line) {
			if l.badFrom = 0; !l.badSince.IsZero() {
				l.badSince = h.now.Add(-doubtful)
			}
			l.betterSince = h.now.Add(-doubtful)
		}), nil},
		{"a memory of losses", "30 % loss for an hour", lines(func(_ *house, l *line) {
			if l.verdict == Degraded && !l.inUse {
				l.lossy, l.slow, l.steady = false, false, true
				l.verdict = Up
			}
		}), nil},
		{"patience", "twenty blinks behind the modem, 50-500 ms", lines(func(h *house, l *line) {
			if l.verdict == Suspect {
				l.fall(h.m, h.now, Down, "a probe was lost")
			}
		}), nil},
		{"a burst", "30 % loss of the only line for an hour, then an outage", lines(func(h *house, l *line) {
			if l.verdict == Suspect {
				l.burst = h.now.Add(sec)
			}
		}), nil},
		{"an eye for who limits", "targets that limit their replies, an hour, then an outage", lines(func(_ *house, l *line) {
			for i := range l.history {
				l.history[i].of = l.targets[0]
			}
		}), nil},
		{"the pace of use while it returns", "all targets limit their replies under load", lines(func(h *house, l *line) {
			if !l.inUse && l.next.Before(h.now.Add(250*ms)) && l.next.After(h.now) {
				l.next = l.lastAsked.Add(reserve)
			}
		}), nil},
		{"an answer to new things", "all targets limit their replies under load, no other line, then an outage", lines(func(_ *house, l *line) {
			l.counts.Answers = 1 << 40
		}), nil},
		{"targets of other kinds", "everything but pings, then an outage", func(*house) {}, calm},
		{"targets of other kinds", "pings and nothing else", func(*house) {}, calm},
		{"an ear for the DHCP client", "lease lost for 1 s to 2 min, three times in an hour", lines(func(_ *house, l *line) {
			if l.id.Family == IPv4 && l.facts == hasNot {
				l.facts, l.verdict = has, Up
			}
		}), nil},
		{"eagerness while no line works", "both lines lost, and their leases, back in any order", lines(func(h *house, l *line) {
			if l.verdict == Down && l.next.Before(h.now.Add(5*sec)) {
				l.next = l.since.Add(h.now.Sub(l.since).Truncate(10*sec) + 10*sec)
			}
		}), nil},
	} {
		broken[s.trace] = true
		t.Run(s.lacks+"/"+s.trace, func(t *testing.T) {
			t.Parallel()
			long := day()
			if s.lacks == "a hold-down that doubles" {
				long = 24 * time.Hour // in less it rarely does harm, and many seeds take longer
			}
			for i, tr := range traces(long) {
				if tr.name != s.trace {
					continue
				}
				if s.cfg != nil {
					tr.cfg = s.cfg
				}
				if strings.HasPrefix(tr.name, "a day") {
					tr.play = func(h *house) int { return h.evenings(3*time.Hour, tr.act) }
				}
				for n := range 60 {
					if h := tr.run(uint64(*first+100_000*i+n), s.do); len(h.broken) > 0 {
						t.Logf("after %d seeds: %s", n+1, h.broken[0])
						return
					}
				}
				t.Error("nobody noticed")
				return
			}
			t.Error("there is no such trace")
		})
	}
	for _, tr := range traces(day()) {
		if !broken[tr.name] {
			t.Errorf("nobody breaks what is promised of %s", tr.name)
		}
	}
}
