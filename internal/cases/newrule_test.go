package cases

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/lab"
)

// withFast is a file with its fast path set.
func (h *house) withFast(file, how string) string {
	h.Helper()
	with := strings.Replace(file, `{ domain = "local" }`, "{\n  domain    = \"local\"\n  fast_path = \""+how+"\"\n}", 1)
	if with == file {
		h.Fatal("the file has no gateway's domain to go by")
	}
	return with
}

// apply puts another file in force, and returns what was said.
func (h *house) apply(file string) string {
	h.Helper()
	name := h.dir + "/next.hcl"
	h.must(os.WriteFile(name, []byte(file), 0o600))
	out, err := h.tell("apply", name, "--yes")
	if err != nil {
		h.Fatalf("apply: %v\n%s", err, out)
	}
	return out
}

// reset wants connections to be reset within a limit.
func (h *house) reset(flows []conversation, limit time.Duration) {
	h.Helper()
	until := time.Now().Add(limit)
	for _, c := range flows {
		if _, err, ended := c.Ended(h.Context(), time.Until(until)); !ended || !lab.Reset(err) {
			h.Errorf("%s: no reset (%v)", c.name, err)
		}
	}
}

// TestANewRuleEndsWhatRuns (B08's kind): a rule that comes, or a forward that goes, ends
// the flows under way that it is about, by the slow path as by the fast one: the
// connections are reset, those too that only wait, and calls hear nothing more. A plan
// says so beforehand. All others lose nothing.
func TestANewRuleEndsWhatRuns(t *testing.T) {
	for _, how := range []string{"off", "auto"} {
		t.Run(how, func(t *testing.T) {
			in(t, func(h *house) {
				fiber := h.connect(fiberLine())
				pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
				tv := h.join("tv", "02:00:00:00:00:51", "172.31.0.51/24", "fd00::51/64")
				nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
				h.must(nas.ServeEcho([]uint16{80, 81}, nil))
				house := h.withFast(unsaidDNS, how)
				house = strings.Replace(house, "port = [80, 443]\n  to   = host.nas\n}", "port = 80\n  to   = host.nas\n}\nforward \"other\" {\n  port = 81\n  to   = host.nas\n}", 1)
				h.start(house)
				h.untilOutBy(pc, "fiber", 20*time.Second)
				h.until("IPv6 goes out by fiber", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })

				kinds := []lab.FlowKind{lab.Idle, lab.Sending, lab.Receiving, lab.Datagrams}
				stays, goes := h.talk(pc.Host, kinds...), h.talk(tv.Host, kinds...)
				for _, p := range []uint16{80, 81} {
					f, err := fiber.Inet.Open(h.Context(), lab.Sending, addr("1.1.1.1"), netip.AddrPortFrom(fiber.Customer4[0].Addr(), p), 2*time.Second)
					h.must(err)
					h.Cleanup(func() { f.Close() })
					c := conversation{fmt.Sprintf("from outside to port %d", p), f}
					if p == 81 {
						goes = append(goes, c)
					} else {
						stays = append(stays, c)
					}
				}
				if how != "off" {
					if w := h.status().WANs[0]; w.FastPath != "tc" {
						h.needFast(w.FastPathWhy)
					}
					h.until("all is carried that says something", 20*time.Second, func() bool { es, _ := h.carried(); return len(es) >= 2*14 })
				}
				call := h.datagrams(pc.Host, web4)

				// The rule knows its device by its MAC, which gives its address itself.
				next := strings.Replace(house, "forward \"other\" {\n  port = 81\n  to   = host.nas\n}", `
block "tv" {
  from = host.tv
  to   = wan
}`, 1)
				next = strings.Replace(next, `  host "nas" {`, "  host \"tv\" { mac = \"02:00:00:00:00:51\" }\n  host \"nas\" {", 1)
				name := h.dir + "/seen.hcl"
				h.must(os.WriteFile(name, []byte(next), 0o600))
				if out, err := h.tell("plan", name); err != nil || !strings.Contains(out, "would be ended: 9 (block.tv 8, wan.fiber.closed 1)") {
					t.Errorf("the plan does not say which flows end (%v):\n%s", err, out)
				}
				out := h.apply(next)
				if !strings.Contains(out, "are ended: 9 (block.tv 8, wan.fiber.closed 1)") {
					t.Errorf("it is not said which flows ended:\n%s", out)
				}
				cut := time.Now()
				for _, c := range goes {
					switch {
					case c.Kind == lab.Datagrams:
						if at, ok := c.HeardFrom(h.Context(), "inet-fiber", cut, 300*time.Millisecond); ok {
							t.Errorf("%s: goes on %v after its rule came", c.name, at.Sub(cut))
						}
					case strings.HasPrefix(c.name, "from outside"):
						// Who is outside hears nothing: the line is closed.
						n := len(c.Heard())
						if _, _, ended := c.Ended(h.Context(), 300*time.Millisecond); !ended && len(c.Heard()) > n {
							t.Errorf("%s: goes on after its forward went", c.name)
						}
					default:
						h.reset([]conversation{c}, time.Until(cut.Add(5*time.Second)))
					}
				}
				for _, c := range stays {
					if at, err, ended := c.Ended(h.Context(), 0); ended {
						t.Errorf("%s: ended at %v, and no rule is about it: %v", c.name, at.Sub(cut), err)
					}
				}
				if how != "off" {
					h.mostly("after the rule")
				}
				if sent, lost := call(); lost != 0 || sent < 50 {
					t.Errorf("the rule of another device cost %d of %d datagrams", lost, sent)
				}

				// What a file on trial let begin ends with it; and what a file was let begin
				// that is not the one of the next start ends at that.
				h.must(os.WriteFile(name, []byte(house), 0o600))
				if out, err := h.tell("apply", name, "--yes", "--confirm", "3s"); err != nil {
					t.Fatalf("apply: %v\n%s", err, out)
				}
				tried := h.talk(tv.Host, lab.Sending)
				h.reset(tried, 10*time.Second)
				h.end(syscall.SIGKILL)
				h.start(strings.Replace(next, "from = host.tv", "from = lan.home", 1))
				for i, c := range stays {
					if c.Kind != lab.Datagrams && i < 6 {
						h.reset(stays[i:i+1], 15*time.Second)
					}
				}
				h.strays(fiber)
			})
		})
	}
}

