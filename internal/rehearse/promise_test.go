package rehearse

import (
	"strings"
	"testing"
)

func TestTimelineString(t *testing.T) {
	line := &Timeline{}
	// From 0.2 s before to 0.6 s after the fault, lost from 0.05 to 0.25 s.
	for i := -20; i < 60; i++ {
		at := float64(i) / 100
		line.Beats = append(line.Beats, Beat{At: at + 0.001, OK: at < 0.05 || at > 0.25})
	}
	if got, want := line.String(), "──╎×××───"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for name, l := range map[string]*Timeline{"none": nil, "empty": {}} {
		if got := l.String(); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestPromises(t *testing.T) {
	notice, gap := 0.85, 0.9
	r := &Report{OK: true, Labs: 1, Drills: []Result{{Drill: "dark/fiber/gap/IPv4", OK: true}}, Promises: []Promise{
		{Fault: "fiber goes dark", Notice: &notice, Gap: &gap, Reset: 3, Flows: 4, Asked: 300},
		{Fault: "fiber loses 30 %", Flows: 4, Unrelated: 2, Asked: 500},
	}}
	var out strings.Builder
	if err := r.Print(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"fiber goes dark       850 ms     900 ms   3 of 4        0 of 300\n",
		"fiber loses 30 %           -          -   0 of 4        2 of 500\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
}
