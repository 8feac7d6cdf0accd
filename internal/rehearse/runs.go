package rehearse

import (
	"context"
	"slices"
	"syscall"
	"time"

	"weir/internal/config"
)

// Runs are the labs that a file is rehearsed in, the longest first, each with its
// acts in order. long is the pace of what takes minutes; nil leaves it out.
func Runs(s *Site, long *Pace) []Run {
	s.standIns()
	steady := Run{Name: "steady", About: "the house as it should be"}
	add := func(a ...Act) { steady.Acts = append(steady.Acts, a...) }
	for i := range s.LANs {
		l := &s.LANs[i]
		if l.DHCP.Enabled {
			add(leaseAct(l))
			add(leaseWordsActs(s, l)...)
		}
		if l.DHCP6.Managed || l.DHCP6.Delegate > 0 {
			add(lease6Act(s, l))
		}
		if l.Advertise.Enabled {
			add(advertiseAct(l))
		}
		add(nameAct(l), withheldAct(s, l))
		if s.Config.NeedsBIND() {
			add(recordAct(l))
		}
		if s.givesTime() {
			add(timeAct(l))
		}
		for _, v6 := range []bool{false, true} {
			if len(s.Order(v6)) > 0 && (!v6 || l.Advertise.Enabled || len(l.Address6) > 0) {
				add(outAct(s, l, v6))
			}
		}
		for k := range l.Interface[1:] {
			add(portAct(l, k))
		}
	}
	for i := range s.LANs {
		for j := range s.LANs {
			if i != j {
				add(policyAct(&s.LANs[i], &s.LANs[j]))
			}
		}
	}
	for i := range s.LANs {
		add(selfAct(&s.LANs[i]))
	}
	for i := range s.Config.Rules {
		if act, ok := ruleAct(s, &s.Config.Rules[i]); ok {
			add(act)
		}
	}
	add(s.forwards()...)
	for _, l := range s.Lines {
		for _, v6 := range []bool{false, true} {
			if has(&l, v6) {
				add(closedAct(l.Name, v6), closedUDPAct(l.Name, v6))
			}
		}
	}
	if len(s.Lines) > 0 && len(s.LANs) > 0 {
		add(restartAct(s, "KILL", syscall.SIGKILL), restartAct(s, "TERM", syscall.SIGTERM))
	}
	s.unhurried = long != nil
	if !s.returns() {
		s.omit(false, "a line's return", "hold_down is %s: --long waits for it", seconds(s.Config.Failover.HoldDown))
	}
	var runs []Run
	bare := slices.ContainsFunc(s.LANs, func(l LAN) bool { return s.free(&l) }) // somebody shows what the house does without routes
	if bare && long != nil {
		runs = s.longRuns(*long)
	}
	if bare {
		runs = append(runs, s.losses()...)
	}
	runs = append(runs, steady)
	if bare {
		runs = append(runs, s.rough()...)
		runs = append(runs, s.kinds()...)
	}
	if run, ok := s.routeRun(); ok {
		runs = append(runs, run)
	}
	runs = append(runs, s.delegated()...)
	runs = append(runs, s.oddities()...)
	for i := range runs {
		runs[i].Acts = append(runs[i].Acts, leakAct(s, runs[i].Name))
	}
	return runs
}

// losses are the runs in which lines are lost: each way to lose a line in use has
// a lab of its own, for it waits out the file's hold-down; lines in reserve share
// one, as do what their ISPs' DHCP servers do.
func (s *Site) losses() []Run {
	var runs []Run
	var waits time.Duration
	reserve := Run{Name: "reserve", About: "lines in reserve lost"}
	for i := range s.Lines {
		l := &s.Lines[i]
		inUse := s.first(false) == l.Name || s.first(true) == l.Name
		for _, w := range ways {
			run := Run{Name: w.word + "-" + l.Name, About: l.Name + " " + w.about, Takes: s.minutes(s.most(w, l.Name), s.again(w, l.Name))}
			tap := w.word == "carrier" && s.Machine.TAP == "" && l.VLAN == 0 && !s.shared(l.Port)
			if act, ok := lossAct(s, w, l.Name); ok {
				run.Acts = append(run.Acts, act)
			}
			if act, ok := aloneAct(s, w, l.Name); ok {
				run.Acts = append(run.Acts, act)
			}
			if run.Acts != nil {
				if tap {
					run.Variant.TAP = []string{l.Name}
				}
				runs = append(runs, run)
			} else if !inUse {
				if tap {
					reserve.Variant.TAP = append(reserve.Variant.TAP, l.Name)
				}
				reserve.Acts = append(reserve.Acts, promised(l.Name+", in reserve, "+w.about, l.Name, false, reserveAct(s, w, l.Name)))
				waits += s.lostFor(w, l.Name) + s.again(w, l.Name)
			}
		}
		if !l.DHCP {
			if l.Prefix6.IsValid() {
				runs = append(runs, Run{Name: "renumber-" + l.Name, About: "the ISP of " + l.Name + " renumbers", Acts: []Act{renumberAct(s, l.Name)}})
			}
			continue
		}
		nak := Run{Name: "nak-" + l.Name, About: "the ISP of " + l.Name + " refuses to renew, and renumbers", Variant: Variant{Lease: shortLease}}
		nak.Acts = []Act{nakAct(s, l.Name), renumberAct(s, l.Name)}
		deaf := Run{Name: "deaf-" + l.Name, About: "the DHCP server of " + l.Name + " goes deaf", Variant: Variant{Lease: shortLease}}
		deaf.Acts = []Act{deafAct(s, l.Name)}
		if inUse {
			runs = append(runs, deaf, nak)
		} else {
			deaf.Name, deaf.Acts = "isp-"+l.Name, append(nak.Acts, deaf.Acts...)
			runs = append(runs, deaf)
		}
	}
	if order := s.Order(false); len(order) > 1 {
		reserve.Acts = append(reserve.Acts, blinkAct(s, order[1], order[0]))
	}
	if len(s.Lines) > 1 {
		reserve.Acts = append(reserve.Acts, blackoutAct(s))
	}
	if reserve.Acts != nil {
		if waits > patient {
			reserve.Takes = waits + around
		}
		runs = append(runs, reserve)
	}
	return runs
}

