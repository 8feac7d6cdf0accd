package dhcpd6

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// refresh is when a device asks again that has no lease (RFC 8415, 21.23): what the
// file says changes with it.
const refresh = time.Hour

// optionPortal is the captive portal option (RFC 8910, 2.2).
const optionPortal dhcpv6.OptionCode = 103

// reply begins an answer: who it is from and for.
func reply(t dhcpv6.MessageType, duid dhcpv6.DUID, q query) *dhcpv6.Message {
	out := &dhcpv6.Message{MessageType: t, TransactionID: q.TransactionID}
	out.AddOption(dhcpv6.OptServerID(duid))
	if c := q.GetOneOption(dhcpv6.OptionClientID); c != nil {
		out.AddOption(c)
	}
	return out
}

// tell puts into an answer what a message asks for, or all if it does not say.
func tell(out *dhcpv6.Message, l LAN, q query) {
	said := q.Options.RequestedOptions()
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
}

func ips(as []netip.Addr) []net.IP {
	out := make([]net.IP, len(as))
	for i, a := range as {
		out[i] = a.AsSlice()
	}
	return out
}
