package cases

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/lab"
)

// TestAMeteredLineOfARoute: a device is led to a line in reserve that is paid by
// volume and so asked each 30 s. When it dies in the midst of a call, the call goes
// on by the other line within two seconds; when it dies in silence, who begins
// something there waits for twelve at most. While the call goes on nearly no probe
// is paid for.
func TestAMeteredLineOfARoute(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft")
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		tv := h.join("tv", "02:00:00:00:00:24", "172.31.0.24/24")
		h.start(strings.Replace(base, `interface = "eth2"`, "interface = \"eth2\"\n  metered = true", 1) + `
route "tv" {
  from   = "172.31.0.24/32"
  prefer = wan.lte
}
`)
		h.untilOutBy(tv, "lte", 20*time.Second)
		var probes atomic.Int64
		defer lte.Wire.Watch(func(f lab.Frame) {
			if (f.Dst == addr("1.1.1.1") || f.Dst == addr("8.8.8.8")) && f.ICMP == 8 {
				probes.Add(1)
			}
		})()

		call := h.talkTo(tv.Host, []string{web4}, lab.Datagrams)[0]
		begun := time.Now()
		if _, ok := call.HeardFrom(h.Context(), "inet-lte", begun, 5*time.Second); !ok {
			t.Fatal("the call does not go by lte")
		}
		// In 8 s of a call that goes on and new flows besides, which are answered. Too many
		// are counted twice more, and the median counts.
		paid := func() int64 {
			before := probes.Load()
			for range 8 {
				h.untilOutBy(tv, "lte", time.Second)
				if _, ok := call.HeardFrom(h.Context(), "inet-lte", time.Now().Add(time.Second), 3*time.Second); !ok {
					t.Fatal("the call has ended")
				}
			}
			return probes.Load() - before
		}
		n := paid()
		if n > 2 {
			all := []int64{n, paid(), paid()}
			slices.Sort(all)
			n = all[1]
		}
		if n > 2 {
			h.Errorf("%d probes in 8 s of a call that goes on and new flows that are answered", n)
		}

		h.must(lte.Dark(true))
		cut := time.Now()
		if at, ok := call.HeardFrom(h.Context(), "inet-fiber", cut, 10*time.Second); !ok || at.Sub(cut) > 2500*time.Millisecond {
			h.Errorf("the call went on by fiber %v after the cut (%v)", at.Sub(cut), ok)
		} else {
			t.Logf("the call went on by fiber %v after the cut", at.Sub(cut))
		}
		call.Close()
		h.untilOutBy(tv, "fiber", 2*time.Second)

		h.must(lte.Dark(false))
		h.untilOutBy(tv, "lte", 15*time.Second)
		h.must(lte.Dark(true))
		t.Logf("with nobody there, %v until a new flow went by fiber", h.untilOutBy(tv, "fiber", 14*time.Second))
		h.strays(fiber, lte)
	})
}