// first is the line that a family uses as long as all are well; "" is none.
func (s *Site) first(v6 bool) string {
	if order := s.Order(v6); len(order) > 0 {
		return order[0]
	}
	return ""
}

// only says whether a family has no other line.
func (s *Site) only(wan string, v6 bool) bool { return slices.Equal(s.Order(v6), []string{wan}) }

// shared says whether more than one WAN or LAN of the file uses a port.
func (s *Site) shared(port string) bool {
	n := 0
	for _, l := range s.Lines {
		if l.Port == port {
			n++
		}
	}
	for _, l := range s.LANs {
		for _, p := range l.Interface {
			if p == port {
				n++
			}
		}
	}
	return n > 1
}

// oddities are the runs with ISPs that number their customers unluckily.
func (s *Site) oddities() []Run {
	var runs []Run
	var dhcp []string
	for _, l := range s.Lines {
		if l.DHCP {
			dhcp = append(dhcp, l.Name)
		}
	}
	if order := s.Order(false); len(dhcp) > 1 && len(order) > 1 {
		run := Run{Name: "same", About: "all ISPs hand out the same address", Variant: Variant{Same: true}}
		run.Acts = append(run.Acts, prefixed("same", outAct(s, &s.LANs[0], false)))
		run.Acts = append(run.Acts, prefixedAll("same", s.forwards())...)
		run.Acts = append(run.Acts, prefixed("same", takeoverAct(order[0], order[1])))
		runs = append(runs, run)
	}
	if lan := &s.LANs[0]; len(dhcp) > 0 && lan.Spare4[1].IsValid() {
		wan := dhcp[0]
		run := Run{Name: "overlap", About: "the ISP of " + wan + " hands out the LAN's own network", Variant: Variant{OnLAN: wan}}
		if s.first(false) == wan {
			run.Acts = append(run.Acts, prefixed("overlap", outAct(s, lan, false)))
		}
		for _, f := range s.forwardsOf(wan) {
			// Under an address of their own network the LAN's clients look for the
			// gateway among themselves: there is no hairpin in IPv4.
			if f.To4.IsValid() {
				run.Acts = append(run.Acts, prefixed("overlap", forwardAct(s, f, wan, false, false)))
			}
			if (f.To6.IsValid() || f.Token6.IsValid()) && has(s.Line(wan), true) {
				run.Acts = append(run.Acts, prefixed("overlap", forwardAct(s, f, wan, true, f.Hairpin)))
			}
		}
		runs = append(runs, run)
	}
	return runs
}

// prefixed is an act whose drills have a word before their names.
func prefixed(word string, a Act) Act {
	out := Act{}
	for _, d := range a.Drills {
		out.Drills = append(out.Drills, name(word, d))
	}
	out.Do = func(ctx context.Context, b *Bench) []Result {
		results := a.Do(ctx, b)
		for i := range results {
			results[i].Drill = name(word, results[i].Drill)
		}
		return results
	}
	return out
}

func prefixedAll(word string, acts []Act) []Act {
	var out []Act
	for _, a := range acts {
		out = append(out, prefixed(word, a))
	}
	return out
}

// forwards are the acts of all forwards by all their lines.
func (s *Site) forwards() []Act {
	var out []Act
	for _, l := range s.Lines {
		out = append(out, s.forwardsBy(l.Name)...)
	}
	return out
}

// forwardsBy are the acts of all forwards by one line.
func (s *Site) forwardsBy(wan string) []Act {
	var out []Act
	l := s.Line(wan)
	for _, f := range s.forwardsOf(wan) {
		if f.To4.IsValid() && has(l, false) {
			out = append(out, forwardAct(s, f, wan, false, f.Hairpin))
		}
		if (f.To6.IsValid() || f.Token6.IsValid()) && has(l, true) {
			out = append(out, forwardAct(s, f, wan, true, f.Hairpin))
		}
	}
	return out
}

// forwardsOf are the forwards of one line whose LAN is rehearsed.
func (s *Site) forwardsOf(wan string) []*config.Forward {
	var out []*config.Forward
	for i := range s.Config.Forwards {
		if f := &s.Config.Forwards[i]; s.hasLAN(f.LAN) && slices.Contains(f.On, wan) {
			out = append(out, f)
		}
	}
	return out
}

func (s *Site) hasLAN(name string) bool {
	return slices.ContainsFunc(s.LANs, func(l LAN) bool { return l.Name == name })
}
