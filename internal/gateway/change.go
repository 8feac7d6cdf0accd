package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/history"
	"weir/internal/plan"
	"weir/internal/state"
)

// This file is what the API asks of the loop. Each method runs on the caller's
// goroutine, and has the loop do what touches the daemon.

// parse checks what a caller sent.
func parse(src []api.Source) (*config.Config, string, error) {
	fs := files(heard(src))
	cfg, diags := config.Parse(fs...)
	text := diags.Format(fs)
	if diags.HasErrors() {
		return nil, "", wrongFile(text)
	}
	return cfg, text, nil
}

// Plan says what a file would change.
func (d *daemon) Plan(ctx context.Context, c api.Change) (api.Outcome, error) {
	cfg, remarks, err := parse(c.Files)
	if err != nil {
		return api.Outcome{}, err
	}
	var w world
	out, err := call(ctx, d, func() (api.Outcome, error) {
		f, err := d.foresee(ctx, cfg)
		if err != nil {
			return api.Outcome{}, err
		}
		out, err := outcome(f.plan, false)
		w = f.world
		out.Base = d.inForce().ID
		out.Remarks, out.Notes = remarks, slices.Concat(managers(cfg, f.actual), d.dnsNotes(cfg), d.namesNotes())
		ends, endsErr := d.foreseeEnds(cfg, f.world)
		if ends != "" {
			out.Notes = append(out.Notes, ends)
		}
		return out, errors.Join(err, endsErr)
	})
	if err != nil {
		return out, err
	}
	return out, d.checkNames(ctx, cfg, w)
}

// Apply puts a file in force, for good or on trial.
func (d *daemon) Apply(ctx context.Context, c api.Change) (api.Outcome, error) {
	cfg, remarks, err := parse(c.Files)
	if err != nil {
		return api.Outcome{}, err
	}
	if err := d.foreseeNames(ctx, cfg); err != nil {
		return api.Outcome{}, err
	}
	back, err := d.releaseFor(ctx, cfg, c)
	defer d.afterwards(ctx, back, cfg)
	if err != nil {
		return api.Outcome{}, err
	}
	return call(ctx, d, func() (api.Outcome, error) {
		if err := d.held(); err != nil {
			return api.Outcome{}, err
		}
		e := history.Entry{From: c.From, By: history.ByApply, Who: c.Who, Why: c.Why, Since: time.Now(), Files: heard(c.Files)}
		out, err := d.put(ctx, cfg, e, c, back)
		out.Remarks = remarks
		return out, err
	})
}

// Rollback puts a file in force that was before: c.Back changes ago, or where one
// is on trial, what that one took the place of.
func (d *daemon) Rollback(ctx context.Context, c api.Change) (api.Outcome, error) {
	to, err := call(ctx, d, func() (history.Entry, error) { return d.back(c) })
	if err != nil {
		return api.Outcome{}, err
	}
	cfg, remarks, err := parse(said(to.Files))
	if err != nil {
		return api.Outcome{}, err
	}
	back, err := d.releaseFor(ctx, cfg, c)
	defer d.afterwards(ctx, back, cfg)
	if err != nil {
		return api.Outcome{}, err
	}
	return call(ctx, d, func() (api.Outcome, error) {
		e, err := d.back(c)
		if err != nil {
			return api.Outcome{}, err
		}
		if e.ID != to.ID {
			return api.Outcome{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: "somebody else put another file in force just now: `weir history` shows it"}}
		}
		e.By, e.Who, e.Why, e.Since = history.ByRollback, c.Who, c.Why, time.Now()
		out, err := d.put(ctx, cfg, e, c, back)
		out.Remarks = remarks
		return out, err
	})
}

// back is the file that a rollback is to.
func (d *daemon) back(c api.Change) (history.Entry, error) {
	e, ok := d.book.Back(max(c.Back, 1))
	if d.book.Trial != nil {
		if c.Back != 0 {
			return history.Entry{}, d.held()
		}
		next, undone := d.book.Undone(time.Now())
		if ok = undone; ok {
			e, _ = next.Back(0)
		}
	}
	if !ok {
		return history.Entry{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: fmt.Sprintf("there is no file %d before this one: `weir history` shows those that are kept", max(c.Back, 1))}}
	}
	return e, nil
}

// Confirm keeps the file that is on trial. Who comes too late is told so: then the
// file before is in force already.
func (d *daemon) Confirm(ctx context.Context, who string) (api.File, error) {
	came, err := state.Uptime()
	if err != nil {
		return api.File{}, err
	}
	return call(ctx, d, func() (api.File, error) {
		if d.book.Trial != nil && came >= d.book.Trial.Until {
			d.endTrial(time.Now())
		}
		if d.book.Trial == nil {
			return api.File{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: "no file waits to be confirmed: what is in force stays (`weir history`)"}}
		}
		trial := d.book
		if err := d.keepBook(d.book.Confirmed()); err != nil {
			_ = d.keepBook(trial) // a power cut would undo it all the same
			return api.File{}, fmt.Errorf("it is not confirmed, as that can't be stored: %w", err)
		}
		d.news = true
		d.log.Info("the file is confirmed", "file", d.inForce().From, "who", who)
		return d.file(), nil
	})
}

