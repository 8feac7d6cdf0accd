package blocklist

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"weir/internal/state"
	"weir/internal/worker"
)

// Worker keeps the lists as a child of the gateway. It takes Config messages and
// sends Report messages.
var Worker = worker.Kind{Name: "blocklist", Run: run}

// ownResolver is the gateway's resolver.
const ownResolver = "127.0.0.1:53"

func run(ctx context.Context, c *worker.Conn, log *slog.Logger) error {
	http := client(ownResolver)
	k := &keeper{fetch: func(ctx context.Context, url, file string, old validators) (validators, bool, error) {
		return fetch(ctx, http, url, file, old)
	}}
	return worker.Obey(ctx, c, func(ctx context.Context, orders <-chan worker.Order[Config]) error {
		return k.serve(ctx, orders, func(r Report) { _ = c.Send(r) }, log) // a failure ends the connection, and with it us
	})
}

// serve keeps the lists of the configurations that come. A new one ends a fetch
// that is under way.
func (k *keeper) serve(ctx context.Context, orders <-chan worker.Order[Config], report func(Report), log *slog.Logger) error {
	done := make(chan bool)
	timer := time.NewTimer(0)
	timer.Stop()
	var stop context.CancelFunc = func() {}
	working := false
	last := []State{}
	begin := func(now state.Clock) {
		var w context.Context
		w, stop = context.WithCancel(ctx)
		working = true
		go func() { done <- k.work(w, now) }()
	}
	defer func() {
		if stop(); working {
			<-done
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-orders:
			worker.Message{Files: o.Files}.Close()
			if stop(); working {
				<-done
				working = false
			}
			now, err := state.ReadClock()
			if err != nil {
				return err
			}
			if err := k.take(o.Value, now); err != nil {
				return err
			}
			// What is kept is in force before anything is fetched.
			for i := range k.c.Lists {
				k.make(i, now.Wall)
			}
			last = k.told(last, report, log)
			begin(now)
		case <-timer.C:
			now, err := state.ReadClock()
			if err != nil {
				return err
			}
			begin(now)
		case changed := <-done:
			stop()
			working = false
			last = k.told(last, report, log)
			if changed {
				debug.FreeOSMemory() // a list takes a lot of room while it is made, and the next one comes tomorrow
			}
			up, err := state.Uptime()
			if err != nil {
				return err
			}
			timer.Reset(k.next(up))
		}
	}
}

// told reports how the lists stand, if that is news, and logs what went wrong.
func (k *keeper) told(last []State, report func(Report), log *slog.Logger) []State {
	if slices.Equal(last, k.states) {
		return last
	}
	for _, s := range k.states {
		i := slices.IndexFunc(last, func(o State) bool { return o.Name == s.Name })
		switch {
		case s.Err != "" && (i < 0 || last[i].Err != s.Err):
			log.Warn("a block list could not be renewed; what was had of it before stays in force", "list", s.Name, "err", s.Err, "names", s.Names)
		case i < 0 || last[i].Version != s.Version || last[i].Err != "" && s.Err == "":
			log.Info("a block list is in force", "list", s.Name, "names", s.Names, "updated", s.Updated)
		}
	}
	report(Report{Lists: slices.Clone(k.states)})
	return slices.Clone(k.states)
}
