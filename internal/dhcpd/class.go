package dhcpd

import (
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// class is the first that a client is of; nil if it is of none.
func (s *scope) class(p *dhcpv4.DHCPv4) *Class {
	for i := range s.lan.Classes {
		if s.lan.Classes[i].has(p) {
			return &s.lan.Classes[i]
		}
	}
	return nil
}

// has says whether a client is of the class.
func (k *Class) has(p *dhcpv4.DHCPv4) bool {
	vendor := string(p.Options.Get(dhcpv4.OptionClassIdentifier))
	if len(k.Vendor) > 0 && !slices.ContainsFunc(k.Vendor, func(v string) bool { return strings.HasPrefix(vendor, v) }) {
		return false
	}
	user := p.Options.Get(dhcpv4.OptionUserClassInformation)
	if len(k.User) > 0 && !slices.ContainsFunc(k.User, func(u string) bool { return userClass(user, u) }) {
		return false
	}
	arch := p.Options.Get(dhcpv4.OptionClientSystemArchitectureType)
	return len(k.Arch) == 0 || slices.ContainsFunc(k.Arch, func(a uint16) bool {
		for b := arch; len(b) >= 2; b = b[2:] {
			if uint16(b[0])<<8|uint16(b[1]) == a {
				return true
			}
		}
		return false
	})
}

// userClass says whether option 77 has a class in it: a list of texts, each with
// its length before it (RFC 3004, 4), or, as iPXE and others send, one as it is.
func userClass(b []byte, want string) bool {
	if string(b) == want {
		return true
	}
	for len(b) > 0 && len(b) > int(b[0]) {
		if n := int(b[0]); string(b[1:1+n]) == want {
			return true
		} else {
			b = b[1+n:]
		}
	}
	return false
}

// boot tells a client what to load: in the message's own fields, and in the
// options 66 and 67 for those that ask for them and the file does not say.
func (s *scope) boot(p *dhcpv4.DHCPv4, r *dhcpv4.DHCPv4, set map[uint8][]byte) {
	b := s.lan.Boot
	if k := s.class(p); k != nil {
		if k.Boot.Server.IsValid() {
			b.Server = k.Boot.Server
		}
		if k.Boot.File != "" {
			b.File = k.Boot.File
		}
	}
	if b.Server.Is4() {
		r.ServerIPAddr = b.Server.AsSlice()
		if set[66] == nil {
			set[66] = []byte(b.Server.String())
		}
	}
	if b.File != "" {
		r.BootFileName = b.File
		if set[67] == nil {
			set[67] = []byte(b.File)
		}
	}
}
