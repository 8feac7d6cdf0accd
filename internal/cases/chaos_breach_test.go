package cases

import (
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/ether"
	"weir/internal/lab"
)

// TestChaosBreaches: each invariant of the chaos is broken once, by real means, and the watchers that
// watch the chaos see that and nothing else.
func TestChaosBreaches(t *testing.T) {
	inChaos(t, func(c *chaos) {
		m := newModel()
		sees := func(invariant, how string, plant, mend func()) {
			c.Helper()
			// What grows is more in the later half of the readings: of no more than are needed.
			clear(c.held)
			for range 2 {
				c.judge(m)
			}
			if b := c.taken(); len(b) > 0 {
				c.Fatalf("before %s: %v", how, b)
			}
			patience := c.patience
			c.patience = time.Second
			plant()
			var seen []breach
			lab.Until(c.Context(), 15*time.Second, func() bool {
				c.judge(m)
				seen = append(seen, c.taken()...)
				return len(seen) > 0
			})
			c.patience = patience
			if len(seen) == 0 {
				c.Errorf("%s: nobody sees it", how)
			}
			for _, b := range seen {
				if b.invariant != invariant {
					c.Errorf("%s: seen as %v", how, b)
				}
			}
			mend()
			// What is seen until it is mended.
			c.judge(m)
			time.Sleep(time.Second)
			c.taken()
		}
		again := func() {
			c.again()
			c.until("it is mended", 20*time.Second, func() bool { s, ok := c.state(); return ok && s.Turn.Count > 0 })
		}
		dead := func() { c.end(syscall.SIGKILL) }

		sees(planEmpty, "a rule is gone and nobody mends it", func() {
			dead()
			c.sh(c.gw, "ip netns exec wan-lte nft flush chain inet weir through")
		}, again)
		sees(noStray, "a line's namespace sends what a device said", func() {
			// By a raw socket at the port itself: no filter is asked.
			c.stray("wan-fiber", "eth1", addr("172.31.0.50"))
		}, func() {})
		sees(nothing, "a port is opened that no file opens", func() {
			// By a file of which those who look from outside are not told.
			m.Now.SSH = true
			if out, err := c.tell("apply", c.fileOf(m.Now.text()), "--yes"); err != nil {
				c.Fatal(out)
			}
		}, func() {
			m.Now.SSH = false
			c.apply(m.Now)
			c.is(m.Now)
		})
		sees(silenced, "a call goes on that is blocked", func() {
			// By a file that blocks it, of which the gateway is not told.
			quiet := m.Now
			quiet.Quiet = true
			c.is(quiet)
		}, func() { c.is(m.Now) })
		sees(rightLine, "the other line is used", func() {
			if out, err := c.tell("use", "lte"); err != nil {
				c.Fatal(out)
			}
		}, func() {
			if out, err := c.tell("use", "auto"); err != nil {
				c.Fatal(out)
			}
		})
		for _, leak := range []string{"files", "goroutines", "memory"} {
			sees(noGrowth, "the daemon leaks "+leak, func() {
				_, err := askVitals(c.vitalsDir, c.run.Process.Pid, leak)
				c.must(err)
			}, func() { dead(); again() })
		}
		sees(noGrowth, "conntrack fills", func() {
			c.must(c.pc.Do(func() error { return datagrams(addr("192.0.2.80"), limits.Conntrack+200) }))
		}, func() { c.sh(c.gw, "conntrack -F 2>/dev/null || true"); clear(c.held) })
		sees(obeys, "an apply fails", func() {
			c.apply(shape{Web: 22}, "--no-such-option")
		}, func() {})
	})
}

