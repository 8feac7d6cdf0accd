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

// moves are the working lines that their owner wants rid of their flows once use,
// which is preferred to them, is used again.
func (b *build) moves(use string, v6 bool) []Move {
	prefer := b.cfg.Failover.Prefer
	i := slices.Index(prefer, use)
	if i < 0 {
		return nil
	}
	var out []Move
	for _, w := range b.wans {
		up := w.v4.up
		if v6 {
			up = w.v6.up
		}
		if w.cfg.Move && up && slices.Contains(prefer[i+1:], w.Name) {
			out = append(out, Move{Cable: w.Name, V6: v6, Mark: uint32(w.Index)})
		}
	}
	return out
}
