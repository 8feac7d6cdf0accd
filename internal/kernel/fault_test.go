package kernel_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/netns/netnstest"
	"weir/internal/plan"
	"weir/internal/ruleset"
)

// tamper stands between the Kernel and the kernel: the change of number fail is not
// made, and is an error. Those after it undo; of them the one of number forget is not
// made, and nothing is said.
type tamper struct {
	on           bool
	dead         bool     // from the change of number fail on nothing is done: a crash
	fail, forget int      // from 1; 0: none
	making       []string // what was done before
	step         int      // of the plan, from 1, that is being made
	steps        []int    // that of each of making
	failed       string   // what was to be done, "" if nothing has failed
	undoing      []string // what was done to undo
}

func (x *tamper) through(what string, do func() error) error {
	switch {
	case !x.on:
	case x.failed == "":
		x.steps = append(x.steps, x.step)
		if x.making = append(x.making, what); len(x.making) == x.fail {
			x.failed = what
			return unix.EIO
		}
	case x.dead:
		return unix.EIO
	default:
		x.undoing = append(x.undoing, what)
		if len(x.undoing) == x.forget {
			return nil
		}
	}
	return do()
}

func tampered(t testing.TB) (*bench, *tamper) {
	b, x := newBench(t), &tamper{}
	b.opt.Through(x.through)
	b.opt.Progress = func() { x.step++ }
	b.open()
	return b, x
}

// attempt applies p with its change of number fail failing. It is false when p has
// fewer changes and was carried out.
func (b *bench) attempt(x *tamper, p plan.Plan, fail, forget int) bool {
	b.Helper()
	*x = tamper{on: true, fail: fail, forget: forget}
	err := b.k.Apply(b.Context(), p)
	x.on = false
	if x.failed == "" {
		b.must(err)
		return false
	}
	var step *kernel.StepError
	if !errors.As(err, &step) && !onlyFlows(p, x) {
		b.Fatalf("change %d (%s) failed, and the error is %v", fail, x.failed, err)
	}
	if step != nil && step.Undo != nil && forget == 0 { // what is forgotten may fail what else is to be undone
		b.Fatalf("change %d (%s) failed: %v\n%s", fail, x.failed, err, p)
	}
	return true
}

const endsFlows = "netlink message 258" // IPCTNL_MSG_CT_DELETE

// onlyFlows says that what failed was to end flows, which fails nothing.
func onlyFlows(p plan.Plan, x *tamper) bool {
	return x.failed == endsFlows && slices.ContainsFunc(p.Steps, func(s plan.Step) bool { _, ok := s.Do.(plan.DeleteFlows); return ok })
}

// eachFails carries out b's plan after having let its changes fail, one by one, each or
// one of so many: after each the kernel is as it was. It returns how many failed.
func (b *bench) eachFails(x *tamper, what string, oneOf int, rnd *rand.Rand) (failed int) {
	b.Helper()
	b.flows()
	before := b.settled()
	p := b.plan()
	for n := 1 + rnd.IntN(oneOf); b.attempt(x, p, n, 0); n += 1 + rnd.IntN(2*oneOf-1) {
		failed++
		if onlyFlows(p, x) { // the plan was carried out all the same
			again := b.plan()
			if len(again.Steps) == 0 || again.Steps[0].Object != "flows" {
				b.Fatalf("%s: flows could not be ended, and the next plan is\n%s", what, again)
			}
			b.must(b.k.Apply(b.Context(), again))
			break
		}
		if d := b.differs(before, patience); len(d) > 0 {
			b.Fatalf("%s: change %d (%s) failed, and after undoing:\n%s\n%s", what, n, x.failed, strings.Join(d, "\n"), p)
		}
	}
	if again := b.plan(); !again.Empty() {
		b.Fatalf("%s: carried out, and the plan is not empty:\n%s", what, again)
	}
	return failed
}

