package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/miekg/dns"
)

// BIND tells whether BIND is to answer; there says that this machine has it.
func (c *Config) BIND(there bool) bool {
	if c.DNS.Engine != "auto" || c.NeedsBIND() {
		return c.NeedsBIND()
	}
	return there && !slices.ContainsFunc(c.DNS.Upstream, func(s Server) bool { return s.TLS })
}

// NeedsBIND tells whether BIND is to answer wherever that is: the file says so, or
// leaves it open and has what only BIND can do.
func (c *Config) NeedsBIND() bool {
	if c.DNS.Engine != "auto" {
		return c.DNS.Engine == "bind"
	}
	return len(c.DNS.Zones) > 0 || len(c.DNS.Keys) > 0 || len(c.Domains()) > 1 || slices.ContainsFunc(c.LANs, func(l LAN) bool {
		return slices.ContainsFunc(l.Hosts, func(h Host) bool { return len(h.Alias) > 0 })
	})
}

func dnsOf(n *node) DNS {
	d := DNS{Engine: one[string](n, "engine"), Upstream: list[Server](n, "upstream"), Validate: one[bool](n, "validate"), Log: one[bool](n, "log")}
	d.Client, d.PrivateDomain = list[netip.Prefix](n, "client"), list[string](n, "private_domain")
	for _, ln := range n.all("block_list") {
		b := BlockList{
			Name: ln.label, Pos: ln.pos(), Source: list[string](ln, "source"), Refresh: one[time.Duration](ln, "refresh"), Allow: list[string](ln, "allow"),
		}
		for _, p := range list[Place](ln, "lan") {
			if p.Ref.Name == "" { // lan alone is all of them
				b.LAN = nil
				break
			}
			b.LAN = append(b.LAN, p.Ref.Name)
		}
		d.BlockLists = append(d.BlockLists, b)
	}
	for _, zn := range n.all("zone") {
		z := Zone{Name: zn.label, Pos: zn.pos(), Forward: list[Server](zn, "forward"), TTL: one[time.Duration](zn, "ttl")}
		s := zn.child("soa")
		z.SOA = SOA{one[time.Duration](s, "refresh"), one[time.Duration](s, "retry"), one[time.Duration](s, "expire"), one[time.Duration](s, "minimum")}
		for _, rn := range zn.all("record") {
			r := Record{Name: rn.label, Pos: rn.pos(), Address: list[Place](rn, "address"), TXT: list[string](rn, "txt"), TTL: one[time.Duration](rn, "ttl")}
			for _, k := range recordTypes {
				for _, t := range list[string](rn, k) {
					r.Data = append(r.Data, Datum{strings.ToUpper(k), t})
				}
			}
			z.Records = append(z.Records, r)
		}
		d.Zones = append(d.Zones, z)
	}
	for _, kn := range n.all("key") {
		d.Keys = append(d.Keys, Key{
			Name: kn.label, Pos: kn.pos(), Algorithm: one[string](kn, "algorithm"),
			Zone: list[string](kn, "zone"), Names: list[string](kn, "name"), Types: list[string](kn, "type"), Secret: one[string](kn, "secret_file"),
		})
	}
	return d
}

// recordTypes are the keys of a record whose values are data in master-file form.
var recordTypes = []string{"cname", "ns", "mx", "srv", "caa"}

