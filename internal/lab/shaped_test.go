package lab_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"weir/internal/lab"
	"weir/internal/lab/labtest"
	"weir/internal/netns/netnstest"
)

// linked makes the machines a and b with a link between them, 10.0.0.1 and .2.
func linked(t testing.TB, l *lab.Lab, there, back lab.Shape) (a, b *lab.Host, link *lab.Link) {
	t.Helper()
	if err := lab.TAP(); err != nil {
		netnstest.Missing(t, "tap", err)
	}
	var err error
	if a, err = l.Add("a"); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Add("b"); err != nil {
		t.Fatal(err)
	}
	link, err = l.Link(lab.Plug{Host: a, Dev: "e0", MAC: "02:00:00:00:00:0a"}, lab.Plug{Host: b, Dev: "e0", MAC: "02:00:00:00:00:0b"}, there, back, 1)
	if err != nil {
		t.Fatal(err)
	}
	for h, addr := range map[*lab.Host]string{a: "10.0.0.1/24", b: "10.0.0.2/24"} {
		if err := h.AddAddr("e0", netip.MustParsePrefix(addr)); err != nil {
			t.Fatal(err)
		}
	}
	return a, b, link
}

func TestLinkDelays(t *testing.T) {
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		a, _, link := linked(t, l, lab.Shape{Delay: 30 * time.Millisecond}, lab.Shape{Delay: 10 * time.Millisecond})
		p, err := a.Ping(addr("10.0.0.2"), 10*time.Millisecond)
		must(t, err)
		least := func() time.Duration {
			since := time.Now()
			if _, ok := p.Answered(t.Context(), since, 3*time.Second); !ok {
				t.Fatal("no answer")
			}
			best := time.Hour
			for _, b := range p.Beats() {
				if b.Sent.After(since) && b.Good() {
					best = min(best, b.RTT)
				}
			}
			return best
		}
		if d := least(); d < 40*time.Millisecond {
			t.Errorf("a round trip of %s over a link of 30 and 10 ms", d)
		}
		must(t, link.Shape(lab.Shape{}, lab.Shape{}))
		// What was under way does not overtake: the second answer is of the new link.
		least()
		if d := least(); d > 30*time.Millisecond {
			t.Errorf("a round trip of %s over a plain link", d)
		}
		for name, dead := range map[string][2]lab.Shape{"up": {{Dead: true}, {}}, "down": {{}, {Dead: true}}} {
			must(t, link.Shape(dead[0], dead[1]))
			there, back := link.Counts()
			if _, ok := p.Answered(t.Context(), time.Now(), 150*time.Millisecond); ok {
				t.Errorf("%s is dead, and an echo was answered", name)
			}
			th, ba := link.Counts()
			if name == "down" && (th.Frames == there.Frames || ba.Dead == back.Dead) || name == "up" && th.Dead == there.Dead {
				t.Errorf("%s dead: %+v %+v, before %+v %+v", name, th, ba, there, back)
			}
			link, err := a.Netlink().LinkByName("e0")
			must(t, err)
			if link.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 {
				t.Errorf("%s is dead, and so is the carrier", name)
			}
		}
		p.Stop()
	})
}

