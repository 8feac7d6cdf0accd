package named

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	weirdns "weir/internal/dns"
	"weir/internal/foreign"
)

// readyWithin is what named takes at most. It is ready when all zones are loaded, which with
// large journals after a kill takes a while on a slow disk.
const readyWithin = 30 * time.Second

// What named says of itself (bin/named/server.c).
const (
	saysRunning  = "running"
	saysReloaded = "reloading configuration succeeded"
	saysRefused  = "reloading configuration failed"
)

// process is a running named.
type process struct {
	*foreign.Process
	says  chan string // what it says of its state
	asked *weirdns.Recorder

	forwarders atomic.Pointer[[]Forwarder]
	suspects   chan Forwarder // that it had no answer of
}

// start starts named.
func start(c Config, asked *weirdns.Recorder, log *slog.Logger) (*process, error) {
	p := &process{says: make(chan string, 64), asked: asked, suspects: make(chan Forwarder, 16)}
	p.forwards(c)
	var err error
	p.Process, err = foreign.Start(foreign.Command{
		Path: c.Program.Path,
		// -L: what it says before it has read its configuration, or that it can't.
		Args: []string{"-f", "-L", "/dev/stderr", "-c", filepath.Join(c.Dir, confFile)},
		UID:  c.Program.UID, GID: c.Program.GID, Caps: []uintptr{unix.CAP_NET_BIND_SERVICE},
		Listen: func(r io.Reader) string { return p.listen(r, log) },
	})
	return p, err
}

// forwards has the process know whom it forwards to.
func (p *process) forwards(c Config) {
	of := forwarders(c)
	p.forwarders.Store(&of)
}

// dated is how a line begins that it says before it has its configuration.
var dated = regexp.MustCompile(`^\d\d-[A-Z][a-z][a-z]-\d{4} [0-9:.]+ `)

// awaited says whether somebody may wait for a line. What else is said comes in
// bursts, which would leave no room for it.
func awaited(text string) bool {
	return text == saysRunning || text == saysReloaded || strings.HasPrefix(text, saysRefused)
}

// listen passes on what named says until it ends, and returns the last complaint.
// "category: severity: text" are its lines.
func (p *process) listen(from io.Reader, log *slog.Logger) (last string) {
	said := map[string]time.Time{}
	withheld := complaints{}
	sc := bufio.NewScanner(from)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := dated.ReplaceAllString(sc.Text(), "")
		category, rest, _ := strings.Cut(line, ": ")
		severity, text, ok := strings.Cut(rest, ": ")
		if !ok {
			severity, text = "error", line // not from its log: the linker's or the memory manager's
		}
		if category == "general" && awaited(text) {
			select {
			case p.says <- text:
			default: // nobody waits for anything
			}
		}
		if category == "queries" || category == "rpz" {
			if a, ok := question(text); ok {
				p.asked.Add(a)
				continue
			}
		}
		if category == "lame-servers" || category == "serve-stale" {
			for _, f := range suspects(*p.forwarders.Load(), text) {
				select {
				case p.suspects <- f:
				default: // it will be complained of again
				}
			}
			continue
		}
		if category == "resolver" && withheld.told(log, text) {
			continue
		}
		level := slog.LevelDebug
		switch severity {
		case "notice":
			if category != "general" {
				level = slog.LevelInfo
			}
		case "warning":
			switch level = slog.LevelWarn; {
			case strings.HasPrefix(text, "managed-keys-zone"):
				level = slog.LevelInfo // that no line works yet, and each new anchor
			case strings.HasPrefix(text, "checkhints: "):
				level = slog.LevelDebug // the root's servers move now and then, and it goes on by those of today
			}
		case "error", "critical":
			if level = slog.LevelError; !strings.HasPrefix(text, "exiting") {
				last = text
			}
		}
		if at, ok := said[text]; ok && time.Since(at) < 10*time.Minute {
			continue // it goes on about the same
		}
		if level > slog.LevelDebug {
			if len(said) > 100 {
				clear(said)
			}
			said[text] = time.Now()
		}
		log.Log(context.Background(), level, "named says", "text", text, "category", category)
	}
	_, _ = io.Copy(io.Discard, from) // a line too long: the rest is of no interest
	return last
}

// ready waits until all zones are loaded.
func (p *process) ready(ctx context.Context) error {
	return p.until(ctx, func(says string) (bool, error) { return says == saysRunning, nil })
}

// reload has named take its files in. The error says that it goes on by the old
// ones. It must be ready: before that SIGHUP ends it.
func (p *process) reload(ctx context.Context) error {
	for len(p.says) > 0 {
		<-p.says
	}
	if err := p.Signal(unix.SIGHUP); err != nil {
		return fmt.Errorf("tell named to reload: %w", err)
	}
	taken := false
	return p.until(ctx, func(says string) (bool, error) {
		if strings.HasPrefix(says, saysRefused) {
			return true, errors.New("named goes on by the configuration before: " + says)
		}
		taken = taken || says == saysReloaded
		return taken && says == saysRunning, nil
	})
}

// control is where named takes commands, of those that have our key. Nobody but
// the gateway itself reaches it.
var control = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 953)

// record turns the log of questions on or off. A named that runs takes that in by
// a command alone (bin/named/server.c, load_configuration: "querylog" is read first).
func (s *server) record(ctx context.Context, c Config) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	state := map[bool]string{true: "on", false: "off"}[c.Log]
	if err := command(ctx, c, "querylog", state); err != nil {
		return fmt.Errorf("turn named's log of questions %s: %w", state, err)
	}
	s.tells = c.Log
	return nil
}

// command has the named that runs do something at once.
func command(ctx context.Context, c Config, words ...string) error {
	if c.Program.Control == "" {
		return errors.New("rndc is not installed")
	}
	// A file is named, for rndc prefers one of the machine's to a key.
	args := append([]string{"-c", filepath.Join(c.Dir, ownKey+".key"), "-y", ownKey, "-s", control.Addr().String(), "-p", strconv.Itoa(int(control.Port()))}, words...)
	if out, err := exec.CommandContext(ctx, c.Program.Control, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("rndc: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// forget has named look up anew what is below domains that are believed no more:
// what it has of them it took in while they might point into the house.
func (s *server) forget(ctx context.Context, c Config) error {
	now := believed(c)
	var kept []string // to be forgotten, which did not succeed
	var errs error
	for _, d := range s.believed {
		if slices.Contains(now, d) {
			continue
		}
		if err := command(ctx, c, "flushtree", d); err != nil {
			errs = errors.Join(errs, fmt.Errorf("have named forget what it knows of %s: %w", spoken(d), err))
			kept = append(kept, d)
		}
	}
	s.believed = append(now, kept...)
	return errs
}

func (p *process) until(ctx context.Context, done func(string) (bool, error)) error {
	limit := time.NewTimer(readyWithin)
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Exited:
			return p.Err()
		case <-limit.C:
			return fmt.Errorf("named has not loaded its zones after %s", readyWithin)
		case says := <-p.says:
			if ok, err := done(says); ok {
				return err
			}
		}
	}
}
