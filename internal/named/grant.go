package named

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// granted is what a key of the file may update in a zone: the names that it is
// for, else all that the house's file has no part in.
func (w *conf) granted(c Config, z *zone, k Key) {
	types := strings.Join(k.Types, " ")
	if types == "" {
		types = "ANY"
	}
	if len(k.Names) == 0 {
		for _, d := range kept(c, z) {
			w.line("deny %q name %q %s;", k.Name, strings.TrimSuffix(d.name, "."), d.types)
		}
		w.line("grant %q zonesub %s;", k.Name, types)
		return
	}
	for _, n := range k.Names {
		full := z.name
		if n != "@" {
			full = absolute(n + "." + z.name)
		}
		kind := "name"
		if strings.HasPrefix(n, "*.") {
			kind = "wildcard"
		}
		w.line("grant %q %s %q %s;", k.Name, kind, strings.TrimSuffix(full, "."), types)
	}
}

// keep is a name in a zone whose records of some types are weir's own to change.
type keep struct{ name, types string }

// kept are the names in a zone that the gateway or the file has. The zone itself
// is others' too, with what the file does not say of it; but not the house's
// domain, which is a name of the gateway's.
func kept(c Config, z *zone) []keep {
	var out []keep
	apex := []string{"SOA"}
	for _, rr := range z.rrs { // sorted by name
		name := rr.Header().Name
		switch t := dns.TypeToString[rr.Header().Rrtype]; {
		case name == z.name && name != absolute(c.Domain):
			if !slices.Contains(apex, t) {
				apex = append(apex, t)
			}
		case len(out) == 0 || out[len(out)-1].name != name:
			out = append(out, keep{name, "ANY"})
		}
	}
	if z.name != absolute(c.Domain) {
		out = append([]keep{{z.name, strings.Join(apex, " ")}}, out...)
	}
	return out
}
