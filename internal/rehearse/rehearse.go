package rehearse

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

// Options say what is rehearsed and how.
type Options struct {
	Files []config.File
	Dir   bool // Files are a folder's
	Only  []string
	Keep  bool // the labs stay until ctx ends

	// Long is the pace of what takes minutes, which is made as well; nil leaves it out.
	Long *Pace

	// Progress is called for each thing that happens, from one goroutine at a
	// time. It may be nil.
	Progress func(Event)

	// Tests only: who breaks something, and the drills that this is to turn red, which
	// need not be so in the middle of three takes.
	Sabotage, Red []string
}

// Event is something that happens in a run.
type Event struct {
	Run     string
	Doing   string   // what it begins, or goes on with
	Step    string   // how far that is; "" unless it takes minutes
	Results []Result // what it has found
	Again   []Result // what exceeded its time, and counts only once it was taken three times
	Kept    int      // the process of a lab that stays
	Ended   bool

	// Takes is about how long all of it will take. It is told first, of no run, and
	// only if that is minutes.
	Takes time.Duration
}

// Report is what a rehearsal found.
type Report struct {
	File   string   `json:"file"`
	OK     bool     `json:"ok"`
	Drills []Result `json:"drills"`
	// Promises are what faults of lines cost, as measured, in the drills' order.
	Promises []Promise     `json:"promises,omitempty"`
	Omitted  []Omission    `json:"omitted"`
	Errors   []string      `json:"errors,omitempty"` // runs that could not be made
	First    float64       `json:"first_packet_s"`   // from the daemon's start to the first packet forwarded, the median of all labs
	Took     time.Duration `json:"took_ns"`
	Site     Picture       `json:"site"`
	Labs     int           `json:"labs"`
}

// Rehearse makes all runs of a file, some side by side, and gathers what they
// found. The error is of what kept it from being made at all; drills that failed
// are in the report.
func Rehearse(ctx context.Context, o Options) (*Report, error) {
	cfg, diags := config.Parse(o.Files...)
	if diags.HasErrors() {
		return nil, errors.New(diags.Format(o.Files))
	}
	start := time.Now()
	g := &gathering{o: o, report: &Report{File: o.Files[0].Name}, results: map[string][]Result{}}
	if err := g.one(ctx, Run{}, nil); err != nil {
		return nil, err
	}
	site, err := NewSite(cfg, g.machine)
	if err != nil {
		return nil, err
	}
	g.report.Omitted, g.report.Site = site.Omitted, site.picture()
	if len(site.Lines) == 0 || len(site.LANs) == 0 {
		// Nothing is left to try; what was left out says why.
		g.report.OK = true
		return g.report, nil
	}
	all := Runs(site, o.Long)
	g.report.Omitted = site.Omitted // what can't be tried with this file is known by now
	with := func(only []string) []Run {
		return slices.DeleteFunc(slices.Clone(all), func(r Run) bool {
			return !slices.ContainsFunc(r.Acts, func(a Act) bool { return a.wanted(r.of(only)) })
		})
	}
	none := slices.DeleteFunc(slices.Clone(o.Only), func(only string) bool { return len(with([]string{only})) > 0 })
	runs := with(o.Only)
	if len(none) > 0 || len(runs) == 0 {
		return nil, &NoSuchDrill{none, drillNames(all)}
	}
	var takes time.Duration
	for _, r := range runs {
		takes = max(takes, r.Takes)
	}
	if takes > 0 {
		g.event(Event{Takes: takes})
	}
	g.all(ctx, runs)
	g.again(ctx, runs)
	if ctx.Err() != nil && !o.Keep {
		return nil, fmt.Errorf("interrupted, and its labs are gone: %w", ctx.Err())
	}
	r := g.finish(runs)
	r.Took = time.Since(start)
	return r, nil
}

func drillNames(runs []Run) []string {
	var out []string
	for _, r := range runs {
		for _, a := range r.Acts {
			out = append(out, a.Drills...)
		}
	}
	return out
}

