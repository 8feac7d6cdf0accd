package ether_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/ether"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// becomes waits until a port is up, or is not: the kernel takes note of a carrier
// by and by, and what is sent through a port before that is dropped.
func becomes(t *testing.T, ns, port string, up bool) {
	t.Helper()
	err := netns.Do(ns, func() error {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			l, err := netlink.LinkByName(port)
			if err != nil || (l.Attrs().OperState == netlink.OperUp) == up {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s is %s", port, l.Attrs().OperState)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestConn: two namespaces, a cable, the kernel's own UDP at one end and packet
// sockets at the other.
func TestConn(t *testing.T) {
	near, far := netnstest.New(t), netnstest.New(t)
	farNS, err := os.Open(netns.Path(far))
	if err != nil {
		t.Fatal(err)
	}
	defer farNS.Close()
	var mac ether.MAC
	err = netns.Do(near, func() error {
		la := netlink.NewLinkAttrs()
		la.Name = "a"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "b", PeerNamespace: netlink.NsFd(int(farNS.Fd()))}); err != nil {
			return err
		}
		l, err := netlink.LinkByName("a")
		if err != nil {
			return err
		}
		mac = ether.MAC(l.Attrs().HardwareAddr)
		return netlink.LinkSetUp(l)
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParsePrefix("192.0.2.1/24")
	err = netns.Do(far, func() error {
		l, err := netlink.LinkByName("b")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: addr.Addr().AsSlice(), Mask: net.CIDRMask(24, 32)}}); err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
	if err != nil {
		t.Fatal(err)
	}

	becomes(t, near, "a", true)
	becomes(t, far, "b", true)

	open := func(etherType uint16, port uint16) *ether.Conn {
		t.Helper()
		var f *os.File
		if err := netns.Do(near, func() (err error) {
			filter := ether.ARPReplies()
			if etherType == ether.TypeIPv4 {
				filter = ether.ToUDP(port)
			}
			f, err = ether.Open("a", etherType, filter)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		c, err := ether.NewConn(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	udp, arp := open(ether.TypeIPv4, 68), open(ether.TypeARP, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b := make([]byte, ether.MaxFrame)

	t.Run("not behind the kernel's IPv4", func(t *testing.T) {
		var list []byte
		if err := netns.Do(near, func() (err error) { list, err = os.ReadFile("/proc/thread-self/net/packet"); return err }); err != nil {
			t.Fatal(err)
		}
		var protos []string
		for line := range strings.Lines(string(list)) {
			if f := strings.Fields(line); f[0] != "sk" {
				protos = append(protos, f[3])
			}
		}
		slices.Sort(protos)
		if want := []string{"0003", "0806"}; !slices.Equal(protos, want) { // ETH_P_ALL, ETH_P_ARP
			t.Errorf("packet sockets of the types %q, want %q", protos, want)
		}
	})

	t.Run("the kernel's UDP has no checksum yet", func(t *testing.T) {
		err := netns.Do(far, func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
				return err
			}
			for _, port := range []int{69, 68} { // the first is not for us
				if err := unix.Sendto(fd, []byte("an offer"), 0, &unix.SockaddrInet4{Port: port, Addr: [4]byte{192, 0, 2, 255}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		frame, partial, err := udp.Read(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		u, err := ether.ParseUDP(frame, partial)
		if err != nil || string(u.Payload) != "an offer" || u.Dst.Port() != 68 {
			t.Fatalf("%+v, %v", u, err)
		}
		if !partial {
			t.Error("a veth's checksum is said to be there")
		}
		if _, err := ether.ParseUDP(frame, false); err == nil {
			t.Error("the checksum is there: this kernel does not show the trap, and the test nothing")
		}
	})

	t.Run("ARP", func(t *testing.T) {
		if err := arp.Write(ctx, ether.Probe(mac, addr.Addr()).Frame()); err != nil {
			t.Fatal(err)
		}
		frame, _, err := arp.Read(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := ether.ParseARP(frame); err != nil || a.SenderIP != addr.Addr() || a.Target != mac {
			t.Errorf("%+v, %v: want an answer from %s", a, err, addr.Addr())
		}
		if err := arp.SetFilter(ether.Nothing()); err != nil {
			t.Fatal(err)
		}
		if err := arp.Write(ctx, ether.Probe(mac, addr.Addr()).Frame()); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if frame, _, err := arp.Read(short, b); err == nil {
			t.Errorf("a frame came through a closed filter: %x", frame)
		}
	})

	t.Run("our frame reaches the kernel's socket", func(t *testing.T) {
		var pc net.PacketConn
		if err := netns.Do(far, func() (err error) { pc, err = net.ListenPacket("udp4", "192.0.2.1:67"); return err }); err != nil {
			t.Fatal(err)
		}
		defer pc.Close()
		u := ether.UDP{
			SrcMAC: mac, DstMAC: ether.Broadcast,
			Src: netip.MustParseAddrPort("192.0.2.9:68"), Dst: netip.MustParseAddrPort("192.0.2.1:67"), Payload: []byte("a request"),
		}
		if err := udp.Write(ctx, u.Frame()); err != nil {
			t.Fatal(err)
		}
		if err := pc.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, from, err := pc.ReadFrom(b)
		if err != nil || string(b[:n]) != "a request" || from.String() != "192.0.2.9:68" {
			t.Errorf("%q from %v, %v", b[:n], from, err)
		}
	})

	t.Run("a port that goes down and up", func(t *testing.T) {
		set := func(up bool) error {
			return netns.Do(near, func() error {
				l, err := netlink.LinkByName("a")
				if err == nil && up {
					return netlink.LinkSetUp(l)
				}
				if err == nil {
					return netlink.LinkSetDown(l)
				}
				return err
			})
		}
		if err := set(false); err != nil {
			t.Fatal(err)
		}
		becomes(t, far, "b", false)
		if err := set(true); err != nil {
			t.Fatal(err)
		}
		becomes(t, far, "b", true)
		err := netns.Do(far, func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
				return err
			}
			return unix.Sendto(fd, []byte("again"), 0, &unix.SockaddrInet4{Port: 68, Addr: [4]byte{192, 0, 2, 255}})
		})
		if err != nil {
			t.Fatal(err)
		}
		frame, partial, err := udp.Read(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := ether.ParseUDP(frame, partial); err != nil || string(u.Payload) != "again" {
			t.Errorf("%+v, %v", u, err)
		}
	})
}
