package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/kernel"
	"weir/internal/ruleset"
	"weir/internal/state"
	"weir/internal/traffic"
)

// review finds the flows under way that the file was let begin, and now would not, in
// the world w.
func (d *daemon) review(was, now *config.Config, w world) (*ruleset.Review, error) {
	clock, err := state.ReadClock()
	if err != nil {
		return nil, err
	}
	leases, _ := held(d.leases, now, clock)
	devices := known(leases, now, w)
	for _, family := range []int{4, 6} {
		near, err := d.k.Neighbours(family)
		if err != nil {
			return nil, err
		}
		for _, n := range near { // what has its address from nobody we know of
			for _, l := range now.LANs {
				if w.lans[l.Name].name == n.Link {
					devices = append(devices, ruleset.Known{Addr: n.Addr, MAC: n.MAC, LAN: l.Name})
				}
			}
		}
	}
	return ruleset.NewReview(desired.House(was, w.state(was)), desired.House(now, w.state(now)), devices), nil
}

// running is an entry of conntrack as a review has it; false for what it does not judge:
// what no rule of the file is about.
func running(f traffic.Flow) (ruleset.Running, bool) {
	r := ruleset.Running{From: f.Client, To: f.Dialled, Line: uint8(f.Mark & ruleset.MarkIndex), In: f.Mark&ruleset.MarkIn != 0}
	switch f.Protocol {
	case unix.IPPROTO_TCP:
		r.Protocol = config.TCP
	case unix.IPPROTO_UDP:
		r.Protocol = config.UDP
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		r.Protocol = config.ICMP
	default:
		return r, false
	}
	return r, f.Mark&ruleset.MarkProbe == 0
}

// tallied is how many flows end, by what ends them.
type tallied map[string]int

// refuses asks a review of each flow, and counts.
func (t tallied) refuses(r *ruleset.Review) func(traffic.Flow) bool {
	return func(f traffic.Flow) bool {
		a, ok := running(f)
		if !ok {
			return false
		}
		by := r.Ends(a)
		if by != "" {
			t[by]++
		}
		return by != ""
	}
}

// sentence says so, "" if nothing ends. would says that it is still to come.
func (t tallied) sentence(would bool) string {
	if len(t) == 0 {
		return ""
	}
	n, by := 0, slices.Sorted(maps.Keys(t))
	for i, name := range by {
		n += t[name]
		by[i] = fmt.Sprintf("%s %d", name, t[name])
	}
	what := "are ended"
	if would {
		what = "would be ended"
	}
	return fmt.Sprintf("flows under way that the file does not allow any more %s: %d (%s)", what, n, strings.Join(by, ", "))
}

// foreseeEnds says which flows under way a file would end.
func (d *daemon) foreseeEnds(c *config.Config, w world) (string, error) {
	r, err := d.review(d.cfg, c, w)
	if err != nil || r.Same() {
		return "", err
	}
	t := tallied{}
	refuses := t.refuses(r)
	if err := kernel.Flows(func(f traffic.Flow) { refuses(f) }); err != nil {
		return "", err
	}
	return t.sentence(true), nil
}

// endRefused ends the flows under way that the file before the one in force let begin
// and this one would not; before anything is carried again. Where it fails, the next
// turn does it.
func (d *daemon) endRefused() (note string) {
	if d.was == nil {
		return ""
	}
	t := tallied{}
	r, err := d.review(d.was, d.cfg, d.world)
	if err == nil && !r.Same() {
		_, err = d.k.EndFlows(t.refuses(r))
	}
	if err != nil {
		d.log.Error("flows that the file does not allow any more go on; it is tried again", "err", err)
		d.wantTurn(firstRetry)
		return "flows under way that the file does not allow any more could not be ended yet: " + err.Error()
	}
	d.was = nil
	if note = t.sentence(false); note != "" {
		d.log.Info("flows under way are ended, as the file does not allow them any more", "flows", map[string]int(t))
	}
	return note
}
