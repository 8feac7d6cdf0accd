package fastpath_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// Go's collector closes what nobody refers to, and a killed daemon refers to
// nothing: the links hold the programs all the same, and the next process finds them.
func TestNoProcessHoldsThePrograms(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		l.must(l.k.Close())
		for range 3 {
			runtime.GC()
		}
		had := l.counts().Short
		l.must(l.inside.send(packet{src: pc, dst: peer, sport: 5000, dport: 443}.frame(l.inside)))
		for end := time.Now().Add(5 * time.Second); l.counts().Short == had; {
			if time.Now().After(end) {
				t.Fatal("the shortcut is gone with the process that made it")
			}
		}
		l.open()
		if p := l.plan(); !p.Empty() {
			t.Errorf("the next process does not take them over:\n%s", p)
		}
	})
}

// TCP between real stacks, whose checksums are half done and whose segments travel
// many at once: all of it arrives, and the programs run once for many segments.
func TestSuperframesAndHalfChecksums(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		before := l.counts()
		const size = 8 << 20
		l.transfer(t, size, func() {}, func() {})
		after := l.counts()
		short, slow := after.Short-before.Short, after.Slow()-before.Slow()
		t.Logf("%d MB in %d packets by the shortcut, %d by the namespace", size>>20, short, slow)
		if short < 10 || slow > 50 {
			t.Error("the shortcut did not carry it")
		}
		if segments := uint64(size / 1360); short > segments {
			t.Errorf("it took as many turns as %d segments would", segments)
		}
	})
}

// transfer has a host in the LAN send size bytes to one beyond the line, by TCP, and
// checks that they arrive. open is called when the connection is, half when half of them
// are sent.
func (l *lab) transfer(t *testing.T, size int64, open, half func()) {
	t.Helper()
	far := netnstest.New(t)
	at := func(ns string, f func() error) {
		t.Helper()
		l.must(netns.Do(ns, f))
	}
	at(outer, func() error {
		f, err := os.Open(netns.Path(far))
		if err != nil {
			return err
		}
		defer f.Close()
		k, err := netlink.LinkByName("end1")
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(k, int(f.Fd()))
	})
	host := func(dev, addr, via string) func() error {
		return func() error {
			k, err := netlink.LinkByName(dev)
			if err != nil {
				return err
			}
			a, err := netlink.ParseAddr(addr)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(k, a); err != nil {
				return err
			}
			if err := netlink.LinkSetUp(k); err != nil || via == "" {
				return err
			}
			return netlink.RouteAdd(&netlink.Route{LinkIndex: k.Attrs().Index, Gw: net.ParseIP(via)})
		}
	}
	at(outer, host("end0", pc+"/24", "172.31.0.1"))
	at(far, host("end1", "198.51.100.1/24", ""))

	var server net.Listener
	at(far, func() (err error) {
		server, err = net.Listen("tcp4", "198.51.100.1:8080")
		return err
	})
	defer server.Close()
	sent, got := sha256.New(), sha256.New()
	heard := make(chan error, 1)
	go func() {
		c, err := server.Accept()
		if err == nil {
			defer c.Close()
			var n int64
			n, err = io.Copy(got, c)
			if err == nil && n != size {
				err = fmt.Errorf("%d bytes came", n)
			}
			_, _ = c.Write([]byte("done"))
		}
		heard <- err
	}()
	at(outer, func() error {
		c, err := net.DialTimeout("tcp4", "198.51.100.1:8080", 5*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		open()
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return err
		}
		r := rand.NewChaCha8([32]byte{1})
		for _, then := range []func(){half, func() {}} {
			if _, err := io.CopyN(io.MultiWriter(c, sent), r, size/2); err != nil {
				return err
			}
			then()
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
		b, err := io.ReadAll(c)
		if err == nil && string(b) != "done" {
			err = fmt.Errorf("the answer is %q", b)
		}
		return err
	})
	l.must(<-heard)
	if string(got.Sum(nil)) != string(sent.Sum(nil)) {
		t.Error("what came is not what was sent")
	}
}

// A flow that was carried past conntrack closes all the same: its FIN is beyond the
// window that conntrack knows of, and only a liberal entry takes it. Nothing is left
// of it then. (TCP between real stacks by the way: superframes and half checksums.)
func TestCarriedConnectionsClose(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		f, learn := l.flows(nil)
		const size = 8 << 20
		before := l.counts()
		l.transfer(t, size, learn, func() {})
		r, err := f.Why()
		l.must(err)
		t.Logf("%d MB: %+v", size>>20, r)
		if r.Fast < 10 || r.Fast > size/1360 || r.Unknown > 20 {
			t.Error("it was not carried, or not in superframes")
		}
		if short := l.counts().Short - before.Short; short < r.Fast {
			t.Errorf("%d packets took the shortcut, which carries those %d on", short, r.Fast)
		}
		var state uint8
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if state = l.tcpState(8080); state == 0 || state == timeWait {
				return
			}
		}
		t.Errorf("conntrack has it in state %d (nf_conntrack_tcp.h) ten seconds after it was closed", state)
	})
}