// What passes is whole: a bulk TCP transfer has frames no longer than the MTU and
// checksums that are right, as on a wire.
func TestLinkFrames(t *testing.T) {
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		a, b, link := linked(t, l, lab.Shape{}, lab.Shape{})
		var conn *packet.Conn
		must(t, b.Do(func() error {
			ifi, err := net.InterfaceByName("e0")
			if err != nil {
				return err
			}
			if conn, err = packet.Listen(ifi, packet.Raw, unix.ETH_P_IP, nil); err != nil {
				return err
			}
			raw, err := conn.SyscallConn()
			if err != nil {
				return err
			}
			// Room for the whole transfer, where root gives it: on a busy machine nobody
			// reads meanwhile.
			return raw.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
			})
		}))
		var mu sync.Mutex
		var frames, long, wrong, full int
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			buf := make([]byte, 65536)
			for {
				n, _, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				f := buf[:n]
				if n < 34 || f[23] != unix.IPPROTO_TCP {
					continue
				}
				total := int(binary.BigEndian.Uint16(f[16:]))
				mu.Lock()
				frames++
				if n > 1514 {
					long++
				}
				if n > 1400 {
					full++
				}
				if 14+total > n || !tcpWhole(f[14:14+total]) {
					wrong++
				}
				mu.Unlock()
			}
		}()
		var ln net.Listener
		must(t, b.Do(func() (err error) { ln, err = net.Listen("tcp", "10.0.0.2:99"); return err }))
		got := make(chan int, 1)
		go func() {
			c, err := ln.Accept()
			if err != nil {
				got <- -1
				return
			}
			n, buf := 0, make([]byte, 65536)
			for {
				k, err := c.Read(buf)
				if n += k; err != nil {
					got <- n
					return
				}
			}
		}()
		c, err := a.Dial(t.Context(), "tcp", netip.Addr{}, netip.MustParseAddrPort("10.0.0.2:99"), 2*time.Second)
		must(t, err)
		const size = 4 << 20
		_, err = c.Write(make([]byte, size))
		must(t, err)
		must(t, c.Close())
		if n := <-got; n != size {
			t.Errorf("%d of %d bytes arrived", n, size)
		}
		ln.Close()
		conn.Close()
		<-heard
		mu.Lock()
		defer mu.Unlock()
		t.Logf("%d frames, %d of them full", frames, full)
		if long > 0 || wrong > 0 || full < 1000 {
			t.Errorf("%d frames, %d longer than the MTU, %d with a wrong checksum, %d full", frames, long, wrong, full)
		}
		if there, _ := link.Counts(); there.Lost+there.Full+there.Dead+there.Over > 0 {
			t.Errorf("a plain link lost frames: %+v", there)
		}
	})
}

// tcpWhole checks the TCP checksum of an IPv4 packet (RFC 9293, 3.1).
func tcpWhole(p []byte) bool {
	h := int(p[0]&15) * 4
	sum := uint32(p[9]) + uint32(len(p)-h)
	add := func(b []byte) {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		if len(b)%2 == 1 {
			sum += uint32(b[len(b)-1]) << 8
		}
	}
	add(p[12:20])
	add(p[h:])
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum == 0xffff
}

// A full buffer is made by rate and queue: the echoes of one who uploads wait as
// long as the queue is, and none is lost before it is full.
func TestLinkBuffer(t *testing.T) {
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		a, b, link := linked(t, l, lab.Shape{Rate: 2_000_000, Queue: 100_000}, lab.Shape{})
		var ln net.Listener
		must(t, b.Do(func() (err error) { ln, err = net.Listen("tcp", "10.0.0.2:99"); return err }))
		defer ln.Close()
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(io.Discard, c)
					c.Close()
				}()
			}
		}()
		// Several, for one alone slows down when it sees the delay grow (HyStart). All
		// are there before any uploads: a full buffer drops handshakes too.
		var conns []net.Conn
		for range 4 {
			c, err := a.Dial(t.Context(), "tcp", netip.Addr{}, netip.MustParseAddrPort("10.0.0.2:99"), 2*time.Second)
			must(t, err)
			defer c.Close()
			conns = append(conns, c)
		}
		for _, c := range conns {
			go func() {
				var err error
				for buf := make([]byte, 65536); err == nil; {
					_, err = c.Write(buf)
				}
			}()
		}
		p, err := a.Ping(addr("10.0.0.2"), 50*time.Millisecond)
		must(t, err)
		worst := time.Duration(0)
		if !lab.Until(t.Context(), 10*time.Second, func() bool {
			for _, b := range p.Beats() {
				worst = max(worst, b.RTT)
			}
			there, _ := link.Counts()
			return there.Full > 0 && worst > 300*time.Millisecond
		}) {
			t.Errorf("the buffer of 400 ms never filled: an echo took %s at most", worst)
		}
		if worst > 600*time.Millisecond {
			t.Errorf("an echo took %s through a buffer of 400 ms", worst)
		}
		p.Stop()
	})
}

// BenchmarkLink is the ceiling of a plain link: for small frames, and in bits for
// big ones. It lasts as long as it says, however often it is asked for.
func BenchmarkLink(b *testing.B) {
	for _, size := range []int{60, 1514} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			labtest.Bench(b, func(b *testing.B, l *lab.Lab) {
				c, err := l.Ceiling(size, time.Second)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(c.Frames, "frames/s")
				b.ReportMetric(c.Bits/1e6, "Mbit/s")
				b.ReportMetric(c.CPU, "CPU")
			})
		})
	}
}
