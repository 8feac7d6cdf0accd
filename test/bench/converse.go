package main

import (
	"context"
	"fmt"
	"time"
)

// A conversation is a measurement that needs answers: of rows that route.
type conversation struct {
	title string
	order order
	share int  // of the rounds
	time  bool // the figure is a time: the less the better
	unit  string
	scale float64
	least float64            // of the peer; at most, of a time
	bound map[string]float64 // of one row
	line  string             // its name in the summary
}

var conversations = []conversation{
	{title: "TCP connections, a byte in each, one after the other, both ends on the core", order: order{Do: "connections"}, share: 1,
		unit: "/s of CPU", scale: 1, least: 0.88, line: "connections"},
	{title: "32 bytes there and back by UDP, both ends on the core", order: order{Do: "udp", Lasts: 20 * time.Second}, share: 1, time: true,
		unit: "us, half of them", scale: 1e6, least: 1},
	{title: "32 bytes there and back by TCP", order: order{Do: "tcp", Lasts: 20 * time.Second}, share: 1, time: true,
		unit: "us, half of them", scale: 1e6, least: 1},
	{title: "one TCP stream to the ISP's end, superframes", order: order{Do: "stream", Lasts: time.Second, Offloads: true}, share: 3,
		unit: "Gbit/s", scale: 1e-9, least: 0.97},
	{title: "one TCP stream from there, superframes", order: order{Do: "stream", Lasts: time.Second, Offloads: true, Down: true}, share: 3,
		unit: "Gbit/s", scale: 1e-9, least: 0.97},
	{title: "one TCP stream to the ISP's end, packets of 1500 bytes", order: order{Do: "stream", Lasts: time.Second}, share: 3,
		unit: "Gbit/s", scale: 1e-9, bound: map[string]float64{"tc": 1.15}},
	{title: "one TCP stream from there, packets of 1500 bytes", order: order{Do: "stream", Lasts: time.Second, Down: true}, share: 3,
		unit: "Gbit/s", scale: 1e-9, bound: map[string]float64{"tc": 1.15}},
}

// judge says why a figure is not one of what the row is to show.
func (c conversation) judge(k kind, f figure) error {
	switch {
	case f.Count <= 0 || f.Per <= 0:
		return fmt.Errorf("it carries nothing")
	// A stream begins slowly.
	case k.fast && f.Sent > 0 && f.fast() < most:
		return fmt.Errorf("only %.2f of the packets were carried fast", f.fast())
	}
	return nil
}

const most = 0.9

// converse has the rows that route take turns.
func (b *bench) converse(ctx context.Context, c conversation) error {
	if c.order.Lasts == 0 {
		c.order.Lasts = b.lasts
	}
	var t table
	for n := range max(3, b.rounds/c.share) {
		round := map[string]float64{}
		for i := range b.kinds {
			k := b.kinds[(i+n)%len(b.kinds)]
			if !k.routes {
				continue
			}
			f, err := b.timed(b.sides[k.name], c.order)
			if err == nil {
				err = c.judge(k, f)
			}
			if err != nil {
				b.tell(k.name, err)
				continue
			}
			round[k.name] = f.Count / f.Per
			if c.time {
				round[k.name] = f.Count
			}
		}
		t.rounds = append(t.rounds, round)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Printf("\n%s, %d rounds\n", c.title, len(t.rounds))
	for _, k := range b.kinds {
		if !k.routes {
			continue
		}
		v, of := t.of(k.name), t.ratios(k.name, "peer")
		for i := range v {
			v[i] *= c.scale
		}
		fmt.Printf("  %-10s  %-30s of the peer %s", k.name, some(v, "%.4g")+" "+c.unit, some(of, "%.2f"))
		if k.fast && len(of) > 0 {
			b.bound(c, k, median(of))
		}
		fmt.Println()
	}
	b.tellAll()
	return nil
}

// bound prints what the ratio of a row is to be, and whether it is.
func (b *bench) bound(c conversation, k kind, ratio float64) {
	least := c.least
	if v := c.bound[k.name]; v > 0 {
		least = v
	}
	switch {
	case least == 0:
	case c.time:
		fmt.Printf(", at most %.2f: %s", least, holds(ratio <= least))
	default:
		fmt.Printf(", at least %.2f: %s", least, holds(ratio >= least))
	}
	if c.line != "" {
		b.line[c.line] = fmt.Sprintf("%.2f", ratio)
	}
}
