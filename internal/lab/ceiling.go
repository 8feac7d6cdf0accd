package lab

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// Ceiling is the most that a plain Link carries in one direction on this machine,
// as busy as it is, before a Shape is the limit.
type Ceiling struct {
	Frames float64 // a second
	Bits   float64 // a second
	CPU    float64 // seconds of processor a second: the link's and the receiving kernel's, not the sender's
}

func (c Ceiling) String() string {
	return fmt.Sprintf("%.0f frames/s, %.0f Mbit/s, %.2f CPU", c.Frames, c.Bits/1e6, c.CPU)
}

// Ceiling floods a link of its own for a while by frames of size bytes (60 to
// 1514). It takes all of two processors meanwhile.
func (l *Lab) Ceiling(size int, during time.Duration) (Ceiling, error) {
	n := l.floods()
	var hosts [2]*Host
	addrs := [2]netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1}), netip.AddrFrom4([4]byte{10, 0, 0, 2})}
	for i := range hosts {
		var err error
		if hosts[i], err = l.Add(fmt.Sprintf("flood%d-%d", n, i)); err != nil {
			return Ceiling{}, err
		}
	}
	link, err := l.Link(Plug{Host: hosts[0], Dev: "e0"}, Plug{Host: hosts[1], Dev: "e0"}, Shape{}, Shape{}, 0)
	if err != nil {
		return Ceiling{}, err
	}
	for i, h := range hosts {
		if err := h.AddAddr("e0", netip.PrefixFrom(addrs[i], 24)); err != nil {
			return Ceiling{}, err
		}
	}
	// A socket that nobody reads: the kernel takes each datagram in and drops it.
	var sink, from net.PacketConn
	if err := hosts[1].Do(func() (err error) { sink, err = net.ListenPacket("udp4", "10.0.0.2:9"); return err }); err != nil {
		return Ceiling{}, err
	}
	defer sink.Close()
	if err := hosts[0].Do(func() (err error) { from, err = net.ListenPacket("udp4", "10.0.0.1:0"); return err }); err != nil {
		return Ceiling{}, err
	}
	defer from.Close()
	return flood(link, from, sink.LocalAddr(), size, during)
}

// flood sends from one thread, so that its share of the processor is known.
func flood(link *Link, from net.PacketConn, to net.Addr, size int, during time.Duration) (Ceiling, error) {
	const headers = 14 + 20 + 8
	if size < 60 || size > 1514 {
		return Ceiling{}, fmt.Errorf("flood a link by frames of %d bytes: they have 60 to 1514", size)
	}
	batch := make([]ipv4.Message, 64)
	for i := range batch {
		batch[i] = ipv4.Message{Buffers: [][]byte{make([]byte, size-headers)}, Addr: to}
	}
	conn := ipv4.NewPacketConn(from)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var c0, c1 Count
	var cpu0 time.Duration
	start := time.Now()
	warm := during / 5
	for warming := true; ; {
		if _, err := conn.WriteBatch(batch, 0); err != nil {
			return Ceiling{}, fmt.Errorf("flood a link: %w", err)
		}
		if took := time.Since(start); warming && took > warm {
			warming, start = false, time.Now()
			c0, _ = link.Counts()
			cpu0 = othersCPU()
		} else if !warming && took > during {
			break
		}
	}
	took := time.Since(start).Seconds()
	cpu := othersCPU() - cpu0
	c1, _ = link.Counts()
	return Ceiling{
		Frames: float64(c1.Frames-c0.Frames) / took,
		Bits:   float64(c1.Bytes-c0.Bytes) * 8 / took,
		CPU:    cpu.Seconds() / took,
	}, nil
}

// othersCPU is the processor time of this process's other threads.
func othersCPU() time.Duration {
	var all, mine unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &all)
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &mine)
	sum := func(r unix.Rusage) time.Duration { return time.Duration(r.Utime.Nano() + r.Stime.Nano()) }
	return sum(all) - sum(mine)
}

// floods numbers them.
func (l *Lab) floods() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for name := range l.hosts {
		if strings.HasPrefix(name, "flood") {
			n++
		}
	}
	return n / 2
}
