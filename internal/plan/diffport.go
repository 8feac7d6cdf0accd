package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/desired"
)

// port sees to it that a port is in its namespace.
func (d *differ) port(ns string, l desired.Link) {
	at := linkKey{ns, l.Name}
	from, have := d.locate(ns, l.Name)
	if have == nil {
		d.waits[at] = true
		d.plan.Waiting = append(d.plan.Waiting, fmt.Sprintf("waiting for %s: it isn't there yet", l.Name))
		return
	}
	if _, ok := d.actual.Found.Ports[l.Name]; !ok {
		if d.plan.Found.Ports == nil {
			d.plan.Found.Ports = map[string]Port{}
		}
		d.plan.Found.Ports[l.Name] = d.snapshot(from, have)
	}
	if from == ns {
		return
	}
	if ns != "" && l.Name == desired.CableInner {
		d.refuse("port %s can't be a WAN's: the cable's end in %s is called so. Rename the port (ip link set %s name ...)", l.Name, ns, l.Name)
		d.waits[at] = true
		return
	}
	d.move(atLink, l.Name, from, ns, d.carries(from, l.Name))
	d.void[at] = made
}

// carries says what a port has on it that is not weir's, and goes when it moves.
func (d *differ) carries(ns, name string) string {
	if ns != "" {
		return ""
	}
	lost := d.lost(ns, name)
	var parts []string
	for _, a := range lost.Addrs {
		parts = append(parts, a.Prefix.String())
	}
	switch n := len(lost.Routes); {
	case n == 1:
		parts = append(parts, "1 route")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d routes", n))
	}
	if len(parts) == 0 {
		return ""
	}
	return "had " + strings.Join(parts, ", ") + "; `weir down` gives it back"
}

// locate finds a port: where it should be, in main, or in another namespace of ours.
func (d *differ) locate(ns, name string) (string, *Link) {
	look := append([]string{ns, ""}, func() (all []string) {
		for _, n := range d.actual.Namespaces {
			all = append(all, n.Name)
		}
		return all
	}()...)
	for _, n := range look {
		if h := d.actual.namespace(n).link(name); h != nil && !h.Ours {
			return n, h
		}
	}
	return "", nil
}

func (d *differ) move(at phase, name, from, to, why string) {
	lost := d.lost(from, name)
	if at == atLinkGone && d.wanted(from) != nil {
		// Another port has taken its place: our routes by it go before it, each in
		// a step of its own, or give their place to those by the other.
		lost.Routes = slices.DeleteFunc(lost.Routes, ourRoute)
		d.late[linkKey{from, name}] = true
	}
	s := Step{Op: Change, NS: to, Object: "link", Name: name, Old: "in " + place(from), New: "in " + place(to), Why: why,
		Do: MoveLink{Link: name, From: from, To: to, Lost: lost}}
	d.gone[linkKey{from, name}] = true
	if at == atLink {
		d.disturb(linkKey{from, name})
		d.disturb(linkKey{to, name})
	}
	d.add(at, s)
}

// gaveMAC says whether the last turn gave a port the address it has.
func (d *differ) gaveMAC(name, mac string) bool {
	if d.actual.Last == nil {
		return false
	}
	return slices.ContainsFunc(d.actual.Last.Namespaces, func(n desired.Namespace) bool {
		return slices.ContainsFunc(n.Links, func(l desired.Link) bool { return l.Name == name && strings.EqualFold(l.MAC, mac) })
	})
}

// snapshot is a port as it was found. In a WAN's namespace it was ours already,
// and nobody knows how it was before.
func (d *differ) snapshot(ns string, l *Link) Port {
	p := Port{MTU: l.MTU, MAC: l.MAC}
	if l.PermMAC != "" {
		p.MAC = l.PermMAC
	}
	if ns != "" {
		return p
	}
	lost := d.lost(ns, l.Name)
	p.Up, p.Master, p.MAC, p.Routes, p.AddrGen = l.Up, l.Master, l.MAC, lost.Routes, l.AddrGen
	p.Addrs = lost.Addrs
	return p
}

