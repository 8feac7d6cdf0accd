package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"weir/internal/rehearse"
)

// good is a rehearsal in which all is well but for a drill that was slow.
func good() *rehearse.Report {
	return &rehearse.Report{
		Site: rehearse.Picture{Lines: []rehearse.Drawn{{Name: "cable"}}, LANs: []rehearse.DrawnLAN{{Name: "home"}, {Name: "guest"}}},
		Drills: []rehearse.Result{
			{Drill: "lease/home/new", OK: true},
			{Drill: "lease/guest/new", OK: true},
			{Drill: "closed/cable/IPv4", OK: true},
			{Drill: "dark/all/back", Judged: &rehearse.Limit{Value: 12, Most: 3}, Expected: "answered within 3 s", Seen: "12 s"},
		},
	}
}

func TestJudgedByWhatNotByWhen(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(r *rehearse.Report)
		wrong  string // "": it passes
	}{
		{"slow", func(*rehearse.Report) {}, ""},
		{"a real port is imitated", func(r *rehearse.Report) { r.Omitted = []rehearse.Omission{{What: "a carrier", Why: "no TAP"}} }, ""},
		{"slower than any emulation", func(r *rehearse.Report) { r.Drills[3].Judged.Value = 91 }, "dark/all/back: expected"},
		{"too soon", func(r *rehearse.Report) { r.Drills[3].Judged = &rehearse.Limit{Value: 1, Least: 2, Most: 3} }, "dark/all/back: expected"},
		{"wrong", func(r *rehearse.Report) {
			r.Drills[0] = rehearse.Result{Drill: "lease/home/new", Expected: "a lease", Seen: "none"}
		}, "lease/home/new: expected a lease, seen none"},
		{"a VLAN is left out", func(r *rehearse.Report) {
			r.Omitted = []rehearse.Omission{{What: "lan guest", Why: "no VLANs", Part: true}}
		}, "left out: lan guest"},
		{"a LAN without drills", func(r *rehearse.Report) { r.Drills = append(r.Drills[:1:1], r.Drills[2:]...) }, "no drill is about guest"},
		{"a lab that was not made", func(r *rehearse.Report) { r.Errors = []string{"steady: no veth"} }, "not made: steady"},
		{"nothing", func(r *rehearse.Report) { *r = rehearse.Report{OK: true} }, "no LAN and no line"},
	} {
		r := good()
		c.damage(r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		err = rehearsed(strings.NewReader("--- PASS: TestVLANs\n"+reportLine+string(b)+"\n"), io.Discard)
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
		}
	}
}

func TestNoReportIsNoPass(t *testing.T) {
	for _, log := range []string{"", "PASS\n", reportLine + "{\"drills\": [\n", "x" + reportLine + "{}\n"} {
		if err := rehearsed(strings.NewReader(log), io.Discard); err == nil {
			t.Errorf("%q passes", log)
		}
	}
}
