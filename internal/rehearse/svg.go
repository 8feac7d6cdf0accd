package rehearse

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// Picture is who is in the labs: what the report's drawing shows.
type Picture struct {
	Gateway string     `json:"gateway"`
	Lines   []Drawn    `json:"lines"`
	LANs    []DrawnLAN `json:"lans"`
}

// Drawn is a line: its WAN, the gateway's port and what the ISP gives.
type Drawn struct {
	Name    string   `json:"name"`
	Port    string   `json:"port"`
	Address []string `json:"address"`
}

// DrawnLAN is a LAN with the machines on it.
type DrawnLAN struct {
	Name     string   `json:"name"`
	Port     []string `json:"port"`
	Address  []string `json:"address"`
	Machines []string `json:"machines"`
}

func (s *Site) picture() Picture {
	p := Picture{Gateway: s.Config.Gateway.Name, Lines: []Drawn{}, LANs: []DrawnLAN{}}
	for _, l := range s.Lines {
		d := Drawn{Name: l.Name, Port: l.Port}
		for _, a := range l.Customer4 {
			d.Address = append(d.Address, a.String())
		}
		for _, a := range l.Customer6 {
			d.Address = append(d.Address, a.String())
		}
		if l.Prefix6.IsValid() {
			d.Address = append(d.Address, l.Prefix6.String())
		}
		p.Lines = append(p.Lines, d)
	}
	for _, l := range s.LANs {
		d := DrawnLAN{Name: l.Name, Port: l.Interface, Machines: []string{l.Client}}
		if l.Address4.IsValid() {
			d.Address = append(d.Address, l.Address4.String())
		}
		for _, a := range l.Address6 {
			d.Address = append(d.Address, a.String())
		}
		for _, h := range l.Hosts {
			d.Machines = append(d.Machines, h.Name)
		}
		p.LANs = append(p.LANs, d)
	}
	return p
}

// The drawing's measures, in pixels.
const (
	drawWidth  = 860
	boxHeight  = 62
	rowHeight  = 78
	lineHeight = 102
	plotLeft   = 40
	plotWidth  = drawWidth - 2*plotLeft
)

