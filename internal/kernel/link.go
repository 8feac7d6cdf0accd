package kernel

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/plan"
)

const (
	extSkipStats = 8 // RTEXT_FILTER_SKIP_STATS, linux/rtnetlink.h
	vethInfoPeer = 1 // VETH_INFO_PEER, linux/veth.h

	// Flags of net/if_inet6.h: IF_RA_RCVD, IF_RA_MANAGED, IF_RA_OTHERCONF.
	ifRAHeard, ifRAManaged, ifRAOther = 0x20, 0x40, 0x80
)

// rawLink is a link with the numbers that only mean something where it is.
type rawLink struct {
	plan.Link
	master, link int   // ifindex; 0 is none
	linkNS       int32 // IFLA_LINK_NETNSID; -1: this one
}

func ifinfo(index int, flags, change uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(b[4:], uint32(index))
	native.PutUint32(b[8:], flags)
	native.PutUint32(b[12:], change)
	return b
}

func (s *space) links() ([]rawLink, error) {
	data, err := attrs(func(e *netlink.AttributeEncoder) { e.Uint32(unix.IFLA_EXT_MASK, extSkipStats) })
	if err != nil {
		return nil, err
	}
	msgs, err := dump(s.route, unix.RTM_GETLINK, append(ifinfo(0, 0, 0), data...))
	if err != nil {
		return nil, fmt.Errorf("list links in %s: %w", place(s.name), err)
	}
	links := make([]rawLink, 0, len(msgs))
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_NEWLINK {
			continue
		}
		l, err := parseLink(m.Data)
		if err != nil {
			return nil, fmt.Errorf("list links in %s: %w", place(s.name), err)
		}
		links = append(links, l)
	}
	for i := range links {
		for j := range links {
			if links[i].master != 0 && links[j].Index == links[i].master {
				links[i].Master = links[j].Name
			}
		}
	}
	return links, nil
}

func parseLink(b []byte) (rawLink, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return rawLink{}, short("link", b)
	}
	l := rawLink{linkNS: -1}
	l.Index = int(native.Uint32(b[4:]))
	l.Up = native.Uint32(b[8:])&unix.IFF_UP != 0
	err := decode(b[unix.SizeofIfInfomsg:], func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.IFLA_IFNAME:
			l.Name = d.String()
		case unix.IFLA_MTU:
			l.MTU = int(d.Uint32())
		case unix.IFLA_ADDRESS:
			l.MAC = macText(d.Bytes())
		case unix.IFLA_PERM_ADDRESS:
			l.PermMAC = macText(d.Bytes())
		case unix.IFLA_CARRIER:
			l.Carrier = d.Uint8() != 0
		case unix.IFLA_MASTER:
			l.master = int(d.Uint32())
		case unix.IFLA_LINK:
			l.link = int(d.Uint32())
		case unix.IFLA_LINK_NETNSID:
			l.linkNS = d.Int32()
		case unix.IFLA_IFALIAS:
			l.Ours = d.String() == plan.Alias
		case unix.IFLA_LINKINFO:
			d.Nested(func(d *netlink.AttributeDecoder) error { return parseLinkInfo(d, &l) })
		case unix.IFLA_AF_SPEC:
			d.Nested(func(d *netlink.AttributeDecoder) error {
				for d.Next() {
					if d.Type() != unix.AF_INET6 {
						continue
					}
					d.Nested(func(d *netlink.AttributeDecoder) error {
						for d.Next() {
							switch d.Type() {
							case unix.IFLA_INET6_FLAGS:
								f := d.Uint32()
								l.Heard, l.Managed, l.OtherRA = f&ifRAHeard != 0, f&ifRAManaged != 0, f&ifRAOther != 0
							case unix.IFLA_INET6_ADDR_GEN_MODE:
								l.AddrGen = d.Uint8()
							case unix.IFLA_INET6_CONF: // int32s; DEVCONF_MTU6 is the third
								if b := d.Bytes(); len(b) >= 12 {
									l.MTU6 = int(native.Uint32(b[8:]))
								}
							}
						}
						return nil
					})
				}
				return nil
			})
		}
	})
	if err != nil {
		return l, fmt.Errorf("link %d: %w", l.Index, err)
	}
	l.Ours = l.Ours || l.Name == plan.Unfinished
	return l, nil
}

