package cli

import (
	"testing"

	"weir/internal/api"
)

// TestNotYet: who chooses a line that does not work is told so, and when it is taken.
func TestNotYet(t *testing.T) {
	s := api.Status{WANs: []api.WAN{
		{Name: "fiber", IPv4: api.Line{Verdict: api.VerdictUp}, IPv6: api.Line{Verdict: api.VerdictReturning}},
		{Name: "dsl", IPv4: api.Line{Verdict: api.VerdictDown, Why: "no carrier"}, IPv6: api.Line{Verdict: api.VerdictOff}},
	}}
	for wan, want := range map[string]string{
		"": "", "fiber": "",
		"dsl": "IPv4 of dsl is down: no carrier. It is taken once it has been good for its hold-down; said again, as soon as it answers.\n" +
			"IPv6 of dsl is off: the file does not want it.\n",
	} {
		if got := notYet(wan, s); got != want {
			t.Errorf("%s: %q, want %q", wan, got, want)
		}
	}
}
