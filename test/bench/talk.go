package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/lab"
)

// Ports of the ISP's servers.
const (
	connectPort = 4000
	talkPort    = 4001
	streamPort  = "4002"
)

const patience = 5 // seconds that a socket waits for the other end

// socketOn opens a socket in a machine's namespace; port 0 is a client's.
func socketOn(h *lab.Host, kind int, port int) (fd int, err error) {
	err = h.Do(func() error {
		if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if port == 0 {
			return wait(fd)
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		if kind == unix.SOCK_DGRAM {
			return unix.Bind(fd, &unix.SockaddrInet4{Addr: lab.Web(false).As4(), Port: port})
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port}); err != nil {
			return err
		}
		return unix.Listen(fd, 1024)
	})
	if err != nil {
		return 0, fmt.Errorf("open a socket on %s: %w", h, err)
	}
	return fd, nil
}

func wait(fd int) error {
	t := unix.Timeval{Sec: patience}
	return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &t))
}

// connections opens one connection after the other for a time, with a byte in each, both
// ends on the core. Per is the time of both, and of all that weir's processes did.
func (r *road) connections(lasts time.Duration) (f figure, err error) {
	listener, err := socketOn(r.isp, unix.SOCK_STREAM, connectPort)
	if err != nil {
		return f, err
	}
	defer unix.Close(listener)
	own, err := r.daemonTime()
	if err != nil {
		return f, err
	}
	var server time.Duration
	served := make(chan error, 1)
	go func() {
		served <- r.isp.Do(func() error {
			if err := alone(); err != nil {
				return err
			}
			at := threadTime()
			defer func() { server = threadTime() - at }()
			var b [1]byte
			for {
				fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
				if errors.Is(err, unix.EINVAL) {
					return nil // it was shut down
				}
				if err != nil {
					return err
				}
				_, err = unix.Read(fd, b[:])
				unix.Close(fd)
				if err != nil && !errors.Is(err, unix.ECONNRESET) { // the client gave up on it
					return err
				}
			}
		})
	}()
	err = r.client.Do(func() error {
		if err := alone(); err != nil {
			return err
		}
		from, at := time.Now(), threadTime()
		for time.Since(from) < lasts {
			err := connect(int(f.Count))
			if errors.Is(err, unix.EINTR) {
				continue // Go's own signals; it does not count
			}
			if err != nil {
				return fmt.Errorf("connection %.0f: %w", f.Count+1, err)
			}
			f.Count++
		}
		f.Per, f.Wall = (threadTime() - at).Seconds(), time.Since(from).Seconds()
		return nil
	})
	err = errors.Join(err, unix.Shutdown(listener, unix.SHUT_RDWR), <-served)
	after, ownErr := r.daemonTime()
	f.Per += server.Seconds() + after - own
	return f, errors.Join(err, ownErr)
}

// connect makes a connection of the thread's namespace, says a byte and hears the end.
// Each address of the server's has its turn: a port may be used again with another.
func connect(n int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := wait(fd); err != nil {
		return err
	}
	to := []netip.Addr{lab.Web(false), netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("9.9.9.9")}[n%4]
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.As4(), Port: connectPort}); err != nil {
		return err
	}
	b := [1]byte{'x'}
	if _, err := unix.Write(fd, b[:]); err != nil {
		return err
	}
	if k, err := unix.Read(fd, b[:]); err != nil || k != 0 {
		return fmt.Errorf("it did not end: %d bytes, %w", k, err)
	}
	return nil
}

// daemonTime is for how long weir's processes have run, in seconds.
func (r *road) daemonTime() (sum float64, err error) {
	if !r.fast && r.name != "weir" {
		return 0, nil
	}
	pids, err := weirs()
	for _, pid := range pids {
		t, err := ran(pid)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, err
}

// A talk is a flow of questions of 32 bytes, each answered before the next. It stays
// open, so that its flow is one that lives.
type talk struct{ fd int }

func (r *road) talk(kind int) (*talk, error) {
	server, err := socketOn(r.isp, kind, talkPort)
	if err != nil {
		return nil, err
	}
	go func() { _ = r.isp.Do(func() error { return answer(server, kind) }) }()
	fd, err := socketOn(r.client.Host, kind, 0)
	if err != nil {
		return nil, err
	}
	if kind == unix.SOCK_STREAM {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return nil, err
		}
	}
	return &talk{fd}, unix.Connect(fd, &unix.SockaddrInet4{Addr: lab.Web(false).As4(), Port: talkPort})
}

