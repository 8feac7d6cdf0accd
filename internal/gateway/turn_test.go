package gateway

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"weir/internal/plan"
)

// What others changed is named in the log, with what was there; what weir does of its
// own is not, and a crowd is cut.
func TestWhatWasPutRightIsNamed(t *testing.T) {
	mended := func(steps ...plan.Step) string {
		var b bytes.Buffer
		tellMended(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}})), steps)
		return b.String()
	}
	route := plan.Step{Op: plan.Change, Drift: true, Object: "route", Name: "default", Old: "via 192.0.2.9 dev lan", New: "via 172.31.255.1 dev fiber", Why: "changed by hand"}
	table := plan.Step{Op: plan.Change, Drift: true, NS: "wan-fiber", Object: "nft table", Name: "weir", Why: `rule "web" removed by hand, will come back`}
	own := plan.Step{Op: plan.Add, Object: "address", Name: "lan", New: "172.31.0.1/24"}
	want := `msg="put right" what="route default" namespace=main why="changed by hand" found="via 192.0.2.9 dev lan" now="via 172.31.255.1 dev fiber"` + "\n" +
		`msg="put right" what="nft table weir" namespace=wan-fiber why="rule \"web\" removed by hand, will come back"` + "\n"
	if got := mended(own, route, own, table); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	many := make([]plan.Step, 3*mostMended)
	for i := range many {
		many[i] = route
	}
	got := mended(many...)
	if lines := strings.Count(got, "\n"); lines != mostMended+1 || !strings.Contains(got, "objects=20") {
		t.Errorf("%d lines of %d:\n%s", lines, len(many), got)
	}
}
