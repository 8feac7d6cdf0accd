package rehearse_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/cli"
	"weir/internal/config"
	"weir/internal/lab/labtest"
	"weir/internal/netns/netnstest"
	"weir/internal/rehearse"
)

// TestMain makes the test binary the weir that a lab runs: `weir run` is the real
// one, with its children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case rehearse.Arg:
			os.Exit(rehearse.Inside(saboteurs))
		case "run", "worker":
			os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
		}
	}
	labtest.Main(m)
}

var bg = context.Background() // a lab's process has nothing else to end it by

// try rehearses a file, and fails t for what keeps it from being rehearsed.
func try(t *testing.T, o rehearse.Options, path string) *rehearse.Report {
	t.Helper()
	needLab(t)
	o.Progress = func(e rehearse.Event) {
		for _, r := range e.Results {
			t.Logf("%s: %s ok=%v %v", e.Run, r.Drill, r.OK, r.Figures)
		}
	}
	return expect(t, o, path, nil)
}

// expect rehearses a file of which the drills want are to be red, and no other. So
// many labs at once are more than a machine with two processors may have time for:
// what is red besides has to be so twice.
func expect(t *testing.T, o rehearse.Options, path string, want []string) *rehearse.Report {
	t.Helper()
	o.Red = want
	r, err := rehearsed(t.Context(), o, path)
	if err == nil && surplus(red(r), want) {
		t.Logf("taken again: %s", cmp.Diff(want, red(r)))
		r, err = rehearsed(t.Context(), o, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// needLab skips t aloud where there can be no lab.
func needLab(t *testing.T) {
	t.Helper()
	if err := labtest.Missing(); err != nil {
		netnstest.Missing(t, "lab", err)
	}
}

func rehearsed(ctx context.Context, o rehearse.Options, path string) (*rehearse.Report, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	o.Files = []config.File{{Name: path, Src: src}}
	r, err := rehearse.Rehearse(ctx, o)
	if err == nil && len(r.Errors) > 0 {
		err = fmt.Errorf("%q", r.Errors)
	}
	return r, err
}

// red names the drills that failed.
func red(r *rehearse.Report) []string {
	var out []string
	for _, d := range r.Drills {
		if !d.OK {
			out = append(out, d.Drill)
		}
	}
	slices.Sort(out)
	return out
}

func TestStaticFile(t *testing.T) {
	t.Parallel()
	r := try(t, rehearse.Options{Only: []string{"out", "forward", "hairpin"}}, "testdata/static.hcl")
	if len(r.Drills) != 6 {
		t.Errorf("%d drills, want out, forward and hairpin by each family", len(r.Drills))
	}
	for _, d := range r.Drills {
		if !d.OK {
			t.Errorf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
		}
	}
}

// A line that is bad is judged by the families that it has: what goes by the only
// line of the other is moved by nobody, and gone with that line.
func TestFamiliesByDifferentLines(t *testing.T) {
	t.Parallel()
	r := try(t, rehearse.Options{Only: []string{"rough", "nopings", "dark/dsl"}}, "testdata/mixed.hcl")
	for _, d := range r.Drills {
		if !d.OK {
			t.Errorf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
		}
	}
	var faults []string
	for _, p := range r.Promises {
		faults = append(faults, p.Fault)
	}
	if want := "dsl goes dark behind its router, the only line of IPv6"; !slices.Contains(faults, want) {
		t.Errorf("nothing is promised for %q: %q", want, faults)
	}
}

// Each drill that was asked for has to be there, and who mistyped one reads what was meant.
func TestNoSuchDrill(t *testing.T) {
	t.Parallel()
	needLab(t)
	_, err := rehearsed(t.Context(), rehearse.Options{Only: []string{"out", "hairpinn", "forwrad/web"}}, "testdata/static.hcl")
	var none *rehearse.NoSuchDrill
	if !errors.As(err, &none) {
		t.Fatalf("%v", err)
	}
	want := `no drill of this file is called "hairpinn" or "forwrad/web"; did you mean hairpin, forward/web`
	if got := err.Error(); !strings.HasPrefix(got, want) {
		t.Errorf("%.120q, want it to begin with %q", got, want)
	}
}
