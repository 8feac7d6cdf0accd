package ruleset_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/ruleset"
)

// special asks what a row cannot say, of what only names.
func (w *world) special(round int, only func(string) bool) map[string]string {
	var (
		mu    sync.Mutex
		wrong = map[string]string{}
		wg    sync.WaitGroup
	)
	for name, f := range map[string]func(int) error{
		"the same peer by two lines that have one address": w.twins,
		"a connection nobody knows, to the outside":        func(int) error { return unknownOut("pc") },
		"a connection nobody knows, of the gateway":        func(int) error { return unknownOut("") },
		"a connection nobody knows, from outside":          w.unknownIn,
		"a stray echo reply to the outside":                w.strayReply,
		"a client without an address asks DHCP":            w.broadcast,
		"a link's own ICMPv6 is not forwarded":             w.nodeInfo,
		"TCP by a line is marked as such":                  w.tcpMarks,
		"talk to everyone":                                 w.chatter,
		"no way on":                                        func(int) error { return nowhere("pc", "192.0.2.99", "2001:db8:80::99") },
		"what counts as an answer":                         w.countedOnce,
	} {
		if !only(name) {
			continue
		}
		wg.Go(func() {
			err := f(round)
			if err != nil && !errors.Is(err, errHeard) {
				err = f(round + 5000) // the machine may have been busy
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				wrong[name] = err.Error()
			}
		})
	}
	wrongMTU := pathMTUs("fiber", 1400)
	wg.Wait()
	maps.Copy(wrong, wrongMTU)
	maps.DeleteFunc(wrong, func(name, _ string) bool { return !only(name) })
	return wrong
}

// pathMTUs sees that pc learns how long a packet a line takes.
func pathMTUs(line string, want int) map[string]string {
	wrong := map[string]string{}
	for _, to := range []string{"192.0.2.90", "2001:db8:80::90"} {
		err := pathMTU("pc", to, want)
		if err != nil {
			err = pathMTU("pc", to, want)
		}
		if err != nil {
			wrong["path MTU by "+line+" to "+to] = err.Error()
		}
	}
	return wrong
}

// dial connects in a namespace. local is "", an address, an address and port,
// or %LINK to bind to a link. It is for what has to come about, so it bears with a
// machine that is so busy that the first SYN is lost.
func dial(ns, network, local, to string) (c net.Conn, err error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*patience)
	defer stop()
	err = netns.Do(ns, func() error {
		link, bound := strings.CutPrefix(local, "%")
		if !bound {
			link = ""
		}
		d := net.Dialer{Control: reuse(link).Control}
		if local != "" && !bound {
			at, err := netip.ParseAddrPort(local)
			if err != nil {
				at = netip.AddrPortFrom(netip.MustParseAddr(local), 0)
			}
			if network == "tcp" {
				d.LocalAddr = net.TCPAddrFromAddrPort(at)
			} else {
				d.LocalAddr = net.UDPAddrFromAddrPort(at)
			}
		}
		c, err = d.DialContext(ctx, network, to)
		return err
	})
	return c, err
}

