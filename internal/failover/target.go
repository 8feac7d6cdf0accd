package failover

import (
	"fmt"
	"net/netip"
)

// A Kind is how a target is asked. The zero value is invalid.
type Kind uint8

// The kinds of probe.
const (
	_    Kind = iota
	Echo      // ICMP echo request (RFC 792, 4443); its reply counts
	TCP       // a connection to a port: accepted or refused, both came back
	DNS       // a question for a name; any response counts, an error too, but SERVFAIL
)

func (k Kind) String() string {
	switch k {
	case Echo:
		return "echo"
	case TCP:
		return "tcp"
	case DNS:
		return "dns"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Target is who is asked, and how. It is comparable.
type Target struct {
	Kind Kind       `json:"kind"`
	Addr netip.Addr `json:"addr"`
	Port uint16     `json:"port,omitempty"` // TCP and DNS; DNS: 0 is 53
	Name string     `json:"name,omitempty"` // DNS: what is asked for; "" is the root
}

// dnsPort is where a DNS server answers if the target does not say (RFC 1035, 4.2).
const dnsPort = 53

// String is the target as the file spells it: 1.1.1.1, tcp://1.1.1.1:443,
// dns://1.1.1.1/example.org, dns://1.1.1.1.
func (t Target) String() string {
	switch t.Kind {
	case TCP:
		return "tcp://" + t.host()
	case DNS:
		if t.Name == "" {
			return "dns://" + t.host()
		}
		return "dns://" + t.host() + "/" + t.Name
	}
	return t.Addr.String()
}

func (t Target) host() string {
	if t.Port != 0 && (t.Kind != DNS || t.Port != dnsPort) {
		return netip.AddrPortFrom(t.Addr, t.Port).String()
	}
	if t.Addr.Is6() {
		return "[" + t.Addr.String() + "]"
	}
	return t.Addr.String()
}
