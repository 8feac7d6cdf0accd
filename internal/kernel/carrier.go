package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

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

// carriers has a socket in each namespace that was asked about.
type carriers struct {
	mu    sync.Mutex
	conns map[string]carrierConn
}

type carrierConn struct {
	id netns.ID
	c  *netlink.Conn
}

func (cs *carriers) read(ports []Port) ([]Carrier, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	out := make([]Carrier, len(ports))
	for i, p := range ports {
		c, err := cs.conn(p.NS)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			out[i], err = readCarrier(c, p.Link)
		}
		if err != nil {
			return nil, fmt.Errorf("carrier of %s in %s: %w", p.Link, place(p.NS), err)
		}
	}
	return out, nil
}

func (cs *carriers) conn(ns string) (*netlink.Conn, error) {
	id, err := netns.Identify(ns)
	have, ok := cs.conns[ns]
	if ok && (err != nil || have.id != id) {
		have.c.Close()
		delete(cs.conns, ns)
		ok = false
	}
	if err != nil || ok {
		return have.c, err
	}
	var c *netlink.Conn
	if err := netns.Do(ns, func() (err error) {
		c, err = dial(unix.NETLINK_ROUTE)
		return err
	}); err != nil {
		return nil, err
	}
	if cs.conns == nil {
		cs.conns = map[string]carrierConn{}
	}
	cs.conns[ns] = carrierConn{id, c}
	return c, nil
}

// drop lets go of a namespace: an open socket would keep it alive.
func (cs *carriers) drop(ns string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c, ok := cs.conns[ns]; ok {
		c.c.Close()
		delete(cs.conns, ns)
	}
}

func (cs *carriers) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for ns, c := range cs.conns {
		c.c.Close()
		delete(cs.conns, ns)
	}
}

func readCarrier(c *netlink.Conn, link string) (Carrier, error) {
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, link)
		e.Uint32(unix.IFLA_EXT_MASK, extSkipStats)
	})
	if err != nil {
		return Carrier{}, err
	}
	msgs, err := ask(c, unix.RTM_GETLINK, append(ifinfo(0, 0, 0), data...))
	if errors.Is(err, unix.ENODEV) {
		return Carrier{}, nil
	}
	if err != nil {
		return Carrier{}, err
	}
	var s Carrier
	for _, m := range msgs {
		if len(m.Data) < unix.SizeofIfInfomsg {
			return s, short("link", m.Data)
		}
		s.Present, s.Up = true, native.Uint32(m.Data[8:])&unix.IFF_UP != 0
		err = decode(m.Data[unix.SizeofIfInfomsg:], func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.IFLA_CARRIER:
				s.Carrier = d.Uint8() != 0
			case unix.IFLA_CARRIER_DOWN_COUNT:
				s.Downs = d.Uint32()
			}
		})
	}
	return s, err
}
