package gateway

import (
	"testing"

	"weir/internal/failover"
)

// A line's counts are its own, of its own family; a ruleset that does not count
// yet is no reading.
func TestCounts(t *testing.T) {
	counters := map[string]uint64{
		"begun6.fiber": 5, "traffic4.fiber": 100, "answers4.fiber": 7, "traffic6.fiber": 20, "answers6.fiber": 3, "traffic4.lte": 9, "forward.web": 1,
	}
	for _, c := range []struct {
		id   failover.LineID
		want failover.Counts
		ok   bool
	}{
		{failover.LineID{WAN: "fiber", Family: failover.IPv4}, failover.Counts{Packets: 107, Answers: 7}, true},
		{failover.LineID{WAN: "fiber", Family: failover.IPv6}, failover.Counts{Packets: 23, Answers: 3, Begun: 5}, true},
		{failover.LineID{WAN: "lte", Family: failover.IPv4}, failover.Counts{Packets: 9}, false},
		{failover.LineID{WAN: "dsl", Family: failover.IPv4}, failover.Counts{}, false},
	} {
		if got, ok := counts(counters, c.id); got != c.want || ok != c.ok {
			t.Errorf("%v: %+v, %v; want %+v, %v", c.id, got, ok, c.want, c.ok)
		}
	}
}
