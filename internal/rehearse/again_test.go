package rehearse

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What is told as it comes is what counts: a time that fails is said to be taken again,
// and its verdict is told once, of the take in the middle.
func TestTakenAgain(t *testing.T) {
	late := func(s float64) Result {
		return Result{Drill: "dark/fiber/gap", Judged: &Limit{Value: s, Most: 1}, OK: s <= 1}
	}
	broken := Result{Drill: "dark/fiber/gap", Seen: "it hangs"}
	for _, c := range []struct {
		name  string
		o     Options
		run   Run
		takes []Result
		want  string // a word for each take: again, ok, FAIL, or - for nothing
	}{
		{"in time", Options{}, Run{}, []Result{late(0.9)}, "ok"},
		{"late once", Options{}, Run{}, []Result{late(1.1), late(0.9), late(0.8)}, "again again ok"},
		{"late twice", Options{}, Run{}, []Result{late(1.1), late(0.9), late(1.2)}, "again again FAIL"},
		{"late, then broken", Options{}, Run{}, []Result{late(1.1), broken, late(0.9)}, "again again FAIL"},
		{"broken", Options{}, Run{}, []Result{broken}, "FAIL"},
		{"taken beside another", Options{}, Run{}, []Result{late(0.9), late(0.9), late(0.9)}, "ok - -"},
		{"a run of minutes", Options{}, Run{Takes: time.Minute}, []Result{late(1.1)}, "FAIL"},
		{"labs that stay", Options{Keep: true}, Run{}, []Result{late(1.1)}, "FAIL"},
		{"to be red", Options{Red: []string{"dark/fiber/gap"}}, Run{}, []Result{late(1.1)}, "FAIL"},
	} {
		g := &gathering{o: c.o, report: &Report{}, results: map[string][]Result{}}
		var got []string
		for _, r := range c.takes {
			found, again := g.take(message{Results: []Result{r}}, c.run)
			switch {
			case len(again) > 0:
				got = append(got, "again")
			case len(found) == 0:
				got = append(got, "-")
			case found[0].OK:
				got = append(got, "ok")
			default:
				got = append(got, "FAIL")
			}
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: told %v, want %v", c.name, got, want)
		}
	}
}

// A busy machine is told beside a red drill, and excuses none.
func TestBusyMachine(t *testing.T) {
	for _, c := range []struct {
		ok   bool
		busy Busy
		want string // "": nothing is said
	}{
		{false, Busy{Waited: 0.43}, "this lab waited up to 430 ms for a processor"},
		{false, Busy{Waited: 0.004, Share: 0.92}, "something waited for a processor 92 % of the time, this lab up to 4.0 ms"},
		{false, Busy{Waited: 0.004, Share: 0.3}, ""},
		{true, Busy{Waited: 0.43, Share: 0.92}, ""},
	} {
		r := &Report{OK: c.ok, Labs: 1, Drills: []Result{{Drill: "dark/fiber/gap", OK: c.ok, Busy: c.busy}}}
		var out strings.Builder
		if err := r.Print(&out, false); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "busy") {
			t.Errorf("ok %t, %+v: want %q in\n%s", c.ok, c.busy, c.want, got)
		}
		if failed := strings.Contains(out.String(), "FAIL"); failed == c.ok {
			t.Errorf("ok %t, %+v: FAIL is %t in\n%s", c.ok, c.busy, failed, &out)
		}
	}
}

func TestStalled(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"some avg10=31.65 avg60=76.68 avg300=54.18 total=1787251277\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n": 1787251277 * time.Microsecond,
		"": 0, "some": 0, "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": 0,
	} {
		if got := stalled(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var l lateness
		go l.watch(ctx)
		time.Sleep(time.Minute)
		if d := l.since(); d != 0 {
			t.Errorf("a machine with nothing else to do was late by %s", d)
		}
		l.note(300 * time.Millisecond)
		l.note(20 * time.Millisecond)
		if d := l.since(); d != 300*time.Millisecond {
			t.Errorf("the worst was %s, want 300ms", d)
		}
		if d := l.since(); d != 0 {
			t.Errorf("%s is told twice", d)
		}
	})
}