// contexts tells for each change that a plan made in what it stands: what it is and of
// which step, how many of that step's came before, and what the step before did. Changes
// that are alike in all of it are undone alike.
func (x *tamper) contexts(p plan.Plan) (all []string) {
	step := func(n int) string {
		if n < 1 || n > len(p.Steps) {
			return ""
		}
		s := p.Steps[n-1]
		place := "main"
		if s.NS != "" {
			place = "wan"
		}
		how := ""
		switch do := s.Do.(type) {
		case plan.SetLink:
			how = fmt.Sprint(do.New.Up != nil, do.New.MTU != 0, do.New.MAC != "", do.New.Master != nil, do.New.AddrGen != nil, do.Bounce)
		case plan.PutAddr:
			how = fmt.Sprint(do.Old != nil, do.New.Prefix.Addr().Is4())
		case plan.DeleteAddr:
			how = fmt.Sprint(len(do.Lost) > 0, do.Addr.Prefix.Addr().Is4())
		case plan.PutRoute:
			how = fmt.Sprint(do.Old != nil, do.New.Type, do.New.Dst.Addr().Is4(), do.New.Hops != "")
		case plan.PutRule:
			how = fmt.Sprint(do.Old != nil, do.New.V6)
		case plan.AddLink:
			how = fmt.Sprint(do.Link.Kind)
		case plan.DeleteLink:
			how = fmt.Sprint(do.Link.Kind, len(do.Lost.Members) > 0, len(do.Lost.Addrs) > 0)
		case plan.MoveLink:
			how = fmt.Sprint(do.From != "", len(do.Lost.Addrs) > 0, do.Lost.Master != "", do.Lost.Up)
		case plan.LoadTable:
			how = fmt.Sprint(do.Old.Exists, do.New.Text == "")
		}
		return fmt.Sprintf("%s %s %T %s", s.Op, place, s.Do, how)
	}
	nth := 0
	for i, what := range x.making {
		if i > 0 && x.steps[i] == x.steps[i-1] {
			nth++
		} else {
			nth = 0
		}
		kind, _, _ := strings.Cut(what, " net/")
		all = append(all, fmt.Sprintf("%s (%d of %s) after %s", kind, nth, step(x.steps[i]), step(x.steps[i]-1)))
	}
	return all
}

// newFail is eachFails for the changes whose context tried has not; back leads from the
// plan's end to its beginning.
func (b *bench) newFail(x *tamper, what string, tried map[string]bool, back func()) (failed, changes int) {
	b.Helper()
	b.flows()
	p, goal := b.plan(), b.want
	b.attempt(x, p, 0, 0)
	var numbers []int
	contexts := x.contexts(p)
	for i, c := range contexts {
		if !tried[c] {
			tried[c] = true
			numbers = append(numbers, i+1)
		}
	}
	if len(numbers) == 0 {
		return 0, len(contexts)
	}
	back()
	b.want = goal
	b.flows()
	before := b.settled()
	p = b.plan()
	for _, n := range numbers {
		if !b.attempt(x, p, n, 0) || onlyFlows(p, x) {
			return failed, len(contexts) // it was carried out
		}
		failed++
		if d := b.differs(before, patience); len(d) > 0 {
			b.Fatalf("%s: change %d (%s) failed, and after undoing:\n%s\n%s", what, n, x.failed, strings.Join(d, "\n"), p)
		}
	}
	b.must(b.k.Apply(b.Context(), p))
	return failed, len(contexts)
}

// flows puts connections into main's conntrack, of each line some that went out and
// some that came in: none of them is lost by a failed apply.
func (b *bench) flows() {
	b.Helper()
	b.in("", func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		for line := range uint32(2) {
			for i, mark := range []uint32{line + 1, line + 1 | ruleset.MarkTCP, line + 1 | ruleset.MarkIn} {
				f := conntrack.NewFlow(17, conntrack.StatusSeenReply|conntrack.StatusConfirmed, netip.MustParseAddr("172.31.0.50"), netip.MustParseAddr("192.0.2.80"),
					uint16(20000+10*int(line)+i), 443, 3600, mark)
				if err := c.Create(f); err != nil && !errors.Is(err, unix.EEXIST) {
					return fmt.Errorf("a flow for conntrack: %w", err)
				}
			}
		}
		return nil
	})
}

