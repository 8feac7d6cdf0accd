package fastpath_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/fastpath"
	"weir/internal/kernel"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
	"weir/internal/plan"
	"weir/internal/state"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// The house: its line takes packets of 1400 bytes, its LAN of 1500.
const houseFile = `gateway "gw" {
  fast_path = "tc"
  ula       = "fd5e:7a11:c0de::/48"
}
wan "fiber" {
  interface = "eth1"
  mtu       = 1400
  ipv4 {
    address = "198.51.100.10/24"
    gateway = "198.51.100.1"
  }
  ipv6 {
    address = "2001:db8:1::10/64"
    gateway = "2001:db8:1::1"
  }
}
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
  host "nas" { address = "172.31.0.23" }
}
forward "web" {
  port = 80
  to   = host.nas
}
`

// A lab is the house between two cables whose other ends a test holds itself:
// no kernel answers there.
//
//	test --- inside0 === eth0  main  fiber === lan  wan-fiber  eth1 === outside0 --- test
type lab struct {
	testing.TB
	k               *kernel.Kernel
	opt             kernel.Options
	cfg             *config.Config
	st              state.State
	inside, outside *end
	after           func(row int) // each row
}

// An end is a cable's end that sends and hears frames.
type end struct {
	name string
	fd   int
	mac  net.HardwareAddr // its own
	gw   net.HardwareAddr // of the gateway's port there
}

const outer = "world" // the namespace of both ends

func newLab(t testing.TB, fast bool) *lab {
	t.Helper()
	l := &lab{TB: t}
	l.must(netns.Create(outer))
	for _, n := range []string{"0", "1"} {
		l.must(netns.Do("", func() error {
			f, err := os.Open(netns.Path(outer))
			if err != nil {
				return err
			}
			defer f.Close()
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth" + n}, PeerName: "end" + n, PeerNamespace: netlink.NsFd(int(f.Fd()))})
		}))
	}
	c, diags := config.Parse(config.File{Name: "house.hcl", Src: []byte(houseFile)})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	l.opt = kernel.Options{StateDir: t.TempDir(), RuntimeDir: t.TempDir()}
	l.open()
	if !l.k.Machine().FastPath {
		netnstest.Missing(t, "bpf", fmt.Errorf("%s", l.k.Machine().NoFastPath))
	}
	l.cfg = c
	l.st = state.State{ULA: c.Gateway.ULA, Index: map[string]uint8{"fiber": 1}, Use4: "fiber", Use6: "fiber", Machine: l.k.Machine(),
		WANs: map[string]state.WAN{"fiber": {V4: state.Line{Up: true}, V6: state.Line{Up: true}}}}
	l.st.Machine.FastPath = fast
	l.turn()
	l.inside, l.outside = l.end("end0", "", "eth0"), l.end("end1", "wan-fiber", "eth1")
	l.settled("wan-fiber", "eth1")
	l.neighbour("", "eth0", "172.31.0.50", l.inside.mac)
	l.neighbour("", "eth0", "172.31.0.23", l.inside.mac)
	l.neighbour("", "eth0", "fd5e:7a11:c0de:1::50", l.inside.mac)
	l.neighbour("wan-fiber", "eth1", "198.51.100.1", l.outside.mac)
	l.neighbour("wan-fiber", "eth1", "198.51.100.77", l.outside.mac)
	l.neighbour("wan-fiber", "eth1", "2001:db8:1::1", l.outside.mac)
	return l
}

// open opens the kernel, as another process would.
func (l *lab) open() {
	l.Helper()
	k, err := kernel.Open(l.opt)
	l.must(err)
	l.k = k
	l.Cleanup(func() { k.Close() })
}

// turn plans and applies until the kernel is as wanted.
func (l *lab) turn() plan.Plan {
	l.Helper()
	var first plan.Plan
	for n := range 2 {
		p := l.plan()
		if n == 0 {
			first = p
		} else if !p.Empty() {
			l.Fatalf("the plan after the turn is not empty:\n%s", p)
		}
		l.must(l.k.Apply(l.Context(), p))
	}
	return first
}

func (l *lab) plan() plan.Plan {
	l.Helper()
	want := desired.Build(l.cfg, l.st)
	a, err := l.k.Read(l.Context(), want)
	l.must(err)
	return plan.Diff(a, want)
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// end opens an end of a cable whose other end is a port of the gateway's.
func (l *lab) end(name, ns, port string) *end {
	l.Helper()
	e := &end{name: name}
	l.must(netns.Do(outer, func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		e.mac = link.Attrs().HardwareAddr
		// It says nothing of itself.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		if e.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, int(htons(unix.ETH_P_ALL))); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(e.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
		return unix.Bind(e.fd, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Protocol: htons(unix.ETH_P_ALL)})
	}))
	l.Cleanup(func() { unix.Close(e.fd) })
	l.must(netns.Do(ns, func() error {
		link, err := netlink.LinkByName(port)
		if err == nil {
			e.gw = link.Attrs().HardwareAddr
		}
		return err
	}))
	return e
}

func htons(v uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v)) }

// neighbour says where an address is, so that nobody has to be asked.
func (l *lab) neighbour(ns, port, addr string, mac net.HardwareAddr) {
	l.Helper()
	l.must(netns.Do(ns, func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(addr), HardwareAddr: mac})
	}))
}

// send sends a frame. One that the port does not take (ENOBUFS) is lost, as on a wire.
func (e *end) send(frame []byte) error {
	_, err := unix.Write(e.fd, frame)
	if errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}

// hear returns the next frame, nil if none comes within a time.
func (e *end) hear(within time.Duration) []byte {
	buf := make([]byte, 1<<16)
	for end := time.Now().Add(within); ; {
		n, err := unix.Read(e.fd, buf)
		if err == nil {
			return buf[:n]
		}
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
	}
}

// counts are the shortcut's.
func (l *lab) counts() (c fastpath.Counts) {
	l.Helper()
	links := l.links()
	l.must(netns.Do("wan-fiber", func() (err error) {
		c, _, err = fastpath.Count(links)
		return err
	}))
	return c
}

// links are those of the line's namespace.
func (l *lab) links() (all []fastpath.Link) {
	l.Helper()
	l.must(netns.Do("wan-fiber", func() error {
		links, err := netlink.LinkList()
		for _, k := range links {
			a := k.Attrs()
			all = append(all, fastpath.Link{Name: a.Name, Index: a.Index, MTU: a.MTU, MAC: a.HardwareAddr.String()})
		}
		return err
	}))
	return all
}

// settled waits until no address of a port is tentative any more.
func (l *lab) settled(ns, port string) {
	l.Helper()
	l.must(netns.Do(ns, func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			addrs, err := netlink.AddrList(link, netlink.FAMILY_V6)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 }) {
				return nil
			}
		}
		return errors.New("an address stays tentative")
	}))
}

var pre = netip.MustParsePrefix
