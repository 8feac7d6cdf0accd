package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

// measured is base with a forward to iperf3 on the nas.
const measured = base + `
forward "iperf" {
  protocol = ["tcp", "udp"]
  port     = 5201
  to       = host.nas
}
`

// watching is a `weir top --json` that runs on the gateway.
type watching struct {
	mu      sync.Mutex
	reports []api.Traffic
	err     error
}

// watch looks at the traffic until the case ends.
func (h *house) watch() *watching {
	h.Helper()
	w := &watching{}
	cmd := h.weir("top", "--json", "-d", "0.5", "--rows", "1000")
	out, err := cmd.StdoutPipe()
	h.must(err)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	h.must(h.gw.Start(cmd))
	read := make(chan struct{})
	go func() {
		defer close(read)
		for d := json.NewDecoder(out); ; {
			var t api.Traffic
			err := d.Decode(&t)
			w.mu.Lock()
			if err != nil {
				w.err = fmt.Errorf("%w: %s", err, errs.String())
				w.mu.Unlock()
				return
			}
			w.reports = append(w.reports, t)
			w.mu.Unlock()
		}
	}()
	h.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		_ = cmd.Wait()
	})
	return w
}

// since are the reports from the n'th on.
func (w *watching) since(n int) ([]api.Traffic, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]api.Traffic(nil), w.reports[min(n, len(w.reports)):]...), w.err
}

// reports waits for so many more, and says how many there are.
func (h *house) reports(w *watching, more int) int {
	h.Helper()
	had, _ := w.since(0)
	now := len(had)
	h.until("weir top goes on", 20*time.Second, func() bool {
		got, err := w.since(0)
		h.must(err)
		now = len(got)
		return now >= len(had)+more
	})
	return now
}

// perf is what iperf3 says it carried, without any header.
type perf struct {
	Bytes   float64 `json:"bytes"`
	Packets float64 `json:"packets"` // of UDP
	Lost    float64 `json:"lost_packets"`
	Rate    float64 `json:"bits_per_second"`
	Seconds float64 `json:"seconds"`
}

