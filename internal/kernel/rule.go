package kernel

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/plan"
)

// The values of a rule's action (FR_ACT_..., linux/fib_rules.h).
const (
	actTable       = 1
	actBlackhole   = 6
	actUnreachable = 7
)

// ruleInvert is FIB_RULE_INVERT.
const ruleInvert = 2

// rulemsg is struct fib_rule_hdr.
func rulemsg(family uint8, table int, action uint8) []byte {
	b := make([]byte, 12)
	b[0], b[7] = family, action
	if table < 256 {
		b[4] = uint8(table)
	}
	return b
}

func (s *space) rules() ([]plan.Rule, error) {
	var out []plan.Rule
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		msgs, err := dump(s.route, unix.RTM_GETRULE, rulemsg(family, 0, 0))
		if family == unix.AF_INET6 && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("list rules in %s: %w", place(s.name), err)
		}
		for _, m := range msgs {
			if m.Header.Type != unix.RTM_NEWRULE {
				continue
			}
			r, err := parseRule(m.Data)
			if err != nil {
				return nil, fmt.Errorf("list rules in %s: %w", place(s.name), err)
			}
			out = append(out, r)
		}
	}
	return out, nil
}

func parseRule(b []byte) (plan.Rule, error) {
	if len(b) < 12 {
		return plan.Rule{}, short("rule", b)
	}
	var r plan.Rule
	r.V6 = b[0] == unix.AF_INET6
	r.Table = int(b[4])
	var other []string
	if b[1] != 0 {
		other = append(other, "to some destinations")
	}
	if b[2] != 0 {
		other = append(other, "from some sources")
	}
	if b[3] != 0 {
		other = append(other, fmt.Sprintf("tos %#x", b[3]))
	}
	if native.Uint32(b[8:])&ruleInvert != 0 {
		other = append(other, "not")
	}
	switch b[7] {
	case actTable:
	case actBlackhole:
		r.Action = desired.Blackhole
	case actUnreachable:
		r.Action = desired.Unreachable
	default:
		other = append(other, fmt.Sprintf("action %d", b[7]))
	}
	err := decode(b[12:], func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.FRA_PRIORITY:
			r.Pref = int(d.Uint32())
		case unix.FRA_TABLE:
			r.Table = int(d.Uint32())
		case unix.FRA_FWMARK:
			r.Mark = d.Uint32()
		case unix.FRA_FWMASK:
			r.Mask = d.Uint32()
		case unix.FRA_OIFNAME:
			r.OIF = d.String()
		case unix.FRA_PROTOCOL:
			r.Proto = int(d.Uint8())
		case unix.FRA_IP_PROTO:
			r.IPProto = d.Uint8()
		case unix.FRA_IIFNAME:
			other = append(other, "iif "+d.String())
		case unix.FRA_SUPPRESS_PREFIXLEN: // always there
			if n := int32(d.Uint32()); n >= 0 {
				other = append(other, fmt.Sprintf("suppress_prefixlength %d", n))
			}
		case unix.FRA_SUPPRESS_IFGROUP:
			other = append(other, fmt.Sprintf("suppress_ifgroup %d", d.Uint32()))
		case unix.FRA_SRC, unix.FRA_DST, unix.FRA_PAD: // the lengths are in the header
		default: // ports, users, a VRF's table, or what a newer kernel has
			other = append(other, fmt.Sprintf("attribute %d", d.Type()))
		}
	})
	if r.Action != desired.Unicast {
		r.Table = 0
	}
	if r.Other = strings.Join(other, ", "); r.Other != "" {
		r.Raw = hex.EncodeToString(b)
	}
	return r, err
}

func (s *space) addRule(r plan.Rule) error {
	return s.ruleRequest(unix.RTM_NEWRULE, netlink.Create|netlink.Excl, r)
}

func (s *space) deleteRule(r plan.Rule) error {
	return s.ruleRequest(unix.RTM_DELRULE, 0, r)
}

func (s *space) ruleRequest(typ netlink.HeaderType, flags netlink.HeaderFlags, r plan.Rule) error {
	if r.Raw != "" {
		raw, err := hex.DecodeString(r.Raw)
		if err != nil {
			return err
		}
		return s.request(s.route, typ, flags, raw)
	}
	family := uint8(unix.AF_INET)
	if r.V6 {
		family = unix.AF_INET6
	}
	action := map[desired.RouteType]uint8{desired.Unicast: actTable, desired.Unreachable: actUnreachable, desired.Blackhole: actBlackhole}[r.Action]
	table := r.Table
	if r.Action != desired.Unicast {
		table = 0
	}
	data, err := attrs(func(e *netlink.AttributeEncoder) {
		e.Uint32(unix.FRA_PRIORITY, uint32(r.Pref))
		if table >= 256 {
			e.Uint32(unix.FRA_TABLE, uint32(table))
		}
		if r.Mark != 0 || r.Mask != 0 {
			e.Uint32(unix.FRA_FWMARK, r.Mark)
			e.Uint32(unix.FRA_FWMASK, r.Mask)
		}
		if r.OIF != "" {
			e.String(unix.FRA_OIFNAME, r.OIF)
		}
		if r.IPProto != 0 {
			e.Uint8(unix.FRA_IP_PROTO, r.IPProto)
		}
		e.Uint8(unix.FRA_PROTOCOL, uint8(r.Proto))
	})
	if err != nil {
		return err
	}
	return s.request(s.route, typ, flags, append(rulemsg(family, table, action), data...))
}
