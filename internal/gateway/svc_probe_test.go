package gateway

import (
	"net/netip"
	"testing"
	"time"

	"weir/internal/failover"
	"weir/internal/probe"
)

// A prober hangs when orders go on and nothing is heard of it; not when there
// was nothing to do, nor when the loop itself stood still.
func TestHang(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		name   string
		orders []time.Duration // since start
		heard  time.Duration   // after the orders before; 0: never
		want   bool            // of the last order
	}{
		{"one order", []time.Duration{0}, 0, false},
		{"orders for a second", []time.Duration{0, 250, 500, 750, 1000}, 0, false},
		{"orders for more", []time.Duration{0, 250, 500, 750, 1000, 1250}, 0, true},
		{"heard meanwhile", []time.Duration{0, 250, 500, 750, 1000, 1250}, 600, false},
		{"heard, then no more", []time.Duration{0, 250, 500, 750, 1000, 1250, 1500, 1750, 2000}, 600, true},
		{"nothing was to be done for long", []time.Duration{0, 2000}, 0, false},
		{"the loop stood still", []time.Duration{0, 250, 5000}, 0, false},
		{"the loop stood still, and it hangs besides", []time.Duration{0, 5000, 5500, 6001}, 0, true},
	} {
		var h hang
		var got bool
		for i, at := range c.orders {
			if heard := c.heard; heard > 0 && at > heard && i > 0 && c.orders[i-1] <= heard {
				h.heard()
			}
			got = h.ordered(start.Add(at * time.Millisecond))
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestOrderIsTheProbes(t *testing.T) {
	line := failover.LineID{WAN: "fiber", Family: failover.IPv4}
	addr := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		target failover.Target
		want   probe.Order
	}{
		{failover.Target{Kind: failover.Echo, Addr: addr}, probe.Order{Way: probe.Echo}},
		{failover.Target{Kind: failover.TCP, Addr: addr, Port: 443}, probe.Order{Way: probe.TCP, Port: 443}},
		{failover.Target{Kind: failover.DNS, Addr: addr, Port: 53, Name: "name.example"}, probe.Order{Way: probe.DNS, Port: 53, Name: "name.example"}},
	} {
		c.want.ID, c.want.WAN, c.want.Target, c.want.Wait = 7, "fiber", addr, 3*time.Second
		if got := order(failover.Probe{ID: 7, Line: line, Target: c.target, Wait: 3 * time.Second}); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.target, got, c.want)
		}
	}
}
