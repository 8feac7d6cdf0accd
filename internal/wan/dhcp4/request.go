package dhcp4

import (
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/ether"
)

// maxMessage is what we say we can take (option 57): a WAN's MTU is 1280 or more.
const maxMessage = 1280

// wanted is the parameter request list, best first: 121 before 3 (RFC 3442).
var wanted = []dhcpv4.OptionCode{
	dhcpv4.OptionSubnetMask, dhcpv4.OptionClasslessStaticRoute, optionMSRoutes, dhcpv4.OptionRouter,
	dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName, dhcpv4.OptionInterfaceMTU, dhcpv4.OptionBroadcastAddress,
	dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionServerIdentifier, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue,
}

// identity is how the client names itself (RFC 2132, 9.14): bytes as said, text
// as type 0, else the Ethernet address as type 1.
func identity(clientID string, mac ether.MAC) []byte {
	if b, ok := inHex(clientID); ok {
		return b
	}
	if clientID != "" {
		return append([]byte{0}, clientID...)
	}
	return append([]byte{1}, mac[:]...)
}

// inHex are the bytes that "hex:..." stands for.
func inHex(s string) ([]byte, bool) {
	h, ok := strings.CutPrefix(s, "hex:")
	if !ok {
		return nil, false
	}
	b, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(h))
	return b, err == nil && len(b) > 0
}

// message makes a message of the engine's present exchange.
func (e *Engine) message(now time.Time, t dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	p := &dhcpv4.DHCPv4{
		OpCode:        dhcpv4.OpcodeBootRequest,
		HWType:        iana.HWTypeEthernet,
		TransactionID: e.xid,
		NumSeconds:    uint16(min(now.Sub(e.began)/time.Second, 0xffff)),
		ClientHWAddr:  net.HardwareAddr(e.mac[:]),
		Options:       dhcpv4.Options{},
	}
	p.UpdateOption(dhcpv4.OptMessageType(t))
	p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClientIdentifier, identity(e.cfg.ClientID, e.mac)))
	if t == dhcpv4.MessageTypeDecline || t == dhcpv4.MessageTypeRelease { // may have little else (RFC 2131, table 5)
		return p
	}
	var codes dhcpv4.OptionCodeList
	for _, c := range wanted {
		if e.cfg.IgnoreClasslessRoutes && (c == dhcpv4.OptionClasslessStaticRoute || c == optionMSRoutes) {
			continue
		}
		codes.Add(c)
	}
	p.UpdateOption(dhcpv4.Option{Code: dhcpv4.OptionParameterRequestList, Value: codes})
	p.UpdateOption(dhcpv4.OptMaxMessageSize(maxMessage))
	if e.cfg.Hostname != "" {
		p.UpdateOption(dhcpv4.OptHostName(e.cfg.Hostname))
	}
	if b, ok := inHex(e.cfg.VendorClass); ok {
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClassIdentifier, b))
	} else if e.cfg.VendorClass != "" {
		p.UpdateOption(dhcpv4.OptClassIdentifier(e.cfg.VendorClass))
	}
	// Our packet socket takes a frame to any address of ours, so the flag isn't
	// needed. Some relays can send only one way, though: after some silence each
	// second message tries the other.
	if e.state != Renewing && e.tries >= 3 && e.tries%2 == 1 {
		p.SetBroadcast()
	}
	return p
}

// discover, request4 and so on: RFC 2131, table 5 has which fields are set.

func (e *Engine) discover(now time.Time) *dhcpv4.DHCPv4 {
	p := e.message(now, dhcpv4.MessageTypeDiscover)
	if e.suggest.IsValid() {
		p.UpdateOption(dhcpv4.OptRequestedIPAddress(e.suggest.AsSlice()))
	}
	return p
}

// take asks for an offered address of one server.
func (e *Engine) take(now time.Time) *dhcpv4.DHCPv4 {
	p := e.message(now, dhcpv4.MessageTypeRequest)
	p.UpdateOption(dhcpv4.OptRequestedIPAddress(e.offer.addr.AsSlice()))
	p.UpdateOption(dhcpv4.OptServerIdentifier(e.offer.server.AsSlice()))
	return p
}

// reboot asks any server for an address of before.
func (e *Engine) reboot(now time.Time) *dhcpv4.DHCPv4 {
	p := e.message(now, dhcpv4.MessageTypeRequest)
	p.UpdateOption(dhcpv4.OptRequestedIPAddress(e.suggest.AsSlice()))
	return p
}

// renew asks to keep the address that is in use.
func (e *Engine) renew(now time.Time) *dhcpv4.DHCPv4 {
	p := e.message(now, dhcpv4.MessageTypeRequest)
	p.ClientIPAddr = e.held.Addr.Addr().AsSlice()
	return p
}

func (e *Engine) decline(now time.Time, addr, server netip.Addr) *dhcpv4.DHCPv4 {
	p := e.message(now, dhcpv4.MessageTypeDecline)
	p.UpdateOption(dhcpv4.OptRequestedIPAddress(addr.AsSlice()))
	if server.IsValid() {
		p.UpdateOption(dhcpv4.OptServerIdentifier(server.AsSlice()))
	}
	return p
}

// release gives the held lease up, and says so to its server if that is known. It goes
// to whoever the ACK came from: the address is the router's or relay's on the way there,
// which need not be asked for.
func (e *Engine) release(now time.Time) Out {
	var out Out
	e.enter(Released, now)
	e.began, e.suggest = now, netip.Addr{}
	if e.held != nil && e.held.Server.IsValid() {
		p := e.message(now, dhcpv4.MessageTypeRelease)
		p.ClientIPAddr = e.held.Addr.Addr().AsSlice()
		p.UpdateOption(dhcpv4.OptServerIdentifier(e.held.Server.AsSlice()))
		via, err := ether.ParseMAC(e.held.ServerMAC)
		if err != nil { // stored by who did not know it
			via = ether.Broadcast
		}
		out = Out{Release: p, Server: e.held.Server, From: e.held.Addr.Addr(), Via: via}
		e.event = "given back to " + out.Server.String()
	}
	e.held = nil
	return out
}
