package dhcp6

import (
	"encoding/hex"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"weir/internal/state"
)

// message makes a message of the engine's present exchange (RFC 8415, 16 and
// appendix B say what each may have).
func (e *Engine) message(now time.Time, t dhcpv6.MessageType) *dhcpv6.Message {
	m := &dhcpv6.Message{MessageType: t, TransactionID: e.xid}
	m.AddOption(dhcpv6.OptClientID(e.duid))
	var held state.Lease6
	if e.held != nil {
		held = *e.held
	}
	server := e.server
	switch t {
	case dhcpv6.MessageTypeRequest:
		held = e.offer
	case dhcpv6.MessageTypeRelease:
		held, server = *e.giving, e.giving.ServerID
	}
	if t == dhcpv6.MessageTypeRequest || t == dhcpv6.MessageTypeRenew || t == dhcpv6.MessageTypeRelease {
		if b, err := hex.DecodeString(server); err == nil {
			m.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: b})
		}
	}
	m.AddOption(elapsed(now.Sub(e.began)))
	if t == dhcpv6.MessageTypeSolicit && e.rapid() {
		m.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
	}
	if t != dhcpv6.MessageTypeRelease && t != dhcpv6.MessageTypeConfirm {
		m.AddOption(dhcpv6.OptRequestedOption(dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionDomainSearchList, dhcpv6.OptionSolMaxRT))
	}
	release := t == dhcpv6.MessageTypeRelease
	if e.cfg.Address && !release || len(held.Addr) > 0 || t == dhcpv6.MessageTypeConfirm {
		o := &dhcpv6.OptIANA{IaId: e.iaid()}
		for _, a := range held.Addr {
			o.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: a.Prefix.Addr().AsSlice()})
		}
		m.AddOption(o)
	}
	if t != dhcpv6.MessageTypeConfirm && (e.cfg.Prefix > 0 && !release || len(held.Prefix) > 0) {
		o := &dhcpv6.OptIAPD{IaId: e.iaid()}
		for _, p := range held.Prefix {
			o.Options.Add(&dhcpv6.OptIAPrefix{Prefix: ipNet(p.Prefix)})
		}
		if len(held.Prefix) == 0 {
			// A hint (RFC 8415, 18.2.1), also which prefix of before would be best.
			hint := netip.PrefixFrom(netip.IPv6Unspecified(), e.cfg.Prefix)
			if e.before.IsValid() {
				hint = e.before
			}
			o.Options.Add(&dhcpv6.OptIAPrefix{Prefix: ipNet(hint)})
		}
		m.AddOption(o)
	}
	return m
}

// elapsed is option 8, in hundredths of a second.
func elapsed(d time.Duration) dhcpv6.Option {
	return dhcpv6.OptElapsedTime(min(max(0, d), 0xffff*10*time.Millisecond))
}

func (e *Engine) iaid() [4]byte {
	return [4]byte{byte(e.cfg.IAID >> 24), byte(e.cfg.IAID >> 16), byte(e.cfg.IAID >> 8), byte(e.cfg.IAID)}
}

// rapid says whether the Solicit that is to be sent offers rapid commit.
func (e *Engine) rapid() bool { return e.tries < rapidTries || e.tries%2 == 0 }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 128)}
}