var recordLabel = regexp.MustCompile(`^_?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// validRecordName tells whether s, in lower case, can be a record's name in a zone.
func validRecordName(s string) bool {
	if s == "@" || s == "*" {
		return true
	}
	s = strings.TrimPrefix(s, "*.")
	return len(s) <= 253 && !slices.ContainsFunc(strings.Split(s, "."), func(l string) bool { return !recordLabel.MatchString(l) })
}

// quoted is a string in master-file form, in which nothing ends the data (RFC 1035, 5.1).
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// parseData reads a record's data; zone has no trailing dot.
func parseData(zone, rrtype, data string) error {
	zp := dns.NewZoneParser(strings.NewReader(fmt.Sprintf("x 0 IN %s %s\n", rrtype, data)), zone+".", "")
	rr, _ := zp.Next()
	if err := zp.Err(); err != nil {
		return err
	}
	if rr == nil || strings.ContainsAny(data, "\n") || strings.ContainsAny(quoted.ReplaceAllString(data, ""), "();") {
		return fmt.Errorf("there is no %s in it", rrtype)
	}
	return nil
}

func (c *checker) checkDNS(h *house) {
	n := h.root.child("dns")
	bind := h.NeedsBIND()
	for _, it := range n.items("upstream") {
		c.checkServer(h, it, bind)
	}
	if h.DNS.Engine == "forward" {
		for _, what := range []string{"zone", "key"} {
			for _, b := range n.all(what) {
				c.err(b.syntax.TypeRange, `engine = "bind", or leave engine out.`, "%s needs BIND, and the engine is forward", b.called())
			}
		}
		for i, ln := range h.lans {
			if a := ln.said("domain"); a != nil && !slices.Equal(h.LANs[i].Domain, []string{h.Gateway.Domain}) {
				c.err(a.name, `engine = "bind", or leave engine out.`, "a domain of the LAN's own needs BIND, and the engine is forward")
			}
			for _, hn := range h.hosts[i] {
				if a := hn.said("alias"); a != nil {
					c.err(a.name, `engine = "bind", or leave engine out.`, "alias needs BIND, and the engine is forward")
				}
			}
		}
	}
	zones := n.all("zone")
	c.onceEach(zones, "")
	for i, z := range zones {
		c.checkZone(h, z, h.DNS.Zones[i])
	}
	for i := range h.lans {
		for j, hn := range h.hosts[i] {
			for k, it := range hn.items("alias") {
				c.checkAlias(h, it, h.LANs[i].Hosts[j].Alias[k])
			}
		}
	}
	for _, it := range n.items("client") {
		c.checkClient(h, it)
	}
	lists := n.all("block_list")
	c.onceEach(lists, "")
	for _, ln := range lists {
		c.checkBlockList(ln)
	}
	keys := n.all("key")
	c.onceEach(keys, "")
	for i, kn := range keys {
		c.checkKey(h, kn, h.DNS.Keys[i])
	}
}

func (c *checker) checkServer(h *house, it item, bind bool) {
	s, _ := it.val.(Server)
	if s.Line.Kind != "" {
		c.checkLine(h, it, s.Line.Name)
		return
	}
	a := s.Addr.Addr()
	if own, at := h.gatewayAddr(a); own != "" && s.Addr.Port() == 53 {
		c.err(it.at, fmt.Sprintf("It is in %s: every question would go in a circle.", line(at, it.at)), "%s is the gateway itself", a)
	} else if a.IsLoopback() && s.Addr.Port() == 53 {
		c.err(it.at, "It is the gateway itself: every question would go in a circle.", "%s is a loopback address", a)
	} else if bind && s.TLS {
		c.err(it.at, `BIND forwards over TLS from 9.20 on, and weir does not ask it to yet. engine = "forward" can; or leave upstream out: BIND asks from the root on.`, "BIND is asked to forward over TLS")
	}
}

// checkLine reports a line, or all of them (""), that can have no resolver of its own.
func (c *checker) checkLine(h *house, it item, name string) {
	for _, w := range h.WANs {
		asks := func(m Method) bool { return m != MethodStatic && m != MethodNone }
		if (name == "" || w.Name == name) && (asks(w.IPv4.Method) || asks(w.IPv6.Method) || len(w.IPv4.DNS)+len(w.IPv6.DNS) > 0) {
			return
		}
	}
	const help = `A static line's resolvers stand in its ipv4 or ipv6 block: dns = "198.51.100.53"`
	if name == "" {
		c.err(it.at, help, "no line has a resolver of its own")
		return
	}
	c.err(it.at, help, "wan %q has no resolver of its own", name)
}

// onceEach reports blocks that have the name of one before.
func (c *checker) onceEach(of []*node, where string) {
	for i, n := range of {
		for _, o := range of[:i] {
			if o.label == n.label {
				c.err(n.at(), fmt.Sprintf("%s has it. Put both together.", sentence(line(o.at(), n.at()))), "%s %q stands twice%s", n.def.name, n.label, where)
				break
			}
		}
	}
}

