package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/plan"
)

// Messages and attributes of ctnetlink (linux/netfilter/nfnetlink_conntrack.h).
const (
	ctSubsys = 1 << 8       // NFNL_SUBSYS_CTNETLINK
	ctNew    = ctSubsys     // IPCTNL_MSG_CT_NEW, 0: an entry
	ctGet    = ctSubsys | 1 // IPCTNL_MSG_CT_GET
	ctDelete = ctSubsys | 2 // IPCTNL_MSG_CT_DELETE

	ctTupleOrig  = 1 // CTA_TUPLE_ORIG
	ctTupleReply = 2 // CTA_TUPLE_REPLY
	ctStatus     = 3 // CTA_STATUS
	ctProtoInfo  = 4 // CTA_PROTOINFO
	ctMark       = 8 // CTA_MARK

	ctCountersOrig  = 9  // CTA_COUNTERS_ORIG
	ctCountersReply = 10 // CTA_COUNTERS_REPLY
	ctID            = 12 // CTA_ID

	ctMarkMask   = 21 // CTA_MARK_MASK
	ctStatusMask = 26 // CTA_STATUS_MASK

	seenReply = 1 << 1 // IPS_SEEN_REPLY: something came back
)

// deleteFlows deletes conntrack entries by mark, those first that somebody answers: a
// full table is mostly of what nobody did, and to find the calls in it takes a third
// of the time of emptying it. Who is prodded has waited for seconds.
func (s *space) deleteFlows(f plan.DeleteFlows) error {
	if !f.Unanswered && !f.Prod {
		if err := s.deleteThose(f, seenReply); err != nil {
			return err
		}
	}
	return s.deleteThose(f, 0)
}

// deleteThose deletes those of f that have a status besides, in one request: the kernel
// walks its table, and nobody else does (ctnetlink_flush_conntrack).
func (s *space) deleteThose(f plan.DeleteFlows, status uint32) error {
	data, err := flowFilter(f, status)
	if err != nil {
		return err
	}
	// A version of 1 has the kernel look at the family.
	version := uint8(1)
	if f.Family == 0 {
		version = 0
	}
	err = s.request(s.nf, ctDelete, 0, append(nfgen(flowFamily(f.Family), version), data...))
	if gone(err) {
		return nil
	}
	return err
}

func flowFamily(family int) uint8 {
	switch family {
	case 4:
		return unix.AF_INET
	case 6:
		return unix.AF_INET6
	}
	return unix.AF_UNSPEC
}

// flowFilter is the kernel's own filter for the flows that f is about, and that have a
// status besides; 0: any. A kernel before 5.16 does not look at the status, and takes
// answered ones for unanswered: they lose their grace, and nothing else.
func flowFilter(f plan.DeleteFlows, status uint32) ([]byte, error) {
	return attrs(func(e *netlink.AttributeEncoder) {
		e.ByteOrder = binary.BigEndian
		e.Uint32(ctMark, f.Mark)
		e.Uint32(ctMarkMask, f.Mask)
		if f.Unanswered {
			e.Uint32(ctStatus, 0)
			e.Uint32(ctStatusMask, seenReply)
		} else if status != 0 {
			e.Uint32(ctStatus, status)
			e.Uint32(ctStatusMask, status)
		}
	})
}

// flowCount is how many conntrack entries there are in the namespace.
func (s *space) flowCount() (int, error) {
	const key = "net/netfilter/nf_conntrack_count"
	v, err := s.sysctls([]string{key})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(v[key]))
}

// FlowsEnded says what became of flows that a step ended.
type FlowsEnded struct {
	Mark   uint32 // the step's
	Family int    // 4, 6, or 0 for both

	// Deleted is by how much conntrack's table shrank: what came to be meanwhile
	// makes it less.
	Deleted int

	// Prod says that TCP connections were to be told. Prodded are those whose
	// client was prodded, Reset the resets that weir's rules sent meanwhile, and
	// Beyond those that were too many (maxProd) or could not be sent to.
	Prod                   bool
	Prodded, Reset, Beyond int

	Err error // they go on: the next plan has the same step again
}

// tryFlows ends flows, or keeps in mind that they are to be ended.
func (k *Kernel) tryFlows(f plan.DeleteFlows) {
	s, err := k.space("")
	if err == nil {
		err = k.endFlows(s, f)
	}
	k.due = slices.DeleteFunc(k.due, func(d plan.DeleteFlows) bool { return d == f })
	if err != nil {
		k.due = append(k.due, f)
		k.log.Error("flows could not be ended, and go on as they were; it is tried again", "mark", fmt.Sprintf("%#x/%#x", f.Mark, f.Mask), "err", err)
		k.flowsEnded(FlowsEnded{Mark: f.Mark, Family: f.Family, Err: err})
	}
}

// endFlows carries out a plan.DeleteFlows and tells of it. Prodding goes on after
// it has returned.
func (k *Kernel) endFlows(s *space, f plan.DeleteFlows) error {
	ended := FlowsEnded{Mark: f.Mark, Family: f.Family, Prod: f.Prod}
	before, err := s.flowCount()
	if err != nil {
		k.log.Debug("flows can't be counted", "err", err)
	}
	var waiting []connection
	if f.Prod {
		// Before they are deleted: afterwards nobody knows them. What goes wrong
		// here must not keep flows on a dead line.
		waiting, ended.Beyond, err = s.connections(f, maxProd)
		if err != nil {
			k.log.Warn("connections that only wait can't be told that their line is gone", "err", err)
		}
	}
	if err := s.deleteFlows(f); err != nil {
		return err
	}
	if after, err := s.flowCount(); err == nil {
		ended.Deleted = max(0, before-after)
	}
	if len(waiting) == 0 {
		k.flowsEnded(ended)
		return nil
	}
	k.prods.Go(func() {
		n, reset, err := k.prod(waiting)
		ended.Prodded, ended.Reset = n, reset
		ended.Beyond += len(waiting) - n
		if err != nil {
			k.log.Warn("not all connections that only wait were told that their line is gone", "told", n, "of", len(waiting), "err", err)
		}
		k.flowsEnded(ended)
	})
	return nil
}

func (k *Kernel) flowsEnded(e FlowsEnded) {
	if k.opt.FlowsEnded != nil {
		k.opt.FlowsEnded(e)
	}
}
