package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/plan"
)

const (
	ifaProto   = 11 // IFA_PROTO, linux/if_addr.h; since 5.18
	ifaProtoRA = 2  // IFAPROT_KERNEL_RA
	ifaProtoLL = 3  // IFAPROT_KERNEL_LL
)

func ifaddr(family uint8, bits int, flags uint32, index int) []byte {
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1], b[2] = family, uint8(bits), uint8(flags)
	native.PutUint32(b[4:], uint32(index))
	return b
}

func (s *space) addrs(names map[int]string) ([]plan.Addr, error) {
	msgs, err := dump(s.route, unix.RTM_GETADDR, ifaddr(unix.AF_UNSPEC, 0, 0, 0))
	if err != nil {
		return nil, fmt.Errorf("list addresses in %s: %w", place(s.name), err)
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &up); err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	out := make([]plan.Addr, 0, len(msgs))
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_NEWADDR {
			continue
		}
		a, made, err := parseAddr(m.Data, names)
		if err != nil {
			return nil, fmt.Errorf("list addresses in %s: %w", place(s.name), err)
		}
		a.Fresh = time.Duration(up.Nano())-made < time.Second
		if a.Link != "" && a.Link != "lo" {
			out = append(out, a)
		}
	}
	return out, nil
}

// parseAddr reads an address (struct ifaddrmsg and its attributes), and when it was
// made, by CLOCK_MONOTONIC, which jiffies follow.
func parseAddr(b []byte, names map[int]string) (a plan.Addr, made time.Duration, err error) {
	if len(b) < unix.SizeofIfAddrmsg {
		return a, 0, short("address", b)
	}
	family, bits, flags := b[0], int(b[1]), uint32(b[2])
	a.Link = names[int(native.Uint32(b[4:]))]
	var local, address netip.Addr
	var proto uint8
	known := false
	err = decode(b[unix.SizeofIfAddrmsg:], func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.IFA_CACHEINFO: // struct ifa_cacheinfo: preferred, valid, cstamp, tstamp; stamps in 1/100 s
			if c := d.Bytes(); len(c) >= 12 {
				made = time.Duration(native.Uint32(c[8:])) * 10 * time.Millisecond
			}
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(d.Bytes())
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(d.Bytes())
		case unix.IFA_BROADCAST:
			a.Broadcast, _ = netip.AddrFromSlice(d.Bytes())
		case unix.IFA_FLAGS:
			flags = d.Uint32()
		case ifaProto:
			proto, known = d.Uint8(), true
		}
	})
	if err != nil {
		return a, 0, err
	}
	if !local.IsValid() {
		local = address
	}
	if address != local {
		a.Peer = address
	}
	a.Prefix = netip.PrefixFrom(local, bits)
	// A second address of a network has no route of its own to it.
	a.NoPrefixRoute = flags&unix.IFA_F_NOPREFIXROUTE != 0 || family == unix.AF_INET && flags&unix.IFA_F_SECONDARY != 0
	a.NoDAD = flags&unix.IFA_F_NODAD != 0
	a.Tentative = flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_DADFAILED == 0
	a.DADFailed = flags&unix.IFA_F_DADFAILED != 0
	a.Deprecated = flags&unix.IFA_F_DEPRECATED != 0
	a.Temporary = family == unix.AF_INET6 && flags&unix.IFA_F_TEMPORARY != 0
	if family == unix.AF_INET6 {
		a.Kernel = local.IsLinkLocalUnicast() || known && (proto == ifaProtoRA || proto == ifaProtoLL) ||
			flags&unix.IFA_F_TEMPORARY != 0 ||
			// Before IFA_PROTO: what the kernel makes from an RA is not permanent.
			!known && flags&unix.IFA_F_PERMANENT == 0 && flags&unix.IFA_F_MANAGETEMPADDR != 0
	}
	return a, made, nil
}

func (s *space) addAddr(a plan.Addr) error {
	var flags uint32
	if a.NoDAD && a.Prefix.Addr().Is6() {
		flags = unix.IFA_F_NODAD
	}
	return s.addrRequest(unix.RTM_NEWADDR, netlink.Create|netlink.Excl, a, flags)
}

// deleteAddr takes an address away. The kernel would take the others of its
// network too if it is their primary one (net/ipv4/devinet.c), so it is told to
// promote one of them.
func (s *space) deleteAddr(a plan.Addr) error {
	if a.Prefix.Addr().Is6() {
		return s.addrRequest(unix.RTM_DELADDR, 0, a, 0)
	}
	key := "net/ipv4/conf/" + a.Link + "/promote_secondaries"
	return inSpace(s, func() (err error) {
		old, err := readSysctl(key)
		if err != nil {
			return err
		}
		if old == "0" {
			if err := s.writeSysctl(key, "1"); err != nil {
				return err
			}
			defer func() {
				if werr := s.writeSysctl(key, old); werr != nil {
					err = errors.Join(err, werr, s.writeSysctl(key, old))
				}
			}()
		}
		return s.addrRequest(unix.RTM_DELADDR, 0, a, 0)
	})
}

func (s *space) addrRequest(typ netlink.HeaderType, flags netlink.HeaderFlags, a plan.Addr, ifaFlags uint32) error {
	index, err := s.linkIndex(a.Link)
	if err != nil {
		return err
	}
	ip := a.Prefix.Addr()
	family := uint8(unix.AF_INET6)
	if ip.Is4() {
		family = unix.AF_INET
	}
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.IFA_LOCAL, ip.AsSlice())
		if a.Peer.IsValid() {
			e.Bytes(unix.IFA_ADDRESS, a.Peer.AsSlice())
		} else {
			e.Bytes(unix.IFA_ADDRESS, ip.AsSlice())
		}
		if a.Broadcast.IsValid() && typ == unix.RTM_NEWADDR {
			e.Bytes(unix.IFA_BROADCAST, a.Broadcast.AsSlice())
		}
		if ifaFlags != 0 {
			e.Uint32(unix.IFA_FLAGS, ifaFlags)
		}
	})
	if err != nil {
		return err
	}
	return s.request(s.route, typ, flags, append(ifaddr(family, a.Prefix.Bits(), ifaFlags, index), data...))
}

// gone says that what was to be removed is not there.
func gone(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT)
}