// answer says what it hears to whom it hears it from, as long as the lab lives.
func answer(fd, kind int) error {
	if err := alone(); err != nil {
		return err
	}
	if kind == unix.SOCK_STREAM {
		var err error
		if fd, _, err = unix.Accept4(fd, unix.SOCK_CLOEXEC); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return err
		}
	}
	b := make([]byte, 64)
	for {
		n, from, err := unix.Recvfrom(fd, b, 0)
		if err != nil || n == 0 {
			return err
		}
		if kind == unix.SOCK_STREAM {
			from = nil
		}
		if err := unix.Sendto(fd, b[:n], 0, from); err != nil {
			return err
		}
	}
}

// ask asks so often and returns the median of the times to the answer. Sent are packets.
func (r *road) ask(t *talk, count int) (f figure, err error) {
	slow, err := forwarded(r.lab.Gateway())
	if err != nil {
		return f, err
	}
	took := make([]time.Duration, 0, count)
	err = r.client.Do(func() error {
		if err := alone(); err != nil {
			return err
		}
		at, b := threadTime(), make([]byte, 32)
		for range count {
			from := time.Now()
			if _, err := unix.Write(t.fd, b); err != nil {
				return err
			}
			n, err := unix.Read(t.fd, b)
			for errors.Is(err, unix.EINTR) {
				n, err = unix.Read(t.fd, b)
			}
			if err != nil || n != len(b) {
				return fmt.Errorf("%d of %d bytes came back: %w", n, len(b), err)
			}
			took = append(took, time.Since(from))
		}
		f.Per = (threadTime() - at).Seconds()
		return nil
	})
	if err != nil {
		return f, err
	}
	slices.Sort(took)
	f.Count, f.Sent = took[len(took)/2].Seconds(), float64(2*count)
	after, err := forwarded(r.lab.Gateway())
	f.Slow = after - slow
	return f, err
}

// latency asks when the flow is carried as it is to be.
func (r *road) latency(ctx context.Context, kind int, count int, limit time.Duration) (f figure, err error) {
	if err := r.use(""); err != nil {
		return f, err
	}
	if r.talks == nil {
		r.talks = map[int]*talk{}
	}
	t := r.talks[kind]
	if t == nil {
		if t, err = r.talk(kind); err != nil {
			return f, err
		}
		r.talks[kind] = t
	}
	for began := time.Now(); time.Since(began) < limit; {
		if f, err = r.ask(t, 64); err != nil || !r.fast || f.Slow == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err != nil {
		return f, err
	}
	return r.ask(t, count)
}

// stream has one TCP connection carry what it can for a time, to the ISP's end or (down)
// from there, with the ends' and the ports' offloads or without. Count are bits.
func (r *road) stream(ctx context.Context, lasts time.Duration, down, offloads bool) (f figure, err error) {
	if err := r.use(""); err != nil {
		return f, err
	}
	if err := r.offload(ctx, offloads); err != nil {
		return f, err
	}
	if !r.server {
		if _, err := r.isp.Run(ctx, "iperf3", "-s", "-D", "-p", streamPort); err != nil {
			return f, err
		}
		r.server = true
	}
	slow, err := forwarded(r.lab.Gateway())
	if err != nil {
		return f, err
	}
	sent, err := r.passed()
	if err != nil {
		return f, err
	}
	args := []string{"-c", lab.Web(false).String(), "-p", streamPort, "-J", "-A", "0,1", "-t", fmt.Sprintf("%.0f", max(1, lasts.Seconds()))}
	if down {
		args = append(args, "-R")
	}
	var out string
	lab.Until(ctx, patience*time.Second, func() bool { // until the server listens, and is done with the last
		out, err = r.client.Run(ctx, "iperf3", args...)
		return err == nil
	})
	if err != nil {
		return f, err
	}
	var said struct {
		End struct {
			Received struct {
				Seconds, Bytes float64
			} `json:"sum_received"`
		}
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		return f, fmt.Errorf("read what iperf3 says: %w", err)
	}
	f.Count, f.Per = 8*said.End.Received.Bytes, said.End.Received.Seconds
	after, err := r.passed()
	if err != nil {
		return f, err
	}
	f.Sent = after - sent
	after, err = forwarded(r.lab.Gateway())
	f.Slow = after - slow
	return f, err
}

// passed is how many packets, superframes counted once, went by the client's port.
func (r *road) passed() (float64, error) {
	l, err := r.client.Netlink().LinkByName("e0")
	if err != nil {
		return 0, err
	}
	return float64(l.Attrs().Statistics.RxPackets + l.Attrs().Statistics.TxPackets), nil
}

// offload has the ends and the gateway's ports make and gather superframes, or not.
func (r *road) offload(ctx context.Context, on bool) error {
	if r.plain == !on {
		return nil
	}
	ports, err := r.ports()
	if err != nil {
		return err
	}
	word := map[bool]string{true: "on", false: "off"}[on]
	for _, p := range ports {
		if _, err := p.Host.Run(ctx, "ethtool", "-K", p.Dev, "tso", word, "gso", word, "gro", word); err != nil {
			return err
		}
	}
	r.plain = !on
	return nil
}
