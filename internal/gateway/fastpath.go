package gateway

import (
	"slices"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/kernel"
)

// carry has flows carried by the fast path, after a turn that went well.
func (d *daemon) carry() {
	err := d.k.CarryFlows(d.stirred)
	d.stirred = false
	if err != nil && (d.uncarried == nil || d.uncarried.Error() != err.Error()) {
		d.log.Warn("established flows go the ordinary way", "err", err)
	}
	if err == nil && d.uncarried != nil {
		d.log.Info("established flows go by the fast path again")
	}
	d.uncarried = err
}

// stirs says whether what happened in main may change where its packets go, or whether
// they do. It was somebody else's doing if no step of a turn did it.
func stirs(e kernel.Event) bool {
	switch e.Kind {
	case kernel.LinkEvent, kernel.AddrEvent, kernel.RouteEvent, kernel.RuleEvent, kernel.TableEvent:
		return e.NS == ""
	}
	return e.Kind == kernel.Resync
}

// fastPaths says by which form of the fast path packets pass each port.
func (d *daemon) fastPaths(s *api.Status) {
	st := d.world.state(d.cfg)
	for i := range s.WANs {
		w := &s.WANs[i]
		has := slices.ContainsFunc(d.built.Namespaces, func(n desired.Namespace) bool { return n.WAN == w.Name && n.Shortcut != nil })
		w.FastPath, w.FastPathWhy = "off", ""
		switch {
		case d.cfg.Gateway.FastPath == config.FastPathOff:
			w.FastPathWhy = "the file says so"
		case !st.Machine.FastPath:
			w.FastPathWhy = st.Machine.NoFastPath
		case !w.Present:
			w.FastPathWhy = "the port is not there"
		case !has:
			w.FastPathWhy = "not set up yet"
		default:
			w.FastPath = string(config.FastPathTC)
		}
	}
	var on []string
	if len(d.built.Namespaces) > 0 {
		on = d.built.Namespaces[0].Flows.Links()
	}
	for i := range s.LANs {
		l := &s.LANs[i]
		l.FastPath, l.FastPathWhy = "off", ""
		switch {
		case d.cfg.Gateway.FastPath == config.FastPathOff:
			l.FastPathWhy = "the file says so"
		case !st.Machine.FastPath:
			l.FastPathWhy = st.Machine.NoFastPath
		case !l.Present:
			l.FastPathWhy = "the port is not there"
		case !slices.Contains(on, l.Link):
			l.FastPathWhy = "not set up yet"
		case d.uncarried != nil:
			l.FastPathWhy = d.uncarried.Error()
		default:
			l.FastPath = string(config.FastPathTC)
		}
	}
}
