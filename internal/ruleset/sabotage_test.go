package ruleset_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/desired"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/ruleset"
)

// handles are the rules of our table in ns: by comment, the chain and the handle.
func handles(ns string) (map[string][2]string, error) {
	var out []byte
	err := netns.Do(ns, func() (err error) {
		out, err = exec.Command("nft", "-j", "list", "table", "inet", ruleset.TableName).Output()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the table of %q: %w", ns, err)
	}
	var list struct {
		Nftables []struct {
			Rule *struct {
				Chain   string
				Handle  int
				Comment string
			}
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, err
	}
	found := map[string][2]string{}
	for _, o := range list.Nftables {
		if o.Rule != nil {
			found[o.Rule.Comment] = [2]string{o.Rule.Chain, fmt.Sprint(o.Rule.Handle)}
		}
	}
	return found, nil
}

// sabotage is one thing taken away from a ruleset, and how it is put back.
type sabotage struct {
	ns, name string
	script   func() (string, error)
}

// sabotages are all rules of a world, each by its name, and the elements of
// each set.
func (w *world) sabotages() ([]sabotage, error) {
	var all []sabotage
	for _, n := range w.built.Namespaces {
		rules, err := handles(n.Name)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(rules)) {
			all = append(all, sabotage{n.Name, "rule " + name, func() (string, error) {
				now, err := handles(n.Name)
				return fmt.Sprintf("delete rule inet weir %s handle %s\n", now[name][0], now[name][1]), err
			}})
		}
		for _, s := range n.Table.Sets {
			if len(s.Elements) > 0 {
				all = append(all, sabotage{n.Name, "elements of " + s.Name, func() (string, error) {
					return fmt.Sprintf("delete element inet weir %s { %s }\n", s.Name, strings.Join(s.Elements, ", ")), nil
				}})
			}
		}
	}
	return all, nil
}

// witness is what is otherwise without a thing, and which look sees it.
type witness struct{ look, what string }

// witnesses are those that testdata/witnesses.txt has, by namespace and thing. They
// are no more than whom to ask first, so that a thing takes one question and not all:
// where one sees nothing, everybody is asked. The file is made anew by
//
//	go test -run '^TestEveryRuleIsHeld$' -v | sed -n 's/.* witness: //p' | sort > testdata/witnesses.txt
func witnesses(tb testing.TB) map[string]witness {
	tb.Helper()
	text, err := os.ReadFile("testdata/witnesses.txt")
	if err != nil {
		tb.Fatal(err)
	}
	found := map[string]witness{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			tb.Fatalf("testdata/witnesses.txt: %q", line)
		}
		found[f[0]+"\t"+f[1]] = witness{f[2], f[3]}
	}
	return found
}

// shards is in how many worlds the saboteur works at once: a round is mostly
// waiting for silence.
const shards = 4

// TestEveryRuleIsHeld takes one rule after the other away: each time something
// has to be answered otherwise. A rule that no row misses is one too many, or
// a row too few.
func TestEveryRuleIsHeld(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of sabotage")
	}
	var wg sync.WaitGroup
	for shard := range shards {
		wg.Go(func() {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				netnstest.Alone(t, func(t *testing.T) { sabotageShard(t, shard) })
			})
		})
	}
	wg.Wait()
}