func parseLinkInfo(d *netlink.AttributeDecoder, l *rawLink) error {
	for d.Next() {
		switch d.Type() {
		case unix.IFLA_INFO_KIND:
			l.Kind = strings.TrimRight(d.String(), "\x00")
		case unix.IFLA_INFO_DATA:
			if l.Kind != "vlan" {
				continue
			}
			d.Nested(func(d *netlink.AttributeDecoder) error {
				for d.Next() {
					if d.Type() == unix.IFLA_VLAN_ID {
						l.VID = int(d.Uint16())
					}
				}
				return nil
			})
		}
	}
	return nil
}

func macText(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return net.HardwareAddr(b).String()
}

// linkIndex finds a link by name. The error is unix.ENODEV if there is none.
func (s *space) linkIndex(name string) (int, error) {
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, name)
		e.Uint32(unix.IFLA_EXT_MASK, extSkipStats)
	})
	if err != nil {
		return 0, err
	}
	msgs, err := ask(s.route, unix.RTM_GETLINK, append(ifinfo(0, 0, 0), data...))
	if err != nil {
		return 0, fmt.Errorf("link %s in %s: %w", name, place(s.name), err)
	}
	for _, m := range msgs {
		if len(m.Data) >= unix.SizeofIfInfomsg {
			return int(native.Uint32(m.Data[4:])), nil
		}
	}
	return 0, fmt.Errorf("link %s in %s: %w", name, place(s.name), unix.ENODEV)
}

