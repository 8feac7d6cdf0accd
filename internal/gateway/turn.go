package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/failover"
	"weir/internal/plan"
)

// turn makes the kernel as the file wants it, and says what came of it. The error
// is for the first turn alone, which is not to cut whoever starts weir.
func (d *daemon) turn(ctx context.Context) error {
	start := time.Now()
	p, actual, err := d.plan(ctx)
	select {
	case <-ctx.Done():
		return nil // weir was ended while it read: nothing was begun, and nothing is wrong
	default:
	}
	if err == nil && !d.ready {
		d.notes = append(d.notes, slices.Concat(managers(d.cfg, actual), d.dnsNotes(d.cfg), d.timeNotes())...)
		for _, n := range d.notes {
			d.log.Warn("this machine", "note", n)
		}
		if err := cuts(d.o.Session, d.o.CutMeOff, "if you have another way in, add --yes-cut-me-off", actual, p); err != nil {
			return err
		}
	}
	if err == nil {
		if err = refusal(p); err == nil && !p.Empty() {
			err = d.k.Apply(ctx, p)
		}
	}
	d.turned(start, p, err)
	return nil
}

// plan says what is to be changed in the kernel as it is now, and takes in what
// it holds of the kernel's own making.
func (d *daemon) plan(ctx context.Context) (plan.Plan, plan.Actual, error) {
	d.takeParts()
	// What is read depends on what is wanted, and that in turn on addresses that
	// the kernel makes itself.
	want := desired.Build(d.cfg, d.world.state(d.cfg))
	actual, err := d.k.Read(ctx, want)
	if err != nil {
		return plan.Plan{}, actual, err
	}
	now := time.Now()
	if !d.adopted {
		d.adopted = true
		d.machine.Adopt(now, adoption(d.cfg, d.world.house.Index, actual))
		d.world = d.world.resume(now, d.cfg, actual)
	}
	d.world = d.world.outlived(time.Now()).observe(d.cfg, want, actual)
	d.solicit()
	d.pollCarrier() // a big house takes a while to be read: a line lost meanwhile need not wait for the next turn
	d.judge(time.Now())
	d.dirty = time.Time{} // what judging wants is in this turn
	return plan.Diff(actual, desired.Build(d.cfg, d.world.state(d.cfg))), actual, nil
}

// foreseen is what would come of putting another file in force.
type foreseen struct {
	plan   plan.Plan
	actual plan.Actual
	world  world
}

// foresee plans c as if it were in force. Nothing is changed, d neither.
func (d *daemon) foresee(ctx context.Context, c *config.Config) (foreseen, error) {
	w := d.world
	h, err := settle(w.house, c, rand.Reader)
	if err != nil {
		return foreseen{}, err
	}
	w.house = h
	want := desired.Build(c, w.state(c))
	actual, err := d.k.Read(ctx, want)
	if err != nil {
		return foreseen{}, err
	}
	s := d.machine.Status()
	if !d.adopted { // no daemon runs: what the kernel has in force stays
		a := adoption(c, w.house.Index, actual)
		s.Use4.WAN, s.Use6.WAN = a.Use4, a.Use6
		for i, l := range s.Lines {
			if slices.Contains(a.Down, l.LineID) {
				s.Lines[i].Verdict = failover.Down
			}
		}
	}
	w = w.observe(c, want, actual).foresee(c, s)
	return foreseen{plan.Diff(actual, desired.Build(c, w.state(c))), actual, w}, nil
}

// refusal is the error of a plan that can't be carried out here.
func refusal(p plan.Plan) error {
	if len(p.Refused) == 0 {
		return nil
	}
	return fmt.Errorf("this machine can't do what the file wants: %s", strings.Join(p.Refused, "; "))
}

// turned books a turn.
func (d *daemon) turned(start time.Time, p plan.Plan, err error) {
	took := time.Since(start)
	d.turns.At, d.turns.TookMS = start, float64(took.Microseconds())/1000
	d.turns.Count++
	if err != nil {
		if d.retry = min(max(2*d.retry, firstRetry), maxRetry); d.turns.Error != err.Error() {
			d.log.Error("the kernel is not as the file wants it", "err", err, "again_in", d.retry)
		}
		d.turns.Error, d.turns.Failed = err.Error(), d.turns.Failed+1
		d.turns.Retry = time.Now().Add(d.retry)
		d.wantTurn(d.retry)
		return
	}
	if d.turns.Failed > 0 {
		d.log.Info("the kernel is as the file wants it again", "after", d.turns.Failed)
	}
	d.retry, d.seen = 0, p.Notes
	d.wantTurn(lookEvery)
	d.turns.Error, d.turns.Failed, d.turns.Retry = "", 0, time.Time{}
	d.endRefused()
	d.carry()
	if !p.Empty() {
		tellMended(d.log, p.Steps)
		d.log.Info("kernel changed", "steps", len(p.Steps), "took", took.Round(10*time.Microsecond))
		for _, s := range p.Steps {
			d.log.Debug("step", "op", s.Op, "ns", s.NS, "object", s.Object, "name", s.Name, "old", s.Old, "new", s.New, "why", s.Why, "drift", s.Drift)
		}
	}
	if !d.ready {
		d.ready = true
		d.log.Info("the kernel forwards", "took", time.Since(d.started).Round(time.Millisecond))
		d.tell("READY=1")
	}
}

// mostMended is how many objects that were put right are named after one turn: who
// flushes all the rules reads that soon enough.
const mostMended = 10

// tellMended names what others had changed and is put right.
func tellMended(log *slog.Logger, steps []plan.Step) {
	n := 0
	for _, s := range steps {
		if !s.Drift {
			continue
		}
		if n++; n > mostMended {
			continue
		}
		args := []any{"what", strings.TrimSpace(s.Object + " " + s.Name), "namespace", cmp.Or(s.NS, "main"), "why", s.Why}
		if s.Old != "" {
			args = append(args, "found", s.Old)
		}
		if s.New != "" {
			args = append(args, "now", s.New)
		}
		log.Warn("put right", args...)
	}
	if n > mostMended {
		log.Warn("put right more than is named", "objects", n-mostMended)
	}
}
