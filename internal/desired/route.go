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

// moves are the working lines whose flows follow once use is used: those that their
// owner wants rid of them, where use is preferred to them, and those that carry
// nothing but echoes.
func (b *build) moves(use string, v6 bool) []Move {
	prefer := b.cfg.Failover.Prefer
	i := slices.Index(prefer, use)
	var out []Move
	for _, w := range b.wans {
		l := w.v4
		if v6 {
			l = w.v6
		}
		back := w.cfg.Move && i >= 0 && slices.Contains(prefer[i+1:], w.Name)
		if l.up && use != "" && use != w.Name && (back || l.hollow) {
			out = append(out, Move{Cable: w.Name, V6: v6, Mark: uint32(w.Index)})
		}
	}
	return out
}
