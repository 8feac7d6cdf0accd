package named

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"strings"

	"github.com/miekg/dns"
)

// What identifies a client (RFC 4701, 3.3).
const (
	dhcidHardware = 0 // htype and chaddr
	dhcidOption61 = 1 // the client identifier
	dhcidDUID     = 2 // the DUID, also where the client identifier holds one (RFC 4361)
)

// dhcid is the record that says whose a name is, without saying who that is
// (RFC 4701, 3.5: SHA-256 over the identifier and the name).
func dhcid(name string, kind uint16, id []byte) (string, error) {
	wire := make([]byte, 256)
	n, err := dns.PackDomainName(dns.CanonicalName(name), wire, 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("DHCID of %s: %w", name, err)
	}
	sum := sha256.Sum256(append(append([]byte{}, id...), wire[:n]...))
	const digest = 1 // SHA-256
	return base64.StdEncoding.EncodeToString(append([]byte{byte(kind >> 8), byte(kind), digest}, sum[:]...)), nil
}

// dhcidOf is the record of a lease's client: by its client identifier if it sent
// one, else by its Ethernet address (RFC 4703, 5.2); by its DUID, if it has a lease
// of IPv6 only.
func dhcidOf(name string, l Lease) (string, error) {
	if l.Client == "" && l.DUID != "" {
		duid, err := hex.DecodeString(l.DUID)
		if err != nil {
			return "", fmt.Errorf("DHCID of %s: %w", name, err)
		}
		return dhcid(name, dhcidDUID, duid)
	}
	if !strings.HasPrefix(l.Client, "mac:") {
		id, err := hex.DecodeString(l.Client)
		if err == nil && len(id) > 0 {
			if id[0] == 255 && len(id) > 5 {
				return dhcid(name, dhcidDUID, id[5:]) // type, IAID, DUID (RFC 4361, 6.1)
			}
			return dhcid(name, dhcidOption61, id)
		}
	}
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return "", fmt.Errorf("DHCID of %s: %w", name, err)
	}
	return dhcid(name, dhcidHardware, append([]byte{1}, mac...))
}
