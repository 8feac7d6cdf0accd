package rehearse

import (
	"context"
	"fmt"
)

// leakAct tells what each ISP's link has seen of the gateway since the lab was
// made. It stands last in a run.
func leakAct(s *Site, run string) Act {
	var drills []string
	for _, l := range s.Lines {
		drills = append(drills, name("leak", l.Name, run))
	}
	return Act{Drills: drills, Do: func(_ context.Context, b *Bench) []Result {
		var out []Result
		for i, l := range s.Lines {
			about := fmt.Sprintf("all that %s got had an address of the line, during all of %s", l.Name, run)
			isp := b.ISPs[l.Name]
			n, first := isp.Strays()
			switch lost := isp.Wire.Lost(); {
			case n > 0:
				out = append(out, fail(drills[i], about, "nothing from an inside or foreign address",
					fmt.Sprintf("%d frames: %v", n, first), "`nft list chain inet weir through` in wan-"+l.Name))
			case lost > 0:
				out = append(out, fail(drills[i], about, "every frame looked at", fmt.Sprintf("%d came too fast to be looked at", lost), "the lab: try again on a quieter machine"))
			default:
				out = append(out, pass(drills[i], about, packets("frames", isp.Wire.Count())))
			}
		}
		return out
	}}
}
