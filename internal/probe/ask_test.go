package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// servers opens a TCP server and a DNS server at the far end. DNS answers as the
// name says; its first answer to each question is a forger's.
func (f far) servers(t *testing.T) *net.TCPListener {
	t.Helper()
	var ln *net.TCPListener
	var pc net.PacketConn
	if err := netns.Do(f.ns, func() (err error) {
		if ln, err = net.ListenTCP("tcp", &net.TCPAddr{Port: 443}); err != nil {
			return err
		}
		pc, err = net.ListenPacket("udp", ":53")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		codes := map[string]int{"refused.example.": dns.RcodeRefused, "none.example.": dns.RcodeNameError, "broken.example.": dns.RcodeServerFailure}
		m := new(dns.Msg).SetRcode(q, codes[q.Question[0].Name])
		forged := new(dns.Msg).SetReply(q)
		forged.Id++
		for _, m := range []*dns.Msg{forged, m} {
			if err := w.WriteMsg(m); err != nil {
				t.Error(err)
			}
		}
	})}
	ready := make(chan struct{})
	s.NotifyStartedFunc = func() { close(ready) }
	ended := make(chan error, 1)
	go func() { ended <- s.ActivateAndServe() }()
	<-ready
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(), <-ended, ln.Close()); err != nil {
			t.Error(err)
		}
	})
	return ln
}

// TCP and DNS probes over two cables, in both families, to real servers.
func TestConnectionsAndQuestions(t *testing.T) {
	netnstest.Need(t)
	a, b := newFar(t, "fiber", 1), newFar(t, "lte", 2)
	ln := a.servers(t)
	b.servers(t)
	lines := []Line{{WAN: "fiber", ID: 0x1230}, {WAN: "fiber", IPv6: true, ID: 0x1240}, {WAN: "lte", ID: 0x1250}, {WAN: "lte", IPv6: true, ID: 0x1260}}
	c, events, _ := child(t, lines)

	id := uint64(0)
	for _, wan := range []string{"fiber", "lte"} {
		for _, o := range []struct {
			target string
			way    Way
			port   uint16
			name   string
			why    string // of a failure
		}{
			{"1.1.1.1", TCP, 443, "", ""},
			{"1.1.1.1", TCP, 81, "", ""}, // refused is answered
			{"2001:db8::1", TCP, 443, "", ""},
			{"2001:db8::1", TCP, 81, "", ""},
			{"203.0.113.1", TCP, 443, "", "says: host unreachable"},
			{"2001:db8::2", TCP, 443, "", "says: "},
			{"8.8.8.8", DNS, 53, "", ""},
			{"8.8.8.8", DNS, 53, "name.example", ""},
			{"8.8.8.8", DNS, 53, "none.example", ""},
			{"8.8.8.8", DNS, 53, "refused.example", ""},
			{"2001:db8::1", DNS, 53, "name.example", ""},
			{"8.8.8.8", DNS, 53, "broken.example", "SERVFAIL"},
			{"8.8.8.8", DNS, 54, "name.example", "8.8.8.8 says: port unreachable"},
			{"2001:db8::1", DNS, 54, "name.example", "2001:db8::1 says: port unreachable"},
			{"203.0.113.1", DNS, 53, "name.example", "says: host unreachable"},
		} {
			id++
			before := time.Now()
			order(t, c, Order{ID: id, WAN: wan, Target: netip.MustParseAddr(o.target), Way: o.way, Port: o.port, Name: o.name})
			kind := Reply
			if o.why != "" {
				kind = Failed
			}
			ev := next(t, events, id, kind)
			if !strings.Contains(ev.Why, o.why) || ev.Reopen {
				t.Errorf("%s %+v: %+v", wan, o, ev)
			}
			if at := ev.At.Time(); at.Before(before) || at.After(time.Now()) || ev.RTT > time.Since(before) {
				t.Errorf("%s %+v: at %v after %v, and was ordered at %v", wan, o, at, ev.RTT, before)
			}
		}
	}

	// The server never saw a connection: the first that it can take is this one.
	var real net.Conn
	if err := netns.Do("", func() (err error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(172, 31, 1, 0)}, Control: bound("fiber")}
		real, err = d.DialContext(t.Context(), "tcp", "1.1.1.1:443")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	got, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if got.RemoteAddr().String() != real.LocalAddr().String() {
		t.Errorf("the server was given %v, a probe's connection", got.RemoteAddr())
	}

	// Silence is no event, and what waits is bounded: the oldest is given up, and the
	// rest when its time is over.
	files := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.State().PID))
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	var many []Order
	const short = 700 * time.Millisecond
	begin := time.Now()
	for range 3 * most {
		id++
		many = append(many, Order{ID: id, WAN: "fiber", Target: netip.MustParseAddr("203.0.113.2"), Way: TCP, Port: 443, Wait: short})
	}
	order(t, c, many...)
	next(t, events, id, Sent)
	if n := files(); n > most+40 || n < most && time.Since(begin) < short {
		t.Errorf("%d files are open", n)
	}
	id++
	order(t, c, Order{ID: id, WAN: "fiber", Target: netip.MustParseAddr("1.1.1.1"), Way: TCP, Port: 443})
	next(t, events, id, Reply)
	for files() > 40 {
		if time.Since(begin) > waitFor/2 {
			t.Fatalf("%d files are open %v after they were waited for for %v", files(), time.Since(begin), short)
		}
		time.Sleep(20 * time.Millisecond)
	}

	// A line that is not there, and a cable that is gone: the parent is asked for sockets.
	for _, wan := range []string{"dsl", "fiber"} {
		cut(t, "fiber")
		for _, way := range []Way{TCP, DNS} {
			id++
			order(t, c, Order{ID: id, WAN: wan, Target: netip.MustParseAddr("8.8.8.8"), Way: way, Port: 53})
			if ev := next(t, events, id, Failed); !ev.Reopen {
				t.Errorf("%s: %+v", wan, ev)
			}
		}
	}
}

func bound(dev string) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var err error
		done := raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), dev) })
		return errors.Join(done, err)
	}
}

// A peer that goes silent after its answer, and one that answers late: each probe
// is answered once, by what belongs to it.
func TestLateAnswerCounts(t *testing.T) {
	netnstest.Need(t)
	f := newFar(t, "fiber", 1)
	var pc net.PacketConn
	if err := netns.Do(f.ns, func() (err error) {
		pc, err = new(net.ListenConfig).ListenPacket(t.Context(), "udp", "8.8.8.8:53")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	c, events, _ := child(t, []Line{{WAN: "fiber", ID: 0x1230}})
	order(t, c, Order{ID: 1, WAN: "fiber", Target: netip.MustParseAddr("8.8.8.8"), Way: DNS, Port: 53})
	b := make([]byte, 512)
	n, from, err := pc.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	next(t, events, 1, Sent) // told because no answer came soon
	m := new(dns.Msg)
	if err := m.Unpack(b[:n]); err != nil {
		t.Fatal(err)
	}
	answer, err := new(dns.Msg).SetReply(m).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := pc.WriteTo(answer, from); err != nil {
			t.Fatal(err)
		}
	}
	if ev := next(t, events, 1, Reply); ev.RTT < sentFor {
		t.Errorf("it took %v", ev.RTT)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	select {
	case ev := <-events:
		t.Errorf("a second answer to one probe: %+v", ev)
	case <-ctx.Done():
	}
}
