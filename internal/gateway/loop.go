package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/failover"
	"weir/internal/kernel"
)

// The pace of the loop.
const (
	carrierEvery = 50 * time.Millisecond // see architecture.md, section 2: netlink tells of a carrier once a second at most
	lookEvery    = time.Second           // the kernel is compared with the file at least this often
	settleFor    = 20 * time.Millisecond // kernel events come in crowds: a turn waits for the crowd
	firstRetry   = time.Second           // a failed turn is tried again, then twice as late
	maxRetry     = 30 * time.Second
)

// daemon is a running gateway. Only the loop's goroutine touches it, but for the
// parts that say otherwise.
type daemon struct {
	o       Options
	log     *slog.Logger
	started time.Time
	k       *kernel.Kernel

	cfg   *config.Config
	force force
	world world
	notes []string // of the start

	machine  *failover.Machine
	adopted  bool             // machine knows what the kernel had in force at the start
	nextTick time.Time        // when machine wants to be asked again; zero: no need
	probes   []failover.Probe // to be sent once the turn is done

	dirty time.Time // when a turn is wanted; zero: none
	retry time.Duration
	turns api.Turn
	ready bool // the first turn is done, and systemd knows
	ended bool // taken down
	news  bool // the status may be another one

	posts chan func() // any goroutine may send

	mu      sync.Mutex // guards what is below, for the API
	shown   api.Status
	inForce []api.Source
	changed chan struct{}
}

func newDaemon(o Options) *daemon {
	return &daemon{
		o: o, log: o.Log, started: time.Now(),
		posts:   make(chan func(), 64),
		changed: make(chan struct{}),
	}
}

func (d *daemon) close() {
	if err := d.k.Close(); err != nil {
		d.log.Error("close the kernel", "err", err)
	}
}

// post has the loop run f, unless ctx ends before.
func (d *daemon) post(ctx context.Context, f func()) {
	select {
	case d.posts <- f:
	case <-ctx.Done():
	}
}

// call has the loop run f and waits for it.
func call[T any](ctx context.Context, d *daemon, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	d.post(ctx, func() {
		v, err := f()
		done <- result{v, err}
	})
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("weir is ending: %w", ctx.Err())
	}
}

// wantTurn asks for a turn within the given time.
func (d *daemon) wantTurn(within time.Duration) {
	if at := time.Now().Add(within); d.dirty.IsZero() || at.Before(d.dirty) {
		d.dirty = at
	}
}

// loop runs until ctx ends or the gateway is taken down.
func (d *daemon) loop(ctx context.Context) error {
	if err := d.settleHouse(); err != nil {
		return err
	}
	carrier := time.NewTicker(carrierEvery)
	defer carrier.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	wake := time.NewTimer(0)
	defer wake.Stop()
	d.machine = failover.New(failoverConfig(d.cfg), time.Now())
	d.wantTurn(0)
	d.log.Info("weir starts", "version", d.o.Version, "gateway", d.cfg.Gateway.Name, "file", d.force.Current.From)
	for !d.ended {
		wake.Stop()
		if at := earlier(d.dirty, d.nextTick); !at.IsZero() {
			wake.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			d.log.Info("weir ends; the kernel goes on forwarding")
			d.tell("STOPPING=1")
			return nil
		case <-look.C:
			d.kernelEvent()
		case f := <-d.posts:
			f()
			d.drain()
			d.news = true
		case <-carrier.C:
			d.pollCarrier()
		case <-wake.C:
		}
		d.judge(time.Now())
		if !d.dirty.IsZero() && !d.dirty.After(time.Now()) {
			d.dirty = time.Time{}
			d.turn(ctx)
			d.news = true
		}
		d.sendProbes()
		if d.news {
			d.publish()
			d.news = false
		}
	}
	d.tell("STOPPING=1")
	return nil
}

// earlier is the earlier of two times, of which the zero ones don't count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// drain runs what else was posted, so that one turn takes in all of it.
func (d *daemon) drain() {
	for {
		select {
		case f := <-d.posts:
			f()
		default:
			return
		}
	}
}

// kernelEvent takes in that something in the kernel changed. What a failing turn
// stirs up itself does not hasten the next.
func (d *daemon) kernelEvent() {
	if d.retry == 0 {
		d.wantTurn(settleFor)
	}
}

// settleHouse gives the house what d.cfg needs and it lacks, and keeps it.
func (d *daemon) settleHouse() error {
	h, err := settle(d.world.house, d.cfg, rand.Reader)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(h, d.world.house) {
		return nil
	}
	d.world.house = h
	return d.keep(houseFile, h)
}

// tell tells the service manager, if there is one.
func (d *daemon) tell(lines ...string) {
	if err := notify(os.Getenv("NOTIFY_SOCKET"), lines...); err != nil {
		d.log.Warn("the service manager was not told", "err", err)
	}
}
