package dhcpd6

import (
	"encoding/hex"
	"net"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/ether"
	"weir/internal/state"
)

// maxHops is through how many relays a message may have come (RFC 8415, 7.6).
const maxHops = 8

// maxIAs is how many identity associations of a message are looked at: a device has
// one for each of its interfaces at most.
const maxIAs = 8

// query is a client's message and who sent it.
type query struct {
	*dhcpv6.Message
	relays []*dhcpv6.RelayMessage // the outermost first
	link   netip.Addr             // of the relay at the client: where that is; invalid: here
	from   netip.Addr             // the client's address, link-local as a rule
	duid   string                 // in hex; "" if it does not say who it is
	mac    string                 // "" if nothing says it
}

// ia is an identity association (RFC 8415, 4.2) as a client sends it.
type ia struct {
	pd    bool
	id    [4]byte
	addrs []netip.Addr   // IA_NA
	nets  []netip.Prefix // IA_PD
}

// parse reads what came in. ok is false for what is no message of a client or a
// relay, which is dropped (RFC 8415, 16).
func parse(b []byte, from netip.Addr, mac ether.MAC) (q query, ok bool) {
	if len(b) == 0 || b[0] == byte(dhcpv6.MessageTypeRelayForward) && !shallow(b) {
		return query{}, false
	}
	in, err := dhcpv6.FromBytes(b)
	if err != nil {
		return query{}, false
	}
	q = query{from: from, mac: mac.String()}
	if mac == (ether.MAC{}) || mac.IsGroup() {
		q.mac = ""
	}
	for in.IsRelay() {
		r, ok := in.(*dhcpv6.RelayMessage)
		if !ok || r.MessageType != dhcpv6.MessageTypeRelayForward {
			return query{}, false
		}
		q.relays = append(q.relays, r)
		q.from, q.mac = addr(r.PeerAddr), ""
		if a := addr(r.LinkAddr); a.IsGlobalUnicast() {
			q.link = a
		}
		if _, hw := r.Options.ClientLinkLayerAddress(); len(hw) == 6 { // RFC 6939
			q.mac = hw.String()
		}
		if in = r.Options.RelayMessage(); in == nil {
			return query{}, false
		}
	}
	if q.Message, ok = in.(*dhcpv6.Message); !ok {
		return query{}, false
	}
	if o := q.Options.Get(dhcpv6.OptionClientID); len(o) == 1 {
		if id := o[0].ToBytes(); len(id) >= 3 && len(id) <= 130 { // RFC 8415, 11.1
			q.duid = hex.EncodeToString(id)
		}
	}
	if q.mac == "" {
		q.mac = macOf(q.from, q.Options.ClientID())
	}
	return q, true
}

// macOf is the Ethernet address that an address was made of (RFC 4291, appendix A),
// or a DUID, which may be another card's of the same device; "" if neither says one.
func macOf(a netip.Addr, d dhcpv6.DUID) string {
	if b := a.As16(); a.Is6() && b[11] == 0xff && b[12] == 0xfe {
		return net.HardwareAddr{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}.String()
	}
	var hw net.HardwareAddr
	switch d := d.(type) {
	case *dhcpv6.DUIDLLT:
		if d.HWType == iana.HWTypeEthernet {
			hw = d.LinkLayerAddr
		}
	case *dhcpv6.DUIDLL:
		if d.HWType == iana.HWTypeEthernet {
			hw = d.LinkLayerAddr
		}
	}
	if len(hw) != 6 {
		return ""
	}
	return hw.String()
}

// ias are what a message asks for.
func (q query) ias() []ia {
	var out []ia
	for _, o := range q.Options.Options {
		if len(out) == maxIAs {
			break
		}
		switch o := o.(type) {
		case *dhcpv6.OptIANA:
			a := ia{id: o.IaId}
			for _, x := range o.Options.Addresses() {
				a.addrs = append(a.addrs, addr(x.IPv6Addr))
			}
			out = append(out, a)
		case *dhcpv6.OptIAPD:
			a := ia{pd: true, id: o.IaId}
			for _, x := range o.Options.Prefixes() {
				if x.Prefix == nil {
					continue
				}
				bits, _ := x.Prefix.Mask.Size()
				if p := netip.PrefixFrom(addr(x.Prefix.IP), bits); p.IsValid() {
					a.nets = append(a.nets, p)
				}
			}
			out = append(out, a)
		}
	}
	return out
}

// hostname is what a client calls itself (RFC 4704), as a DNS label.
func (q query) hostname() string {
	f := q.Options.FQDN()
	if f == nil || f.DomainName == nil || len(f.DomainName.Labels) == 0 {
		return ""
	}
	return state.Label([]byte(f.DomainName.Labels[0]))
}

// wrap is what goes back: a message to a client, through the relays it came by (RFC
// 8415, 19.3).
func (q query) wrap(m *dhcpv6.Message) dhcpv6.DHCPv6 {
	var out dhcpv6.DHCPv6 = m
	for _, r := range slices.Backward(q.relays) {
		w := &dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayReply, HopCount: r.HopCount, LinkAddr: r.LinkAddr, PeerAddr: r.PeerAddr}
		const relayPort = dhcpv6.OptionRelayPort // RFC 8357, 5.2
		for _, code := range []dhcpv6.OptionCode{dhcpv6.OptionInterfaceID, relayPort} {
			if o := r.GetOneOption(code); o != nil {
				w.AddOption(o)
			}
		}
		w.AddOption(dhcpv6.OptRelayMessage(out))
		out = w
	}
	return out
}

// shallow says whether a message came through no more relays than may be: each
// holds the next, and a packet of nothing else must not nest the parser.
func shallow(b []byte) bool {
	const header, relayMsg = 34, 9
	for range maxHops + 1 {
		if len(b) == 0 || b[0] != byte(dhcpv6.MessageTypeRelayForward) {
			return true
		}
		if len(b) < header {
			return false
		}
		var inner []byte
		for o := b[header:]; len(o) >= 4; {
			n := int(o[2])<<8 | int(o[3])
			if len(o) < 4+n {
				return false
			}
			if o[0] == 0 && o[1] == relayMsg {
				inner = o[4 : 4+n]
				break
			}
			o = o[4+n:]
		}
		b = inner
	}
	return false
}

// addr is an address of a message; the zero Addr if it is none of IPv6.
func addr(ip net.IP) netip.Addr {
	if len(ip) != net.IPv6len {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(ip))
}
