package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Beat is one echo request.
type Beat struct {
	Sent time.Time
	RTT  time.Duration // 0: no reply came
}

// Late is when a reply has come too late to be one: what waited in a queue for a
// neighbour to be found has not been answered meanwhile.
const Late = 250 * time.Millisecond

// Good says whether the echo was answered, in time.
func (b Beat) Good() bool { return b.RTT > 0 && b.RTT < Late }

// Ping is a stream of echo requests of one identifier, so one flow.
type Ping struct {
	To    netip.Addr
	Every time.Duration

	conn  net.PacketConn
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu    sync.Mutex
	beats []Beat
	woken chan struct{} // closed and replaced at each reply
}

// Ping sends echo requests from the machine until Stop.
func (h *Host) Ping(to netip.Addr, every time.Duration) (*Ping, error) {
	p := &Ping{To: to, Every: every, woken: make(chan struct{})}
	network := "ip4:icmp"
	if to.Is6() {
		network = "ip6:ipv6-icmp"
	}
	err := h.Do(func() (err error) { p.conn, err = net.ListenPacket(network, ""); return err })
	if err != nil {
		return nil, fmt.Errorf("ping %s from %s: %w", to, h, err)
	}
	ctx, stop := context.WithCancel(h.lab.ctx)
	p.stop = stop
	id := uint16(rand.Uint32())
	p.ended.Go(func() { p.send(ctx, id) })
	p.ended.Go(func() { p.receive(id) })
	context.AfterFunc(ctx, func() { p.conn.Close() })
	return p, nil
}

func (p *Ping) send(ctx context.Context, id uint16) {
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	dst := &net.IPAddr{IP: p.To.AsSlice()}
	for seq := 0; ; seq++ {
		m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: int(id), Seq: seq & 0xffff, Data: []byte("weir rehearsal")}}
		if p.To.Is6() {
			m.Type = ipv6.ICMPTypeEchoRequest
		}
		b, err := m.Marshal(nil) // the kernel fills in ICMPv6's checksum
		if err != nil {
			return
		}
		p.mu.Lock()
		p.beats = append(p.beats, Beat{Sent: time.Now()})
		p.mu.Unlock()
		// One that can't be sent (no route now) is one without a reply.
		_, _ = p.conn.WriteTo(b, dst)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Ping) receive(id uint16) {
	b := make([]byte, 1500)
	proto, want := 1, icmp.Type(ipv4.ICMPTypeEchoReply)
	if p.To.Is6() {
		proto, want = 58, ipv6.ICMPTypeEchoReply
	}
	for {
		n, from, err := p.conn.ReadFrom(b)
		now := time.Now()
		if err != nil {
			if isClosed(err) {
				return
			}
			continue
		}
		m, err := icmp.ParseMessage(proto, b[:n])
		if err != nil || m.Type != want {
			continue
		}
		e, ok := m.Body.(*icmp.Echo)
		if a, _ := netip.ParseAddr(from.String()); !ok || e.ID != int(id) || a.Unmap() != p.To {
			continue
		}
		p.mu.Lock()
		// Sequence numbers wrap: it answers the last one that has this number.
		if n := len(p.beats); n > 0 {
			i := (n - 1) - ((n-1-e.Seq)%0x10000+0x10000)%0x10000
			if i >= 0 && p.beats[i].RTT == 0 {
				p.beats[i].RTT = now.Sub(p.beats[i].Sent)
			}
		}
		close(p.woken)
		p.woken = make(chan struct{})
		p.mu.Unlock()
	}
}

// Beats is what has been sent so far.
func (p *Ping) Beats() []Beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Beat(nil), p.beats...)
}

// Answered waits until an echo sent after since is answered, and returns when
// that one was sent. ok is false if none is within limit.
func (p *Ping) Answered(ctx context.Context, since time.Time, limit time.Duration) (sent time.Time, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		p.mu.Lock()
		woken := p.woken
		for i := len(p.beats) - 1; i >= 0 && p.beats[i].Sent.After(since); i-- {
			if p.beats[i].Good() {
				sent, ok = p.beats[i].Sent, true
			}
		}
		p.mu.Unlock()
		if ok {
			return sent, true
		}
		select {
		case <-ctx.Done():
			return time.Time{}, false
		case <-woken:
		}
	}
}

// Stop ends the stream, after the last echoes had a little time to come back,
// and returns it.
func (p *Ping) Stop() []Beat {
	p.Answered(context.Background(), time.Now().Add(-p.Every), 200*time.Millisecond)
	p.stop()
	p.ended.Wait()
	beats := p.Beats()
	// The last may have been sent just now.
	if n := len(beats); n > 0 && beats[n-1].RTT == 0 && time.Since(beats[n-1].Sent) < 100*time.Millisecond {
		beats = beats[:n-1]
	}
	return beats
}

// Gap is a stretch of echoes without a reply in time: from the sending of the first to
// the sending of the next one that was answered (or the last sent, if none was).
type Gap struct {
	From, To time.Time
	Lost     int
}

// Len is how long the gap is.
func (g Gap) Len() time.Duration { return g.To.Sub(g.From) }

// Gaps finds all stretches without a reply, in order.
func Gaps(beats []Beat) []Gap {
	var gaps []Gap
	open := false
	for _, b := range beats {
		if b.Good() {
			if open {
				gaps[len(gaps)-1].To = b.Sent
			}
			open = false
			continue
		}
		if !open {
			gaps = append(gaps, Gap{From: b.Sent})
			open = true
		}
		gaps[len(gaps)-1].Lost++
		gaps[len(gaps)-1].To = b.Sent
	}
	return gaps
}

// Longest is the longest gap of the beats, zero if there is none.
func Longest(beats []Beat) Gap {
	var max Gap
	for _, g := range Gaps(beats) {
		if g.Len() >= max.Len() {
			max = g
		}
	}
	return max
}