// everybodys are the files that are shown to people or tried by tests.
var everybodys = []string{"../../examples/*.hcl", "../*/testdata/*.hcl"}

// Every change that a plan makes, made to fail in turn, for the plans that lead from
// each house to each other one, up from a machine with a life of its own, and down
// again: what was done before is undone, and the kernel is as it was. Here it is a small
// part, always the same. All of it takes hours, and has WEIR_LONG=each.
func TestEachChangeFails(t *testing.T) {
	long := os.Getenv("WEIR_LONG") == "each"
	netnstest.Alone(t, func(t *testing.T) {
		b, x := tampered(t)
		wants, names := b.houses(15, everybodys...)
		b.lived()
		b.noDAD()
		seed, oneOf, walks, plans, changes := uint64(1), 20, 1, 0, 0
		if long {
			seed = uint64(time.Now().UnixNano())
			oneOf, walks = 1, len(wants)*(len(wants)-1)
		}
		rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // which plans are tried
		try := func(what string, want desired.Desired) {
			b.want = want
			begin := time.Now()
			n := b.eachFails(x, what, oneOf, rnd)
			changes, plans = changes+n, plans+1
			t.Logf("%s: %d changes in %v; %d of %d plans so far, seed %d", what, n, time.Since(begin).Round(time.Millisecond), changes, plans, seed)
		}
		pairs := rnd.Perm(len(wants) * (len(wants) - 1))[:walks]
		for k, pair := range pairs {
			i, j := pair/(len(wants)-1), pair%(len(wants)-1)
			if j >= i {
				j++
			}
			if k%(len(wants)-1) == 0 { // so often that each is tried once
				i := (pair + k/(len(wants)-1)) % len(wants)
				try("up: "+names[i], wants[i])
				b.noDAD()
				try("down: "+names[i], desired.Desired{})
			}
			b.want = wants[i]
			b.turn()
			b.noDAD()
			try(names[i]+" -> "+names[j], wants[j])
			b.must(b.k.Down(t.Context()))
		}
	})
}

