package dhcpd6

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// refresh is when a device asks again (RFC 8415, 21.23): what the file says changes
// with it.
const refresh = time.Hour

// optionPortal is the captive portal option (RFC 8910, 2.2).
const optionPortal dhcpv6.OptionCode = 103

// maxHops is through how many relays a message may have come (RFC 8415, 7.6).
const maxHops = 8

// answer is the reply to a message, nil if there is none: what is not an
// Information-request is another server's to answer, and what is no message of a
// client or a relay is dropped (RFC 8415, 16 and 18.3.6).
func answer(l LAN, duid dhcpv6.DUID, b []byte) []byte {
	if len(b) == 0 || b[0] == byte(dhcpv6.MessageTypeRelayForward) && !shallow(b) {
		return nil
	}
	in, err := dhcpv6.FromBytes(b)
	if err != nil {
		return nil
	}
	var relays []*dhcpv6.RelayMessage
	for in.IsRelay() {
		r, ok := in.(*dhcpv6.RelayMessage)
		if !ok || r.MessageType != dhcpv6.MessageTypeRelayForward {
			return nil
		}
		relays = append(relays, r)
		if in = r.Options.RelayMessage(); in == nil {
			return nil
		}
	}
	m, ok := in.(*dhcpv6.Message)
	if !ok || !asks(m, duid) {
		return nil
	}
	var out dhcpv6.DHCPv6 = inform(l, duid, m)
	for _, r := range slices.Backward(relays) {
		out = relayed(r, out)
	}
	return out.ToBytes()
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

// asks says whether a message is an Information-request for this server (RFC 8415,
// 16.12).
func asks(m *dhcpv6.Message, duid dhcpv6.DUID) bool {
	if m.MessageType != dhcpv6.MessageTypeInformationRequest {
		return false
	}
	for _, ia := range []dhcpv6.OptionCode{dhcpv6.OptionIANA, dhcpv6.OptionIATA, dhcpv6.OptionIAPD} {
		if m.GetOneOption(ia) != nil {
			return false
		}
	}
	server := m.Options.ServerID()
	return server == nil || server.Equal(duid)
}

// inform is the Reply to an Information-request: what it asks for, or all if it does
// not say.
func inform(l LAN, duid dhcpv6.DUID, m *dhcpv6.Message) *dhcpv6.Message {
	out := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, TransactionID: m.TransactionID}
	out.AddOption(dhcpv6.OptServerID(duid))
	if c := m.GetOneOption(dhcpv6.OptionClientID); c != nil {
		out.AddOption(c)
	}
	said := m.Options.RequestedOptions()
	add := func(there bool, o dhcpv6.Option) {
		if there && (len(said) == 0 || slices.Contains(said, o.Code())) {
			out.AddOption(o)
		}
	}
	add(len(l.DNS) > 0, dhcpv6.OptDNS(ips(l.DNS)...))
	add(len(l.Search) > 0, dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: l.Search}))
	var servers dhcpv6.Options
	for _, a := range ips(l.NTP) {
		srv := dhcpv6.NTPSuboptionSrvAddr(a)
		servers = append(servers, &srv)
	}
	add(len(l.NTP) > 0, &dhcpv6.OptNTPServer{Suboptions: servers})
	add(len(l.NTP) > 0, dhcpv6.OptSNTP(ips(l.NTP)...))
	add(l.Portal != "", &dhcpv6.OptionGeneric{OptionCode: optionPortal, OptionData: []byte(l.Portal)})
	out.AddOption(dhcpv6.OptInformationRefreshTime(refresh))
	return out
}

// relayed is what goes back to a relay (RFC 8415, 19.3).
func relayed(r *dhcpv6.RelayMessage, inner dhcpv6.DHCPv6) *dhcpv6.RelayMessage {
	out := &dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayReply, HopCount: r.HopCount, LinkAddr: r.LinkAddr, PeerAddr: r.PeerAddr}
	const relayPort = dhcpv6.OptionRelayPort // RFC 8357, 5.2
	for _, code := range []dhcpv6.OptionCode{dhcpv6.OptionInterfaceID, relayPort} {
		if o := r.GetOneOption(code); o != nil {
			out.AddOption(o)
		}
	}
	out.AddOption(dhcpv6.OptRelayMessage(inner))
	return out
}

func ips(as []netip.Addr) []net.IP {
	out := make([]net.IP, len(as))
	for i, a := range as {
		out[i] = a.AsSlice()
	}
	return out
}
