package rehearse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Result is what became of a drill.
type Result struct {
	// Drill is the drill's name, a path: "forward/web/fiber/IPv4". Run is the lab
	// that it was made in.
	Drill string `json:"drill"`
	Run   string `json:"run"`
	OK    bool   `json:"ok"`
	// About is what was tried, in a few words.
	About string `json:"about"`
	// Expected, Seen and Look (where to look) are of a drill that failed.
	Expected string   `json:"expected,omitempty"`
	Seen     string   `json:"seen,omitempty"`
	Look     string   `json:"look,omitempty"`
	Figures  []Figure `json:"figures,omitempty"`
	// Judged is the figure that decides, where a time does.
	Judged *Limit `json:"judged,omitempty"`
	// Takes counts how often it was taken; the median counts.
	Takes int           `json:"takes"`
	Took  time.Duration `json:"took_ns"`
	Busy  Busy          `json:"busy"`
	// Timeline is of a drill that measured an outage by echoes.
	Timeline *Timeline `json:"timeline,omitempty"`
	// Promise is of the drill that stands for a fault of a line.
	Promise *Promise `json:"promise,omitempty"`
}

// Timeline is what became of the echoes around an outage. Times are seconds from
// the moment the line was lost.
type Timeline struct {
	From  string `json:"from"` // the WAN that was lost
	To    string `json:"to"`   // the one that took over
	Beats []Beat `json:"echoes"`
}

// Beat is one echo: when it was sent, and whether it was answered in time.
type Beat struct {
	At float64 `json:"at_s"`
	OK bool    `json:"ok"`
}

// Figure is something measured. Unit is "s" or "packets".
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// String is the figure for people.
func (f Figure) String() string {
	if f.Unit == "s" {
		return f.Name + " " + seconds(time.Duration(f.Value*float64(time.Second)))
	}
	return fmt.Sprintf("%s %g", f.Name, f.Value)
}

// Limit is a time that decides, in seconds.
type Limit struct {
	Value float64 `json:"value"`
	Least float64 `json:"least,omitempty"`
	Most  float64 `json:"most"`
}

func (l Limit) ok() bool { return l.Value >= l.Least && l.Value <= l.Most }

// seconds writes a time as people read it.
func seconds(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d == 0:
		return "0 ms"
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

func secs(name string, d time.Duration) Figure {
	return Figure{Name: name, Value: d.Seconds(), Unit: "s"}
}

func packets(name string, n int) Figure {
	return Figure{Name: name, Value: float64(n), Unit: "packets"}
}

// pass and fail make results. A failure says what was expected, what was seen and
// where to look.
func pass(drill, about string, f ...Figure) Result {
	return Result{Drill: drill, OK: true, About: about, Figures: f}
}

func fail(drill, about, expected, seen, look string, f ...Figure) Result {
	return Result{Drill: drill, About: about, Expected: expected, Seen: seen, Look: look, Figures: f}
}

// timed judges a time. expected names what should take that long.
func timed(drill, about string, took, most time.Duration, expected, look string, f ...Figure) Result {
	r := Result{Drill: drill, About: about, Figures: f, Judged: &Limit{Value: took.Seconds(), Most: most.Seconds()}}
	r.OK = r.Judged.ok()
	if !r.OK {
		r.Expected = expected + " within " + seconds(most)
		r.Seen = seconds(took)
		r.Look = look
	}
	return r
}

// Act is a part of a run: something done to the house, and the drills that watch
// it. Its results are named in advance, so that --only can leave it out.
type Act struct {
	Drills []string
	Do     func(ctx context.Context, b *Bench) []Result
}

// Run is a lab with its acts.
type Run struct {
	Name    string
	About   string
	Variant Variant
	Takes   time.Duration // about; 0: less than two minutes, as most
	Acts    []Act
}

// matches says whether a drill is one of those asked for: by its whole name, by
// the beginning of it, or by one of its words. None asked for is all.
func matches(drill string, only []string) bool {
	if len(only) == 0 {
		return true
	}
	for _, o := range only {
		if drill == o || strings.HasPrefix(drill, o+"/") || strings.Contains("/"+drill+"/", "/"+o+"/") {
			return true
		}
	}
	return false
}

// of narrows what is asked for to a run: its name asks for all of it.
func (r Run) of(only []string) []string {
	if slices.Contains(only, r.Name) {
		return nil
	}
	return only
}

func (a Act) wanted(only []string) bool {
	for _, d := range a.Drills {
		if matches(d, only) {
			return true
		}
	}
	return false
}

func name(parts ...string) string { return strings.Join(parts, "/") }

func familyName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}
