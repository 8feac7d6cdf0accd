package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

// chaos is a house to which anything happens, and who watches it.
type chaos struct {
	*house
	watch
	fiber, lte *lab.ISP
	fiber6     netip.Addr
	pc, crowd  *lab.Client

	vitalsDir string
	held      map[life][]vitals
	patience  time.Duration
	deaf      bool

	carriedSoFar, carriedNow uint64        // packets; of the program that is there
	wall, up                 time.Duration // what the clocks were stepped by
	files                    int
}

func inChaos(t *testing.T, f func(c *chaos)) {
	in(t, func(h *house) {
		c := &chaos{house: h, patience: 40 * time.Second, vitalsDir: h.dir + "/vitals", held: map[life][]vitals{}}
		c.told = map[string]int{}
		h.must(os.Mkdir(c.vitalsDir, 0o777))
		h.must(os.Chmod(c.vitalsDir, 0o777)) //nolint:gosec // services may have users of their own
		h.env = append(h.env, envVitals+"="+c.vitalsDir, envClocks+"="+h.dir+"/clocks")
		c.setClocks()
		h.must(os.Setenv(envClocks, h.dir+"/clocks")) // of commands too
		c.fiber, c.lte = h.connect(fiberLine()), h.connect(lteLine())
		for _, port := range []string{"eth5", "eth7"} {
			sw, err := h.Switch("for" + port)
			h.must(err)
			h.must(sw.Plug(lab.Plug{Host: h.gw, Dev: port}))
		}
		// What is closed must be so although somebody is there.
		h.must(h.gw.ServeEcho([]uint16{7, 22}, []uint16{7}))
		c.pc = h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		c.crowd = h.join("crowd", "", "172.31.0.51/24")
		nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24")
		h.must(nas.ServeEcho([]uint16{80, 8080, 8443}, []uint16{8080}))

		m := newModel()
		c.is(m.Now)
		h.start(m.Now.text())
		h.untilOutBy(c.pc, "fiber", 30*time.Second)
		var err error
		c.fiber6, err = c.fiber.Seen6(h.Context(), 20*time.Second)
		h.must(err)
		stop := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() { c.lookOn(stop) })
		watching.Go(func() { c.call(stop) })
		f(c)
		close(stop)
		watching.Wait()
	})
}

