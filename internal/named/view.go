package named

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// view is whose questions meet which lists. The first has the zones, and those of
// all who meet none; a house without lists has no other.
type view struct {
	name    string // "": the house has no lists, and named.conf no views
	clients []string
	lists   []List
}

// views are the house's LANs, by the lists that are for them.
func views(c Config) []view {
	own := view{}
	var out []view
	for _, l := range c.LANs {
		var lists []List
		for _, b := range c.Lists {
			if slices.Contains(b.LANs, l.Name) {
				lists = append(lists, b)
			}
		}
		if len(lists) == 0 || len(l.Addrs) == 0 {
			continue
		}
		i := slices.IndexFunc(out, func(v view) bool {
			return slices.EqualFunc(v.lists, lists, func(a, b List) bool { return a.Name == b.Name })
		})
		if i < 0 {
			i = len(out)
			out = append(out, view{name: fmt.Sprintf("lists-%d", i+1), lists: lists})
		}
		for _, p := range l.Addrs {
			out[i].clients = append(out[i].clients, p.Masked().String())
		}
	}
	if len(out) == 0 {
		return []view{own}
	}
	// Nobody knows from which LAN a link-local address asks. It gets around no list.
	strictest := 0
	for i, v := range out {
		if len(v.lists) > len(out[strictest].lists) {
			strictest = i
		}
	}
	out[strictest].clients = append(out[strictest].clients, "fe80::/10")
	own.name = "house"
	for _, v := range out {
		for _, p := range v.clients {
			own.clients = append(own.clients, "!"+p)
		}
	}
	own.clients = append(own.clients, "any")
	return append([]view{own}, out...)
}

// view writes a view. first has the zones; in the others they are the same ones,
// and the cache is shared.
func (w *conf) view(c Config, v view, first bool, zones []*zone) {
	if v.name != "" {
		w.open("view %q", v.name)
		w.line("match-clients { %s};", terms(v.clients))
		if !first {
			w.line("attach-cache \"house\";")
		}
		w.policy(v, c.Log)
	}
	for _, z := range zones {
		if first {
			w.served(c, z)
		} else {
			w.same(z.name)
		}
	}
	for _, z := range c.Zones {
		if len(z.Forward) > 0 {
			w.line("zone %q { type forward; forward only; forwarders { %s}; };", z.Name, servers(z.Forward))
		}
	}
	for _, z := range policyZones(c) { // one of another view is no policy zone (in-view)
		w.line("zone %q { type primary; file %q; allow-query { none; }; };", spoken(z.name), filepath.Join(c.Dir, z.file))
	}
	for _, l := range v.lists {
		w.line("zone %q { type primary; file %q; allow-query { none; }; }; // %s", l.Name+spoken(listZone), l.File, l.Version)
	}
	for _, name := range empty(c, zones) {
		file := emptyFile
		if name == "localhost." {
			file = localhostFile
		}
		if first {
			w.line("zone %q { type primary; file %q; };", strings.TrimSuffix(name, "."), filepath.Join(c.Dir, file))
		} else {
			w.same(name)
		}
	}
	if v.name != "" {
		w.close()
	}
}

// same is a zone of the first view.
func (w *conf) same(name string) { w.line("zone %q { in-view \"house\"; };", spoken(name)) }

// policy puts a view's lists in force: also where an answer is signed and the client
// would see that it was changed. What a name decides is not looked up first.
func (w *conf) policy(v view, log bool) {
	if len(v.lists) == 0 {
		return
	}
	order := fmt.Sprintf("zone %q; ", spoken(houseZone))
	for _, l := range v.lists {
		order += fmt.Sprintf("zone %q %s", l.Name+spoken(listZone), map[bool]string{false: "log no; ", true: "; "}[log])
	}
	w.line("response-policy { %s} break-dnssec yes qname-wait-recurse no min-update-interval 0;", order)
}
