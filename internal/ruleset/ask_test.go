package ruleset_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// patience is how long nothing has to be heard before it is silence. Everything
// answers here within a millisecond or two.
const patience = 400 * time.Millisecond

// servers answer on TCP and UDP with "WHO:PORT for ASKER mss N", and remember
// what datagrams they heard.
type servers struct {
	mu    sync.Mutex
	heard map[string]string // what was said -> who heard it
}

func (s *servers) note(token, who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[token] = who
}

func (s *servers) who(token string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[token]
}

// serve listens in ns on the addresses and ports given, until tb ends.
func (s *servers) serve(tb testing.TB, ns string, addrs []string, ports []int) {
	tb.Helper()
	err := netns.Do(ns, func() error {
		for _, a := range addrs {
			for _, port := range ports {
				at := netip.AddrPortFrom(netip.MustParseAddr(a), uint16(port)).String()
				l, err := net.Listen("tcp", at)
				if err != nil {
					return err
				}
				u, err := reuse("").ListenPacket(context.Background(), "udp", at)
				if err != nil {
					return err
				}
				tb.Cleanup(func() { l.Close(); u.Close() })
				name := fmt.Sprintf("%s:%d", cmp.Or(ns, "gateway"), port)
				go s.tcp(l, name)
				go s.udp(u, name)
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// reuse listens where others do on other addresses or, with link, other links.
func reuse(link string) *net.ListenConfig {
	return &net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return control(raw, func(fd int) error {
			err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			if link != "" {
				err = errors.Join(err, unix.BindToDevice(fd, link))
			}
			return err
		})
	}}
}

func (s *servers) tcp(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 2048)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				s.note(string(buf[:n]), name)
				asker, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				fmt.Fprintf(c, "%s for %s mss %d", name, asker, segment(c))
			}
		}()
	}
}

func (s *servers) udp(u net.PacketConn, name string) {
	buf := make([]byte, 2048)
	for {
		n, from, err := u.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		s.note(string(buf[:n]), name)
		asker, _, _ := net.SplitHostPort(from.String())
		_, _ = u.WriteTo(fmt.Appendf(nil, "%s for %s mss 0", name, asker), from)
	}
}

// segment is the largest segment a connection sends.
func segment(c net.Conn) int {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0
	}
	var mss int
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			mss = int(info.Snd_mss)
		}
	})
	return mss
}

// ask asks for one thing from a namespace and says what came back:
// "nas:80 for 172.31.0.1", "refused" or "silence". proto is tcp, udp or ping;
// source is an address to ask from, or "".
func ask(ns, source, proto, to string, port int, token string) (answer string, err error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	err = netns.Do(ns, func() error {
		if proto == "ping" {
			answer, err = ping(source, to)
			return err
		}
		var d net.Dialer
		if source != "" {
			a := netip.AddrPortFrom(netip.MustParseAddr(source), 0)
			if proto == "tcp" {
				d.LocalAddr = net.TCPAddrFromAddrPort(a)
			} else {
				d.LocalAddr = net.UDPAddrFromAddrPort(a)
			}
		}
		c, err := d.DialContext(ctx, proto, netip.AddrPortFrom(netip.MustParseAddr(to), uint16(port)).String())
		if err != nil {
			answer = verdict(err)
			return nil
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := fmt.Fprint(c, token); err != nil {
			answer = verdict(err)
			return nil
		}
		buf := make([]byte, 2048)
		n, err := c.Read(buf)
		if err != nil {
			answer = verdict(err)
			return nil
		}
		answer = string(buf[:n])
		if proto == "tcp" {
			answer += fmt.Sprintf(" and %d", segment(c))
		}
		return nil
	})
	return answer, err
}

// verdict tells a refusal from silence.
func verdict(err error) string {
	for _, e := range []error{unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.EACCES, unix.ENETUNREACH, unix.ECONNRESET, unix.EPERM} {
		if errors.Is(err, e) {
			return "refused"
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "silence"
	}
	return err.Error()
}

// ping sends one echo request. The answer is "pong".
func ping(source, to string) (string, error) {
	dst := netip.MustParseAddr(to)
	network, typ, proto := "ip4:icmp", icmp.Type(ipv4.ICMPTypeEcho), 1
	if dst.Is6() {
		network, typ, proto = "ip6:ipv6-icmp", ipv6.ICMPTypeEchoRequest, 58
	}
	c, err := icmp.ListenPacket(network, source)
	if err != nil {
		return "", err
	}
	defer c.Close()
	id := int(rand.Uint32N(1 << 16))
	msg, err := (&icmp.Message{Type: typ, Body: &icmp.Echo{ID: id, Seq: 1, Data: []byte("weir")}}).Marshal(nil)
	if err != nil {
		return "", err
	}
	if _, err := c.WriteTo(msg, &net.IPAddr{IP: dst.AsSlice()}); err != nil {
		return verdict(err), nil
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 2048)
	for {
		n, _, err := c.ReadFrom(buf)
		if err != nil {
			return verdict(err), nil
		}
		m, err := icmp.ParseMessage(proto, buf[:n])
		if err != nil {
			continue
		}
		switch b := m.Body.(type) {
		case *icmp.Echo:
			if b.ID == id && (m.Type == ipv4.ICMPTypeEchoReply || m.Type == ipv6.ICMPTypeEchoReply) {
				return "pong", nil
			}
		case *icmp.DstUnreach:
			if dst.Is4() && ours(b.Data, 20, id) || dst.Is6() && ours(b.Data, 40, id) {
				return "refused", nil
			}
		}
	}
}

// ours says whether the echo request quoted after an IP header of n bytes has
// the identifier id.
func ours(quoted []byte, n, id int) bool {
	return len(quoted) >= n+6 && int(quoted[n+4])<<8|int(quoted[n+5]) == id
}
