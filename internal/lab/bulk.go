package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Ports of the internet's servers for as much as a line carries: one takes all and
// says nothing (RFC 863), one sends without end (RFC 864).
const (
	discardPort = 9
	chargenPort = 19
)

// Bulk is a TCP connection that carries as much as the line does, one way, until
// it is closed.
type Bulk struct {
	conn  net.Conn
	bytes atomic.Uint64
	done  chan struct{}
	err   error // once done is closed
}

// Upload sends to the internet's server at an address without end.
func (h *Host) Upload(ctx context.Context, to netip.Addr, limit time.Duration) (*Bulk, error) {
	return h.bulk(ctx, netip.AddrPortFrom(to, discardPort), limit, func(c net.Conn, b []byte) (int, error) { return c.Write(b) })
}

// Download takes from it without end.
func (h *Host) Download(ctx context.Context, to netip.Addr, limit time.Duration) (*Bulk, error) {
	return h.bulk(ctx, netip.AddrPortFrom(to, chargenPort), limit, func(c net.Conn, b []byte) (int, error) { return c.Read(b) })
}

func (h *Host) bulk(ctx context.Context, to netip.AddrPort, limit time.Duration, move func(net.Conn, []byte) (int, error)) (*Bulk, error) {
	c, err := h.Dial(ctx, "tcp", netip.Addr{}, to, limit)
	if err != nil {
		return nil, fmt.Errorf("bulk from %s to %s: %w", h, to, err)
	}
	f := &Bulk{conn: c, done: make(chan struct{})}
	stop := context.AfterFunc(h.lab.ctx, func() { c.Close() })
	h.lab.run(func() {
		defer close(f.done)
		defer stop()
		for b := make([]byte, 64<<10); ; {
			n, err := move(c, b)
			f.bytes.Add(uint64(n))
			if err != nil {
				f.err = err
				return
			}
		}
	})
	return f, nil
}

// Bytes is how many it has taken or handed to the kernel so far.
func (f *Bulk) Bytes() uint64 { return f.bytes.Load() }

// Ended says whether it has ended by itself, and how.
func (f *Bulk) Ended() (error, bool) {
	select {
	case <-f.done:
		return f.err, true
	default:
		return nil, false
	}
}

// Close ends it.
func (f *Bulk) Close() error { return f.conn.Close() }

// serveBulk opens both servers on every address of the machine.
func (h *Host) serveBulk() error {
	for port, serve := range map[uint16]func(net.Conn){
		discardPort: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		chargenPort: func(c net.Conn) {
			b := make([]byte, 64<<10)
			for _, err := c.Write(b); err == nil; _, err = c.Write(b) {
			}
		},
	} {
		var ln net.Listener
		if err := h.Do(func() (err error) { ln, err = net.ListenTCP("tcp", &net.TCPAddr{Port: int(port)}); return err }); err != nil {
			return fmt.Errorf("bulk server on %s: %w", h, err)
		}
		h.lab.onClose(ln.Close)
		h.lab.run(func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				h.lab.run(func() {
					defer c.Close()
					defer context.AfterFunc(h.lab.ctx, func() { c.Close() })()
					serve(c)
				})
			}
		})
	}
	return nil
}
