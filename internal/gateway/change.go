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
	"weir/internal/plan"
)

// This file is what the API asks of the loop. Each method runs on the caller's
// goroutine, and has the loop do what touches the daemon.

// parse checks what a caller sent.
func parse(src []api.Source) (*config.Config, string, error) {
	fs := files(src)
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
		out.Remarks, out.Notes = remarks, slices.Concat(managers(cfg, f.actual), d.dnsNotes(cfg))
		return out, err
	})
	if err != nil {
		return out, err
	}
	return out, d.checkNames(ctx, cfg, w)
}

// Apply puts a file in force.
func (d *daemon) Apply(ctx context.Context, c api.Change) (api.Outcome, error) {
	cfg, remarks, err := parse(c.Files)
	if err != nil {
		return api.Outcome{}, err
	}
	if err := d.foreseeNames(ctx, cfg); err != nil {
		return api.Outcome{}, err
	}
	return call(ctx, d, func() (api.Outcome, error) {
		out, err := d.put(ctx, cfg, version{From: c.From, By: "apply", Since: time.Now(), Files: c.Files}, c)
		out.Remarks = remarks
		return out, err
	})
}

// Rollback puts the file in force that was before.
func (d *daemon) Rollback(ctx context.Context, c api.Change) (api.Outcome, error) {
	return call(ctx, d, func() (api.Outcome, error) {
		v := d.force.Previous
		if len(v.Files) == 0 {
			return api.Outcome{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: "there is no file before this one"}}
		}
		cfg, remarks, err := parse(v.Files)
		if err != nil {
			return api.Outcome{}, err
		}
		v.By, v.Since = "rollback", time.Now()
		out, err := d.put(ctx, cfg, v, c)
		out.Remarks = remarks
		return out, err
	})
}

// put carries out the plan of cfg and makes it the file in force; if that can't
// be done all stays as it was.
func (d *daemon) put(ctx context.Context, cfg *config.Config, v version, c api.Change) (api.Outcome, error) {
	start := time.Now()
	f, err := d.foresee(ctx, cfg)
	if err != nil {
		return api.Outcome{}, err
	}
	p := f.plan
	if err := errors.Join(refusal(p), cuts(c.Session, c.CutMeOff, f.actual, p)); err != nil {
		return api.Outcome{}, &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: err.Error(), Plan: p.String()}}
	}
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
	d.cfg, d.force, d.world = cfg, d.force.put(v), f.world
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
	d.log.Info("another file is in force", "file", v.From, "by", v.By, "steps", len(p.Steps))
	err = errors.Join(d.keep(forceFile, d.force), d.store.Put(append(items, d.world.house.since(before)...)...))
	if err != nil {
		return api.Outcome{}, fmt.Errorf("the file is in force, but will not survive a restart: %w", err)
	}
	out, err := outcome(p, true)
	out.Notes = d.notes
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
		d.release6()
		if err := down(context.WithoutCancel(ctx), d.o, d.k); err != nil {
			d.wantTurn(0)
			return struct{}{}, err
		}
		d.ended = true
		return struct{}{}, nil
	})
	return err
}
