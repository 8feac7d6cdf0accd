package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// Host is a machine of the lab: a network namespace.
type Host struct {
	Name string // of the namespace; "" is the gateway's
	lab  *Lab
	nl   *netlink.Handle
}

// Add makes the machine name, with lo up. The address autoconfiguration of its
// kernel is hasty: no wait before it asks for routers, none for duplicates.
func (l *Lab) Add(name string) (*Host, error) {
	if err := netns.Create(name); err != nil {
		return nil, err
	}
	h, err := l.open(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.hosts[name] = h
	l.mu.Unlock()
	for key, value := range map[string]string{
		"net/ipv6/conf/default/dad_transmits":                "0",
		"net/ipv6/conf/default/accept_dad":                   "0",
		"net/ipv6/conf/default/router_solicitation_delay":    "0",
		"net/ipv4/conf/default/rp_filter":                    "0",
		"net/ipv4/conf/all/rp_filter":                        "0",
		"net/ipv6/conf/all/disable_ipv6":                     "0",
		"net/ipv6/conf/default/disable_ipv6":                 "0",
		"net/ipv4/icmp_ratelimit":                            "0",
		"net/ipv6/conf/default/regen_max_retry":              "0",
		"net/ipv6/conf/default/router_solicitation_interval": "1",
	} {
		if err := h.Sysctl(key, value); err != nil {
			return nil, err
		}
	}
	return h, h.Up("lo")
}

// Attach gives a hold on a namespace of the lab that somebody else made.
func (l *Lab) Attach(name string) (*Host, error) { return l.open(name) }

func (l *Lab) open(name string) (*Host, error) {
	h := &Host{Name: name, lab: l}
	err := netns.Do(name, func() (err error) {
		h.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("netlink of %s: %w", h, err)
	}
	l.onClose(func() error { h.nl.Close(); return nil })
	return h, nil
}

// String names the machine for messages.
func (h *Host) String() string {
	if h.Name == "" {
		return "the gateway"
	}
	return h.Name
}

// Do runs f on a thread in the machine's namespace. testing's FailNow is not
// allowed in f.
func (h *Host) Do(f func() error) error { return netns.Do(h.Name, f) }

// Netlink is the machine's rtnetlink.
func (h *Host) Netlink() *netlink.Handle { return h.nl }

// Start starts cmd on the machine.
func (h *Host) Start(cmd *exec.Cmd) error { return h.Do(cmd.Start) }

// Run runs a command on the machine to its end and returns what it printed,
// standard error after standard output. The error names the command and holds
// what it printed.
func (h *Host) Run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Path = program(name, cmd.Path)
	cmd.Err = nil
	var out []byte
	err := h.Do(func() (err error) { out, err = cmd.CombinedOutput(); return err })
	if err != nil {
		err = fmt.Errorf("%s on %s: %w: %s", cmd, h, err, out)
	}
	return string(out), err
}

// program finds name also where users' PATH does not lead.
func program(name, found string) string {
	if filepath.IsAbs(found) {
		return found
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		p := filepath.Join(dir, name)
		if st, err := os.Stat(p); err == nil && st.Mode()&0o111 != 0 {
			return p
		}
	}
	return found
}

// Sysctl sets a value under /proc/sys; key has slashes. A key that this kernel
// lacks is passed over.
func (h *Host) Sysctl(key, value string) error {
	err := h.Do(func() error { return os.WriteFile("/proc/sys/"+key, []byte(value), 0) })
	if os.IsNotExist(err) {
		return nil
	}
	return wrap(err, "set %s to %s on %s", key, value, h)
}

// Up sets a link up.
func (h *Host) Up(dev string) error {
	link, err := h.nl.LinkByName(dev)
	if err == nil {
		err = h.nl.LinkSetUp(link)
	}
	return wrap(err, "set %s up on %s", dev, h)
}

// Down sets a link down: the link at the other end of a cable loses carrier.
func (h *Host) Down(dev string) error {
	link, err := h.nl.LinkByName(dev)
	if err == nil {
		err = h.nl.LinkSetDown(link)
	}
	return wrap(err, "set %s down on %s", dev, h)
}

// MAC is the hardware address of a link.
func (h *Host) MAC(dev string) (net.HardwareAddr, error) {
	link, err := h.nl.LinkByName(dev)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", dev, h, err)
	}
	return link.Attrs().HardwareAddr, nil
}

// AddAddr gives a link an address with its network, usable at once. It is no
// error if it is there.
func (h *Host) AddAddr(dev string, p netip.Prefix) error {
	link, err := h.nl.LinkByName(dev)
	if err == nil {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		err = h.nl.AddrReplace(link, a)
	}
	return wrap(err, "add %s to %s on %s", p, dev, h)
}

// DelAddr takes an address from a link.
func (h *Host) DelAddr(dev string, p netip.Prefix) error {
	link, err := h.nl.LinkByName(dev)
	if err == nil {
		err = h.nl.AddrDel(link, &netlink.Addr{IPNet: ipNet(p)})
	}
	return wrap(err, "take %s from %s on %s", p, dev, h)
}

// Route sets the route to dst by dev; via may be invalid (on link), and need
// not lie in a network of dev.
func (h *Host) Route(dst netip.Prefix, via netip.Addr, dev string) error {
	link, err := h.nl.LinkByName(dev)
	if err == nil {
		r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(dst)}
		if via.IsValid() {
			r.Gw = via.AsSlice()
			r.Flags = int(netlink.FLAG_ONLINK)
		} else if dst.Addr().Is4() {
			r.Scope = netlink.SCOPE_LINK
		}
		err = h.nl.RouteReplace(r)
	}
	return wrap(err, "route %s by %s on %s", dst, dev, h)
}

// Addrs lists the global addresses of a link that may be used now: neither
// tentative nor deprecated.
func (h *Host) Addrs(dev string, v6 bool) ([]netip.Prefix, error) {
	link, err := h.nl.LinkByName(dev)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", dev, h, err)
	}
	family := netlink.FAMILY_V4
	if v6 {
		family = netlink.FAMILY_V6
	}
	list, err := h.nl.AddrList(link, family)
	if err != nil {
		return nil, fmt.Errorf("addresses of %s on %s: %w", dev, h, err)
	}
	var out []netip.Prefix
	for _, a := range list {
		if a.Scope != unix.RT_SCOPE_UNIVERSE || a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DEPRECATED|unix.IFA_F_DADFAILED) != 0 {
			continue
		}
		ip, _ := netip.AddrFromSlice(a.IP)
		ones, _ := a.Mask.Size()
		out = append(out, netip.PrefixFrom(ip.Unmap(), ones))
	}
	return out, nil
}

// Dial connects from the machine; from may be invalid (the kernel chooses).
func (h *Host) Dial(ctx context.Context, network string, from netip.Addr, to netip.AddrPort, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d := net.Dialer{KeepAlive: -1}
	if from.IsValid() {
		if network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		} else {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		}
	}
	var c net.Conn
	err := h.Do(func() (err error) { c, err = d.DialContext(ctx, network, to.String()); return err })
	return c, err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