// gathering is a rehearsal under way.
type gathering struct {
	o       Options
	machine Machine

	mu      sync.Mutex
	report  *Report
	results map[string][]Result // by drill, one of each take
	first   []float64
}

// sideBySide is how many labs are up at once. They mostly wait; what they share is
// the processors, which timings feel.
func sideBySide() int { return 4 * runtime.NumCPU() }

// all makes runs, as many at once as is good.
func (g *gathering) all(ctx context.Context, runs []Run) {
	slots := make(chan struct{}, sideBySide())
	var wg sync.WaitGroup
	for _, r := range runs {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := g.one(ctx, r, g.o.Only); err != nil && ctx.Err() == nil {
				g.mu.Lock()
				g.report.Errors = append(g.report.Errors, fmt.Sprintf("%s: %v", r.Name, err))
				g.mu.Unlock()
			}
			g.event(Event{Run: r.Name, Ended: true})
		})
	}
	wg.Wait()
}

// again takes twice more what failed by a time alone.
func (g *gathering) again(ctx context.Context, runs []Run) {
	for range 2 {
		var wg sync.WaitGroup
		for _, r := range runs {
			var only []string
			g.mu.Lock()
			for drill, takes := range g.results {
				if takes[0].Run == r.Name && g.repeats(r, takes) {
					only = append(only, drill)
				}
			}
			g.mu.Unlock()
			if only == nil || ctx.Err() != nil {
				continue
			}
			wg.Go(func() {
				if err := g.one(ctx, r, only); err != nil && ctx.Err() == nil {
					g.mu.Lock()
					g.report.Errors = append(g.report.Errors, fmt.Sprintf("%s, taken again: %v", r.Name, err))
					g.mu.Unlock()
				}
			})
		}
		wg.Wait()
	}
}

// one makes a run in a lab of its own.
func (g *gathering) one(ctx context.Context, r Run, only []string) error {
	ours, theirs, err := pair()
	if err != nil {
		return err
	}
	defer ours.Close()
	cmd := lab.Command(Arg)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	// The lab dies with the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		theirs.Close()
		return fmt.Errorf("start a lab: %w (it needs network, mount and pid namespaces: as root, or as a user who may make user namespaces)", err)
	}
	theirs.Close()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if r.Name != "" {
		g.mu.Lock()
		g.report.Labs++
		g.mu.Unlock()
	}

	err = json.NewEncoder(ours).Encode(request{Files: g.o.Files, Dir: g.o.Dir, Run: r.Name, Machine: g.machine, Only: only, Keep: g.o.Keep, Long: g.o.Long, Sabotage: g.o.Sabotage})
	var told error
	if err == nil {
		told = g.hear(ours, r, cmd)
	}
	werr := cmd.Wait()
	switch {
	case told != nil:
		return told
	case err != nil:
		return fmt.Errorf("tell the lab what to rehearse: %w", err)
	case werr != nil:
		return fmt.Errorf("the lab's process: %w", werr)
	}
	return nil
}

// hear takes in what a lab says until it ends.
func (g *gathering) hear(conn *os.File, r Run, cmd *exec.Cmd) error {
	dec := json.NewDecoder(bufio.NewReader(conn))
	var told error
	for {
		var m message
		if err := dec.Decode(&m); err != nil {
			return told // its end; the exit status says more
		}
		found, again := g.take(m, r)
		switch {
		case m.Err != "":
			told = errors.New(m.Err)
		case m.Kept:
			g.event(Event{Run: r.Name, Kept: cmd.Process.Pid})
		case m.Machine == nil:
			g.event(Event{Run: r.Name, Doing: m.Doing, Step: m.Step, Results: found, Again: again})
		}
	}
}