// inZone tells whether a name is a zone's or below it; no trailing dots.
func inZone(name, zone string) bool { return name == zone || strings.HasSuffix(name, "."+zone) }

func (c *checker) checkZone(h *house, n *node, z Zone) {
	if len(z.Forward) == 0 {
		records := n.all("record")
		c.onceEach(records, " in "+n.called())
		for i, rn := range records {
			c.checkRecord(h, rn, z, z.Records[i])
		}
		return
	}
	for _, it := range n.items("forward") {
		c.checkServer(h, it, true)
	}
	at := n.said("forward").name
	beside := func(r hcl.Range, what string) {
		c.err(r, fmt.Sprintf("%s has forward: it is somebody else's.", sentence(line(at, r))), "%s can't stand in a zone that is forwarded", what)
	}
	if a := n.said("ttl"); a != nil {
		beside(a.name, "ttl")
	}
	for _, b := range n.blocks {
		beside(b.syntax.TypeRange, b.def.name)
	}
	var ours []Zone
	for _, d := range h.Domains() {
		ours = append(ours, Zone{Name: d})
		if d != z.Name && inZone(d, z.Name) {
			c.err(n.at(), fmt.Sprintf("%s is a domain of the house, and in it.", d), "%s can't be forwarded", z.Name)
			return
		}
	}
	for _, o := range append(ours, h.DNS.Zones...) {
		if len(o.Forward) == 0 && inZone(z.Name, o.Name) {
			why := "It is a domain of the house, which is answered here."
			if z.Name != o.Name {
				why = fmt.Sprintf("%s is served here with all that is below it. A record %q with ns in it leads there.", o.Name, strings.TrimSuffix(z.Name, "."+o.Name))
			}
			c.err(n.at(), why, "%s can't be forwarded", z.Name)
			break
		}
	}
}

func (c *checker) checkRecord(h *house, n *node, z Zone, r Record) {
	for i, it := range n.items("address") {
		p, ok := it.val.(Place)
		if !ok || i >= len(r.Address) {
			continue
		}
		switch host := h.Host(p.Ref.Name); {
		case !p.IsRef() && !p.Prefix.IsSingleIP():
			c.err(it.at, "A name has addresses, or stands for a host.", "%s is a network", p.Prefix)
		case p.IsRef() && host != nil && len(host.Address)+len(host.Token) == 0:
			c.err(it.at, fmt.Sprintf(`Give it one in line %d: address = "...".`, host.Pos.Line), "host %q has no fixed address", host.Name)
		}
	}
	for _, k := range recordTypes {
		for _, it := range n.items(k) {
			t, _ := it.val.(string)
			if err := parseData(z.Name, strings.ToUpper(k), t); err != nil {
				c.err(it.at, fmt.Sprintf("It looks like %s.", n.def.key(k).example), "%q is no %s record", t, strings.ToUpper(k))
			}
		}
	}
	full := r.Name + "." + z.Name
	if r.Name == "@" {
		full = z.Name
	}
	if a := n.said("cname"); a != nil {
		for name, other := range n.attrs {
			if name != "cname" && name != "ttl" {
				c.err(other.name, fmt.Sprintf("%s has cname (RFC 2181, 10.1).", sentence(line(a.name, other.name))), "nothing stands beside a cname")
				break
			}
		}
		if r.Name == "@" {
			c.err(a.name, "It has SOA and NS records, and nothing stands beside a cname (RFC 2181, 10.1).", "a zone itself can't be a cname")
		} else if what, at := h.nameOf(full); what != "" {
			c.err(n.at(), fmt.Sprintf("It is %s's (%s).", what, line(at, n.at())), "%s is taken", full)
		}
	}
	if len(n.attrs) == 0 || len(n.attrs) == 1 && n.said("ttl") != nil {
		c.err(n.at(), "Say what it has: address, cname, txt, mx, srv, caa or ns.", "%s is empty", n.called())
	}
}

