package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/failover"
	"weir/internal/kernel"
	"weir/internal/state"
)

// Plan says what c would change, where no daemon runs: from the kernel and what
// is stored. Nothing is changed, neither of the two.
func Plan(ctx context.Context, o Options, c *config.Config) (_ api.Outcome, err error) {
	if err := kernel.Allowed(); err != nil {
		return api.Outcome{}, err
	}
	d := newDaemon(o)
	stored, _, err := state.Read(o.StateDir)
	if err != nil {
		return api.Outcome{}, err
	}
	d.restore(stored, d.clock())
	d.machine = failover.New(failoverConfig(c), d.started)
	k, err := kernel.Open(kernel.Options{StateDir: o.StateDir, RuntimeDir: o.RuntimeDir, Log: o.Log})
	if err != nil {
		return api.Outcome{}, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	d.k = k
	d.world.machine = k.Machine()
	f, err := d.foresee(ctx, c)
	if err != nil {
		return api.Outcome{}, err
	}
	out, err := outcome(f.plan, false)
	if err != nil {
		return out, err
	}
	out.Notes = slices.Concat(managers(c, f.actual), d.dnsNotes(c), d.timeNotes())
	return out, d.checkNames(ctx, c, f.world)
}

// Down takes apart what weir made, where no daemon runs. One that runs and can't
// be asked (its socket is gone) would make all of it anew meanwhile: the lock on
// the state directory shows it.
func Down(ctx context.Context, o Options) (err error) {
	if err := kernel.Allowed(); err != nil {
		return err
	}
	lock, err := state.Lock(o.StateDir)
	switch {
	case err == nil:
		defer lock.Close()
	case errors.Is(err, state.ErrInUse):
		return fmt.Errorf("%w, and does not answer in %s: name its --runtime-dir, or end it (SIGTERM) and try again", err, o.RuntimeDir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	k, err := kernel.Open(kernel.Options{StateDir: o.StateDir, RuntimeDir: o.RuntimeDir, Log: o.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return down(ctx, o, k)
}

// down gives the kernel and the resolver back.
func down(ctx context.Context, o Options, k *kernel.Kernel) error {
	return errors.Join(k.Down(ctx), giveNames(o.StateDir, o.Log))
}
