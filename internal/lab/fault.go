package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Rules of an ISP's router by which a fault drops what it forwards. They stand
// after table local: what is for the router itself arrives; and before main.
const (
	sparePriority = 9
	faultPriority = 10
)

// Dark cuts the line behind the ISP's router, in silence: nothing passes from or
// to the customer, the link and the router's own addresses stay.
func (i *ISP) Dark(on bool) error {
	return i.fault(on, "go dark", faultPriority, unix.FR_ACT_BLACKHOLE, 0)
}

// OnlyPings has nothing pass but ICMP: who looks by echoes alone sees a line that
// works.
func (i *ISP) OnlyPings(on bool) error {
	for _, proto := range []int{unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6} {
		if err := i.fault(on, "pass pings", sparePriority, unix.FR_ACT_TO_TBL, proto); err != nil {
			return err
		}
	}
	return i.fault(on, "pass only pings", faultPriority, unix.FR_ACT_BLACKHOLE, 0)
}

// NoPings has all pass but ICMP, as some providers' networks do.
func (i *ISP) NoPings(on bool) error {
	for _, proto := range []int{unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6} {
		if err := i.fault(on, "pass no pings", faultPriority, unix.FR_ACT_BLACKHOLE, proto); err != nil {
			return err
		}
	}
	return nil
}

// fault sets or takes a rule for what the router forwards either way; proto 0 is
// all of it.
func (i *ISP) fault(on bool, what string, priority int, action uint8, proto int) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		for _, dev := range []string{"cust0", "up0"} {
			r := netlink.NewRule()
			r.Priority, r.Family, r.IifName, r.Type = priority, family, dev, action
			r.IPProto = proto
			r.Table = unix.RT_TABLE_UNSPEC
			if action == unix.FR_ACT_TO_TBL {
				r.Table = unix.RT_TABLE_MAIN
			}
			f := i.Router.nl.RuleDel
			if on {
				f = i.Router.nl.RuleAdd
			}
			if err := f(r); err != nil {
				return fmt.Errorf("let isp-%s %s (%v): %w", i.Name, what, on, err)
			}
		}
	}
	return nil
}
