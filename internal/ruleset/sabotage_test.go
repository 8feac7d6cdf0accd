package ruleset_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

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
	for round := range 2 {
		if wrong := w.try(round); len(wrong) > 0 {
			t.Fatal("wrong before anything was taken away:", wrong)
		}
	}
	w.hasty = true
	all, err := w.sabotages()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		if i%shards != shard {
			continue
		}
		script, err := s.script()
		if err != nil {
			t.Fatal(err)
		}
		if err := load(s.ns, script); err != nil {
			t.Fatal(err)
		}
		wrong := w.try(i + 2)
		if len(wrong) == 0 {
			t.Errorf("without %s in namespace %q nothing is otherwise", s.name, s.ns)
		}
		for what, how := range wrong {
			t.Logf("without %s in %q: %s: %s", s.name, s.ns, what, how)
		}
		for _, n := range w.built.Namespaces {
			if n.Name == s.ns {
				if err := load(s.ns, transaction(n)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	w.hasty = false
	if wrong := w.try(len(all) + 2); len(wrong) > 0 {
		t.Error("wrong after all was put back:", wrong)
	}
}