// SVG draws the lab and, below, what became of the echoes when a line was lost.
func (r *Report) SVG(w io.Writer) error {
	d := &drawing{}
	rows := max(len(r.Site.Lines), len(r.Site.LANs))
	top := 60
	mid := top + rows*rowHeight/2
	d.text(plotLeft, 32, "title", fmt.Sprintf("%s, rehearsed: %s", r.File, r.verdict()))
	gw := d.box(360, mid-boxHeight/2-10, 130, boxHeight, "gateway", r.Site.Gateway, "weir run")
	for i, l := range r.Site.LANs {
		y := top + i*rowHeight + (rows-len(r.Site.LANs))*rowHeight/2
		d.box(plotLeft, y, 220, boxHeight, "lan", "lan "+l.Name, l.Address...)
		d.text(plotLeft+8, y+boxHeight+12, "small", strings.Join(l.Machines, ", "))
		d.cable(plotLeft+220, y+boxHeight/2, 360, gw, strings.Join(l.Port, "+"))
	}
	for i, l := range r.Site.Lines {
		y := top + i*rowHeight + (rows-len(r.Site.Lines))*rowHeight/2
		d.box(590, y, 230, boxHeight, "wan", "wan "+l.Name+", its ISP", l.Address...)
		d.cable(490, gw, 590, y+boxHeight/2, l.Port)
	}
	y := top + rows*rowHeight + 40
	length := 1.5 // seconds shown after the fault: as long as any gap, and some
	for _, x := range r.Drills {
		length = max(length, x.Timeline.lost()+0.5)
	}
	for _, x := range r.Drills {
		if x.Timeline != nil && len(x.Timeline.Beats) > 0 {
			d.timeline(y, x, length)
			y += lineHeight
		}
	}
	if y > top+rows*rowHeight+40 {
		d.text(plotLeft, y-8, "small", "Each bar is an echo between a client and the internet: green was answered, red was lost. Dashed: the fault.")
		d.text(plotLeft, y+6, "small", "A hole: this machine had no time to send one, and others' times are as uncertain.")
		y += 36
	}
	y = d.promises(y, r.Promises)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif">
<style>
rect.gateway{fill:#fde9c8} rect.lan{fill:#d9ecd9} rect.wan{fill:#d6e4f5} rect{stroke:#555}
.title{font-size:17px;font-weight:bold} .name{font-size:13px;font-weight:bold} .small{font-size:11px;fill:#333}
.cable{stroke:#555;stroke-width:2} .axis{stroke:#999} .cut{stroke:#c33;stroke-width:2;stroke-dasharray:4 3} .ok{fill:#2a8a3a} .lost{fill:#c33}
</style>
<rect class="paper" width="%[1]d" height="%[2]d" style="fill:#fff;stroke:none"/>
%[5]s</svg>
`, drawWidth, y+10, drawWidth, y+10, d.b.String())
	return err
}

func (r *Report) verdict() string {
	bad := 0
	for _, d := range r.Drills {
		if !d.OK {
			bad++
		}
	}
	return fmt.Sprintf("%d of %d drills passed", len(r.Drills)-bad, len(r.Drills))
}

type drawing struct{ b strings.Builder }

func (d *drawing) text(x, y int, class, s string) {
	fmt.Fprintf(&d.b, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, escaped(s))
}

func escaped(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a strings.Builder takes all
	}
	return b.String()
}

// box draws a machine and returns the height at which cables reach it.
func (d *drawing) box(x, y, w, h int, class, title string, lines ...string) int {
	fmt.Fprintf(&d.b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" class="%s"/>`+"\n", x, y, w, h, class)
	d.text(x+8, y+18, "name", title)
	for i, l := range lines {
		if i < 3 {
			d.text(x+8, y+34+i*13, "small", l)
		}
	}
	return y + h/2
}

func (d *drawing) cable(x1, y1, x2, y2 int, label string) {
	fmt.Fprintf(&d.b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="cable"/>`+"\n", x1, y1, x2, y2)
	d.text((x1+x2)/2-14, (y1+y2)/2-6, "small", label)
}

// timeline draws the echoes around an outage, a bar each, and length seconds after
// it.
func (d *drawing) timeline(y int, r Result, length float64) {
	var figures []string
	for _, f := range r.Figures {
		figures = append(figures, f.String())
	}
	d.text(plotLeft, y, "name", r.About)
	d.text(plotLeft, y+15, "small", r.Drill+": "+strings.Join(figures, ", ")+"; by "+r.Timeline.From+", then by "+r.Timeline.To)
	y += 16
	before := shownBefore.Seconds()
	at := func(s float64) float64 { return plotLeft + (s+before)/(before+length)*plotWidth }
	fmt.Fprintf(&d.b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="axis"/>`+"\n", plotLeft, y+40, plotLeft+plotWidth, y+40)
	wide := min(2.2, plotWidth/(before+length)*pingEvery.Seconds()*0.7)
	for _, b := range r.Timeline.Beats {
		if b.At < -before || b.At > length-0.01 {
			continue
		}
		class, h := "ok", 26
		if !b.OK {
			class, h = "lost", 9
		}
		fmt.Fprintf(&d.b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" class="%s" style="stroke:none"/>`+"\n", at(b.At), y+40-h, wide, h, class)
	}
	fmt.Fprintf(&d.b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" class="cut"/>`+"\n", at(0), y+6, at(0), y+46)
	for s := 0.0; s < length; s += max(0.5, math.Floor(length/12)) {
		d.text(int(at(s))-8, y+56, "small", fmt.Sprintf("%g s", s))
	}
}

// promises draws the table of what each fault costs, and returns where it ends.
func (d *drawing) promises(y int, all []Promise) int {
	if len(all) == 0 {
		return y
	}
	columns := []int{plotLeft, plotLeft + 400, plotLeft + 480, plotLeft + 560, plotLeft + 640}
	row := func(class string, cells ...string) {
		for i, c := range cells {
			d.text(columns[i], y, class, c)
		}
		y += 17
	}
	row("name", "A fault of a line", "noticed", "gap", "reset", "unrelated lost")
	for _, p := range all {
		row("small", p.Fault, when(p.Notice), when(p.Gap), fmt.Sprintf("%d of %d", p.Reset, p.Flows), fmt.Sprintf("%d of %d", p.Unrelated, p.Asked))
	}
	return y
}
