package kernel

import (
	"encoding/binary"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/plan"
)

const (
	ctDelete   = 1<<8 | 2 // NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE
	ctMark     = 8        // CTA_MARK
	ctMarkMask = 21       // CTA_MARK_MASK
)

// deleteFlows deletes conntrack entries by mark, in one request: the kernel
// walks its table, and nobody else does (ctnetlink_flush_conntrack).
func (s *space) deleteFlows(f plan.DeleteFlows) error {
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		e.ByteOrder = binary.BigEndian
		e.Uint32(ctMark, f.Mark)
		e.Uint32(ctMarkMask, f.Mask)
	})
	if err != nil {
		return err
	}
	// A version of 1 has the kernel look at the family.
	family, version := uint8(unix.AF_UNSPEC), uint8(0)
	switch f.Family {
	case 4:
		family, version = unix.AF_INET, 1
	case 6:
		family, version = unix.AF_INET6, 1
	}
	err = request(s.nf, ctDelete, 0, append(nfgen(family, version), data...))
	if gone(err) {
		return nil
	}
	return err
}
