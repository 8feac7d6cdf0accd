// Package gateway is the running weir: the loop that keeps the kernel as the file
// wants it, and the life of the services.
//
//	            lease, verdict, carrier, router advertisement, new file, somebody's meddling
//	                                     |
//	world --state--> desired.Build --> plan.Diff <-- kernel.Read
//	                                     |
//	                                kernel.Apply, and the services' configuration
//
// One goroutine, the loop, owns all that is known; everybody else posts it a
// function to run. After those that wait have run, one turn takes in all of
// them. A turn that fails leaves the kernel as it was, is told in the status,
// and is tried again.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/kernel"
	"weir/internal/state"
)

// Options is what a gateway is started with. Log is required.
type Options struct {
	From       string        // the path of the file, as the user wrote it
	Files      []config.File // its text
	StateDir   string        // what is kept for good
	RuntimeDir string        // what is kept until the machine goes down
	Version    string        // for the status
	Session    *api.Session  // the ssh connection that the caller types in; nil is none
	CutMeOff   bool          // cut it if the file wants it
	Log        *slog.Logger

	SetClock func(time.Time) error // sets the machine's clock; nil: it is not weir's to set
}

// Run is the gateway until ctx ends, which leaves the kernel forwarding as it is,
// or until it is told to take everything down. The error is an *api.Error with
// diagnostics if the file is wrong and nothing else is known to put in force.
func Run(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	l, err := api.Listen(o.RuntimeDir, d.cfg.API.Group, o.Log)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:     api.Handler(d),
		ConnContext: api.Peer,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	listen := func() (net.Listener, error) { // for the group of the file in force then
		group, err := call(ctx, d, func() (string, error) { return d.cfg.API.Group, nil })
		if err != nil {
			return nil, err
		}
		return api.Listen(o.RuntimeDir, group, o.Log)
	}
	go keepServing(ctx, srv, filepath.Join(o.RuntimeDir, api.SocketName), listen, lookEvery, o.Log)
	err = d.loop(ctx)
	// Answers under way are still given; watchers end with ctx.
	cancel()
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	if serr := srv.Shutdown(end); serr != nil {
		_ = srv.Close()
	}
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve the API: %w", serr))
	}
	_ = os.Remove(filepath.Join(o.RuntimeDir, api.SocketName)) // a dead one does no harm
	return err
}

// keepServing makes the socket at path again when it was removed under the
// daemon, as somebody does who tidies /run. It returns when ctx ends.
func keepServing(ctx context.Context, srv *http.Server, path string, listen func() (net.Listener, error), every time.Duration, log *slog.Logger) {
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		l, err := listen()
		if err != nil {
			log.Error("the API's socket is gone, and can't be made again", "path", path, "err", err, "again_in", every)
			continue
		}
		log.Warn("the API's socket was gone, and is made again", "path", path)
		go func() { _ = srv.Serve(l) }() // ends with the server, which closes all its listeners
	}
}

// open reads what is stored, decides which file is in force, and opens the kernel.
func open(o Options) (_ *daemon, err error) {
	if err := kernel.Allowed(); err != nil {
		if _, diags := config.Parse(o.Files...); diags.HasErrors() {
			return nil, wrongFile(diags.Format(o.Files))
		}
		return nil, err
	}
	// Before anything starts: leases, certificates and signatures are judged by it.
	note, cerr := floorClock(o.StateDir, BuiltAt(), time.Now(), o.SetClock)
	if cerr != nil {
		o.Log.Error("the clock may be wrong", "err", cerr)
	}
	d := newDaemon(o)
	if note != "" {
		d.log.Warn(note)
		d.notes = append(d.notes, "time: "+note)
	}
	if d.store, err = state.Open(o.StateDir); err != nil {
		return nil, fmt.Errorf("%w; --state-dir names another", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	for _, what := range d.store.Damage() {
		o.Log.Error("stored state is damaged", "what", what)
	}
	k, clock := d.store.Kept(), d.clock()
	d.restore(k, clock)
	if err := d.chooseFile(k.Force, clock); err != nil {
		return nil, err
	}
	note, forget := d.dropChoice(d.cfg)
	if err := d.store.Put(forget...); err != nil {
		d.unkept("that nobody chooses a line any more", err)
	}
	if note != "" {
		d.notes = append(d.notes, note)
	}
	d.k, err = kernel.Open(kernel.Options{StateDir: o.StateDir, RuntimeDir: o.RuntimeDir, Log: o.Log, FlowsEnded: d.tellFlows,
		Progress: func() { d.watchdog.progress(time.Now()) }})
	if err != nil {
		return nil, err
	}
	d.world.machine = d.k.Machine()
	return d, nil
}

// clock is the time at which what is stored is judged.
func (d *daemon) clock() state.Clock {
	clock, err := state.ReadClock()
	if err != nil {
		d.log.Error("what is stored is judged by the wall clock alone", "err", err)
		clock.Wall = d.started
	}
	return clock
}

// restore takes in what is stored. What can't be read is lost, and the house goes
// on without.
func (d *daemon) restore(k state.Kept, clock state.Clock) {
	d.world.house = house{ULA: k.ULA, Index: k.Index, LANs: k.LANs, DUID: k.DUID}
	d.chosen = k.Choice
	d.world.wans = map[string]wan{}
	for name, l := range k.WANs {
		if l.Holds(clock) {
			d.world.wans[name] = wan{lease: &l}
		} else {
			d.world.wans[name] = wan{last: &l}
		}
	}
	d.restore6(k)
	for _, l := range k.Leases {
		d.leases[keyOf(l)] = l
	}
}

// What is kept in the state directory beside the store.
const (
	resolvFile = "resolv.json" // what /etc/resolv.conf was
)

func wrongFile(mistakes string) error {
	return &api.Error{Status: http.StatusUnprocessableEntity, Problem: api.Problem{Title: "the file is wrong", Diagnostics: mistakes}}
}

// unkept logs what is not stored. Where that is for want of room it is tried again,
// and the status says so: see unstored.
func (d *daemon) unkept(what string, err error) {
	d.log.Error("something is not stored, and would not survive a restart", "what", what, "err", err)
}