// addLink makes l in s, down and marked as ours. A veth's other end goes where
// l says; a VLAN is made in main, where its parent is, and goes to s.
func (k *Kernel) addLink(s *space, l desired.Link) error {
	at := s
	var err error
	var parent int
	if l.Kind == desired.VLAN {
		if at, err = k.space(""); err != nil {
			return err
		}
		if parent, err = at.linkIndex(l.Parent); err != nil {
			return err
		}
	}
	var far *space
	if l.Kind == desired.Veth {
		if far, err = k.space(l.PeerNS); err != nil {
			return err
		}
	}
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, plan.Unfinished)
		if at != s {
			e.Uint32(unix.IFLA_NET_NS_FD, uint32(s.file.Fd()))
		}
		if parent != 0 {
			e.Uint32(unix.IFLA_LINK, uint32(parent))
		}
		e.Nested(unix.IFLA_LINKINFO, func(e *netlink.AttributeEncoder) error {
			switch l.Kind {
			case desired.Veth:
				e.String(unix.IFLA_INFO_KIND, "veth")
				e.Nested(unix.IFLA_INFO_DATA, func(e *netlink.AttributeEncoder) error {
					e.Do(vethInfoPeer, func() ([]byte, error) {
						peer, err := attrs(func(e *netlink.AttributeEncoder) {
							e.String(unix.IFLA_IFNAME, l.Peer)
							if far != s {
								e.Uint32(unix.IFLA_NET_NS_FD, uint32(far.file.Fd()))
							}
						})
						return append(ifinfo(0, 0, 0), peer...), err
					})
					return nil
				})
			case desired.Bridge:
				e.String(unix.IFLA_INFO_KIND, "bridge")
			case desired.VLAN:
				e.String(unix.IFLA_INFO_KIND, "vlan")
				e.Nested(unix.IFLA_INFO_DATA, func(e *netlink.AttributeEncoder) error {
					e.Uint16(unix.IFLA_VLAN_ID, uint16(l.VID))
					return nil
				})
			default:
				return errors.New("not a kind of link that can be made")
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	make := func() error {
		return at.request(at.route, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, append(ifinfo(0, 0, 0), data...))
	}
	err = make()
	if errors.Is(err, unix.EEXIST) && s.deleteLink(plan.Unfinished) == nil { // a crash left it
		err = make()
	}
	if err != nil {
		return err
	}
	if err := s.setLink(plan.Unfinished, plan.LinkAttrs{Alias: plan.Alias, MTU: l.MTU, MAC: l.MAC, AddrGen: &l.AddrGen}); err != nil {
		_ = s.deleteLink(plan.Unfinished)
		return err
	}
	if err := s.renameLink(plan.Unfinished, l.Name); err != nil {
		_ = s.deleteLink(plan.Unfinished)
		return err
	}
	if far != nil {
		if err := far.setLink(l.Peer, plan.LinkAttrs{Alias: plan.Alias, AddrGen: &l.AddrGen}); err != nil {
			_ = s.deleteLink(l.Name)
			return err
		}
	}
	return nil
}

// renameLink gives a link that is down another name.
func (s *space) renameLink(from, to string) error {
	index, err := s.linkIndex(from)
	if err != nil {
		return err
	}
	data, err := attrs(func(e *netlink.AttributeEncoder) { e.String(unix.IFLA_IFNAME, to) })
	if err != nil {
		return err
	}
	return s.request(s.route, unix.RTM_NEWLINK, 0, append(ifinfo(index, 0, 0), data...))
}

func (s *space) deleteLink(name string) error {
	index, err := s.linkIndex(name)
	if err != nil {
		return err
	}
	return s.request(s.route, unix.RTM_DELLINK, 0, ifinfo(index, 0, 0))
}

// moveLink moves a link to another namespace.
func (s *space) moveLink(name string, to *space) error {
	index, err := s.linkIndex(name)
	if err != nil {
		return err
	}
	data, err := attrs(func(e *netlink.AttributeEncoder) { e.Uint32(unix.IFLA_NET_NS_FD, uint32(to.file.Fd())) })
	if err != nil {
		return err
	}
	return s.request(s.route, unix.RTM_NEWLINK, 0, append(ifinfo(index, 0, 0), data...))
}

// setLink sets the attributes that a says, in one request where the kernel
// takes them so.
func (s *space) setLink(name string, a plan.LinkAttrs) error {
	index, err := s.linkIndex(name)
	if err != nil {
		return err
	}
	master := -1
	if a.Master != nil {
		master = 0
		if *a.Master != "" {
			if master, err = s.linkIndex(*a.Master); err != nil {
				return err
			}
		}
	}
	var mac net.HardwareAddr
	if a.MAC != "" {
		if mac, err = net.ParseMAC(a.MAC); err != nil {
			return err
		}
	}
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		if a.Alias != "" {
			e.Bytes(unix.IFLA_IFALIAS, []byte(a.Alias))
		}
		if a.MTU != 0 {
			e.Uint32(unix.IFLA_MTU, uint32(a.MTU))
		}
		if mac != nil {
			e.Bytes(unix.IFLA_ADDRESS, mac)
		}
		if master >= 0 {
			e.Uint32(unix.IFLA_MASTER, uint32(master))
		}
		if a.AddrGen != nil {
			e.Nested(unix.IFLA_AF_SPEC, func(e *netlink.AttributeEncoder) error {
				e.Nested(unix.AF_INET6, func(e *netlink.AttributeEncoder) error {
					e.Uint8(unix.IFLA_INET6_ADDR_GEN_MODE, *a.AddrGen)
					return nil
				})
				return nil
			})
		}
	})
	if err != nil {
		return err
	}
	var flags, change uint32
	if a.Up != nil {
		change = unix.IFF_UP
		if *a.Up {
			flags = unix.IFF_UP
		}
	}
	return s.request(s.route, unix.RTM_NEWLINK, 0, append(ifinfo(index, flags, change), data...))
}

// nsid returns the id by which s knows the namespace of other, -1 if it has
// given none.
func (s *space) nsid(other *space) int32 {
	if id, ok := s.nsids[other]; ok {
		return id
	}
	data, err := attrs(func(e *netlink.AttributeEncoder) { e.Uint32(unix.NETNSA_FD, uint32(other.file.Fd())) })
	if err != nil {
		return -1
	}
	msgs, err := ask(s.route, unix.RTM_GETNSID, append(make([]byte, 4), data...)) // struct rtgenmsg, padded
	if err != nil || len(msgs) == 0 || len(msgs[0].Data) < 4 {
		return -1
	}
	id := int32(-1)
	_ = decode(msgs[0].Data[4:], func(d *netlink.AttributeDecoder) {
		if d.Type() == unix.NETNSA_NSID {
			id = d.Int32()
		}
	})
	if id >= 0 {
		s.nsids[other] = id
	}
	return id
}
