package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// TimeAhead is how far the time of the lab's internet is ahead of this machine's
// clock, which nobody here sets: whoever tells it has asked there.
const TimeAhead = time.Hour

// Clock is what the time servers of the lab's internet tell: all of its addresses.
type Clock struct {
	mu    sync.Mutex
	begin time.Time // when, by this machine's clock, it was
	was   time.Time // this
	lies  map[netip.Addr]time.Duration
	asked map[timeAsked]int
}

type timeAsked struct {
	host string
	to   netip.Addr
}

func (c *Clock) open(now time.Time) {
	c.begin, c.was = now, now.Add(TimeAhead)
	c.lies, c.asked = map[netip.Addr]time.Duration{}, map[timeAsked]int{}
}

// Set has the internet's time go on from now; this machine's clock may be set
// meanwhile.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin, c.was = time.Now(), now
}

// Now is the internet's time. Setting this machine's clock does not change it.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.was.Add(time.Since(c.begin))
}

// Lie has the server at an address tell a time that is off by so much.
func (c *Clock) Lie(server netip.Addr, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lies[server] = by
}

// Asked counts what a server was asked on the internet of a line.
func (c *Clock) Asked(inet *Host, server netip.Addr) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[timeAsked{inet.Name, server}]
}

// tells is what the server at an address takes the time for.
func (c *Clock) tells(host string, server netip.Addr) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[timeAsked{host, server}]++
	return c.was.Add(time.Since(c.begin) + c.lies[server])
}

// serveTime answers NTP (RFC 5905) on the machine, on every address.
func (h *Host) serveTime() error {
	for _, network := range []string{"udp4", "udp6"} {
		var c *net.UDPConn
		err := h.Do(func() (err error) {
			c, err = net.ListenUDP(network, &net.UDPAddr{Port: 123})
			return err
		})
		if err != nil {
			return fmt.Errorf("time server on %s: %w", h, err)
		}
		h.lab.onClose(c.Close)
		read := echoReader4(c)
		if network == "udp6" {
			read = echoReader6(c)
		}
		h.lab.run(func() {
			b := make([]byte, 1024)
			for {
				d, err := read(b)
				if d.refusing {
					continue
				}
				if err != nil {
					return
				}
				if out := timeAnswer(d.data, h.lab.Clock.tells(h.Name, d.to)); out != nil {
					_ = d.answer(out) // what can't be sent is an answer that the asker doesn't get
				}
			}
		})
	}
	return nil
}

// timeAnswer answers a client's question (RFC 5905, 7.3, 9.2), as a stratum 1 server
// would; nil is no answer.
func timeAnswer(q []byte, now time.Time) []byte {
	const client, server = 3, 4
	if len(q) < 48 || q[0]&7 != client {
		return nil
	}
	p := make([]byte, 48)
	p[0], p[1], p[2], p[3] = q[0]&0x38|server, 1, q[2], 0xec // no leap second, its version; stratum; poll; precision 2^-20 s
	copy(p[12:], "LAB")
	putTime(p[16:], now.Add(-time.Second)) // when the server's clock was set
	copy(p[24:32], q[40:48])               // the client's transmit timestamp
	putTime(p[32:], now)
	putTime(p[40:], now)
	return p
}

// putTime writes a 64-bit timestamp: seconds since 1900, and 2^-32 of one.
func putTime(b []byte, t time.Time) {
	const since1900 = 2208988800
	binary.BigEndian.PutUint32(b, uint32(t.Unix()+since1900))
	binary.BigEndian.PutUint32(b[4:], uint32(uint64(t.Nanosecond())<<32/1e9))
}

// AskTime asks a server for the time, as a client of SNTP does (RFC 4330), from an
// address that may be invalid (the kernel chooses), and returns by how much it is ahead of this machine's clock.
func (h *Host) AskTime(from, server netip.Addr, limit time.Duration) (ahead time.Duration, stratum int, err error) {
	var c *net.UDPConn
	err = h.Do(func() (err error) {
		var local *net.UDPAddr
		if from.IsValid() {
			local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		}
		c, err = net.DialUDP("udp", local, net.UDPAddrFromAddrPort(netip.AddrPortFrom(server, 123)))
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("ask %s for the time: %w", server, err)
	}
	defer c.Close()
	q := make([]byte, 48)
	q[0] = 4<<3 | 3 // version 4, client
	sent := time.Now()
	putTime(q[40:], sent)
	if _, err := c.Write(q); err != nil {
		return 0, 0, fmt.Errorf("ask %s for the time: %w", server, err)
	}
	if err := c.SetReadDeadline(sent.Add(limit)); err != nil {
		return 0, 0, err
	}
	a := make([]byte, 512)
	n, err := c.Read(a)
	back := time.Now()
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("ask %s for the time: %w", server, err)
	case n < 48 || a[0]&7 != 4 || string(a[24:32]) != string(q[40:]):
		return 0, 0, fmt.Errorf("ask %s for the time: what came is no answer: % x", server, a[:n])
	case a[0]>>6 == 3 || a[1] == 0 || a[1] > 15:
		return 0, int(a[1]), fmt.Errorf("%s does not know the time itself (leap %d, stratum %d)", server, a[0]>>6, a[1])
	}
	middle := sent.Add(back.Sub(sent) / 2)
	return takeTime(a[40:]).Sub(middle), int(a[1]), nil
}

func takeTime(b []byte) time.Time {
	const since1900 = 2208988800
	return time.Unix(int64(binary.BigEndian.Uint32(b))-since1900, int64(uint64(binary.BigEndian.Uint32(b[4:]))*1e9>>32))
}
