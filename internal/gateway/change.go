package gateway

import (
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
		return out, err
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
	return call(ctx, d, func() (api.Outcome, error) {
		if err := d.held(); err != nil {
			return api.Outcome{}, err
		}
		e := history.Entry{From: c.From, By: history.ByApply, Who: c.Who, Why: c.Why, Since: time.Now(), Files: heard(c.Files)}
		out, err := d.put(ctx, cfg, e, c)
		out.Remarks = remarks
		return out, err
	})
}

// Rollback puts a file in force that was before: c.Back changes ago, or where one
// is on trial, what that one took the place of.
func (d *daemon) Rollback(ctx context.Context, c api.Change) (api.Outcome, error) {
	return call(ctx, d, func() (api.Outcome, error) {
		e, ok := d.book.Back(max(c.Back, 1))
		if d.book.Trial != nil {
			if c.Back != 0 {
				return api.Outcome{}, d.held()
			}
			next, undone := d.book.Undone(time.Now())
			if ok = undone; ok {
				e, _ = next.Back(0)
			}
		}
		if !ok {
			return api.Outcome{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: fmt.Sprintf("there is no file %d before this one: `weir history` shows those that are kept", max(c.Back, 1))}}
		}
		cfg, remarks, err := parse(said(e.Files))
		if err != nil {
			return api.Outcome{}, err
		}
		e.By, e.Who, e.Why, e.Since = history.ByRollback, c.Who, c.Why, time.Now()
		out, err := d.put(ctx, cfg, e, c)
		out.Remarks = remarks
		return out, err
	})
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

// put carries out the plan of cfg and makes e, whose file that is, the entry in
// force; if that can't be done all stays as it was.
func (d *daemon) put(ctx context.Context, cfg *config.Config, e history.Entry, c api.Change) (api.Outcome, error) {
	start := time.Now()
	if err := d.seenLast(c.Base); err != nil {
		return api.Outcome{}, err
	}
	trial, err := d.trial(c)
	if err != nil {
		return api.Outcome{}, err
	}
	f, err := d.foresee(ctx, cfg)
	if err != nil {
		return api.Outcome{}, err
	}
	p := f.plan
	if err := errors.Join(refusal(p), cuts(c.Session, trial != nil, "with --confirm 5m it is, and undone after that time unless you come back and say `weir confirm`", f.actual, p)); err != nil {
		return api.Outcome{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: err.Error(), Plan: p.String()}}
	}
	regroup := cfg.API.Group != d.cfg.API.Group
	if regroup {
		if err := api.Give(d.o.RuntimeDir, cfg.API.Group, d.log); err != nil {
			return api.Outcome{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: err.Error() + "; the file before stays in force"}}
		}
	}
	var back released
	if trial == nil { // what is undone again needs its leases
		back = d.release(cfg)
	}
	if !p.Empty() {
		// A caller that goes away in the middle does not stop half-way.
		if err := d.k.Apply(context.WithoutCancel(ctx), p); err != nil {
			d.end4(back.four)
			d.end6(back.six, "it was given back for a file that could not be put in force")
			d.wantTurn(0) // what the kernel undid may have met with changes meanwhile
			if regroup {
				err = errors.Join(err, api.Give(d.o.RuntimeDir, d.cfg.API.Group, d.log))
			}
			return api.Outcome{}, &api.Error{Status: http.StatusInternalServerError, Problem: api.Problem{Title: err.Error() + "; the file before stays in force", Plan: p.String()}}
		}
	}
	before := d.world.house
	d.cfg, d.world = cfg, f.world
	d.end4(back.four)
	d.notes = slices.Concat(managers(cfg, f.actual), d.dnsNotes(cfg))
	d.news, d.asked = true, false // the search domain may be another
	d.machine.Configure(start, failoverConfig(cfg))
	note, items := d.dropChoice(cfg)
	if note != "" {
		d.notes = append(d.notes, note)
		d.machine.Use(start, "")
	}
	d.turned(start, p, nil)
	d.wantTurn(settleFor) // what appeared with this turn: ports that moved, addresses of the kernel's
	d.log.Info("another file is in force", "file", e.From, "by", e.By, "who", e.Who, "trial_s", c.ConfirmS, "steps", len(p.Steps))
	// The numbers that the house gave out first: an entry in force needs them.
	err = errors.Join(d.store.Put(append(items, d.world.house.since(before)...)...), d.keepBook(d.book.Put(e, trial)))
	if err != nil {
		return api.Outcome{}, fmt.Errorf("the file is in force, but will not survive a restart: %w", err)
	}
	out, err := outcome(p, true)
	out.Notes, out.ConfirmBy = d.notes, d.confirmBy()
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
// that the router goes.
func (d *daemon) Down(ctx context.Context) error {
	_, err := call(ctx, d, func() (struct{}, error) {
		d.log.Info("weir is told to give the machine back")
		d.farewell()
		back := d.release(nil)
		d.end4(back.four)
		d.end6(back.six, "given back")
		if err := down(context.WithoutCancel(ctx), d.o, d.k); err != nil {
			d.wantTurn(0)
			return struct{}{}, err
		}
		d.ended = true
		return struct{}{}, nil
	})
	return err
}