// stray sends one datagram from a namespace's port as from an address.
func (c *chaos) stray(ns, port string, from netip.Addr) {
	c.Helper()
	h, err := c.Attach(ns)
	c.must(err)
	mac, err := h.MAC(port)
	c.must(err)
	c.must(h.Do(func() error {
		f, err := ether.Open(port, ether.TypeIPv4, ether.Nothing())
		if err != nil {
			return err
		}
		conn, err := ether.NewConn(f)
		if err != nil {
			return err
		}
		defer conn.Close()
		u := ether.UDP{
			SrcMAC: ether.MAC(mac), DstMAC: ether.Broadcast, Payload: []byte("stray"),
			Src: netip.AddrPortFrom(from, 4000), Dst: at("192.0.2.80:7"),
		}
		return conn.WriteNow(u.Frame())
	}))
}

// datagrams sends n to an address, each to another port.
func datagrams(to netip.Addr, n int) error {
	c, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for port := range n {
		if _, err := c.WriteToUDPAddrPort([]byte("?"), netip.AddrPortFrom(to, uint16(20000+port))); err != nil {
			return err
		}
	}
	return nil
}

// TestChaosJudgement: the judges, on values.
func TestChaosJudgement(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	houses := []span{{shape{SSH: true}, at(0), at(10)}, {shape{Web: 80}, at(9), time.Time{}}}
	for _, x := range []struct {
		port     uint16
		from, to int
		proto    int
		fine     bool
	}{
		{22, 3, 4, 6, true},    // it was open
		{22, 9, 12, 6, true},   // and maybe when the SYN came
		{22, 11, 12, 6, false}, // it is shut
		{80, 3, 4, 6, false},   // not open yet
		{80, 8, 9, 6, true},
		{80, 100, 101, 6, true},
		{80, 100, 101, 17, false}, // another protocol's
		{23, 100, 101, 6, false},
	} {
		l := look{line: "fiber", proto: x.proto, from: at(x.from), to: at(x.to), answers: map[uint16]lab.Answer{x.port: lab.Refused}}
		if got := l.open(houses); (len(got) == 0) != x.fine {
			t.Errorf("%+v: %v", x, got)
		}
	}
	quiet := []span{{shape{}, at(0), at(10)}, {shape{Quiet: true}, at(9), at(20)}, {shape{}, at(19), time.Time{}}}
	for s, may := range map[int]bool{5: true, 10: true, 11: false, 18: false, 19: true, 30: true} {
		if got := passes(quiet, at(s)); got != may {
			t.Errorf("after %d s a call may pass: %v, want %v", s, got, may)
		}
	}
	for want, dead := range map[string]map[string]string{"fiber": nil, "lte": {"fiber": "dark"}, "": {"fiber": "dark", "lte": "unplugged"}} {
		if got := wantedLine([]string{"fiber", "lte"}, dead); got != want {
			t.Errorf("%v: %q", dead, got)
		}
	}
	first := vitals{Processes: 10, Files: 100, Goroutines: 200, HeapKB: 5000, Conntrack: 50, Asking: 40}
	for _, x := range []struct {
		now  vitals
		says string
	}{
		{first, ""}, {vitals{10, 106, 208, 7000, 350, 0, nil}, ""}, {vitals{}, ""},
		{vitals{11, 0, 0, 0, 0, 0, nil}, "processes: 10 at first, 11 now"},
		{vitals{0, 107, 0, 0, 0, 0, nil}, "files: 100 at first, 107 now"},
		{vitals{0, 0, 209, 0, 0, 0, nil}, "goroutines: 200 at first, 209 now"},
		{vitals{0, 0, 0, 7001, 0, 0, nil}, "kB of memory: 5000 at first, 7001 now"},
		{vitals{0, 0, 0, 0, 351, 0, nil}, "conntrack entries: 50 at first, 351 now"},
		{vitals{0, 0, 0, 0, 0, 201, nil}, "files and goroutines of the prober: 40 at first, 201 now"},
	} {
		if got := strings.Join(grown([]vitals{{}, first, {99, 999, 999, 99999, 9999, 999, nil}, {99, 999, 999, 99999, 9999, 999, nil}, x.now}, limits), "; "); got != x.says {
			t.Errorf("%+v: %q", x.now, got)
		}
	}
	if (shape{}).opens(0) {
		t.Error("port 0 is nobody's")
	}
}
