package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

// killedRounds is how often the daemon is killed in each of two labs: `make soak` says
// how often in all.
func killedRounds(t *testing.T) int {
	n := 50
	if s := os.Getenv("WEIR_SOAK_KILLS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return (n + 1) / 2
}

// stepsTo is how many steps a file is away, as told where no daemon runs.
func (h *house) stepsTo(file string) (n int) {
	h.Helper()
	var out string
	// A child that is being forked holds the dead daemon's socket for a moment.
	if !lab.Until(h.Context(), 3*time.Second, func() (ok bool) {
		var err error
		out, err = h.tell("plan", file)
		return err == nil
	}) {
		h.Fatalf("no plan without a daemon: %s", out)
	}
	_, last, ok := strings.Cut(out, "\nPlan: ")
	if !ok {
		return 0
	}
	var add, change, remove int
	_, err := fmt.Sscanf(last, "%d to add, %d to change, %d to remove.", &add, &change, &remove)
	h.must(err)
	return add + change + remove
}

// changed is when a file was last written.
func (h *house) changed(file string) time.Time {
	h.Helper()
	st, err := os.Stat(file)
	h.must(err)
	return st.ModTime()
}

// untilChanged waits, for two seconds at most, until it is written again.
func (h *house) untilChanged(file string, since time.Time) {
	h.Helper()
	for range 1000 {
		if st, err := os.Stat(file); err == nil && !st.ModTime().Equal(since) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// wider is base with two lines more, which are plugged into nothing: putting it in
// force takes a hundred steps, and a while.
const wider = base + `
wan "dsl" { interface = "eth5" }
wan "cable" { interface = "eth6" }
allow "ssh" {
  from = wan
  to   = self
  port = 22
}
`

// The daemon is killed at any moment while it starts, takes another file, gives out a
// lease, or moves the house to another line. No packet of a flow that none of this is
// about is lost. What the next start finds is the old house, the new one, or part of
// the way, and it makes the one that is in force of it.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	rounds := killedRounds(t)
	for i := range 2 {
		t.Run(strconv.Itoa(i), func(t *testing.T) { killAtAnyMoment(t, rounds, false) })
	}
}

// A kill that costs packets is seen: what is sabotaged is a line's own filter.
func TestKilledAndPacketsLost(t *testing.T) { killAtAnyMoment(t, 1, true) }

func killAtAnyMoment(t *testing.T, rounds int, sabotage bool) {
	in(t, func(h *house) {
		fiber := h.connect(fiberLine())
		h.connect(lteLine())
		for _, port := range []string{"eth5", "eth6"} {
			sw, err := h.Switch("for" + port)
			h.must(err)
			h.must(sw.Plug(lab.Plug{Host: h.gw, Dev: port}))
		}
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		phone := h.join("phone", "")
		h.start(base)
		h.untilOutBy(pc, "fiber", 30*time.Second)
		h.until("a lease", 20*time.Second, func() bool {
			ctx, end := context.WithTimeout(h.Context(), 3*time.Second)
			defer end()
			_, err := phone.Lease(ctx)
			return err == nil
		})
		files := map[string]string{"narrow": h.dir + "/narrow.hcl", "wider": h.dir + "/wider.hcl"}
		h.must(os.WriteFile(files["narrow"], []byte(base), 0o600))
		h.must(os.WriteFile(files["wider"], []byte(wider), 0o600))

		seed := uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // when it is killed
		took := 400 * time.Millisecond        // an apply, until it is known
		echoes := func(to string) *lab.Ping {
			p, err := pc.Ping(addr(to), 10*time.Millisecond)
			h.must(err)
			return p
		}
		next, now := "wider", "narrow"
		inside, lost, applies, killed := 0, 0, 0, 0
		// A third is to fall into an apply: where chance had it otherwise more of them follow.
		for round := 0; round < rounds || !sabotage && inside*3 < round && round < 2*rounds; round++ {
			kinds := []string{"apply", "apply", "lease", "apply", "boot", "apply", "failover", "apply", "lease", "apply", "boot"}
			what := kinds[round%len(kinds)]
			if sabotage {
				what = "lease"
			} else if round >= rounds {
				what = "apply"
			}
			killed++
			echo := []*lab.Ping{echoes("172.31.0.1")}
			if what != "failover" { // which costs what the line does
				echo = append(echo, echoes("192.0.2.80"), echoes("2001:db8:80::80"))
			}
			for _, p := range echo {
				if _, ok := p.Answered(h.Context(), time.Time{}, 5*time.Second); !ok {
					h.Fatalf("round %d, %s: no echo is answered, and nothing was done yet; seed %d", round, what, seed)
				}
			}
			begin := time.Now()
			switch what {
			case "apply":
				applies++
				loaded := h.changed(h.dir + "/weir/nft.json")
				go func() { _, _ = h.tell("apply", files[next], "--yes") }()
				h.untilChanged(h.dir+"/weir/nft.json", loaded) // the first ruleset of several
				time.Sleep(time.Duration(rnd.Int64N(int64(took / 2))))
			case "lease":
				go func() {
					ctx, end := context.WithTimeout(h.Context(), time.Second)
					defer end()
					_, _ = phone.Lease(ctx)
				}()
				time.Sleep(time.Duration(rnd.Int64N(int64(50 * time.Millisecond))))
			case "boot":
				h.end(syscall.SIGKILL)
				h.again()
				time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
			case "failover":
				h.must(fiber.Dark(true))
				time.Sleep(500*time.Millisecond + time.Duration(rnd.Int64N(int64(time.Second))))
			}
			h.end(syscall.SIGKILL)
			if sabotage {
				h.sh(h.gw, "ip netns exec wan-fiber nft flush chain inet weir through; sleep 0.2")
			}
			if what == "failover" {
				h.must(fiber.Dark(false))
			}
			if what == "apply" {
				if toOld, toNew := h.stepsTo(files[now]), h.stepsTo(files[next]); toOld > 0 && toNew > 0 {
					inside++
					h.Logf("killed in the middle of an apply: %d steps from the old, %d from the new", toOld, toNew)
				} else if toNew == 0 { // it was over: the machine has less to do than when it was timed
					took = took * 3 / 4
				}
			}
			h.again()
			h.until(fmt.Sprintf("round %d, %s: it is as the file in force says (seed %d)", round, what, seed), 30*time.Second, func() bool {
				out, err := h.tell("status", "--json")
				var s api.Status
				if err != nil || json.Unmarshal([]byte(out), &s) != nil || s.Turn.Count == 0 || s.Turn.Error != "" {
					return false
				}
				if now = "narrow"; strings.HasSuffix(s.File.From, "wider.hcl") {
					now = "wider"
				}
				_, err = h.tell("plan", files[now], "--exit-code")
				return err == nil
			})
			if next = "wider"; now == "wider" {
				next = "narrow"
			}
			if what == "apply" && round < 2 {
				t := time.Now()
				if out, err := h.tell("apply", files[next], "--yes"); err != nil {
					h.Fatal(out)
				}
				took = time.Since(t)
				now, next = next, now
			}
			time.Sleep(lab.Late)
			for _, p := range echo {
				var settled []lab.Beat
				for _, x := range p.Stop() {
					// One that is answered late was not lost: the test's own machine is busy.
					if late := x.RTT >= lab.Late; !late && x.Sent.After(begin) && (x.Good() || time.Since(x.Sent) > lab.Late) {
						settled = append(settled, x)
					}
				}
				for _, g := range lab.Gaps(settled) {
					if lost += g.Lost; sabotage {
						continue
					}
					h.Errorf("round %d, %s: %d echoes lost over %v, seed %d", round, what, g.Lost, g.Len(), seed)
				}
			}
			if what == "failover" {
				h.untilOutBy(pc, "fiber", 30*time.Second)
			}
		}
		h.strays(fiber)
		h.Logf("killed %d times, %d of %d applies in the middle, %d packets lost, seed %d", killed, inside, applies, lost, seed)
		if sabotage {
			if lost == 0 {
				h.Error("no packet passed for a while, and none is missed")
			}
			return
		}
		if inside*3 < killed {
			h.Errorf("only %d of %d kills fell into an apply: a third is wanted", inside, killed)
		}
	})
}
