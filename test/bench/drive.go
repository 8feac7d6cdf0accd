package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/lab"
)

// insideRoad brings up a road in the lab that this process is pid 1 of, and takes orders.
func insideRoad(ctx context.Context, name, weir string) error {
	l, err := lab.New(ctx, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	r, err := newRoad(ctx, l, name, weir)
	if err != nil {
		return out.Encode(figure{Error: err.Error()})
	}
	if err := out.Encode(figure{}); err != nil {
		return err
	}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var o order
		f, err := figure{}, json.Unmarshal(orders.Bytes(), &o)
		if err == nil {
			f, err = r.do(ctx, o)
		}
		if err != nil {
			f.Error = err.Error()
		}
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	return orders.Err()
}

func (r *road) do(ctx context.Context, o order) (figure, error) {
	switch o.Do {
	case "warm", "packets":
		g, err := r.generator(o.Flows)
		if err != nil {
			return figure{}, err
		}
		defer g.close()
		if o.Do == "warm" {
			return r.warm(ctx, g, o.Flows, o.Lasts)
		}
		if err := r.use(o.Sink); err != nil {
			return figure{}, err
		}
		return r.packets(g, 0, o.Lasts)
	case "connections":
		if err := r.use(""); err != nil {
			return figure{}, err
		}
		return r.connections(o.Lasts)
	case "udp":
		return r.latency(ctx, unix.SOCK_DGRAM, questions, o.Lasts)
	case "tcp":
		return r.latency(ctx, unix.SOCK_STREAM, questions, o.Lasts)
	case "stream":
		return r.stream(ctx, o.Lasts, o.Down, o.Offloads)
	case "forget":
		return figure{}, r.lab.Gateway().Netlink().ConntrackTableFlush(netlink.ConntrackTable)
	}
	return figure{}, fmt.Errorf("no order is called %q", o.Do)
}

// packets sends so many frames, or for about a time where that is 0, and says what
// became of them: Per is the processor's time of the thread, on which all of the road
// is gone.
func (r *road) packets(g *generator, frames int, lasts time.Duration) (f figure, err error) {
	if frames == 0 {
		// All are sent by one system call, for the kernel takes 20 ms to begin one.
		const first = 16384
		if f, err = r.packets(g, first, 0); err != nil || f.Per == 0 {
			return f, err
		}
		frames = max(first, int(first*lasts.Seconds()/f.Per))
	}
	before, err := r.counts(g)
	if err != nil {
		return f, err
	}
	err = r.client.Do(func() error {
		if err := alone(); err != nil {
			return err
		}
		from, at := time.Now(), threadTime()
		err := g.send("e0", frames)
		f.Per, f.Wall = (threadTime() - at).Seconds(), time.Since(from).Seconds()
		return err
	})
	if err != nil {
		return f, err
	}
	after := before
	for settled := false; !settled; { // what is left to other threads
		time.Sleep(2 * time.Millisecond)
		now, err := r.counts(g)
		if err != nil {
			return f, err
		}
		settled, after = now == after, now
	}
	f.Sent, f.Count, f.Wrong = after.sent-before.sent, after.right-before.right, after.wrong-before.wrong
	f.Back, f.Slow = after.back-before.back, after.slow-before.slow
	return f, nil
}

// counts are of packets so far.
type counts struct{ sent, right, wrong, back, slow float64 }

func (r *road) counts(g *generator) (c counts, err error) {
	sent, err := g.sent()
	if err != nil {
		return c, err
	}
	far, err := r.far.packets()
	if err != nil {
		return c, err
	}
	near, err := r.near.packets()
	if err != nil {
		return c, err
	}
	c = counts{sent: float64(sent), right: float64(far[0]), wrong: float64(far[1] + near[1]), back: float64(near[0])}
	c.slow, err = forwarded(r.lab.Gateway())
	return c, err
}

// forwarded is how many packets a machine's own IPv4 passed on. What programs carry
// past it is not among them, whoever attached them.
func forwarded(h *lab.Host) (n float64, err error) {
	var b []byte
	if err := h.Do(func() (err error) { b, err = os.ReadFile("/proc/thread-self/net/snmp"); return err }); err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "Ip:" {
			continue
		}
		if names == nil {
			names = words
			continue
		}
		for i, name := range names {
			if name == "ForwDatagrams" && i < len(words) {
				return strconv.ParseFloat(words[i], 64)
			}
		}
	}
	return 0, fmt.Errorf("/proc/net/snmp of %s has no ForwDatagrams", h)
}

// questions is how many a measurement of round trips asks.
const questions = 3000

// core is the processor on which a road is gone: soft interrupts are served where they
// are raised.
const core = 0

// alone has the thread to itself what else would run on the core. It has to end after.
func alone() error {
	var cpus unix.CPUSet
	cpus.Set(core)
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		return fmt.Errorf("keep a thread on processor %d: %w", core, err)
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}, 0); err != nil {
		return fmt.Errorf("make a thread a real-time one: %w", err)
	}
	return nil
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // the clock is there since Linux 2.6.12
	}
	return time.Duration(ts.Nano())
}

// warm has each flow asked and answered, until all are carried as the row is to carry
// them or the time is over. The figure is of the last time.
func (r *road) warm(ctx context.Context, g *generator, flows int, limit time.Duration) (f figure, err error) {
	if err := r.room(flows); err != nil {
		return f, err
	}
	if err := r.use("back"); err != nil {
		return f, err
	}
	answered := false
	for began := time.Now(); ; {
		if f, err = r.packets(g, flows, 0); err != nil {
			return f, err
		}
		answered = answered || f.Back >= full*f.Sent || !r.nat && f.Count >= full*f.Sent
		switch {
		case time.Since(began) > limit:
			return f, nil
		case !answered:
			continue // neighbours are asked for
		case !r.fast:
			return f, nil
		case f.fast() >= full:
			return f, nil
		}
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// room says whether conntrack has it for so many flows. Its size is the machine's: no lab can change it.
func (r *road) room(flows int) error {
	if !r.tracks {
		return nil
	}
	const file = "/proc/sys/net/netfilter/nf_conntrack_max"
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if flows >= most {
		return fmt.Errorf("%d flows want more than the %d of net.netfilter.nf_conntrack_max, which is the machine's to set", flows, most)
	}
	return nil
}