// check is what can be said against cfg before anything is done.
func (d *daemon) check(ctx context.Context, cfg *config.Config, c api.Change) (foreseen, error) {
	if err := d.seenLast(c.Base); err != nil {
		return foreseen{}, err
	}
	f, err := d.foresee(ctx, cfg)
	if err != nil {
		return foreseen{}, err
	}
	if err := errors.Join(refusal(f.plan), cuts(c.Session, c.ConfirmS != 0, "with --confirm 5m it is, and undone after that time unless you come back and say `weir confirm`", f.actual, f.plan)); err != nil {
		return foreseen{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: err.Error(), Plan: f.plan.String()}}
	}
	return f, nil
}

// put carries out the plan of cfg and makes e, whose file that is, the entry in
// force; if that can't be done all stays as it was.
func (d *daemon) put(ctx context.Context, cfg *config.Config, e history.Entry, c api.Change, back released) (api.Outcome, error) {
	start := time.Now()
	trial, err := d.trial(c)
	if err != nil {
		return api.Outcome{}, err
	}
	f, err := d.check(ctx, cfg, c)
	if err != nil {
		return api.Outcome{}, err
	}
	p := f.plan
	regroup := cfg.API.Group != d.cfg.API.Group
	if regroup {
		if err := api.Give(d.o.RuntimeDir, cfg.API.Group, d.log); err != nil {
			return api.Outcome{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: err.Error() + "; the file before stays in force"}}
		}
	}
	if !p.Empty() {
		// A caller that goes away in the middle does not stop half-way.
		if err := d.k.Apply(context.WithoutCancel(ctx), p); err != nil {
			d.wantTurn(0) // what the kernel undid may have met with changes meanwhile
			if regroup {
				err = errors.Join(err, api.Give(d.o.RuntimeDir, d.cfg.API.Group, d.log))
			}
			return api.Outcome{}, &api.Error{Status: http.StatusInternalServerError, Problem: api.Problem{Title: err.Error() + "; the file before stays in force", Plan: p.String()}}
		}
	}
	before := d.world.house
	d.was = cmp.Or(d.was, d.cfg)
	d.cfg, d.world = cfg, f.world
	d.settle(back, true)
	d.notes = slices.Concat(managers(cfg, f.actual), d.dnsNotes(cfg))
	d.news, d.asked = true, false // the search domain may be another
	d.machine.Configure(start, failoverConfig(cfg))
	note, items := d.dropChoice(cfg)
	if note != "" {
		d.notes = append(d.notes, note)
		d.machine.Use(start, "")
	}
	ended := d.endRefused()
	d.turned(start, p, nil)
	d.wantTurn(settleFor) // what appeared with this turn: ports that moved, addresses of the kernel's
	d.log.Info("another file is in force", "file", e.From, "by", e.By, "who", e.Who, "trial_s", c.ConfirmS, "steps", len(p.Steps))
	// The numbers that the house gave out first: an entry in force needs them.
	err = errors.Join(d.store.Put(append(items, d.world.house.since(before)...)...), d.keepBook(d.book.Put(e, trial)))
	if err != nil {
		return api.Outcome{}, fmt.Errorf("the file is in force, but will not survive a restart: %w", err)
	}
	out, err := outcome(p, true)
	out.Notes, out.ConfirmBy = slices.Clone(d.notes), d.confirmBy()
	if ended != "" {
		out.Notes = append(out.Notes, ended)
	}
	return out, err
}

// outcome is p as the API tells it.
func outcome(p plan.Plan, applied bool) (api.Outcome, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return api.Outcome{}, fmt.Errorf("write the plan as JSON: %w", err)
	}
	return api.Outcome{Plan: b, Text: p.String(), Empty: p.Empty(), Applied: applied}, nil
}

// Down takes everything apart and ends the daemon. The LANs' hosts are told first
// that the router goes, and the ISPs' servers that their leases are free.
func (d *daemon) Down(ctx context.Context) error {
	var ra *advertiser
	var back released
	said := false
	_, err := call(ctx, d, func() (struct{}, error) {
		d.log.Info("weir is told to give the machine back")
		d.leaving, ra = true, d.ra
		said = ra.farewell()
		back = d.release(nil)
		return struct{}{}, nil
	})
	if err != nil {
		return err
	}
	if said {
		ra.wait()
	}
	back.wait()
	farewell := func() {
		if ra != nil && d.ra == ra {
			ra.close()
			d.ra = nil
		}
		d.end4(back.four)
		d.end6(back.six, "given back")
	}
	_, err = call(ctx, d, func() (struct{}, error) {
		farewell()
		err := down(context.WithoutCancel(ctx), d.o, d.k)
		d.ended = err == nil
		return struct{}{}, err
	})
	if err != nil {
		d.postSoon(context.WithoutCancel(ctx), func() { // the daemon goes on after all, and starts others
			farewell()
			d.leaving = false
			d.wantTurn(0)
		})
	}
	return err
}
