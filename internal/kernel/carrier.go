package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"weir/internal/bare"
	"weir/internal/netns"
)

// A Port names a link in a namespace.
type Port struct{ NS, Link string }

// Carrier is the state of a port's line, at this moment.
type Carrier struct {
	Present bool   // the port is in that namespace
	Up      bool   // IFF_UP: somebody wants it to work
	Carrier bool   // IFLA_CARRIER
	Downs   uint32 // IFLA_CARRIER_DOWN_COUNT: how often the carrier was lost so far
}

// Carrier asks for the carrier of ports, one small request each. Netlink tells
// of carriers at most once a second for real ports and TAPs (net/core/link_watch.c),
// and of a short loss not at all; asked, the kernel answers as it is, and Downs
// tells of a loss that is over. Meant to be called every 50 ms: it waits for
// nothing else that the Kernel does.
func (k *Kernel) Carrier(ports ...Port) ([]Carrier, error) {
	return k.carriers.read(ports)
}

// carriers has a socket in each namespace that was asked about. It speaks
// netlink with bare system calls: what is done twenty times a second, as long as
// the gateway runs, is two of them a port, without the poller, a look ahead at
// the answer's length, or garbage.
type carriers struct {
	mu    sync.Mutex
	conns map[string]carrierConn
	seq   uint32
	buf   []byte // of requests and answers
}

type carrierConn struct {
	id netns.ID
	fd int
}

func (cs *carriers) read(ports []Port) ([]Carrier, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.buf == nil {
		cs.buf = make([]byte, 32<<10) // one link without statistics is a tenth of it
	}
	out := make([]Carrier, len(ports))
	for i, p := range ports {
		fd, err := cs.conn(p.NS)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			out[i], err = cs.ask(fd, p.Link)
		}
		if err != nil {
			return nil, fmt.Errorf("carrier of %s in %s: %w", p.Link, place(p.NS), err)
		}
	}
	return out, nil
}

// conn is the socket in a namespace: the one that has the name now.
func (cs *carriers) conn(ns string) (int, error) {
	have, ok := cs.conns[ns]
	if ok && netns.Is(ns, have.id) {
		return have.fd, nil
	}
	if ok {
		unix.Close(have.fd)
		delete(cs.conns, ns)
	}
	id, err := netns.Identify(ns)
	if err != nil {
		return -1, err
	}
	fd := -1
	if err := netns.Do(ns, func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		return err
	}); err != nil {
		return -1, fmt.Errorf("open a netlink socket: %w", err)
	}
	if cs.conns == nil {
		cs.conns = map[string]carrierConn{}
	}
	cs.conns[ns] = carrierConn{id, fd}
	return fd, nil
}

// drop lets go of a namespace: an open socket would keep it alive.
func (cs *carriers) drop(ns string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c, ok := cs.conns[ns]; ok {
		unix.Close(c.fd)
		delete(cs.conns, ns)
	}
}

func (cs *carriers) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for ns, c := range cs.conns {
		unix.Close(c.fd)
		delete(cs.conns, ns)
	}
}

// ask asks for one link. The answer is there when the request has been sent:
// the kernel makes it while it takes that (netlink_unicast_kernel).
func (cs *carriers) ask(fd int, link string) (Carrier, error) {
	cs.seq++
	req := cs.buf[:unix.SizeofNlMsghdr+unix.SizeofIfInfomsg]
	clear(req)
	native.PutUint16(req[4:], unix.RTM_GETLINK)
	native.PutUint16(req[6:], unix.NLM_F_REQUEST)
	native.PutUint32(req[8:], cs.seq)
	req = append(req, attr(unix.IFLA_EXT_MASK, native.AppendUint32(nil, extSkipStats))...)
	req = append(req, attr(unix.IFLA_IFNAME, append([]byte(link), 0))...)
	native.PutUint32(req, uint32(len(req)))
	if _, err := bare.Write(fd, req); err != nil { // to the kernel, as nobody else is named
		return Carrier{}, fmt.Errorf("ask the kernel: %w", err)
	}
	for {
		n, err := bare.Recv(fd, cs.buf[:cap(cs.buf)], unix.MSG_TRUNC)
		if err != nil {
			return Carrier{}, fmt.Errorf("read the kernel's answer: %w", err)
		}
		if n > cap(cs.buf) || n < unix.SizeofNlMsghdr+4 {
			return Carrier{}, fmt.Errorf("the kernel's answer has %d bytes, and %d to %d were expected", n, unix.SizeofNlMsghdr+4, cap(cs.buf))
		}
		b := cs.buf[:n]
		if native.Uint32(b[8:]) == cs.seq { // an earlier one's, if that was given up
			return carrierOf(native.Uint16(b[4:]), b[unix.SizeofNlMsghdr:])
		}
	}
}

// attr is a netlink attribute, padded.
func attr(typ uint16, value []byte) []byte {
	b := native.AppendUint16(nil, uint16(unix.SizeofNlAttr+len(value)))
	b = append(native.AppendUint16(b, typ), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

// carrierOf reads the answer to a request for a link.
func carrierOf(typ uint16, b []byte) (Carrier, error) {
	if typ == unix.NLMSG_ERROR {
		errno := unix.Errno(-int32(native.Uint32(b)))
		if errno == unix.ENODEV {
			return Carrier{}, nil
		}
		return Carrier{}, errno
	}
	if typ != unix.RTM_NEWLINK || len(b) < unix.SizeofIfInfomsg {
		return Carrier{}, short("link", b)
	}
	c := Carrier{Present: true, Up: native.Uint32(b[8:])&unix.IFF_UP != 0}
	for b = b[unix.SizeofIfInfomsg:]; len(b) >= unix.SizeofNlAttr; {
		n := int(native.Uint16(b))
		if n < unix.SizeofNlAttr || n > len(b) {
			return c, short("link", b)
		}
		switch value := b[unix.SizeofNlAttr:n]; native.Uint16(b[2:]) {
		case unix.IFLA_CARRIER:
			c.Carrier = len(value) >= 1 && value[0] != 0
		case unix.IFLA_CARRIER_DOWN_COUNT:
			if len(value) >= 4 {
				c.Downs = native.Uint32(value)
			}
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return c, nil
}
