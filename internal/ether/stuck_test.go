package ether_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/ether"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// A port that takes nearly nothing any more (a queue that lets a kilobyte a second out) costs
// who sends there no time.
func TestWriteNowToAStuckPort(t *testing.T) {
	ns := netnstest.New(t)
	var conn *ether.Conn
	var mac ether.MAC
	var qdisc error
	err := netns.Do(ns, func() error {
		la := netlink.NewLinkAttrs()
		la.Name = "a"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "b"}); err != nil {
			return err
		}
		for _, name := range []string{"a", "b"} {
			l, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			if err != nil {
				return err
			}
		}
		l, err := netlink.LinkByName("a")
		if err != nil {
			return err
		}
		mac = ether.MAC(l.Attrs().HardwareAddr)
		qdisc = netlink.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       1000, Limit: 10 << 20, Buffer: netlink.Xmittime(1000, 2000),
		})
		f, err := ether.Open("a", ether.TypeARP, ether.Nothing())
		if err != nil {
			return err
		}
		conn, err = ether.NewConn(f)
		return err
	})
	if qdisc != nil {
		netnstest.Missing(t, "tbf", qdisc)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	frame := append(ether.Probe(mac, netip.MustParseAddr("192.0.2.9")).Frame(), make([]byte, 1400)...)
	var full error
	began := time.Now()
	for range 5000 {
		if err := conn.WriteNow(frame); err != nil {
			full = err
		}
	}
	if !errors.Is(full, unix.EAGAIN) && !errors.Is(full, unix.ENOBUFS) {
		t.Errorf("5000 frames into a port that takes none: %v", full)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("they took %v", took)
	}
}
