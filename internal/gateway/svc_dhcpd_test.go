package gateway

import (
	"net/netip"
	"testing"
	"time"

	"weir/internal/state"
)

// A renewed lease leaves the names alone; what changes a name is seen, also where
// the lease before it ended and nobody said so yet.
func TestSameName(t *testing.T) {
	clock := state.Clock{Wall: time.Unix(1e9, 0), Boot: "b", Up: time.Hour}
	lease := state.Lease{LAN: "home", Addr: netip.MustParseAddr("172.31.0.100"), Client: "01", MAC: "02:00:00:00:00:01", Hostname: "pc", Duration: time.Hour, Boot: "b", Up: 30 * time.Minute}
	for _, c := range []struct {
		name   string
		change func(old, l *state.Lease)
		want   bool
	}{
		{"renewed", func(_, l *state.Lease) { l.Up = time.Hour }, true},
		{"nobody has a name", func(old, l *state.Lease) { *old, l.Hostname = state.Lease{}, "" }, true},
		{"new", func(old, _ *state.Lease) { *old = state.Lease{} }, false},
		{"given back", func(_, l *state.Lease) { l.Duration = 0 }, false},
		{"given back, without a name", func(old, l *state.Lease) { old.Hostname, l.Hostname, l.Duration = "", "", 0 }, true},
		{"the one before was given back", func(old, _ *state.Lease) { old.Duration = 0 }, false},
		{"the one before ran out", func(old, _ *state.Lease) { old.Up = -time.Hour }, false},
		{"another name", func(_, l *state.Lease) { l.Hostname = "laptop" }, false},
		{"no name any more", func(_, l *state.Lease) { l.Hostname = "" }, false},
		{"a host of the file now", func(_, l *state.Lease) { l.Host = "pc" }, false},
		{"another client of this name", func(_, l *state.Lease) { l.Client = "02" }, false},
		{"another card", func(_, l *state.Lease) { l.MAC = "02:00:00:00:00:02" }, false},
	} {
		old, l := lease, lease
		c.change(&old, &l)
		if got := sameName(old, l, clock); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
