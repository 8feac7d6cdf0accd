package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/failover"
	"weir/internal/probe"
	"weir/internal/worker"
)

// probeLines are the lines that are probed, those whose cable is there.
func probeLines(c *config.Config, w world, id func(failover.LineID) uint16) []probe.Line {
	var out []probe.Line
	for _, cw := range c.WANs {
		if w.wans[cw.Name].cable.index == 0 {
			continue
		}
		for _, f := range []struct {
			family failover.Family
			method config.Method
		}{{failover.IPv4, cw.IPv4.Method}, {failover.IPv6, cw.IPv6.Method}} {
			if f.method != config.MethodNone {
				out = append(out, probe.Line{WAN: cw.Name, IPv6: f.family == failover.IPv6, ID: id(failover.LineID{WAN: cw.Name, Family: f.family})})
			}
		}
	}
	return out
}

// prober is the child that probes all lines.
type prober struct {
	*service
	ids    map[failover.LineID]uint16 // the loop's
	hang   hang                       // the loop's
	orders chan []probe.Order

	mu     sync.Mutex
	lines  []probe.Line
	cables map[string]int // the links' indexes
	told   map[string]int // of the cables that its sockets are bound to
	toldTo []probe.Line
}

// identifier is the ICMP identifier of a line: random, and no other line's; the
// lowest four bits are the child's.
func (p *prober) identifier(l failover.LineID) uint16 {
	for p.ids[l] == 0 {
		id := uint16(rand.IntN(1<<12-1)+1) << 4
		used := false
		for _, other := range p.ids {
			used = used || other == id
		}
		if !used {
			p.ids[l] = id
		}
	}
	return p.ids[l]
}

// syncProbe tells the prober which lines there are.
func (d *daemon) syncProbe(ctx context.Context) {
	first := d.prober == nil
	if first {
		d.prober = &prober{ids: map[failover.LineID]uint16{}, orders: make(chan []probe.Order, 16)}
	}
	p := d.prober
	p.mu.Lock()
	p.lines, p.cables = probeLines(d.cfg, d.world, p.identifier), map[string]int{}
	for name, k := range d.world.wans {
		p.cables[name] = k.cable.index
	}
	p.mu.Unlock()
	if !first {
		p.wake()
		return
	}
	p.service = d.serve(ctx, duty{
		kind: probe.Worker, prepare: p.prepare, take: report(d.takeProbes),
		started: func() {
			d.prober.hang = hang{}
			d.machine.Void(time.Now())
		},
	})
	go p.send(ctx, d)
}

func (p *prober) prepare(_ context.Context, fresh bool) (told, error) {
	p.mu.Lock()
	lines, cables := p.lines, p.cables
	p.mu.Unlock()
	if !fresh && reflect.DeepEqual(cables, p.told) && slices.Equal(lines, p.toldTo) {
		return told{}, nil
	}
	cfg, t := probe.Config{}, told{}
	var trouble error
	for _, l := range lines {
		f, err := probe.Open(l, l.WAN)
		if err != nil {
			trouble = errors.Join(trouble, err)
			continue
		}
		cfg.Lines, t.files = append(cfg.Lines, l), append(t.files, f)
	}
	t.msg = probe.Message{Config: &cfg}
	p.told, p.toldTo = cables, lines
	if trouble != nil {
		p.told = nil // to be told again
	}
	return t, trouble
}

// send sends orders; what can't be sent counts for nothing.
func (p *prober) send(ctx context.Context, d *daemon) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-p.orders:
			if err := p.child.Send(probe.Message{Probes: o}); err != nil && !errors.Is(err, worker.ErrNotRunning) && ctx.Err() == nil {
				d.log.Warn("probes were not ordered", "err", err)
			}
		}
	}
}

// sendProbes has the probes sent that were ordered.
func (d *daemon) sendProbes() {
	if len(d.probes) == 0 {
		return
	}
	orders := make([]probe.Order, len(d.probes))
	for i, o := range d.probes {
		orders[i] = order(o)
	}
	d.probes = d.probes[:0]
	if d.prober == nil {
		return
	}
	select {
	case d.prober.orders <- orders:
	default: // the child hangs
	}
	if d.prober.hang.ordered(time.Now()) {
		d.prober.hang = hang{} // its successor has its own time
		d.prober.child.End(fmt.Errorf("it hung: none of the probes of the last %v was sent", hangAfter))
	}
}

// order is a probe as the child takes it.
func order(p failover.Probe) probe.Order {
	t := p.Target
	o := probe.Order{ID: p.ID, WAN: p.Line.WAN, Target: t.Addr, Port: t.Port, Name: t.Name, Wait: p.Wait}
	switch t.Kind {
	case failover.TCP:
		o.Way = probe.TCP
	case failover.DNS:
		o.Way = probe.DNS
	}
	return o
}

// A prober that hangs would leave every verdict as it is. Its orders tell of it
// long before it misses its parent's beats.
const hangAfter = time.Second

// hang watches for it. The zero value has nothing under way.
type hang struct {
	since time.Time // of the first order since the prober was last heard; zero: none
	last  time.Time // of the latest
}

// ordered takes note of an order, and says whether the prober hangs. The prober
// is not blamed for a loop that stood still itself.
func (h *hang) ordered(now time.Time) bool {
	stood := now.Sub(h.last) > hangAfter
	h.last = now
	if h.since.IsZero() || stood {
		h.since = now
	}
	return now.Sub(h.since) > hangAfter
}

func (h *hang) heard() { h.since = time.Time{} }

// takeProbes takes what came of probes.
func (d *daemon) takeProbes(r probe.Report) {
	d.prober.hang.heard()
	for _, e := range r.Events {
		switch at := e.At.Time(); {
		case e.Reopen: // never sent, which is not the line's fault
			d.wantTurn(settleFor) // finds the cable that is there now
		case e.Kind == probe.Sent:
			d.machine.Sent(at, e.ID)
		case e.Kind == probe.Reply:
			d.machine.Reply(at, e.ID, e.RTT)
		case e.Kind == probe.Failed:
			d.machine.Error(at, e.ID, e.Why)
		}
	}
}
