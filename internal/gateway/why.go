package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

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
	x, err := call(ctx, d, func() (explained, error) {
		leases, _ := held(d.leases, d.cfg, clock)
		return explain(d.cfg, d.world, d.machine.Status(), ruleset.Ask{From: from, To: to, Protocol: protocol, Leases: known(leases, d.cfg, d.world)})
	})
	if err != nil {
		return api.Why{}, err
	}
	return x.withFlows() // not on the loop: the table may be long
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
	x, err := explain(c, f.world, failover.Status{}, ruleset.Ask{From: from, To: to, Protocol: protocol})
	return x.why, err
}

// known are leases as questions may name them.
func known(leases []state.Lease, c *config.Config, w world) []ruleset.Known {
	var out []ruleset.Known
	for _, l := range leases {
		addrs := []netip.Prefix{netip.PrefixFrom(l.Addr, l.Addr.BitLen())}
		if l.Addr.Is6() {
			addrs = leased6Now(c, w, l)
		}
		for _, p := range addrs {
			if p.IsSingleIP() {
				out = append(out, ruleset.Known{Addr: p.Addr(), MAC: l.MAC, Name: l.Hostname, LAN: l.LAN})
			}
		}
	}
	return out
}

// explained is what becomes of a flow, and what is needed to look for those that
// are under way.
type explained struct {
	why   api.Why
	flow  ruleset.Flow
	ends  []ends // of each way
	lines map[uint32]string
}

// ends are the addresses of a way, invalid: any.
type ends struct{ from, to netip.Addr }

func explain(c *config.Config, w world, v failover.Status, a ruleset.Ask) (explained, error) {
	h := desired.House(c, w.state(c))
	f, err := h.Flow(a)
	if err != nil {
		return explained{}, &api.Error{Status: http.StatusBadRequest, Problem: api.Problem{Title: err.Error()}}
	}
	x := explained{flow: f, lines: map[uint32]string{}}
	for _, w := range h.WANs {
		x.lines[uint32(w.Index)] = w.Name
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
		use := v.Use4
		if e.Family == 6 {
			use = v.Use6
		}
		if e.Verdict == ruleset.Leaves && e.Route == "" && e.WAN == use.WAN && use.Why != "" {
			way.Steps = append(way.Steps, api.Step{What: "line", Text: fmt.Sprintf("wan.%s is the one in use: %s", e.WAN, use.Why)})
		}
		for _, name := range concerned(c, e) {
			i := slices.IndexFunc(v.Lines, func(l failover.Line) bool {
				return l.WAN == name && int(l.Family) == e.Family
			})
			if i >= 0 {
				why := cmp.Or(lacks(*c.WAN(name), w.wans[name], e.Family), v.Lines[i].Why)
				way.Steps = append(way.Steps, api.Step{What: "line", Text: fmt.Sprintf("wan.%s is %s for IPv%d: %s", name, v.Lines[i].Verdict, e.Family, why)})
			}
		}
		out.Ways = append(out.Ways, way)
		x.ends = append(x.ends, ends{e.From, e.To})
	}
	x.why = out
	return x, nil
}

// withFlows adds which lines the conversations of that kind that are under way go
// by. Those are kept where they were begun, whatever becomes of a new one.
func (x explained) withFlows() (api.Why, error) {
	for i, e := range x.ends {
		way := &x.why.Ways[i]
		if !e.from.IsValid() && (x.flow.From.WAN == "" || !e.to.IsValid()) {
			continue // whose they would be nobody has said
		}
		found, err := kernel.UnderWay(kernel.FlowsAsked{Family: way.Family, Protocol: number(x.flow.Protocol, way.Family), From: e.from, To: e.to, Port: x.flow.Port},
			ruleset.MarkIndex|ruleset.MarkIn)
		if err != nil {
			return x.why, err
		}
		way.Steps = append(way.Steps, flowSteps(found, x.lines)...)
	}
	return x.why, nil
}

// flowSteps tells of conversations that are under way, a sentence for each line.
func flowSteps(found []kernel.FlowsUnderWay, lines map[uint32]string) []api.Step {
	slices.SortFunc(found, func(a, b kernel.FlowsUnderWay) int { return cmp.Compare(a.Mark, b.Mark) })
	var out []api.Step
	for _, f := range found {
		line := lines[f.Mark&ruleset.MarkIndex]
		if line == "" {
			continue // by no line, or by one that the file has no more
		}
		text := fmt.Sprintf("%d under way by wan.%s, as %s: where it was begun it stays", f.Count, line, f.Source)
		if f.Mark&ruleset.MarkIn != 0 {
			text = fmt.Sprintf("%d under way that came in by wan.%s, and is answered by it", f.Count, line)
		}
		out = append(out, api.Step{What: "flow", Text: text})
	}
	return out
}

// number is a protocol's on the wire.
func number(p config.Protocol, family int) uint8 {
	switch {
	case p == config.TCP:
		return unix.IPPROTO_TCP
	case p == config.UDP:
		return unix.IPPROTO_UDP
	case family == 6:
		return unix.IPPROTO_ICMPV6
	}
	return unix.IPPROTO_ICMP
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
