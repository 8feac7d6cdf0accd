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
)

// Response policy zones (RPZ; draft-vixie-dnsop-dns-rpz) that are made here. An
// answer meets them in this order, with the lists after the first, and the first
// that says something about it decides.
const (
	houseZone   = "house.weir."   // the house's own names, which nothing is done to
	privateZone = "private.weir." // names that may have any address
	rebindZone  = "rebind.weir."  // addresses that no other name may have
	listZone    = ".list.weir."   // behind a list's name
)

// policyZone is a response policy zone, with the file that is its own.
type policyZone struct {
	name, file string
	records    []string
}

// policyZones are the response policy zones that are made of a configuration.
func policyZones(c Config) []policyZone {
	return []policyZone{
		{houseZone, "house.rpz", passing(ownDomains(c))},
		{privateZone, "private.rpz", passing(privateDomains(c))},
		{rebindZone, "rebind.rpz", rebinding(c)},
	}
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

// privateDomains are those whose owners are believed: they are forwarded to, or
// the file says so.
func privateDomains(c Config) (out []string) {
	for _, z := range c.Zones {
		if len(z.Forward) > 0 {
			out = append(out, absolute(z.Name))
		}
	}
	for _, n := range c.Private {
		out = append(out, absolute(n))
	}
	return out
}

// passing lets names through as they are.
func passing(domains []string) (out []string) {
	slices.Sort(domains)
	for _, n := range slices.Compact(domains) {
		if n == "." { // everything is forwarded to somebody who is believed
			out = append(out, "* CNAME rpz-passthru.")
			continue
		}
		out = append(out, spoken(n)+" CNAME rpz-passthru.", "*."+spoken(n)+" CNAME rpz-passthru.")
	}
	return out
}

// rebinding says that there is no such record where it points inside: rather than
// refused, so that a name with one bad family keeps the other.
func rebinding(c Config) (out []string) {
	inside := inside()
	for _, l := range c.LANs {
		for _, p := range l.Addrs {
			if p = p.Masked(); !slices.ContainsFunc(inside, func(o netip.Prefix) bool { return o.Overlaps(p) }) {
				inside = append(inside, p)
			}
		}
	}
	for _, p := range inside {
		out = append(out, rpzIP(p)+" CNAME *.")
		if p.Addr().Is4() { // one wrapped as in RFC 4291, 2.5.5.2 is the same to named
			b := [16]byte{0, 0x64, 0xff, 0x9b} // RFC 6052
			a := p.Addr().As4()
			copy(b[12:], a[:])
			out = append(out, rpzIP(netip.PrefixFrom(netip.AddrFrom16(b), 96+p.Bits()))+" CNAME *.")
		}
	}
	return out
}

// inside are the networks that no name of the outside may point at (DNS
// rebinding): what is reached there is the client itself, the house, or the
// ISP's own gear.
func inside() (out []netip.Prefix) {
	for _, n := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
		"::/128", "::1/128", "fc00::/7", "fe80::/10",
	} {
		out = append(out, netip.MustParsePrefix(n))
	}
	return out
}

// rpzIP is the name in a policy zone for the addresses of p: its length and its
// bytes, or for IPv6 its words, backwards, the longest run of zeros being zz.
func rpzIP(p netip.Prefix) string {
	var parts []string
	if p.Addr().Is4() {
		parts = strings.Split(p.Addr().String(), ".")
	} else {
		parts = strings.Split(strings.ReplaceAll(p.Addr().String(), "::", ":zz:"), ":")
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	}
	slices.Reverse(parts)
	return fmt.Sprintf("%d.%s.rpz-ip", p.Bits(), strings.Join(parts, "."))
}

// rewritten is how named tells of an answer that it changed (lib/ns/query.c).
var rewritten = regexp.MustCompile(`rpz ([A-Z-]+) ([A-Z-]+) rewrite (\S+)/([A-Z0-9]+)/IN via (\S+)$`)

// rebound reads what named says of an answer that pointed inside: whose it was and
// the network that it pointed to, as the policy zone spells it.
func rebound(text string) (name, to string, ok bool) {
	m := rewritten.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	to, ok = strings.CutSuffix(m[5], ".rpz-ip."+spoken(rebindZone))
	if !ok {
		return "", "", false
	}
	parts := strings.Split(to, ".")
	bits, parts := parts[0], parts[1:]
	slices.Reverse(parts)
	if to = strings.Join(parts, "."); len(parts) != 4 || slices.Contains(parts, "zz") {
		to = strings.ReplaceAll(":"+strings.Join(parts, ":")+":", ":zz:", "::")
		if !strings.HasPrefix(to, "::") {
			to = to[1:]
		}
		if !strings.HasSuffix(to, "::") {
			to = to[:len(to)-1]
		}
	}
	return m[3], to + "/" + bits, true
}

// complaints are the names that the owner was told of lately.
type complaints map[string]time.Time

// told tells the owner of an answer that was withheld because it pointed inside,
// each name once in ten minutes, and says whether that is what the line is about.
func (c complaints) told(log *slog.Logger, text string) bool {
	name, to, ok := rebound(text)
	if !ok {
		return false
	}
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