// say says something on a connection and returns the answer.
func say(c net.Conn, what string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprint(c, what); err != nil {
		return "", err
	}
	buf := make([]byte, 2048)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

// hangUp ends a connection at once, so that its port can be used again.
func hangUp(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

// flows are connections kept open.
type flows []flow

type flow struct {
	name string
	c    net.Conn
	err  error
	want string
}

// openFlows opens connections by the line in use, and in by it.
func (w *world) openFlows(line string) flows {
	own4, own6 := "198.51.100.10", "2001:db8:1::10"
	if line == "lte" {
		own4, own6 = "203.0.113.10", "2001:db8:2::10"
	}
	var out flows
	for _, f := range []struct{ name, from, network, to, want string }{
		{"pc's connection", "pc", "tcp", "192.0.2.80:7000", "inet:7000 for " + own4},
		{"pc's connection, IPv6", "pc", "tcp", "[2001:db8:80::80]:7000", "inet:7000 for " + own6},
		{"pc's datagrams", "pc", "udp", "192.0.2.80:7000", "inet:7000 for " + own4},
		{"the gateway's connection", "", "tcp", "192.0.2.80:7000", "inet:7000 for " + own4},
		{"a connection from outside", "inet", "tcp", own4 + ":80", "nas:80 for "},
	} {
		c, err := dial(f.from, f.network, "", f.to)
		if err == nil {
			var got string
			if got, err = say(c, "flow"); err == nil && !strings.HasPrefix(got, f.want) {
				err = fmt.Errorf("got %q, want %q", got, f.want)
			}
		}
		out = append(out, flow{f.name + " by " + line, c, err, f.want})
	}
	return out
}

// still asks each again, and ends it.
func (fs flows) still(when string) map[string]string {
	wrong := map[string]string{}
	for _, f := range fs {
		if f.c != nil {
			defer hangUp(f.c)
		}
		if f.err != nil {
			wrong[f.name] = f.err.Error()
			continue
		}
		if got, err := say(f.c, "flow"); err != nil || !strings.HasPrefix(got, f.want) {
			wrong[f.name+", "+when] = fmt.Sprintf("got %q (%v), want %q", got, err, f.want)
		}
	}
	return wrong
}

// twins connects twice to one address that both lines have, by one line and by
// the other, from one address and port.
func (w *world) twins(round int) error {
	local := fmt.Sprintf("10.0.1.2:%d", 40000+round)
	for _, from := range []string{"inet", "isp2"} {
		c, err := dial(from, "tcp", local, "198.51.100.99:80")
		if err != nil {
			return fmt.Errorf("by %s: %w", from, err)
		}
		defer hangUp(c)
		if got, err := say(c, "twin"); err != nil || !strings.HasPrefix(got, "nas:80 for 10.0.1.2") {
			return fmt.Errorf("by %s: got %q (%w)", from, got, err)
		}
	}
	return nil
}

// tcpMarks looks at the conntrack marks of a connection and of datagrams, both by
// the line in use: what is deleted when it is lost is told by them.
func (w *world) tcpMarks(int) error {
	wants := map[conntrack.Tuple]uint32{}
	for network, want := range map[string]uint32{"tcp": ruleset.MarkTCP, "udp": 0} {
		c, err := dial("pc", network, "", "192.0.2.80:7000")
		if err != nil {
			return err
		}
		defer hangUp(c)
		if _, err := say(c, "mark"); err != nil {
			return err
		}
		wants[opening(c)] = want
	}
	known, err := flowsOf()
	if err != nil {
		return err
	}
	for first, want := range wants {
		if f, ok := known[first]; !ok {
			return fmt.Errorf("conntrack knows no %v", first)
		} else if m := f.Mark; m&ruleset.MarkIndex == 0 || m&ruleset.MarkTCP != want {
			return fmt.Errorf("%v has the mark %#x", first, m)
		}
	}
	return nil
}

// forgetFlow deletes the conntrack entry of a connection in main, that came by the
// line of index zone, if any.
func forgetFlow(c net.Conn, zone uint16) error {
	first := opening(c)
	first.Zone = zone
	return netns.Do("", func() error {
		n, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer n.Close()
		return n.Delete(conntrack.Flow{TupleOrig: first})
	})
}

// unknownOut says something on a connection whose entry is gone: a reset must
// come at once.
func unknownOut(ns string) error {
	c, err := dial(ns, "tcp", "", "192.0.2.80:7000")
	if err != nil {
		return err
	}
	defer hangUp(c)
	if err := forgetFlow(c, 0); err != nil {
		return err
	}
	if got, err := say(c, "unknown"); !errors.Is(err, unix.ECONNRESET) {
		return fmt.Errorf("got %q, want a reset: %w", got, err)
	}
	return nil
}

// nowhere asks for addresses that no route leads to: a reset, and no mere word of
// the kernel's, which has but so many.
func nowhere(ns string, to ...string) error {
	for _, a := range to {
		c, err := dial(ns, "tcp", "", net.JoinHostPort(a, "7000"))
		switch {
		case err == nil:
			hangUp(c)
			return fmt.Errorf("%s: it answers, want a reset", a)
		case !errors.Is(err, unix.ECONNREFUSED):
			return fmt.Errorf("%s: %w, want a reset", a, err)
		}
	}
	return nil
}

// unknownIn does so from outside: silence.
func (w *world) unknownIn(int) error {
	c, err := dial("inet", "tcp", "", "198.51.100.10:443")
	if err != nil {
		return err
	}
	defer hangUp(c)
	if err := forgetFlow(c, 1); err != nil {
		return err
	}
	if got, err := say(c, "unknown"); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("got %q, want silence: %w", got, err)
	}
	return nil
}

// strayReply sends the answer to an echo request nobody made: a counter must see it.
func (w *world) strayReply(int) error {
	return netns.Do("pc", func() error {
		c, err := icmp.ListenPacket("ip4:icmp", "")
		if err != nil {
			return err
		}
		defer c.Close()
		msg, err := (&icmp.Message{Type: ipv4.ICMPTypeEchoReply, Body: &icmp.Echo{ID: 9, Seq: 9}}).Marshal(nil)
		if err != nil {
			return err
		}
		_, err = c.WriteTo(msg, &net.IPAddr{IP: net.IPv4(192, 0, 2, 80)})
		return err
	})
}

// pathMTU sends a datagram that is too long for a line and waits for the kernel
// to learn how long it may be.
func pathMTU(ns, to string, want int) error {
	c, err := dial(ns, "udp", "", net.JoinHostPort(to, "7000"))
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	level, discover, mtu := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_MTU
	if strings.Contains(to, ":") {
		level, discover, mtu = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU
	}
	if err := control(raw, func(fd int) error { return unix.SetsockoptInt(fd, level, discover, unix.IP_PMTUDISC_DO) }); err != nil {
		return err
	}
	learnt := 0
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		_, _ = c.Write(make([]byte, 1440))
		_ = c.SetReadDeadline(time.Now().Add(patience / 20))
		_, _ = c.Read(make([]byte, 2048)) // the error comes this way too
		if err := control(raw, func(fd int) (err error) { learnt, err = unix.GetsockoptInt(fd, level, mtu); return err }); err != nil {
			return err
		}
		if learnt == want {
			return nil
		}
	}
	return fmt.Errorf("the path to %s takes %d bytes, want %d", to, learnt, want)
}

func control(raw syscall.RawConn, f func(fd int) error) (err error) {
	e := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(e, err)
}
