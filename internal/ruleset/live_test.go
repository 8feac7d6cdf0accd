package ruleset_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// TestFirstLoadSparesTheCaller: who starts weir over ssh goes on working.
func TestFirstLoadSparesTheCaller(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		needNft(t)
		mustRun(t, "", worldScript)
		mustRun(t, "", "ip addr add 172.31.0.1/24 dev eth0; ip link set eth0 up")
		s := servers{heard: map[string]string{}}
		s.serve(t, "", []string{"172.31.0.1"}, []int{22})
		c, err := dial("pc", "tcp", "", "172.31.0.1:22")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := say(c, "before"); err != nil {
			t.Fatal(err)
		}
		conf := parse(t, "house")
		newGateway(t).turn(t, desired.Build(conf, working(conf)))
		if got, err := say(c, "after"); err != nil || !strings.HasPrefix(got, "gateway:22") {
			t.Errorf("the session is lost: %q, %v", got, err)
		}
	})
}

// TestLineGoesDown: what becomes of flows when a line does, and is back.
func TestLineGoesDown(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		w := bringUp(t)
		must := func(ns, network, to, want string) net.Conn {
			t.Helper()
			c, err := dial(ns, network, "", to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if got, err := say(c, "hello"); err != nil || !strings.HasPrefix(got, want) {
				t.Fatalf("%q, %v", got, err)
			}
			return c
		}
		out := must("pc", "tcp", "192.0.2.80:7000", "inet:7000 for 198.51.100.10")
		out6 := must("pc", "tcp", "[2001:db8:80::80]:7000", "inet:7000 for 2001:db8:1::10")
		own := must("", "tcp", "192.0.2.80:7000", "inet:7000 for 198.51.100.10")
		datagrams := must("pc", "udp", "192.0.2.80:7000", "inet:7000 for 198.51.100.10")
		in := must("inet", "tcp", "198.51.100.10:80", "nas:80 for 10.0.1.2")
		in6 := must("inet", "tcp", "[2001:db8:1::10]:80", "nas:80 for ")
		other := must("inet", "tcp", "203.0.113.10:80", "nas:80 for 10.0.2.2")
		inside := must("pc", "tcp", "172.31.20.50:445", "guest:445 for 172.31.0.50")

		conf := parse(t, "house")
		st := working(conf)
		line := st.WANs["fiber"]
		line.V4.Up, line.V6.Up = false, false
		st.WANs["fiber"], st.Use4, st.Use6 = line, "lte", "lte"
		w.turn(t, desired.Build(conf, st))

		for what, c := range map[string]net.Conn{"pc's connection": out, "pc's connection, IPv6": out6, "the gateway's own": own} {
			began := time.Now()
			if got, err := say(c, "still there?"); !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("%s got %q (%v), want a reset", what, got, err)
			}
			t.Logf("%s: reset after %v", what, time.Since(began).Round(10*time.Microsecond))
		}
		if got, err := say(datagrams, "still there?"); err != nil || !strings.HasPrefix(got, "inet:7000 for 203.0.113.10") {
			t.Errorf("datagrams: %q (%v), want them by lte", got, err)
		}
		for what, c := range map[string]net.Conn{"from outside by lte": other, "between LANs": inside} {
			if got, err := say(c, "still there?"); err != nil {
				t.Errorf("%s: %q, %v", what, got, err)
			}
		}
		for what, c := range map[string]net.Conn{"in by fiber": in, "in by fiber, IPv6": in6} {
			if got, err := say(c, "still there?"); err == nil {
				t.Errorf("%s: answered with %q, by what line?", what, got)
			}
		}

		w.turn(t, w.onFiber)
		for what, c := range map[string]net.Conn{"in by fiber": in, "in by fiber, IPv6": in6} {
			_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // until nas sends its answer again
			buf := make([]byte, 100)
			if n, err := c.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "nas:80 for ") {
				t.Errorf("%s, the line back: %q, %v", what, buf[:n], err)
			}
		}
		if got, err := say(datagrams, "and now?"); err != nil || !strings.HasPrefix(got, "inet:7000 for 203.0.113.10") {
			t.Errorf("datagrams, fiber back: %q (%v), want them by lte still", got, err)
		}
	})
}

