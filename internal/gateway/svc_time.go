package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/chrony"
	"weir/internal/config"
	"weir/internal/durable"
	"weir/internal/foreign"
)

// timeConfig is what chronyd is told, but for what this machine has.
func timeConfig(c *config.Config, w world) chrony.Config {
	st := w.state(c)
	out := chrony.Config{
		Serve: c.Time.Serve, V4: w.use4 != "", V6: w.use6 != "",
		Resolver: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 53),
	}
	if out.V4 || out.V6 {
		out.Way = w.use4 + " " + w.use6
	}
	for _, s := range c.Time.Server {
		out.Servers = append(out.Servers, chrony.Server{Addr: s.Addr, Name: s.Name, NTS: s.NTS})
	}
	if c.Time.Serve {
		for _, l := range c.LANs {
			for _, p := range lanAddresses(c, l, st) {
				out.Allow = append(out.Allow, p.Masked())
			}
			for _, s := range l.DHCP.Subnets { // behind a relay, and told of the time too
				out.Allow = append(out.Allow, s.Prefix)
			}
		}
	}
	return out
}

// keepsTime says whether chronyd is to run here: it is installed, AppArmor lets it,
// and no other program keeps the clock.
func (d *daemon) keepsTime() (chrony.Program, bool) {
	if d.otherClock != "" || foreign.Confined(os.DirFS("/"), "chronyd", d.timeDir()) {
		return chrony.Program{}, false
	}
	p, err := chrony.Find()
	if err != nil && !errors.Is(err, chrony.ErrMissing) {
		d.log.Error("chrony can't be used: nobody keeps the time", "err", err)
	}
	return p, err == nil
}

// servesTime says whether a LAN's clients are told to have the time from the
// gateway.
func (d *daemon) servesTime() bool {
	_, ok := d.keepsTime()
	return ok && d.cfg.Time.Serve
}

// timeNotes is what is to be known about the time on this machine.
func (d *daemon) timeNotes() []string {
	if d.otherClock != "" {
		return []string{fmt.Sprintf("time: %s keeps the clock here, so weir does not, and serves no time: systemctl disable --now that, mask it, and start weir again", d.otherClock)}
	}
	if _, err := chrony.Find(); err != nil {
		return []string{"time: nobody sets the clock, and the LANs are served no time: " + err.Error()}
	}
	if foreign.Confined(os.DirFS("/"), "chronyd", d.timeDir()) {
		return []string{fmt.Sprintf("time: AppArmor keeps chronyd from its files, so nobody sets the clock: write \"%s/** rwk, %s/{,*} rw,\" to /etc/apparmor.d/local/usr.sbin.chronyd, then apparmor_parser -r /etc/apparmor.d/usr.sbin.chronyd", d.timeDir(), d.timeRun())}
	}
	return nil
}

// clockKeepers are other programs that set the clock.
var clockKeepers = []string{"chronyd", "ntpd", "openntpd", "ntpd-rs", "systemd-timesyncd"}

// otherClock is a program in this network that keeps the clock, with its number,
// and is not run on a file in dir; "": there is none.
func otherClock(root fs.FS, dir string) string {
	for p := range foreign.Here(root) {
		name, _, _ := strings.Cut(filepath.Base(p.Args[0]), ": ") // OpenNTPD says what each process is
		if slices.Contains(clockKeepers, name) && !slices.ContainsFunc(p.Args, func(a string) bool { return strings.HasPrefix(a, dir+"/") }) {
			return fmt.Sprintf("%s, pid %d,", name, p.PID)
		}
	}
	return ""
}

// timeDir is where chronyd's files are: a whole path, for it stands in them.
func (d *daemon) timeDir() string { return whole(filepath.Join(d.o.StateDir, "chrony")) }

// timeRun is where its socket is.
func (d *daemon) timeRun() string { return whole(filepath.Join(d.o.RuntimeDir, "chrony")) }

