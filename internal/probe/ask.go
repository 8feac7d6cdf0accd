package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// most is how many TCP and DNS probes of a line may wait for their answers. A
// burst has some 30; the oldest is given up for a new one.
const most = 64

// strays is how many datagrams that are no answer a DNS probe passes over.
const strays = 16

// asker sends TCP and DNS probes. Each has a socket of its own, on a port that the
// kernel picks: nobody can foresee it, and what conntrack holds of one probe is
// nothing to the next. Its methods but ask may be called from any goroutine.
type asker struct {
	tell func(context.Context, Event)

	mu   sync.Mutex
	open map[key][]*os.File // the oldest first
}

func newAsker(tell func(context.Context, Event)) *asker {
	return &asker{tell: tell, open: map[key][]*os.File{}}
}

// keep closes the sockets of lines that are not there any more.
func (a *asker) keep(lines []Line) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, fs := range a.open {
		if !slices.ContainsFunc(lines, func(l Line) bool { return l.key() == k }) {
			for _, f := range fs {
				_ = f.Close() // whoever waits on it ends
			}
			delete(a.open, k)
		}
	}
}

// ask carries out an order and returns when it was sent. What comes of it is told
// later, by a goroutine of its own.
func (a *asker) ask(ctx context.Context, k key, o Order) (at Monotonic, err error) {
	var q question
	var message []byte
	if o.Way == DNS {
		if q, err = newQuestion(rand.Reader, o.Name); err == nil {
			message, err = q.message()
		}
		if err != nil {
			return monotonic(), err
		}
	}
	f, at, err := dial(k, o, message)
	if err != nil {
		return at, fmt.Errorf("could not ask %s: %w", netip.AddrPortFrom(o.Target, o.Port), err)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return at, errors.Join(err, f.Close())
	}
	a.add(k, f)
	go func() {
		defer a.remove(k, f)
		wait := connected
		if o.Way == DNS {
			wait = func(raw syscall.RawConn, k key, at Monotonic) (Event, bool) { return heard(raw, k, at, q) }
		}
		if ev, ok := wait(raw, k, at); ok {
			ev.ID = o.ID
			a.tell(ctx, ev)
		}
	}()
	return at, nil
}

func (a *asker) add(k key, f *os.File) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[k] = append(a.open[k], f)
	if len(a.open[k]) > most {
		_ = a.open[k][0].Close()
		a.open[k] = a.open[k][1:]
	}
}

func (a *asker) remove(k key, f *os.File) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = f.Close() // closed already if it was given up
	a.open[k] = slices.DeleteFunc(a.open[k], func(o *os.File) bool { return o == f })
}

// dial opens a socket on the line's cable and starts: a TCP handshake, or the
// message is sent. It needs no privilege since Linux 5.7 (SO_BINDTODEVICE).
func dial(k key, o Order, message []byte) (f *os.File, at Monotonic, err error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	var to unix.Sockaddr = &unix.SockaddrInet4{Addr: as4(o.Target), Port: int(o.Port)}
	if k.ipv6 {
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Addr: o.Target.As16(), Port: int(o.Port)}
	}
	if o.Way == DNS {
		kind = unix.SOCK_DGRAM
	}
	at = monotonic()
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, at, fmt.Errorf("socket: %w", err)
	}
	if err := prepare(fd, k, o.Way); err != nil {
		return nil, at, errors.Join(err, unix.Close(fd))
	}
	at = monotonic()
	err = unix.Connect(fd, to)
	if err == nil && o.Way == DNS {
		at = monotonic()
		_, err = unix.Write(fd, message)
	}
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return nil, at, errors.Join(err, unix.Close(fd))
	}
	// Only now, or the poller takes a TCP socket that is not connecting yet for one
	// that hung up.
	f = os.NewFile(uintptr(fd), "probe "+k.wan)
	wait := waitFor
	if o.Wait > 0 {
		wait = min(o.Wait, waitFor)
	}
	if err := f.SetDeadline(time.Now().Add(wait)); err != nil {
		return nil, at, errors.Join(err, f.Close())
	}
	return f, at, nil
}

func prepare(fd int, k key, way Way) error {
	if err := unix.BindToDevice(fd, k.wan); err != nil {
		return fmt.Errorf("bind to %s: %w", k.wan, err)
	}
	level, errs := unix.SOL_IP, unix.IP_RECVERR
	if k.ipv6 {
		level, errs = unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	if err := unix.SetsockoptInt(fd, level, errs, 1); err != nil { // tells ICMP's refusal from the target's own
		return fmt.Errorf("ask for ICMP errors: %w", err)
	}
	if way == DNS {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return fmt.Errorf("ask for time stamps: %w", err)
		}
		return nil
	}
	// The handshake is not completed: its last ACK is put off, and closing resets
	// the connection before it goes. Whoever is asked keeps nothing of it.
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_QUICKACK, 0); err != nil {
		return fmt.Errorf("put the ACK off: %w", err)
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("have it reset when closed: %w", err)
	}
	// One retransmission at least is made; it does no harm, and its answer counts.
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_SYNCNT, 1); err != nil {
		return fmt.Errorf("bound its retransmissions: %w", err)
	}
	return nil
}

