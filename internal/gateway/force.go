package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/history"
	"weir/internal/state"
)

// historyDir is where the files that were in force are kept, in the state directory.
const historyDir = "history"

func (d *daemon) folder() history.Folder {
	return history.Folder{Path: filepath.Join(d.o.StateDir, historyDir)}
}

// inForce is the entry in force.
func (d *daemon) inForce() history.Entry {
	e, _ := d.book.Back(0)
	return e
}

// chooseFile puts the right file in force for a start: see history.Book.Start.
func (d *daemon) chooseFile(k state.Force, clock state.Clock) error {
	book, damage := d.folder().Load(k)
	for _, what := range damage {
		d.log.Error("stored state is damaged", "what", what)
		d.notes = append(d.notes, what)
	}
	d.book, d.saved = book, book
	run := history.Entry{From: d.o.From, By: history.ByRun, Since: d.started, Files: sources(d.o.Files)}
	next, why := book.Start(run, clock)
	now, _ := next.Back(0)
	cfg, diags := config.Parse(files(now.Files)...)
	if diags.HasErrors() {
		text := diags.Format(files(now.Files))
		old, ok := book.InForce()
		var before *config.Config
		if ok {
			before, _ = config.Parse(files(old.Files)...)
		}
		if before == nil {
			return wrongFile(text)
		}
		// A slip in the file, found at a reboot, must not cost the house its
		// network: what worked yesterday goes on.
		d.log.Error("the file is wrong: what was in force before stays", "file", d.o.From, "in_force", old.From, "since", old.Since, "mistakes", text)
		d.notes = append(d.notes, "at the start "+d.o.From+" was wrong (`weir check` says how): what was in force before stays")
		d.cfg = before
		d.armTrial()
		return nil
	}
	if why != "" {
		d.log.Info("which file is in force", "file", now.From, "by", now.By, "why", why)
	}
	if now.By == history.ByItself || now.By == history.ByLastKnown {
		d.notes = append(d.notes, why)
	}
	if old, ok := book.InForce(); ok && !slices.EqualFunc(old.Files, now.Files, func(a, b history.File) bool { return a == b }) {
		// It may have been changed while flows went on.
		d.was, _ = config.Parse(files(old.Files)...)
	}
	d.cfg = cfg
	if err := d.keepBook(next); err != nil {
		d.unkept("which file is in force", err)
	}
	return nil
}

// armTrial has the loop wake when the file in force was to be confirmed by then.
func (d *daemon) armTrial() {
	d.trialEnds = time.Time{}
	if d.book.Trial == nil {
		return
	}
	clock, err := state.ReadClock()
	if err != nil {
		d.log.Error("how long the file is on trial yet is not known: it is taken back", "err", err)
	}
	d.trialEnds = time.Now().Add(max(d.book.Trial.Left(clock), time.Nanosecond))
}

// judgeTrial ends the trial when its time is over. That counts in boot time, which goes
// on while the machine sleeps: the loop's own clock does not.
func (d *daemon) judgeTrial(now time.Time) {
	if d.book.Trial == nil {
		return
	}
	up, err := state.Uptime()
	if over := err == nil && d.book.Trial.Until <= up; over || err != nil && !d.trialEnds.After(now) {
		d.endTrial(now)
	}
}

// endTrial takes the file back that nobody confirmed in time. The kernel follows
// with the next turn, which is tried until it is done.
func (d *daemon) endTrial(now time.Time) {
	tried := d.inForce()
	next, ok := d.book.Undone(now)
	if ok {
		before, _ := next.Back(0)
		cfg, diags := config.Parse(files(before.Files)...)
		if ok = !diags.HasErrors(); ok {
			d.log.Warn("nobody confirmed the file: the one before is in force again", "file", tried.From, "who", tried.Who, "in_force", before.From)
			d.take(now, cfg)
			d.notes = append(d.notes, fmt.Sprintf("%s (%s) was not confirmed in time: the file before is in force again", tried.From, tried.Who))
		}
	}
	if !ok {
		d.log.Error("nobody confirmed the file, and the one before can't be read: it stays", "file", tried.From)
		d.notes = append(d.notes, tried.From+" was not confirmed in time, but the file before it can't be read any more: it stays")
		next = d.book.Confirmed()
	}
	if err := d.keepBook(next); err != nil {
		d.unkept("which file is in force", err)
	}
	d.news = true
	d.wantTurn(0)
}

// take has cfg be what the next turns make of the kernel.
func (d *daemon) take(now time.Time, cfg *config.Config) {
	if cfg.API.Group != d.cfg.API.Group {
		if err := api.Give(d.o.RuntimeDir, cfg.API.Group, d.log); err != nil {
			d.log.Error("the API's socket stays with its group", "err", err)
		}
	}
	d.was = cmp.Or(d.was, d.cfg)
	d.cfg, d.notes = cfg, nil
	d.asked = false // the search domain may be another
	if err := d.settleHouse(); err != nil {
		d.log.Error("the house lacks what the file needs", "err", err)
	}
	d.machine.Configure(now, failoverConfig(cfg))
	note, items := d.dropChoice(cfg)
	if note != "" {
		d.notes = append(d.notes, note)
		d.machine.Use(now, "")
	}
	if err := d.store.Put(items...); err != nil {
		d.unkept("that nobody chooses a line any more", err)
	}
}

