package cases

import (
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

// TestLostInTheMidstOfAnApply: a line is lost while a new file is being put in force,
// in one of its steps. The file, or after a failure the one before, is in force whole;
// the house is on the line that works within a second of that, and what went by the
// lost one has moved or is told.
func TestLostInTheMidstOfAnApply(t *testing.T) {
	t.Parallel()
	more := base + "forward \"more\" {\n  port = 8443\n  to   = host.nas\n}\n"
	prefersLTE := strings.Replace(more, "[wan.fiber, wan.lte]", "[wan.lte, wan.fiber]", 1)
	for _, c := range []struct {
		name, with string
		lost, by   string // lines
		told       bool   // the carrier goes too
		fails      bool
	}{
		{"the line in use goes dark", more, "fiber", "lte", false, false},
		{"its carrier goes", more, "fiber", "lte", true, false},
		{"the file prefers the line that goes dark", prefersLTE, "lte", "fiber", false, false},
		{"the file prefers the line whose carrier goes", prefersLTE, "lte", "fiber", true, false},
		{"and a step fails", more, "fiber", "lte", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(h *house) {
				lines := map[string]*lab.ISP{"fiber": h.connect(fiberLine()), "lte": h.connect(lteLine())}
				pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
				h.slowNft()
				h.start(base)
				h.untilOutBy(pc, "fiber", 20*time.Second)
				h.until("lte is up", 10*time.Second, func() bool { return h.verdict("lte") == "up" })

				calls := h.talkTo(pc.Host, []string{web4}, lab.Datagrams)
				waiting := h.talkTo(pc.Host, []string{web4}, connections...)
				ping, err := pc.Ping(lab.Web(false), 10*time.Millisecond)
				h.must(err)
				if _, ok := ping.Answered(h.Context(), time.Time{}, 5*time.Second); !ok {
					h.Fatal("no echo is answered before")
				}

				with := h.dir + "/with.hcl"
				h.must(os.WriteFile(with, []byte(c.with), 0o600))
				if c.fails {
					h.must(os.WriteFile(h.dir+"/fail", []byte("8443"), 0o600))
				}
				h.must(os.WriteFile(h.dir+"/slow", []byte("0.7"), 0o600))
				type applied struct {
					out string
					err error
					at  time.Time
				}
				done := make(chan applied, 1)
				go func() {
					out, err := h.tell("apply", with, "--yes")
					done <- applied{out, err, time.Now()}
				}()
				h.until("a step is under way", 10*time.Second, func() bool { _, err := os.Stat(h.dir + "/waits"); return err == nil })
				lost := lines[c.lost]
				lose := func(yes bool) {
					if c.told {
						h.must(lost.Carrier(!yes))
					} else {
						h.must(lost.Dark(yes))
					}
				}
				lose(true)
				cut := time.Now()
				select {
				case a := <-done:
					h.Fatalf("the file was in force before the line was lost (%v): %s", a.err, a.out)
				default:
				}
				a := <-done
				h.must(os.Remove(h.dir + "/slow"))
				if (a.err != nil) != c.fails || c.fails && !strings.Contains(a.out, "made to fail") {
					h.Fatalf("apply: %v\n%s", a.err, a.out)
				}
				took := max(0, a.at.Sub(cut))

				// By the line that works within a second of the apply's end, whatever it was
				// by before: an apply holds up whoever decides.
				within := took + time.Second + lab.Late
				for _, k := range calls {
					at, ok := k.HeardFrom(h.Context(), "inet-"+c.by, cut.Add(took), 3*time.Second)
					if !ok || at.Sub(cut) > within {
						h.Errorf("%s: by %s %v after the line was lost (%t), and the apply took %v of that", k.name, c.by, at.Sub(cut), ok, took)
					}
				}
				h.untilOutBy(pc, c.by, 5*time.Second)
				for _, k := range waiting {
					_, err, ended := k.Ended(h.Context(), time.Until(cut.Add(within+3*time.Second)))
					if on := k.First.Host == "inet-"+c.lost; ended != on || ended && !lab.Reset(err) {
						h.Errorf("%s, by %s: ended %t: %v", k.name, k.First.Host, ended, err)
					}
				}
				gap := lab.Longest(ping.Stop())
				h.Logf("the apply ended %v after the line was lost; %d echoes were lost in %v", took, gap.Lost, gap.Len())
				if gap.Len() > within {
					h.Errorf("no echo was answered for %v, and the apply took %v of that", gap.Len(), took)
				}

				inForce := with
				if c.fails {
					inForce = h.file
					h.must(os.Remove(h.dir + "/fail"))
				}
				if from := h.status().File.From; from != inForce {
					h.Errorf("in force is %s, and not %s", from, inForce)
				}
				h.until("there is nothing to mend", 5*time.Second, func() bool { _, err := h.tell("plan", "--exit-code", inForce); return err == nil })
				lose(false)
				h.untilOutBy(pc, c.lost, 20*time.Second)
				h.until("there is nothing to mend then", 5*time.Second, func() bool { _, err := h.tell("plan", "--exit-code", inForce); return err == nil })
				h.strays(lines["fiber"], lines["lte"])
			})
		})
	}
}
