package fastpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// A Keeper gives the program its flows, and keeps conntrack and the program true to each
// other: what is carried has an entry in conntrack, always. It hears of a flow when it
// has lived for some packets (bpf/flow.c), and reads that one entry; no event of
// conntrack is subscribed to, for to hear of each flow costs a third of the rate of new
// connections.
//
// It carries nothing until the first Resume. What a keeper before it knew is void: its
// flows are learnt anew, so there is nothing to take over.
type Keeper struct {
	flows *Flows
	edge  *edge
	log   *slog.Logger
	ring  *ringbuf.Reader

	mu   sync.Mutex // of the gate, and what follows
	now  *era
	last uint32        // generation
	beat time.Duration // when the program was told that somebody looks after the flows

	// Of Run's goroutine.
	of     *era // that ways are of
	ways   map[wayKey]*kept
	hops   map[Hop]uint16
	told   map[string]bool // errors
	sweeps int             // so far
}

// An era is a generation of flows, and the ports that they are between. The zero
// generation is none: the gate is shut.
type era struct {
	generation uint32
	ports      []Port
}

func (e *era) port(index int) (Port, bool) {
	i := slices.IndexFunc(e.ports, func(p Port) bool { return p.Index == index })
	if i < 0 {
		return Port{}, false
	}
	return e.ports[i], true
}

// wayKey is what the program knows a way by.
type wayKey struct {
	from int
	in   Tuple
}

func (w Way) at() wayKey { return wayKey{w.From, w.In} }

// NewKeeper keeps f, which it closes in the end, and shuts its gate. It works in the main
// namespace.
func NewKeeper(f *Flows, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{flows: f, log: log, now: &era{}, of: &era{}, ways: map[wayKey]*kept{}, hops: map[Hop]uint16{}, told: map[string]bool{}}
	err := f.Current(0, 0)
	if err == nil {
		k.ring, err = ringbuf.NewReader(f.objs.Living)
	}
	if err == nil {
		err = netns.Do("", func() (err error) {
			k.edge, err = openEdge()
			return err
		})
	}
	if err == nil {
		err = k.void()
	}
	if err != nil {
		k.Close()
		return nil, fmt.Errorf("keep the flows of the fast path: %w", err)
	}
	return k, nil
}

// Close lets go of the flows, whose program goes on for as long as its patience lasts.
// Run has returned, or was never called.
func (k *Keeper) Close() {
	if k.ring != nil {
		k.ring.Close()
	}
	if k.edge != nil {
		k.edge.close()
	}
	k.flows.Close()
}

// Pause has all packets go by main, from the next one on. Whatever changes in what main
// does with packets is changed under it.
func (k *Keeper) Pause() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = &era{ports: k.now.ports}
	return k.flows.Current(0, 0)
}

// Resume has flows carried again between ports, by what main does with their packets from
// now on. Nothing of before is: not what was carried, nor what was judged a moment ago.
func (k *Keeper) Resume(ports []Port) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last++
	k.now = &era{generation: k.last, ports: slices.Clone(ports)}
	return k.beats()
}

// Ports are those that flows are carried between; ok is false while none are.
func (k *Keeper) Ports() (ports []Port, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now.ports, k.now.generation != 0
}

// Came is Flows.Came.
func (k *Keeper) Came(line uint8, v6 bool) (uint64, error) { return k.flows.Came(line, v6) }

// beats says that the flows are looked after. mu is held.
func (k *Keeper) beats() (err error) {
	if k.beat, err = uptime(); err != nil {
		return err
	}
	return k.flows.Current(k.now.generation, k.beat)
}

