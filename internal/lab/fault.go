package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// faultPriority is the place of the rule that drops what an ISP's router
// forwards: after table local, since what is for the router itself arrives, and
// before main.
const faultPriority = 10

// Dark cuts the line behind the ISP's router, in silence: nothing passes from or
// to the customer, the link and the router's own addresses stay.
func (i *ISP) Dark(on bool) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		for _, dev := range []string{"cust0", "up0"} {
			r := netlink.NewRule()
			r.Priority, r.Family, r.IifName, r.Type = faultPriority, family, dev, unix.FR_ACT_BLACKHOLE
			r.Table = unix.RT_TABLE_UNSPEC
			f := i.Router.nl.RuleDel
			if on {
				f = i.Router.nl.RuleAdd
			}
			if err := f(r); err != nil {
				return fmt.Errorf("let isp-%s go dark (%v): %w", i.Name, on, err)
			}
		}
	}
	return nil
}
