package gateway

import (
	"maps"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/failover"
	"weir/internal/kernel"
	"weir/internal/plan"
)

// grace is how long the TCP connections of a line that was lost wait for it: what
// a blink costs is then a retransmission, and not the connection.
const grace = 2 * time.Second

// waitUntil is until when the connections of a line wait for it. wasUp and until
// are as before l was judged. A line that was lost long ago, and kept its flows
// while nobody could take them, has had its grace.
func waitUntil(wasUp bool, until time.Time, l failover.Line) time.Time {
	switch {
	case l.Up:
		return time.Time{}
	case wasUp:
		return l.Since.Add(grace)
	}
	return until
}

// waits are the times until which connections of w's lines wait.
func (w world) waits() []time.Time {
	var out []time.Time
	for _, k := range w.wans {
		for _, t := range []time.Time{k.until4, k.until6} {
			if !t.IsZero() {
				out = append(out, t)
			}
		}
	}
	return out
}

// overdue says whether a grace has ended.
func (w world) overdue(now time.Time) bool {
	for _, t := range w.waits() {
		if !t.After(now) {
			return true
		}
	}
	return false
}

// nextWait is when the next grace ends; zero: none runs.
func (w world) nextWait() time.Time {
	var next time.Time
	for _, t := range w.waits() {
		next = earlier(next, t)
	}
	return next
}

// expire is w without the graces that are over.
func (w world) expire(now time.Time) world {
	wans := maps.Clone(w.wans)
	for name, k := range wans {
		for _, t := range []*time.Time{&k.until4, &k.until6} {
			if !t.After(now) {
				*t = time.Time{}
			}
		}
		wans[name] = k
	}
	w.wans = wans
	return w
}

// resume is w with the graces that a was left in. When they began is not known:
// they begin again.
func (w world) resume(now time.Time, c *config.Config, a plan.Actual) world {
	main := actualNamespace(a, "")
	if main == nil {
		return w
	}
	wans := maps.Clone(w.wans)
	for _, cw := range c.WANs {
		k := wans[cw.Name]
		for _, r := range main.Rules {
			index := int(w.house.Index[cw.Name])
			if r.Proto != desired.RouteProto || r.IPProto == 0 || int(r.Mark) != index || r.Table != desired.TableBase+index {
				continue
			}
			if r.V6 {
				k.until6 = now.Add(grace)
			} else {
				k.until4 = now.Add(grace)
			}
		}
		wans[cw.Name] = k
	}
	w.wans = wans
	return w
}

// tellFlows has the loop take in what became of flows. It never waits: a step of
// the loop's own may call it.
func (d *daemon) tellFlows(e kernel.FlowsEnded) {
	select {
	case d.left <- e:
	default: // so many were never seen; it is but a report
	}
}

// flowsEnded takes in what became of flows that a turn ended.
func (d *daemon) flowsEnded(now time.Time, e kernel.FlowsEnded) {
	if e.Err != nil {
		d.wantTurn(firstRetry)
		return
	}
	if e.Deleted == 0 && e.Prodded == 0 && e.Beyond == 0 {
		return
	}
	for name, index := range d.world.house.Index {
		if uint32(index) != e.Mark&0xff {
			continue
		}
		d.flows[name] = tally(d.flows[name], now, e)
		d.news = true
		args := []any{"wan", name, "ended", e.Deleted}
		if e.Family != 0 {
			args = append(args, "family", failover.Family(e.Family))
		}
		if e.Prod {
			args = append(args, "prodded", e.Prodded, "reset", e.Reset)
		}
		if e.Beyond > 0 {
			args = append(args, "not_prodded", e.Beyond)
		}
		d.log.Info("flows left the line", args...)
	}
}

// tally adds e to what is known of a line's flows. What follows closely is of the
// same loss: first what moves at once, then, after the grace, TCP.
func tally(f api.Flows, now time.Time, e kernel.FlowsEnded) api.Flows {
	same := !f.At.IsZero() && now.Sub(f.At) < grace+time.Second
	if !same {
		f = api.Flows{}
	}
	f.At = now
	switch {
	case !e.Prod:
		f.Moved += e.Deleted
	case !same:
		f.Moved += max(0, e.Deleted-e.Prodded-e.Beyond)
	}
	f.Prodded += e.Prodded
	f.Reset += e.Reset
	return f
}