// Of all plans between all houses, up and down, each kind of change fails once in each
// place that a plan has it in (contexts). WEIR_LONG has it all, in an order of chance, and
// WEIR_MINUTES how long it may take; else it is one plan.
func TestEachKindOfChangeFails(t *testing.T) {
	most, limit, seed := 1, time.Hour, uint64(1)
	if os.Getenv("WEIR_LONG") != "" {
		most, seed = 1<<20, uint64(time.Now().UnixNano())
	}
	if s := os.Getenv("WEIR_MINUTES"); s != "" {
		var err error
		if limit, err = time.ParseDuration(s + "m"); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	netnstest.Alone(t, func(t *testing.T) {
		b, x := tampered(t)
		wants, names := b.houses(15, everybodys...)
		b.lived()
		b.noDAD()
		tried := map[string]bool{}
		plans, failed, changes := 0, 0, 0
		try := func(what string, want desired.Desired, back func()) {
			b.want = want
			t.Logf("%v: %s, seed %d", time.Since(begin).Round(time.Second), what, seed) // shown where one fails
			f, c := b.newFail(x, what, tried, back)
			failed, changes, plans = failed+f, changes+c, plans+1
		}
		down := func() { b.must(b.k.Down(t.Context())) }
		to := func(want desired.Desired) func() {
			return func() {
				b.want = want
				b.turn()
				b.noDAD()
			}
		}
		pairs := rand.New(rand.NewPCG(seed, 0)).Perm(len(wants) * len(wants)) //nolint:gosec // which plans are tried
		for _, pair := range pairs[:min(most, len(pairs))] {
			if time.Since(begin) > limit {
				break
			}
			i, j := pair/len(wants), pair%len(wants)
			if i == j { // stands for nothing in force
				try("up: "+names[i], wants[i], down)
				b.noDAD()
				try("down: "+names[i], desired.Desired{}, to(wants[i]))
				continue
			}
			to(wants[i])()
			try(names[i]+" -> "+names[j], wants[j], to(wants[i]))
			down()
		}
		t.Logf("%d plans of %d changes: %d failed, each in a place of its own, and were undone; %d of %d pairs, seed %d", plans, changes, failed, plans, len(pairs), seed)
	})
}

// thirdHouse is otherHouse with a bridge and a route of its own in main, which go with
// nothing else.
func thirdHouse() desired.Desired {
	h := otherHouse()
	main := &h.Namespaces[0]
	main.Links = append(main.Links, desired.Link{Name: "loft", Kind: desired.Bridge, Up: true})
	main.Routes = append(main.Routes, desired.Route{Dst: netip.MustParsePrefix("10.9.0.0/16"), Gateway: netip.MustParseAddr("172.31.0.77"), Link: "eth0"})
	return h
}

// What the test above compares shows each kind of thing that an undo could forget. With
// WEIR_LONG all kinds are tried, else four.
func TestForgottenUndoShows(t *testing.T) {
	most := 4
	if os.Getenv("WEIR_LONG") != "" {
		most = 100
	}
	netnstest.Alone(t, func(t *testing.T) {
		b, x := tampered(t)
		b.turn()
		b.want = thirdHouse()
		b.attempt(x, b.plan(), 0, 0)
		last := slices.Index(append(x.making, endsFlows), endsFlows) // of what can be undone
		back := func() {
			b.want = house()
			b.opt.RuntimeDir = t.TempDir() // what was forgotten is not known either
			b.open()
			b.turn()
			b.want = thirdHouse()
		}
		back()
		b.attempt(x, b.plan(), last, 0)
		kinds := map[string][]int{} // the undoing changes of each kind, by their number
		for i, what := range x.undoing {
			kind, _, _ := strings.Cut(what, " net/")
			kinds[kind] = append(kinds[kind], i+1)
		}
		if len(kinds) < 9 {
			t.Errorf("too few kinds of undo are tried: %v", kinds)
		}
		for kind, numbers := range kinds {
			if most--; most < 0 {
				break
			}
			caught := false
			for _, m := range numbers {
				back()
				before := b.settled()
				b.attempt(x, b.plan(), last, m)
				// Without patience: what is caught is not to be waited for.
				if caught = len(b.differs(before, 0)) > 0; caught {
					break
				}
			}
			if !caught {
				t.Errorf("an undo that forgets a change of the kind %q is not seen (tried %v)", kind, numbers)
			}
		}
	})
}

// The daemon dies before any change of a plan: the next one makes of what it finds the
// old house, and the new one. Without WEIR_LONG one change of eight is tried.
func TestDiesBeforeEachChange(t *testing.T) {
	oneOf := 8
	if os.Getenv("WEIR_LONG") != "" {
		oneOf = 1
	}
	netnstest.Alone(t, func(t *testing.T) {
		b, x := tampered(t)
		b.turn()
		tried := 0
		for n := 1; ; n += oneOf {
			b.want = thirdHouse()
			p := b.plan()
			*x = tamper{on: true, dead: true, fail: n}
			err := b.k.Apply(t.Context(), p)
			x.on = false
			if x.failed == "" {
				b.must(err)
				break
			}
			tried++
			b.open()
			for _, want := range []desired.Desired{thirdHouse(), house()} {
				b.want = want
				if p := b.plan(); len(p.Refused) > 0 {
					t.Fatalf("died before change %d (%s), and then: %q", n, x.failed, p.Refused)
				}
				if n%2 == 0 || want.Namespaces[1].Name == "wan-fiber" {
					b.turn()
				}
			}
		}
		t.Logf("died before %d changes", tried)
	})
}
