package kernel

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/netns"
	"weir/internal/state"
)

// probe finds out what the machine can do, without loading anything that
// stays: what is a module to be loaded is taken as there; the rest is tried in a
// namespace that is gone afterwards.
func (k *Kernel) probe() state.Machine {
	m := state.Machine{Userns: inUserns(), ConntrackMax: k.conntrackMax()}
	mods := loadable("8021q", "bridge", "tun")
	m.VLAN, m.Bridge, m.TAP = mods["8021q"], mods["bridge"], mods["tun"]
	if !m.VLAN || !m.Bridge {
		vlan, bridge := tryLinks()
		m.VLAN, m.Bridge = m.VLAN || vlan, m.Bridge || bridge
	}
	if m.TAP {
		m.TAP = unix.Access("/dev/net/tun", unix.R_OK|unix.W_OK) == nil
	} else if f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err == nil {
		f.Close()
		m.TAP = true
	}
	m.NoFastPath = tryFastPath()
	m.FastPath = m.NoFastPath == ""
	return m
}

// inUserns says whether the process is in a user namespace of its own.
func inUserns() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	f := strings.Fields(string(b))
	return len(f) != 3 || f[0] != "0" || f[1] != "0" || f[2] != "4294967295"
}

// conntrackMax says whether nf_conntrack_max can be written: opening it for
// writing tells. Before conntrack is loaded it is not there; then it will be
// writable in the first network namespace, which is that of the first process.
func (k *Kernel) conntrackMax() bool {
	f, err := os.OpenFile("/proc/sys/net/netfilter/nf_conntrack_max", os.O_WRONLY, 0)
	if err == nil {
		f.Close()
		return true
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	// The module is not there yet, and whether it may be written is told by what
	// stands in the first network namespace alone (net/core/sysctl_net_core.c). Process 1
	// is no witness: it may be a pid namespace's, in any network namespace.
	f, err = os.OpenFile("/proc/sys/net/core/netdev_max_backlog", os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// loadable says which of the modules the kernel would load when asked: they are
// in modules.dep and not loaded yet. Those that are loaded or built in can be tried.
func loadable(names ...string) map[string]bool {
	out := map[string]bool{}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return out
	}
	f, err := os.Open(filepath.Join("/lib/modules", unix.ByteSliceToString(u.Release[:]), "modules.dep"))
	if err != nil {
		return out
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		file, _, _ := strings.Cut(lines.Text(), ":")
		mod, _, _ := strings.Cut(filepath.Base(file), ".ko")
		for _, n := range names {
			if mod == n {
				if _, err := os.Stat("/sys/module/" + n); errors.Is(err, fs.ErrNotExist) {
					out[n] = true
				}
			}
		}
	}
	return out
}

// tryLinks tries to make a VLAN and a bridge in a namespace that goes with its
// thread.
func tryLinks() (vlan, bridge bool) {
	_ = netns.Do("", func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		c, err := dial(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer c.Close()
		s := &space{name: "probe", route: c}
		k := &Kernel{}
		bridge = k.addLink(s, desired.Link{Name: "probe-b", Kind: desired.Bridge}) == nil
		vlan = s.tryVLAN() == nil
		return nil
	})
	return vlan, bridge
}

// tryVLAN makes a veth pair and a VLAN on it.
func (s *space) tryVLAN() error {
	make := func(name, kind string, parent int) error {
		data, err := attrs(func(e *netlink.AttributeEncoder) {
			e.String(unix.IFLA_IFNAME, name)
			if parent != 0 {
				e.Uint32(unix.IFLA_LINK, uint32(parent))
			}
			e.Nested(unix.IFLA_LINKINFO, func(e *netlink.AttributeEncoder) error {
				e.String(unix.IFLA_INFO_KIND, kind)
				if kind == "vlan" {
					e.Nested(unix.IFLA_INFO_DATA, func(e *netlink.AttributeEncoder) error {
						e.Uint16(unix.IFLA_VLAN_ID, 2)
						return nil
					})
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		return s.request(s.route, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, append(ifinfo(0, 0, 0), data...))
	}
	if err := make("probe-p", "veth", 0); err != nil {
		return err
	}
	parent, err := s.linkIndex("probe-p")
	if err != nil {
		return err
	}
	return make("probe-v", "vlan", parent)
}
