package cases

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/lab"
)

// The invariants.
const (
	planEmpty = "the second plan is empty"
	noStray   = "no private source on a line"
	nothing   = "nothing is open that should not be"
	silenced  = "nothing passes after its rule came"
	rightLine = "the right line is in use"
	noGrowth  = "nothing grows"
	obeys     = "the command does what it says"
)

// breach is that an invariant did not hold.
type breach struct{ invariant, how string }

// span is a time in which a house may have been in force; To is zero while it may.
type span struct {
	shape    shape
	From, To time.Time
}

// look is one of the watcher's at a line from outside.
type look struct {
	line     string
	proto    int
	from, to time.Time
	answers  map[uint16]lab.Answer
}

// open tells which ports gave a sign of life that no house of the time lets give one.
func (l look) open(houses []span) (out []string) {
	for port, a := range l.answers {
		may := slices.ContainsFunc(houses, func(s span) bool {
			return l.proto == unix.IPPROTO_TCP && s.shape.opens(port) && !s.From.After(l.to) && (s.To.IsZero() || !s.To.Before(l.from))
		})
		if !may {
			out = append(out, fmt.Sprintf("protocol %d port %d by %s: %s", l.proto, port, l.line, a))
		}
	}
	slices.Sort(out)
	return out
}

// onItsWay is how long an answer may be under way: it was let pass by the house before.
const onItsWay = 500 * time.Millisecond

// passes says whether a house that may have been in force at a time lets the crowd's call
// pass.
func passes(houses []span, at time.Time) bool {
	return slices.ContainsFunc(houses, func(s span) bool {
		return !s.shape.Quiet && !s.From.After(at) && (s.To.IsZero() || !s.To.Add(onItsWay).Before(at))
	})
}

// wantedLine is the line that new connections are to take; "" is none.
func wantedLine(prefer []string, dead map[string]string) string {
	for _, l := range prefer {
		if dead[l] == "" {
			return l
		}
	}
	return ""
}

// watch sees what is to hold at every moment: it goes on beside all that happens.
type watch struct {
	mu       sync.Mutex
	houses   []span
	breaches []breach
	looks    int
	told     map[string]int // strays
	answers  int            // to the crowd's call
}

// mayBe says that from now on a house may be in force beside those that are.
func (w *watch) mayBe(s shape) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.houses = append(w.houses, span{shape: s, From: time.Now()})
}

// is says that a house is in force, and no other.
func (w *watch) is(s shape) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for i := range w.houses {
		if w.houses[i].To.IsZero() {
			w.houses[i].To = now
		}
	}
	// What nobody can be looking at any more.
	w.houses = slices.DeleteFunc(w.houses, func(s span) bool { return !s.To.IsZero() && now.Sub(s.To) > 20*time.Second })
	w.houses = append(w.houses, span{shape: s, From: now})
}

func (w *watch) add(invariant string, how ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range how {
		w.breaches = append(w.breaches, breach{invariant, h})
	}
}

// taken is the breaches so far, which are forgotten.
func (w *watch) taken() []breach {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.breaches
	w.breaches = nil
	return b
}

// The ports that are looked at: those of the files, those at which the gateway or weir has a server, and two of nobody.
var (
	lookTCP = []uint16{7, 22, 23, 53, 80, 443, 853, 8080, 8443}
	lookUDP = []uint16{7, 53, 67, 68, 123, 546, 547, 5353}
)

