package main

import "fmt"

// full is the share of packets that is all of them: the rest met a neighbour's entry that
// was asked for again, or a sweep.
const full = 0.99

// fast is the share of the packets, both ways, that the gateway's own IPv4 did not see.
func (f figure) fast() float64 { return 1 - f.Slow/(f.Sent+f.Back) }

// judge says why a figure of packets is not one of what its row is to show.
func (k kind) judge(f figure) error {
	switch {
	case f.Sent == 0:
		return fmt.Errorf("nothing was sent")
	case f.Wrong > 0:
		return fmt.Errorf("%.0f of %.0f packets arrived with other addresses than they should have", f.Wrong, f.Sent)
	case f.Count == 0:
		return fmt.Errorf("it carries nothing: none of %.0f packets arrived", f.Sent)
	case f.Count < full*f.Sent:
		return fmt.Errorf("it lost packets: %.0f of %.0f arrived", f.Count, f.Sent)
	case k.fast && f.fast() < full:
		return fmt.Errorf("only %.2f of the packets were carried fast", f.fast())
	case f.Per <= 0:
		return fmt.Errorf("it took no time")
	}
	return nil
}
