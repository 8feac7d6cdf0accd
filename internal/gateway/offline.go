package gateway

import (
	"context"
	"errors"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/failover"
	"weir/internal/kernel"
	"weir/internal/state"
)

// Plan says what c would change, where no daemon runs: from the kernel and what
// is stored. Nothing is changed, neither of the two.
func Plan(ctx context.Context, o Options, c *config.Config) (_ api.Outcome, err error) {
	d := newDaemon(o)
	stored, _, err := state.Read(o.StateDir)
	if err != nil {
		return api.Outcome{}, err
	}
	d.restore(stored)
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
	out.Notes = managers(c, f.actual)
	return out, err
}

// Down takes apart what weir made, where no daemon runs.
func Down(ctx context.Context, o Options) (err error) {
	k, err := kernel.Open(kernel.Options{StateDir: o.StateDir, RuntimeDir: o.RuntimeDir, Log: o.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return down(ctx, o, k)
}

// down gives the kernel and the resolver back.
func down(ctx context.Context, o Options, k *kernel.Kernel) error {
	return errors.Join(k.Down(ctx), giveNames(o.StateDir))
}
