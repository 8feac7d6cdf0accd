package gateway

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/api"
	"weir/internal/desired"
	"weir/internal/failover"
	"weir/internal/kernel"
	"weir/internal/plan"
	"weir/internal/state"
)

// TestGrace follows a line's connections through what the machine says of the line,
// second by second.
func TestGrace(t *testing.T) {
	c := mustParse(t, twoLines)
	start := time.Unix(1_800_000_000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	type moment struct {
		at    float64
		up    bool
		since float64 // of the verdict
		waits bool
	}
	for _, tt := range []struct {
		name string
		say  []moment
	}{
		{"never was up", []moment{{0, false, 0, false}, {5, false, 0, false}}},
		{"lost", []moment{{0, true, 0, false}, {10, false, 10, true}, {11.9, false, 10, true}, {12, false, 10, false}, {20, false, 10, false}}},
		{"a blink", []moment{{0, true, 0, false}, {10, false, 10, true}, {10.5, true, 10.5, false}, {12.1, true, 10.5, false}, {13, false, 13, true}, {15, false, 13, false}}},
		{"absent after it fell", []moment{{0, true, 0, false}, {10, false, 10, true}, {11, false, 11, true}, {12, false, 11, false}}},
		{"held while nobody could take its flows", []moment{{0, true, 0, false}, {10, true, 10, false}, {60, false, 10, false}}},
		{"held for a moment", []moment{{0, true, 0, false}, {10, true, 10, false}, {11, false, 10, true}, {12, false, 10, false}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, f := range []failover.Family{failover.IPv4, failover.IPv6} {
				w := world{wans: map[string]wan{}}
				for _, m := range tt.say {
					now := at(m.at)
					due := w.overdue(now)
					next := w.nextWait()
					if due != (!next.IsZero() && !next.After(now)) {
						t.Errorf("%v s: overdue %v, and the next wait ends %v", m.at, due, next)
					}
					w = w.take(failover.Status{Lines: []failover.Line{{LineID: id("fiber", f), Up: m.up, Since: at(m.since)}}}).expire(now)
					s := w.state(c).WANs["fiber"]
					line, other := s.V4, s.V6
					if f == failover.IPv6 {
						line, other = s.V6, s.V4
					}
					if line.Up != m.up || line.Grace != m.waits || other.Grace {
						t.Errorf("%s at %v s: up %v, grace %v, the other family's %v; want up %v, grace %v", f, m.at, line.Up, line.Grace, other.Grace, m.up, m.waits)
					}
				}
			}
		})
	}
}

// TestGraceIsResumed: a daemon that finds connections waiting has them wait, each
// family by itself, and not for ever.
func TestGraceIsResumed(t *testing.T) {
	c := mustParse(t, twoLines)
	now := time.Unix(1_800_000_000, 0)
	h := house{Index: map[string]uint8{"fiber": 3, "lte": 200}}
	for _, f := range []failover.Family{failover.IPv4, failover.IPv6} {
		lost := state.WAN{V4: state.Line{Addr: prefixes("198.51.100.10/24")}, V6: state.Line{Addr: prefixes("2001:db8:1::5/64")}}
		lost.V4.Grace, lost.V4.Up = f == failover.IPv4, f != failover.IPv4
		lost.V6.Grace, lost.V6.Up = f == failover.IPv6, f != failover.IPv6
		s := state.State{Index: h.Index, Use4: "lte", ULA: netip.MustParsePrefix("fd12::/48"), WANs: map[string]state.WAN{
			"fiber": lost,
			"lte":   {V4: state.Line{Up: true}, V6: state.Line{Up: true}},
		}}
		a := actual(desired.Build(c, s))
		w := world{house: h, wans: map[string]wan{}}.resume(now, c, a)
		got := w.state(c)
		if l := got.WANs["fiber"]; l.V4.Grace != lost.V4.Grace || l.V6.Grace != lost.V6.Grace {
			t.Errorf("%s: fiber: %+v", f, l)
		}
		if l := got.WANs["lte"]; l.V4.Grace || l.V6.Grace {
			t.Errorf("%s: lte: %+v", f, l)
		}
		if next := w.nextWait(); next != now.Add(grace) {
			t.Errorf("%s: it ends %v, and began %v", f, next, now)
		}
		down := adoption(c, h.Index, a).Down
		if d := cmp.Diff([]failover.LineID{id("fiber", f)}, down); d != "" {
			t.Errorf("%s: lines adopted as down: %s", f, d)
		}
	}
	if w := (world{}).resume(now, c, plan.Actual{}); !w.nextWait().IsZero() {
		t.Error("an empty kernel has connections that wait")
	}
}

func TestTally(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1_800_000_000+int64(s), 0) }
	var f api.Flows
	for i, tt := range []struct {
		at   int
		e    kernel.FlowsEnded
		want api.Flows
	}{
		{0, kernel.FlowsEnded{Deleted: 5}, api.Flows{At: at(0), Moved: 5}},
		{0, kernel.FlowsEnded{Deleted: 1}, api.Flows{At: at(0), Moved: 6}},
		// After the grace: what is neither is long closed, and nobody misses it.
		{2, kernel.FlowsEnded{Deleted: 30, Prod: true, Prodded: 10, Reset: 9}, api.Flows{At: at(2), Moved: 6, Prodded: 10, Reset: 9}},
		// A line that works is left.
		{60, kernel.FlowsEnded{Deleted: 30, Prod: true, Prodded: 10, Beyond: 2, Reset: 9}, api.Flows{At: at(60), Moved: 18, Prodded: 10, Reset: 9}},
		{90, kernel.FlowsEnded{Prod: true, Prodded: 1}, api.Flows{At: at(90), Prodded: 1}},
	} {
		if f = tally(f, at(tt.at), tt.e); f != tt.want {
			t.Errorf("%d: %+v, want %+v", i, f, tt.want)
		}
	}
}
