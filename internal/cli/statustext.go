package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"weir/internal/api"
)

// printStatus writes s as a person reads it. Times are told from now.
func printStatus(w io.Writer, s api.Status, now time.Time) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, up %s, by %s (%s, %s ago)\n", s.Gateway, age(now, s.Started), s.File.From, s.File.By, age(now, s.File.Since))
	if at := s.File.ConfirmBy; !at.IsZero() {
		fmt.Fprintf(&b, "The file is on trial until %s, %s: `weir confirm` keeps it, else the one before is in force again.\n", at.Local().Format(time.TimeOnly), in(now, at))
	}
	if s.Turn.Error != "" {
		fmt.Fprintf(&b, "\nThe kernel is not as the file wants it, tried again %s:\n  %s\n", in(now, s.Turn.Retry), strings.ReplaceAll(s.Turn.Error, "\n", "\n  "))
	}
	if s.Unstored != "" {
		fmt.Fprintf(&b, "\nNot all can be stored: the house goes on, but what changes would not survive a power cut. Tried again all the time:\n  %s\n", strings.ReplaceAll(s.Unstored, "\n", "\n  "))
	}
	b.WriteByte('\n')
	printUse(&b, s.IPv4, s.IPv6)
	if c := s.Choice; c != nil {
		fmt.Fprintf(&b, "%s was chosen by %s %s ago; `weir use auto` leaves it to failover again\n", c.WAN, c.By, age(now, c.Since))
	}
	b.WriteByte('\n')
	lines(&b, s, now)
	lans(&b, s)
	forwards(&b, s)
	clock(&b, s.Time, now)
	blockLists(&b, s, now)
	services(&b, s, now)
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return say(w, "%s", b.String())
}

func printUse(w io.Writer, use4, use6 api.Use) {
	for _, u := range []struct {
		family string
		use    api.Use
	}{{"IPv4", use4}, {"IPv6", use6}} {
		line := u.use.WAN
		if line == "" {
			line = "no line"
		}
		fmt.Fprintf(w, "%s uses %s: %s\n", u.family, line, u.use.Why)
	}
}

