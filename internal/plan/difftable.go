package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/desired"
	"weir/internal/ruleset"
)

func (d *differ) table(w *desired.Namespace, h *Namespace) {
	step := Step{NS: w.Name, Object: "nft table", Name: ruleset.TableName}
	have, want := h.Table, w.Table
	switch {
	case want.Text == "" && !have.Exists:
		return
	case want.Text == "":
		step.Op, step.Do = Remove, LoadTable{NS: w.Name, Old: have}
		step = d.surplus(step, d.last(w.Name).Table.Text != "")
		d.add(atTableGone, step)
		return
	case !have.Exists:
		step.Op, step.Do = Add, LoadTable{NS: w.Name, New: want}
		step.Detail = lineDiff("", FullText(want))
		if d.last(w.Name).Table.Text != "" {
			step = mend(step)
		}
		d.add(atTable, step)
		return
	case have.Text != want.Text:
		step.Op, step.Do = Change, LoadTable{NS: w.Name, Old: have, New: want}
		if have.Text == "" {
			step.Why = "what is loaded is not known"
			step.Detail = lineDiff("", FullText(want))
		} else {
			step.Detail = lineDiff(have.Text, want.Text)
		}
		d.add(atTable, step)
	case slices.ContainsFunc(have.Touched, func(t Touch) bool { return t.Set == "" }):
		step.Op, step.Drift, step.Do = Change, true, LoadTable{NS: w.Name, Old: have, New: want}
		step.Why = touches(have.Touched)
		for _, t := range have.Touched {
			step.Detail = append(step.Detail, touchDetail(t))
		}
		d.add(atTable, step)
	default:
		d.sets(w, h)
	}
	if w.Name == "" {
		d.translations(w, h)
	}
}

// touches says in one line what somebody else did.
func touches(ts []Touch) string {
	done := map[Op]string{Add: "added", Change: "changed", Remove: "removed"}
	t := ts[0]
	s := t.What + " " + done[t.Op] + " by hand"
	if len(ts) > 1 {
		s += fmt.Sprintf(", and %d more", len(ts)-1)
	}
	switch {
	case len(ts) == 1 && t.Op == Remove:
		s += ", will come back"
	case len(ts) == 1 && t.Op == Add:
		s += ", will go"
	default:
		s += ", will be as it was"
	}
	return s
}

func touchDetail(t Touch) string {
	// Led by what the step does about it.
	return map[Op]string{Add: "- ", Change: "~ ", Remove: "+ "}[t.Op] + t.What
}

// sets compares the elements of the named sets and maps that Build fills.
func (d *differ) sets(w *desired.Namespace, h *Namespace) {
	have := map[string][]string{}
	for _, s := range h.Table.Sets {
		have[s.Name] = s.Elements
	}
	touched := map[string]bool{}
	for _, t := range h.Table.Touched {
		touched[t.Set] = true
	}
	var changes []SetChange
	var detail []string
	for _, s := range w.Table.Sets {
		old := have[s.Name]
		if touched[s.Name] {
			changes = append(changes, SetChange{Name: s.Name, Flush: true, Add: s.Elements})
			for _, t := range h.Table.Touched {
				if t.Set == s.Name {
					detail = append(detail, touchDetail(t))
				}
			}
			delete(touched, s.Name)
			continue
		}
		if slices.Equal(old, s.Elements) {
			continue
		}
		c := SetChange{Name: s.Name, Delete: without(old, s.Elements), Add: without(s.Elements, old)}
		if len(c.Delete)+len(c.Add) == 0 {
			continue
		}
		for _, e := range c.Delete {
			detail = append(detail, "- "+s.Name+"  "+e)
		}
		for _, e := range c.Add {
			detail = append(detail, "+ "+s.Name+"  "+e)
		}
		changes = append(changes, c)
	}
	if len(touched) > 0 {
		// Elements of a set that the text itself fills: only the text mends it.
		d.add(atTable, Step{Op: Change, Drift: true, NS: w.Name, Object: "nft table", Name: ruleset.TableName,
			Why: touches(h.Table.Touched), Do: LoadTable{NS: w.Name, Old: h.Table, New: w.Table}})
		return
	}
	if len(changes) == 0 {
		return
	}
	names := make([]string, len(changes))
	drift := false
	for i, c := range changes {
		names[i] = c.Name
		drift = drift || c.Flush
	}
	s := Step{Op: Change, Drift: drift, NS: w.Name, Object: "nft sets", Name: strings.Join(names, ", "), Detail: detail,
		Do: SetElements{NS: w.Name, Changes: changes, Old: h.Table, New: w.Table}}
	if len(detail) == 1 && !drift {
		s.Name, s.Detail = names[0], nil
		if c := changes[0]; len(c.Add) == 1 {
			s.Op, s.New = Add, c.Add[0]
		} else {
			s.Op, s.Old = Remove, c.Delete[0]
		}
	}
	if len(changes) == 1 && len(changes[0].Add) == 1 && len(changes[0].Delete) == 1 {
		s.Old, s.New, s.Detail = changes[0].Delete[0], changes[0].Add[0], nil
	}
	if drift {
		s.Why = touches(h.Table.Touched)
	}
	d.add(atTable, s)
}

