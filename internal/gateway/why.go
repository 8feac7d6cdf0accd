package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/failover"
	"weir/internal/kernel"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// Why explains what becomes of a connection now.
func (d *daemon) Why(ctx context.Context, from, to, protocol string) (api.Why, error) {
	clock, err := state.ReadClock()
	if err != nil {
		return api.Why{}, err
	}
	return call(ctx, d, func() (api.Why, error) {
		leases, _ := held(d.leases, d.cfg, clock)
		return explain(d.cfg, d.world, d.machine.Status(), ruleset.Ask{From: from, To: to, Protocol: protocol, Leases: known(leases)})
	})
}

// Why explains what would become of a connection with c in force, where no daemon
// is asked: by the kernel and what is stored. Nothing is changed.
func Why(ctx context.Context, o Options, c *config.Config, from, to, protocol string) (_ api.Why, err error) {
	if err := kernel.Allowed(); err != nil {
		return api.Why{}, err
	}
	d := newDaemon(o)
	stored, _, err := state.Read(o.StateDir)
	if err != nil {
		return api.Why{}, err
	}
	d.restore(stored, d.clock())
	d.machine = failover.New(failoverConfig(c), d.started)
	k, err := kernel.Open(kernel.Options{StateDir: o.StateDir, RuntimeDir: o.RuntimeDir, Log: o.Log})
	if err != nil {
		return api.Why{}, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	d.k = k
	d.world.machine = k.Machine()
	f, err := d.foresee(ctx, c)
	if err != nil {
		return api.Why{}, err
	}
	return explain(c, f.world, failover.Status{}, ruleset.Ask{From: from, To: to, Protocol: protocol})
}

// known are leases as questions may name them.
func known(leases []state.Lease) []ruleset.Known {
	out := make([]ruleset.Known, len(leases))
	for i, l := range leases {
		out[i] = ruleset.Known{Addr: l.Addr, MAC: l.MAC, Name: l.Hostname, LAN: l.LAN}
	}
	return out
}

func explain(c *config.Config, w world, v failover.Status, a ruleset.Ask) (api.Why, error) {
	h := desired.House(c, w.state(c))
	f, err := h.Flow(a)
	if err != nil {
		return api.Why{}, &api.Error{Status: http.StatusBadRequest, Problem: api.Problem{Title: err.Error()}}
	}
	out := api.Why{From: a.From, To: a.To, Protocol: protocols([]config.Protocol{f.Protocol})[0], Port: f.Port, Ways: []api.Way{}}
	for _, e := range h.Explanations(f) {
		way := api.Way{
			Family: e.Family, Verdict: string(e.Verdict), By: e.By, WAN: e.WAN, LAN: e.LAN, Route: e.Route,
			Source: e.Source, Destination: e.Destination, Steps: []api.Step{},
		}
		for _, s := range e.Steps {
			way.Steps = append(way.Steps, api.Step(s))
		}
		for _, name := range concerned(c, e) {
			i := slices.IndexFunc(v.Lines, func(l failover.Line) bool {
				return l.WAN == name && int(l.Family) == e.Family
			})
			if i >= 0 {
				way.Steps = append(way.Steps, api.Step{What: "line", Text: fmt.Sprintf("wan.%s is %s for IPv%d: %s", name, v.Lines[i].Verdict, e.Family, v.Lines[i].Why)})
			}
		}
		out.Ways = append(out.Ways, way)
	}
	return out, nil
}

// concerned are the lines whose verdict bears on an explanation: those that the
// route names, that it leaves by, or all of failover's where none takes it.
func concerned(c *config.Config, e ruleset.Explanation) []string {
	var names []string
	none := e.By == "no line"
	for _, r := range c.Routes {
		if r.Name == e.Route && r.Way == config.Never {
			none = none || e.Verdict == ruleset.Refused
		} else if r.Name == e.Route {
			names = slices.Clone(r.WANs)
		}
	}
	for _, name := range c.Failover.Prefer {
		if (none || name == e.WAN && e.Verdict == ruleset.Leaves) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
