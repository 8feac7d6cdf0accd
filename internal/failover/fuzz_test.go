package failover

import (
	"slices"
	"testing"
	"time"
)

// FuzzMachine feeds inputs in any order, foreign and stale ones too, and holds
// what must be true after every Tick.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{2, 0, 0, 200, 1, 4, 90, 90, 5, 0, 200, 200, 200, 200})
	f.Add([]byte{3, 2, 2, 2, 0, 0, 60, 3, 0, 0, 3, 1, 0, 4, 4, 4, 9, 8})
	f.Add([]byte{10, 1, 2, 0, 9, 9, 9, 7, 7, 7, 6, 5, 4, 3, 2, 1, 0, 11, 250})
	f.Fuzz(func(t *testing.T, in []byte) {
		cfg := calm()
		person := ""
		m, now := New(cfg, epoch), epoch
		var open []Probe
		seen := uint64(0)
		ready, dark := map[LineID]bool{}, map[string]bool{}
		ids := []LineID{fiber, lte, {"fiber", IPv6}, {"lte", IPv6}, {"gone", IPv4}}
		for len(in) >= 2 {
			op, arg := in[0], in[1]
			in = in[2:]
			id := ids[int(arg)%len(ids)]
			var p Probe
			if len(open) > 0 {
				p = open[int(arg)%len(open)]
			}
			switch op % 14 {
			case 0, 1:
				now = now.Add(time.Duration(arg) * 5 * time.Millisecond)
			case 2:
				ready[id] = arg&64 == 0
				m.Line(now, id, ready[id])
			case 3:
				dark[id.WAN] = arg&64 != 0
				m.Carrier(now, id.WAN, !dark[id.WAN], uint32(arg))
			case 4, 5:
				m.Sent(now, p.ID)
			case 6, 7, 8:
				m.Reply(now, p.ID, time.Duration(arg)*10*time.Millisecond)
			case 9:
				m.Error(now, p.ID, "refused")
			case 10:
				m.Void(now)
			case 11:
				cfg.Prefer = [][]string{{"fiber", "lte"}, {"lte"}, nil, {"lte", "fiber", "gone"}}[arg%4]
				m.Configure(now, cfg)
			case 12:
				m.Traffic(now, id, Counts{Packets: uint64(arg), Answers: uint64(arg / 8)})
			case 13:
				person = []string{"fiber", "lte", "", "gone"}[arg%4]
				m.Use(now, person)
			}
			out := m.Tick(now)
			if !out.Next.IsZero() && !out.Next.After(now) {
				t.Fatalf("asks to be called at %v, which is not after now", out.Next.Sub(now))
			}
			for _, p := range out.Probes {
				if p.ID <= seen {
					t.Fatalf("probe %d comes after %d", p.ID, seen)
				}
				seen = p.ID
				if !ready[p.Line] || dark[p.Line.WAN] {
					t.Fatalf("%v is asked without address or carrier", p.Line)
				}
			}
			open = append(open, out.Probes...)
			s := m.Status()
			for fam, use := range map[Family]string{IPv4: s.Use4.WAN, IPv6: s.Use6.WAN} {
				best := ""
				for _, l := range s.Lines {
					if l.Family != fam {
						continue
					}
					if l.Verdict.Works() && (!ready[l.LineID] || dark[l.WAN]) {
						t.Fatalf("%v is %v without address or carrier", l.LineID, l.Verdict)
					}
					if l.Verdict.Works() && (l.WAN == person || slices.Contains(cfg.Prefer, l.WAN)) {
						best = l.WAN
					}
					if l.WAN == use && !l.Verdict.Works() {
						t.Fatalf("%v is in use and %v", l.LineID, l.Verdict)
					}
				}
				if use == "" && best != "" {
					t.Fatalf("nothing is in use for %v, and %s works", fam, best)
				}
				if use != "" && use != person && !slices.Contains(cfg.Prefer, use) {
					t.Fatalf("%s is in use and not in prefer", use)
				}
			}
		}
	})
}