// iperf3 measures from a client to a server.
func (h *house) iperf3(from *lab.Host, args ...string) perf {
	h.Helper()
	ctx, end := context.WithTimeout(h.Context(), time.Minute)
	defer end()
	out, err := from.Run(ctx, "iperf3", append([]string{"--json", "--time", "3", "--connect-timeout", "5000", "--client"}, args...)...)
	if err != nil {
		h.Fatalf("iperf3 %q: %v\n%s", args, err, out)
	}
	var got struct {
		End struct {
			Sum      perf `json:"sum"`          // UDP
			Received perf `json:"sum_received"` // TCP
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		h.Fatalf("iperf3 %q: %v\n%s", args, err, out)
	}
	if got.End.Sum.Bytes > 0 {
		return got.End.Sum
	}
	return got.End.Received
}

// seen is what reports say of one direction: what their rates come to.
type seen struct{ bytes, packets float64 }

func (s *seen) add(v api.Volume, over float64) {
	s.bytes += v.BitsPerS * over / 8
	s.packets += v.PacketsPerS * over
}

// disagrees says in what a sum of weir's rates is not what iperf3 says; "": they agree.
// Headers are counted by weir and not by iperf3. What TCP sends again, and that the
// kernel counts joined segments as one, is within the tolerance.
func disagrees(what string, s seen, p perf, header, tolerance float64) string {
	want := p.Bytes + p.Packets*header
	if d := s.bytes/want - 1; math.IsNaN(d) || math.Abs(d) > tolerance {
		return fmt.Sprintf("%s: weir says %.0f bytes, iperf3 %.0f (%+.1f %%)\n", what, s.bytes, want, 100*d)
	}
	if d := s.packets/p.Packets - 1; p.Packets > 0 && math.Abs(d) > tolerance {
		return fmt.Sprintf("%s: weir says %.0f packets, iperf3 %.0f (%+.1f %%)\n", what, s.packets, p.Packets, 100*d)
	}
	return ""
}

// transfer is a measurement, and how weir shall tell of it.
type transfer struct {
	name    string
	from    *lab.Host
	args    []string
	host    string // whose flow it is
	inbound bool
	up      bool    // which way the bytes go
	header  float64 // of a packet from IP's on; TCP: not told apart
	close   float64 // tolerance
}

// judge measures a transfer while w looks, and says in what weir is wrong about it.
func (h *house) judge(w *watching, x transfer) (wrong string, during []api.Traffic) {
	h.Helper()
	first := h.reports(w, 1)
	p := h.iperf3(x.from, x.args...)
	h.reports(w, 2) // the last of it is told in the first, or the second
	during, err := w.since(first)
	h.must(err)
	if p.Bytes == 0 || p.Lost > p.Packets/20 {
		h.Fatalf("%s: iperf3 says %+v", x.name, p)
	}
	if p.Packets > 0 {
		x.close += p.Lost / p.Packets // before weir, or behind it
	}
	var flow, host, line seen
	way := func(down, up api.Volume) api.Volume {
		if x.up {
			return up
		}
		return down
	}
	for _, r := range during {
		for _, f := range r.Flows {
			if f.Name == x.host && f.Inbound == x.inbound && f.WAN == "fiber" && (strings.HasSuffix(f.Peer, ":5201") || strings.HasSuffix(f.Host, ":5201")) {
				flow.add(way(f.Down, f.Up), r.IntervalS)
			}
		}
		for _, g := range r.Hosts {
			if g.Name == x.host && g.LAN == "home" {
				host.add(way(g.Down, g.Up), r.IntervalS)
			}
		}
		for _, l := range r.WANs {
			if l.Name == "fiber" {
				line.add(way(l.Down, l.Up), r.IntervalS)
			}
		}
	}
	h.Logf("%s: iperf3 %.0f bytes, %.0f packets in %.2f s; weir flow %.0f, %.0f; host %.0f, %.0f; line %.0f, %.0f", x.name, p.Bytes, p.Packets, p.Seconds,
		flow.bytes, flow.packets, host.bytes, host.packets, line.bytes, line.packets)
	wrong = disagrees(x.name+": flow", flow, p, x.header, x.close) + disagrees(x.name+": host", host, p, x.header, x.close) +
		disagrees(x.name+": line", line, p, x.header+14, x.close) // frames
	if wrong != "" {
		for _, r := range during {
			h.Logf("flows %+v\nhosts %+v", r.Flows[:min(len(r.Flows), 2)], r.Hosts[:min(len(r.Hosts), 2)])
		}
	} else {
		for what, s := range map[string]seen{"a tenth less": {0.9 * flow.bytes, 0.9 * flow.packets}, "twice as much": {2 * flow.bytes, 2 * flow.packets}} {
			if disagrees("", s, p, x.header, x.close) == "" {
				h.Errorf("%s: %s would have passed", x.name, what)
			}
		}
	}
	return wrong, during
}

// TestTopAndIperf3: who sends how much is what iperf3 says, both ways, from inside and from
// outside, for the flow, its host and its line, with the fast path and without; and a
// line's packets are told as fast or slow, and why.
func TestTopAndIperf3(t *testing.T) {
	for _, form := range []string{"auto", "off"} {
		t.Run(form, func(t *testing.T) {
			in(t, func(h *house) {
				h.need("iperf3")
				fiber := h.connect(fiberLine())
				h.connect(lteLine())
				pc, nas := h.join("pc", "02:00:00:00:00:50"), h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
				h.start(strings.Replace(measured, `{ domain = "local" }`, fmt.Sprintf("{\n  domain = \"local\"\n  fast_path = %q\n}", form), 1))
				h.until("the pc has a lease", 20*time.Second, func() bool { // which names it
					ack, err := pc.Lease(h.Context())
					if err != nil {
						return false
					}
					h.must(pc.Use(ack))
					return true
				})
				h.untilOutBy(pc, "fiber", 20*time.Second)
				for _, s := range []struct {
					on *lab.Host
					at string // the internet's machine is all of its addresses, and has none
					n  int    // there, with the same log
				}{{fiber.Inet, "192.0.2.80", 1}, {fiber.Inet, "2001:db8:80::80", 2}, {nas.Host, "172.31.0.23", 1}} {
					log := h.serve(s.on, "iperf3", "--server", "--forceflush", "--bind", s.at)
					h.until("iperf3 listens", 20*time.Second, func() bool { return strings.Count(log.said(), "listening") == s.n })
				}
				w := h.watch()
				h.until("the nas is called so by an address that it made itself", 30*time.Second, func() bool {
					h.outBy(nas.Host, "tcp", web6)
					all, _ := w.since(0)
					return len(all) > 0 && slices.ContainsFunc(all[len(all)-1].Hosts, func(g api.HostTraffic) bool {
						return g.Name == "nas" && slices.ContainsFunc(g.Addresses, func(a string) bool { return strings.Contains(a, "::ff:fe00:23") })
					})
				})
				for _, x := range []transfer{
					{name: "UDP up", from: pc.Host, args: []string{"192.0.2.80", "-u", "-b", "10M"}, host: "pc", up: true, header: 28, close: 0.03},
					{name: "TCP down", from: pc.Host, args: []string{"192.0.2.80", "-R", "-b", "40M"}, host: "pc", close: 0.06},
					{name: "UDP over IPv6 down", from: nas.Host, args: []string{"2001:db8:80::80", "-u", "-b", "10M", "-R"}, host: "nas", header: 48, close: 0.03},
					{name: "UDP in by the forward", from: fiber.Inet, args: []string{"198.51.100.10", "--bind", "192.0.2.9", "-u", "-b", "10M"}, host: "nas", inbound: true, header: 28, close: 0.03},
				} {
					wrong, during := h.judge(w, x)
					if wrong != "" {
						t.Error(wrong)
					}
					h.fastOrSlow(form, x, during)
				}
				if form == "off" { // what is carried fast is counted there, whatever the kernel does
					h.uncounted(w, transfer{name: "a flow that is not counted", from: pc.Host, args: []string{"192.0.2.80", "-u", "-b", "5M"}, host: "pc", up: true, header: 28, close: 0.03})
				}
			})
		})
	}
}

// fastOrSlow looks at what was told of the line's packets.
func (h *house) fastOrSlow(form string, x transfer, during []api.Traffic) {
	h.Helper()
	fast, slow := 0.0, map[string]float64{}
	main, flow, mains := 0.0, 0.0, map[string]float64{} // of all, and of the flow
	for _, r := range during {
		if (r.Main.FastPath == "off") != (form == "off") || (r.Main.FastPathWhy == "") != (form != "off") {
			h.Fatalf("%s: of main it is told %+v", x.name, r.Main)
		}
		if p := r.Main.FastPercent; p != nil {
			main = max(main, *p)
		}
		for _, s := range r.Main.Slow {
			mains[s.Why] += s.PacketsPerS * r.IntervalS
		}
		for _, f := range r.Flows {
			if f.FastPercent != nil && f.Name == x.host && f.Protocol == "udp" {
				flow = max(flow, *f.FastPercent)
			}
		}
		for _, l := range r.WANs {
			if l.Name != "fiber" {
				continue
			}
			if form == "off" {
				if l.FastPath != "off" || l.FastPathWhy == "" || l.FastPercent != nil || l.Slow != nil {
					h.Errorf("%s: there is no fast path, and it is told %+v", x.name, l)
				}
				continue
			}
			if l.FastPath != "tc" {
				h.Fatalf("%s: it is told %+v", x.name, l)
			}
			if l.FastPercent != nil {
				fast = max(fast, *l.FastPercent)
			}
			for _, s := range l.Slow {
				slow[s.Why] += s.PacketsPerS * r.IntervalS
			}
		}
	}
	if form == "off" {
		if main != 0 || flow != 0 || len(mains) > 0 {
			h.Errorf("%s: there is no fast path, and of main it is told %.1f %%, of the flow %.1f %%, and %v", x.name, main, flow, mains)
		}
		return
	}
	h.Logf("%s: at most %.1f %% fast; slow: %v; in main %.1f %%, of the flow %.1f %%; slow: %v", x.name, fast, slow, main, flow, mains)
	if main < 50 || x.header > 0 && flow < 99 || mains[api.SlowKind] < 1 || mains[api.SlowNoFlow] < 1 {
		h.Errorf("%s: in main at most %.1f %% was fast, of the flow %.1f %%, and slow were %v", x.name, main, flow, mains)
	}
	// Each transfer begins with a connection, whose SYN and its answer are slow; the line's
	// own probes are echoes and such connections, and TCP's segments come joined.
	if fast < 75 || slow[api.SlowFirst] < 1.5 || slow[api.SlowProtocol] < 1 {
		h.Errorf("%s: at most %.1f %% was fast, and slow were %v", x.name, fast, slow)
	}
}

// uncounted has the kernel count no more, and wants the judge to find it out: weir's
// figures come from there.
func (h *house) uncounted(w *watching, x transfer) {
	h.Helper()
	const acct = "net/netfilter/nf_conntrack_acct"
	for range 5 {
		h.must(h.gw.Sysctl(acct, "0"))
		wrong, _ := h.judge(w, x)
		if strings.Contains(wrong, ": flow: weir says") {
			return
		}
		if got := strings.TrimSpace(h.sh(h.gw, "cat /proc/sys/"+acct)); got == "0" {
			h.Errorf("the kernel counts nothing, and that is judged as %q", wrong)
			return
		}
	}
	h.Error("weir put it right five times before a transfer began")
}
