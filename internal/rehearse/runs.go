package rehearse

import (
	"syscall"
)

// Runs are the labs that a file is rehearsed in, the longest first, each with its
// acts in order.
func Runs(s *Site, long bool) []Run {
	steady := Run{Name: "steady", About: "the house as it should be"}
	add := func(a ...Act) { steady.Acts = append(steady.Acts, a...) }
	for i := range s.LANs {
		l := &s.LANs[i]
		if l.DHCP.Enabled {
			add(leaseAct(l))
		}
		if l.Advertise.Enabled {
			add(advertiseAct(l))
		}
		add(nameAct(l))
		for _, v6 := range []bool{false, true} {
			if len(s.Order(v6)) > 0 && (!v6 || l.Advertise.Enabled || len(l.Address6) > 0) {
				add(outAct(s, l, v6))
			}
		}
	}
	for i := range s.LANs {
		for j := range s.LANs {
			if i != j {
				add(policyAct(s, &s.LANs[i], &s.LANs[j]))
			}
		}
	}
	add(s.forwards()...)
	for _, l := range s.Lines {
		for _, v6 := range []bool{false, true} {
			if has(&l, v6) {
				add(closedAct(s, l.Name, v6))
			}
		}
	}
	if len(s.Lines) > 0 && len(s.LANs) > 0 {
		add(restartAct(s, "KILL", syscall.SIGKILL), restartAct(s, "TERM", syscall.SIGTERM))
	}
	add(leakAct(s, steady.Name))
	return []Run{steady}
}

// forwards are the acts of all forwards by all their lines.
func (s *Site) forwards() []Act {
	var out []Act
	for i := range s.Config.Forwards {
		f := &s.Config.Forwards[i]
		if !s.hasLAN(f.LAN) {
			continue
		}
		for _, wan := range f.On {
			l := s.Line(wan)
			if l == nil {
				continue
			}
			if f.To4.IsValid() && has(l, false) {
				out = append(out, forwardAct(s, f, wan, false))
			}
			if f.To6.IsValid() && has(l, true) {
				out = append(out, forwardAct(s, f, wan, true))
			}
		}
	}
	return out
}

func (s *Site) hasLAN(name string) bool {
	for _, l := range s.LANs {
		if l.Name == name {
			return true
		}
	}
	return false
}