// lost is what goes with a link.
func (d *differ) lost(ns, name string) Lost {
	h := d.actual.namespace(ns)
	l := h.link(name)
	if l == nil {
		return Lost{}
	}
	out := Lost{Up: l.Up, MAC: l.MAC, MTU: l.MTU, Master: l.Master, AddrGen: l.AddrGen}
	for _, key := range slices.Sorted(maps.Keys(h.Sysctls)) {
		if SysctlLink(key) == name {
			out.Sysctls = append(out.Sysctls, desired.Sysctl{Key: key, Value: h.Sysctls[key]})
		}
	}
	for _, a := range h.Addrs {
		// Where the kernel makes no link-local address, somebody gave it.
		given := !a.Kernel || l.AddrGen == 1 && a.Prefix.Addr().IsLinkLocalUnicast()
		if a.Link == name && given {
			out.Addrs = append(out.Addrs, a)
		}
	}
	for _, r := range h.Routes {
		sourced := r.Src.IsValid() && slices.ContainsFunc(out.Addrs, func(a Addr) bool { return a.Prefix.Addr() == r.Src })
		if r.uses(name) || sourced {
			out.Routes = append(out.Routes, r)
		}
	}
	for _, m := range h.Links {
		if m.Master == name {
			out.Members = append(out.Members, m.Name)
		}
	}
	return out
}

// portsBack returns the ports that the file no longer names, and those that
// stand in a WAN's namespace without a reason, as they were found.
func (d *differ) portsBack() {
	wanted := map[string]bool{}
	for _, w := range d.want.Namespaces {
		for _, l := range w.Links {
			if l.Kind == desired.Port {
				wanted[l.Name] = true
			}
		}
	}
	for i := range d.actual.Namespaces {
		h := &d.actual.Namespaces[i]
		if h.Name == "" || !h.Ours {
			continue
		}
		for _, l := range h.Links {
			at := linkKey{h.Name, l.Name}
			if l.Name == "lo" || l.Ours || d.gone[at] || wanted[l.Name] || wantsLink(d.wanted(h.Name), l.Name) {
				continue
			}
			_, known := d.actual.Found.Ports[l.Name]
			if !known && d.wanted(h.Name) != nil {
				continue // somebody put it there, and the namespace stays
			}
			d.move(atLinkGone, l.Name, h.Name, "", "given back")
			d.void[linkKey{"", l.Name}] = made
			if !known {
				continue
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.actual.Found.Ports)) {
		if !wanted[name] {
			d.portBack(name, d.actual.Found.Ports[name])
		}
	}
}

// portBack restores what was on a port.
func (d *differ) portBack(name string, p Port) {
	if d.plan.Forget.Ports == nil {
		d.plan.Forget.Ports = map[string]Port{}
	}
	d.plan.Forget.Ports[name] = p
	moved := d.void[linkKey{"", name}] == made
	main := d.actual.namespace("")
	l := main.link(name)
	if moved {
		_, from := d.locate("", name)
		if from == nil {
			return
		}
		bare := *from
		bare.Up, bare.Master = false, ""
		l = &bare
	}
	if l == nil {
		return
	}
	if d.gone[linkKey{"", l.Master}] {
		bare := *l
		bare.Master = ""
		l = &bare
	}
	set := SetLink{Link: name, Old: attrsOf(l), Lost: d.lost("", name)}
	if p.MTU != 0 && p.MTU != l.MTU {
		set.New.MTU = p.MTU
	}
	// A port of the same name may be another one by now (USB): its address is its
	// own, unless we gave it one.
	if p.MAC != "" && p.MAC != l.MAC && d.gaveMAC(name, l.MAC) {
		set.New.MAC, set.Bounce = p.MAC, l.Up
	}
	if p.Master != l.Master && (p.Master == "" || d.exists(linkKey{"", p.Master})) {
		set.New.Master = &p.Master
	}
	if p.AddrGen != l.AddrGen && !moved {
		set.New.AddrGen = &p.AddrGen
	}
	if p.Up != l.Up {
		set.New.Up = &p.Up
	}
	if s, ok := setStep(set, "as it was found"); ok {
		d.add(atGiveBack, s)
	}
	for _, a := range p.Addrs {
		if moved || !slices.ContainsFunc(main.Addrs, func(x Addr) bool { return x.Link == name && x.Prefix == a.Prefix }) {
			at := atAddrBack
			if moved {
				at = atGiveBack
			}
			d.add(at, Step{Op: Add, Object: "address", Name: name, New: a.Prefix.String(), Why: "as it was found", Do: PutAddr{New: a}})
		}
	}
	if !p.Up {
		return
	}
	for _, r := range p.Routes {
		if d.competes(r) { // ours stands in its place: it is given back when that goes
			d.plan.Found.Routes = append(d.plan.Found.Routes, r)
			continue
		}
		d.routeBack(r, moved)
	}
}
