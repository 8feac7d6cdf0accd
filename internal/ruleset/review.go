package ruleset

import (
	"net/netip"
	"reflect"
	"slices"

	"weir/internal/config"
)

// Running is a flow under way, as conntrack has it.
type Running struct {
	From, To netip.AddrPort // as who began it says them; ports are 0 where there are none
	Protocol config.Protocol
	Line     uint8 // the line it is pinned to: the low byte of its mark; 0 is none
	In       bool  // it came in by that line
}

// Review finds the flows under way that one file let begin, and another that takes its
// place would not: the rules of main ask only a flow's first packet. What stays as it
// was under both is never among them, whatever it is. Lines that fail end no flow here.
type Review struct{ was, now reviewer }

// reviewer is a house with what it has found out about addresses.
type reviewer struct {
	House
	known []Known
	spots map[netip.Addr]Spot
}

// NewReview compares two houses in the same world. Devices that rules know by
// their MAC alone are found by known.
func NewReview(was, now House, known []Known) *Review {
	return &Review{reviewer{was, known, map[netip.Addr]Spot{}}, reviewer{now, known, map[netip.Addr]Spot{}}}
}

// Same says that the rules are the same: no flow ends.
func (r *Review) Same() bool { return reflect.DeepEqual(Main(r.was.House), Main(r.now.House)) }

// Ends says by what a flow ends (as Explanation.By), "" if it goes on.
func (r *Review) Ends(f Running) (by string) {
	now := r.now.explain(f)
	if now.passes() && now.Destination == "" && !r.led(f) {
		return "" // nearly all: nobody asks the house before
	}
	was := r.was.explain(f)
	switch {
	case !was.passes(), now.passes() && was.Destination == now.Destination:
		return ""
	case now.By == "no line", now.By == "no address":
		return "" // the line's matter, not the file's
	}
	return now.By
}

// led says whether the house before may have led the flow on to another address.
func (r *Review) led(f Running) bool {
	return slices.ContainsFunc(r.was.Config.Forwards, func(fwd config.Forward) bool {
		return slices.ContainsFunc(fwd.Port, func(p config.PortRange) bool { return p.From <= f.To.Port() && f.To.Port() <= p.To })
	})
}

func (e Explanation) passes() bool {
	return e.Verdict == Leaves || e.Verdict == Delivered || e.Verdict == Reached
}

// explain says what the house would do with a flow if it began now, by its own line.
func (r reviewer) explain(f Running) Explanation {
	line := ""
	for _, w := range r.WANs {
		if f.Line != 0 && w.Index == f.Line {
			line = w.Name
		}
	}
	from := Spot{WAN: line, Addr: f.From.Addr()}
	if !f.In {
		from = r.spot(f.From.Addr())
	} else if line == "" {
		return Explanation{Verdict: Dropped, By: "nowhere"} // the line went with the file, and its cable
	}
	fl := Flow{From: from, To: r.spot(f.To.Addr()), Protocol: f.Protocol, Port: f.To.Port()}
	if f.Protocol == config.ICMP {
		fl.Port = 0
	}
	return r.House.explain(&explain{Flow: fl, line: line, silent: true}, f.To.Addr().Is6())
}

// spot is where an address is, and whose it is.
func (r reviewer) spot(a netip.Addr) Spot {
	s, ok := r.spots[a]
	if !ok {
		s = r.House.known(r.Locate(a), r.known)
		r.spots[a] = s
	}
	return s
}

// strayed says whether a route of the file keeps a flow from the line that it is on.
func strayed(r *config.Route, line string) bool {
	return r.Way == config.Only && !slices.Contains(r.WANs, line) || r.Way == config.Never && slices.Contains(r.WANs, line)
}
