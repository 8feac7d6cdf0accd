package kernel_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/netns/netnstest"
	"weir/internal/plan"
)

// A stream is one flow, of a datagram each millisecond, through the gateway.
type stream struct {
	stop    chan struct{}
	wg      sync.WaitGroup
	out, in int

	mu    sync.Mutex
	heard []bool // of each that was sent, by its number
}

func (b *bench) stream(from, src, to, dst string) *stream {
	b.Helper()
	s := &stream{stop: make(chan struct{})}
	open := func(ns, addr string, port int) (fd int) {
		b.in(ns, func() (err error) {
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
				unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20), // of a busy machine
				unix.Bind(fd, &unix.SockaddrInet4{Addr: netip.MustParseAddr(addr).As4(), Port: port}))
		})
		return fd
	}
	s.out, s.in = open(from, src, 9000), open(to, dst, 9000)
	b.must(unix.Connect(s.out, &unix.SockaddrInet4{Addr: netip.MustParseAddr(dst).As4(), Port: 9000}))
	s.wg.Go(func() {
		for tick := time.Tick(time.Millisecond); ; {
			select {
			case <-s.stop:
				return
			case <-tick:
			}
			s.mu.Lock()
			n := len(s.heard)
			s.heard = append(s.heard, false)
			s.mu.Unlock()
			_, _ = unix.Write(s.out, binary.BigEndian.AppendUint32(nil, uint32(n))) // what is not sent is not heard
		}
	})
	s.wg.Go(func() {
		buf := make([]byte, 16)
		for {
			if n, _, err := unix.Recvfrom(s.in, buf, 0); err == nil && n == 4 {
				s.mu.Lock()
				s.heard[binary.BigEndian.Uint32(buf)] = true
				s.mu.Unlock()
				continue
			}
			select {
			case <-s.stop:
				return
			default:
			}
		}
	})
	b.Cleanup(func() {
		close(s.stop)
		s.wg.Wait()
		_, _ = unix.Close(s.out), unix.Close(s.in)
	})
	return s
}

// lost is how many datagrams of those sent while do ran did not come. They come in order:
// what is not there when later ones are will not be any more, however busy the machine is.
func (s *stream) lost(do func()) (n int) {
	sent := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.heard)
	}
	from := sent()
	do()
	to := sent()
	for until := time.Now().Add(3 * time.Second); ; time.Sleep(time.Millisecond) {
		n = 0
		s.mu.Lock()
		for _, heard := range s.heard[from:to] {
			if !heard {
				n++
			}
		}
		later := slices.Contains(s.heard[to:], true)
		s.mu.Unlock()
		if n == 0 || later || time.Now().After(until) {
			return n
		}
	}
}

// What is put in force in the place of probedHouse, of which fiber and home stay, but
// for what each says.
const (
	// Other ports change their places, and home's address its length.
	otherPorts = `wan "fiber" {
  interface = "eth1"
  ipv6 { method = "none" }
}
wan "lte" {
  interface = "eth2"
  ipv6 { method = "none" }
}
lan "home" {
  interface = "eth0"
  address   = "10.0.10.1/25"
}
`
	// The line itself gets another MAC address, which takes it down for a moment.
	otherMAC = `wan "fiber" {
  interface = "eth1"
  mac       = "02:00:00:00:77:01"
  ipv6 { method = "none" }
}
lan "home" {
  interface = "eth0"
  address   = "10.0.10.1/24"
}
wan "lte" {
  interface = "eth2"
  ipv6 { method = "none" }
}
`
)

// A running flow loses no packet by an apply that is not about it, nor by one that fails,
// whichever change fails: but where what failed comes after the one change of the flow's
// own link that can't be made without a gap. So that one comes after all that can do
// without it.
//
// Without WEIR_LONG one change of four is made to fail.
func TestRunningFlow(t *testing.T) {
	oneOf := 4
	if os.Getenv("WEIR_LONG") != "" {
		oneOf = 1
	}
	for _, c := range []struct {
		name, file string
		gap        bool
	}{{"other ports change places", otherPorts, false}, {"its line gets another MAC address", otherMAC, true}} {
		t.Run(c.name, func(t *testing.T) {
			netnstest.Alone(t, func(t *testing.T) {
				b, x := tampered(t)
				b.machines()
				house := func(text string) desired.Desired {
					file := filepath.Join(t.TempDir(), "gateway.hcl")
					b.must(os.WriteFile(file, []byte(text), 0o600))
					return b.built(file)
				}
				old, next := house(probedHouse), house(c.file)
				b.want = old
				b.turn()
				b.noDAD()
				b.run("home", "ping -c 1 -W 2 192.0.2.80")
				s := b.stream("home", "10.0.10.50", "isp", "192.0.2.80")
				if n := s.lost(func() { time.Sleep(50 * time.Millisecond) }); n != 0 {
					t.Fatalf("%d packets are lost, and nothing was done yet", n)
				}

				b.want = next
				p := b.plan()
				gap := slices.IndexFunc(p.Steps, func(s plan.Step) bool { set, ok := s.Do.(plan.SetLink); return ok && set.Bounce })
				if (gap >= 0) != c.gap {
					t.Fatalf("the gap is at step %d of\n%s", gap, p)
				}
				failed, gaps := 0, 0
				for n, again := 1, true; again; n += oneOf {
					at := len(p.Steps)
					lost := s.lost(func() {
						*x = tamper{on: true, fail: n}
						err := b.k.Apply(t.Context(), p)
						x.on = false
						var step *kernel.StepError
						switch {
						case x.failed == "" || onlyFlows(p, x):
							b.must(err)
							again = false
						case !errors.As(err, &step) || step.Undo != nil:
							t.Fatalf("change %d (%s): %v", n, x.failed, err)
						default:
							at = step.N - 1
							failed++
						}
					})
					switch {
					case c.gap && at > gap, c.gap && at == gap && again && lost > 0 && strings.Contains(x.failed, "netlink"):
						gaps++
						b.run("home", "ping -c 1 -W 3 192.0.2.80") // neighbours are known again
					case lost > 0:
						t.Errorf("change %d (%s), of step %d of %d: %d packets of a running flow are lost\n%s", n, x.failed, at+1, len(p.Steps), lost, p)
					}
				}
				t.Logf("%d changes failed, %d of them after the gap", failed, gaps)
				if c.gap && 2*gaps > failed {
					t.Errorf("%d of %d changes come after the gap: it is to be among the last\n%s", gaps, failed, p)
				}

				// And back again.
				b.want = old
				back := b.plan()
				if lost := s.lost(func() { b.must(b.k.Apply(t.Context(), back)) }); lost > 0 && !c.gap {
					t.Errorf("on the way back %d packets of a running flow are lost\n%s", lost, back)
				}
			})
		})
	}
}
