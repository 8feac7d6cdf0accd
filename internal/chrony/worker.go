package chrony

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"weir/internal/durable"
	"weir/internal/foreign"
	"weir/internal/state"
	"weir/internal/worker"
)

// Worker is chronyd with who looks after it, as a child of the gateway. It takes
// Config messages and sends Report messages. When chronyd ends, it does: the
// parent starts both again, later each time.
var Worker = worker.Kind{Name: "chrony", Run: run}

// The pace of the worker. What matters chronyd says itself, and is asked at once.
const (
	lookEvery  = time.Minute     // for the offset, and who does not answer
	lookSoon   = 4 * time.Second // until the time is known
	againAfter = 2 * time.Second // what chronyd could not be told is tried again
	readyIn    = 10 * time.Second
)

func run(ctx context.Context, c *worker.Conn, log *slog.Logger) error {
	return worker.Obey(ctx, c, func(ctx context.Context, orders <-chan worker.Order[Config]) error {
		return serve(ctx, orders, func(r Report) { _ = c.Send(r) }, log) // a failure ends the connection, and with it us
	})
}

// serve runs chronyd by the configurations that come.
func serve(ctx context.Context, orders <-chan worker.Order[Config], report func(Report), log *slog.Logger) error {
	k := &keeper{log: log, report: report, said: make(chan struct{}, 1), look: time.NewTimer(time.Hour), names: newNames(log)}
	defer k.end()
	defer k.look.Stop()
	defer k.names.ask.Stop()
	for {
		var gone chan struct{}
		if k.proc != nil {
			gone = k.proc.Exited
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-gone:
			return k.proc.Err()
		case o := <-orders:
			worker.Message{Files: o.Files}.Close()
			if err := k.take(ctx, o.Value); err != nil {
				return err
			}
		case <-k.said:
			k.tell(ctx)
		case <-k.look.C:
			if k.err != nil {
				if err := k.take(ctx, k.want); err != nil {
					return err
				}
			}
			k.tell(ctx)
		case <-k.names.ask.C:
			up, err := state.Uptime()
			if err != nil {
				return err
			}
			k.names.lookUp(ctx, k.c, up)
		case a := <-k.names.found:
			up, err := state.Uptime()
			if err != nil {
				return err
			}
			if k.names.take(k.c, a, up) {
				k.addressed(ctx)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// keeper is a chronyd and what is known of it.
type keeper struct {
	log    *slog.Logger
	report func(Report)

	want, c Config // what is wanted, and what chronyd has
	set     bool   // in c: the clock was set before
	err     error  // why c is not want
	proc    *foreign.Process
	words   *words
	said    chan struct{} // chronyd said something
	look    *time.Timer
	names   *names
	hosts   string              // the file's text
	slowed  map[netip.Addr]bool // sources that are asked seldom by now
	last    Report
}

// take brings chronyd to a configuration. The error is of a chronyd that can't be
// started.
func (k *keeper) take(ctx context.Context, c Config) error {
	k.want = c
	_, err := os.Stat(filepath.Join(c.Run, setFile))
	set := err == nil
	if k.proc == nil || Conf(k.c.bare(), k.set) != Conf(c.bare(), k.set) || k.c.Program != c.Program {
		k.end()
		k.c, k.set = c, set
		if err := k.start(ctx); err != nil {
			return err
		}
		k.tell(ctx)
		return nil
	}
	old := k.c
	var commands []string
	for _, p := range old.allowed() {
		if !slices.Contains(c.allowed(), p) {
			commands = append(commands, "deny "+p.String())
		}
	}
	for _, p := range c.allowed() {
		if !slices.Contains(old.allowed(), p) {
			commands = append(commands, "allow "+p.String())
		}
	}
	k.c = c
	if k.putHosts() {
		commands = append(commands, "refresh")
	}
	switch {
	case c.Way == "" || c.Way == old.Way:
	case old.Way == "":
		commands = append(commands, "online")
		k.names.soon()
	default:
		// By the new way at once, not in a minute or, once the clock is well, in a quarter
		// of an hour: what the old one owed would be found out then.
		commands = append(commands, "burst 2/8")
		k.names.soon()
	}
	k.err = nil
	if len(commands) > 0 {
		if _, err := controlOf(c).do(ctx, commands...); err != nil {
			k.c, k.err = old, err // they are worked out again
			k.log.Error("chronyd could not be told what changed", "err", err, "again_in", againAfter)
		}
	}
	k.tell(ctx)
	return nil
}

// start starts chronyd and waits until it answers.
func (k *keeper) start(ctx context.Context) error {
	c, p := k.c, k.c.Program
	if p.UID != 0 {
		for _, dir := range []string{c.Dir, c.Run} {
			if err := foreign.Passage(dir, "chronyd", daemonUser); err != nil {
				return err
			}
		}
	}
	err := errors.Join(
		foreign.Folder(c.Dir, 0o750, 0, p.GID),
		foreign.Folder(filepath.Join(c.Dir, workDir), 0o750, p.UID, p.GID),
		foreign.Folder(c.Run, 0o750, p.UID, p.GID),
	)
	if err != nil {
		return err
	}
	// Of one that was killed: whoever has its number now would be taken for it.
	if err := os.Remove(filepath.Join(c.Run, pidFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("start chronyd: %w", err)
	}
	conf, hosts := filepath.Join(c.Dir, confFile), filepath.Join(c.Dir, hostsFile)
	if err := durable.Machine.Put(conf, []byte(Conf(c, k.set)), durable.As{Mode: 0o640, GID: p.GID}); err != nil {
		return err
	}
	k.names.load(c)
	k.hosts = Hosts(c, k.names.known)
	if err := durable.Machine.Put(hosts, []byte(k.hosts), durable.As{Mode: 0o644, GID: p.GID}); err != nil {
		return err
	}
	k.words = &words{log: k.log, heard: func() {
		select {
		case k.said <- struct{}{}:
		default:
		}
	}}
	k.proc, err = foreign.Start(command(c, conf, hosts, k.words))
	if err != nil {
		return err
	}
	k.slowed = map[netip.Addr]bool{}
	k.names.soon()
	limit := time.NewTimer(readyIn)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		begin := "tracking"
		if c.Way != "" {
			begin = "online"
		}
		if _, err = controlOf(c).do(ctx, begin); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.proc.Exited:
			return k.proc.Err()
		case <-limit.C:
			return fmt.Errorf("chronyd does not answer after %s: %w", readyIn, err)
		case <-tick.C:
		}
	}
}

// command is how chronyd is started. -U: it is not root and has what it needs.
func command(c Config, conf, hosts string, w *words) foreign.Command {
	cmd := foreign.Command{
		Path: c.Program.Path, Args: []string{"-d", "-F", "1", "-f", conf},
		UID: c.Program.UID, GID: c.Program.GID, Caps: []uintptr{foreign.BindCap}, Hosts: hosts, Listen: w.listen,
	}
	if c.Program.UID != 0 {
		cmd.Args = append(cmd.Args, "-U", "-u", daemonUser)
	} else {
		cmd.Args = append(cmd.Args, "-u", "root")
	}
	if c.Steer {
		cmd.Caps = append(cmd.Caps, foreign.TimeCap)
	} else {
		cmd.Args = append(cmd.Args, "-x")
	}
	return cmd
}

// putHosts brings the file of addresses up to date, and says whether it was not.
// It is written in place: chronyd sees this very file.
func (k *keeper) putHosts() bool {
	text := Hosts(k.c, k.names.known)
	if text == k.hosts {
		return false
	}
	if err := os.WriteFile(filepath.Join(k.c.Dir, hostsFile), []byte(text), 0o644); err != nil { //nolint:gosec // no secret
		k.log.Error("chronyd goes on by the addresses that it has", "err", err)
		return false
	}
	k.hosts = text
	return true
}

// addressed has chronyd take the servers' addresses that were found.
func (k *keeper) addressed(ctx context.Context) {
	if k.proc == nil || !k.putHosts() {
		return
	}
	if _, err := controlOf(k.c).do(ctx, "refresh"); err != nil {
		k.log.Warn("chronyd did not take new addresses of its servers", "err", err)
	}
}

// tell asks chronyd how it is doing and reports that.
func (k *keeper) tell(ctx context.Context) {
	if k.proc == nil {
		return
	}
	r, err := controlOf(k.c).look(ctx)
	next := lookEvery
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		k.log.Warn("chronyd does not say how it is doing", "err", err)
		r = k.last
		r.Err = err.Error()
	default:
		r.Ready, r.PID = true, k.proc.PID
		r.Source = k.named(r.Addr)
		for i := range r.Sources {
			if s := &r.Sources[i]; s.Name == "" {
				s.Name = k.named(s.Addr)
			}
		}
		r.Err = k.words.trouble()
	}
	if k.err != nil {
		r.Err, next = k.err.Error(), againAfter
	}
	if r.Synced {
		k.settle(ctx, r)
	} else {
		next = min(next, lookSoon)
	}
	k.look.Reset(next)
	if !reflect.DeepEqual(r, k.last) {
		k.last = r
		k.report(r)
	}
}

// named is what a server is called whose address is a.
func (k *keeper) named(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	for _, name := range k.c.names() {
		if slices.Contains(k.names.known[name], a) || slices.Contains(builtIn[name], a) {
			return name
		}
	}
	return a.String()
}

// settle is done once the time is known: servers of our choice are asked once a
// minute then, and more seldom as the clock is found to be good.
func (k *keeper) settle(ctx context.Context, r Report) {
	if k.c.Steer {
		if f, err := os.OpenFile(filepath.Join(k.c.Run, setFile), os.O_CREATE, 0o644); err != nil { //nolint:gosec // it is empty
			k.log.Warn("the clock might be stepped again when chronyd is started again", "err", err)
		} else {
			f.Close()
		}
	}
	if _, ours := k.c.servers(); !ours {
		return
	}
	var commands []string
	for _, s := range r.Sources {
		if s.Addr.IsValid() && !k.slowed[s.Addr] {
			commands = append(commands, "minpoll "+s.Addr.String()+" 6")
		}
	}
	if len(commands) == 0 {
		return
	}
	if _, err := controlOf(k.c).do(ctx, commands...); err != nil {
		k.log.Warn("time servers go on being asked often", "err", err)
		return
	}
	for _, s := range r.Sources {
		k.slowed[s.Addr] = true
	}
}

// end ends chronyd, if there is one.
func (k *keeper) end() {
	if k.proc != nil {
		k.proc.End()
		k.proc = nil
	}
}
