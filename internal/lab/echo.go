package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// Greeting is what an echo server says to whoever asks: which machine it is,
// and the connection's addresses as they arrived there.
type Greeting struct {
	Host string         `json:"host"`
	From netip.AddrPort `json:"from"`
	To   netip.AddrPort `json:"to"`
	Echo string         `json:"echo,omitempty"` // UDP: what was sent
}

// stream is what a client writes to be sent bytes from then on.
const stream = "stream\n"

// ServeEcho opens echo servers on the machine's ports, on every address.
//
// TCP: a Greeting as a line of JSON, then all that comes back; after a line
// "stream" a byte every 10 ms instead. UDP: a Greeting for each datagram, from
// the address that was asked.
func (h *Host) ServeEcho(tcp, udp []uint16) error {
	for _, port := range tcp {
		var ln net.Listener
		err := h.Do(func() (err error) {
			ln, err = net.ListenTCP("tcp", &net.TCPAddr{Port: int(port)})
			return err
		})
		if err != nil {
			return fmt.Errorf("echo server on %s: %w", h, err)
		}
		h.lab.onClose(ln.Close)
		h.lab.run(func() { h.acceptEcho(ln) })
	}
	for _, port := range udp {
		for _, network := range []string{"udp4", "udp6"} {
			var c *net.UDPConn
			err := h.Do(func() (err error) {
				c, err = net.ListenUDP(network, &net.UDPAddr{Port: int(port)})
				return err
			})
			if err != nil {
				return fmt.Errorf("echo server on %s: %w", h, err)
			}
			h.lab.onClose(c.Close)
			read := echoReader4(c)
			if network == "udp6" {
				read = echoReader6(c)
			}
			h.lab.run(func() { h.answerUDP(port, read) })
		}
	}
	return nil
}

func (h *Host) acceptEcho(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		h.lab.run(func() {
			if s := h.lab.site(c); s != nil {
				s.give(c)
				return
			}
			defer c.Close()
			defer context.AfterFunc(h.lab.ctx, func() { c.Close() })()
			h.echo(c)
		})
	}
}

func (h *Host) echo(c net.Conn) {
	g := Greeting{Host: h.Name, From: addrPort(c.RemoteAddr()), To: addrPort(c.LocalAddr())}
	if err := json.NewEncoder(c).Encode(g); err != nil {
		return
	}
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		if string(line) == stream {
			break
		}
		if _, err := c.Write(line); err != nil {
			return
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := c.Write([]byte{'.'}); err != nil {
			return
		}
	}
}

// datagram is one read with the way to answer it from the address asked.
type datagram struct {
	data     []byte
	from     netip.AddrPort
	to       netip.Addr
	answer   func(b []byte) error
	refusing bool // an earlier answer was refused: no datagram
}

func echoReader4(c *net.UDPConn) func([]byte) (datagram, error) {
	p := ipv4.NewPacketConn(c)
	setErr := p.SetControlMessage(ipv4.FlagDst, true)
	return func(b []byte) (datagram, error) {
		if setErr != nil {
			return datagram{}, setErr
		}
		n, cm, from, err := p.ReadFrom(b)
		if err != nil {
			return datagram{refusing: errors.Is(err, unix.ECONNREFUSED)}, err
		}
		to, _ := netip.AddrFromSlice(cm.Dst)
		return datagram{data: b[:n], from: addrPort(from), to: to.Unmap(), answer: func(b []byte) error {
			_, err := p.WriteTo(b, &ipv4.ControlMessage{Src: cm.Dst}, from)
			return err
		}}, nil
	}
}

func echoReader6(c *net.UDPConn) func([]byte) (datagram, error) {
	p := ipv6.NewPacketConn(c)
	setErr := p.SetControlMessage(ipv6.FlagDst, true)
	return func(b []byte) (datagram, error) {
		if setErr != nil {
			return datagram{}, setErr
		}
		n, cm, from, err := p.ReadFrom(b)
		if err != nil {
			return datagram{refusing: errors.Is(err, unix.ECONNREFUSED)}, err
		}
		to, _ := netip.AddrFromSlice(cm.Dst)
		return datagram{data: b[:n], from: addrPort(from), to: to, answer: func(b []byte) error {
			_, err := p.WriteTo(b, &ipv6.ControlMessage{Src: cm.Dst}, from)
			return err
		}}, nil
	}
}

func (h *Host) answerUDP(port uint16, read func([]byte) (datagram, error)) {
	b := make([]byte, 2048)
	for {
		d, err := read(b)
		if d.refusing {
			continue
		}
		if err != nil {
			return
		}
		g := Greeting{Host: h.Name, From: d.from, To: netip.AddrPortFrom(d.to, port), Echo: string(d.data)}
		out, err := json.Marshal(g)
		if err != nil {
			continue
		}
		// An answer that can't be sent is one that the client doesn't get, which
		// is what it reports.
		_ = d.answer(out)
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	ap, _ := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// Answer is how a port answered.
type Answer string

// The answers.
const (
	Answered Answer = "answer"
	Refused  Answer = "refused" // RST, or ICMP that says so
	Silence  Answer = "silence"
)

// Ask opens a connection from the machine (by TCP, or a datagram by UDP) to an
// echo server, and tells how it answered within limit; the Greeting is zero
// unless it Answered. err says what a refusal said.
func (h *Host) Ask(ctx context.Context, network string, from netip.Addr, to netip.AddrPort, limit time.Duration) (Greeting, Answer, error) {
	var g Greeting
	end := time.Now().Add(limit)
	c, err := h.Dial(ctx, network, from, to, limit)
	if err != nil {
		return g, AnswerOf(err), err
	}
	defer c.Close()
	if err := c.SetDeadline(end); err != nil {
		return g, Silence, err
	}
	if network == "tcp" {
		line, err := bufio.NewReader(c).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &g)
		}
		if err != nil {
			return g, AnswerOf(err), err
		}
		return g, Answered, nil
	}
	b := make([]byte, 2048)
	for try := 0; ; try++ {
		if _, err := c.Write([]byte("hello")); err != nil {
			return g, AnswerOf(err), err
		}
		// The first datagram may find no neighbour entry on its way.
		next := time.Now().Add(limit / 3)
		if try == 2 {
			next = end
		}
		if err := c.SetReadDeadline(next); err != nil {
			return g, Silence, err
		}
		n, err := c.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) && try < 2 {
			continue
		}
		if err == nil {
			err = json.NewDecoder(bytes.NewReader(b[:n])).Decode(&g)
		}
		if err != nil {
			return g, AnswerOf(err), err
		}
		return g, Answered, nil
	}
}

// AnswerOf is what the error of a dial, read or write says of the far end.
func AnswerOf(err error) Answer {
	for _, e := range []error{unix.ECONNREFUSED, unix.ECONNRESET, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EACCES, unix.EPERM, unix.ENOPROTOOPT} {
		if errors.Is(err, e) {
			return Refused
		}
	}
	return Silence
}