// owed says what a line owes until it is preferred again and what of it is left,
// whether its resolvers answer, and who does not answer on it; "" is nothing.
func owed(l api.Line, now time.Time) string {
	var parts []string
	if l.HoldDownS > 0 {
		s := "owes " + seconds(l.HoldDownS) + " of good time"
		if !l.GoodAt.IsZero() {
			s += ", " + span(l.GoodAt.Sub(now)) + " of it left"
		}
		if l.Relapses > 0 {
			s += ", failed again " + times(l.Relapses) + " of late"
		}
		parts = append(parts, s)
	} else if l.Relapses > 0 {
		parts = append(parts, fmt.Sprintf("failed again %s of late, the next time it owes %s of good time", times(l.Relapses), seconds(l.NextHoldDownS)))
	}
	if l.DNSError != "" {
		parts = append(parts, "DNS broken, its resolvers give no answer: "+l.DNSError)
	}
	if len(l.Deaf) > 0 {
		parts = append(parts, "no answer from "+strings.Join(l.Deaf, ", ")+" while others do")
	}
	return strings.Join(parts, "; ")
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

func lines(w io.Writer, s api.Status, now time.Time) {
	t := newTable("WAN", "FAMILY", "VERDICT", "FOR", "LOSS", "LATENCY", "ADDRESS", "")
	for _, wan := range s.WANs {
		for _, f := range []struct {
			name string
			line api.Line
		}{{"IPv4", wan.IPv4}, {"IPv6", wan.IPv6}} {
			if f.line.Verdict == api.VerdictOff {
				continue
			}
			used := ""
			if f.line.Used {
				used = "*"
			}
			t.row(wan.Name+used, f.name, f.line.Verdict, age(now, f.line.Since), percent(f.line.LossPct), millis(f.line.LatencyMS), first(f.line.Addresses), f.line.Why)
		}
	}
	_ = t.write(w)
	for _, wan := range s.WANs {
		for i, l := range []api.Line{wan.IPv4, wan.IPv6} {
			if what := owed(l, now); what != "" {
				fmt.Fprintf(w, "%s %s: %s.\n", wan.Name, []string{"IPv4", "IPv6"}[i], what)
			}
		}
		if d := wan.IPv6.Delegated; len(d) > 0 {
			ends := "without end"
			if l := wan.IPv6.Lease; l != nil && !l.Expires.IsZero() {
				ends = "ends " + in(now, l.Expires) + " unless renewed"
			}
			fmt.Fprintf(w, "%s IPv6: delegated %s, %s.\n", wan.Name, strings.Join(d, " "), ends)
		}
		if wan.FastPath == "tc" {
			fmt.Fprintf(w, "%s: fast path by tc on %s.\n", wan.Name, wan.Link)
		}
		if f := wan.Flows; f != nil {
			fmt.Fprintf(w, "Flows left %s %s ago: %d moved, %d connections prodded, %d resets sent.\n", wan.Name, age(now, f.At), f.Moved, f.Prodded, f.Reset)
		}
	}
}

func lans(w io.Writer, s api.Status) {
	if len(s.LANs) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable("LAN", "PORT", "ADDRESS", "LEASES")
	for _, l := range s.LANs {
		port := strings.Join(l.Interface, " ")
		if !l.Present {
			port += " (not there)"
		}
		t.row(l.Name, port, strings.Join(l.Addresses, " "), fmt.Sprint(l.Leases))
	}
	_ = t.write(w)
	for _, l := range s.LANs {
		if l.FastPath == "tc" {
			fmt.Fprintf(w, "%s: fast path by tc on %s.\n", l.Name, l.Link)
		}
	}
}

func forwards(w io.Writer, s api.Status) {
	if len(s.Forwards) == 0 {
		fmt.Fprintln(w, "\nNothing but ping answers from outside.")
		return
	}
	fmt.Fprintln(w)
	t := newTable("FORWARD", "PORT", "TO", "ANSWERS FROM OUTSIDE AT")
	for _, f := range s.Forwards {
		answers := strings.Join(f.Answers, ", ")
		if answers == "" {
			answers = "nothing now"
		}
		t.row(f.Name, strings.Join(f.Protocol, "+")+" "+strings.Join(f.Port, ","), strings.Join(f.To, " "), answers)
	}
	_ = t.write(w)
}

// clock says who keeps the time, and which server is wrong.
func clock(w io.Writer, t *api.Time, now time.Time) {
	if t == nil {
		return
	}
	whom := ""
	if t.Served {
		whom = ", served to the LANs"
	}
	switch {
	case !t.Synchronised:
		whom = ""
		if t.Served {
			whom = ", and not served until it is"
		}
		fmt.Fprintf(w, "\nTime: not known yet%s.\n", whom)
	case !t.SetsClock:
		fmt.Fprintf(w, "\nTime: by %s, stratum %d%s; this machine's clock is not weir's to set, and %s.\n", t.Source, t.Stratum, whom, off(t.BehindMS))
	default:
		fmt.Fprintf(w, "\nTime: by %s, stratum %d, heard %s ago%s; the clock is %s.\n", t.Source, t.Stratum, age(now, t.Updated), whom, off(t.BehindMS))
	}
	for _, s := range t.Sources {
		if s.State == "wrong" {
			fmt.Fprintf(w, "%s says another time than most, and is not believed.\n", s.Name)
		}
	}
}

// off is how wrong the clock is.
func off(ms *float64) string {
	if ms == nil {
		return "off by an unknown time"
	}
	d := time.Duration(*ms * float64(time.Millisecond))
	way := "behind"
	if d < 0 {
		d, way = -d, "ahead"
	}
	switch {
	case d < 10*time.Millisecond:
		d = d.Round(time.Microsecond)
	case d < time.Minute:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(time.Second)
	}
	return fmt.Sprintf("%s %s", d, way)
}

func blockLists(w io.Writer, s api.Status, now time.Time) {
	if len(s.BlockLists) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable("BLOCK LIST", "FOR", "NAMES", "RENEWED", "")
	for _, l := range s.BlockLists {
		renewed := "never"
		if !l.Updated.IsZero() {
			renewed = age(now, l.Updated) + " ago"
		}
		t.row(l.Name, strings.Join(l.LANs, " "), fmt.Sprint(l.Names), renewed, l.Error)
	}
	_ = t.write(w)
}

func services(w io.Writer, s api.Status, now time.Time) {
	if len(s.Services) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable("SERVICE", "STATE", "FOR", "RESTARTS", "")
	for _, v := range s.Services {
		t.row(v.Name, v.State, age(now, v.Since), fmt.Sprint(v.Restarts), v.LastError)
	}
	_ = t.write(w)
}

// age is how long ago t was, in the two largest units; "-" where it never was.
func age(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(now.Sub(t))
}

// in is when t comes.
func in(now, t time.Time) string {
	if !t.After(now) {
		return "now"
	}
	return "in " + span(t.Sub(now))
}

// span is d in its two largest units.
func span(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h >= 48:
		return fmt.Sprintf("%dd%dh", h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%dh%dm", h, m)
	case m > 0:
		return fmt.Sprintf("%dm%ds", m, s)
	}
	return fmt.Sprintf("%ds", s)
}

func percent(p *float64) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %%", *p)
}

func millis(ms *float64) string {
	if ms == nil {
		return ""
	}
	return fmt.Sprintf("%.1f ms", *ms)
}

func first(s []string) string {
	switch len(s) {
	case 0:
		return ""
	case 1:
		return s[0]
	}
	return fmt.Sprintf("%s +%d", s[0], len(s)-1)
}