// take takes in what a lab says: of its results, those that count from now on, and
// those that are taken again.
func (g *gathering) take(m message, r Run) (found, again []Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, res := range m.Results {
		takes := append(g.results[res.Drill], res)
		g.results[res.Drill] = takes
		switch repeated := g.repeats(r, takes); {
		case repeated && len(takes) < 3:
			again = append(again, res)
		case repeated:
			found = append(found, median(takes))
		case len(takes) == 1:
			found = append(found, res)
		}
	}
	if m.First > 0 {
		g.first = append(g.first, m.First)
	}
	if m.Machine != nil {
		g.machine = *m.Machine
	}
	return found, again
}

// repeats says whether a drill of a run is taken three times: a time made it fail.
func (g *gathering) repeats(r Run, takes []Result) bool {
	return !g.o.Keep && r.Takes == 0 && // minutes are asked for once
		!slices.Contains(g.o.Red, takes[0].Drill) && slices.ContainsFunc(takes, func(t Result) bool { return !t.OK && t.Judged != nil })
}

func (g *gathering) event(e Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.o.Progress != nil {
		g.o.Progress(e)
	}
}

// finish orders the results as the runs have them and judges the whole.
func (g *gathering) finish(runs []Run) *Report {
	r := g.report
	for _, drill := range drillNames(runs) {
		if takes := g.results[drill]; takes != nil {
			m := median(takes)
			if m.Promise != nil {
				r.Promises = append(r.Promises, *m.Promise)
				m.Promise = nil
			}
			r.Drills = append(r.Drills, m)
		}
	}
	r.OK = len(r.Errors) == 0 && len(r.Drills) > 0
	for _, d := range r.Drills {
		r.OK = r.OK && d.OK
	}
	if n := len(g.first); n > 0 {
		slices.Sort(g.first)
		r.First = g.first[n/2]
	}
	return r
}

// median is the take that counts: of several judged by a time, the one in the
// middle; a failure for another reason counts always.
func median(takes []Result) Result {
	for _, t := range takes {
		if !t.OK && t.Judged == nil {
			return t
		}
	}
	s := slices.Clone(takes)
	slices.SortStableFunc(s, func(a, b Result) int {
		if a.Judged == nil || b.Judged == nil {
			return 0
		}
		return cmp.Compare(a.Judged.Value, b.Judged.Value)
	})
	m := s[len(s)/2]
	m.Takes = len(takes)
	return m
}

// pair is a connection: our end and the one for the lab's process.
func pair() (ours, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("connection to a lab: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "lab"), os.NewFile(uintptr(fds[1]), "rehearsal"), nil
}

// NoSuchDrill says that some of what was asked for does not exist for this file.
type NoSuchDrill struct{ Only, Drills []string }

func (e *NoSuchDrill) Error() string {
	var words []string // what --only takes
	for _, d := range e.Drills {
		parts := strings.Split(d, "/")
		for i := range parts {
			words = append(words, parts[i], strings.Join(parts[:i+1], "/"))
		}
	}
	var meant, quoted []string
	for _, only := range e.Only {
		quoted = append(quoted, strconv.Quote(only))
		if near := config.Nearest(only, words); near != "" {
			meant = append(meant, near)
		}
	}
	end := "."
	if len(meant) > 0 {
		end = fmt.Sprintf("; did you mean %s?", strings.Join(meant, ", "))
	}
	return fmt.Sprintf("no drill of this file is called %s%s There are:\n  %s",
		strings.Join(quoted, " or "), end, strings.Join(e.Drills, "\n  "))
}

// Partial says whether a part of the file was not rehearsed.
func (r *Report) Partial() bool {
	return slices.ContainsFunc(r.Omitted, func(o Omission) bool { return o.Part })
}

// EnterFlags are the flags of nsenter(1) for the lab of a process.
func EnterFlags(pid int) string {
	flags := fmt.Sprintf("-t %d -m -n -p -u", pid)
	if os.Geteuid() != 0 {
		flags += " -U --preserve-credentials"
	}
	return flags
}
