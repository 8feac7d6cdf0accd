package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/plan"
)

// touches says how now differs from was, in words. The order is fixed: chains
// and their rules by chain, sets, objects.
func touches(was, now *form) []plan.Touch {
	var out []plan.Touch
	say := func(op plan.Op, format string, args ...any) {
		out = append(out, plan.Touch{Op: op, What: fmt.Sprintf(format, args...)})
	}
	for _, name := range both(was.Chains, now.Chains) {
		a, ok1 := was.Chains[name]
		b, ok2 := now.Chains[name]
		switch {
		case !ok2:
			say(plan.Remove, "chain %s", name)
		case !ok1:
			say(plan.Add, "chain %s", name)
		default:
			if a.Head != b.Head {
				say(plan.Change, "chain %s", name)
			}
			out = append(out, ruleTouches(name, a.Rules, b.Rules)...)
		}
	}
	for _, name := range both(was.Sets, now.Sets) {
		a, ok1 := was.Sets[name]
		b, ok2 := now.Sets[name]
		kind := "set"
		if a.Map || b.Map {
			kind = "map"
		}
		switch {
		case !ok2:
			say(plan.Remove, "%s %s", kind, name)
		case !ok1:
			say(plan.Add, "%s %s", kind, name)
		case a.Head != b.Head:
			say(plan.Change, "%s %s", kind, name)
		default:
			out = append(out, elementTouches(kind, name, a.Elems, b.Elems)...)
		}
	}
	for _, o := range missing(was.Objs, now.Objs) {
		say(plan.Remove, "%s", o)
	}
	for _, o := range missing(now.Objs, was.Objs) {
		say(plan.Add, "%s", o)
	}
	return out
}

func both[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func ruleTouches(chain string, was, now []ruleForm) []plan.Touch {
	if slices.Equal(was, now) {
		return nil
	}
	lost, won := surplusRules(was, now), surplusRules(now, was)
	var out []plan.Touch
	for _, r := range lost {
		op := plan.Remove
		if i := slices.IndexFunc(won, func(w ruleForm) bool { return r.Comment != "" && w.Comment == r.Comment }); i >= 0 {
			op, won = plan.Change, slices.Delete(won, i, i+1)
		}
		out = append(out, plan.Touch{Op: op, What: ruleWords(r, chain)})
	}
	for _, r := range won {
		out = append(out, plan.Touch{Op: plan.Add, What: ruleWords(r, chain)})
	}
	if len(out) == 0 {
		out = append(out, plan.Touch{Op: plan.Change, What: "order of the rules in chain " + chain})
	}
	return out
}

func ruleWords(r ruleForm, chain string) string {
	if r.Comment == "" {
		return "rule in chain " + chain
	}
	return fmt.Sprintf("rule %q in chain %s", r.Comment, chain)
}

// surplusRules returns the rules of a that b has not, as often as it has not.
func surplusRules(a, b []ruleForm) []ruleForm {
	have := map[ruleForm]int{}
	for _, r := range b {
		have[r]++
	}
	var out []ruleForm
	for _, r := range a {
		if have[r]--; have[r] < 0 {
			out = append(out, r)
		}
	}
	return out
}

func elementTouches(kind, name string, was, now []string) []plan.Touch {
	lost, won := missing(was, now), missing(now, was)
	var out []plan.Touch
	for _, e := range lost {
		op := plan.Remove
		key, _, _ := strings.Cut(e, " ")
		if i := slices.IndexFunc(won, func(w string) bool { return strings.HasPrefix(w, key+" ") }); i >= 0 {
			op, won = plan.Change, slices.Delete(won, i, i+1)
		}
		out = append(out, plan.Touch{Op: op, Set: name, What: fmt.Sprintf("element %s of %s %s", key, kind, name)})
	}
	for _, e := range won {
		key, _, _ := strings.Cut(e, " ")
		out = append(out, plan.Touch{Op: plan.Add, Set: name, What: fmt.Sprintf("element %s of %s %s", key, kind, name)})
	}
	return out
}

// missing returns the members of sorted a that sorted b has not.
func missing(a, b []string) []string {
	var out []string
	for _, e := range a {
		if _, ok := slices.BinarySearch(b, e); !ok {
			out = append(out, e)
		}
	}
	return out
}