// TestStraySegmentHarmsNothing: a segment outside the window, in a connection
// that lives, ends nothing. Without tcp_be_liberal it does.
func TestStraySegmentHarmsNothing(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		bringUp(t)
		try := func() error {
			c, err := dial("pc", "tcp", "", "192.0.2.80:7000")
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := say(c, "hello"); err != nil {
				return err
			}
			if err := stray("pc", c.(*net.TCPConn)); err != nil {
				return err
			}
			_, err = say(c, "hello again")
			return err
		}
		if err := try(); err != nil {
			t.Error(err)
		}
		mustRun(t, "", "echo 0 >/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal")
		if err := try(); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("without tcp_be_liberal: %v, want a reset: else this test shows nothing", err)
		}
	})
}

// stray sends a segment far outside the window in the name of c's own end, that
// acknowledges what c does: so that a reset for it would be believed.
func stray(ns string, c *net.TCPConn) error {
	seq, ack, err := numbers(c)
	if err != nil {
		return fmt.Errorf("ask for sequence numbers: %w", err)
	}
	from, to := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice()}
	tcp := &layers.TCP{SrcPort: layers.TCPPort(from.Port()), DstPort: layers.TCPPort(to.Port()), Seq: seq + 1<<28, Ack: ack, ACK: true, Window: 1000}
	if err := tcp.SetNetworkLayerForChecksum(ip); err != nil {
		return err
	}
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, tcp, gopacket.Payload("stray")); err != nil {
		return err
	}
	return netns.Do(ns, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, b.Bytes(), 0, &unix.SockaddrInet4{Addr: to.Addr().As4()})
	})
}

// numbers are the next sequence number c sends and the next it expects.
func numbers(c *net.TCPConn) (snd, rcv uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	err = control(raw, func(fd int) (err error) {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, -1 /* off, without a window probe */))
		}()
		for queue, seq := range map[int]*uint32{1: &rcv, 2: &snd} /* TCP_RECV_QUEUE, TCP_SEND_QUEUE of linux/tcp.h */ {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, queue); err != nil {
				return err
			}
			n, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
			if err != nil {
				return err
			}
			*seq = uint32(n)
		}
		return nil
	})
	return snd, rcv, err
}

// TestNoPrivateSourceLeaves: with the translation gone wrong in main, the
// line's namespace lets nothing of the house out.
func TestNoPrivateSourceLeaves(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		w := bringUp(t)
		if err := load("", "flush map inet weir source4\nflush map inet weir source6\n"); err != nil {
			t.Fatal(err)
		}
		for i, to := range []string{"192.0.2.80", "2001:db8:80::80"} {
			for _, from := range []string{"pc", "guest", ""} {
				token := fmt.Sprintf("private %s.%d", from, i)
				got, err := ask(from, "", "udp", to, 7000, token)
				if err != nil || got != "silence" || w.who(token) != "" {
					t.Errorf("%q to %s: %q (%v), heard by %q", from, to, got, err, w.who(token))
				}
			}
		}
		// And it is the namespace that holds it back.
		if err := load("wan-fiber", "add rule inet weir through accept\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := ask("pc", "", "udp", "192.0.2.80", 7000, "open"); err != nil || w.who("open") == "" {
			t.Errorf("with the namespace open nobody heard it either (%v): this test shows nothing", err)
		}
	})
}

// TestReload: a changed file keeps what was counted, of rules that stay.
func TestReload(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		w := bringUp(t)
		for _, port := range []int{80, 554} {
			if got, err := ask("inet", "", "tcp", "198.51.100.10", port, "x"); err != nil || strings.HasPrefix(got, "silence") {
				t.Fatal(got, err)
			}
		}
		before, err := w.counters()
		if err != nil {
			t.Fatal(err)
		}
		conf := parse(t, "house")
		var kept []config.Forward
		for _, f := range conf.Forwards {
			if f.Name != "web" {
				kept = append(kept, f)
			}
		}
		conf.Forwards = kept
		c, err := dial("inet", "tcp", "", "198.51.100.10:80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w.turn(t, desired.Build(conf, working(conf)))
		after, err := w.counters()
		if err != nil {
			t.Fatal(err)
		}
		if _, there := after["forward.web"]; there {
			t.Error("the counter of a forward that is gone is still there")
		}
		if before["forward.cam"] == 0 || after["forward.cam"] != before["forward.cam"] {
			t.Errorf("forward.cam counted %d before and %d after", before["forward.cam"], after["forward.cam"])
		}
		if got, err := say(c, "still there?"); err != nil || !strings.HasPrefix(got, "nas:80") {
			t.Errorf("a connection that was there: %q, %v", got, err)
		}
		if got, err := ask("inet", "", "tcp", "198.51.100.10", 80, "y"); err != nil || got != "silence" {
			t.Errorf("a new one: %q, %v", got, err)
		}
	})
}
