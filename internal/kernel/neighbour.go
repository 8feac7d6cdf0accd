package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	sizeofNdMsg = 12 // struct ndmsg, linux/neighbour.h
	ndaDst      = 1  // NDA_DST
)

// Forget drops the neighbours of a port that were looked for in vain, so that they
// are looked for at once by the next packet. The kernel repeats a solicitation a
// second later (RETRANS_TIMER of RFC 4861, 10, in both families): one that fell
// into the moment without carrier makes of a blink a second or two. It returns how
// many there were; a port that is not there has none.
func (k *Kernel) Forget(p Port) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.space(p.NS)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	links, err := s.links()
	if err != nil {
		return 0, err
	}
	index := 0
	for _, l := range links {
		if l.Name == p.Link {
			index = l.Index
		}
	}
	if index == 0 {
		return 0, nil
	}
	n := 0
	msgs, err := dump(s.route, unix.RTM_GETNEIGH, make([]byte, sizeofNdMsg))
	if err != nil {
		return 0, fmt.Errorf("list neighbours in %s: %w", place(p.NS), err)
	}
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_NEWNEIGH {
			continue
		}
		lost, err := lostNeighbour(m.Data, index)
		if err != nil {
			return n, fmt.Errorf("list neighbours in %s: %w", place(p.NS), err)
		}
		if !lost.IsValid() {
			continue
		}
		if err := s.request(s.route, unix.RTM_DELNEIGH, 0, delNeighbour(lost, index)); err != nil && !errors.Is(err, unix.ENOENT) {
			return n, fmt.Errorf("forget neighbour %s of %s in %s: %w", lost, p.Link, place(p.NS), err)
		}
		n++
	}
	return n, nil
}

// lostNeighbour reads a neighbour (struct ndmsg and its attributes): its address,
// if it is one of the link's that was looked for in vain so far.
func lostNeighbour(b []byte, index int) (a netip.Addr, err error) {
	if len(b) < sizeofNdMsg {
		return a, short("neighbour", b)
	}
	// Family, padding, index, state.
	if int(native.Uint32(b[4:])) != index || native.Uint16(b[8:])&(unix.NUD_INCOMPLETE|unix.NUD_FAILED) == 0 {
		return a, nil
	}
	err = decode(b[sizeofNdMsg:], func(d *netlink.AttributeDecoder) {
		if d.Type() == ndaDst {
			a, _ = netip.AddrFromSlice(d.Bytes())
		}
	})
	return a, err
}

func delNeighbour(a netip.Addr, index int) []byte {
	b := make([]byte, sizeofNdMsg)
	if b[0] = unix.AF_INET; a.Is6() {
		b[0] = unix.AF_INET6
	}
	native.PutUint32(b[4:], uint32(index))
	return append(b, attr(ndaDst, a.AsSlice())...)
}

// Neighbour is a device on a link, as the kernel knows it.
type Neighbour struct {
	Link string
	Addr netip.Addr
	MAC  string
	Ago  time.Duration // when it was last heard to be there, whole hundredths of a second
}

// Neighbours are the devices of a family, 4 or 6, on main's links that answered once.
func (k *Kernel) Neighbours(family int) ([]Neighbour, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.space("")
	if err != nil {
		return nil, err
	}
	links, err := s.links()
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Index] = l.Name
	}
	req := make([]byte, sizeofNdMsg)
	req[0] = flowFamily(family)
	msgs, err := dump(s.route, unix.RTM_GETNEIGH, req)
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	var out []Neighbour
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_NEWNEIGH {
			continue
		}
		n, index, err := foundNeighbour(m.Data)
		if err != nil {
			return nil, fmt.Errorf("list neighbours: %w", err)
		}
		if n.Link = names[index]; n.Addr.Is6() == (family == 6) && n.Addr.IsValid() && n.MAC != "" && n.Link != "" {
			out = append(out, n)
		}
	}
	return out, nil
}

// Attributes of a neighbour (linux/neighbour.h), and how many ticks (USER_HZ) the
// kernel counts in a second to user space.
const (
	ndaLLAddr    = 2
	ndaCacheInfo = 3
	userHZ       = 100
)

// foundNeighbour reads a neighbour that answered; one that did not has no MAC.
func foundNeighbour(b []byte) (n Neighbour, index int, err error) {
	if len(b) < sizeofNdMsg {
		return n, 0, short("neighbour", b)
	}
	index = int(native.Uint32(b[4:]))
	if native.Uint16(b[8:])&(unix.NUD_REACHABLE|unix.NUD_STALE|unix.NUD_DELAY|unix.NUD_PROBE) == 0 {
		return n, index, nil
	}
	err = decode(b[sizeofNdMsg:], func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case ndaDst:
			n.Addr, _ = netip.AddrFromSlice(d.Bytes())
		case ndaLLAddr:
			if hw := d.Bytes(); len(hw) == 6 {
				n.MAC = net.HardwareAddr(hw).String()
			}
		case ndaCacheInfo: // struct nda_cacheinfo: confirmed, used, updated, refcnt
			if c := d.Bytes(); len(c) >= 4 {
				n.Ago = time.Duration(native.Uint32(c)) * time.Second / userHZ
			}
		}
	})
	return n, index, err
}
