package desired

import (
	"slices"

	"weir/internal/config"
)

// routeBy names the WAN by which connections that a route matches leave now, in
// a family; "" is none of those it may: an only or never is refused then, a
// prefer leaves as failover says.
func (b *build) routeBy(r config.Route, v6 bool) string {
	use := b.st.Use4
	if v6 {
		use = b.st.Use6
	}
	allowed := r.WANs
	if r.Way == config.Never {
		// failover's choice is not second-guessed where the route may follow it.
		allowed = slices.DeleteFunc(append([]string{use}, b.cfg.Failover.Prefer...), func(w string) bool { return slices.Contains(r.WANs, w) })
	}
	for _, name := range allowed {
		if b.takes(name, v6) {
			return name
		}
	}
	return ""
}

// takes says whether new connections of a family may use a WAN.
func (b *build) takes(name string, v6 bool) bool {
	i := slices.IndexFunc(b.wans, func(w wan) bool { return w.Name == name })
	if i < 0 {
		return false
	}
	line, far, use := b.wans[i].v4, b.wans[i].Far4, b.st.Use4
	if v6 {
		line, far, use = b.wans[i].v6, b.wans[i].Far6, b.st.Use6
	}
	// The last line that fell counts as up, so that its flows stay where they are.
	// That failover uses none of its lines tells that it takes nothing new.
	fell := use == "" && slices.Contains(b.cfg.Failover.Prefer, name)
	return line.up && far.IsValid() && !fell
}
