package kernel

import (
	"fmt"
	"os"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// space is a namespace with its sockets open. They keep the namespace alive,
// also after its name is gone.
type space struct {
	name  string
	id    netns.ID
	file  *os.File      // of the namespace: names it to the kernel
	route *netlink.Conn // rtnetlink
	nf    *netlink.Conn // nfnetlink: nftables and conntrack

	cookie uint64 // of the namespace: no other has had it since the machine came up

	// Ids this namespace gave to others (rtnetlink NSID). By the open one, not by
	// inode: that of a namespace that is gone is given out again.
	nsids map[*space]int32
	nft   nftSeen

	writes writer
}

func openSpace(name string, id netns.ID, w writer) (*space, error) {
	s := &space{name: name, id: id, nsids: map[*space]int32{}, writes: w}
	err := netns.Do(name, func() (err error) {
		if s.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		if s.route, err = dial(unix.NETLINK_ROUTE); err != nil {
			return err
		}
		if s.nf, err = dial(unix.NETLINK_NETFILTER); err != nil {
			return err
		}
		s.cookie = id.Ino
		raw, err := s.route.SyscallConn()
		if err != nil {
			return err
		}
		return raw.Control(func(fd uintptr) {
			// Since 5.14; before that the inode has to do.
			if c, err := unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil {
				s.cookie = c
			}
		})
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open namespace %s: %w", place(name), err)
	}
	return s, nil
}

// dial opens a netlink socket in the calling thread's namespace.
func dial(family int) (*netlink.Conn, error) {
	c, err := netlink.Dial(family, nil)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	// The kernel's own words for what it dislikes; old kernels have none.
	_ = c.SetOption(netlink.ExtendedAcknowledge, true)
	_ = c.SetReadBuffer(1 << 20)
	return c, nil
}

func (s *space) close() {
	if s.file != nil {
		s.file.Close()
	}
	if s.route != nil {
		s.route.Close()
	}
	if s.nf != nil {
		s.nf.Close()
	}
}

// place names a namespace as people read it.
func place(name string) string {
	if name == "" {
		return "main"
	}
	return name
}