// setClocks tells the daemon what its clocks were stepped by: over what was there, so that a reader has the old or the new.
func (c *chaos) setClocks() {
	f, err := os.OpenFile(c.dir+"/clocks", os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // services read it
	c.must(err)
	defer f.Close()
	_, err = fmt.Fprintf(f, "%-63s\n", fmt.Sprintf("%d %d", c.wall, c.up))
	c.must(err)
}

// countCarried adds what was carried since the last time.
func (c *chaos) countCarried() {
	_, why := c.carried()
	if why.Fast < c.carriedNow {
		c.carriedNow = 0 // another program
	}
	c.carriedSoFar, c.carriedNow = c.carriedSoFar+why.Fast-c.carriedNow, why.Fast
}

// fileOf writes a file of its own for a house.
func (c *chaos) fileOf(text string) string {
	c.files++
	name := fmt.Sprintf("%s/edit%d.hcl", c.dir, c.files%8)
	c.must(os.WriteFile(name, []byte(text), 0o600))
	return name
}

// apply puts a house in force; that it can't be is a breach.
func (c *chaos) apply(s shape, more ...string) {
	c.mayBe(s)
	if out, err := c.tell(append([]string{"apply", c.fileOf(s.text()), "--yes"}, more...)...); err != nil {
		c.add(obeys, "apply: "+out)
	}
}

// fault gives a line a fault, or takes it.
func (c *chaos) fault(line, fault string, on bool) {
	isp := c.fiber
	if line == "lte" {
		isp = c.lte
	}
	if fault == "dark" {
		c.must(isp.Dark(on))
	} else {
		c.must(isp.Carrier(!on))
	}
}

// do has something happen; before is the house until now.
func (c *chaos) do(a act, before chaosModel) {
	switch a.What {
	case edit:
		c.apply(a.To)
		c.is(a.To)
	case again:
		c.apply(before.Now)
		c.is(before.Now)
	case wrong:
		out, err := c.tell("apply", c.fileOf(before.Now.wrong()), "--yes")
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 {
			c.add(obeys, "a wrong file: "+out)
		}
	case trial:
		within := "2s"
		if a.Slept > 0 {
			within = "1h"
		}
		c.apply(a.To, "--confirm", within)
		c.step(a.Wall, a.Slept) // a trial counts from the boot: the wall's step changes nothing
		if a.Confirm {
			if out, err := c.tell("confirm"); err != nil {
				c.add(obeys, "confirm: "+out)
			}
			c.is(a.To)
			return
		}
		if !lab.Until(c.Context(), 10*time.Second, func() bool { s, ok := c.state(); return ok && s.File.By == "unconfirmed" && s.File.ConfirmBy.IsZero() }) {
			c.add(obeys, "nobody confirmed, and it is not taken back")
		}
	case fail:
		c.fault(a.Line, a.Fault, true)
	case mend:
		c.fault(a.Line, before.Dead[a.Line], false)
	case clients:
		for n := range a.N {
			_, _ = c.take(c.crowd, a.From+n, 500*time.Millisecond)
			_ = c.outBy(c.pc.Host, "udp", web4)
		}
	case clock:
		c.step(a.Wall, a.Slept)
	case kill:
		if a.Applies {
			c.mayBe(a.To)
			file := c.fileOf(a.To.text())
			go func() { _, _ = c.tell("apply", file, "--yes") }()
		}
		time.Sleep(a.After)
		c.end(syscall.SIGKILL)
		c.again()
		// Which of the two was in force is not known: the one that was applied is to be.
		if !lab.Until(c.Context(), 20*time.Second, func() bool { s, ok := c.state(); return ok && s.Turn.Count > 0 }) {
			c.Fatalf("the daemon does not start again")
		}
		if a.Applies {
			c.apply(a.To)
			c.is(a.To)
		}
	}
}

// step steps the daemon's clocks.
func (c *chaos) step(wall, slept time.Duration) {
	c.wall, c.up = c.wall+wall, c.up+slept
	c.setClocks()
}

// state is the daemon's status; ok is false while it does not answer.
func (c *chaos) state() (s api.Status, ok bool) {
	out, err := c.tell("status", "--json")
	return s, err == nil && json.Unmarshal([]byte(out), &s) == nil
}

// chaosFor is how long the chaos goes on, and which: `make soak` says it.
func chaosFor(t *testing.T) (limit time.Duration, seed uint64) {
	limit, seed = time.Minute, uint64(time.Now().UnixNano())
	if s := os.Getenv("WEIR_SOAK_SECONDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		limit = time.Duration(n) * time.Second
	}
	if s := os.Getenv("WEIR_SOAK_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return limit, seed
}

// Whatever happens to a house, in whatever order, what is to hold does.
func TestChaos(t *testing.T) {
	limit, seed := chaosFor(t)
	// Once more after the daemon's log, which is told before this: of a long text the end is what is looked at.
	var told []string
	t.Cleanup(func() {
		for _, b := range told {
			t.Log(b)
		}
	})
	inChaos(t, func(c *chaos) {
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // what happens
		m, begin, broken := newModel(), time.Now(), 0
		for time.Since(begin) < limit {
			before := m
			var a act
			a, m = m.next(r)
			began := time.Now()
			c.do(a, before)
			c.is(m.Now)
			c.judge(m)
			c.countCarried()
			c.Logf("%4.0f s: %v: %v", time.Since(begin).Seconds(), a, time.Since(began).Round(time.Millisecond))
			for _, b := range c.taken() {
				broken++
				told = append(told, fmt.Sprintf("after %v: not so: %s: %s\nagain: make soak KILLS=0 SEED=%d SECONDS=%d", a, b.invariant, b.how, seed, int(time.Since(begin).Seconds())+1))
				c.Error(told[len(told)-1])
			}
			if broken > 20 {
				break
			}
		}
		acts, words := 0, []string{}
		for _, w := range []what{edit, again, wrong, trial, fail, mend, clients, clock, kill} {
			acts += m.Count[w]
			words = append(words, fmt.Sprintf("%d %s", m.Count[w], w))
		}
		c.Logf("chaos: %d acts in %.0f s (%s), looked at %d times from outside, a call answered %d times, %d packets carried, %d breaches; seed %d",
			acts, time.Since(begin).Seconds(), strings.Join(words, ", "), c.looks, c.answers, c.carriedSoFar, broken, seed)
	})
}

// TestMachineThatSlept: a trial whose time passes while the machine sleeps is over when it wakes, though the loop's own
// clock stood still, and can't be confirmed any more.
func TestMachineThatSlept(t *testing.T) {
	inChaos(t, func(c *chaos) {
		tried := shape{Web: 8080}
		c.apply(tried, "--confirm", "1h")
		if s, ok := c.state(); !ok || s.File.ConfirmBy.IsZero() {
			t.Fatalf("no trial is on: %+v", s.File)
		}
		c.step(300*24*time.Hour, 0)
		time.Sleep(time.Second) // that nothing happens can only be waited for
		if s, ok := c.state(); !ok || s.File.ConfirmBy.IsZero() {
			t.Errorf("the clock was set, and the trial is over: %+v", s.File)
		}
		c.step(0, 59*time.Minute)
		time.Sleep(time.Second)
		if s, ok := c.state(); !ok || s.File.ConfirmBy.IsZero() {
			t.Errorf("it slept for less than the trial, which is over: %+v", s.File)
		}
		c.step(0, time.Minute)
		if out, err := c.tell("confirm"); err == nil {
			t.Errorf("confirmed after its time: %s", out)
		}
		c.until("it is taken back", 5*time.Second, func() bool { s, ok := c.state(); return ok && s.File.By == "unconfirmed" })
		c.is(newModel().Now)
		c.judge(newModel())
		for _, b := range c.taken() {
			t.Errorf("%s: %s", b.invariant, b.how)
		}
	})
}
