package rehearse

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// sections are the first words of drills, in the order of the report, and what
// they are about.
var sections = []struct{ word, title string }{
	{"lease", "Leases"},
	{"lease6", "Leases of DHCPv6"},
	{"advertise", "IPv6 addresses"},
	{"delegated", "Prefixes that ISPs delegate"},
	{"name", "Names"},
	{"time", "The time"},
	{"port", "Further ports of a LAN"},
	{"out", "Out to the internet"},
	{"policy", "Who may talk to whom"},
	{"rule", "Rules"},
	{"forward", "Forwards, from outside"},
	{"hairpin", "Forwards, from inside"},
	{"closed", "All else is closed"},
	{"route", "Routes: which line, and what without it"},
	{"dark", "A line dark behind its router"},
	{"carrier", "A line without carrier"},
	{"uplink", "A line that carries nothing up"},
	{"downlink", "A line that carries nothing down"},
	{"flaps", "A line that comes and goes"},
	{"blackout", "All lines lost, past the ends of their leases"},
	{"rough", "A line that is bad, but works"},
	{"pings", "An ISP that answers pings and nothing else"},
	{"nopings", "An ISP that answers everything but pings"},
	{"deaf", "An ISP's DHCP server gone deaf"},
	{"nak", "An ISP that takes its word back"},
	{"renumber", "An ISP that renumbers"},
	{"same", "Both ISPs on one subnet"},
	{"overlap", "An ISP on the LAN's own subnet"},
	{"restart", "The daemon ended and started again"},
	{"leak", "No inside address on a line"},
}

// Print writes a report as a person reads it.
func (r *Report) Print(w io.Writer, colour bool) error {
	p := &printer{w: w, colour: colour}
	width := 0
	for _, d := range r.Drills {
		width = max(width, len(d.Drill))
	}
	done := map[string]bool{}
	section := func(title string, of func(Result) bool) {
		head := false
		for _, d := range r.Drills {
			if done[d.Drill] || !of(d) {
				continue
			}
			if done[d.Drill] = true; !head {
				p.f("\n%s\n", p.bold(title))
				head = true
			}
			p.drill(d, width)
		}
	}
	for _, s := range sections {
		section(s.title, func(d Result) bool { return strings.HasPrefix(d.Drill, s.word+"/") })
	}
	section("Others", func(Result) bool { return true })

	p.promises(r.Promises)
	if len(r.Omitted) > 0 {
		p.f("\n%s\n", p.bold("Not rehearsed here"))
		for _, o := range r.Omitted {
			p.f("  %s: %s\n", o.What, o.Why)
		}
	}
	for _, e := range r.Errors {
		p.f("\n%s %s\n", p.red("not made:"), indent(e, "  "))
	}
	bad := 0
	for _, d := range r.Drills {
		if !d.OK {
			bad++
		}
	}
	if len(r.Drills) == 0 && len(r.Errors) == 0 {
		p.f("\nNothing of this file can be rehearsed on this machine.\n")
		return p.err
	}
	p.f("\n%d of %d drills passed in %s, in %d labs", len(r.Drills)-bad, len(r.Drills), r.Took.Round(time.Second), r.Labs)
	if r.First > 0 {
		p.f("; the first packet was forwarded %s after the start", seconds(time.Duration(r.First*float64(time.Second))))
	}
	p.f(".\n")
	return p.err
}

type printer struct {
	w      io.Writer
	colour bool
	err    error
	look   string // of the drill that failed last: several fail for one reason
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) paint(code, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
func (p *printer) bold(s string) string  { return p.paint("1", s) }
func (p *printer) red(s string) string   { return p.paint("31", s) }
func (p *printer) green(s string) string { return p.paint("32", s) }

func (p *printer) drill(d Result, width int) {
	mark := p.green("ok  ")
	if !d.OK {
		mark = p.red("FAIL")
	}
	var figures []string
	for _, f := range d.Figures {
		figures = append(figures, f.String())
	}
	p.f("  %s  %-*s  %s\n", mark, width, d.Drill, strings.Join(figures, ", "))
	if d.OK {
		return
	}
	look := d.Look
	if look == p.look {
		look = "the same as above"
	}
	p.look = d.Look
	for _, l := range []struct{ what, text string }{{"tried", d.About}, {"expected", d.Expected}, {"seen", d.Seen}, {"look at", look}} {
		if l.text != "" {
			p.f("        %-9s %s\n", l.what, indent(l.text, "                  "))
		}
	}
	if busy := d.Busy.String(); busy != "" {
		p.f("        %-9s %s\n", "meanwhile", busy)
	}
	if d.Takes > 1 {
		p.f("        %-9s %d, this is the one in the middle\n", "takes", d.Takes)
	}
}

func indent(s, by string) string { return strings.ReplaceAll(s, "\n", "\n"+by) }