// Run looks after the flows until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = k.ring.Flush() })()
	var rec ringbuf.Record
	next := time.Now()
	for ctx.Err() == nil {
		if !time.Now().Before(next) {
			begin := time.Now()
			k.fails("sweep the flows", k.sweep())
			every := pace(time.Since(begin))
			if len(k.ways) == 0 {
				every = beatEvery
			}
			next = time.Now().Add(every)
		}
		k.ring.SetDeadline(next)
		err := k.ring.ReadInto(&rec)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, ringbuf.ErrFlushed):
		case errors.Is(err, ringbuf.ErrClosed):
			return
		case err != nil:
			k.fails("hear of flows", err)
			select { // rather than to ask on and on
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		default:
			from, in, ok := keyed(rec.RawSample)
			if !ok {
				continue
			}
			why, err := k.learn(from, in)
			k.fails("carry flows", err)
			if why != "" {
				k.log.Debug("a flow stays with main", "from", in.Src, "to", in.Dst, "why", why)
			}
			if len(k.ways) == 2 {
				next = earliest(next, time.Now().Add(sweepEvery))
			}
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// fails tells of an error, once until the same goes well.
func (k *Keeper) fails(what string, err error) {
	if err != nil && !k.told[what] {
		k.log.Warn("the fast path: can't "+what+"; it goes by main", "err", err)
	}
	k.told[what] = err != nil
}

// current returns the era, having ended what was of another one.
func (k *Keeper) current() (*era, error) {
	k.mu.Lock()
	e := k.now
	k.mu.Unlock()
	if e == k.of {
		return e, nil
	}
	// Packets that were let through a moment ago are gone when void returns: hops
	// may be others then. Where there is no way, none was.
	if len(k.ways) > 0 {
		if err := k.void(); err != nil {
			return nil, err
		}
	}
	k.of = e
	clear(k.hops)
	return e, nil
}

// void drops all entries.
func (k *Keeper) void() error {
	var all []Way
	for e, err := range k.flows.All() {
		if err != nil {
			return err
		}
		all = append(all, e.Way)
	}
	if err := k.flows.Drop(all); err != nil {
		return err
	}
	clear(k.ways)
	return nil
}

// learn has the program carry a flow of which a packet came in by a link; or it says why
// main is to keep it.
func (k *Keeper) learn(from int, in Tuple) (why string, err error) {
	e, err := k.current()
	if err != nil {
		return "", err
	}
	port, ok := e.port(from)
	if e.generation == 0 || !ok {
		return "the gate is shut", nil
	}
	// Who is busy has heard of it twice before it is carried: by each direction, and as
	// its packets doubled.
	if had := k.ways[wayKey{from, in}]; had != nil {
		if carried, err := k.flows.carry(had.ways[:], e.generation); err != nil || carried {
			return "", err
		}
	}
	c, there, err := k.edge.get(in, port.zone())
	if err != nil || !there {
		return "conntrack does not know it", err
	}
	ways, why, err := k.judge(e, port, in, c)
	if err != nil || why != "" {
		return why, err
	}
	now, err := uptime()
	if err != nil {
		return "", err
	}
	f := &kept{entry: c, ways: ways, checked: now, last: now}
	if there, err = k.edge.hold(c, k.edge.timers.left(f, now)); err != nil || !there {
		return "conntrack does not know it any more", err
	}
	if err := k.drop(k.ways[ways[0].at()], k.ways[ways[1].at()]); err != nil {
		return "", err
	}
	for i, w := range ways {
		if err := k.flows.Put(w, e.generation); err != nil {
			err2 := k.flows.Drop(ways[:i])
			if errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM) {
				return "there is no room for more", err2
			}
			return "", errors.Join(err, err2)
		}
	}
	k.ways[ways[0].at()], k.ways[ways[1].at()] = f, f
	return "", nil
}

// judge makes the ways of an entry, a packet of which came in by a port.
func (k *Keeper) judge(e *era, port Port, in Tuple, c conntrack.Flow) (ways [2]Way, why string, err error) {
	// Before anything is asked.
	if _, why := Ways(c, Side{Link: 1}, Side{Link: 2}); why != "" {
		return ways, why, nil
	}
	o := c.TupleOrig
	reply := in.Src.Addr() != o.IP.SourceAddress.Unmap() || in.Src.Port() != o.Proto.SourcePort ||
		in.Dst.Addr() != o.IP.DestinationAddress.Unmap() || in.Dst.Port() != o.Proto.DestinationPort
	there, err := k.edge.route(asked(c, reply, port))
	if err != nil {
		return ways, "", err
	}
	other, ok := e.port(there.link)
	if !ok {
		return ways, "it is the gateway's own, or leaves by no port of weir's", nil
	}
	back, err := k.edge.route(asked(c, !reply, other))
	if err != nil {
		return ways, "", err
	}
	if back.link != port.Index {
		return ways, "its answers go another way", nil
	}
	near, far, toNear, toFar := port, other, back, there
	if reply {
		near, far, toNear, toFar = other, port, there, back
	}
	if why := sided(c, near, far); why != "" {
		return ways, why, nil
	}
	hopNear, err := k.hop(near, toNear)
	if err != nil {
		return ways, "", err
	}
	hopFar, err := k.hop(far, toFar)
	if err != nil {
		return ways, "", err
	}
	if hopNear == 0 || hopFar == 0 {
		return ways, "there is no room for more next hops", nil
	}
	ways, why = Ways(c, Side{Link: near.Index, Hop: hopNear, Line: near.Line}, Side{Link: far.Index, Hop: hopFar, Line: far.Line})
	return ways, why, nil
}

