package gateway

import (
	"slices"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/desired"
)

// fastPaths says by which form of the fast path packets pass each line's port.
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
}