func sabotageShard(t *testing.T, shard int) {
	w := bringUp(t)
	if wrong := w.twice(); len(wrong) > 0 {
		t.Fatal("wrong before anything was taken away:", wrong)
	}
	all, err := w.sabotages()
	if err != nil {
		t.Fatal(err)
	}
	last := witnesses(t)
	for i, s := range all {
		if i%shards != shard {
			continue
		}
		n := w.built.Namespaces[slices.IndexFunc(w.built.Namespaces, func(n desired.Namespace) bool { return n.Name == s.ns })]
		held, in := w.held(
			last[s.ns+"\t"+s.name],
			func() {
				script, err := s.script()
				if err == nil {
					err = load(s.ns, script)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			func() {
				if err := load(s.ns, transaction(n)); err != nil {
					t.Fatal(err)
				}
			})
		if len(held) == 0 {
			t.Errorf("without %s in namespace %q nothing is otherwise", s.name, s.ns)
		}
		for i, what := range slices.Sorted(maps.Keys(held)) {
			t.Logf("without %s in %q: %s: %s", s.name, s.ns, what, held[what])
			if i == 0 {
				t.Logf("witness: %s\t%s\t%s\t%s", s.ns, s.name, in, what)
			}
		}
	}
	if wrong := w.twice(); len(wrong) > 0 {
		t.Error("wrong after all was put back:", wrong)
	}
}

// twice asks everything twice, and returns what was wrong both times.
func (w *world) twice() map[string]string {
	first, wrong := w.try(), w.try()
	maps.DeleteFunc(wrong, func(name, _ string) bool { return first[name] == "" })
	return wrong
}

// look asks for something, of what only names, and returns what was wrong.
type look func(only func(string) bool) map[string]string

// held returns what is otherwise without a thing, and which look shows it: the
// quickest does. What showed it the last time is asked first. It ends with the thing
// put back.
func (w *world) held(last witness, remove, restore func()) (by map[string]string, in string) {
	afresh := func(f look) look {
		return func(only func(string) bool) map[string]string {
			if err := w.forget(); err != nil {
				return map[string]string{"the neighbours": err.Error()}
			}
			return f(only)
		}
	}
	looks := []struct {
		name string
		look
	}{
		{"row", afresh(func(only func(string) bool) map[string]string { return w.askOnce("", rows(), only) })},
		{"special", afresh(func(only func(string) bool) map[string]string { return w.special(w.round(), only) })},
		{"round", func(only func(string) bool) map[string]string {
			wrong := w.try()
			maps.DeleteFunc(wrong, func(name, _ string) bool { return !only(name) })
			return wrong
		}},
	}
	for _, l := range looks {
		if l.name != last.look {
			continue
		}
		if by := l.misses(func(name string) bool { return name == last.what }, remove, restore); len(by) > 0 {
			return by, l.name
		}
	}
	// A busy machine may be late with the one answer that shows it.
	for range 3 {
		for _, l := range looks {
			if by := l.misses(everything, remove, restore); len(by) > 0 {
				return by, l.name
			}
		}
	}
	return nil, ""
}

// misses returns what of that which only names is wrong without a thing, right with it, and wrong without
// it once more: what a busy machine gets wrong is none of that thing's. It ends
// with the thing put back.
func (l look) misses(only func(string) bool, remove, restore func()) map[string]string {
	remove()
	wrong := l(only)
	restore()
	if len(wrong) == 0 {
		return nil
	}
	still := l(in(wrong))
	maps.DeleteFunc(wrong, func(name, _ string) bool { return still[name] != "" })
	if len(wrong) == 0 {
		return nil
	}
	remove()
	defer restore()
	return l(in(wrong))
}

// TestABusyMachineHoldsNoRule: what is wrong now and then, whatever was taken
// away, is not taken for what misses it; what is wrong without it each time is.
func TestABusyMachineHoldsNoRule(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong []string // what is wrong in one look after the other: without, with, without
		held  bool
	}{
		{"nothing", []string{""}, false},
		{"once", []string{"a", "", ""}, false},
		{"always", []string{"a", "a", "a"}, false},
		{"another one each time", []string{"a", "b", "c"}, false},
		{"without it", []string{"a", "", "a"}, true},
		{"without it, and another now and then", []string{"ab", "b", "a"}, true},
	} {
		there, looks := true, 0
		l := look(func(only func(string) bool) map[string]string {
			if there != (looks == 1) {
				t.Errorf("%s: look %d with the thing there: %v", c.name, looks, there)
			}
			wrong := map[string]string{}
			for _, r := range c.wrong[looks] {
				if only(string(r)) {
					wrong[string(r)] = "wrong"
				}
			}
			looks++
			return wrong
		})
		got := l.misses(everything, func() { there = false }, func() { there = true })
		if (len(got) > 0) != c.held || !there {
			t.Errorf("%s: held by %v, want %v; put back: %v", c.name, got, c.held, there)
		}
	}
}