// maxHops is HOPS; index 0 is no hop of the keeper's.
const maxHops = 1024

// hop is the index of where a port leads to by a route; 0 if there is no room.
func (k *Keeper) hop(p Port, a answer) (uint16, error) {
	h := Hop{Link: p.Index, MTU: p.MTU, Via: a.via}
	if a.mtu > 0 && a.mtu < h.MTU {
		h.MTU = a.mtu
	}
	if p.Line != 0 {
		h.Near, h.Far = p.MAC, p.Far
		h.Via = answer{}.via // the other end of the cable
	}
	if i := k.hops[h]; i != 0 {
		return i, nil
	}
	i := uint16(len(k.hops) + 1)
	if i >= maxHops {
		return 0, nil
	}
	if err := k.flows.SetHop(i, h); err != nil {
		return 0, err
	}
	k.hops[h] = i
	return i, nil
}

// drop leaves flows to main; nil is none.
func (k *Keeper) drop(flows ...*kept) error {
	var ways []Way
	for _, f := range flows {
		if f != nil {
			ways = append(ways, f.ways[:]...)
		}
	}
	if len(ways) == 0 {
		return nil
	}
	for _, w := range ways {
		delete(k.ways, w.at())
	}
	return k.flows.Drop(ways)
}

// sweep ends what is closed, idle or gone from conntrack, keeps the timers of what goes
// on, and only then says that the flows are looked after.
func (k *Keeper) sweep() error {
	now, err := uptime()
	if err != nil {
		return err
	}
	k.mu.Lock()
	if k.now.generation != 0 && now-k.beat > patience {
		// Nobody looked after the flows, and their entries may have ended.
		k.last++
		k.now = &era{generation: k.last, ports: k.now.ports}
	}
	k.mu.Unlock()
	e, err := k.current()
	if err != nil {
		return err
	}
	k.sweeps++
	var stray []Way
	for x, err := range k.flows.All() {
		if err != nil {
			return err
		}
		if f := k.ways[x.at()]; f != nil {
			f.take(x, k.sweeps)
		} else {
			stray = append(stray, x.Way)
		}
	}
	var over, due []*kept
	for at, f := range k.ways {
		if at != f.ways[0].at() {
			continue // each once
		}
		switch k.edge.timers.fateOf(f, k.sweeps, e.generation, now) {
		case ends:
			over = append(over, f)
		case check:
			due = append(due, f)
		}
	}
	slices.SortFunc(due, func(a, b *kept) int { return cmp.Compare(a.checked, b.checked) })
	var errs error
	for _, f := range due[:min(len(due), max(fewChecks, len(k.ways)/2/spread))] {
		goesOn, err := k.check(e, f, now)
		errs = errors.Join(errs, err)
		if !goesOn {
			over = append(over, f)
		}
	}
	if len(stray) > 0 {
		errs = errors.Join(errs, k.flows.Drop(stray))
	}
	if errs = errors.Join(errs, k.drop(over...)); errs != nil {
		return errs
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.beats()
}

// check looks whether a flow is in conntrack as it was, and has its entry live on. What
// else it was judged by is of the era.
func (k *Keeper) check(e *era, f *kept, now time.Duration) (goesOn bool, err error) {
	port, ok := e.port(f.ways[0].From)
	if !ok {
		return false, nil
	}
	c, there, err := k.edge.get(f.ways[0].In, port.zone())
	if err != nil || !there || c.ID != f.entry.ID {
		return false, err
	}
	if _, why := Ways(c, Side{Link: 1}, Side{Link: 2}); why != "" || (c.Mark^f.entry.Mark)&pinned != 0 {
		return false, nil
	}
	f.checked = now
	if !k.edge.timers.lags(f, c, now) {
		return true, nil
	}
	return k.edge.hold(c, k.edge.timers.left(f, now))
}
