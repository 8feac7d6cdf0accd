package named

import (
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	weirdns "weir/internal/dns"
)

// Response policy zones (RPZ; draft-vixie-dnsop-dns-rpz) of a house with lists. A
// question meets the first before the lists.
const (
	houseZone = "house.weir." // the house's own names, which nothing is done to
	listZone  = ".list.weir." // behind a list's name
)

// policyZone is a response policy zone, with the file that is its own.
type policyZone struct {
	name, file string
	records    []string
}

// policyZones are the response policy zones that are made of a configuration.
func policyZones(c Config) []policyZone {
	if len(c.Lists) == 0 {
		return nil
	}
	return []policyZone{{houseZone, "house.rpz", passing(ownDomains(c))}}
}

// text is the zone's file. It is the old one, with its serial number, if that
// says the same.
func (z policyZone) text(old string, serial uint32) string {
	body := "@ NS localhost.\n" + strings.Join(z.records, "\n") + "\n"
	if _, has, ok := strings.Cut(old, " 604800 60\n"); ok && has == body {
		return old
	}
	return fmt.Sprintf("$TTL 60\n@ SOA localhost. nobody.invalid. %d 3600 1200 604800 60\n%s", serial, body)
}

// ownDomains are those that are served here.
func ownDomains(c Config) []string {
	out := []string{absolute(c.Domain), "localhost."}
	for _, z := range c.Zones {
		if len(z.Forward) == 0 {
			out = append(out, absolute(z.Name))
		}
	}
	for _, l := range c.LANs {
		for _, d := range l.Domains {
			out = append(out, absolute(d))
		}
	}
	return out
}

// believed are the domains whose names may point into the house: the house's own,
// for what their zones delegate, those that are forwarded, and those that the file
// names. "." is all.
func believed(c Config) []string {
	out := ownDomains(c)
	for _, z := range c.Zones {
		if len(z.Forward) > 0 {
			out = append(out, absolute(z.Name))
		}
	}
	for _, n := range c.Private {
		out = append(out, absolute(n))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// passing lets names through as they are.
func passing(domains []string) (out []string) {
	slices.Sort(domains)
	for _, n := range slices.Compact(domains) {
		out = append(out, spoken(n)+" CNAME rpz-passthru.", "*."+spoken(n)+" CNAME rpz-passthru.")
	}
	return out
}

// inside are the networks that no name of the outside may point at, and the same
// as IPv6 addresses that hold one of IPv4: mapped (RFC 4291, 2.5.5.2) and NAT64
// (RFC 6052).
func inside() (out []string) {
	for _, p := range weirdns.Inside {
		out = append(out, p.String())
		if p.Addr().Is4() {
			for _, by := range []string{"::ffff:0:0", "64:ff9b::"} {
				b, a := netip.MustParseAddr(by).As16(), p.Addr().As4()
				copy(b[12:], a[:])
				out = append(out, netip.PrefixFrom(netip.AddrFrom16(b), 96+p.Bits()).String())
			}
		}
	}
	return out
}

// denied is how named tells of an answer that it withholds (lib/dns/resolver.c,
// is_answeraddress_allowed): of which address, and of which name.
var denied = regexp.MustCompile(`^answer address (\S+) denied for (\S+)/A{1,4}/IN$`)

// complaints are the names that the owner was told of lately.
type complaints map[string]time.Time

// told tells the owner of an answer that was withheld because it pointed inside,
// each name once in ten minutes, and says whether that is what the line is about.
func (c complaints) told(log *slog.Logger, text string) bool {
	m := denied.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	name, to := m[2], m[1]
	now := time.Now()
	if at, ok := c[name]; ok && now.Sub(at) < 10*time.Minute {
		return true
	}
	if len(c) >= 100 {
		clear(c)
	}
	c[name] = now
	log.Warn("dns answer withheld: a name from outside points into the house", "name", name, "to", to,
		"rule", "rebinding protection", "remedy", fmt.Sprintf("if that is meant so: dns { private_domain = %q }", owner(name)))
	return true
}

// owner is the domain that a name was registered as, as far as that is known.
func owner(name string) string {
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}