// TestARuleKeepsItsFlows: what a rule lets through that says fast = false passes main's
// rules with each packet, in both families, while others are carried.
func TestARuleKeepsItsFlows(t *testing.T) {
	in(t, func(h *house) {
		fiber := h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
		h.start(h.withFast(unsaidDNS, "auto") + `
allow "by-the-rules" {
  from = host.nas
  to   = wan
  fast = false
}
`)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("IPv6 goes out by fiber", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })
		if w := h.status().WANs[0]; w.FastPath != "tc" {
			h.needFast(w.FastPathWhy)
		}
		kept := h.talk(nas.Host, lab.Sending, lab.Datagrams)
		others := h.talk(pc.Host, lab.Sending, lab.Datagrams)
		h.until("the others are carried", 20*time.Second, func() bool { es, _ := h.carried(); return len(es) >= 2*len(others) })
		since := time.Now()
		for _, c := range kept { // and each had as long to be
			h.until(c.name+" goes on", 5*time.Second, func() bool { l := c.Heard(); return len(l) > 100 && l[len(l)-1].At.After(since) })
		}
		es, _ := h.carried()
		for _, e := range es {
			for _, a := range []netip.AddrPort{e.In.Src, e.In.Dst, e.Out.Src, e.Out.Dst} {
				if a.Addr() == addr("172.31.0.23") || a.Addr() == addr("fd00::23") {
					t.Errorf("carried, and its rule says fast = false: %+v", e.In)
				}
			}
		}
		h.strays(fiber)
	})
}

// TestMTUChangesUnderACarriedFlow: a line takes shorter packets from one moment on, and
// its router tells nobody. The file says so, and uploads that were carried go on, in both
// families: what is too long goes by the ordinary way, which says so to who sends it.
func TestMTUChangesUnderACarriedFlow(t *testing.T) {
	in(t, func(h *house) {
		fiber := h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		house := h.withFast(unsaidDNS, "auto")
		h.start(house)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("IPv6 goes out by fiber", 20*time.Second, func() bool { return h.outBy(pc.Host, "tcp", web6) == "inet-fiber" })
		if w := h.status().WANs[0]; w.FastPath != "tc" {
			h.needFast(w.FastPathWhy)
		}
		got, stop := h.sink(fiber.Inet, 5001), make(chan struct{})
		var sent [2]atomic.Int64
		failed := make(chan error, 2)
		for i, to := range []string{web4, web6} {
			c, err := pc.Dial(h.Context(), "tcp", netip.Addr{}, netip.AddrPortFrom(at(to).Addr(), 5001), 2*time.Second)
			h.must(err)
			go func() { failed <- upload(c, stop, &sent[i]) }()
		}
		grow := func(what string) {
			h.Helper()
			had := [2]int64{sent[0].Load(), sent[1].Load()}
			_, before := h.carried()
			h.until(what, 20*time.Second, func() bool {
				if len(failed) > 0 {
					t.Fatalf("%s: an upload ended: %v", what, <-failed)
				}
				_, now := h.carried()
				return sent[0].Load() > had[0]+4<<20 && sent[1].Load() > had[1]+4<<20 && now.Fast > before.Fast+50
			})
		}
		grow("carried before")
		h.apply(strings.Replace(house, `wan "fiber" { interface = "eth1" }`, "wan \"fiber\" {\n  interface = \"eth1\"\n  mtu = 1300\n}", 1))
		h.silent(fiber, 1300)
		grow("carried with a shorter MTU")
		close(stop)
		for range sent {
			if err := <-failed; err != nil {
				t.Errorf("an upload ended: %v", err)
			}
		}
		var came, all int
		for i := range sent {
			came, all = came+<-got, all+int(sent[i].Load())
		}
		if came != all {
			t.Errorf("%d bytes came of %d", came, all)
		}
		h.strays(fiber)
	})
}
