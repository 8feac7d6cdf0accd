package ra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/sys/unix"

	"weir/internal/worker"
)

// Worker advertises, as a child of the gateway. It takes Config messages and
// sends Report messages.
var Worker = worker.Kind{Name: "ra", Run: run}

func run(ctx context.Context, c *worker.Conn, log *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &work{conn: c, log: log, fail: cancel, lans: map[string]*lan{}}
	for {
		var cfg Config
		files, err := c.Recv(&cfg)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if err := w.configure(ctx, cfg, files); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// work is the worker's LANs.
type work struct {
	conn *worker.Conn
	log  *slog.Logger
	fail func(error)
	lans map[string]*lan // the goroutine of run's only
	gone bool            // it said farewell: what was on its way meanwhile is obeyed no more

	mu      sync.Mutex
	reports map[string]LANReport
	order   []string
}

// lan is a LAN that is advertised on: a goroutine of its own.
type lan struct {
	link  Link
	conn  *conn
	tell  chan LAN
	leave chan struct{} // closed: say farewell first
	end   context.CancelFunc
	done  chan struct{}
}

// configure takes over a configuration and closes its files.
func (w *work) configure(ctx context.Context, cfg Config, files []*os.File) error {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if w.gone {
		return nil
	}
	w.gone = cfg.Farewell
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return fmt.Errorf("read the time since the boot: %w", err)
	}
	keep := map[string]bool{}
	var order []string
	for _, l := range cfg.LANs {
		keep[l.Name] = true
		order = append(order, l.Name)
		old := w.lans[l.Name]
		if l.Passed {
			if len(files) == 0 {
				return fmt.Errorf("LAN %s: its socket did not come with the message", l.Name)
			}
			c, err := newConn(l.Link, files[0])
			if err != nil {
				return err
			}
			files[0].Close()
			files = files[1:]
			if old != nil { // its link was made anew: whoever is on it hears of us from the new one
				old.end()
				<-old.done
			}
			old = w.start(ctx, l, c)
			w.lans[l.Name] = old
		}
		if old == nil {
			return fmt.Errorf("LAN %s is to be advertised on, and its socket was never passed", l.Name)
		}
		for i := range l.Limits {
			l.Limits[i].Preferred -= time.Duration(up.Nano())
			l.Limits[i].Valid -= time.Duration(up.Nano())
		}
		for i := range l.Routes {
			if r := &l.Routes[i]; r.Until != 0 {
				r.Until = max(r.Until-time.Duration(up.Nano()), 1)
			}
		}
		select {
		case old.tell <- l:
		case <-old.done:
		}
	}
	for name, old := range w.lans {
		if !keep[name] || cfg.Farewell {
			close(old.leave)
			<-old.done
			delete(w.lans, name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order = order
	return w.sendLocked(cfg.Farewell)
}

// report takes a LAN's news and tells the parent.
func (w *work) report(r LANReport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reports == nil {
		w.reports = map[string]LANReport{}
	}
	w.reports[r.Name] = r
	if err := w.sendLocked(false); err != nil {
		w.fail(err)
	}
}

func (w *work) sendLocked(said bool) error {
	r := Report{Said: said}
	for _, name := range w.order {
		if l, ok := w.reports[name]; ok {
			r.LANs = append(r.LANs, l)
		}
	}
	return w.conn.Send(r)
}

// start starts a LAN's goroutine.
func (w *work) start(ctx context.Context, cfg LAN, c *conn) *lan {
	ctx, cancel := context.WithCancel(ctx)
	l := &lan{link: cfg.Link, conn: c, tell: make(chan LAN), leave: make(chan struct{}), end: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer cancel()
		l.run(ctx, w, cfg.Name)
	}()
	return l
}

// run advertises until ctx ends or the LAN is left.
func (l *lan) run(ctx context.Context, w *work, name string) {
	log := w.log.With("lan", name)
	var reading sync.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.conn.ip.Close()
	in := make(chan received)
	reading.Go(func() {
		if err := l.conn.read(ctx, in); err != nil {
			w.fail(err)
		}
	})
	e := NewEngine(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	r := LANReport{Name: name}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if at, ok := e.Next(); ok {
			timer.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case cfg := <-l.tell:
			e.Configure(time.Now(), cfg)
			continue
		case m := <-in:
			switch msg := m.msg.(type) {
			case *ndp.RouterSolicitation:
				e.Solicited(time.Now(), m.from)
				continue
			case *ndp.RouterAdvertisement:
				o, news := e.Heard(time.Now(), m.from, msg)
				if !news {
					continue
				}
				if o.Lifetime > 0 {
					log.Warn("another router offers itself on this LAN", "addr", o.Addr, "lifetime", o.Lifetime.String(), "prefix", o.Prefixes)
				} else {
					log.Info("another device advertises on this LAN", "addr", o.Addr, "prefix", o.Prefixes)
				}
			}
		case <-l.leave:
			if err := l.conn.send(e.Farewell(time.Now())); err != nil {
				log.Debug("farewell not sent", "err", err)
			}
			return
		case now := <-timer.C:
			trouble := ""
			for _, s := range e.Tick(now) {
				err := l.conn.send(s)
				if err == nil {
					continue
				}
				trouble = err.Error()
				if s.To == allNodes() {
					e.NotSent(now)
				}
				log.Debug("advertisement not sent", "addr", s.To, "err", err)
			}
			if trouble == "" && e.Last().Equal(r.Sent) || trouble != "" && trouble == r.Trouble {
				continue
			}
			if trouble == "" {
				r.Sent = e.Last()
			}
			r.Trouble = trouble
		}
		r.Others = e.Others(time.Now())
		w.report(r)
	}
}