// held is the error of a change while another one waits to be confirmed.
func (d *daemon) held() error {
	if d.book.Trial == nil {
		return nil
	}
	e := d.inForce()
	return &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: fmt.Sprintf(
		"%s put %s in force at %s, on trial until %s: `weir confirm` keeps it, `weir rollback` takes it back, and only then comes another change",
		e.Who, e.From, e.Since.Local().Format(time.TimeOnly), d.confirmBy().Local().Format(time.TimeOnly))}}
}

// seenLast is the error of a change by somebody who saw another file in force
// than the one that is now; base is the number of that one, 0 if they don't say.
func (d *daemon) seenLast(base uint64) error {
	e := d.inForce()
	if base == 0 || base == e.ID {
		return nil
	}
	return &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: fmt.Sprintf(
		"%s put %s in force meanwhile, at %s: look at the plan again", orSomebody(e.Who), e.From, e.Since.Local().Format(time.TimeOnly))}}
}

func orSomebody(who string) string {
	if who == "" {
		return "somebody"
	}
	return who
}

// trial is how long a change is on trial; nil: it is there to stay.
func (d *daemon) trial(c api.Change) (*state.Trial, error) {
	if c.ConfirmS == 0 {
		return nil, nil
	}
	clock, err := state.ReadClock()
	if err != nil {
		return nil, errors.Join(errors.New("a trial can't be timed here"), err)
	}
	return &state.Trial{Before: d.inForce().ID, Boot: clock.Boot, Until: clock.Up + time.Duration(c.ConfirmS*float64(time.Second))}, nil
}

func files(fs []history.File) []config.File {
	out := make([]config.File, len(fs))
	for i, f := range fs {
		out[i] = config.File{Name: f.Name, Src: []byte(f.Text), Dir: f.Dir}
	}
	return out
}

func sources(fs []config.File) []history.File {
	out := make([]history.File, len(fs))
	for i, f := range fs {
		out[i] = history.File{Name: f.Name, Text: string(f.Src), Dir: f.Dir}
	}
	return out
}

// said is files as the API has them, and heard the way back.
func said(fs []history.File) []api.Source {
	out := make([]api.Source, len(fs))
	for i, f := range fs {
		out[i] = api.Source(f)
	}
	return out
}

func heard(src []api.Source) []history.File {
	out := make([]history.File, len(src))
	for i, s := range src {
		out[i] = history.File(s)
	}
	return out
}

// file is the file in force as the API tells it.
func (d *daemon) file() api.File {
	f := file(d.inForce())
	f.ConfirmBy = d.confirmBy()
	return f
}

func file(e history.Entry) api.File {
	f := api.File{From: e.From, By: e.By, Who: e.Who, Why: e.Why, Since: e.Since}
	for _, s := range e.Files {
		f.Names = append(f.Names, s.Name)
	}
	return f
}

// confirmBy is when the trial ends, by the wall clock; zero: none is on.
// However the clock was set since, it is as far from now as the end is.
func (d *daemon) confirmBy() time.Time {
	if d.trialEnds.IsZero() {
		return time.Time{}
	}
	return time.Now().Round(0).Add(time.Until(d.trialEnds)).Round(time.Second)
}

// History asks the loop which files were in force.
func (d *daemon) History(ctx context.Context) ([]api.Past, error) {
	return call(ctx, d, func() ([]api.Past, error) {
		past := pasts(d.book)
		past[0].File = d.file()
		return past, nil
	})
}

// pasts are the entries of a book, the newest first.
func pasts(b history.Book) []api.Past {
	out := []api.Past{}
	for _, e := range slices.Backward(b.Entries) {
		p := api.Past{File: file(e), Back: len(out)}
		for _, f := range e.Files {
			p.Bytes += len(f.Text)
		}
		out = append(out, p)
	}
	return out
}

// InForce asks the loop for the files that were in force back changes ago.
func (d *daemon) InForce(ctx context.Context, back int) ([]api.Source, error) {
	return call(ctx, d, func() ([]api.Source, error) { return wasInForce(d.book, back) })
}

func wasInForce(b history.Book, back int) ([]api.Source, error) {
	e, ok := b.Back(back)
	if !ok {
		return nil, &api.Error{Status: http.StatusNotFound, Problem: api.Problem{Title: fmt.Sprintf("there is no file %d: `weir history` shows those that are kept, 0 is in force", back)}}
	}
	return said(e.Files), nil
}

// Past is what a state directory says of the files that were in force, for where no
// daemon runs. It changes nothing.
type Past struct{ book history.Book }

// ReadPast reads it. damage tells what could not be read.
func ReadPast(stateDir string) (p Past, damage []string, err error) {
	k, _, err := state.Read(stateDir)
	if err != nil {
		return p, nil, err
	}
	p.book, damage = history.Folder{Path: filepath.Join(stateDir, historyDir)}.Look(k.Force)
	return p, damage, nil
}

// History is the files that were in force, the newest first. What is on trial says
// when it ends, if that is yet to come.
func (p Past) History() []api.Past {
	out := pasts(p.book)
	clock, err := state.ReadClock()
	if p.book.Trial != nil && err == nil && len(out) > 0 {
		if left := p.book.Trial.Left(clock); left > 0 {
			out[0].ConfirmBy = clock.Wall.Add(left).Round(time.Second)
		}
	}
	return out
}

// InForce is the files that were in force back changes ago.
func (p Past) InForce(back int) ([]api.Source, error) { return wasInForce(p.book, back) }
