package dhcpd

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
)

// Bounds of a reply, the IP and UDP headers (28 bytes) apart: RFC 2131, 2 has
// every client take 576 bytes; more if it says so (option 57), and an Ethernet
// frame holds 1500.
const (
	leastSize, mostSize = 576 - 28, 1500 - 28
	fixedSize           = 240 // before the options
)

// broadcastAddr is everybody on the link.
var broadcastAddr = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// reply makes an OFFER or ACK. An invalid address makes the ACK of an INFORM,
// which has no times.
func (s *scope) reply(p *dhcpv4.DHCPv4, c client, t dhcpv4.MessageType, a netip.Addr, d time.Duration, from ether.MAC) Reply {
	if isBOOTP(p) {
		return s.bootReply(p, c, a, from)
	}
	r := s.empty(p, t)
	if a.IsValid() {
		r.YourIPAddr = a.AsSlice()
		r.UpdateOption(dhcpv4.OptIPAddressLeaseTime(d))
	}
	if t == dhcpv4.MessageTypeAck {
		r.ClientIPAddr = p.ClientIPAddr
	}
	set, all := s.options(p, c)
	s.boot(p, r, set)
	if a.IsValid() {
		set[58] = dhcpv4.Duration(d / 2).ToBytes()
		set[59] = dhcpv4.Duration(d - d/8).ToBytes()
	}

	// What the client asked for, in its order: if there is no room for all, it
	// knows best. Who asks for nothing in particular gets what everybody needs.
	limit := leastSize
	if m, err := p.MaxMessageSize(); err == nil {
		limit = min(max(int(m)-28, leastSize), mostSize)
	}
	list := p.Options.Get(dhcpv4.OptionParameterRequestList)
	if len(list) == 0 {
		list = append([]byte{1, 3, 6, 15, 28, 26, 58, 59}, all...)
	} else if !slices.Contains(list, 1) {
		list = append([]byte{1}, list...) // nobody can do without
	}
	fill(r, set, list, limit)
	return s.addressed(p, r, from)
}

// fill puts options into a message, in the order of a list, as long as there is
// room for them.
func fill(r *dhcpv4.DHCPv4, set map[uint8][]byte, list []byte, limit int) {
	size := fixedSize + 1
	for _, b := range r.Options {
		size += optionSize(b)
	}
	for _, code := range list {
		b, ok := set[code]
		if n := optionSize(b); ok && len(b) > 0 && !r.Options.Has(dhcpv4.GenericOptionCode(code)) && size+n <= limit {
			r.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(code), b))
			size += n
		}
	}
}

// options are those that a client can have; all has the codes of those that the
// file says for it.
func (s *scope) options(p *dhcpv4.DHCPv4, c client) (set map[uint8][]byte, all []byte) {
	set = map[uint8][]byte{}
	mask := net.CIDRMask(c.net.Prefix.Bits(), 32)
	set[1] = mask
	net4 := c.net.Prefix.Addr().As4()
	set[28] = net.IP{net4[0] | ^mask[0], net4[1] | ^mask[1], net4[2] | ^mask[2], net4[3] | ^mask[3]}
	if r := c.net.Router; r.Is4() {
		set[3] = r.AsSlice()
	} else if g := addrOf(p.GatewayIPAddr); c.net != s.nets[0] && c.net.Prefix.Contains(g) {
		set[3] = g.AsSlice()
	}
	for _, a := range s.lan.DNS {
		if a.Is4() {
			set[6] = append(set[6], a.AsSlice()...)
		}
	}
	if s.lan.Domain != "" {
		set[15] = []byte(s.lan.Domain)
	}
	if s.lan.MTU > 0 {
		set[26] = []byte{byte(s.lan.MTU >> 8), byte(s.lan.MTU)}
	}
	if h := s.host(c); h != nil && h.DNSName != "" {
		set[12] = []byte(h.DNSName)
	}
	var class []Option
	if k := s.class(p); k != nil {
		class = k.Options
	}
	for _, o := range slices.Concat(s.lan.Options, c.net.Options, class) {
		set[o.Code] = o.Data
		all = append(all, o.Code)
	}
	return set, all
}

// optionSize is what an option's value takes on the wire (RFC 3396).
func optionSize(b []byte) int { return len(b) + 2*max(1, (len(b)+254)/255) }

// nak refuses a request (RFC 2131, table 3).
func (s *scope) nak(p *dhcpv4.DHCPv4, from ether.MAC, why string) Reply {
	r := s.empty(p, dhcpv4.MessageTypeNak)
	r.UpdateOption(dhcpv4.OptMessage(why))
	if g := addrOf(p.GatewayIPAddr); !g.IsUnspecified() {
		r.SetBroadcast() // for the relay: the client has no usable address
		return s.addressed(p, r, from)
	}
	return Reply{LAN: s.lan.Name, Packet: r, MAC: ether.Broadcast, Dst: netip.AddrPortFrom(broadcastAddr, dhcpv4.ClientPort)}
}

// empty is a reply without anything particular in it; of no type: of BOOTP.
func (s *scope) empty(p *dhcpv4.DHCPv4, t dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	r := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootReply, HWType: p.HWType, TransactionID: p.TransactionID, Flags: p.Flags,
		GatewayIPAddr: p.GatewayIPAddr, ClientHWAddr: p.ClientHWAddr, Options: dhcpv4.Options{},
	}
	if t != dhcpv4.MessageTypeNone {
		r.UpdateOption(dhcpv4.OptMessageType(t))
		r.UpdateOption(dhcpv4.OptServerIdentifier(s.serverID(p).AsSlice()))
	}
	// RFC 6842 and RFC 3046 want these back as they came.
	for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionClientIdentifier, dhcpv4.OptionRelayAgentInformation} {
		if t == dhcpv4.MessageTypeNone && code == dhcpv4.OptionClientIdentifier {
			continue // DHCP's
		}
		if b := p.Options.Get(code); b != nil {
			r.UpdateOption(dhcpv4.OptGeneric(code, b))
		}
	}
	return r
}

// serverID is who we are to a client: the gateway, or what its relay wants to be
// taken for (RFC 5107).
func (s *scope) serverID(p *dhcpv4.DHCPv4) netip.Addr {
	if a := relayed(p, serverIDOverride); a.IsValid() {
		return a
	}
	return s.lan.Address.Addr()
}

// addressed says where a reply goes (RFC 2131, 4.1).
func (s *scope) addressed(p, r *dhcpv4.DHCPv4, from ether.MAC) Reply {
	out := Reply{LAN: s.lan.Name, Packet: r}
	switch giaddr, ciaddr := addrOf(p.GatewayIPAddr), addrOf(p.ClientIPAddr); {
	case !giaddr.IsUnspecified():
		out.MAC, out.Dst = from, netip.AddrPortFrom(giaddr, dhcpv4.ServerPort)
	case !ciaddr.IsUnspecified():
		out.MAC, out.Dst = from, netip.AddrPortFrom(ciaddr, dhcpv4.ClientPort)
	case p.IsBroadcast():
		out.MAC, out.Dst = ether.Broadcast, netip.AddrPortFrom(broadcastAddr, dhcpv4.ClientPort)
	default:
		// The client has no address yet and answers no ARP: the frame goes to
		// its Ethernet address.
		out.MAC, out.Dst = ether.MAC(p.ClientHWAddr), netip.AddrPortFrom(addrOf(r.YourIPAddr), dhcpv4.ClientPort)
	}
	return out
}
