package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"weir/internal/rehearse"
)

// slower is by how much an emulated machine may exceed a time that a drill has to
// keep. What takes longer still is not the emulation's fault.
const slower = 30

// reportLine stands before the report of a rehearsal, which is on one line.
const reportLine = "@@REPORT "

// readReport finds the report in a machine's output.
func readReport(r io.Reader) (*rehearse.Report, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		text, ok := bytes.CutPrefix(lines.Bytes(), []byte(reportLine))
		if !ok {
			continue
		}
		var rep rehearse.Report
		if err := json.Unmarshal(text, &rep); err != nil {
			return nil, fmt.Errorf("read the report of a rehearsal: %w", err)
		}
		return &rep, nil
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("no line begins with %q: the rehearsal made no report", strings.TrimSpace(reportLine))
}

// judge holds a rehearsal on an emulated machine to what it did, not to how long
// that took. late are the drills that only took too long.
func judge(r *rehearse.Report) (late []rehearse.Result, wrong []string) {
	for _, e := range r.Errors {
		wrong = append(wrong, "not made: "+e)
	}
	for _, o := range r.Omitted {
		if o.Part {
			wrong = append(wrong, fmt.Sprintf("left out: %s: %s", o.What, o.Why))
		}
	}
	for _, d := range r.Drills {
		switch {
		case d.OK:
		case d.Judged != nil && d.Judged.Value > d.Judged.Most && d.Judged.Value <= slower*d.Judged.Most:
			late = append(late, d)
		default:
			wrong = append(wrong, fmt.Sprintf("%s: expected %s, seen %s", d.Drill, d.Expected, d.Seen))
		}
	}
	// Each LAN and line of the file has drills that bear its name.
	var names []string
	for _, l := range r.Site.LANs {
		names = append(names, l.Name)
	}
	for _, l := range r.Site.Lines {
		names = append(names, l.Name)
	}
	if len(names) == 0 {
		wrong = append(wrong, "no LAN and no line was rehearsed")
	}
	for _, n := range names {
		if !drilled(r.Drills, n) {
			wrong = append(wrong, "no drill is about "+n)
		}
	}
	return late, wrong
}

func drilled(drills []rehearse.Result, name string) bool {
	for _, d := range drills {
		if strings.Contains("/"+d.Drill+"/", "/"+name+"/") {
			return true
		}
	}
	return false
}

// rehearsed prints a machine's rehearsal and judges it.
func rehearsed(file io.Reader, out io.Writer) error {
	r, err := readReport(file)
	if err != nil {
		return err
	}
	if err := r.Print(out, false); err != nil {
		return err
	}
	late, wrong := judge(r)
	for _, d := range late {
		fmt.Fprintf(out, "not held against an emulated machine: %s took %.2g s, of at most %.2g s\n", d.Drill, d.Judged.Value, d.Judged.Most)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the rehearsal on the emulated machine failed:\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}