// nameOf says who has a name of the house's domain by the file; "" if nobody.
func (h *house) nameOf(full string) (what string, at hcl.Range) {
	label, domain, _ := strings.Cut(full, ".")
	if label == h.Gateway.Name && slices.Contains(h.Domains(), domain) {
		return "the gateway", h.gw.at()
	}
	for i, l := range h.LANs {
		for j, host := range l.Hosts {
			if host.DNSName == label && slices.Contains(l.Domain, domain) {
				return fmt.Sprintf("host %q", host.Name), h.hosts[i][j].at()
			}
		}
	}
	return "", hcl.Range{}
}

func (c *checker) checkAlias(h *house, it item, full string) {
	if what, at := h.nameOf(full); what != "" {
		c.err(it.at, fmt.Sprintf("It is %s's (%s).", what, line(at, it.at)), "%s is taken", full)
		return
	}
	label, domain, _ := strings.Cut(full, ".")
	if why := notHostNames[label]; why != "" && slices.Contains(h.Domains(), domain) {
		c.err(it.at, why, "no host is called %q", label)
		return
	}
	served := slices.ContainsFunc(h.Domains(), func(d string) bool { return inZone(full, d) })
	for _, z := range h.DNS.Zones {
		served = served || len(z.Forward) == 0 && inZone(full, z.Name) && full != z.Name
		for _, r := range z.Records {
			if r.Name+"."+z.Name == full {
				c.err(it.at, fmt.Sprintf("A record has it (line %d), and nothing stands beside an alias.", r.Pos.Line), "%s is taken", full)
			}
		}
	}
	if served {
		return
	}
	c.err(it.at, fmt.Sprintf(`Names of the house end in %s; for others there is dns { zone "NAME" { } }.`, strings.Join(h.Domains(), " or ")), "%s is in no zone that is served here", full)
}

func (c *checker) checkKey(h *house, n *node, k Key) {
	if k.Name == "weir" {
		c.err(n.at(), "weir's own key has that name.", "no key is called %q", k.Name)
	}
	if k.Algorithm == "hmac-md5" || k.Algorithm == "hmac-sha1" {
		c.note(n.said("algorithm").value, "hmac-sha256 is what all of today's programs can (RFC 8945, 6).", "%s is old", k.Algorithm)
	}
	for i, it := range n.items("zone") {
		if i >= len(k.Zone) {
			break
		}
		name := k.Zone[i]
		served := slices.Contains(h.Domains(), name) || strings.HasSuffix(name, ".in-addr.arpa") || strings.HasSuffix(name, ".ip6.arpa")
		for _, z := range h.DNS.Zones {
			served = served || z.Name == name && len(z.Forward) == 0
		}
		if !served {
			c.err(it.at, fmt.Sprintf(`It is %s, a reverse zone, or one of dns { zone "NAME" { } }.`, strings.Join(h.Domains(), ", ")), "%s is no zone that is served here", name)
		}
	}
	for _, it := range n.items("name") {
		if s, _ := it.val.(string); !validRecordName(strings.ToLower(s)) || s == "*" {
			c.err(it.at, `A name in the zone, without the zone: "_acme-challenge", "*.apps"; "@" is the zone itself.`, "%q is no record's name", s)
		}
	}
	for _, it := range n.items("type") {
		if s, _ := it.val.(string); dns.StringToType[s] == 0 || dns.StringToType[s] >= dns.TypeTSIG {
			c.err(it.at, `Types are written in capitals: "A", "AAAA", "TXT".`, "%q is no type of record", s)
		}
	}
}

// Addrs are the addresses that a record's places stand for, with hosts' tokens
// put into the networks of ula and the file.
func (c *Config) Addrs(places []Place, ula netip.Prefix) []netip.Addr {
	var out []netip.Addr
	for _, p := range places {
		if !p.IsRef() {
			out = append(out, p.Prefix.Addr())
		} else if h := c.Host(p.Ref.Name); h != nil {
			out = append(out, c.HostAddrs(h, ula)...)
		}
	}
	return out
}