func whole(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// timeKeeper is chronyd and who looks after it.
type timeKeeper struct {
	*service
	state chrony.Report // the loop's

	mu   sync.Mutex
	want chrony.Config

	told chrony.Config
}

// syncTime tells chronyd what it has to know.
func (d *daemon) syncTime(ctx context.Context) {
	p, ok := d.keepsTime()
	if !ok {
		if t := d.time; t != nil { // it was taken off the machine
			d.time = nil
			go t.leave()
		}
		return
	}
	want := timeConfig(d.cfg, d.world)
	want.Program, want.Dir, want.Run = p, d.timeDir(), d.timeRun()
	want.Steer = d.o.SetClock != nil
	first := d.time == nil
	if first {
		d.time = &timeKeeper{}
	}
	t := d.time
	t.mu.Lock()
	t.want = want
	t.mu.Unlock()
	if !first {
		t.wake()
		return
	}
	t.service = d.serve(ctx, duty{
		kind: chrony.Worker, prepare: t.prepare,
		take:    report(func(r chrony.Report) { d.takeTime(t, r) }),
		started: func() { t.state = chrony.Report{} },
	})
}

func (t *timeKeeper) prepare(_ context.Context, fresh bool) (told, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !fresh && reflect.DeepEqual(t.want, t.told) {
		return told{}, nil
	}
	t.told = t.want
	return told{msg: t.want}, nil
}

// takeTime takes the child's word. That the time is known is stored, for a start
// without a clock.
func (d *daemon) takeTime(t *timeKeeper, r chrony.Report) {
	if r.Synced && !t.state.Synced {
		d.log.Info("the time is known", "by", r.Source, "behind", r.Behind)
	}
	var trouble error
	if r.Err != "" {
		trouble = errors.New(r.Err)
	}
	t.setTrouble(trouble)
	t.state = r
	if r.Synced && d.o.SetClock != nil && time.Since(d.timeStored) > storeTimeEvery {
		d.timeStored = time.Now()
		// Elsewhere: the loop does not wait for a disk.
		go func() {
			if err := storeTime(d.o.StateDir, time.Now()); err != nil {
				d.log.Error("the time is not stored, for a start without a clock", "err", err)
			}
		}()
	}
}

// statusTime is the time as the status shows it; nil where nobody keeps it.
func (d *daemon) statusTime() *api.Time {
	if d.time == nil {
		return nil
	}
	r := d.time.state
	a := &api.Time{Synchronised: r.Synced, SetsClock: d.o.SetClock != nil, Served: d.cfg.Time.Serve, Error: r.Err, Sources: []api.TimeSource{}}
	if r.Synced {
		ms := millis(r.Behind)
		a.Source, a.Stratum, a.BehindMS, a.Updated = r.Source, r.Stratum, &ms, r.Updated
		if r.Addr.IsValid() {
			a.Address = r.Addr.String()
		}
	}
	for _, s := range r.Sources {
		v := api.TimeSource{Name: cmp.Or(s.Name, s.Addr.String()), State: string(s.State), Stratum: s.Stratum, Reach: int(s.Reach)}
		if s.Addr.IsValid() {
			v.Address = s.Addr.String()
		}
		if s.Reach != 0 {
			ms := millis(s.Behind)
			v.BehindMS = &ms
		}
		a.Sources = append(a.Sources, v)
	}
	return a
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// storeTimeEvery is how often the time is stored, for a start without a clock: by
// so much it is behind then, at worst, and by how long the machine was off.
const storeTimeEvery = time.Hour

// timeFile has the time in the state directory.
const timeFile = "time.json"

func storeTime(dir string, now time.Time) error {
	return durable.Machine.Keep(filepath.Join(dir, timeFile), now.UTC())
}

// floorClock sets the clock forward to the newest time that is known to be past:
// a machine without a clock chip starts in 1970, or at its last boot. built is when
// the program was made. It returns what is worth a note.
func floorClock(dir string, built, now time.Time, set func(time.Time) error) (note string, err error) {
	if set == nil {
		return "", nil
	}
	var stored time.Time
	err = durable.Machine.Recover(filepath.Join(dir, timeFile), &stored)
	floor := built
	if stored.After(floor) {
		floor = stored
	}
	if !now.Before(floor) {
		return "", err
	}
	if serr := set(floor); serr != nil {
		return "", errors.Join(err, fmt.Errorf("set the clock forward to %s: %w", floor.Format(time.RFC3339), serr))
	}
	return fmt.Sprintf("the clock was at %s, and is set to %s, the newest time that is known to be past", now.UTC().Format(time.RFC3339), floor.UTC().Format(time.RFC3339)), err
}

// BuiltAt is when this program was made: its commit's time or, where none is
// known, its file's.
func BuiltAt() time.Time {
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, s := range bi.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				return t
			}
		}
	}
	if st, err := os.Stat("/proc/self/exe"); err == nil {
		return st.ModTime()
	}
	return time.Time{}
}
