package kernel

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/traffic"
)

// Flows calls each with the conntrack entries of main, in the table's order: one dump,
// of which nothing is kept. An entry that comes or goes meanwhile may be missing, or
// be there twice.
func Flows(each func(traffic.Flow)) error {
	return entries("", 0, nil, func(e entry) {
		if e.client.IsValid() {
			each(e.flow())
		}
	})
}

func (e entry) flow() traffic.Flow {
	return traffic.Flow{
		ID: e.id, Protocol: e.proto, Mark: e.mark, Client: e.client, Dialled: e.server, Server: e.answers, Seen: e.seen,
		Forth: e.forth, Back: e.back, Counted: e.counted,
	}
}

// Carried is what the fast path has carried of main's flows, by the direction, and what
// became of the packets that it met; ok is false where it carries none. It waits for no
// step of a turn.
func (k *Kernel) Carried() (all []traffic.Carried, c fastpath.Reasons, ok bool, err error) {
	f, ports, err := k.carrier.share()
	if err != nil || f == nil {
		return nil, c, false, err
	}
	defer f.Close()
	lines := map[int]uint32{}
	for _, p := range ports {
		lines[p.Index] = uint32(p.Line)
	}
	all = []traffic.Carried{}
	err = f.Sums(func(s fastpath.Sum) {
		all = append(all, traffic.Carried{
			Src: s.In.Src, Dst: s.In.Dst, Protocol: s.In.Protocol, Line: lines[s.From], Count: traffic.Count{Packets: s.Packets, Bytes: s.Bytes},
		})
	})
	if err == nil {
		c, err = f.Why()
	}
	return all, c, true, err
}

// share returns the flows to be counted, nil if none are carried, and the ports.
func (c *carrier) share() (*fastpath.Flows, []fastpath.Port, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper == nil {
		return nil, nil, nil
	}
	ports, _ := c.keeper.Ports()
	f, err := c.keeper.Share()
	return f, ports, err
}

// PortTraffic is what passed the port of a line.
type PortTraffic struct {
	// In and Out are what the port has counted since it is there: whole frames,
	// as long as its driver says.
	In, Out traffic.Count

	// Fast is what the shortcut counted, nil without one.
	Fast *fastpath.Counts
}

// PortTraffic reads the counters of a line's port; false if it is not there. It waits
// for nothing else that the Kernel does.
func (k *Kernel) PortTraffic(p Port) (t PortTraffic, ok bool, err error) {
	err = netns.Do(p.NS, func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open a netlink socket: %w", err)
		}
		defer unix.Close(fd)
		var index int
		if index, t.In, t.Out, err = linkCounters(fd, p.Link); err != nil {
			return err
		}
		if ok = index != 0; !ok || !k.machine.FastPath {
			return nil
		}
		c, there, err := fastpath.Count([]fastpath.Link{{Name: p.Link, Index: index}})
		if there {
			t.Fast = &c
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return PortTraffic{}, false, nil
	}
	if err != nil {
		err = fmt.Errorf("counters of %s in %s: %w", p.Link, place(p.NS), err)
	}
	return t, ok, err
}

// linkCounters asks for one link with its statistics. index is 0 if there is none of
// that name.
func linkCounters(fd int, link string) (index int, in, out traffic.Count, err error) {
	req := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	native.PutUint16(req[4:], unix.RTM_GETLINK)
	native.PutUint16(req[6:], unix.NLM_F_REQUEST)
	req = append(req, attr(unix.IFLA_IFNAME, append([]byte(link), 0))...)
	native.PutUint32(req, uint32(len(req)))
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, in, out, fmt.Errorf("ask the kernel: %w", err)
	}
	b := make([]byte, 32<<10) // one link is a tenth of it
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return 0, in, out, fmt.Errorf("read the kernel's answer: %w", err)
	}
	return countersOf(b[:n])
}

// countersOf reads the answer to a request for a link with its statistics.
func countersOf(b []byte) (index int, in, out traffic.Count, err error) {
	if len(b) < unix.SizeofNlMsghdr+4 {
		return 0, in, out, short("link", b)
	}
	typ, b := native.Uint16(b[4:]), b[unix.SizeofNlMsghdr:]
	if typ == unix.NLMSG_ERROR {
		if errno := unix.Errno(-int32(native.Uint32(b))); errno != unix.ENODEV {
			err = errno
		}
		return 0, in, out, err
	}
	if typ != unix.RTM_NEWLINK || len(b) < unix.SizeofIfInfomsg {
		return 0, in, out, short("link", b)
	}
	index = int(int32(native.Uint32(b[4:])))
	stats := attrBytes(b[unix.SizeofIfInfomsg:], unix.IFLA_STATS64)
	if len(stats) < 32 {
		return 0, in, out, short("statistics of a link", stats)
	}
	// rx_packets, tx_packets, rx_bytes, tx_bytes (struct rtnl_link_stats64)
	in = traffic.Count{Packets: native.Uint64(stats), Bytes: native.Uint64(stats[16:])}
	out = traffic.Count{Packets: native.Uint64(stats[8:]), Bytes: native.Uint64(stats[24:])}
	return index, in, out, nil
}