// without returns the elements of a that b has not. Both are sorted.
func without(a, b []string) []string {
	var out []string
	for _, e := range a {
		if _, ok := slices.BinarySearch(b, e); !ok {
			out = append(out, e)
		}
	}
	return out
}

// translations deletes the flows of lines that have lost an address: unlike
// masquerade, snat does not by itself, and who came in by it is answered with it.
// Addresses are in the sets wan4.NAME and wan6.NAME, delegated prefixes in native6.NAME, and in the maps from cable to
// the address to which main translates, where another may have become the first.
func (d *differ) translations(w *desired.Namespace, h *Namespace) {
	now := map[string][]string{}
	for _, s := range w.Table.Sets {
		now[s.Name] = s.Elements
	}
	done := map[DeleteFlows]bool{}
	for _, s := range h.Table.Sets {
		for _, e := range without(s.Elements, now[s.Name]) {
			cable, addr, ok := translation(e)
			if !ok {
				if cable, addr, ok = ownAddress(s.Name, e); !ok {
					continue
				}
			}
			index := indexOf(cable, d.wanted("").Rules)
			if index == 0 {
				if index = indexOfActual(cable, h.Rules); index == 0 {
					continue
				}
			}
			f := DeleteFlows{Mark: index, Mask: ruleset.MarkIndex, Family: 6, Prod: w.Table.Text != ""}
			if addr.Is4() {
				f.Family = 4
			}
			if done[f] {
				continue
			}
			done[f] = true
			d.add(atFlows, Step{Op: Remove, Object: "flows", Name: cable, Old: fmt.Sprintf("IPv%d, mark %#x/%#x", f.Family, f.Mark, f.Mask),
				Why: addr.String() + " is no longer the line's", Do: f})
		}
	}
}

// ownAddress reads an element of a set of a line's own addresses.
func ownAddress(set, element string) (cable string, addr netip.Addr, ok bool) {
	kind, cable, ok := strings.Cut(set, ".")
	if !ok || kind != "wan4" && kind != "wan6" && kind != "native6" {
		return "", netip.Addr{}, false
	}
	if p, err := netip.ParsePrefix(element); err == nil {
		return cable, p.Addr(), true
	}
	addr, err := netip.ParseAddr(element)
	return cable, addr, err == nil
}

// translation reads an element `"fiber" : 198.51.100.10`.
func translation(element string) (cable string, addr netip.Addr, ok bool) {
	key, value, ok := strings.Cut(element, " : ")
	if !ok || !strings.HasPrefix(key, `"`) || !strings.HasSuffix(key, `"`) || len(key) < 2 {
		return "", netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(value))
	return key[1 : len(key)-1], addr, err == nil
}

// indexOf returns the index of the WAN whose cable that is, 0 if none. The
// rule that leads out by a cable names the WAN's table.
func indexOf(cable string, rules []desired.Rule) uint32 {
	for _, r := range rules {
		if r.OIF == cable && r.Table > desired.TableBase && r.Table <= desired.TableBase+ruleset.MarkIndex {
			return uint32(r.Table - desired.TableBase)
		}
	}
	return 0
}

func indexOfActual(cable string, rules []Rule) uint32 {
	for _, r := range rules {
		if r.Proto == desired.RouteProto {
			if k := indexOf(cable, []desired.Rule{r.Rule}); k != 0 {
				return k
			}
		}
	}
	return 0
}

// FullText is a table's text with the elements of its sets, as nft would take it.
func FullText(t ruleset.Table) string {
	var b strings.Builder
	b.WriteString(strings.TrimRight(t.Text, "\n"))
	b.WriteByte('\n')
	for _, s := range t.Sets {
		if len(s.Elements) > 0 {
			fmt.Fprintf(&b, "add element inet %s %s { %s }\n", ruleset.TableName, s.Name, strings.Join(s.Elements, ", "))
		}
	}
	return b.String()
}
