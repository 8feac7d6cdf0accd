package desired

import "slices"

// takes says whether new connections may use a line of a WAN; use is what
// failover uses in that family.
func (b *build) takes(name string, l line, use string) bool {
	// The last line that fell counts as up, so that its flows stay where they are.
	// That failover uses none of its lines tells that it takes nothing new.
	fell := use == "" && slices.Contains(b.cfg.Failover.Prefer, name)
	return l.up && !fell
}
