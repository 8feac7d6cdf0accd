package kernel

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// FlowsAsked says which conversations UnderWay looks for: those that From began
// with To. What is zero is any.
type FlowsAsked struct {
	Family   int        // 4 or 6
	Protocol uint8      // IPPROTO_*
	From, To netip.Addr // as who began it says them
	Port     uint16     // of To
}

// FlowsUnderWay are conversations that have a line in common.
type FlowsUnderWay struct {
	Mark   uint32     // of conntrack, the bits of the question
	Source netip.Addr // of one of them, as its far end sees it
	Count  int
}

// UnderWay counts the conversations of main that are under way, apart by the bits
// of their conntrack mark that are in mask. It reads the table and changes nothing;
// the table's order is theirs.
func UnderWay(q FlowsAsked, mask uint32) ([]FlowsUnderWay, error) {
	var out []FlowsUnderWay
	err := entries("", q.Family, nil, func(e entry) {
		if !q.asks(e) {
			return
		}
		mark := e.mark & mask
		for i := range out {
			if out[i].Mark == mark {
				out[i].Count++
				return
			}
		}
		out = append(out, FlowsUnderWay{Mark: mark, Source: e.seen.Addr(), Count: 1})
	})
	return out, err
}

func (q FlowsAsked) asks(e entry) bool {
	switch {
	case e.proto != q.Protocol, !e.client.IsValid(),
		q.From.IsValid() && e.client.Addr() != q.From,
		q.To.IsValid() && e.server.Addr() != q.To,
		q.Port != 0 && e.server.Port() != q.Port:
		return false
	}
	return e.proto != unix.IPPROTO_TCP || e.state < tcpTimeWait
}
