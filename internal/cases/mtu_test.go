package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/lab"
)

// narrowLines is a house on lines that carry less than Ethernet does. One of its
// devices is led to the second.
const narrowLines = `
gateway "gw" { domain = "local" }
wan "fiber" {
  interface = "eth1"
  mtu       = FIBER
}
wan "lte" {
  interface = "eth2"
  mtu       = LTE
}
failover {
  hold_down = "2s"
  probe { target = ["1.1.1.1", "8.8.8.8"] }
}
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["172.31.0.23", "fd00::23"]
  }
  host "tv" {
    mac     = "02:00:00:00:00:24"
    address = ["172.31.0.24", "fd00::24"]
  }
}
route "tv" {
  from   = host.tv
  prefer = wan.lte
}
forward "web" {
  port = 443
  to   = host.nas
}
`

// TestMTUOfTheLineUsed (B25): the ISPs drop what is longer than their lines carry,
// and tell nobody. The MSS of both ends is that of the line that a connection
// goes by, in both families, also where a route leads to the other line and where
// a forward lets in by either; and a datagram that is too long is answered properly.
// So it is in a house whose LAN has jumbo frames.
func TestMTUOfTheLineUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mtu [2]int
		lan int
	}{{[2]int{1492, 1428}, 1500}, {[2]int{1280, 1500}, 1500}, {[2]int{1492, 1428}, 9000}} {
		mtu := c.mtu
		t.Run(fmt.Sprint(mtu, c.lan), func(t *testing.T) {
			in(t, func(h *house) {
				h.need("nft", "ip")
				f, l := fiberLine(), lteLine6()
				fiber, lte := h.connect(f), h.connect(l)
				for i, isp := range []*lab.ISP{fiber, lte} {
					h.silent(isp, mtu[i])
				}
				pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
				tv := h.join("tv", "02:00:00:00:00:24", "172.31.0.24/24", "fd00::24/64")
				nas := h.join("nas", "02:00:00:00:00:23", "172.31.0.23/24", "fd00::23/64")
				h.wideLAN(c.lan, pc, tv, nas)
				h.start(strings.NewReplacer("FIBER", fmt.Sprint(mtu[0]), "LTE", fmt.Sprint(mtu[1])).Replace(narrowLines))
				h.bothUp(pc)

				inside := h.swap(nas.Host, 443)
				for _, p := range []struct {
					who  *lab.Client
					line *lab.ISP
					mtu  int
				}{{pc, fiber, mtu[0]}, {tv, lte, mtu[1]}} {
					server := h.swap(p.line.Inet, 9443)
					for _, to := range []string{"192.0.2.80:9443", "[2001:db8:80::80]:9443"} {
						a := at(to)
						want := p.mtu - segmentHeaders(a.Addr())
						h.swaps(p.who.Host, a, server, want)
						h.tooLong(p.who.Host, netip.AddrPortFrom(a.Addr(), 7), c.lan, p.mtu)
					}
					for _, public := range []netip.Addr{p.line.Customer4[0].Addr(), h.public6(p.line.Name)} {
						h.swaps(p.line.Inet, netip.AddrPortFrom(public, 443), inside, p.mtu-segmentHeaders(public))
					}
				}
				h.strays(fiber, lte)
			})
		})
	}
}

// wideLAN has the LAN carry frames of mtu bytes, which is a matter of the ports.
func (h *house) wideLAN(mtu int, clients ...*lab.Client) {
	h.Helper()
	switches, err := h.Attach("switch")
	h.must(err)
	h.sh(switches, fmt.Sprintf("for l in $(ip -o link | sed -n 's/^[0-9]*: \\(home[^:@]*\\).*/\\1/p'); do ip link set $l mtu %d; done", mtu))
	h.sh(h.gw, fmt.Sprintf("ip link set eth0 mtu %d", mtu))
	for _, c := range clients {
		h.sh(c.Host, fmt.Sprintf("ip link set e0 mtu %d", mtu))
	}
}

// public6 is the address by which a line is reached in IPv6.
func (h *house) public6(wan string) (a netip.Addr) {
	h.Helper()
	h.until("an IPv6 address of "+wan, 10*time.Second, func() bool {
		for _, w := range h.status().WANs {
			if w.Name == wan && len(w.IPv6.Addresses) > 0 {
				a = pfx(w.IPv6.Addresses[0]).Addr()
			}
		}
		return a.IsValid()
	})
	return a
}

