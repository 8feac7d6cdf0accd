package gateway

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/failover"
	"weir/internal/plan"
)

// failoverConfig is what the machine that judges the lines needs of the file.
// The lines of a family that the file does not want are never ready.
func failoverConfig(c *config.Config) failover.Config {
	f := failover.Config{
		Prefer:   c.Failover.Prefer,
		HoldDown: c.Failover.HoldDown,
		Every:    c.Failover.Probe.Every,
		Degraded: failover.Thresholds{Loss: float64(c.Failover.Degraded.Loss), Latency: c.Failover.Degraded.Latency},
	}
	for _, w := range c.WANs {
		f.WANs = append(f.WANs, failover.WAN{
			Name: w.Name, Metered: w.Metered, Routed: routed(c, w.Name), Every: w.Probe.Every, Timeout: w.Probe.Timeout,
			Target4: targets(w.Probe.Target4), Target6: targets(w.Probe.Target6),
		})
	}
	return f
}

// routed says whether a route of the file may lead to a WAN.
func routed(c *config.Config, wan string) bool {
	return slices.ContainsFunc(c.Routes, func(r config.Route) bool {
		return slices.Contains(r.WANs, wan) != (r.Way == config.Never)
	})
}

func targets(of []config.Target) []failover.Target {
	kinds := map[config.Ask]failover.Kind{config.AskEcho: failover.Echo, config.AskTCP: failover.TCP, config.AskDNS: failover.DNS}
	var out []failover.Target
	for _, t := range of {
		out = append(out, failover.Target{Kind: kinds[t.Ask], Addr: t.Addr, Port: t.Port, Name: t.Name})
	}
	return out
}

// adoption is what a kernel that was left forwarding has in force: the line that
// main's default routes lead to, and the lines whose flows are led nowhere.
func adoption(c *config.Config, index map[string]uint8, a plan.Actual) failover.Adoption {
	var out failover.Adoption
	main := actualNamespace(a, "")
	if main == nil {
		return out
	}
	for _, r := range main.Routes {
		if r.Proto != desired.RouteProto || r.Dst.Bits() != 0 || r.Table != 0 || r.Type != desired.Unicast || c.WAN(r.Link) == nil {
			continue
		}
		if r.Dst.Addr().Is4() {
			out.Use4 = r.Link
		} else {
			out.Use6 = r.Link
		}
	}
	for _, w := range c.WANs {
		for _, f := range []failover.Family{failover.IPv4, failover.IPv6} {
			if known, up := pinned(main, int(index[w.Name]), f == failover.IPv6); known && !up {
				out.Down = append(out.Down, failover.LineID{WAN: w.Name, Family: f})
			}
		}
	}
	return out
}

// pinned says whether main has rules for the flows of a line, and whether they
// lead to it.
func pinned(main *plan.Namespace, index int, v6 bool) (known, up bool) {
	for _, r := range main.Rules {
		if r.Proto != desired.RouteProto || r.V6 != v6 || int(r.Mark&0xff) != index {
			continue
		}
		known = true
		up = up || int(r.Mark) == index && r.Table == desired.TableBase+index && r.IPProto == 0
	}
	return known, up
}

// take is w with the verdicts and the choice of the machine.
func (w world) take(s failover.Status) world {
	wans := maps.Clone(w.wans)
	for _, l := range s.Lines {
		k := wans[l.WAN]
		wary := l.Verdict == failover.Returning || l.Verdict == failover.Degraded
		if l.Family == failover.IPv4 {
			k.up4, k.wary4, k.hollow4, k.until4 = l.Up, wary, l.Hollow, waitUntil(k.up4, k.until4, l)
		} else {
			k.up6, k.wary6, k.hollow6, k.until6 = l.Up, wary, l.Hollow, waitUntil(k.up6, k.until6, l)
		}
		wans[l.WAN] = k
	}
	w.wans, w.use4, w.use6 = wans, s.Use4.WAN, s.Use6.WAN
	return w
}

// foresee is w as it would be soon after c was put in force: verdicts stay, and a
// line that was never judged is used as soon as it has all it needs.
func (w world) foresee(c *config.Config, s failover.Status) world {
	w = w.take(s)
	verdict := func(name string, f failover.Family) failover.Verdict {
		i := slices.IndexFunc(s.Lines, func(l failover.Line) bool { return l.WAN == name && l.Family == f })
		if i < 0 {
			return failover.Absent
		}
		return s.Lines[i].Verdict
	}
	var works4, works6 []string
	for _, cw := range c.WANs {
		k := w.wans[cw.Name]
		ok4, _ := complete4(cw, k)
		ok6, _ := complete6(cw, k)
		v4, v6 := verdict(cw.Name, failover.IPv4), verdict(cw.Name, failover.IPv6)
		works := func(ok bool, v failover.Verdict) bool { return ok && (v.Works() || v == failover.Absent && k.carrier) }
		k.up4, k.up6 = works(ok4, v4) || ok4 && k.up4, works(ok6, v6) || ok6 && k.up6
		w.wans[cw.Name] = k
		if works(ok4, v4) {
			works4 = append(works4, cw.Name)
		}
		if works(ok6, v6) {
			works6 = append(works6, cw.Name)
		}
	}
	w.use4, w.use6 = choose(c.Failover.Prefer, w.use4, works4), choose(c.Failover.Prefer, w.use6, works6)
	return w
}

// choose stays with the line in use while it works, else takes the first that does.
func choose(prefer []string, use string, works []string) string {
	if slices.Contains(prefer, use) && slices.Contains(works, use) {
		return use
	}
	for _, name := range prefer {
		if slices.Contains(works, name) {
			return name
		}
	}
	return ""
}

// judge tells the machine what the lines have, lets it judge, and takes in what
// came of it. It wants a turn if that changes anything in the kernel.
func (d *daemon) judge(now time.Time) {
	for _, cw := range d.cfg.WANs {
		k := d.world.wans[cw.Name]
		ok4, _ := complete4(cw, k)
		ok6, _ := complete6(cw, k)
		d.machine.Line(now, failover.LineID{WAN: cw.Name, Family: failover.IPv4}, ok4)
		d.machine.Line(now, failover.LineID{WAN: cw.Name, Family: failover.IPv6}, ok6 && !k.dad6)
	}
	out := d.machine.Tick(now)
	if len(out.Count) > 0 && d.count(out.Count) {
		more := d.machine.Tick(time.Now())
		out.Probes, out.Changes = append(out.Probes, more.Probes...), append(out.Changes, more.Changes...)
		out.Next = more.Next
	}
	d.nextTick = out.Next
	d.probes = append(d.probes, out.Probes...)
	for _, ch := range out.Changes {
		logChange(d.log, ch)
	}
	if len(out.Changes) == 0 && !d.world.overdue(now) {
		return
	}
	d.news = true
	before := d.world.state(d.cfg)
	d.world = d.world.take(d.machine.Status()).expire(now)
	if !reflect.DeepEqual(before, d.world.state(d.cfg)) {
		d.wantTurn(0)
	}
}

func logChange(log *slog.Logger, c failover.Change) {
	if c.Choice {
		log.Info("wan changed", "family", c.Line.Family, "from", c.FromWAN, "to", c.ToWAN, "why", c.Why)
		return
	}
	level := slog.LevelInfo
	if c.From == failover.Suspect && c.To == failover.Up || c.To == failover.Suspect {
		level = slog.LevelDebug // happens often and means nothing
	}
	log.Log(context.Background(), level, "line changed", "wan", c.Line.WAN, "family", c.Line.Family, "from", c.From, "to", c.To, "why", c.Why, "silent", c.Took)
}
