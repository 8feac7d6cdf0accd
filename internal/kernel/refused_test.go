package kernel_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"weir/internal/netns/netnstest"
	"weir/internal/ruleset"
	"weir/internal/traffic"
)

// Flows that are picked end, each by itself, also where two are between the same ends by
// two lines; whoever inside may wait on one is prodded, its server where it came in.
func TestEndFlows(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		b.turn()
		ct := b.conntrack()
		const seen = conntrack.StatusSeenReply
		for _, f := range []struct {
			client string
			proto  uint8
			state  uint8
			mark   uint32
			zone   uint16
		}{
			{"172.31.0.50", 17, 0, 1, 0},
			{"172.31.0.51", 6, 3, ruleset.MarkTCP | 1, 0},
			{"172.31.0.52", 6, 3, ruleset.MarkTCP | 1, 0},
			{"fd00::53", 6, 3, ruleset.MarkTCP | 1, 0},
			{"fd00::54", 17, 0, 1, 0},
			{"172.31.0.55", 17, 0, 1, 1}, // one and the same by two lines
			{"172.31.0.55", 17, 0, 2, 2},
			{"172.31.0.56", 6, 7, ruleset.MarkTCP | 1, 0}, // TIME_WAIT: nobody waits
		} {
			e := entry(f.client, 4000, f.proto, seen, f.state, f.mark)
			e.TupleOrig.Zone = f.zone
			if f.zone == 2 { // answers are of no zone: each is translated to its own port
				e.TupleReply.Proto.DestinationPort = 4001
			}
			b.must(ct.Create(e))
		}
		heard := b.prods()
		ended, err := b.k.EndFlows(func(f traffic.Flow) bool {
			a := f.Client.Addr().String()
			return f.Client.Port() == 4000 && (slices.Contains([]string{"172.31.0.50", "172.31.0.51", "fd00::53", "172.31.0.56"}, a) || a == "172.31.0.55" && f.Mark == 2)
		})
		b.must(err)
		if ended != 5 {
			t.Errorf("%d flows ended, want 5", ended)
		}
		all, err := ct.Dump(nil)
		b.must(err)
		var left []string
		for _, f := range all {
			if f.TupleOrig.Proto.SourcePort == 4000 {
				left = append(left, f.TupleOrig.IP.SourceAddress.String())
				if f.TupleOrig.Zone == 2 {
					t.Error("of two flows between the same ends the other one ended")
				}
			}
		}
		slices.Sort(left)
		if got := strings.Join(left, " "); got != "172.31.0.52 172.31.0.55 fd00::54" {
			t.Errorf("left: %s", got)
		}
		var clients []string
		for range 4 { // two segments each
			select {
			case p := <-heard:
				clients = append(clients, p.client)
			case <-time.After(5 * time.Second):
				t.Fatalf("prodded: %v", clients)
			}
		}
		slices.Sort(clients)
		if got := strings.Join(slices.Compact(clients), " "); got != "172.31.0.51 fd00::53" {
			t.Errorf("prodded: %s", got)
		}
	})
}
