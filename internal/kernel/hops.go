package kernel

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Next hops of a route that has several: struct rtnexthop (length, flags,
// weight less one, ifindex) with attributes, one after the other. weir has no
// such routes; it may meet one of somebody else's and have to put it back.

// parseHops words next hops as ip-route(8) does. No hops are "".
func parseHops(b []byte, names map[int]string) (string, error) {
	var out []string
	for len(b) > 0 {
		if len(b) < unix.SizeofRtNexthop {
			return "", short("next hop", b)
		}
		n := int(native.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			return "", short("next hop", b)
		}
		hop := "nexthop"
		if err := decode(b[unix.SizeofRtNexthop:n], func(d *netlink.AttributeDecoder) {
			if d.Type() == unix.RTA_GATEWAY {
				if a, ok := netip.AddrFromSlice(d.Bytes()); ok {
					hop += " via " + a.String()
				}
			}
		}); err != nil {
			return "", err
		}
		hop += fmt.Sprintf(" dev %s weight %d", names[int(native.Uint32(b[4:]))], int(b[3])+1)
		if b[2]&rtnhOnLink != 0 {
			hop += " onlink"
		}
		out = append(out, hop)
		b = b[min(len(b), (n+3)&^3):]
	}
	return strings.Join(out, " "), nil
}

// encodeHops is the reverse of parseHops.
func (s *space) encodeHops(text string) ([]byte, error) {
	var out []byte
	for hop := range strings.SplitSeq(text, "nexthop ") {
		words := strings.Fields(hop)
		if len(words) == 0 {
			continue
		}
		head := make([]byte, unix.SizeofRtNexthop)
		var gateway []byte
		for i, w := range words {
			value := ""
			if i+1 < len(words) {
				value = words[i+1]
			}
			switch w {
			case "via":
				a, err := netip.ParseAddr(value)
				if err != nil {
					return nil, err
				}
				if gateway, err = attrs(func(e *netlink.AttributeEncoder) { e.Bytes(unix.RTA_GATEWAY, a.AsSlice()) }); err != nil {
					return nil, err
				}
			case "dev":
				index, err := s.linkIndex(value)
				if err != nil {
					return nil, err
				}
				native.PutUint32(head[4:], uint32(index))
			case "weight":
				n, err := strconv.Atoi(value)
				if err != nil {
					return nil, err
				}
				head[3] = uint8(n - 1)
			case "onlink":
				head[2] = rtnhOnLink
			}
		}
		native.PutUint16(head, uint16(len(head)+len(gateway)))
		out = append(append(out, head...), gateway...)
	}
	return out, nil
}