// connected waits for the answer to a SYN; ok is false if there was none. A
// refusal by the target is one, a router's that says the target can't be had is
// a failure.
func connected(raw syscall.RawConn, k key, at Monotonic) (ev Event, ok bool) {
	var info *unix.TCPInfo
	var failed error
	var by icmp
	done := raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil {
			info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO)
		}
		switch {
		case err != nil:
			failed = err
		case code != 0:
			failed = syscall.Errno(code)
			by = complaint(int(fd))
		default:
			return info.State != unix.BPF_TCP_SYN_SENT
		}
		return true
	})
	now := monotonic()
	switch {
	case done != nil || errors.Is(failed, unix.ETIMEDOUT) && !by.is:
		return Event{}, false // given up, or nobody answered
	case failed == nil, !by.is && (errors.Is(failed, unix.ECONNREFUSED) || errors.Is(failed, unix.ECONNRESET)):
		return handshake(at, now, info), true
	}
	return Event{Kind: Failed, At: now, Why: by.why(k.ipv6, failed)}, true
}

// handshake is the event of an answered SYN that was sent at a time and found
// answered at another. The kernel's own measurement of the round trip is better
// than ours, which has the time that it took us to wake up in it. A retransmission
// is one second after the SYN before it (RFC 6298, 2.1).
func handshake(sent, now Monotonic, info *unix.TCPInfo) Event {
	rtt := max(time.Duration(now-sent), 0)
	ev := Event{Kind: Reply, At: now, RTT: rtt}
	if info == nil {
		return ev
	}
	kernel := time.Duration(info.Rtt) * time.Microsecond
	switch {
	case info.Total_retrans == 0 && kernel > 0 && kernel < rtt:
		ev.RTT, ev.At = kernel, sent+Monotonic(kernel)
	case info.Total_retrans > 0 && kernel > 0 && kernel < rtt:
		ev.RTT = kernel
	case info.Total_retrans > 0:
		ev.RTT = rtt % time.Second
	}
	return ev
}

// heard waits for the answer to a question; ok is false if there was none.
func heard(raw syscall.RawConn, k key, at Monotonic, q question) (ev Event, ok bool) {
	b, oob := make([]byte, 4096), make([]byte, 128)
	for range strays {
		var n, oobn int
		var err error
		var by icmp
		if done := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EAGAIN) {
				return false
			}
			if err != nil {
				by = complaint(int(fd))
			}
			return true
		}); done != nil {
			return Event{}, false // given up
		}
		if err != nil {
			return Event{Kind: Failed, At: monotonic(), Why: by.why(k.ipv6, err)}, true
		}
		got := arrival(oob[:oobn])
		switch is, err := q.answered(b[:n]); {
		case is && err != nil:
			return Event{Kind: Failed, At: got, Why: "the server says: " + err.Error()}, true
		case is:
			return Event{Kind: Reply, At: got, RTT: max(time.Duration(got-at), 0)}, true
		}
	}
	return Event{}, false
}

// icmp is an ICMP error from a socket's error queue (ip(7), IP_RECVERR).
type icmp struct {
	is         bool
	kind, code byte
	from       netip.Addr
}

// complaint takes the latest ICMP error about a socket's packets.
func complaint(fd int) (c icmp) {
	b, oob := make([]byte, 512), make([]byte, 512)
	for range strays {
		_, oobn, _, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return c
		}
		if got := parseComplaint(oob[:oobn]); got.is {
			c = got
		}
	}
	return c
}

// parseComplaint finds a struct sock_extended_err (linux/errqueue.h) of ICMP's
// among control messages, and the struct sockaddr of who sent it behind it.
func parseComplaint(oob []byte) icmp {
	const size = 16 // of the struct
	cmsgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return icmp{}
	}
	for _, m := range cmsgs {
		is4 := m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR
		is6 := m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if !is4 && !is6 || len(m.Data) < size {
			continue
		}
		origin := m.Data[4]
		if origin != unix.SO_EE_ORIGIN_ICMP && origin != unix.SO_EE_ORIGIN_ICMP6 {
			continue
		}
		c := icmp{is: true, kind: m.Data[5], code: m.Data[6]}
		switch from := m.Data[size:]; {
		case is4 && len(from) >= unix.SizeofSockaddrInet4:
			c.from = netip.AddrFrom4([4]byte(from[4:8]))
		case is6 && len(from) >= unix.SizeofSockaddrInet6:
			c.from = netip.AddrFrom16([16]byte(from[8:24]))
		}
		return c
	}
	return icmp{}
}

// why says what the error says, in the words of an echo's.
func (c icmp) why(ipv6 bool, err error) string {
	if words := errorText(ipv6, c.kind, c.code); c.is && words != "" {
		return fmt.Sprintf("%s says: %s", c.from, words)
	}
	return err.Error()
}

// as4 is a's four bytes; zeros for an address that has none.
func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}
