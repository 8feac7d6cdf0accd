package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/ruleset"
)

// A client that only waits on a connection whose entry is gone would wait for
// hours. It is prodded: an ACK in its peer's name that lies outside its window. It
// answers (RFC 9293, 3.10.7.4: "send an acknowledgment"), the answer is of no
// known connection any more, and so weir's rules reset it.
//
// The ACK carries no data and no flag that ends or changes anything, so that even
// where it falls into the window it is at most one ACK more, which is ignored or
// answered. Nobody outside can cause one: the kernel's own table says to whom it
// goes, and that is the inside of a connection which has just been ended.
const (
	maxProd    = 20000 // at one time
	prodBurst  = 50    // connections: then a pause, so that no queue of a LAN runs over
	prodEvery  = 5 * time.Millisecond
	prodSettle = 200 * time.Millisecond // after the last, until all answers will have been reset
)

// resetCounters count the resets that the rules send, to the LANs and to ourselves.
var resetCounters = []string{"invalid.out", "invalid.self"}

// prod prods the clients of connections whose entries have been deleted, and counts
// those it prodded and the resets sent since.
func (k *Kernel) prod(list []connection) (prodded, reset int, err error) {
	var p prodder
	if err := netns.Do("", p.open); err != nil {
		return 0, 0, err
	}
	defer p.close()
	slices.SortFunc(list, func(a, b connection) int { return a.client.Compare(b.client) })
	before, countErr := p.resets()
	pace := time.NewTicker(prodEvery)
	defer pace.Stop()
	var failed error
	var deaf netip.Addr // takes no more
	for i, c := range list {
		a := c.client.Addr()
		if a == deaf {
			continue
		}
		if i == 0 || a != list[i-1].client.Addr() {
			// What waits for a client that has gone fills its own socket, and no other's.
			if err := netns.Do("", func() error { return p.face(a) }); err != nil {
				return prodded, 0, err
			}
		}
		if i > 0 && i%prodBurst == 0 {
			select {
			case <-pace.C:
			case <-k.closed:
				return prodded, 0, errors.New("weir ends")
			}
		}
		if err := p.prod(c); err != nil {
			failed, deaf = err, a
			continue
		}
		prodded++
	}
	select {
	case <-time.After(prodSettle):
	case <-k.closed:
	}
	if after, err := p.resets(); err == nil && countErr == nil && after >= before {
		reset = int(after - before)
	}
	return prodded, reset, failed
}

// prodder holds the sockets that prodding needs, in main.
type prodder struct {
	raw int // to one client; the IP header is ours
	nf  *netlink.Conn
}

func (p *prodder) open() (err error) {
	p.raw = -1
	p.nf, err = dial(unix.NETLINK_NETFILTER)
	return err
}

// face opens the socket to a client.
func (p *prodder) face(client netip.Addr) error {
	if p.raw >= 0 {
		unix.Close(p.raw)
		p.raw = -1
	}
	family := unix.AF_INET
	if client.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("open raw socket to %s: %w", client, err)
	}
	p.raw = fd
	return nil
}

// resets is how many resets the rules have sent so far.
func (p *prodder) resets() (uint64, error) {
	var sum uint64
	for _, name := range resetCounters {
		data, err := attrs(func(e *netlink.AttributeEncoder) {
			e.ByteOrder = binary.BigEndian
			e.String(unix.NFTA_OBJ_TABLE, ruleset.TableName)
			e.String(unix.NFTA_OBJ_NAME, name)
			e.Uint32(unix.NFTA_OBJ_TYPE, nftCounter)
		})
		if err != nil {
			return 0, err
		}
		msgs, err := ask(p.nf, nftSubsys|unix.NFT_MSG_GETOBJ, append(nfgen(nfInet, 0), data...))
		if err != nil {
			return 0, fmt.Errorf("read counter %s: %w", name, err)
		}
		for _, m := range msgs {
			if len(m.Data) < 4 {
				return 0, short("counter", m.Data)
			}
			if err := decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
				if d.Type() != unix.NFTA_OBJ_DATA {
					return
				}
				d.ByteOrder = binary.BigEndian
				d.Nested(func(d *netlink.AttributeDecoder) error {
					for d.Next() {
						if d.Type() == unix.NFTA_COUNTER_PACKETS {
							sum += d.Uint64()
						}
					}
					return nil
				})
			}); err != nil {
				return 0, err
			}
		}
	}
	return sum, nil
}

