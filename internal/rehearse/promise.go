package rehearse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"weir/internal/lab"
)

// Promise is what a fault costs the house of this file, as it was measured. Times
// are seconds.
type Promise struct {
	Fault string `json:"fault"`
	// Notice is from the fault to the house's first packet by another line; nil is
	// that none went by another line.
	Notice *float64 `json:"notice_s,omitempty"`
	// Gap is the longest time without an answered echo; nil where the line is bad
	// by itself, so that it says nothing about the gateway.
	Gap *float64 `json:"gap_s,omitempty"`
	// Reset is how many of the TCP conversations of the line were reset, of Flows.
	Reset int `json:"reset"`
	Flows int `json:"flows"`
	// Unrelated is how many echoes between a client and the gateway were lost, which
	// no line's fault should touch, of Asked.
	Unrelated int `json:"unrelated_lost"`
	Asked     int `json:"unrelated_asked"`
	// Timeline is the echoes around the fault.
	Timeline *Timeline `json:"timeline,omitempty"`
}

// measure is what a promise is worked out from.
type measure struct {
	wan    string // whose fault it is
	talk   *traffic
	cut    time.Time
	strays *strays // nil: the line was in reserve, and the house on others anyhow
}

// promised is an act with the promise of its fault, told with the first of its
// results. bad says that the line loses packets by itself.
func promised(fault, wan string, bad bool, a Act) Act {
	do := a.Do
	a.Do = func(ctx context.Context, b *Bench) []Result {
		b.measure = &measure{wan: wan}
		defer func() { b.measure = nil }()
		results := do(ctx, b)
		if p := b.measure.promise(fault, bad); p != nil && len(results) > 0 {
			results[0].Promise = p
		}
		return results
	}
	return a
}

// begins notes the moment of the fault.
func (m *measure) begins(b *Bench) {
	if m == nil || !m.cut.IsZero() {
		return
	}
	v6 := b.talk6()
	if m.talk != nil {
		v6 = m.talk.v6
	}
	if m.cut = time.Now(); b.Site.first(v6) == m.wan {
		m.strays = b.elsewhereTo(m.wan, lab.Web(v6)) // the family of the gap and the conversations
	}
}

// promise works it out, once the traffic has ended; nil if there was none.
func (m *measure) promise(fault string, bad bool) *Promise {
	if m.cut.IsZero() || m.talk == nil {
		return nil
	}
	p := &Promise{Fault: fault}
	if m.strays != nil {
		m.strays.stop()
		if s := m.strays.seen.Load(); s != nil {
			notice := s.at.Sub(m.cut).Seconds()
			p.Notice = &notice
		}
	}
	if e := m.talk.echo[m.talk.v6]; e != nil && !bad {
		all := settled(e.Beats(), m.cut.Add(-lab.Late))
		gap := lab.Longest(all).Len().Seconds()
		p.Gap = &gap
		p.Timeline = &Timeline{From: m.wan, Beats: beats(all, m.cut)}
	}
	flows := []*lab.Flow{m.talk.inward[m.wan]}
	for kind, f := range m.talk.flows {
		if kind != lab.Datagrams {
			flows = append(flows, f)
		}
	}
	for _, f := range flows {
		if f == nil {
			continue
		}
		p.Flows++
		if _, err, ended := f.Ended(context.Background(), 0); ended && lab.Reset(err) {
			p.Reset++
		}
	}
	if u := m.talk.unrelated; u != nil {
		for _, x := range settled(u.Beats(), m.talk.since) {
			p.Asked++
			if x.RTT == 0 { // late is the machine's doing, lost is not
				p.Unrelated++
			}
		}
	}
	return p
}

// mark is how long a mark of a timeline is, in seconds: a second where the gap is one
// of many.
func (t *Timeline) mark() float64 {
	if t.lost() > shownAfter.Seconds() {
		return 1
	}
	return 0.1
}

// lost is when the last echo was lost, in seconds after the fault; 0: none was.
func (t *Timeline) lost() float64 {
	last := 0.0
	if t != nil {
		for _, b := range t.Beats {
			if !b.OK {
				last = max(last, b.At)
			}
		}
	}
	return last
}

// String draws the timeline, from 0.2 s before the fault until 0.5 s after the last
// loss, and 1.5 s at least: a mark for each tenth of a second, "×" for one in which
// an echo was lost, "╎" at the fault. After 5 s and more a mark is a second.
func (t *Timeline) String() string {
	if t == nil || len(t.Beats) == 0 {
		return ""
	}
	const before = 2
	mark := t.mark()
	cells := make([]rune, before+int(max(1.5, t.lost()+0.5)/mark))
	for _, b := range t.Beats {
		i := before + int(b.At/mark)
		if b.At < 0 {
			i = before - 1 + int(b.At/mark)
		}
		switch {
		case i < 0 || i >= len(cells):
		case !b.OK:
			cells[i] = '×'
		case cells[i] == 0:
			cells[i] = '─'
		}
	}
	s := strings.ReplaceAll(string(cells[:before])+"╎"+string(cells[before:]), "\x00", " ")
	if s = strings.TrimRight(s, " "); mark == 1 {
		s += " (a mark is 1 s)"
	}
	return s
}

// promises writes what the file promises as a table.
func (p *printer) promises(all []Promise) {
	if len(all) == 0 {
		return
	}
	width := len("A fault of a line")
	for _, x := range all {
		width = max(width, len(x.Fault))
	}
	p.f("\n%s\n", p.bold("What this file promises"))
	p.f("  %-*s  %9s  %9s  %7s  %14s\n", width, "A fault of a line", "noticed", "gap", "reset", "unrelated lost")
	for _, x := range all {
		p.f("%s\n", strings.TrimRight(fmt.Sprintf("  %-*s  %9s  %9s  %7s  %14s  %s", width, x.Fault, when(x.Notice), when(x.Gap),
			fmt.Sprintf("%d of %d", x.Reset, x.Flows), fmt.Sprintf("%d of %d", x.Unrelated, x.Asked), x.Timeline), " "))
	}
	p.f("  noticed: until the house's first packet by another line; reset: TCP connections over the line; unrelated: echoes between\n")
	p.f("  a client and the gateway; at the right a mark is 0.1 s, × one in which an echo was lost, ╎ the fault.\n")
}

func when(s *float64) string {
	if s == nil {
		return "-"
	}
	return seconds(time.Duration(*s * float64(time.Second)))
}
