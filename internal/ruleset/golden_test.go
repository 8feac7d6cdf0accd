package ruleset_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/desired"
	"weir/internal/netns/netnstest"
)

var update = flag.Bool("update", false, "write the golden files anew; read the diff: it is the firewall")

// each runs f for each file of testdata.
func each(t *testing.T, f func(t *testing.T, name string, d desired.Desired)) {
	files, err := filepath.Glob("testdata/*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".hcl")
		t.Run(name, func(t *testing.T) {
			c := parse(t, name)
			f(t, name, desired.Build(c, working(c)))
		})
	}
}

// TestGolden holds the text of each ruleset.
func TestGolden(t *testing.T) {
	each(t, func(t *testing.T, name string, d desired.Desired) {
		var b strings.Builder
		for _, n := range d.Namespaces {
			fmt.Fprintf(&b, "# namespace %q\n%s\n", n.Name, n.Table.Text)
			for _, s := range n.Table.Sets {
				fmt.Fprintf(&b, "# %s: %s\n", s.Name, strings.Join(s.Elements, ", "))
			}
			b.WriteByte('\n')
		}
		golden := filepath.Join("testdata", name+".nft")
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("- golden, + built (go test -update writes it anew):\n%s", diff)
		}
	})
}

// TestLoads gives each ruleset to the real nft, twice.
func TestLoads(t *testing.T) {
	needNft(t)
	each(t, func(t *testing.T, _ string, d desired.Desired) {
		for _, n := range d.Namespaces {
			ns := netnstest.New(t)
			for range 2 {
				if err := load(ns, transaction(n)); err != nil {
					t.Fatalf("namespace %q: %v", n.Name, err)
				}
			}
		}
	})
}

var comment = regexp.MustCompile(` comment "([^"]*)"\n`)

// TestRulesAreNamed: a plan tells a rule by its name.
func TestRulesAreNamed(t *testing.T) {
	each(t, func(t *testing.T, _ string, d desired.Desired) {
		for _, n := range d.Namespaces {
			seen := map[string]bool{}
			in := false
			for _, line := range strings.SplitAfter(n.Table.Text, "\n") {
				if strings.HasPrefix(line, "\t\ttype ") || !strings.HasPrefix(line, "\t\t") {
					in = strings.HasPrefix(line, "\tchain ") || in && line != "\t}\n"
					continue
				}
				m := comment.FindStringSubmatch(line)
				switch {
				case !in:
				case m == nil:
					t.Errorf("namespace %q: no name: %s", n.Name, line)
				case seen[m[1]]:
					t.Errorf("namespace %q: two rules are called %q", n.Name, m[1])
				default:
					seen[m[1]] = true
				}
			}
			if len(seen) < 5 {
				t.Errorf("namespace %q: %d rules found", n.Name, len(seen))
			}
		}
	})
}
