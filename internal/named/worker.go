package named

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/miekg/dns"

	weirdns "weir/internal/dns"
	"weir/internal/durable"
	"weir/internal/worker"
)

// Worker is named with who looks after it, as a child of the gateway. It takes
// Config messages and sends Report messages. When named ends, it does: the
// parent starts both again, later each time.
var Worker = worker.Kind{Name: "named", Run: run}

// againAfter is when what could not be told to named is tried again.
const againAfter = 2 * time.Second

func run(ctx context.Context, c *worker.Conn, log *slog.Logger) error {
	return worker.Obey(ctx, c, func(ctx context.Context, orders <-chan worker.Order[Config]) error {
		return serve(ctx, newest(ctx, orders), func(r Report) { _ = c.Send(r) }, log) // a failure ends the connection, and with it us
	})
}

// newest hands on the last of the orders that came. Hundreds of names that change
// at once take named longer than a parent waits for a sign of life, and an order
// that nobody takes keeps it from being heard.
func newest(ctx context.Context, orders <-chan worker.Order[Config]) <-chan worker.Order[Config] {
	out := make(chan worker.Order[Config])
	go func() { // ends with ctx
		var last worker.Order[Config]
		var to chan<- worker.Order[Config] // nil: it has been taken
		for {
			select {
			case <-ctx.Done():
				worker.Message{Files: last.Files}.Close()
				return
			case o := <-orders:
				worker.Message{Files: last.Files}.Close()
				last, to = o, out
			case to <- last:
				last, to = worker.Order[Config]{}, nil
			}
		}
	}()
	return out
}

// serve runs named by the configurations that come.
func serve(ctx context.Context, orders <-chan worker.Order[Config], report func(Report), log *slog.Logger) error {
	var s *server
	defer func() {
		if s != nil {
			s.End()
		}
	}()
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	var c Config
	var gone chan struct{}
	var suspects chan Forwarder
	w := newWatch()
	look := time.NewTicker(silentAgain)
	defer look.Stop()
	all := time.NewTimer(allAgain)
	defer all.Stop()
	var last Report
	asked := weirdns.NewRecorder(func(b []weirdns.Asked) { report(Report{Asked: b}) })
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-gone:
			return s.Err()
		case o := <-orders:
			worker.Message{Files: o.Files}.Close()
			c = o.Value
		case <-again.C:
		case f := <-suspects:
			w.ask(ctx, f)
			continue
		case <-look.C:
			w.askAgain(ctx)
			continue
		case <-all.C:
			w.askAll(ctx)
			all.Reset(allAgain)
			continue
		case h := <-w.heard:
			if w.take(h, log) {
				last.Silent = w.silent
				report(last)
			}
			continue
		}
		if s != nil && s.tells != c.Log {
			if err := s.record(ctx, c); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				log.Warn("named is started anew, to turn the log of questions on or off", "err", err)
				s.End()
				s = nil
			}
		}
		asked.Record(c.Log)
		if s == nil {
			var err error
			if s, err = open(ctx, c, asked, log); err != nil {
				return err
			}
			gone, suspects = s.Exited, s.suspects
		}
		s.forwards(c)
		if w.keep(forwarders(c)) {
			all.Reset(othersAsked)
		}
		notes, err := s.take(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		last = Report{Ready: true, PID: s.PID, Notes: notes, Silent: w.silent}
		if again.Stop(); err != nil {
			log.Error("not all of the names is as it should be", "err", err, "again_in", againAfter)
			last.Err = err.Error()
			again.Reset(againAfter)
		}
		report(last)
	}
}

// server is a running named and what is known of its zones.
type server struct {
	*process
	log    *slog.Logger
	tells  bool // of questions
	client client
	zones  []*zone
	told   told
	synced map[string]bool // zones that hold what they should, but for leases
	behind bool            // named has not taken in the files that are there
	leases leases
	notes  []string // logged already

	believed []string // domains whose names may point into the house, of what it knows
}

// open starts named on a configuration and waits until it answers. It answers by
// the zones as they were; take brings them up to date.
func open(ctx context.Context, c Config, asked *weirdns.Recorder, log *slog.Logger) (*server, error) {
	w, err := write(c, time.Now())
	if err != nil {
		return nil, err
	}
	for _, d := range w.damage {
		log.Error("a key is another one now", "why", d)
	}
	if err := checkConf(ctx, c.Program, filepath.Join(c.Dir, confFile)); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// It may be a zone that a power cut damaged: each is looked at once named runs.
		log.Warn("named is started nevertheless", "err", err)
	}
	p, err := start(c, asked, log)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx); err != nil {
		p.End()
		return nil, err
	}
	s := &server{process: p, log: log, tells: c.Log, believed: believed(c), zones: w.zones, synced: map[string]bool{}}
	s.leases = leases{names: map[string]held{}, reverse: map[string]string{}}
	s.client = client{addr: "127.0.0.1:53", key: w.keys[ownKey]}
	if s.told, err = readTold(c.Dir); err != nil {
		log.Error("what was put into the zones is not known any more", "err", err)
	}
	return s, nil
}