// lookOn looks at both lines until the lab ends or stop is closed.
func (c *chaos) lookOn(stop chan struct{}) {
	for {
		for _, isp := range []*lab.ISP{c.fiber, c.lte} {
			select {
			case <-stop:
				return
			case <-c.Context().Done():
				return
			default:
			}
			to := []netip.Addr{isp.Current4()}
			if isp == c.fiber {
				to = append(to, c.fiber6)
			}
			for _, a := range to {
				for proto, ports := range map[int][]uint16{unix.IPPROTO_TCP: lookTCP, unix.IPPROTO_UDP: lookUDP} {
					l := look{line: isp.Name, proto: proto, from: time.Now()}
					s, err := isp.ScanPorts(c.Context(), proto, a, ports, 40*time.Millisecond)
					if err != nil {
						if c.Context().Err() == nil {
							c.Errorf("a look at %s: %v", a, err)
						}
						continue
					}
					l.to, l.answers = time.Now(), s.Ports
					c.mu.Lock()
					c.looks++
					houses := slices.Clone(c.houses)
					c.mu.Unlock()
					c.add(nothing, l.open(houses)...)
				}
			}
			n, first := isp.Strays()
			c.mu.Lock()
			had := c.told[isp.Name]
			c.told[isp.Name] = n
			c.mu.Unlock()
			if n > had {
				c.add(noStray, fmt.Sprintf("%s saw %d more: %q", isp.Name, n-had, first))
			}
			if lost := isp.Wire.Lost(); lost > 0 && !c.deaf {
				c.deaf = true
				c.Errorf("%d frames on %s came too fast to be looked at", lost, isp.Name)
			}
		}
	}
}

// call has the crowd send a datagram each five milliseconds, each of which is answered,
// until stop is closed: one and the same flow while it may be, over whatever happens.
func (c *chaos) call(stop chan struct{}) {
	conn, err := c.crowd.Dial(c.Context(), "udp", netip.Addr{}, at(web4), time.Second)
	if err != nil {
		c.Error(err)
		return
	}
	var sends sync.WaitGroup
	defer sends.Wait()
	defer conn.Close()
	sends.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := conn.Write([]byte("call\n")); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	})
	b := make([]byte, 2048)
	var last time.Time
	for {
		select {
		case <-stop:
			return
		case <-c.Context().Done():
			return
		default:
		}
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := conn.Read(b); err != nil {
			continue // refused, or nothing: both may be
		}
		now := time.Now()
		c.mu.Lock()
		c.answers++
		may := passes(c.houses, now)
		c.mu.Unlock()
		if !may && now.Sub(last) > time.Second {
			last = now
			c.add(silenced, "the crowd's call is answered, and every house of the time blocks it")
		}
	}
}

// judge waits until the house is as the model says, and tells what is not.
func (c *chaos) judge(m chaosModel) {
	c.write(m.Now.text())
	out, err := "", error(nil)
	ok := lab.Until(c.Context(), c.patience, func() bool {
		// Twice: a line that comes back between the two is a reason for one more turn.
		for range 2 {
			if out, err = c.tell("plan", c.file, "--exit-code"); err != nil {
				return false
			}
		}
		return true
	})
	if !ok {
		c.add(planEmpty, fmt.Sprintf("%v: %s", err, out))
	}
	if want := wantedLine(m.Now.prefer(), m.Dead); want != "" {
		got := ""
		if !lab.Until(c.Context(), c.patience, func() bool {
			if got = strings.TrimPrefix(c.outBy(c.pc.Host, "tcp", web4), "inet-"); got != want {
				time.Sleep(50 * time.Millisecond) // each look is an entry in conntrack
			}
			return got == want
		}) {
			c.add(rightLine, fmt.Sprintf("%s, and it is %s", want, got))
		}
	}
	if c.gone() {
		return
	}
	v, err := c.vitals()
	if err != nil {
		c.add(noGrowth, err.Error())
		return
	}
	k, limit := life{m.Now.Wider, m.Now.Guest, m.Now.Fast, len(m.Dead) > 0, c.run.Process.Pid}, limits
	if k.dead {
		limit = deadLimits
	}
	c.held[k] = append(c.held[k], v)
	if g := grown(c.held[k], limit); len(g) > 0 {
		c.add(noGrowth, g...)
		c.Logf("at first:\n%s\nand now:\n%s", strings.Join(c.held[k][0].Of, "\n"), strings.Join(v.Of, "\n"))
	}
}

// life is a house whose services are the same, and whose lines are all well or not, in one daemon's life.
type life struct {
	wider, guest, fast bool
	dead               bool
	pid                int
}
