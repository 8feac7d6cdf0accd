package plan

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/desired"
)

// shortcuts compares the programs of the fast path. They are detached before
// anything that they stand in for changes, and attached when it is there.
func (d *differ) shortcuts() {
	for i := range d.actual.Namespaces {
		h := &d.actual.Namespaces[i]
		if h.Shortcut == nil {
			continue
		}
		if w := d.wanted(h.Name); w == nil || w.Shortcut == nil || d.waits[linkKey{w.Name, w.Shortcut.Port}] {
			d.shortcutGone(h)
		}
	}
	for i := range d.want.Namespaces {
		w := &d.want.Namespaces[i]
		if w.Shortcut == nil || !d.exists(linkKey{w.Name, w.Shortcut.Port}) || !d.exists(linkKey{w.Name, w.Shortcut.Cable}) {
			continue
		}
		d.shortcut(w)
	}
}

func (d *differ) shortcutGone(h *Namespace) {
	last := d.last(h.Name).Shortcut
	step := Step{Op: Remove, NS: h.Name, Object: "fast path", Name: strings.Join(h.Shortcut.On, " "), Old: partsText(h.Shortcut.Parts),
		Do: PutShortcut{NS: h.Name, Old: last}}
	if last != nil {
		step.Name = last.Port + " " + last.Cable
	}
	if h.Name == "" {
		step.Old, step.Why = "", "it came along with the port"
	}
	d.add(atShortcutKnows, d.surplus(step, last != nil))
}

func (d *differ) shortcut(w *desired.Namespace) {
	h := d.actual.namespace(w.Name)
	name := w.Shortcut.Port + " " + w.Shortcut.Cable
	last := d.last(w.Name).Shortcut
	step := Step{Op: Add, NS: w.Name, Object: "fast path", Name: name, New: partsText(w.Shortcut.Parts), Do: PutShortcut{NS: w.Name, New: w.Shortcut}}
	fresh := d.touches(w)
	switch {
	case h == nil || h.Shortcut == nil:
		if last != nil && last.Port == w.Shortcut.Port && !fresh {
			step = mend(step)
		}
		d.add(atShortcut, step)
	case h.Shortcut.Wrong != "" || fresh:
		step.Op, step.New, step.Why = Change, "", h.Shortcut.Wrong
		if fresh {
			step.Why = "a link is another one"
		}
		step.Drift = last != nil && last.Port == w.Shortcut.Port && !fresh
		d.add(atShortcut, step)
	case !slices.Equal(h.Shortcut.Parts, w.Shortcut.Parts):
		step.Op, step.Old = Change, partsText(h.Shortcut.Parts)
		step.Do = PutShortcut{NS: w.Name, Old: last, New: w.Shortcut}
		if last != nil && slices.Equal(last.Parts, w.Shortcut.Parts) {
			step = mend(step)
		}
		d.add(atShortcutKnows, step)
	}
}

// touches says whether a step of this turn makes a link of the shortcut another
// one, or changes what its programs know of it.
func (d *differ) touches(w *desired.Namespace) bool {
	between := []linkKey{{w.Name, w.Shortcut.Port}, {w.Name, w.Shortcut.Cable}}
	for _, l := range w.Links {
		if l.Name == w.Shortcut.Cable {
			between = append(between, linkKey{l.PeerNS, l.Peer})
		}
	}
	for _, at := range between {
		if d.void[at] == made {
			return true
		}
	}
	for _, steps := range d.steps {
		for _, s := range steps {
			set, ok := s.Do.(SetLink)
			if ok && slices.Contains(between, linkKey{set.NS, set.Link}) && (set.New.MTU != 0 || set.New.MAC != "") {
				return true
			}
		}
	}
	return false
}

// partsText is what a shortcut knows, in a few words.
func partsText(parts []desired.Part) string {
	var out []string
	for _, p := range parts {
		if p.Role&(desired.RoleHome|desired.RoleLeaves) == 0 {
			continue
		}
		if p.Prefix.IsSingleIP() {
			out = append(out, p.Prefix.Addr().String())
		} else {
			out = append(out, p.Prefix.String())
		}
	}
	if len(out) == 0 {
		return "for no address yet"
	}
	return fmt.Sprintf("for %s", strings.Join(out, " "))
}