// take brings named and its zones to a configuration. notes are what is to be
// known and is no failure.
func (s *server) take(ctx context.Context, c Config) (notes []string, err error) {
	text, err := Conf(c)
	if err != nil {
		return nil, err
	}
	if old, rerr := os.ReadFile(filepath.Join(c.Dir, confFile)); rerr != nil || string(old) != text {
		if err := CheckConf(ctx, c); err != nil {
			return nil, err // the files stay those that named runs by
		}
	}
	w, err := write(c, time.Now())
	if err != nil {
		return nil, err
	}
	for _, d := range w.damage {
		s.log.Error("a key is another one now", "why", d)
	}
	for _, n := range w.notes {
		if !slices.Contains(s.notes, n) {
			s.log.Error("nobody can update zones with a key", "why", n)
		}
	}
	// What it did not take is tried again: the files don't differ the next time.
	if s.behind = s.behind || w.changed; s.behind {
		if err := s.reload(ctx); err != nil {
			return nil, err
		}
		s.behind = false
		s.log.Info("named has another configuration")
	}
	err = s.forget(ctx, c)
	for _, z := range w.zones {
		i := slices.IndexFunc(s.zones, func(o *zone) bool { return o.name == z.name })
		if i < 0 || !slices.Equal(lines(s.zones[i].rrs), lines(z.rrs)) || s.zones[i].soa != z.soa || w.changed {
			s.synced[z.name] = false
		}
	}
	s.zones, s.client.key = w.zones, w.keys[ownKey]
	for _, z := range s.zones {
		if !s.synced[z.name] {
			err = errors.Join(err, s.syncZone(ctx, c, z))
		}
	}
	notes, lerr := s.leases.sync(ctx, s.client, c, s.zones)
	for _, n := range notes {
		if !slices.Contains(s.notes, n) {
			s.log.Warn("a device gets no name", "why", n)
		}
	}
	s.notes = append(w.notes, notes...)
	return s.notes, errors.Join(err, lerr)
}

// syncZone makes a zone hold what the configuration puts in. What is to be put in
// is noted before it is: after a kill between the two nothing stays that nobody
// knows to be ours.
func (s *server) syncZone(ctx context.Context, c Config, z *zone) error {
	holds, err := s.client.transfer(z.name)
	if err != nil {
		holds, err = s.mend(ctx, c, z, err)
		if err != nil {
			return err
		}
	}
	s.leases.learn(z.name, holds)
	before, now := s.told[z.name], lines(z.rrs)
	router := absolute(c.Gateway + "." + c.Domain)
	if change := z.difference(holds, before, router); !change.empty() {
		both := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(before), now...))))
		if err := s.note(c, z, both); err != nil {
			return err
		}
		if err := s.client.make(ctx, z.name, change); err != nil {
			return err
		}
	}
	if err := s.note(c, z, now); err != nil {
		return err
	}
	s.synced[z.name] = true
	return nil
}

func (s *server) note(c Config, z *zone, put []string) error {
	if slices.Equal(s.told[z.name], put) {
		return nil
	}
	before := s.told[z.name]
	s.told[z.name] = put
	if err := s.told.write(c.Dir); err != nil {
		s.told[z.name] = before // it is not there, so the next try has to write it
		return err
	}
	return nil
}

// mend begins a zone anew that named can't load, as a disk may leave it after a
// power cut: what others had put in is lost, the house has its names.
func (s *server) mend(ctx context.Context, c Config, z *zone, why error) ([]dns.RR, error) {
	path := filepath.Join(c.Dir, workDir, zoneFile(z.name))
	loadErr := checkZone(ctx, c.Program, z.name, path)
	if loadErr == nil {
		return nil, why // the zone is sound: it was something else, and is tried again
	}
	bad, aerr := durable.Machine.Aside(path)
	s.log.Error("a zone can't be loaded and is made anew; what others put in with keys is lost", "zone", z.name, "err", errors.Join(loadErr, aerr), "kept_as", bad)
	if err := z.begin(c, path, time.Now()); err != nil {
		return nil, err
	}
	s.behind = true
	if err := s.reload(ctx); err != nil {
		return nil, err
	}
	s.behind = false
	return s.client.transfer(z.name)
}