const nftCounter = 1 // NFT_OBJECT_COUNTER

func (p *prodder) close() {
	if p.raw >= 0 {
		unix.Close(p.raw)
	}
	p.nf.Close()
}

// prod sends two segments, half the sequence space apart: a window is less than a
// quarter of it (RFC 7323, 2.3), so one of them at least is outside. They carry
// timestamps, half of their space apart too: a stack may pass over a segment
// without, or with an old one, in silence (RFC 7323, 3.2; FreeBSD does), and one
// that did not agree on timestamps ignores them.
func (p *prodder) prod(c connection) error {
	seq, ack, stamp := rand.Uint32(), rand.Uint32(), rand.Uint32()
	for range 2 {
		if err := p.send(c, segment(c.server, c.client, seq, ack, stamp)); err != nil {
			return fmt.Errorf("prod %s: %w", c.client, err)
		}
		seq, stamp = seq+1<<31, stamp+1<<31
	}
	return nil
}

func (p *prodder) send(c connection, packet []byte) error {
	var err error
	for range 20 { // the queue of a LAN may be full for a moment
		if a := c.client.Addr(); a.Is4() {
			err = unix.Sendto(p.raw, packet, 0, &unix.SockaddrInet4{Addr: a.As4()})
		} else {
			err = unix.Sendto(p.raw, packet, 0, &unix.SockaddrInet6{Addr: a.As16()})
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

const (
	tcpAck = 0x10
	tcpLen = 20 + 12 // with timestamps, padded (RFC 7323, appendix A)
)

// segment is an IP packet with an ACK.
func segment(from, to netip.AddrPort, seq, ack, stamp uint32) []byte {
	ip := ipHeader(from.Addr(), to.Addr())
	t := make([]byte, tcpLen)
	be := binary.BigEndian
	be.PutUint16(t, from.Port())
	be.PutUint16(t[2:], to.Port())
	be.PutUint32(t[4:], seq)
	be.PutUint32(t[8:], ack)
	t[12], t[13] = tcpLen/4<<4, tcpAck
	be.PutUint16(t[14:], 0xffff)
	copy(t[20:], []byte{1, 1, 8, 10}) // two no-operations, timestamps of ten bytes
	be.PutUint32(t[24:], stamp)
	be.PutUint16(t[16:], checksum(from.Addr(), to.Addr(), t))
	return append(ip, t...)
}

// ipHeader is that of a segment. Linux fills in what is left out of IPv4's:
// identification and checksum (raw(7)).
func ipHeader(from, to netip.Addr) []byte {
	const ttl = 64
	if from.Is4() {
		h := make([]byte, 20, 20+tcpLen)
		h[0], h[8], h[9] = 4<<4|5, ttl, unix.IPPROTO_TCP
		binary.BigEndian.PutUint16(h[2:], 20+tcpLen)
		h[6] = 0x40 // do not fragment
		copy(h[12:], from.AsSlice())
		copy(h[16:], to.AsSlice())
		return h
	}
	h := make([]byte, 40, 40+tcpLen)
	h[0], h[6], h[7] = 6<<4, unix.IPPROTO_TCP, ttl
	binary.BigEndian.PutUint16(h[4:], tcpLen)
	copy(h[8:], from.AsSlice())
	copy(h[24:], to.AsSlice())
	return h
}

// checksum is TCP's, over a pseudo header and the segment (RFC 9293, 3.1).
func checksum(from, to netip.Addr, t []byte) uint16 {
	sum := uint32(unix.IPPROTO_TCP + len(t))
	for _, b := range [][]byte{from.AsSlice(), to.AsSlice(), t} {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