// silent makes a line narrow, and its router tell nobody of what it drops.
func (h *house) silent(i *lab.ISP, mtu int) {
	h.Helper()
	h.sh(i.Router, fmt.Sprintf(`
ip link set cust0 mtu %d
nft 'add table inet silent; add chain inet silent out { type filter hook output priority 0; }
  add rule inet silent out icmp type destination-unreachable drop
  add rule inet silent out icmpv6 type packet-too-big drop'`, mtu))
}

// segmentHeaders is what IP and TCP take of each packet, with the timestamps that
// Linux adds (RFC 7323).
func segmentHeaders(a netip.Addr) int {
	if a.Is4() {
		return 20 + 20 + 12
	}
	return 40 + 20 + 12
}

// swapped is how much a connection is to carry each way.
const swapped = 1 << 20

// end is what one end of a connection saw: the longest segment that it may send,
// before anything was sent, and how it ended.
type end struct {
	mss int
	err error
}

// swap serves connections on a machine's port: takes what comes, and sends as much
// back.
func (h *house) swap(on *lab.Host, port int) <-chan end {
	h.Helper()
	var l net.Listener
	h.must(on.Do(func() (err error) { l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); return err }))
	h.Cleanup(func() { l.Close() })
	ends := make(chan end, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			ends <- carry(c, func(c net.Conn) error {
				if _, err := io.CopyN(io.Discard, c, swapped); err != nil {
					return fmt.Errorf("what comes in: %w", err)
				}
				_, err := c.Write(make([]byte, swapped))
				return err
			})
		}
	}()
	return ends
}

// swaps has a connection carry its fill each way, and holds both ends to the MSS
// that the line asks for.
func (h *house) swaps(from *lab.Host, to netip.AddrPort, other <-chan end, mss int) {
	h.Helper()
	c, err := from.Dial(h.Context(), "tcp", netip.Addr{}, to, 2*time.Second)
	h.must(err)
	ours := carry(c, func(c net.Conn) error {
		if _, err := c.Write(make([]byte, swapped)); err != nil {
			return fmt.Errorf("what goes out: %w", err)
		}
		_, err := io.CopyN(io.Discard, c, swapped)
		return err
	})
	theirs := <-other
	if err := errors.Join(ours.err, theirs.err); err != nil {
		h.Errorf("%s to %s: a megabyte each way: %v", from, to, err)
	}
	if ours.mss != mss || theirs.mss != mss {
		h.Errorf("%s to %s: segments of %d bytes from here and of %d from there, want %d", from, to, ours.mss, theirs.mss, mss)
	}
}

func carry(c net.Conn, move func(net.Conn) error) (e end) {
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return end{err: err}
	}
	ctlErr := raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			e.err = err
			return
		}
		e.mss = int(info.Snd_mss)
	})
	return end{e.mss, errors.Join(ctlErr, e.err, c.SetDeadline(time.Now().Add(10*time.Second)), move(c))}
}

// tooLong sends a datagram that may not be cut into pieces and that the line does
// not carry, and wants its sender told how much it does.
func (h *house) tooLong(from *lab.Host, to netip.AddrPort, lan, mtu int) {
	h.Helper()
	if mtu >= lan {
		return
	}
	c, err := from.Dial(h.Context(), "udp", netip.Addr{}, to, time.Second)
	h.must(err)
	defer c.Close()
	level, discover, option, headers := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_MTU, 28
	if to.Addr().Is6() {
		level, discover, option, headers = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, 48
	}
	raw, err := c.(*net.UDPConn).SyscallConn()
	h.must(err)
	told := 0
	get := func(fd uintptr) { told, err = unix.GetsockoptInt(int(fd), level, option) }
	h.must(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, discover, unix.IP_PMTUDISC_DO) }))
	h.must(err)
	// What is told comes from the narrowest link so far: the cable's 1500 first. And
	// another connection may have learned it: a path's MTU is kept by address.
	next := lan
	ok := lab.Until(context.WithoutCancel(h.Context()), 2*time.Second, func() bool {
		if told > 0 {
			next = told
		}
		// The first after an answer brings that, and is not sent itself.
		if _, err := c.Write(make([]byte, next-headers)); err != nil && !errors.Is(err, unix.EMSGSIZE) {
			h.Errorf("a datagram of %d bytes to %s: %v", next, to, err)
			return true
		}
		h.must(raw.Control(get))
		h.must(err)
		return told == mtu
	})
	if !ok {
		h.Errorf("%s sent %d bytes to %s and believes that %d can, want %d", from, lan, to, told, mtu)
	}
}
