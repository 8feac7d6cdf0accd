package ruleset_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// serveBroadcast hears DHCP requests on a link of the gateway.
func (s *servers) serveBroadcast(tb testing.TB, link string) {
	tb.Helper()
	if err := netns.Do("", func() error {
		u, err := reuse(link).ListenPacket(context.Background(), "udp4", "0.0.0.0:67")
		if err != nil {
			return err
		}
		tb.Cleanup(func() { u.Close() })
		go s.udp(u, "DHCP")
		return nil
	}); err != nil {
		tb.Fatal(err)
	}
}

// broadcast sends what a client does that has no address yet.
func (w *world) broadcast(round int) error {
	token := fmt.Sprintf("discover.%d", round)
	err := netns.Do("guest", func() error {
		link, err := net.InterfaceByName("e0")
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		udp := []byte{0, 68, 0, 67, 0, byte(8 + len(token)), 0, 0}
		head, err := (&ipv4.Header{Version: 4, Len: 20, TotalLen: 28 + len(token), TTL: 64, Protocol: 17, Src: net.IPv4zero, Dst: net.IPv4bcast}).Marshal()
		if err != nil {
			return err
		}
		sum := 0
		for i := 0; i < 20; i += 2 {
			sum += int(head[i])<<8 | int(head[i+1])
		}
		sum = sum>>16 + sum&0xffff
		head[10], head[11] = ^byte(sum>>8), ^byte(sum)
		return unix.Sendto(fd, append(append(head, udp...), token...), 0, &unix.SockaddrLinklayer{
			Protocol: 0x0008, Ifindex: link.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}, // ETH_P_IP in network order
		})
	})
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(patience / 40) {
		if w.who(token) != "" {
			return nil
		}
	}
	return errors.New("the gateway did not hear it")
}

// serveNodeInfo notes ICMPv6 node information queries (RFC 4620) that a namespace gets.
func (s *servers) serveNodeInfo(tb testing.TB, ns string) {
	tb.Helper()
	if err := netns.Do(ns, func() error {
		c, err := icmp.ListenPacket("ip6:ipv6-icmp", "::")
		if err != nil {
			return err
		}
		tb.Cleanup(func() { c.Close() })
		go func() {
			buf := make([]byte, 2048)
			for {
				n, _, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				if n > 8 && buf[0] == 139 {
					s.note(string(buf[8:n]), ns)
				}
			}
		}()
		return nil
	}); err != nil {
		tb.Fatal(err)
	}
}

// errHeard is what no busy machine makes: something arrived that must not.
var errHeard = errors.New("it was heard")

// nodeInfo sends pc's node information query to another LAN.
func (w *world) nodeInfo(round int) error {
	token := fmt.Sprintf("nodeinfo.%d", round)
	err := netns.Do("pc", func() error {
		c, err := icmp.ListenPacket("ip6:ipv6-icmp", "")
		if err != nil {
			return err
		}
		defer c.Close()
		msg, err := (&icmp.Message{Type: ipv6.ICMPType(139), Body: &icmp.RawBody{Data: append(make([]byte, 4), token...)}}).Marshal(nil)
		if err != nil {
			return err
		}
		_, err = c.WriteTo(msg, &net.IPAddr{IP: net.ParseIP("fd00:20::50")})
		return err
	})
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(patience / 40) {
		if who := w.who(token); who != "" {
			return fmt.Errorf("%s: %w", who, errHeard)
		}
	}
	return nil
}

// chatter says something to everyone on the links that may not reach the
// gateway: nobody refuses that, or logs it.
func (w *world) chatter(int) error {
	for _, from := range []string{"guest", "camera"} {
		c, err := dial(from, "udp", "", "224.0.0.1:5353")
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(c, "anybody there?")
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
